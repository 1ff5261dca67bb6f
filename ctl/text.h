/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Text for people: a growing string, numbers and sizes in it, names made safe for a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/util.h"

/* How the person at the other end wants to see things. */
typedef struct Format {
        bool bytes;  /* sizes as plain numbers of bytes */
        bool utf8;   /* the locale takes UTF-8; otherwise names are escaped down to ASCII */
        bool colour; /* stdout is a terminal and NO_COLOR is not set */
        bool terminal;
        bool redraws;   /* a terminal that understands more than lines: TERM is set and not "dumb" */
        unsigned width; /* columns of the terminal, 0 when stdout is none */
        unsigned lines; /* lines of the terminal, 0 when stdout is none */
} Format;

/* Looks at stdout, the locale and the environment. */
void format_detect(Format *ret, bool bytes);
/* Asks the terminal for its size again: it may have changed since. */
void format_measure(Format *format);

/*
 * A string that grows. Zero-initialised; text_done() frees it. When memory is out, failed is set and stays set, and further text is
 * dropped: look at it once at the end.
 */
typedef struct Text {
        char *s; /* NUL-terminated, NULL while nothing was added */
        size_t len, allocated;
        bool failed;
} Text;

void text_done(Text *t);
void text_clear(Text *t);            /* empty, keeps the memory */
const char *text_get(const Text *t); /* never NULL */
void text_add(Text *t, const char *format, ...) _printf_(2, 3);
void text_add_string(Text *t, const char *s);
/* Raw bytes of a name: controls and what is not UTF-8 escaped, and in a locale without UTF-8 all that is not ASCII. */
void text_add_name(Text *t, const Format *format, const char *bytes, size_t len);
/* "1.4G", "512B" for tables; "1.4 GiB", "512 bytes" for sentences; plain numbers when the format says so. */
void text_add_size(Text *t, const Format *format, uint64_t bytes);
void text_add_size_words(Text *t, const Format *format, uint64_t bytes);
/* As text_add_size(), with a sign. */
void text_add_size_delta(Text *t, const Format *format, int64_t bytes);
/* "1,009,512" for sentences. */
void text_add_count(Text *t, uint64_t n);
/* "1 unit", "1,512 units". */
void text_add_count_of(Text *t, uint64_t n, const char *one, const char *many);
/* "98 %"; "<1 %" and ">99 %" where rounding would say nothing or all. */
void text_add_percent(Text *t, uint64_t part, uint64_t whole);

/*
 * Adds s with lines longer than width columns broken between words; what goes on stands below the first word, behind the dash of a
 * list. A word that is longer than a line is left whole.
 */
void text_add_wrapped(Text *t, const char *s, size_t width);
/* Prints sentences on stdout in that way. 0: not broken. */
void text_print_wrapped(const char *s, size_t width);

/* Columns that the string takes on a terminal. */
size_t text_width(const char *s);
/*
 * Shortens s to at most width columns, "…" (or "...") in the place of what is left out: in the middle of a path, whose end tells most,
 * else at the end. Adds to t.
 */
void text_add_shortened(Text *t, const Format *format, const char *s, size_t width, bool path);

/*
 * A decimal number, nothing around it. Returns 0, -EINVAL for anything else, -ERANGE when it is not within min … max.
 */
int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);
