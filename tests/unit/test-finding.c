/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Findings about dying memcgs: evidence, age, what ends them, what they are called. */
#include "check.h"
#include "scene.h"

#define MINUTE (60 * SECOND)

static const Finding *find(const Scene *s, FindingKind kind, uint64_t serial) {
        const Finding *f = findings_find(s->findings, kind, serial);

        assert_non_null(f);
        assert_int_equal(f->kind, kind);
        assert_int_equal(f->serial, serial);
        return f;
}

static const FindingChange *change(const Scene *s, size_t i) {
        const FindingChange *changes;
        size_t n = 4711;

        changes = findings_changes(s->findings, &n);
        assert_true(i < n);
        return &changes[i];
}

/* The root, a slice, and in it a dying memcg of 3 units, with writeback on two devices. */
static struct sw_memcg *add_dying(Scene *s) {
        struct sw_memcg *m;

        scene_add(s, 1, 0, STATE_LIVE, "", 2);
        scene_add(s, 2, 1, STATE_LIVE, "system.slice", 1);
        m = scene_add(s, 3, 2, STATE_DYING, "run-r1a2b3c4d5e6f.scope", 3);
        m->head.valid |= SW_MEMCG_CGROUP;
        m->refs = 4;
        return m;
}

static void add_writeback(Scene *s) {
        records_add_wb(&s->evidence, 3, "8:16", 5, 100);
        records_add_wb(&s->evidence, 3, "253:0", 7, 11);
        records_add_wb(&s->evidence, 3, "8:16", 2, 3);
}

static void test_names(_unused_ void **state) {
        static const char *const kinds[] = {
                "writeback", "swap", "subtree", "host", "dying", "dying-growth", "stranded-ids", "memcg-ids", "degraded",
        };

        assert_int_equal(ELEMENTSOF(kinds), _FINDING_KIND_MAX);
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                assert_string_equal(finding_kind_to_string((FindingKind)i), kinds[i]);
                assert_int_equal(finding_kind_from_string(kinds[i]), i);
                assert_int_equal(finding_kind_is_memcg((FindingKind)i), i < 3);
        }
        assert_null(finding_kind_to_string(_FINDING_KIND_MAX));
        assert_int_equal(finding_kind_from_string(""), -EINVAL);
        assert_int_equal(finding_kind_from_string("Host"), -EINVAL);
        assert_int_equal(finding_kind_from_string("hosts"), -EINVAL);
        assert_string_equal(finding_end_to_string(FINDING_END_BELOW), "below");
        assert_string_equal(finding_end_to_string(FINDING_END_GONE), "gone");
        assert_string_equal(finding_end_to_string(FINDING_END_LIMIT), "limit");
        assert_string_equal(finding_end_to_string(FINDING_END_REMOVED), "removed");
        assert_null(finding_end_to_string((FindingEnd)4));
}

static void test_nothing(_unused_ void **state) {
        const FindingChange *changes;
        size_t n = 4711;
        Scene s;

        scene_start(&s);
        changes = findings_changes(s.findings, &n);
        assert_int_equal(n, 0);
        (void)changes;
        assert_int_equal(findings_count(s.findings), 0);
        assert_null(findings_get(s.findings, 0));
        assert_null(findings_find(s.findings, FINDING_HOST, 0));
        for (FindingKind kind = 0; kind <= _FINDING_KIND_MAX; kind++) {
                assert_int_equal(findings_count_kind(s.findings, kind), 0);
                assert_int_equal(findings_sum_bytes(s.findings, kind), 0);
        }
        /* No limit is enabled: whatever there is, nothing is found. */
        add_dying(&s);
        add_writeback(&s);
        s.input.degraded = "blind";
        assert_int_equal(scene_census(&s, SECOND), 0);
        scene_done(&s);
        assert_null(findings_free(NULL));
}

static void test_writeback(_unused_ void **state) {
        const Finding *f;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 3000, 2000)->min_age_usec = 5 * MINUTE;
        assert_int_equal(ages_put(s.ages, 3, MINUTE, true), 1);

        /* One microsecond too young. */
        add_dying(&s);
        add_writeback(&s);
        assert_int_equal(scene_census(&s, 6 * MINUTE - 1), 0);
        add_dying(&s);
        add_writeback(&s);
        assert_int_equal(scene_census(&s, 6 * MINUTE), 1);
        assert_true(change(&s, 0)->raised);
        f = find(&s, FINDING_WRITEBACK, 3);
        assert_ptr_equal(change(&s, 0)->finding, f);
        assert_ptr_equal(findings_get(s.findings, 0), f);
        assert_int_equal(f->id, 1);
        assert_int_equal(f->cgroup_id, 31);
        assert_string_equal(f->path, "/system.slice/run-r1a2b3c4d5e6f.scope");
        assert_int_equal(f->path_len, strlen(f->path));
        assert_string_equal(f->creator, "system.slice/run-r*.scope");
        assert_int_equal(f->value, 3000);
        assert_int_equal(f->limit, 3000);
        assert_int_equal(f->bytes, 3000);
        assert_int_equal(f->units, 3);
        assert_int_equal(f->raised_boot_usec, 6 * MINUTE);
        assert_int_equal(f->since_boot_usec, MINUTE);
        assert_true(f->since_exact);
        assert_true(f->refs_known);
        assert_int_equal(f->refs, 4);
        assert_int_equal(f->pin_refs, 3);
        assert_int_equal(f->pin_bytes, 114 * SCENE_PAGE);
        assert_int_equal(f->pin_inodes, 14);
        assert_int_equal(f->pin_entries, 0);
        assert_true(f->pin_exact);
        assert_string_equal(f->device, "253:0");
        assert_int_equal(f->n_devices, 2);
        assert_null(f->text);

        /* It follows the evidence, and is raised once. */
        add_dying(&s);
        records_add_wb(&s.evidence, 3, "8:32", 1, 1)->head.valid = SW_WB_REFS;
        assert_int_equal(scene_census(&s, 7 * MINUTE), 0);
        f = find(&s, FINDING_WRITEBACK, 3);
        assert_int_equal(f->id, 1);
        assert_int_equal(f->pin_refs, 1);
        assert_int_equal(f->pin_bytes, SCENE_PAGE);
        assert_false(f->pin_exact);
        assert_string_equal(f->device, "8:32");
        assert_int_equal(f->n_devices, 1);

        /* More pins than references: of different moments, so none of them is sure. */
        add_dying(&s)->refs = 2;
        add_writeback(&s);
        assert_int_equal(scene_census(&s, 7 * MINUTE), 0);
        assert_false(find(&s, FINDING_WRITEBACK, 3)->pin_exact);
        assert_int_equal(find(&s, FINDING_WRITEBACK, 3)->refs, 2);
        add_dying(&s);
        records_add_wb(&s.evidence, 3, "8:32", 1, 1);
        assert_int_equal(scene_census(&s, 7 * MINUTE), 0);
        assert_true(find(&s, FINDING_WRITEBACK, 3)->pin_exact);

        /* Its memory is free. What was last seen is still told. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        assert_int_equal(scene_census(&s, 8 * MINUTE), 1);
        assert_false(change(&s, 0)->raised);
        assert_int_equal(change(&s, 0)->end, FINDING_END_GONE);
        assert_int_equal(change(&s, 0)->finding->id, 1);
        assert_int_equal(change(&s, 0)->finding->bytes, 3000);
        assert_string_equal(change(&s, 0)->finding->device, "8:32");
        assert_int_equal(findings_count(s.findings), 0);
        assert_null(findings_find(s.findings, FINDING_WRITEBACK, 3));

        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        assert_int_equal(scene_census(&s, 9 * MINUTE), 0);

        /* Alive again: no kernel does that, but it must not stand for ever. */
        add_dying(&s);
        add_writeback(&s);
        assert_int_equal(scene_census(&s, 10 * MINUTE), 1);
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        scene_add(&s, 3, 1, STATE_LIVE, "x", 5);
        assert_int_equal(scene_census(&s, 11 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_BELOW);
        scene_done(&s);
}

/* What is not a finding: too small, no such pin, not dying, being made. */
static void test_not_found(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 3001, 3000);
        scene_limit(&s, FINDING_SWAP, 3000, 2000);
        add_dying(&s);
        add_writeback(&s);
        scene_add(&s, 4, 2, STATE_LIVE, "live", 9)->id_refs = 7;
        scene_add(&s, 5, 2, STATE_CREATING, "new", 9)->id_refs = 7;
        scene_add(&s, 6, 2, STATE_DYING, "none", 9)->refs = 1;
        records_add_wb(&s.evidence, 4, "8:0", 1, 1);
        records_add_wb(&s.evidence, 5, "8:0", 1, 1);
        assert_int_equal(scene_census(&s, MINUTE), 0);

        /* A reference that is its own is no swap entry. */
        add_dying(&s);
        scene_add(&s, 6, 2, STATE_DYING | SW_CSS_ONLINE, "none", 9)->id_refs = 1;
        assert_int_equal(scene_census(&s, 2 * MINUTE), 0);

        /* Nothing is known of any pin. */
        add_dying(&s);
        scene_add(&s, 6, 2, STATE_DYING, "none", 9)->id_refs = 1;
        s.no_pins = true;
        assert_int_equal(scene_census(&s, 3 * MINUTE), 0);
        scene_done(&s);
}

static void test_swap(_unused_ void **state) {
        const Finding *f;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 0, 0);
        scene_limit(&s, FINDING_SWAP, 3000, 2000);

        /* Two causes are two findings. Nobody knows since when it is dying: since now, at least. */
        add_dying(&s)->id_refs = 2048;
        add_writeback(&s);
        assert_int_equal(scene_census(&s, MINUTE), 2);
        assert_int_equal(change(&s, 0)->finding->kind, FINDING_WRITEBACK);
        assert_int_equal(change(&s, 1)->finding->kind, FINDING_SWAP);
        f = find(&s, FINDING_SWAP, 3);
        assert_int_equal(f->id, 2);
        assert_int_equal(f->since_boot_usec, MINUTE);
        assert_false(f->since_exact);
        assert_int_equal(f->pin_refs, 1);
        assert_int_equal(f->pin_entries, 2048);
        assert_int_equal(f->pin_bytes, 2048 * SCENE_PAGE);
        assert_int_equal(f->pin_inodes, 0);
        assert_true(f->pin_exact);
        assert_string_equal(f->device, "");
        assert_int_equal(f->n_devices, 0);
        assert_int_equal(findings_count_kind(s.findings, FINDING_SWAP), 1);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_SWAP), 3000);

        /* The swap entries went, the writeback did not. A better time of its death became known. */
        assert_int_equal(ages_put(s.ages, 3, SECOND, true), 1);
        add_dying(&s);
        add_writeback(&s);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_BELOW);
        assert_int_equal(change(&s, 0)->finding->kind, FINDING_SWAP);
        assert_int_equal(change(&s, 0)->finding->pin_entries, 2048);
        f = find(&s, FINDING_WRITEBACK, 3);
        assert_int_equal(f->since_boot_usec, SECOND);
        assert_true(f->since_exact);

        /* All inodes were written, another reference holds it. */
        add_dying(&s);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_BELOW);
        assert_int_equal(findings_count(s.findings), 0);
        scene_done(&s);
}

/* Nothing is cleared for want of evidence. */
static void test_unknown_evidence(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 3000, 2000);
        scene_limit(&s, FINDING_SWAP, 3000, 2000);
        add_dying(&s);
        scene_add(&s, 4, 2, STATE_DYING, "swap", 3)->id_refs = 1;
        /* Seen is seen, though not all was. */
        add_writeback(&s);
        s.writeback_unknown = true;
        assert_int_equal(scene_census(&s, MINUTE), 2);
        assert_false(find(&s, FINDING_WRITEBACK, 3)->pin_exact);

        add_dying(&s);
        scene_add(&s, 4, 2, STATE_DYING, "swap", 3)->head.valid &= ~(uint32_t)SW_MEMCG_ID;
        assert_int_equal(scene_census(&s, 2 * MINUTE), 0);
        assert_int_equal(find(&s, FINDING_WRITEBACK, 3)->pin_refs, 3);
        assert_int_equal(find(&s, FINDING_SWAP, 4)->pin_entries, 1);

        s.no_pins = true;
        add_dying(&s);
        scene_add(&s, 4, 2, STATE_DYING, "swap", 3);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 0);

        /* What is gone is gone all the same. */
        add_dying(&s);
        assert_int_equal(scene_census(&s, 4 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_GONE);
        s.no_pins = s.writeback_unknown = false;
        add_dying(&s);
        assert_int_equal(scene_census(&s, 5 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_BELOW);
        scene_done(&s);
}

static void test_incomplete(_unused_ void **state) {
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 3000, 2000);
        add_dying(&s);
        add_writeback(&s);
        assert_int_equal(scene_census(&s, MINUTE), 1);

        s.input.complete = false;
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 0);
        /* What it has is whole: found, and cleared. */
        add_dying(&s);
        scene_add(&s, 4, 2, STATE_DYING, "other", 5);
        records_add_wb(&s.evidence, 4, "8:0", 1, 1);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 2);
        assert_false(change(&s, 0)->raised);
        assert_int_equal(change(&s, 0)->end, FINDING_END_BELOW);
        assert_true(change(&s, 1)->raised);
        assert_int_equal(change(&s, 1)->finding->serial, 4);
        assert_int_equal(change(&s, 1)->finding->id, 2);

        s.input.complete = true;
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        assert_int_equal(scene_census(&s, 4 * MINUTE), 1);
        assert_int_equal(change(&s, 0)->end, FINDING_END_GONE);
        scene_done(&s);
}

/* Order, ids, sums, and what a call that fails leaves. */
static void test_contract(_unused_ void **state) {
        CensusOptions options = options_units(1);
        const Census *good;
        Census *unsealed = NULL;
        const Finding *f;
        size_t n = 4711;
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 1000, 1000);
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        for (uint64_t serial = 2; serial < 8; serial++) {
                scene_add(&s, serial, 1, STATE_DYING, "d", (uint32_t)serial);
                records_add_wb(&s.evidence, serial, "8:0", 1, 1);
        }
        assert_int_equal(scene_census(&s, MINUTE), 6);
        for (size_t i = 0; i < 6; i++) {
                f = findings_get(s.findings, i);
                assert_int_equal(f->id, i + 1);
                assert_int_equal(f->serial, i + 2);
                assert_ptr_equal(change(&s, i)->finding, f);
                assert_ptr_equal(find(&s, FINDING_WRITEBACK, i + 2), f);
        }
        assert_int_equal(findings_count_kind(s.findings, FINDING_WRITEBACK), 6);
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_WRITEBACK), 27000);
        assert_null(findings_find(s.findings, FINDING_SWAP, 2));
        assert_null(findings_find(s.findings, FINDING_WRITEBACK, 8));

        /* Not sealed: nothing has changed, and nothing is told. */
        assert_int_equal(census_new(&unsealed, &options), 0);
        good = s.input.census;
        s.input.census = unsealed;
        assert_int_equal(findings_update(s.findings, &s.limits, &s.input), -EINVAL);
        (void)findings_changes(s.findings, &n);
        assert_int_equal(n, 0);
        assert_int_equal(findings_count(s.findings), 6);
        s.input.census = good;
        census_free(unsealed);

        /* Cleared ones first, in their order; ids go on. */
        scene_add(&s, 1, 0, STATE_LIVE, "", 2);
        scene_add(&s, 3, 1, STATE_DYING, "d", 3);
        scene_add(&s, 6, 1, STATE_DYING, "d", 6);
        scene_add(&s, 8, 1, STATE_DYING, "d", 1);
        for (uint64_t serial = 3; serial < 9; serial++)
                records_add_wb(&s.evidence, serial, "8:0", 1, 1);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 5);
        assert_int_equal(change(&s, 0)->finding->serial, 2);
        assert_int_equal(change(&s, 1)->finding->serial, 4);
        assert_int_equal(change(&s, 2)->finding->serial, 5);
        assert_int_equal(change(&s, 3)->finding->serial, 7);
        assert_true(change(&s, 4)->raised);
        assert_int_equal(change(&s, 4)->finding->id, 7);
        assert_int_equal(findings_get(s.findings, 0)->serial, 3);
        assert_int_equal(findings_get(s.findings, 1)->serial, 6);
        assert_int_equal(findings_get(s.findings, 2)->serial, 8);
        assert_null(findings_get(s.findings, 3));
        assert_int_equal(findings_sum_bytes(s.findings, FINDING_WRITEBACK), 10000);
        scene_done(&s);
}

/* Who made it: the topmost dying name, in the nearest live cgroup; the bytes as they are. */
static void test_creators(_unused_ void **state) {
        static const char docker[] = "docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 0, 0);
        scene_limit(&s, FINDING_SUBTREE, 5000, 5000);
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        scene_add(&s, 2, 1, STATE_LIVE, "system.slice", 5);
        scene_add(&s, 3, 2, STATE_DYING, docker, 1);
        scene_add(&s, 4, 3, STATE_DYING, "init.scope", 1);
        scene_add(&s, 5, 4, STATE_DYING, "a\nb", 1);
        scene_add(&s, 6, 1, STATE_DYING, "\xff\xfe worker-12", 1);
        for (uint64_t serial = 3; serial < 7; serial++)
                records_add_wb(&s.evidence, serial, "8:0", 1, 1);
        assert_int_equal(scene_census(&s, MINUTE), 5);
        assert_string_equal(find(&s, FINDING_WRITEBACK, 3)->creator, "system.slice/docker-*.scope");
        assert_string_equal(find(&s, FINDING_WRITEBACK, 4)->creator, "system.slice/docker-*.scope");
        assert_string_equal(find(&s, FINDING_WRITEBACK, 5)->creator, "system.slice/docker-*.scope");
        assert_int_equal(find(&s, FINDING_WRITEBACK, 5)->path_len, strlen("/system.slice/") + strlen(docker) + strlen("/init.scope/a\nb"));
        assert_string_equal(strrchr(find(&s, FINDING_WRITEBACK, 5)->path, '/'), "/a\nb");
        assert_string_equal(find(&s, FINDING_WRITEBACK, 6)->path, "/\xff\xfe worker-12");
        assert_string_equal(find(&s, FINDING_WRITEBACK, 6)->creator, "\xff\xfe worker-*");
        assert_string_equal(find(&s, FINDING_SUBTREE, 2)->path, "/system.slice");
        assert_string_equal(find(&s, FINDING_SUBTREE, 2)->creator, "system.slice");
        scene_done(&s);
}

/* A tree that somebody made deep on purpose: live ones to some depth, then dying ones. */
static void check_deep(size_t name_len, uint64_t live, uint64_t deep) {
        const size_t whole = (size_t)deep * (name_len + 1);
        const Finding *f;
        char name[256];
        Scene s;

        scene_start(&s);
        scene_limit(&s, FINDING_WRITEBACK, 9000, 9000);
        scene_add(&s, 1, 0, STATE_LIVE, "", 1);
        for (uint64_t i = 1; i <= deep; i++) {
                memset(name, (int)('a' + i % 26), name_len);
                name[name_len] = '\0';
                scene_add(&s, i + 1, i, i <= live ? STATE_LIVE : STATE_DYING, name, i == deep ? 9 : 1);
        }
        records_add_wb(&s.evidence, deep + 1, "8:0", 1, 1);
        assert_int_equal(scene_census(&s, MINUTE), 1);
        f = find(&s, FINDING_WRITEBACK, deep + 1);
        assert_int_equal(f->path_len, strlen(f->path));
        assert_int_equal(f->path[0], '/');
        assert_string_equal(f->path + f->path_len - name_len, name);
        assert_memory_equal(f->path + 1, "bbb", 3);
        if (whole <= FINDING_PATH_MAX) {
                assert_int_equal(f->path_len, whole);
        } else {
                assert_true(f->path_len <= FINDING_PATH_MAX);
                /* As much of it as fits. */
                assert_true(f->path_len + name_len + 1 > FINDING_PATH_MAX);
                assert_memory_equal(f->path + f->path_len - name_len - 5, "/.../", 5);
        }
        assert_true(strlen(f->creator) <= FINDING_PATH_MAX + name_len);
        assert_memory_equal(f->creator, "bbb", 3);
        assert_int_equal(f->creator[strlen(f->creator) - 1], 'a' + (live + 1) % 26);
        scene_done(&s);
}

static void test_deep(_unused_ void **state) {
        check_deep(255, 3, 16);  /* 4,096 bytes: just fits */
        check_deep(255, 3, 17);
        check_deep(255, 40, 41);
        check_deep(7, 511, 512); /* 4,096 again */
        check_deep(7, 512, 513);
        check_deep(7, 100, 2000);
        check_deep(3, 5000, 5001);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_writeback),
                cmocka_unit_test(test_not_found),
                cmocka_unit_test(test_swap),
                cmocka_unit_test(test_unknown_evidence),
                cmocka_unit_test(test_incomplete),
                cmocka_unit_test(test_contract),
                cmocka_unit_test(test_creators),
                cmocka_unit_test(test_deep),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
