/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Escaping against a second opinion on UTF-8: it encodes every code point, and takes for valid what is the encoding of one. Base64
 * against the vectors of RFC 4648 and a decoder.
 */
#include <stdio.h>
#include <string.h>

#include "builder.h"
#include "check.h"
#include "escape.h"

/* The encoding of a code point by its definition; 0 for surrogates and what is too high. */
static size_t encode(uint32_t c, uint8_t *out) {
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        if (c < 0x80) {
                out[0] = (uint8_t)c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (uint8_t)(0xc0 + c / 64);
                out[1] = (uint8_t)(0x80 + c % 64);
                return 2;
        }
        if (c < 0x10000) {
                out[0] = (uint8_t)(0xe0 + c / 4096);
                out[1] = (uint8_t)(0x80 + c / 64 % 64);
                out[2] = (uint8_t)(0x80 + c % 64);
                return 3;
        }
        out[0] = (uint8_t)(0xf0 + c / 262144);
        out[1] = (uint8_t)(0x80 + c / 4096 % 64);
        out[2] = (uint8_t)(0x80 + c / 64 % 64);
        out[3] = (uint8_t)(0x80 + c % 64);
        return 4;
}

/* Decodes by counting leading ones, then asks whether encoding gives the same bytes back. */
static size_t valid_at(const uint8_t *s, size_t left, uint32_t *ret) {
        size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
        static const uint8_t lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
        uint8_t again[4];
        uint32_t c;

        if (n == 0 || n > left)
                return 0;
        c = s[0] & lead[n];
        for (size_t i = 1; i < n; i++)
                c = c * 64 + (s[i] & 63);
        if (encode(c, again) != n || memcmp(again, s, n) != 0)
                return 0;
        *ret = c;
        return n;
}

static bool is_bidi_or_separator(uint32_t c) {
        static const uint32_t all[] = { 0x61c,  0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
                                        0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069 };

        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                if (c == all[i])
                        return true;
        return false;
}

static size_t naive(const uint8_t *s, size_t len, unsigned flags, char *out) {
        size_t n = 0;

        for (size_t i = 0; i < len;) {
                uint32_t c = 0;
                size_t k = valid_at(s + i, len - i, &c);
                bool raw = k > 0 && c >= 0x20 && !(c >= 0x7f && c < 0xa0);

                if (flags & ESCAPE_TERMINAL)
                        raw &= !is_bidi_or_separator(c);
                for (size_t end = i + (k ? k : 1); i < end; i++)
                        n += raw ? (out[n] = (char)s[i], 1U) : (size_t)sprintf(out + n, "\\x%02x", s[i]);
        }
        out[n] = '\0';
        return n;
}

/* In memory that ends with the bytes, so that a sanitizer sees a byte read too many. */
static void check(const uint8_t *bytes, size_t len, unsigned flags) {
        char expected[400], *exact = malloc(len ? len : 1), *text;
        size_t expected_len = naive(bytes, len, flags, expected), text_len = 4711;

        assert_non_null(exact);
        memcpy(exact, bytes, len);
        text = escape_text(exact, len, flags, &text_len);
        assert_non_null(text);
        assert_int_equal(text_len, expected_len);
        assert_memory_equal(text, expected, expected_len + 1);
        assert_int_equal(escape_needed(exact, len, flags), expected_len != len || memcmp(expected, bytes, len) != 0);
        /* What comes out needs nothing more. */
        assert_false(escape_needed(text, text_len, flags));
        free(text);
        free(exact);
}

static void test_short_strings(_unused_ void **state) {
        uint8_t s[2] = {};

        check(s, 0, 0);
        for (unsigned a = 0; a < 256; a++) {
                s[0] = (uint8_t)a;
                check(s, 1, 0);
                check(s, 1, ESCAPE_TERMINAL);
                for (unsigned b = 0; b < 256; b++) {
                        s[1] = (uint8_t)b;
                        check(s, 2, 0);
                }
        }
}

/* What the first two bytes decide, with the lowest and the highest bytes that can follow: all bounds of the table of forms. */
static void test_long_forms(_unused_ void **state) {
        static const uint8_t tails[][2] = { { 0x80, 0x80 }, { 0xbf, 0xbf }, { 0x7f, 0x80 }, { 0x80, 0xc0 } };

        for (unsigned a = 0xc0; a < 256; a++)
                for (unsigned b = 0x70; b < 0xd0; b++)
                        for (size_t t = 0; t < ELEMENTSOF(tails); t++) {
                                const uint8_t s[] = { (uint8_t)a, (uint8_t)b, tails[t][0], tails[t][1] };

                                check(s, 3, 0);
                                check(s, 4, 0);
                        }
}

/* Every code point that there is, and those that are none encoded as if they were. */
static void test_every_code_point(_unused_ void **state) {
        for (uint32_t c = 0; c <= 0x10ffff; c++) {
                bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
                uint8_t s[4];
                size_t n = encode(c, s);

                if (n == 0)
                        continue;
                if (escape_needed((const char *)s, n, 0) != control ||
                    escape_needed((const char *)s, n, ESCAPE_TERMINAL) != (control || is_bidi_or_separator(c)))
                        fail_msg("U+%04X", (unsigned)c);
        }
}

static void test_random(_unused_ void **state) {
        Random random = random_start(271828);

        for (size_t round = 0; round < 40000; round++) {
                uint8_t s[64 + 4];
                size_t len = 0, want = random_below(&random, 64);

                while (len < want) {
                        switch (random_below(&random, 5)) {
                        case 0:
                                s[len++] = (uint8_t)random_u64(&random);
                                break;
                        case 1:
                                s[len++] = (uint8_t)(0x80 + random_below(&random, 0x80));
                                break;
                        case 2:
                                s[len++] = (uint8_t)(0x20 + random_below(&random, 0x60));
                                break;
                        case 3:
                                len += encode((uint32_t)random_below(&random, 0x110000), s + len);
                                break;
                        case 4:
                                len += encode((uint32_t)random_below(&random, 0x3000), s + len);
                                if (len > 0 && random_once_in(&random, 3))
                                        len--; /* cut short */
                                break;
                        }
                }
                check(s, len, random_once_in(&random, 2) ? ESCAPE_TERMINAL : 0);
        }
}

static void test_known(_unused_ void **state) {
        static const struct {
                const char *raw, *plain, *terminal;
        } table[] = {
                { "system.slice", "system.slice", "system.slice" },
                { "machine-qemu\\x2d3\\x2dweb.scope", "machine-qemu\\x2d3\\x2dweb.scope", "machine-qemu\\x2d3\\x2dweb.scope" },
                { "Zürich/東京/🦀", "Zürich/東京/🦀", "Zürich/東京/🦀" },
                { "a\nb\tc\x1b[31m\x7f", "a\\x0ab\\x09c\\x1b[31m\\x7f", "a\\x0ab\\x09c\\x1b[31m\\x7f" },
                { "\xff\xfe", "\\xff\\xfe", "\\xff\\xfe" },
                { "caf\xe9", "caf\\xe9", "caf\\xe9" },                                                          /* Latin-1 */
                { "\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0" }, /* C1, no-break space */
                { "\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf" },           /* overlong slashes */
                { "\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80" },                                       /* a surrogate */
                { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80" },                         /* U+110000 */
                { "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },                                 /* U+10FFFF */
                { "\xe2\x82", "\\xe2\\x82", "\\xe2\\x82" },                                                     /* a euro sign cut short */
                { "\xe2\x82(", "\\xe2\\x82(", "\\xe2\\x82(" },
                { "a\u202ecils.b", "a\u202ecils.b", "a\\xe2\\x80\\xaecils.b" },
                { "a\u2028b\u2029", "a\u2028b\u2029", "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                size_t len = strlen(table[i].raw);
                char *plain = escape_text(table[i].raw, len, 0, NULL), *terminal = escape_text(table[i].raw, len, ESCAPE_TERMINAL, NULL);

                assert_string_equal(plain, table[i].plain);
                assert_string_equal(terminal, table[i].terminal);
                free(plain);
                free(terminal);
        }
        /* A NUL inside is a control like any other. */
        check((const uint8_t *)"a\0b", 3, 0);
}

static int digit_of(char c) {
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c ? strchr(alphabet, c) : NULL;

        return at ? (int)(at - alphabet) : -1;
}

static void test_base64(_unused_ void **state) {
        static const char *const vectors[][2] = {
                { "", "" },
                { "f", "Zg==" },
                { "fo", "Zm8=" },
                { "foo", "Zm9v" },
                { "foob", "Zm9vYg==" },
                { "fooba", "Zm9vYmE=" },
                { "foobar", "Zm9vYmFy" },
                { "\xfb\xff\xbf", "+/+/" },
        };
        Random random = random_start(64);
        size_t len;

        for (size_t i = 0; i < ELEMENTSOF(vectors); i++) {
                char *text = base64_encode(vectors[i][0], strlen(vectors[i][0]), &len);

                assert_string_equal(text, vectors[i][1]);
                assert_int_equal(len, strlen(text));
                free(text);
        }
        for (size_t round = 0; round < 3000; round++) {
                size_t n = random_below(&random, 100), at = 0;
                uint8_t bytes[100], *exact = malloc(n ? n : 1);
                char *text;

                assert_non_null(exact);
                for (size_t i = 0; i < n; i++)
                        bytes[i] = exact[i] = (uint8_t)random_u64(&random);
                text = base64_encode(exact, n, &len);
                assert_int_equal(len, (n + 2) / 3 * 4);
                for (size_t i = 0; i < len; i += 4) {
                        unsigned v = 0, pads = 0;

                        for (size_t k = 0; k < 4; k++) {
                                int d = digit_of(text[i + k]);

                                if (d < 0) {
                                        assert_int_equal(text[i + k], '=');
                                        pads++;
                                        d = 0;
                                } else
                                        assert_int_equal(pads, 0);
                                v = v * 64 + (unsigned)d;
                        }
                        for (size_t k = 0; k < 3 - pads; k++)
                                assert_int_equal(bytes[at++], v >> (16 - 8 * k) & 255);
                }
                assert_int_equal(at, n);
                free(text);
                free(exact);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_short_strings), cmocka_unit_test(test_long_forms), cmocka_unit_test(test_every_code_point),
                cmocka_unit_test(test_random),        cmocka_unit_test(test_known),      cmocka_unit_test(test_base64),
        };

        return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}
