/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Numbers, sizes and shortened names, at the places where they are apt to be wrong. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "ctl/text.h"

static const Format human = { .utf8 = true }, plain = { .bytes = true }, ascii = {};

#define assert_text(want, call)                          \
        do {                                             \
                Text t = {};                             \
                call;                                    \
                assert_false(t.failed);                  \
                assert_string_equal(text_get(&t), want); \
                text_done(&t);                           \
        } while (false)

static void test_sizes(void **state) {
        static const struct {
                uint64_t bytes;
                const char *table, *words;
        } sizes[] = {
                { 0, "0B", "0 bytes" },
                { 1, "1B", "1 bytes" },
                { 1023, "1023B", "1023 bytes" },
                { 1024, "1.0K", "1.0 KiB" },
                { 1536, "1.5K", "1.5 KiB" },
                { 1024 * 1024 - 1, "1.0M", "1.0 MiB" }, /* not 1024.0K */
                { 1024 * 1024, "1.0M", "1.0 MiB" },
                { 1047527, "1023.0K", "1023.0 KiB" },
                { 155692564480ULL, "145.0G", "145.0 GiB" },
                { 1ULL << 60, "1.0E", "1.0 EiB" },
                { UINT64_MAX, "16.0E", "16.0 EiB" },
        };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                char bytes[32];

                assert_text(sizes[i].table, text_add_size(&t, &human, sizes[i].bytes));
                if (sizes[i].bytes != 1)
                        assert_text(sizes[i].words, text_add_size_words(&t, &human, sizes[i].bytes));
                snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)sizes[i].bytes);
                assert_text(bytes, text_add_size(&t, &plain, sizes[i].bytes));
        }
        assert_text("1 byte", text_add_size_words(&t, &human, 1));
        assert_text("+1.0K", text_add_size_delta(&t, &human, 1024));
        assert_text("-1.0K", text_add_size_delta(&t, &human, -1024));
        assert_text("0B", text_add_size_delta(&t, &human, 0));
        assert_text("-9223372036854775808", text_add_size_delta(&t, &plain, INT64_MIN));
}

static void test_counts(void **state) {
        (void)state;
        assert_text("0", text_add_count(&t, 0));
        assert_text("999", text_add_count(&t, 999));
        assert_text("1,000", text_add_count(&t, 1000));
        assert_text("12,345,678", text_add_count(&t, 12345678));
        assert_text("18,446,744,073,709,551,615", text_add_count(&t, UINT64_MAX));
        assert_text("1 unit", text_add_count_of(&t, 1, "unit", "units"));
        assert_text("0 units", text_add_count_of(&t, 0, "unit", "units"));

        assert_text("0 %", text_add_percent(&t, 0, 7));
        assert_text("0 %", text_add_percent(&t, 0, 0));
        assert_text("<1 %", text_add_percent(&t, 1, 1000000));
        assert_text("50 %", text_add_percent(&t, 1, 2));
        assert_text(">99 %", text_add_percent(&t, 999999, 1000000));
        assert_text("100 %", text_add_percent(&t, 7, 7));
}

static void test_parse(void **state) {
        static const char *const bad[] = { "", " ", "1 ", " 1", "+1", "-1", "0x1", "1e3", "1.0", "1,000", "one" };
        uint64_t n = 42;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(text_parse_u64(bad[i], 0, UINT64_MAX, &n), -EINVAL);
        assert_int_equal(text_parse_u64("18446744073709551616", 0, UINT64_MAX, &n), -ERANGE);
        assert_int_equal(text_parse_u64("0", 1, 10, &n), -ERANGE);
        assert_int_equal(text_parse_u64("11", 1, 10, &n), -ERANGE);
        assert_int_equal(n, 42); /* untouched on failure */
        assert_int_equal(text_parse_u64("18446744073709551615", 0, UINT64_MAX, &n), 0);
        assert_true(n == UINT64_MAX);
        assert_int_equal(text_parse_u64("007", 1, 10, &n), 0);
        assert_int_equal(n, 7);
}

static void test_names(void **state) {
        (void)state;
        assert_text("plain", text_add_name(&t, &human, "plain", 5));
        assert_text("a\\x0ab\\xff", text_add_name(&t, &human, "a\nb\xff", 4));
        assert_text("\\x2d", text_add_name(&t, &human, "\\x2d", 4));
        assert_text("gr\xc3\xbc", text_add_name(&t, &human, "gr\xc3\xbc", 4));
        assert_text("gr\\xc3\\xbc", text_add_name(&t, &ascii, "gr\xc3\xbc", 4));
        assert_text("", text_add_name(&t, &human, "", 0));
}

static void test_shortened(void **state) {
        (void)state;
        if (!setlocale(LC_ALL, "C.UTF-8"))
                skip();
        assert_int_equal(text_width("gr\xc3\xbc\xc3\x9f"), 4);
        assert_int_equal(text_width("\xe6\xbc\xa2\xe5\xad\x97"), 4); /* two wide ones */

        assert_text("/abcdefgh", text_add_shortened(&t, &human, "/abcdefgh", 9, true));
        assert_text("/a\xe2\x80\xa6"
                    "efgh",
                    text_add_shortened(&t, &human, "/abcdefgh", 7, true));
        assert_text("/abcde\xe2\x80\xa6", text_add_shortened(&t, &human, "/abcdefgh", 7, false));
        assert_text("/...fgh", text_add_shortened(&t, &ascii, "/abcdefgh", 7, true));

        /* Whatever is cut where, it never gets wider than asked for, and stays whole characters. */
        for (size_t width = 2; width < 20; width++)
                for (unsigned path = 0; path < 2; path++) {
                        Text t = {};

                        text_add_shortened(&t, &human,
                                           "/\xe6\xbc\xa2\xe5\xad\x97/gr\xc3\xbc\xc3\x9f"
                                           "e/\xe6\xbc\xa2/x\xe5\xad\x97z",
                                           width, path);
                        assert_in_range(text_width(text_get(&t)), 1, width);
                        assert_true(mbstowcs(NULL, text_get(&t), 0) != (size_t)-1);
                        text_done(&t);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sizes), cmocka_unit_test(test_counts),    cmocka_unit_test(test_parse),
                cmocka_unit_test(test_names), cmocka_unit_test(test_shortened),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
