/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names and paths: bytes of any kind, any length, and which of several memcgs a path means. */
#include <limits.h>

#include "builder.h"
#include "check.h"

static void add_child(Records *r, uint64_t serial, uint64_t parent, uint32_t css, const char *name) {
        records_add_simple(r, serial, parent, css, name, 0, 0);
}

static Census *build(Records *r) {
        CensusOptions options = options_units(0);
        Census *c = census_of(r, &options);

        records_done(r);
        return c;
}

static uint64_t serial_at(const Census *c, const char *path) {
        uint32_t i = census_find_path(c, path, strlen(path));

        return i == CENSUS_NONE ? 0 : c->memcgs[i].serial;
}

static void assert_path(const Census *c, uint64_t serial, const char *expected) {
        size_t len = 0;
        char *path = census_path(c, census_find(c, serial), &len);

        assert_non_null(path);
        assert_string_equal(path, expected);
        assert_int_equal(len, strlen(expected));
        free(path);
}

static void test_which_one(_unused_ void **state) {
        Records r = {};
        Census *c;

        add_child(&r, 1, 0, STATE_LIVE, "");
        add_child(&r, 2, 1, STATE_DYING, "a"); /* the same name three times over */
        add_child(&r, 3, 2, STATE_DYING, "b"); /* only here */
        add_child(&r, 4, 2, STATE_DYING, "c");
        add_child(&r, 5, 1, STATE_DYING, "a");
        add_child(&r, 6, 5, STATE_DYING, "c");
        add_child(&r, 7, 5, STATE_CREATING, "c");
        add_child(&r, 8, 1, STATE_LIVE, "a");
        add_child(&r, 9, 8, STATE_CREATING, "c");
        add_child(&r, 10, 8, STATE_CREATING, "d");
        add_child(&r, 11, 8, STATE_CREATING, "d");
        add_child(&r, 12, 1, STATE_DYING, "a");
        add_child(&r, 13, 12, STATE_DYING, "e");
        add_child(&r, 14, 13, STATE_DYING, "f");
        add_child(&r, 15, 1, STATE_LIVE, "ab");
        add_child(&r, 16, 15, STATE_LIVE, "b");
        add_child(&r, 17, 15, STATE_DYING, "b");
        c = build(&r);

        assert_int_equal(serial_at(c, "/"), 1);
        assert_int_equal(serial_at(c, "///"), 1);
        assert_int_equal(serial_at(c, ""), 0);
        assert_int_equal(serial_at(c, "/a"), 8);
        assert_int_equal(serial_at(c, "a"), 8);
        assert_int_equal(serial_at(c, "//a//"), 8);
        assert_int_equal(serial_at(c, "/a/b"), 3);
        assert_int_equal(serial_at(c, "/a///b/"), 3);
        assert_int_equal(serial_at(c, "/a/c"), 6); /* of 4 and 6 the newest, rather than 7 or 9, which are not there yet */
        assert_int_equal(serial_at(c, "/a/d"), 11);
        assert_int_equal(serial_at(c, "/a/e/f"), 14);
        assert_int_equal(serial_at(c, "/a/e/f/g"), 0);
        assert_int_equal(serial_at(c, "/a/e/g"), 0);
        assert_int_equal(serial_at(c, "/ab"), 15);
        assert_int_equal(serial_at(c, "/ab/b"), 16);
        assert_int_equal(serial_at(c, "/abc"), 0);
        assert_int_equal(serial_at(c, "/b"), 0);
        assert_int_equal(serial_at(c, "/e"), 0);
        assert_int_equal(serial_at(c, "/A"), 0);
        assert_path(c, 1, "/");
        assert_path(c, 14, "/a/e/f");
        assert_path(c, 16, "/ab/b");
        census_free(c);
}

/* After a match deep down the search goes on at the right part of the path, however many slashes are in it. */
static void test_back_up(_unused_ void **state) {
        Records r = {};
        Census *c;

        add_child(&r, 1, 0, STATE_LIVE, "");
        add_child(&r, 2, 1, STATE_DYING, "a");
        add_child(&r, 3, 2, STATE_DYING, "bb");
        add_child(&r, 4, 3, STATE_DYING, "c");
        add_child(&r, 5, 4, STATE_DYING, "x");
        add_child(&r, 6, 2, STATE_DYING, "bb");
        add_child(&r, 7, 6, STATE_DYING, "c");
        add_child(&r, 8, 7, STATE_DYING, "dddd");
        add_child(&r, 9, 1, STATE_DYING, "a");
        add_child(&r, 10, 9, STATE_DYING, "bb");
        add_child(&r, 11, 10, STATE_DYING, "c");
        add_child(&r, 12, 1, STATE_LIVE, "a");
        c = build(&r);

        assert_int_equal(serial_at(c, "/a/bb/c/dddd"), 8);
        assert_int_equal(serial_at(c, "//a////bb//c///dddd/"), 8);
        assert_int_equal(serial_at(c, "/a//bb/c"), 11);
        assert_int_equal(serial_at(c, "a/bb"), 10);
        census_free(c);
}

static void test_bytes(_unused_ void **state) {
        char longest[256], path[300];
        Records r = {};
        Census *c;

        memset(longest, 'x', 255);
        longest[255] = '\0';
        add_child(&r, 1, 0, STATE_LIVE, "");
        add_child(&r, 2, 1, STATE_LIVE, "\xff\xfe\x01\x7f");
        add_child(&r, 3, 2, STATE_LIVE, "a\nb\\c\x1b[31m");
        add_child(&r, 4, 1, STATE_LIVE, longest);
        longest[254] = 'y';
        add_child(&r, 5, 1, STATE_LIVE, longest);
        add_child(&r, 6, 5, STATE_LIVE, "z");
        c = build(&r);

        assert_path(c, 3, "/\xff\xfe\x01\x7f/a\nb\\c\x1b[31m");
        assert_int_equal(serial_at(c, "/\xff\xfe\x01\x7f/a\nb\\c\x1b[31m"), 3);
        assert_int_equal(c->memcgs[3].name_len, 255);
        path[0] = '/';
        memcpy(path + 1, longest, 256);
        assert_path(c, 5, path);
        assert_int_equal(serial_at(c, path), 5);
        strcat(path, "z"); /* one byte too long for a name, and no way to the child */
        assert_int_equal(serial_at(c, path), 0);
        path[256] = '\0';
        path[255] = 'x';
        assert_int_equal(serial_at(c, path), 4);
        strcat(path, "x");
        assert_int_equal(serial_at(c, path), 0);
        census_free(c);
}

static void test_unknown_names(_unused_ void **state) {
        Records r = {};
        Census *c;

        add_child(&r, 1, 0, STATE_LIVE, "");
        records_add_memcg(&r, 2, 1, STATE_LIVE, "there/are", 9, 0);
        records_add_memcg(&r, 3, 2, STATE_LIVE, "a\0b", 3, 0);
        records_add_memcg(&r, 4, 3, STATE_LIVE, "hidden", 6, 0)->head.valid &= ~(uint32_t)SW_MEMCG_NAME;
        records_add_memcg(&r, 5, 4, STATE_LIVE, "", 0, 0);
        records_add_memcg(&r, 6, 5, STATE_LIVE, "known", 5, 0);
        c = build(&r);

        for (uint32_t i = 1; i < 5; i++) {
                assert_int_equal(c->memcgs[i].valid & SW_MEMCG_NAME, 0);
                assert_string_equal(census_name(c, i), CENSUS_NAME_UNKNOWN);
        }
        assert_int_equal(c->memcgs[5].valid & SW_MEMCG_NAME, SW_MEMCG_NAME);
        assert_path(c, 6, "/(unknown)/(unknown)/(unknown)/(unknown)/known");
        assert_int_equal(serial_at(c, "/(unknown)/(unknown)"), 3);
        /* The root's name is empty, and that is known. */
        assert_int_equal(c->memcgs[0].valid & SW_MEMCG_NAME, SW_MEMCG_NAME);
        census_free(c);
}

static void test_past_path_max(_unused_ void **state) {
        char name[256], *path;
        size_t len = 0;
        Records r = {};
        Census *c;

        memset(name, 'n', 255);
        name[255] = '\0';
        add_child(&r, 1, 0, STATE_LIVE, "");
        for (uint64_t i = 2; i <= 101; i++) {
                name[0] = (char)('a' + i % 26);
                add_child(&r, i, i - 1, STATE_LIVE, name);
        }
        c = build(&r);

        path = census_path(c, 100, &len);
        assert_non_null(path);
        assert_int_equal(len, 25600);
        assert_true(len > PATH_MAX);
        assert_int_equal(strlen(path), len);
        for (uint64_t i = 0; i < 100; i++) {
                assert_int_equal(path[i * 256], '/');
                assert_int_equal(path[i * 256 + 1], 'a' + (i + 2) % 26);
                assert_int_equal(path[i * 256 + 255], 'n');
        }
        assert_int_equal(census_find_path(c, path, len), 100);
        assert_int_equal(census_find_path(c, path, len - 256), 99);
        path[len / 2 + 1] = '!';
        assert_int_equal(census_find_path(c, path, len), CENSUS_NONE);
        free(path);
        census_free(c);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_which_one),     cmocka_unit_test(test_back_up),       cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_unknown_names), cmocka_unit_test(test_past_path_max),
        };

        return cmocka_run_group_tests_name("census-paths", tests, NULL, NULL);
}
