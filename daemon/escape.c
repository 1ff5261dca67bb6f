/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "escape.h"

#include <stdint.h>

#include "util.h"

typedef struct Range {
        uint32_t first, last;
} Range;

/* Unicode's general category Cc. */
static const Range control[] = {
        { 0x00, 0x1f },
        { 0x7f, 0x9f },
};

/* Line and paragraph separators, and everything with the property Bidi_Control. */
static const Range rearranging[] = {
        { 0x061c, 0x061c },
        { 0x200e, 0x200f },
        { 0x2028, 0x202e }, /* the two separators, then embeddings and overrides */
        { 0x2066, 0x2069 },
};

/*
 * The well-formed sequences of Unicode's table 3-7. The bounds of the second byte are what keeps out overlong forms (e0, f0),
 * surrogates (ed) and what lies past U+10FFFF (f4); the later bytes are always 80–bf.
 */
static const struct {
        uint8_t first_min, first_max, len, second_min, second_max, mask;
} forms[] = {
        { 0x00, 0x7f, 1, 0x00, 0x00, 0x7f }, /* U+0000–U+007F */
        { 0xc2, 0xdf, 2, 0x80, 0xbf, 0x1f }, /* U+0080–U+07FF */
        { 0xe0, 0xe0, 3, 0xa0, 0xbf, 0x0f }, /* U+0800–U+0FFF */
        { 0xe1, 0xec, 3, 0x80, 0xbf, 0x0f }, /* U+1000–U+CFFF */
        { 0xed, 0xed, 3, 0x80, 0x9f, 0x0f }, /* U+D000–U+D7FF */
        { 0xee, 0xef, 3, 0x80, 0xbf, 0x0f }, /* U+E000–U+FFFF */
        { 0xf0, 0xf0, 4, 0x90, 0xbf, 0x07 }, /* U+10000–U+3FFFF */
        { 0xf1, 0xf3, 4, 0x80, 0xbf, 0x07 }, /* U+40000–U+FFFFF */
        { 0xf4, 0xf4, 4, 0x80, 0x8f, 0x07 }, /* U+100000–U+10FFFF */
};

static bool in_ranges(const Range *ranges, size_t n, uint32_t c) {
        for (size_t i = 0; i < n; i++)
                if (c >= ranges[i].first && c <= ranges[i].last)
                        return true;
        return false;
}

/* Length of the valid character at s, its code point in *ret; 0 when there is none. left > 0. */
static size_t decode(const uint8_t *s, size_t left, uint32_t *ret) {
        for (size_t i = 0; i < ELEMENTSOF(forms); i++) {
                uint32_t c;

                if (s[0] < forms[i].first_min || s[0] > forms[i].first_max)
                        continue;
                if (forms[i].len > left)
                        return 0;
                c = s[0] & forms[i].mask;
                for (size_t k = 1; k < forms[i].len; k++) {
                        uint8_t min = k == 1 ? forms[i].second_min : 0x80, max = k == 1 ? forms[i].second_max : 0xbf;

                        if (s[k] < min || s[k] > max)
                                return 0;
                        c = c << 6 | (s[k] & 0x3fU);
                }
                *ret = c;
                return forms[i].len;
        }
        return 0;
}

/* Bytes of the next piece at s: a character (*ret_raw true: to be shown as it is) or a byte that belongs to none. */
static size_t next_piece(const uint8_t *s, size_t left, unsigned flags, bool *ret_raw) {
        uint32_t c = 0;
        size_t n = decode(s, left, &c);

        if (n == 0) {
                *ret_raw = false;
                return 1;
        }
        *ret_raw = !in_ranges(control, ELEMENTSOF(control), c) &&
                   !((flags & ESCAPE_TERMINAL) && in_ranges(rearranging, ELEMENTSOF(rearranging), c));
        return n;
}

bool escape_needed(const char *s, size_t len, unsigned flags) {
        const uint8_t *p = (const uint8_t *)s;
        bool raw;

        for (size_t i = 0; i < len;) {
                i += next_piece(p + i, len - i, flags, &raw);
                if (!raw)
                        return true;
        }
        return false;
}

char *escape_text(const char *s, size_t len, unsigned flags, size_t *ret_len) {
        static const char digits[] = "0123456789abcdef";
        const uint8_t *p = (const uint8_t *)s;
        size_t n = 0, bytes = 0;
        char *text;
        bool raw;

        for (size_t i = 0, piece; i < len; i += piece) {
                piece = next_piece(p + i, len - i, flags, &raw);
                if (__builtin_add_overflow(bytes, raw ? piece : piece * 4, &bytes))
                        return NULL;
        }
        if (bytes == SIZE_MAX)
                return NULL;
        text = malloc(bytes + 1);
        if (!text)
                return NULL;

        for (size_t i = 0, piece; i < len; i += piece) {
                piece = next_piece(p + i, len - i, flags, &raw);
                for (size_t k = 0; k < piece; k++) {
                        if (raw) {
                                text[n++] = s[i + k];
                                continue;
                        }
                        text[n++] = '\\';
                        text[n++] = 'x';
                        text[n++] = digits[p[i + k] >> 4];
                        text[n++] = digits[p[i + k] & 15];
                }
        }
        text[n] = '\0';
        if (ret_len)
                *ret_len = n;
        return text;
}

char *base64_encode(const void *data, size_t len, size_t *ret_len) {
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const uint8_t *p = data;
        size_t n = 0;
        char *text;

        if (len > (SIZE_MAX - 1) / 4 * 3 - 2)
                return NULL;
        text = malloc((len + 2) / 3 * 4 + 1);
        if (!text)
                return NULL;

        for (size_t i = 0; i < len; i += 3) {
                uint32_t v = (uint32_t)p[i] << 16;

                if (i + 1 < len)
                        v |= (uint32_t)p[i + 1] << 8;
                if (i + 2 < len)
                        v |= p[i + 2];
                text[n++] = alphabet[v >> 18];
                text[n++] = alphabet[v >> 12 & 63];
                text[n++] = '=';
                text[n++] = '=';
                if (i + 1 < len)
                        text[n - 2] = alphabet[v >> 6 & 63];
                if (i + 2 < len)
                        text[n - 1] = alphabet[v & 63];
        }
        text[n] = '\0';
        if (ret_len)
                *ret_len = n;
        return text;
}
