/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Subtrees: what a path, a unit, a machine costs, with what remains of it. */
#include "builder.h"
#include "check.h"
#include "subtree.h"

/*
 *   1 /
 *   2   system.slice
 *   3     a.service              dying, slots 5
 *   4       inner                dying below it, 7
 *   5     a.service              live, 11
 *   6       x                    live, 13
 *   7     a.service.d            live, 17
 *   8   machine.slice
 *   9     machine-web\x2d1.scope live, 19
 *  10       payload              dying, 23
 *  11   a.service                dying: moved elsewhere, the same unit, 29
 *  12   system.slice             dying, the same path as 2, 31
 */
typedef struct Fixture {
        Reading reading;
        Ages *ages;
        Records records;
} Fixture;

static void setup(Fixture *f) {
        static const struct {
                uint64_t serial, parent;
                uint32_t css, slots;
                const char *name;
        } memcgs[] = {
                { 1, 0, STATE_LIVE, 3, "" },
                { 2, 1, STATE_LIVE, 3, "system.slice" },
                { 3, 2, STATE_DYING, 5, "a.service" },
                { 4, 3, STATE_DYING, 7, "inner" },
                { 5, 2, STATE_LIVE, 11, "a.service" },
                { 6, 5, STATE_LIVE, 13, "x" },
                { 7, 2, STATE_LIVE, 17, "a.service.d" },
                { 8, 1, STATE_LIVE, 3, "machine.slice" },
                { 9, 8, STATE_LIVE, 19, "machine-web\\x2d1.scope" },
                { 10, 9, STATE_DYING, 23, "payload" },
                { 11, 1, STATE_DYING, 29, "a.service" },
                { 12, 1, STATE_DYING, 31, "system.slice" },
        };
        CensusOptions options = options_units(1);

        *f = (Fixture){};
        for (size_t i = 0; i < ELEMENTSOF(memcgs); i++)
                records_add_simple(&f->records, memcgs[i].serial, memcgs[i].parent, memcgs[i].css, memcgs[i].name, 1, memcgs[i].slots);
        f->reading.census = census_of(&f->records, &options);
        assert_int_equal(pins_new(&f->reading.pins, f->reading.census, 4096), 0);
        assert_int_equal(pins_seal(f->reading.pins, true), 0);
        assert_int_equal(ages_new(&f->ages), 0);
        assert_int_equal(ages_put(f->ages, 4, 700, true), 1);
        assert_int_equal(ages_put(f->ages, 11, 300, false), 1);
}

static void done(Fixture *f) {
        ages_free(f->ages);
        pins_free(f->reading.pins);
        census_free(f->reading.census);
        records_done(&f->records);
}

/* Of these serials, with all below each. */
static void assert_sum(const Fixture *f, const SubtreeSum *s, const uint64_t *serials, size_t n) {
        uint64_t units = 0, overhead = 0, dying = 0, dying_units = 0, memcgs = 0, live = 0;
        const Census *c = f->reading.census;

        for (size_t i = 0; i < n; i++) {
                const CensusMemcg *m = c->memcgs + census_find(c, serials[i]);

                memcgs++;
                units += m->units;
                overhead += census_overhead(m);
                live += m->state == CENSUS_LIVE;
                if (m->state == CENSUS_DYING) {
                        dying++;
                        dying_units += m->units;
                }
        }
        assert_true(s->memcgs == memcgs);
        assert_true(s->live_memcgs == live);
        assert_true(s->dying == dying);
        assert_true(s->units == units);
        assert_true(s->units_dying == dying_units);
        assert_true(s->overhead_bytes == overhead);
}

#define ASSERT_SUM(f, s, ...) assert_sum(f, s, (const uint64_t[]){ __VA_ARGS__ }, ELEMENTSOF(((const uint64_t[]){ __VA_ARGS__ })))

static SubtreeSum sum_path(const Fixture *f, const char *path) {
        SubtreeSum s = {};

        assert_int_equal(subtree_sum_path(&f->reading, f->ages, path, strlen(path), &s), 0);
        return s;
}

static uint64_t live_serial(const Fixture *f, const SubtreeSum *s) {
        return s->live == CENSUS_NONE ? 0 : f->reading.census->memcgs[s->live].serial;
}

static void test_paths(_unused_ void **state) {
        SubtreeSum s;
        Fixture f;

        setup(&f);
        s = sum_path(&f, "/system.slice/a.service");
        assert_int_equal(s.tops, 2);
        assert_int_equal(live_serial(&f, &s), 5);
        ASSERT_SUM(&f, &s, 3, 4, 5, 6);
        assert_int_equal(s.oldest_serial, 4);
        assert_int_equal(s.oldest_boot_usec, 700);
        assert_true(s.oldest_exact);

        s = sum_path(&f, "system.slice//a.service/");
        ASSERT_SUM(&f, &s, 3, 4, 5, 6);
        s = sum_path(&f, "/system.slice"); /* the dying one of the same path counts, whatever is not in it now */
        assert_int_equal(s.tops, 2);
        assert_int_equal(live_serial(&f, &s), 2);
        ASSERT_SUM(&f, &s, 2, 3, 4, 5, 6, 7, 12);
        s = sum_path(&f, "/system.slice/a.service/inner");
        assert_int_equal(live_serial(&f, &s), 0);
        ASSERT_SUM(&f, &s, 4);
        s = sum_path(&f, "/");
        ASSERT_SUM(&f, &s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
        assert_int_equal(s.oldest_serial, 11);
        assert_false(s.oldest_exact);
        assert_true(s.writeback_known);

        for (size_t i = 0; i < 3; i++) {
                static const char *const none[] = { "/system.slice/a.servic", "/system.slice/a.service/x/y", "/x" };

                s = sum_path(&f, none[i]);
                assert_int_equal(s.tops, 0);
                assert_int_equal(s.memcgs, 0);
                assert_int_equal(s.oldest_serial, 0);
        }
        done(&f);
}

static void test_names(_unused_ void **state) {
        SubtreeSum s = {};
        Fixture f;

        setup(&f);
        assert_int_equal(subtree_sum_unit(&f.reading, f.ages, "a.service", &s), 0);
        assert_int_equal(s.tops, 3);
        assert_int_equal(live_serial(&f, &s), 5);
        ASSERT_SUM(&f, &s, 3, 4, 5, 6, 11);
        assert_int_equal(subtree_sum_unit(&f.reading, NULL, "system.slice", &s), 0);
        ASSERT_SUM(&f, &s, 2, 3, 4, 5, 6, 7, 12);
        assert_int_equal(s.oldest_serial, 0); /* nobody knows */
        assert_int_equal(subtree_sum_machine(&f.reading, f.ages, "web-1", &s), 0);
        ASSERT_SUM(&f, &s, 9, 10);
        assert_int_equal(subtree_sum_machine(&f.reading, f.ages, "web\\x2d1", &s), 0);
        ASSERT_SUM(&f, &s, 9, 10);
        for (size_t i = 0; i < 4; i++) {
                static const char *const none[] = { "", "web", "web-1x", "web-" };

                assert_int_equal(subtree_sum_machine(&f.reading, f.ages, none[i], &s), 0);
                assert_int_equal(s.tops, 0);
        }
        assert_int_equal(subtree_sum_unit(&f.reading, f.ages, "", &s), 0);
        assert_int_equal(s.tops, 0);
        done(&f);
}

static void test_find(_unused_ void **state) {
        uint32_t *memcgs = NULL;
        size_t n;
        Fixture f;

        setup(&f);
        assert_int_equal(subtree_find(f.reading.census, "/system.slice/a.service", 23, &memcgs, &n), 0);
        assert_int_equal(n, 2);
        assert_int_equal(f.reading.census->memcgs[memcgs[0]].serial, 3);
        assert_int_equal(f.reading.census->memcgs[memcgs[1]].serial, 5);
        free(memcgs);
        assert_int_equal(subtree_find(f.reading.census, "///", 3, &memcgs, &n), 0);
        assert_int_equal(n, 1);
        free(memcgs);
        done(&f);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_names), cmocka_unit_test(test_find) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
