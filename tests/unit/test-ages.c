/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ages: which of two times stays, what a census changes, the state file there and back and damaged. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The room itself, with memory that can run out: whatever grows an array below takes it from here. */
static unsigned allocations_left = UINT32_MAX;

static void *scarce_realloc(void *p, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left--;
        return realloc(p, size);
}

#define realloc scarce_realloc
#include "../../daemon/ages.c"
#undef realloc

#include "builder.h"
#include "check.h"

#define BOOT "d3b07384-d113-4ec6-a1b2-0123456789ab"
#define OTHER "d3b07384-d113-4ec6-a1b2-0123456789ac"

static Ages *new_ages(void) {
        Ages *a = NULL;

        assert_int_equal(ages_new(&a), 0);
        return a;
}

static void assert_age(const Ages *a, uint64_t serial, uint64_t boot_usec, bool exact) {
        Age age = {};

        assert_true(ages_get(a, serial, &age));
        assert_int_equal(age.serial, serial);
        assert_int_equal(age.boot_usec, boot_usec);
        assert_int_equal(age.exact, exact);
}

static void assert_none(const Ages *a, uint64_t serial) {
        Age age = { .serial = 4711 };

        assert_false(ages_get(a, serial, &age));
        assert_int_equal(age.serial, 4711);
}

static void test_put(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages();
        const Age *all;
        size_t n = 4711;

        assert_null(ages_free(NULL));
        assert_int_equal(ages_count(a), 0);
        (void)ages_all(a, &n);
        assert_int_equal(n, 0);
        assert_none(a, 1);
        assert_int_equal(ages_put(a, 0, 5, true), -EINVAL);
        assert_int_equal(ages_count(a), 0);

        assert_int_equal(ages_put(a, 7, 100, false), 1);
        assert_age(a, 7, 100, false);
        assert_int_equal(ages_put(a, 7, 100, false), 0);
        assert_int_equal(ages_put(a, 7, 101, false), 0); /* the earlier of two that are not exact */
        assert_age(a, 7, 100, false);
        assert_int_equal(ages_put(a, 7, 99, false), 1);
        assert_age(a, 7, 99, false);
        assert_int_equal(ages_put(a, 7, 200, true), 1); /* exact, though later */
        assert_age(a, 7, 200, true);
        assert_int_equal(ages_put(a, 7, 1, false), 0); /* earlier, but not exact */
        assert_age(a, 7, 200, true);
        assert_int_equal(ages_put(a, 7, 200, true), 0);
        assert_int_equal(ages_put(a, 7, 201, true), 0);
        assert_int_equal(ages_put(a, 7, 0, true), 1);
        assert_age(a, 7, 0, true);
        assert_int_equal(ages_count(a), 1);

        assert_int_equal(ages_put(a, UINT64_MAX, UINT64_MAX, false), 1);
        assert_int_equal(ages_put(a, 1, 3, true), 1);
        assert_int_equal(ages_put(a, 6, 4, false), 1);
        assert_int_equal(ages_put(a, 6, 5, true), 1); /* one that waits can change too */
        assert_int_equal(ages_count(a), 4);
        assert_none(a, 2);
        assert_none(a, UINT64_MAX - 1);
        all = ages_all(a, &n);
        assert_int_equal(n, 4);
        assert_int_equal(all[0].serial, 1);
        assert_int_equal(all[1].serial, 6);
        assert_int_equal(all[1].boot_usec, 5);
        assert_true(all[1].exact);
        assert_int_equal(all[2].serial, 7);
        assert_int_equal(all[3].serial, UINT64_MAX);
        assert_age(a, UINT64_MAX, UINT64_MAX, false);
}

/* Puts in any order against a table by serial. */
static void test_generated(_unused_ void **state) {
        enum { SERIALS = 6000 };
        static Age expected[SERIALS + 1];
        Random random = random_start(2718);

        for (unsigned round = 0; round < 10; round++) {
                _cleanup_(ages_freep) Ages *a = new_ages();
                size_t n = 0, count = 0;
                const Age *all;

                memset(expected, 0, sizeof(expected));
                for (unsigned i = 0; i < 12000; i++) {
                        uint64_t serial = 1 + random_below(&random, SERIALS), usec = random_below(&random, 50);
                        bool exact = random_once_in(&random, 3);
                        Age *e = &expected[serial];
                        int changed = e->serial == 0 || (exact && !e->exact) || (exact == e->exact && usec < e->boot_usec);

                        assert_int_equal(ages_put(a, serial, usec, exact), changed);
                        if (changed)
                                *e = (Age){ serial, usec, exact };
                        if (random_once_in(&random, 2000))
                                (void)ages_all(a, &n);
                }
                for (uint64_t serial = 1; serial <= SERIALS; serial++) {
                        if (expected[serial].serial == 0) {
                                assert_none(a, serial);
                                continue;
                        }
                        count++;
                        assert_age(a, serial, expected[serial].boot_usec, expected[serial].exact);
                }
                assert_int_equal(ages_count(a), count);
                all = ages_all(a, &n);
                assert_int_equal(n, count);
                for (size_t i = 0; i < n; i++) {
                        assert_true(i == 0 || all[i].serial > all[i - 1].serial);
                        assert_int_equal(all[i].boot_usec, expected[all[i].serial].boot_usec);
                }
        }
}

/* A census of a root, serial 1, and memcgs below it: L, D, C, or "-" for one that is not there; the first has the serial 2. */
static Census *census_from(const char *states) {
        CensusOptions options = options_units(0);
        Records walk = {};
        Census *c;

        records_add_simple(&walk, 1, 0, STATE_LIVE, "", 0, 0);
        for (uint64_t i = 0; states[i]; i++)
                if (states[i] != '-')
                        records_add_simple(&walk, 2 + i, 1,
                                           states[i] == 'L' ? STATE_LIVE :
                                           states[i] == 'D' ? STATE_DYING :
                                                              STATE_CREATING,
                                           "x", 0, 0);
        c = census_of(&walk, &options);
        records_done(&walk);
        return c;
}

static void test_observe(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages();
        _cleanup_(freep) Age *came = NULL;
        _cleanup_(freep) uint64_t *gone = NULL;
        size_t n_came = 4711, n_gone = 4711;
        Census *c;

        ages_put(a, 2, 50, true);   /* goes on dying */
        ages_put(a, 4, 60, true);   /* live in the census, an event of before it: whatever that was, it is not dying */
        ages_put(a, 9, 1001, true); /* not in the census yet: it was made, and died, after the census began */
        ages_put(a, 8, 1000, true); /* at its very beginning is not later */
        ages_put(a, 6, 70, false);  /* in the making again */
        ages_put(a, 7, 2000, true); /* live when the census passed, died then */
        c = census_from("DDLDCL--");
        assert_int_equal(ages_observe(a, c, true, 1000, &came, &n_came, &gone, &n_gone), 0);
        assert_int_equal(n_came, 2);
        assert_int_equal(came[0].serial, 3);
        assert_int_equal(came[0].boot_usec, 1000);
        assert_false(came[0].exact);
        assert_int_equal(came[1].serial, 5);
        assert_int_equal(n_gone, 3);
        assert_int_equal(gone[0], 4);
        assert_int_equal(gone[1], 6);
        assert_int_equal(gone[2], 8);
        assert_int_equal(ages_count(a), 5);
        assert_age(a, 2, 50, true);
        assert_age(a, 3, 1000, false);
        assert_age(a, 5, 1000, false);
        assert_age(a, 7, 2000, true);
        assert_age(a, 9, 1001, true);
        census_free(c);

        /* The next one: the same are dying, the same times stay. */
        free(came);
        free(gone);
        c = census_from("DD-D-D-D");
        assert_int_equal(ages_observe(a, c, true, 3000, &came, &n_came, &gone, &n_gone), 0);
        assert_int_equal(n_came, 0);
        assert_int_equal(n_gone, 0);
        assert_age(a, 3, 1000, false);
        assert_int_equal(ages_count(a), 5);
        /* The event of one that a census met first comes late, and is exact. */
        assert_int_equal(ages_put(a, 3, 900, true), 1);
        census_free(c);

        /* Not complete: it takes what it sees and drops nothing. All outputs may be NULL. */
        c = census_from("-------D-D");
        assert_int_equal(ages_observe(a, c, false, 4000, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(ages_count(a), 6);
        assert_age(a, 11, 4000, false);
        assert_int_equal(ages_observe(a, c, true, 4000, NULL, NULL, NULL, NULL), 0);
        assert_int_equal(ages_count(a), 2);
        assert_age(a, 9, 1001, true);
        assert_age(a, 11, 4000, false);
        census_free(c);

        /* Nothing is dying any more. */
        c = census_from("");
        assert_int_equal(ages_observe(a, c, true, 5000, NULL, &n_came, NULL, &n_gone), 0);
        assert_int_equal(n_came, 0);
        assert_int_equal(n_gone, 2);
        assert_int_equal(ages_count(a), 0);
        census_free(c);
}

static void test_observe_refuses(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages();
        CensusOptions options = options_units(0);
        Age *came = (Age *)&options;
        uint64_t *gone = (uint64_t *)&options;
        size_t n_came = 4711, n_gone = 4711;
        char states[101] = {};
        Census *c = NULL;
        int r;

        assert_int_equal(census_new(&c, &options), 0);
        assert_int_equal(ages_observe(a, c, true, 1, &came, &n_came, &gone, &n_gone), -EINVAL);
        census_free(c);

        /* Memory runs out at every place it can. */
        for (uint64_t i = 0; i < 100; i++) {
                states[i] = i % 2 ? 'D' : 'L';
                if (i % 2 == 0)
                        assert_int_equal(ages_put(a, 2 + i, 5, true), 1);
        }
        c = census_from(states);
        for (unsigned k = 0;; k++) {
                allocations_left = k;
                r = ages_observe(a, c, true, 10, &came, &n_came, &gone, &n_gone);
                allocations_left = UINT32_MAX;
                if (r == 0)
                        break;
                assert_int_equal(r, -ENOMEM);
                assert_ptr_equal(came, &options);
                assert_ptr_equal(gone, &options);
                assert_int_equal(n_came, 4711);
                assert_int_equal(n_gone, 4711);
                assert_int_equal(ages_count(a), 50);
                for (uint64_t i = 0; i < 100; i += 2)
                        assert_age(a, 2 + i, 5, true);
                assert_true(k < 100);
        }
        assert_int_equal(n_came, 50);
        assert_int_equal(n_gone, 50);
        free(came);
        free(gone);
        census_free(c);

        /* So does a put, and what is there stays. */
        allocations_left = 0;
        r = 1;
        for (uint64_t serial = 1000; r == 1; serial++)
                r = ages_put(a, serial, 5, true);
        assert_int_equal(r, -ENOMEM);
        assert_int_equal(ages_put(a, 3, 4, false), 1);
        allocations_left = UINT32_MAX;
        assert_age(a, 3, 4, false);
        assert_age(a, 1000, 5, true);
}

static char *write_text(const Ages *a, const char *boot_id, size_t *ret_len) {
        char *text = NULL;
        FILE *f = open_memstream(&text, ret_len);

        assert_non_null(f);
        assert_int_equal(ages_write(a, f, boot_id), 0);
        assert_int_equal(fclose(f), 0);
        return text;
}

static void test_write(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages(), *b = new_ages();
        _cleanup_(freep) char *text = NULL, *empty = NULL, *again = NULL;
        unsigned line = 4711;
        size_t len = 0;
        FILE *f;

        empty = write_text(a, BOOT, &len);
        assert_string_equal(empty, "shrinkwatch-ages 1 " BOOT "\nend 0\n");
        assert_int_equal(ages_parse(a, empty, len, BOOT, &line), 0);

        ages_put(a, 415, 9000000000, false);
        ages_put(a, 412, 8812345678, true);
        ages_put(a, UINT64_MAX, UINT64_MAX, true);
        text = write_text(a, BOOT, &len);
        assert_string_equal(text, "shrinkwatch-ages 1 " BOOT "\n"
                                  "412 8812345678 exact\n"
                                  "415 9000000000 since\n"
                                  "18446744073709551615 18446744073709551615 exact\n"
                                  "end 3\n");
        assert_int_equal(ages_parse(b, text, len, BOOT, NULL), 3);
        again = write_text(b, BOOT, &len);
        assert_string_equal(again, text);
        assert_int_equal(line, 4711);

        f = fopen("/dev/full", "we");
        assert_non_null(f);
        assert_int_equal(ages_write(a, f, BOOT), -EIO);
        (void)fclose(f);
}

static int parse(Ages *a, const char *text, unsigned *ret_line) {
        /* In memory that ends with it. */
        size_t len = strlen(text);
        char *exact = malloc(len ? len : 1);
        int r;

        assert_non_null(exact);
        memcpy(exact, text, len);
        *ret_line = 4711;
        r = ages_parse(a, exact, len, BOOT, ret_line);
        free(exact);
        return r;
}

#define HEAD "shrinkwatch-ages 1 " BOOT "\n"

static void test_parse_damaged(_unused_ void **state) {
        static const struct {
                const char *text;
                unsigned line;
                size_t entries; /* that are taken all the same */
        } damaged[] = {
                { "", 1, 0 },
                { "\n", 1, 0 },
                { "shrinkwatch-ages", 1, 0 },
                { "shrinkwatch-ages\nend 0\n", 1, 0 },
                { "shrinkwatch-ages 1\nend 0\n", 1, 0 },
                { "shrinkwatch-ages 1 \nend 0\n", 1, 0 },
                { "shrinkwatch-ages 1  " BOOT "\nend 0\n", 1, 0 },
                { "shrinkwatch-ages 1 " BOOT, 1, 0 },
                { "shrinkwatch-ages 2 " BOOT "\nend 0\n", 1, 0 },
                { "shrinkwatch-ages x " BOOT "\nend 0\n", 1, 0 },
                { "shrinkwatch-findings 1 " BOOT "\nend 0\n", 1, 0 },
                { " " HEAD "end 0\n", 1, 0 },
                { "\xff\xfe\x80\n", 1, 0 },
                { HEAD, 2, 0 },
                { HEAD "7 8 exact\n", 3, 1 },
                { HEAD "7 8 exact\nend 1", 3, 1 }, /* may have been "end 12" */
                { HEAD "7 8 exact\nend\n", 3, 1 },
                { HEAD "7 8 exact\nend \n", 3, 1 },
                { HEAD "7 8 exact\nend 0\n", 3, 1 },
                { HEAD "7 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\nend 1\n9 8 exact\n", 4, 1 },
                { HEAD "7 8 exact\nend 1\n\n", 4, 1 },
                { HEAD "7 8 exact\n9 8 exac", 3, 1 },
                { HEAD "7 8 exact\n9 8 exac\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9 8 \nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9 8\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n\nend 1\n", 3, 1 },
                { HEAD "7 8 exact\n0 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n-9 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n+9 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9  8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n 9 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n0x9 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9 8 exact\r\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n\xc3 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n18446744073709551616 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n18446744073709551620 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n18446744073709551617 8 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9 99999999999999999999 exact\nend 2\n", 3, 1 },
                { HEAD "7 8 exact\n9  exact\nend 2\n", 3, 1 },
                { HEAD "end \n", 2, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(damaged); i++) {
                _cleanup_(ages_freep) Ages *a = new_ages();
                unsigned line;

                assert_int_equal(parse(a, damaged[i].text, &line), -EBADMSG);
                assert_int_equal(line, damaged[i].line);
                assert_int_equal(ages_count(a), damaged[i].entries);
                if (damaged[i].entries > 0)
                        assert_age(a, 7, 8, true);
        }
}

static void test_parse_good(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages();
        static const char nul[] = HEAD "7 8 exact\n9\0 8 exact\nend 2\n";
        unsigned line;

        /* A later daemon's words are ignored. */
        assert_int_equal(parse(a,
                               "shrinkwatch-ages 1 " BOOT " by 9.1\n"
                               "7 8 exact reparented=no\n"
                               "9 10 since \xff\n"
                               "5 1 since \n"
                               "end 3 sum 77\n",
                               &line),
                         3);
        assert_int_equal(line, 4711);
        assert_age(a, 7, 8, true);
        assert_age(a, 9, 10, false);
        assert_age(a, 5, 1, false);

        /* Into the entries there are, as ages_put() does; the number is that of the lines. */
        assert_int_equal(parse(a, HEAD "7 9 exact\n9 20 exact\n11 5 since\n11 4 since\nend 4\n", &line), 4);
        assert_int_equal(ages_count(a), 4);
        assert_age(a, 7, 8, true);
        assert_age(a, 9, 20, true);
        assert_age(a, 11, 4, false);

        /* A NUL is a byte like others, and ends nothing. */
        assert_int_equal(ages_parse(a, nul, sizeof(nul) - 1, BOOT, &line), -EBADMSG);
        assert_int_equal(line, 3);
        assert_int_equal(ages_parse(a, NULL, 0, BOOT, &line), -EBADMSG);
        assert_int_equal(line, 1);
}

static void test_parse_boot(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages(), *b = new_ages();
        _cleanup_(freep) char *unknown = NULL;
        const char *text = HEAD "7 8 exact\nend 1\n";
        unsigned line = 4711;
        size_t len = 0;

        assert_int_equal(ages_parse(a, text, strlen(text), OTHER, &line), -ESTALE);
        /* Also when the rest is damaged: it is nothing to us. */
        assert_int_equal(ages_parse(a, text, strlen(text) - 1, OTHER, &line), -ESTALE);
        /* Two boots that are not known are not known to be one. */
        ages_put(b, 7, 8, true);
        unknown = write_text(b, "", &len);
        assert_string_equal(unknown, "shrinkwatch-ages 1 -\n7 8 exact\nend 1\n");
        assert_int_equal(ages_parse(a, unknown, len, "", &line), -ESTALE);
        assert_int_equal(ages_parse(a, unknown, len, BOOT, &line), -ESTALE);
        assert_int_equal(ages_parse(a, text, strlen(text), "", &line), -ESTALE);
        assert_int_equal(line, 4711);
        assert_int_equal(ages_count(a), 0);

        /* Memory runs out. */
        allocations_left = 0;
        assert_int_equal(ages_parse(a, text, strlen(text), BOOT, &line), -ENOMEM);
        allocations_left = UINT32_MAX;
        assert_int_equal(line, 4711);
}

/* A good file cut off anywhere: never taken for a whole one, and everything before the cut is there. */
static void test_parse_cut(_unused_ void **state) {
        _cleanup_(ages_freep) Ages *a = new_ages();
        _cleanup_(freep) char *text = NULL;
        size_t len = 0;

        for (uint64_t i = 1; i <= 30; i++)
                ages_put(a, i * 977, i * i * 1000003, i % 3 == 0);
        text = write_text(a, BOOT, &len);
        for (size_t cut_at = 0; cut_at < len; cut_at++) {
                _cleanup_(ages_freep) Ages *b = new_ages();
                unsigned line = 0, newlines = 0;

                for (size_t i = 0; i < cut_at; i++)
                        newlines += text[i] == '\n';
                assert_int_equal(ages_parse(b, text, cut_at, BOOT, &line), -EBADMSG);
                assert_int_equal(line, newlines + 1);
                assert_int_equal(ages_count(b), newlines ? newlines - 1 : 0);
        }
}

static uint64_t cpu_usec(void) {
        struct timespec t = {};

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* 200,000: what CPU time it takes is printed, not asserted. Were it quadratic, the test would not end in time. */
static void test_many(_unused_ void **state) {
        enum { MANY = 200000 };
        _cleanup_(ages_freep) Ages *a = new_ages(), *b = new_ages();
        _cleanup_(freep) char *states = calloc(1, MANY + 1), *text = NULL;
        uint64_t start = cpu_usec(), put, observed, written, parsed;
        size_t n_came = 0, n_gone = 0, len = 0;
        Census *c;

        assert_non_null(states);
        /* Half of them, those with even serials, in an order that jumps about (7,919 has no factor in common with MANY). */
        for (uint64_t i = 0; i < MANY / 2; i++)
                assert_int_equal(ages_put(a, 2 + i * 7919 % (MANY / 2) * 2, i, true), 1);
        put = cpu_usec();
        memset(states, 'D', MANY);
        c = census_from(states);
        start += cpu_usec() - put;
        put = cpu_usec();
        assert_int_equal(ages_observe(a, c, true, MANY, NULL, &n_came, NULL, &n_gone), 0);
        observed = cpu_usec();
        assert_int_equal(n_came, MANY / 2);
        assert_int_equal(n_gone, 0);
        text = write_text(a, BOOT, &len);
        written = cpu_usec();
        assert_int_equal(ages_parse(b, text, len, BOOT, NULL), MANY);
        parsed = cpu_usec();
        assert_int_equal(ages_count(b), MANY);
        for (uint64_t i = 0; i < MANY / 2; i += 997) {
                assert_age(b, 2 + i * 7919 % (MANY / 2) * 2, i, true);
                assert_age(b, 3 + i * 2, MANY, false);
        }
        printf("# %d entries: put half of them %" PRIu64 " us, observe %" PRIu64 " us, write %" PRIu64 " us, parse %" PRIu64
               " us, %zu bytes\n",
               MANY, put - start, observed - put, written - observed, parsed - written, len);
        census_free(c);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_put),
                cmocka_unit_test(test_generated),
                cmocka_unit_test(test_observe),
                cmocka_unit_test(test_observe_refuses),
                cmocka_unit_test(test_write),
                cmocka_unit_test(test_parse_damaged),
                cmocka_unit_test(test_parse_good),
                cmocka_unit_test(test_parse_boot),
                cmocka_unit_test(test_parse_cut),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests_name("ages", tests, NULL, NULL);
}
