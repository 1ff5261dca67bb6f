/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Findings of a host where all has gone wrong. What it takes is printed, not asserted; that it is not quadratic shows all the same, the
 * test would not end in time.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#include "check.h"
#include "scene.h"

#define SLICES 100
#define DYING 50000 /* half of them with both causes */

static uint64_t now_usec(void) {
        struct timespec t = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static size_t heap_bytes(void) {
        struct mallinfo2 m = mallinfo2();

        return m.uordblks + m.hblkhd;
}

/* Slices with dying containers in them, so many from each that the last ones have even serials only where half is set. */
static int take(Scene *s, uint64_t minute, bool half) {
        const uint64_t each = DYING / SLICES;
        uint64_t start;
        char name[40];
        int r;

        scene_add(s, 1, 0, STATE_LIVE, "", 1);
        for (uint64_t i = 0; i < SLICES; i++) {
                const uint64_t slice = 2 + i * (each + 1);

                (void)snprintf(name, sizeof(name), "machine-%" PRIu64 ".slice", i);
                scene_add(s, slice, 1, STATE_LIVE, name, 1);
                for (uint64_t serial = slice + 1; serial <= slice + each; serial++) {
                        if (half && serial % 2)
                                continue;
                        (void)snprintf(name, sizeof(name), "run-r%024" PRIx64 ".scope", serial);
                        scene_add(s, serial, slice, STATE_DYING, name, 1)->id_refs = serial % 2;
                        records_add_wb(&s->evidence, serial, "8:0", 1, 1);
                }
        }
        start = now_usec();
        r = scene_census(s, minute * 60 * SECOND);
        printf("# minute %" PRIu64 ": %d changes, %zu stand, %" PRIu64 " ms with the census, heap %zu KiB\n", minute, r, findings_count(s->findings),
               (now_usec() - start) / 1000, heap_bytes() / 1024);
        return r;
}

static void test_large(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 1000, 1000);
        scene_limit(&s, FINDING_SWAP, 1000, 1000);
        scene_limit(&s, FINDING_SUBTREE, DYING / SLICES / 4 * 1000, 1000);
        assert_int_equal(take(&s, 1, false), DYING + DYING / 2 + SLICES);
        assert_int_equal(take(&s, 2, false), 0);
        for (size_t i = 0; i < findings_count(s.findings); i++) {
                const Finding *f = findings_get(s.findings, i);

                assert_int_equal(f->id, i + 1);
                assert_ptr_equal(findings_find(s.findings, f->kind, f->serial), f);
        }
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_WRITEBACK), DYING * 1000);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), (DYING + SLICES) * 1000);
        /* All odd ones, which have the swap entries too, go at once. */
        assert_int_equal(take(&s, 3, true), DYING);
        assert_int_equal(findings_count_kind(s.findings, FINDING_SWAP), 0);
        assert_int_equal(findings_count_kind(s.findings, FINDING_WRITEBACK), DYING / 2);
        assert_int_equal(findings_count_kind(s.findings, FINDING_SUBTREE), SLICES);
        scene_done(&s);
}

/* A chain is the dearest form: every path is as long as it may be, every name is passed for each. */
static void test_deep(_unused_ void **state) {
        const uint64_t depth = 4000;
        uint64_t start;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 0, 0);
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        for (uint64_t serial = 2; serial < depth; serial++) {
                scene_add(&s, serial, serial - 1, STATE_DYING, "a-name-of-some-length", 1);
                records_add_wb(&s.evidence, serial, "8:0", 1, 1);
        }
        start = now_usec();
        assert_int_equal(scene_census(&s, SECOND), depth - 2);
        printf("# a chain of %" PRIu64 ": %" PRIu64 " ms with the census, heap %zu KiB\n", depth, (now_usec() - start) / 1000, heap_bytes() / 1024);
        scene_done(&s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_large),
                cmocka_unit_test(test_deep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
