/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Findings about subtrees: which of nested ones, patterns, marks, and cgroups that are removed. */
#include "check.h"
#include "finding-internal.h"
#include "scene.h"

#define MINUTE (60 * SECOND)

static const Finding *find(const Scene *s, uint64_t serial) {
        return findings_find(s->findings, FINDING_SUBTREE, serial);
}

/* So many, and these: at most four. */
static void assert_found(const Scene *s, size_t n, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
        const uint64_t serials[] = { a, b, c, d };

        assert_int_equal(findings_count_kind(s->findings, FINDING_SUBTREE), n);
        for (size_t i = 0; i < n; i++)
                assert_non_null(find(s, serials[i]));
}

static FindingEnd end_of(const Scene *s, uint64_t serial) {
        const FindingChange *changes;
        size_t n;

        changes = findings_changes(s->findings, &n);
        for (size_t i = 0; i < n; i++)
                if (!changes[i].raised && changes[i].finding->serial == serial)
                        return changes[i].end;
        fail_msg("%d was not cleared", (int)serial);
        return FINDING_END_BELOW;
}

/* root / a.slice / b.slice / c, d; with so many units each. */
static void add_nested(Scene *s, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
        scene_add(s, 1, 0, STATE_LIVE, "", 100);
        scene_add(s, 2, 1, STATE_LIVE, "a.slice", a);
        scene_add(s, 3, 2, STATE_LIVE, "b.slice", b);
        scene_add(s, 4, 3, STATE_LIVE, "c", c);
        scene_add(s, 5, 3, STATE_LIVE, "d", d);
}

static int take(Scene *s, uint64_t minute, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
        add_nested(s, a, b, c, d);
        return scene_census(s, minute * MINUTE);
}

static void test_innermost(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 10000);
        /* Only all together: the innermost that has all. The root never is one. */
        assert_int_equal(take(&s, 1, 1, 4, 3, 3), 1);
        assert_found(&s, 1, 3, 0, 0, 0);
        assert_int_equal(find(&s, 3)->value, 10000);
        assert_int_equal(find(&s, 3)->bytes, 10000);
        assert_int_equal(find(&s, 3)->units, 10);
        assert_string_equal(find(&s, 3)->path, "/a.slice/b.slice");
        assert_string_equal(find(&s, 3)->creator, "a.slice/b.slice");
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 10000);

        /* One of the innermost alone: b has not enough of its own any more. */
        assert_int_equal(take(&s, 2, 1, 4, 10, 3), 2);
        assert_found(&s, 1, 4, 0, 0, 0);
        assert_int_equal(end_of(&s, 3), FINDING_END_BELOW);
        /* Both; and b by what is its own; and a by what it has beside b. */
        assert_int_equal(take(&s, 3, 10, 10, 10, 10), 3);
        assert_found(&s, 4, 2, 3, 4, 5);
        assert_int_equal(find(&s, 3)->value, 10000);
        assert_int_equal(find(&s, 3)->bytes, 30000);
        assert_int_equal(find(&s, 3)->units, 30);
        assert_int_equal(find(&s, 2)->value, 10000);
        assert_int_equal(find(&s, 2)->bytes, 40000);
        /* Raised outside in. */
        assert_true(find(&s, 2)->id < find(&s, 3)->id && find(&s, 3)->id < find(&s, 5)->id);
        /* Inside one another: once. */
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 40000);
        assert_int_equal(take(&s, 4, 9, 10, 10, 10), 1);
        assert_int_equal(end_of(&s, 2), FINDING_END_BELOW);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 30000);
        assert_int_equal(take(&s, 5, 0, 9, 10, 10), 1);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 20000);
        scene_done(&s);
}

/* What is above but not old enough yet is not its ancestors' any more: they are not found in its stead for a while. */
static void test_innermost_and_age(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 8000)->min_age_usec = 10 * MINUTE;
        assert_int_equal(take(&s, 1, 0, 0, 0, 0), 0);
        assert_int_equal(take(&s, 2, 1, 6, 5, 1), 0);
        assert_int_equal(take(&s, 5, 1, 6, 10, 1), 0);
        /* b would have been old enough. */
        assert_int_equal(take(&s, 12, 1, 6, 10, 1), 0);
        /* c wavers. */
        assert_int_equal(take(&s, 14, 1, 6, 8, 1), 0);
        assert_int_equal(take(&s, 15, 1, 6, 10, 1), 1);
        assert_found(&s, 1, 4, 0, 0, 0);
        assert_int_equal(find(&s, 4)->since_boot_usec, 5 * MINUTE);
        assert_true(find(&s, 4)->since_exact);
        assert_int_equal(take(&s, 16, 1, 6, 8, 1), 0);
        assert_int_equal(take(&s, 17, 1, 6, 7, 1), 1);
        assert_int_equal(end_of(&s, 4), FINDING_END_BELOW);
        assert_int_equal(take(&s, 26, 1, 6, 7, 1), 0);
        assert_int_equal(take(&s, 27, 1, 6, 7, 1), 1);
        assert_found(&s, 1, 3, 0, 0, 0);
        assert_int_equal(find(&s, 3)->since_boot_usec, 17 * MINUTE);
        scene_done(&s);
}

/* Dying ones count for the live ancestor; they are no subtrees themselves, nor are those being made. */
static void test_states(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 10000);
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 2, 1, STATE_LIVE, "a.slice", 1);
        scene_add(&s, 3, 2, STATE_DYING, "x", 4);
        scene_add(&s, 6, 3, STATE_DYING, "y", 20);
        scene_add(&s, 4, 1, STATE_CREATING, "z", 30);
        scene_add(&s, 5, 1, STATE_DYING, "w", 40);
        assert_int_equal(scene_census(&s, MINUTE), 1);
        assert_found(&s, 1, 2, 0, 0, 0);
        assert_int_equal(find(&s, 2)->value, 25000);

        /* The slice is removed with what it holds: not free, so not "gone"; nor is it below. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 2, 1, STATE_DYING, "a.slice", 1);
        scene_add(&s, 3, 2, STATE_DYING, "x", 24);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 1);
        assert_int_equal(end_of(&s, 2), FINDING_END_REMOVED);
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 7, 1, STATE_LIVE, "b.slice", 10);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 1);
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        assert_int_equal(scene_census(&s, 4 * MINUTE), 1);
        assert_int_equal(end_of(&s, 7), FINDING_END_GONE);
        scene_done(&s);
}

static void test_incomplete(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 8000)->min_age_usec = 5 * MINUTE;
        assert_int_equal(take(&s, 1, 0, 0, 10, 0), 0);
        /* Half of it, and then none: it is above all the same, and its parent is not for it. */
        s.input.complete = false;
        assert_int_equal(take(&s, 2, 0, 4, 5, 0), 0);
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 0);
        s.input.complete = true;
        assert_int_equal(take(&s, 6, 0, 0, 10, 0), 1);
        assert_int_equal(find(&s, 4)->since_boot_usec, MINUTE);
        assert_false(find(&s, 4)->since_exact);

        s.input.complete = false;
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        assert_int_equal(scene_census(&s, 7 * MINUTE), 0);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 10000);
        assert_int_equal(take(&s, 8, 0, 0, 3, 0), 0);
        assert_int_equal(find(&s, 4)->value, 10000);
        assert_int_equal(take(&s, 9, 0, 0, 12, 0), 0);
        assert_int_equal(find(&s, 4)->value, 12000);
        /* Removed is what it was seen to be. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 2, 1, STATE_LIVE, "a.slice", 0);
        scene_add(&s, 3, 2, STATE_LIVE, "b.slice", 0);
        scene_add(&s, 4, 3, STATE_DYING, "c", 0);
        assert_int_equal(scene_census(&s, 10 * MINUTE), 1);
        assert_int_equal(end_of(&s, 4), FINDING_END_REMOVED);
        scene_done(&s);
}

/* A long row of incomplete censuses, each with other memcgs: what waits is not kept without end. */
static void test_incomplete_bounded(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 1000, 1000)->min_age_usec = UINT64_MAX;
        s.input.complete = false;
        for (uint64_t i = 2; i < 2000; i++) {
                scene_add(&s, 1, 0, STATE_LIVE, "", 0);
                scene_add(&s, i, 1, STATE_LIVE, "x", 1);
                assert_int_equal(scene_census(&s, i), 0);
                assert_true(s.findings->n_watches <= s.census->n_memcgs);
        }
        scene_done(&s);
}

/* Patterns are for bytes; the strictest of those that match counts. */
static void test_patterns(_unused_ void **state) {
        FindingSubtree subtrees[] = {
                { .pattern = (char[]){ "a.slice/*" }, .overhead = { .enabled = true, .on = 8000, .off = 6000, .min_age_usec = MINUTE } },
                { .pattern = (char[]){ "*/*/c" }, .overhead = { .enabled = true, .on = 5000, .off = 4500, .min_age_usec = 3 * MINUTE } },
                { .pattern = (char[]){ "a.slice/?.slice/[c]" }, .overhead = { .enabled = true, .on = 7000, .off = 3000 } },
                { .pattern = (char[]){ "*" }, .overhead = { .enabled = false, .on = 1, .off = 1 } },
                { .pattern = (char[]){ "/a.slice" }, .overhead = { .enabled = true, .on = 1, .off = 1 } },
                { .pattern = (char[]){ "machine-qemu\\x2d1\xff*" }, .overhead = { .enabled = true, .on = 2000, .off = 2000 } },
        };
        Scene s;

        scene_start(&s);
        s.limits.subtrees = subtrees;
        s.limits.n_subtrees = ELEMENTSOF(subtrees);
        /* Without a common limit. * stops at a slash: b.slice is one, c and d are none of the first's. */
        assert_int_equal(take(&s, 1, 0, 3, 5, 9), 1);
        assert_found(&s, 1, 4, 0, 0, 0);
        assert_int_equal(find(&s, 4)->limit, 5000);
        assert_int_equal(take(&s, 2, 0, 3, 3, 9), 1);
        assert_found(&s, 2, 3, 4, 0, 0);
        /* The whole, whatever is found below. */
        assert_int_equal(find(&s, 3)->value, 15000);
        assert_int_equal(find(&s, 4)->value, 3000);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SUBTREE), 15000);
        assert_int_equal(take(&s, 3, 0, 3, 2, 2), 1);
        assert_int_equal(end_of(&s, 4), FINDING_END_BELOW);
        assert_int_equal(take(&s, 4, 0, 3, 1, 1), 1);
        assert_int_equal(end_of(&s, 3), FINDING_END_BELOW);

        /* A backslash is one, and bytes need not be UTF-8. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 6, 1, STATE_LIVE, "machine-qemu\\x2d1\xff\xfe", 2);
        scene_add(&s, 7, 1, STATE_LIVE, "machine-qemux2d1\xff", 2);
        assert_int_equal(scene_census(&s, 5 * MINUTE), 1);
        assert_found(&s, 1, 6, 0, 0, 0);

        /* The pattern goes, or is switched off. */
        subtrees[5].overhead.enabled = false;
        scene_add(&s, 1, 0, STATE_LIVE, "", 0);
        scene_add(&s, 6, 1, STATE_LIVE, "machine-qemu\\x2d1\xff\xfe", 2);
        assert_int_equal(scene_census(&s, 6 * MINUTE), 1);
        assert_int_equal(end_of(&s, 6), FINDING_END_LIMIT);
        scene_done(&s);
}

/* A pattern or a mark can only be stricter than the common limit. */
static void test_stricter_only(_unused_ void **state) {
        FindingSubtree lax[] = {
                {
                        .pattern = (char[]){ "a.slice/b.slice/*" },
                        .overhead = { .enabled = true, .on = 90000, .off = 80000, .min_age_usec = UINT64_MAX },
                },
        };
        FindingMark marks[] = { { 1, 1 }, { 3, UINT64_MAX }, { 4, 90000 }, { 9, 1 } };
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 8000);
        s.limits.subtrees = lax;
        s.limits.n_subtrees = ELEMENTSOF(lax);
        s.input.marks = marks;
        s.input.n_marks = ELEMENTSOF(marks);
        assert_int_equal(take(&s, 1, 0, 3, 10, 1), 2);
        assert_found(&s, 2, 3, 4, 0, 0); /* b by its mark: judged as a whole, and by the common limit */
        assert_int_equal(find(&s, 4)->limit, 10000);
        assert_int_equal(find(&s, 3)->value, 14000);
        assert_int_equal(take(&s, 2, 0, 0, 8, 0), 0);
        assert_int_equal(take(&s, 3, 0, 0, 7, 0), 2);
        assert_int_equal(end_of(&s, 4), FINDING_END_BELOW);
        scene_done(&s);
}

static void test_marks(_unused_ void **state) {
        FindingMark marks[] = { { 4, 2000 }, { 5, 3000 } };
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_SUBTREE, 10000, 8000)->min_age_usec = 2 * MINUTE;
        s.input.marks = marks;
        s.input.n_marks = ELEMENTSOF(marks);
        assert_int_equal(take(&s, 1, 0, 0, 1, 1), 0);
        assert_int_equal(take(&s, 2, 1, 5, 3, 3), 0);
        /* What is below its mark's limit but not above the common one hides nothing from b. */
        assert_int_equal(take(&s, 4, 1, 5, 3, 3), 3);
        assert_found(&s, 3, 3, 4, 5, 0);
        assert_int_equal(find(&s, 3)->value, 11000);
        assert_true(find(&s, 3)->since_exact);
        assert_int_equal(find(&s, 4)->limit, 2000);
        assert_false(find(&s, 4)->since_exact); /* the mark may be new */
        /* Nine tenths of 3,000, and of 2,000. */
        assert_int_equal(take(&s, 5, 1, 6, 2, 2), 1);
        assert_int_equal(end_of(&s, 5), FINDING_END_BELOW);
        /* Taken away: the limit in force is another. */
        s.input.marks = NULL;
        s.input.n_marks = 0;
        assert_int_equal(take(&s, 6, 1, 6, 2, 2), 1);
        assert_int_equal(end_of(&s, 4), FINDING_END_LIMIT);
        assert_found(&s, 1, 3, 0, 0, 0);

        /* Above the common limit it is found by that when the mark goes, without another word; and it covers its ancestors. */
        marks[0].overhead_on = 11000;
        s.input.marks = marks;
        s.input.n_marks = 1;
        assert_int_equal(take(&s, 7, 1, 6, 11, 2), 0);
        assert_int_equal(take(&s, 8, 1, 7, 11, 2), 0);
        assert_int_equal(take(&s, 9, 1, 7, 11, 2), 1);
        assert_found(&s, 2, 3, 4, 0, 0);
        assert_int_equal(find(&s, 3)->value, 9000);
        s.input.n_marks = 0;
        assert_int_equal(take(&s, 10, 1, 7, 11, 2), 0);
        assert_int_equal(take(&s, 11, 1, 7, 8, 2), 0);
        assert_int_equal(find(&s, 3)->value, 9000);
        assert_int_equal(take(&s, 12, 1, 7, 7, 2), 1);
        assert_int_equal(end_of(&s, 4), FINDING_END_BELOW);
        assert_int_equal(find(&s, 3)->value, 16000);
        scene_done(&s);
}

/* No common limit, but marks: they are watches of their own, with its age. */
static void test_marks_alone(_unused_ void **state) {
        FindingMark marks[] = { { 4, 0 }, { 5, 20000 } };
        Scene s;

        scene_start(&s);
        s.limits.limit[FINDING_SUBTREE].min_age_usec = MINUTE;
        s.input.marks = marks;
        s.input.n_marks = ELEMENTSOF(marks);
        assert_int_equal(take(&s, 1, 9, 9, 0, 9), 0);
        assert_int_equal(take(&s, 2, 9, 9, 0, 20), 1);
        assert_found(&s, 1, 4, 0, 0, 0);
        assert_int_equal(take(&s, 3, 9, 9, 0, 20), 1);
        assert_found(&s, 2, 4, 5, 0, 0);
        /* Nine tenths of it. */
        assert_int_equal(take(&s, 4, 9, 9, 0, 18), 0);
        assert_int_equal(take(&s, 5, 9, 9, 0, 17), 1);
        assert_int_equal(end_of(&s, 5), FINDING_END_BELOW);
        scene_done(&s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_innermost),
                cmocka_unit_test(test_innermost_and_age),
                cmocka_unit_test(test_states),
                cmocka_unit_test(test_incomplete),
                cmocka_unit_test(test_incomplete_bounded),
                cmocka_unit_test(test_patterns),
                cmocka_unit_test(test_stricter_only),
                cmocka_unit_test(test_marks),
                cmocka_unit_test(test_marks_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
