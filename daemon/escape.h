/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Escaping: raw bytes of a name or path → what people and JSON see. Pure.
 *
 * Valid UTF-8 passes unchanged, a literal backslash too. Each byte of a control character (U+0000–U+001F, U+007F–U+009F) and each byte
 * that is not part of valid UTF-8 becomes a backslash, "x" and two lower-case hex digits. Valid is what RFC 3629 says: no overlong
 * forms, no surrogates, nothing above U+10FFFF. The result is valid UTF-8. It cannot be turned back where a name holds a backslash: the
 * raw bytes go beside it, as base64.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        /*
         * For a terminal, escape also what is no control character but changes where or in which order text stands: the line and
         * paragraph separators (U+2028, U+2029) and the marks, embeddings, overrides and isolates of bidirectional text (U+061C,
         * U+200E, U+200F, U+202A–U+202E, U+2066–U+2069). A cgroup's name is chosen by whoever it is delegated to: it must not
         * rearrange the line that tells about it. JSON goes without: its rule is the one above.
         */
        ESCAPE_TERMINAL = 1U << 0,
};

/* Whether escape_text() would change anything. flags: ESCAPE_*. */
bool escape_needed(const char *s, size_t len, unsigned flags);
/* Newly allocated and NUL-terminated, its length in *ret_len (may be NULL); NULL when memory is out. */
char *escape_text(const char *s, size_t len, unsigned flags, size_t *ret_len);

/* RFC 4648, with padding, no line breaks. Newly allocated and NUL-terminated, *ret_len may be NULL; NULL when memory is out. */
char *base64_encode(const void *data, size_t len, size_t *ret_len);
