/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Findings about the host: thresholds, ages, values that are not known, limits that change. */
#include "check.h"
#include "scene.h"

#define MINUTE (60 * SECOND)

static const Finding *find(const Scene *s, FindingKind kind) {
        return findings_find(s->findings, kind, 0);
}

/* The next census: units of the root and of a dying memcg. */
static int take(Scene *s, uint64_t minute, uint32_t live, uint32_t dying) {
        scene_add(s, 1, 0, STATE_LIVE, "", live);
        if (dying > 0)
                scene_add(s, 2, 1, STATE_DYING, "x", dying);
        return scene_census(s, minute * MINUTE);
}

static void assert_change(const Scene *s, FindingKind kind, bool raised, FindingEnd end) {
        const FindingChange *changes;
        size_t n = 0;

        changes = findings_changes(s->findings, &n);
        assert_int_equal(n, 1);
        assert_int_equal(changes[0].finding->kind, kind);
        assert_int_equal(changes[0].raised, raised);
        if (!raised)
                assert_int_equal(changes[0].end, end);
}

static void test_thresholds(_unused_ void **state) {
        const Finding *f;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_HOST, 10000, 8000);
        assert_int_equal(take(&s, 1, 9, 0), 0);
        assert_int_equal(take(&s, 2, 7, 3), 1);
        assert_change(&s, FINDING_HOST, true, 0);
        f = find(&s, FINDING_HOST);
        assert_int_equal(f->id, 1);
        assert_int_equal(f->serial, 0);
        assert_null(f->path);
        assert_int_equal(f->path_len, 0);
        assert_null(f->creator);
        assert_null(f->text);
        assert_int_equal(f->value, 10000);
        assert_int_equal(f->limit, 10000);
        assert_int_equal(f->bytes, 10000);
        assert_int_equal(f->units, 10);
        assert_int_equal(f->since_boot_usec, 2 * MINUTE);
        assert_true(f->since_exact);
        assert_false(f->refs_known);

        /* It wavers. */
        assert_int_equal(take(&s, 3, 9, 0), 0);
        assert_int_equal(take(&s, 4, 12, 0), 0);
        assert_int_equal(take(&s, 5, 8, 0), 0);
        assert_int_equal(find(&s, FINDING_HOST)->value, 8000);
        assert_int_equal(find(&s, FINDING_HOST)->since_boot_usec, 2 * MINUTE);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_HOST), 8000);
        assert_int_equal(take(&s, 6, 7, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_BELOW);
        /* Between the thresholds it does not come back. */
        assert_int_equal(take(&s, 7, 9, 0), 0);
        assert_int_equal(take(&s, 8, 10, 0), 1);
        assert_int_equal(find(&s, FINDING_HOST)->id, 2);
        scene_done(&s);
}

static void test_age(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_HOST, 10000, 8000)->min_age_usec = 5 * MINUTE;
        /* Falls below off in between: the age begins anew. */
        assert_int_equal(take(&s, 1, 10, 0), 0);
        assert_int_equal(take(&s, 5, 7, 0), 0);
        assert_int_equal(take(&s, 6, 10, 0), 0);
        /* Wavers, and is old enough while it is between: not raised below its limit. */
        assert_int_equal(take(&s, 10, 8, 0), 0);
        assert_int_equal(take(&s, 11, 9, 0), 0);
        assert_int_equal(take(&s, 12, 11, 0), 1);
        assert_int_equal(find(&s, FINDING_HOST)->since_boot_usec, 6 * MINUTE);
        assert_true(find(&s, FINDING_HOST)->since_exact);
        assert_int_equal(find(&s, FINDING_HOST)->raised_boot_usec, 12 * MINUTE);
        assert_int_equal(find(&s, FINDING_HOST)->value, 11000);
        assert_int_equal(find(&s, FINDING_HOST)->limit, 10000);
        scene_done(&s);

        /* To the microsecond; what the first census sees is at least as old. */
        scene_start(&s);
        scene_limit(&s, FINDING_HOST, 10000, 8000)->min_age_usec = 5 * MINUTE + 1;
        assert_int_equal(take(&s, 1, 10, 0), 0);
        assert_int_equal(take(&s, 6, 10, 0), 0);
        s.limits.limit[FINDING_HOST].min_age_usec--;
        assert_int_equal(take(&s, 6, 10, 0), 1);
        assert_int_equal(find(&s, FINDING_HOST)->since_boot_usec, MINUTE);
        assert_false(find(&s, FINDING_HOST)->since_exact);
        /* A longer minimal age takes nothing back. */
        s.limits.limit[FINDING_HOST].min_age_usec = UINT64_MAX;
        assert_int_equal(take(&s, 7, 10, 0), 0);
        assert_int_equal(take(&s, 8, 7, 0), 1);
        assert_int_equal(take(&s, 9, 10, 0), 0);
        assert_int_equal(take(&s, 90, 10, 0), 0);
        scene_done(&s);
}

/* A census that is not complete counts what is there at least. */
static void test_incomplete(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_HOST, 10000, 8000);
        scene_limit(&s, FINDING_DYING, 1, 1);
        s.input.complete = false;
        assert_int_equal(take(&s, 1, 9, 0), 0);
        assert_int_equal(take(&s, 2, 4, 6), 2);
        /* It was not seen below by a census that sees all. */
        assert_false(find(&s, FINDING_HOST)->since_exact);
        assert_int_equal(find(&s, FINDING_DYING)->bytes, 6000);
        assert_int_equal(find(&s, FINDING_DYING)->units, 6);
        assert_int_equal(take(&s, 3, 1, 0), 0);
        assert_int_equal(find(&s, FINDING_HOST)->value, 10000);
        assert_int_equal(find(&s, FINDING_DYING)->value, 1);
        assert_int_equal(find(&s, FINDING_DYING)->bytes, 6000);
        assert_int_equal(take(&s, 4, 11, 0), 0);
        assert_int_equal(find(&s, FINDING_HOST)->value, 11000);

        /* A limit that is switched off ends it in any census. */
        s.limits.limit[FINDING_DYING].enabled = false;
        assert_int_equal(take(&s, 5, 1, 0), 1);
        assert_change(&s, FINDING_DYING, false, FINDING_END_LIMIT);
        s.input.complete = true;
        assert_int_equal(take(&s, 6, 1, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_BELOW);
        assert_int_equal(take(&s, 7, 10, 0), 1);
        assert_true(find(&s, FINDING_HOST)->since_exact);
        scene_done(&s);
}

static void test_stranded(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_STRANDED, 1000, 900);
        s.input.ids_in_use = 64 * 4096 - 5000;
        assert_int_equal(take(&s, 1, 1, 0), 0); /* not known */
        s.input.ids_in_use_known = true;
        assert_int_equal(take(&s, 2, 3, 2), 1);
        assert_int_equal(find(&s, FINDING_STRANDED)->value, 5000);
        assert_int_equal(find(&s, FINDING_STRANDED)->bytes, 5000);
        assert_false(find(&s, FINDING_STRANDED)->since_exact);
        s.input.ids_in_use_known = false;
        assert_int_equal(take(&s, 3, 1, 0), 0);
        assert_int_equal(find(&s, FINDING_STRANDED)->value, 5000);
        s.input.ids_in_use_known = true;
        s.input.ids_in_use = 64 * 4096 - 900;
        assert_int_equal(take(&s, 4, 1, 0), 0);
        /* More in use than the arrays have room for: of another moment. */
        s.input.ids_in_use = 64 * 4096 + 1;
        assert_int_equal(take(&s, 5, 1, 0), 1);
        assert_change(&s, FINDING_STRANDED, false, FINDING_END_BELOW);
        scene_done(&s);
}

static void test_growth(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_DYING_GROWTH, 100, 50);
        s.input.growth_per_hour = INT64_MAX;
        assert_int_equal(take(&s, 1, 1, 1), 0);
        s.input.growth_known = true;
        s.input.complete = false; /* is none of its business */
        assert_int_equal(take(&s, 2, 1, 4), 1);
        assert_int_equal(find(&s, FINDING_DYING_GROWTH)->value, INT64_MAX);
        assert_int_equal(find(&s, FINDING_DYING_GROWTH)->bytes, 4000);
        s.input.growth_per_hour = 50;
        assert_int_equal(take(&s, 3, 1, 1), 0);
        s.input.growth_known = false;
        s.input.growth_per_hour = 0;
        assert_int_equal(take(&s, 4, 1, 1), 0);
        s.input.growth_known = true;
        s.input.growth_per_hour = INT64_MIN;
        assert_int_equal(take(&s, 5, 1, 1), 1);
        assert_change(&s, FINDING_DYING_GROWTH, false, FINDING_END_BELOW);
        scene_done(&s);
}

static void test_memcg_ids(_unused_ void **state) {
        struct sw_memcg *m;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_MEMCG_IDS, 3, 2);
        /* A dying one without swap entries has handed its id back. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        scene_add(&s, 2, 1, STATE_LIVE, "a", 1);
        scene_add(&s, 3, 1, STATE_DYING, "b", 1)->memcg_id = 0;
        assert_int_equal(scene_census(&s, 1), 0);
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        scene_add(&s, 2, 1, STATE_LIVE, "a", 1);
        scene_add(&s, 3, 1, STATE_DYING, "b", 1);
        assert_int_equal(scene_census(&s, 2), 1);
        assert_int_equal(find(&s, FINDING_MEMCG_IDS)->value, 3);
        assert_int_equal(find(&s, FINDING_MEMCG_IDS)->bytes, 3000);

        /* Not known of all: at least so many. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        m = scene_add(&s, 2, 1, STATE_LIVE, "a", 1);
        m->head.valid &= ~(uint32_t)SW_MEMCG_ID;
        assert_int_equal(scene_census(&s, 3), 0);
        assert_int_equal(find(&s, FINDING_MEMCG_IDS)->value, 3);
        /* Not known of any. */
        m = scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        m->head.valid &= ~(uint32_t)SW_MEMCG_ID;
        assert_int_equal(scene_census(&s, 4), 0);
        assert_int_equal(find(&s, FINDING_MEMCG_IDS)->value, 3);
        assert_int_equal(take(&s, 5, 1, 0), 1);
        assert_change(&s, FINDING_MEMCG_IDS, false, FINDING_END_BELOW);
        scene_done(&s);
}

/* With thresholds that make no sense: it is there or it is not. */
static void test_degraded(_unused_ void **state) {
        char text[] = "life events are not seen";
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_DEGRADED, 0, 0)->min_age_usec = MINUTE;
        assert_int_equal(take(&s, 1, 1, 0), 0);
        s.input.degraded = text;
        assert_int_equal(take(&s, 2, 1, 0), 0);
        s.input.complete = false;
        assert_int_equal(take(&s, 3, 1, 0), 1);
        memset(text, 'x', strlen(text)); /* it was borrowed */
        assert_string_equal(find(&s, FINDING_DEGRADED)->text, "life events are not seen");
        assert_int_equal(find(&s, FINDING_DEGRADED)->value, 1);
        assert_int_equal(find(&s, FINDING_DEGRADED)->limit, 1);
        assert_int_equal(find(&s, FINDING_DEGRADED)->since_boot_usec, 2 * MINUTE);
        assert_true(find(&s, FINDING_DEGRADED)->since_exact);
        s.input.degraded = "";
        assert_int_equal(take(&s, 4, 1, 0), 0);
        assert_string_equal(find(&s, FINDING_DEGRADED)->text, "");
        s.input.degraded = NULL;
        assert_int_equal(take(&s, 5, 1, 0), 1);
        assert_change(&s, FINDING_DEGRADED, false, FINDING_END_BELOW);
        scene_done(&s);
}

/* A reload: what would not stand under the new limits goes, and says that it was the limit. */
static void test_limits_change(_unused_ void **state) {
        FindingLimit *l;
        Scene s;

        scene_start(&s);
        l = scene_limit(&s, FINDING_HOST, 10000, 8000);
        assert_int_equal(take(&s, 1, 11, 0), 1);
        assert_int_equal(take(&s, 2, 9, 0), 0);
        /* Higher, but it has been there: stands until below the new off. */
        l->on = 11000;
        l->off = 8500;
        assert_int_equal(take(&s, 3, 9, 0), 0);
        assert_int_equal(find(&s, FINDING_HOST)->limit, 10000);
        /* It never was as high as that. */
        l->on = 11001;
        assert_int_equal(take(&s, 4, 9, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_LIMIT);
        assert_int_equal(take(&s, 5, 11, 0), 0);

        /* The lower threshold alone. */
        l->on = 10000;
        assert_int_equal(take(&s, 6, 11, 0), 1);
        /* How long it is above the lower limit, nobody saw. */
        assert_false(find(&s, FINDING_HOST)->since_exact);
        l->off = 9500;
        assert_int_equal(take(&s, 7, 9, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_LIMIT);
        /* Both limits would end it. */
        assert_int_equal(take(&s, 8, 10, 0), 1);
        assert_true(find(&s, FINDING_HOST)->since_exact);
        l->off = 9900;
        assert_int_equal(take(&s, 9, 9, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_BELOW);

        /* Higher than it was, and it rises at the same time. */
        assert_int_equal(take(&s, 10, 10, 0), 1);
        l->on = 20000;
        l->off = 15000;
        assert_int_equal(take(&s, 11, 20, 0), 0);
        assert_int_equal(take(&s, 12, 15, 0), 0);
        l->enabled = false;
        assert_int_equal(take(&s, 13, 20, 0), 1);
        assert_change(&s, FINDING_HOST, false, FINDING_END_LIMIT);
        assert_int_equal(take(&s, 14, 20, 0), 0);
        scene_done(&s);
}

/* The same for a value that waits for its age. */
static void test_limits_change_waiting(_unused_ void **state) {
        FindingLimit *l;
        Scene s;

        scene_start(&s);
        l = scene_limit(&s, FINDING_HOST, 10000, 8000);
        l->min_age_usec = 10 * MINUTE;
        assert_int_equal(take(&s, 1, 7, 0), 0);
        assert_int_equal(take(&s, 2, 10, 0), 0);
        /* Lower: above at least since then. */
        l->on = 9000;
        assert_int_equal(take(&s, 3, 9, 0), 0);
        assert_int_equal(take(&s, 12, 9, 0), 1);
        assert_int_equal(find(&s, FINDING_HOST)->since_boot_usec, 2 * MINUTE);
        assert_false(find(&s, FINDING_HOST)->since_exact);
        assert_int_equal(find(&s, FINDING_HOST)->limit, 9000);
        assert_int_equal(take(&s, 13, 7, 0), 1);

        /* Higher than it was: it has to get there, and the age begins then. */
        assert_int_equal(take(&s, 20, 10, 0), 0);
        l->on = 12000;
        assert_int_equal(take(&s, 25, 11, 0), 0);
        assert_int_equal(take(&s, 31, 12, 0), 0);
        assert_int_equal(take(&s, 40, 12, 0), 0);
        assert_int_equal(take(&s, 41, 12, 0), 1);
        assert_int_equal(find(&s, FINDING_HOST)->since_boot_usec, 31 * MINUTE);
        scene_done(&s);
}

/* All of the host's findings at once have places of their own. */
static void test_together(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        for (FindingKind kind = FINDING_HOST; kind < _FINDING_KIND_MAX; kind++)
                scene_limit(&s, kind, 1, 1);
        s.input.degraded = "x";
        s.input.growth_known = s.input.ids_in_use_known = true;
        s.input.growth_per_hour = 1;
        assert_int_equal(take(&s, 1, 1, 1), 6);
        for (FindingKind kind = FINDING_HOST; kind < _FINDING_KIND_MAX; kind++) {
                assert_int_equal(find(&s, kind)->kind, kind);
                assert_int_equal(findings_count_kind(s.findings, kind), 1);
                assert_int_equal(findings_get(s.findings, kind - FINDING_HOST)->kind, kind);
        }
        assert_int_equal(take(&s, 2, 1, 1), 0);
        scene_done(&s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_thresholds),
                cmocka_unit_test(test_age),
                cmocka_unit_test(test_incomplete),
                cmocka_unit_test(test_stranded),
                cmocka_unit_test(test_growth),
                cmocka_unit_test(test_memcg_ids),
                cmocka_unit_test(test_degraded),
                cmocka_unit_test(test_limits_change),
                cmocka_unit_test(test_limits_change_waiting),
                cmocka_unit_test(test_together),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
