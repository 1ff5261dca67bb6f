/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The census of large trees: as deep and as wide as the limits that are promised. What it takes is printed, not asserted: a machine is
 * as slow as it is. That it is not quadratic shows all the same, the test would not end in time.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#include "builder.h"
#include "check.h"
#include "estimate.h"
#include "pins.h"

static uint64_t now_usec(void) {
        struct timespec t = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static size_t heap_bytes(void) {
        struct mallinfo2 m = mallinfo2();

        return m.uordblks + m.hblkhd;
}

/* Records without the copies of records_feed(): the copies would be what is measured. */
static int feed_fast(Census *c, const Records *r) {
        int k = 0;

        for (size_t at = 0; at < r->len && k == 0;) {
                const struct sw_head *head = (const struct sw_head *)(r->bytes + at);

                k = census_add(c, head);
                at += head->size;
        }
        return k;
}

static Census *build(const Records *r, const char *what) {
        CensusOptions options = options_units(1);
        size_t before = heap_bytes();
        uint64_t start, added, sealed;
        Census *c = NULL;

        options.alloc = alloc_size_class;
        start = now_usec();
        assert_int_equal(census_new(&c, &options), 0);
        assert_int_equal(feed_fast(c, r), 0);
        added = now_usec();
        assert_int_equal(census_seal(c), 0);
        sealed = now_usec();
        printf("# %s: %zu memcgs, add %" PRIu64 " us, seal %" PRIu64 " us, heap %zu KiB\n", what, c->n_memcgs, added - start,
               sealed - added, (heap_bytes() - before) / 1024);
        return c;
}

/* Below 100 slices live ones, each with as many dying ones; serials interleaved over the slices, as on a host where all work at once. */
static void make_wide(Records *r, uint32_t memcgs) {
        const uint32_t slices = 100, each = (memcgs - 1) / slices - 1;
        char name[64];

        records_add_simple(r, 1, 0, STATE_LIVE, "", 1, 126);
        for (uint32_t i = 0; i < slices; i++) {
                snprintf(name, sizeof(name), "slice-%u.slice", (unsigned)i);
                records_add_simple(r, 2 + i, 1, STATE_LIVE, name, 1, 126);
                for (uint32_t k = 0; k < each; k++) {
                        uint64_t serial = 1000 + (uint64_t)k * slices + i;

                        snprintf(name, sizeof(name), "run-r%08x.scope", (unsigned)serial);
                        records_add_simple(r, serial, 2 + i, k % 2 ? STATE_DYING : STATE_LIVE, name, 1, 126);
                }
        }
}

static void check_wide(uint32_t memcgs, const char *what) {
        const uint32_t each = (memcgs - 1) / 100 - 1;
        uint64_t start, unexplained = 0;
        EstimateLists *lists = NULL;
        Estimate e = {};
        Records r = {};
        Pins *pins = NULL;
        Census *c;

        make_wide(&r, memcgs);
        c = build(&r, what);
        records_done(&r);
        assert_int_equal(c->n_memcgs, 1 + 100 * (1 + each));
        assert_int_equal(c->totals.units, c->n_memcgs * 126);
        assert_int_equal(c->memcgs[0].subtree_memcgs, c->n_memcgs);
        assert_int_equal(c->memcgs[0].subtree_units, c->n_memcgs * 126);
        assert_int_equal(c->totals.dying, 100 * (each / 2));
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                assert_int_equal(census_find(c, c->memcgs[i].serial), i);
                if (i > 0)
                        assert_true(c->memcgs[c->by_serial[i - 1]].serial < c->memcgs[c->by_serial[i]].serial);
        }
        assert_int_equal(census_find_path(c, "/slice-99.slice/run-rffffffff.scope", 35), CENSUS_NONE);
        assert_int_equal(c->memcgs[census_find_path(c, "/slice-99.slice/run-r0000044b.scope", 35)].serial, 1099);

        start = now_usec();
        assert_int_equal(pins_new(&pins, c, 4096), 0);
        records_add_wb(&r, 0, "253:0", 1, 10);
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                ((struct sw_wb *)r.bytes)->serial = c->memcgs[i].serial;
                assert_int_equal(pins_add(pins, (const struct sw_head *)r.bytes), 0);
        }
        assert_int_equal(pins_seal(pins, true), 0);
        printf("# %s: pins %" PRIu64 " us\n", what, now_usec() - start);
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                const Pin *pin;
                size_t n;

                if (pins_get(pins, i, &pin, &n)) {
                        assert_int_equal(n, 2);
                        unexplained += pin[1].refs;
                        assert_int_equal(pin[1].refs, c->memcgs[i].refs - 1);
                }
        }
        assert_true(unexplained > 0);
        pins_free(pins);
        records_done(&r);

        /* Every memcg has a list of its own superblock's ids, all have one of a common id. */
        assert_int_equal(estimate_lists_new(&lists, c), 0);
        records_add_lists(&r, 0, 0, UINT64_MAX);
        start = now_usec();
        for (uint32_t i = 0; i <= c->totals.highest_serial / 64 + 1; i++) {
                struct sw_lists *record = (struct sw_lists *)r.bytes;

                record->base = i * 64;
                record->shrinker_id = 5;
                record->mask = UINT64_MAX;
                assert_int_equal(estimate_lists_add(lists, &record->head), 0);
                record->shrinker_id = (int32_t)(i % 8064);
                assert_int_equal(estimate_lists_add(lists, &record->head), 0);
        }
        assert_int_equal(estimate_host(c, lists, &e), 0);
        printf("# %s: estimate %" PRIu64 " us\n", what, now_usec() - start);
        assert_true(e.on_demand_known);
        assert_true(e.on_demand.units >= 128 + c->totals.live - 1);
        assert_true(e.on_demand.units <= 128 + 2 * (c->totals.live - 1) + 100 * 128);
        estimate_lists_free(lists);
        records_done(&r);
        census_free(c);
}

static void test_wide(_unused_ void **state) {
        check_wide(45000, "wide");
}

static void test_widest(_unused_ void **state) {
        check_wide(200000, "widest");
}

#define DEPTH 100000

static void test_deep(_unused_ void **state) {
        Records r = {};
        size_t len = 0;
        uint64_t start;
        char *path;
        Census *c;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 1);
        for (uint64_t i = 2; i <= DEPTH; i++)
                records_add_simple(&r, i, i - 1, i > DEPTH / 2 ? STATE_DYING : STATE_LIVE, "d", 1, 1);
        c = build(&r, "deep");

        assert_int_equal(c->memcgs[0].subtree_memcgs, DEPTH);
        assert_int_equal(c->memcgs[0].subtree_units, DEPTH);
        assert_int_equal(c->memcgs[0].subtree_dying, DEPTH / 2);
        assert_int_equal(c->memcgs[DEPTH - 1].subtree_memcgs, 1);
        assert_int_equal(c->memcgs[DEPTH - 1].nearest_live, DEPTH / 2 - 1);
        start = now_usec();
        path = census_path(c, DEPTH - 1, &len);
        assert_non_null(path);
        assert_int_equal(len, 2 * (DEPTH - 1));
        assert_int_equal(census_find_path(c, path, len), DEPTH - 1);
        assert_int_equal(census_find_path(c, path, len - 2), DEPTH - 2);
        printf("# deep: a path and back %" PRIu64 " us\n", now_usec() - start);
        free(path);
        census_free(c);
        records_done(&r);
}

/* At the bottom of a deep chain many come and go while they are read; a walk back up for each of them would take minutes. */
static void test_deep_with_dropped(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        Census *c;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 1);
        for (uint64_t i = 2; i <= DEPTH; i++)
                records_add_simple(&r, i, i - 1, STATE_LIVE, "d", 1, 1);
        for (uint64_t i = 0; i < DEPTH; i++)
                records_add_memcg(&r, DEPTH + 1 + i, 1, STATE_DYING, "gone", 4, 1);
        c = census_of(&r, &options);
        assert_int_equal(c->n_memcgs, DEPTH);
        assert_int_equal(c->totals.dropped, DEPTH);
        census_free(c);
        records_done(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_wide),
                cmocka_unit_test(test_widest),
                cmocka_unit_test(test_deep),
                cmocka_unit_test(test_deep_with_dropped),
        };

        return cmocka_run_group_tests_name("census-large", tests, NULL, NULL);
}
