/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The findings over a restart: the form of the file, what is taken of a damaged one, and that nothing is raised twice. */
#include <stdio.h>

#include "check.h"
#include "scene.h"

#define MINUTE (60 * SECOND)
#define HEAD "shrinkwatch findings 1 boot 100\n"
#define GOOD "id=7 kind=host value=5\n"

static int parse(Findings *f, const char *text, unsigned *ret_line) {
        /* In memory that ends with it, so that a sanitizer sees a byte read too many. */
        size_t len = strlen(text);
        char *exact = malloc(len ? len : 1);
        int r;

        assert_non_null(exact);
        memcpy(exact, text, len);
        r = findings_parse(f, exact, len, "boot", ret_line);
        free(exact);
        return r;
}

/* Parses into findings that are new, and to be freed. */
static Findings *parsed(const char *text, int result, unsigned line) {
        unsigned got = 4711;
        Findings *f = NULL;

        assert_int_equal(findings_new(&f), 0);
        assert_int_equal(parse(f, text, &got), result);
        assert_int_equal(got, result == -EBADMSG ? line : 4711);
        return f;
}

static void assert_bad(const char *text, unsigned line, size_t taken) {
        Findings *f = parsed(text, -EBADMSG, line);
        char *state;

        assert_int_equal(findings_count(f), taken);
        /* Of a first line that is none nothing is taken, the next id neither. */
        state = scene_state(f);
        assert_non_null(strstr(state, line == 1 ? " 1 boot 1\nend 0\n" : " 1 boot 100\n"));
        free(state);
        findings_free(f);
}

static void add_world(Scene *s) {
        scene_add(s, 1, 0, STATE_LIVE, "", 1);
        scene_add(s, 2, 1, STATE_LIVE, "a b.slice", 1);
        scene_add(s, 4, 2, STATE_LIVE, "c.slice", 9);
        scene_add(s, 3, 1, STATE_DYING, "\\x2d \n=\xff\x7f~", 3)->id_refs = 3;
        records_add_wb(&s->evidence, 3, "8:0 \xfe", 5, 7);
        records_add_wb(&s->evidence, 3, "9:0", 5, 7);
}

static void start(Scene *s) {
        scene_start(s);
        scene_limit(s, FINDING_WRITEBACK, 2000, 1000);
        scene_limit(s, FINDING_SWAP, 2000, 1000);
        scene_limit(s, FINDING_SUBTREE, 9000, 8000);
        scene_limit(s, FINDING_HOST, 10000, 9000);
        scene_limit(s, FINDING_DEGRADED, 1, 1);
        s->input.degraded = "no events: \xc3\xa4 \\";
        assert_int_equal(ages_put(s->ages, 3, SECOND, true), 1);
}

static void assert_same(const Finding *a, const Finding *b) {
        assert_int_equal(a->id, b->id);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->serial, b->serial);
        assert_int_equal(a->cgroup_id, b->cgroup_id);
        assert_int_equal(a->path_len, b->path_len);
        assert_int_equal(a->path != NULL, b->path != NULL);
        if (a->path) {
                assert_string_equal(a->path, b->path);
                assert_string_equal(a->creator, b->creator);
        }
        assert_int_equal(a->value, b->value);
        assert_int_equal(a->limit, b->limit);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->units, b->units);
        assert_int_equal(a->raised_boot_usec, b->raised_boot_usec);
        assert_int_equal(a->since_boot_usec, b->since_boot_usec);
        assert_int_equal(a->since_exact, b->since_exact);
        assert_int_equal(a->refs_known, b->refs_known);
        assert_int_equal(a->refs, b->refs);
        assert_int_equal(a->pin_refs, b->pin_refs);
        assert_int_equal(a->pin_bytes, b->pin_bytes);
        assert_int_equal(a->pin_inodes, b->pin_inodes);
        assert_int_equal(a->pin_entries, b->pin_entries);
        assert_int_equal(a->pin_exact, b->pin_exact);
        assert_string_equal(a->device, b->device);
        assert_int_equal(a->n_devices, b->n_devices);
        assert_int_equal(a->text != NULL, b->text != NULL);
        if (a->text)
                assert_string_equal(a->text, b->text);
}

static void test_restart(_unused_ void **state) {
        Findings *old, *new = NULL;
        char *text, *again;
        Scene s;

        start(&s);
        add_world(&s);
        assert_int_equal(scene_census(&s, MINUTE), 5);
        text = scene_state(s.findings);
        assert_null(strchr(text, '\xff'));
        assert_non_null(strstr(text, " path=/\\x5cx2d\\x20\\x0a=\\xff\\x7f~ "));
        assert_non_null(strstr(text, " device=8:0\\x20\\xfe devices=2\n"));

        assert_int_equal(findings_new(&new), 0);
        assert_int_equal(parse(new, text, NULL), 5);
        old = s.findings;
        assert_int_equal(findings_count(new), 5);
        for (size_t i = 0; i < 5; i++) {
                const Finding *f = findings_get(old, i);

                assert_same(findings_get(new, i), f);
                assert_ptr_equal(findings_find(new, f->kind, f->serial), findings_get(new, i));
        }
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                assert_int_equal(findings_count_kind(new, kind), findings_count_kind(old, kind));
                assert_int_equal(findings_sum_bytes(new, kind), findings_sum_bytes(old, kind));
        }
        again = scene_state(new);
        assert_string_equal(text, again);
        free(again);

        /* The same world: nothing to tell. Then one goes, and it is the one that was raised before. */
        s.findings = new;
        add_world(&s);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 0);
        scene_add(&s, 1, 0, STATE_LIVE, "", 10);
        assert_int_equal(scene_census(&s, 3 * MINUTE), 3);
        assert_int_equal(findings_count(s.findings), 2);
        /* Ids go on where they were. */
        add_world(&s);
        assert_int_equal(scene_census(&s, 4 * MINUTE), 3);
        assert_int_equal(findings_find(s.findings, FINDING_SUBTREE, 4)->id, 8);
        findings_free(old);
        free(text);
        scene_done(&s);
}

/* The next daemon may have other limits; it tells what ended by them, and what by itself. */
static void test_restart_with_other_limits(_unused_ void **state) {
        const FindingChange *changes;
        char *text;
        Scene s;
        size_t n;

        start(&s);
        add_world(&s);
        assert_int_equal(scene_census(&s, MINUTE), 5);
        text = scene_state(s.findings);
        findings_free(s.findings);
        assert_int_equal(findings_new(&s.findings), 0);
        assert_int_equal(parse(s.findings, text, NULL), 5);
        free(text);

        scene_limit(&s, FINDING_WRITEBACK, 4000, 3500);           /* 3,000: would stand by the one before */
        s.limits.limit[FINDING_SWAP].enabled = false;
        scene_limit(&s, FINDING_SUBTREE, 10001, 8000);            /* never was as high */
        s.limits.limit[FINDING_HOST].min_age_usec = 60 * MINUTE;  /* is for raising */
        s.input.degraded = NULL;
        add_world(&s);
        assert_int_equal(scene_census(&s, 2 * MINUTE), 4);
        changes = findings_changes(s.findings, &n);
        for (size_t i = 0; i < n; i++) {
                assert_false(changes[i].raised);
                assert_int_equal(changes[i].end, changes[i].finding->kind == FINDING_DEGRADED ? FINDING_END_BELOW : FINDING_END_LIMIT);
        }
        assert_non_null(findings_find(s.findings, FINDING_HOST, 0));
        scene_done(&s);
}

/* Into findings that are there: what stands stays, ids are nobody else's. */
static void test_parse_into(_unused_ void **state) {
        Findings *f = parsed(HEAD "id=3 kind=host value=5\nid=9 kind=dying value=6\nend 2\n", 2, 0);

        assert_int_equal(parse(f, "shrinkwatch findings 1 boot 9\nid=1 kind=host value=1\nid=2 kind=memcg-ids value=2\nend 2\n", NULL), 1);
        assert_int_equal(findings_count(f), 3);
        assert_int_equal(findings_find(f, FINDING_HOST, 0)->value, 5);
        assert_int_equal(findings_get(f, 2)->kind, FINDING_MEMCG_IDS);
        assert_int_equal(findings_get(f, 2)->id, 100);
        findings_free(f);

        /* The same key twice in one file: once, the first. */
        f = parsed(HEAD "id=3 kind=host value=5\nid=4 kind=dying\nid=9 kind=host value=6\nid=11 kind=host value=7\nend 4\n", 2, 0);
        assert_int_equal(findings_find(f, FINDING_HOST, 0)->value, 5);
        assert_int_equal(findings_count_kind(f, FINDING_HOST), 1);
        findings_free(f);
}

static void test_form(_unused_ void **state) {
        Findings *f;
        char *text;

        f = parsed(HEAD "end 0\n", 0, 0);
        text = scene_state(f);
        assert_string_equal(text, HEAD "end 0\n");
        free(text);
        findings_free(f);

        /* Words of a later version are none of its business, in any order. */
        f = parsed(HEAD "new=\xff\\ value=18446744073709551615 kind=host x= id=7\nend 1\n", 1, 0);
        assert_int_equal(findings_get(f, 0)->value, UINT64_MAX);
        findings_free(f);

        f = parsed(HEAD "id=1 kind=subtree serial=2 path=/a creator=a bytes=5000\n"
                   "id=2 kind=subtree serial=3 path=/a/b creator=a/b bytes=3000 nested=1\nend 2\n", 2, 0);
        assert_int_equal(findings_sum_bytes(f, FINDING_SUBTREE), 5000);
        text = scene_state(f);
        assert_non_null(strstr(text, "creator=a/b value=0 limit=0 off=0 peak=0 own=0 nested=1 bytes=3000 "));
        free(text);
        findings_free(f);

        f = parsed("shrinkwatch findings 1 other 100\n" GOOD "end 1\n", -ESTALE, 0);
        assert_int_equal(findings_count(f), 0);
        findings_free(f);
        f = parsed("shrinkwatch findings 1 boo 100\n" GOOD "end 1\n", -ESTALE, 0);
        findings_free(f);

        assert_bad("", 1, 0);
        assert_bad("\n", 1, 0);
        assert_bad("shrinkwatch findings 1 boot 100", 1, 0);
        assert_bad("shrinkwatch findings 2 boot 100\nend 0\n", 1, 0);
        assert_bad("shrinkwatch findings 1 boot\nend 0\n", 1, 0);
        assert_bad("shrinkwatch findings 1 boot 0\nend 0\n", 1, 0);
        assert_bad("shrinkwatch findings 1 boot 100 \nend 0\n", 1, 0);
        assert_bad("shrinkwatch findings 1 boot 18446744073709551615\nend 0\n", 1, 0);
        assert_bad("shrinkwatch ages 1 boot 100\nend 0\n", 1, 0);
}

/* Damage: what stood before it is taken. */
static void test_damage(_unused_ void **state) {
        static const char *const bad[] = {
                "",
                "id=8",
                "kind=dying",
                "id=8 kind=dying ",
                " id=8 kind=dying",
                "id=8  kind=dying",
                "id=8 kind=dying value",
                "id=8 id=8 kind=dying",
                "id=0 kind=dying",
                "id=7 kind=dying",   /* not above the one before */
                "id=100 kind=dying", /* not below what the head says */
                "id=08 kind=dying",
                "id=+8 kind=dying",
                "id=8 kind=dying value=",
                "id=8 kind=dying value=-1",
                "id=8 kind=dying value=18446744073709551616",
                "id=8 kind=dying value=99999999999999999999999999",
                "id=8 kind=dying value=1x",
                "id=8 kind=Dying",
                "id=8 kind=",
                "id=8 kind=dying since-exact=2",
                "id=8 kind=dying since-exact=yes",
                "id=8 kind=dying serial=1",
                "id=8 kind=dying path=/x",
                "id=8 kind=dying creator=x",
                "id=8 kind=dying text=x",
                "id=8 kind=degraded",
                "id=8 kind=swap",
                "id=8 kind=swap path=/x creator=x",
                "id=8 kind=swap serial=0 path=/x creator=x",
                "id=8 kind=swap serial=1 creator=x",
                "id=8 kind=swap serial=1 path=/x",
                "id=8 kind=swap serial=1 path=x creator=x",
                "id=8 kind=swap serial=1 path= creator=x",
                "id=8 kind=swap serial=1 path=/x path=/x creator=x",
                "id=8 kind=swap serial=1 path=/\\x2 creator=x",
                "id=8 kind=swap serial=1 path=/\\x creator=x",
                "id=8 kind=swap serial=1 path=/\\ creator=x",
                "id=8 kind=swap serial=1 path=/\\y20 creator=x",
                "id=8 kind=swap serial=1 path=/\\x2G creator=x",
                "id=8 kind=swap serial=1 path=/\\xFF creator=x",
                "id=8 kind=swap serial=1 path=/\\x00 creator=x",
                "id=8 kind=swap serial=1 path=/\xc3\xa4 creator=x",
                "id=8 kind=swap serial=1 path=/\t creator=x",
                "id=8 kind=swap serial=1 path=/\x7f creator=x",
                "id=8 kind=swap serial=1 path=/x creator=x device=0123456789012345678901234567890123456789012345678901234567890123",
                "end",
                "end x",
                "end 0",
                "end 2",
                "end 01",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                char text[512];

                (void)snprintf(text, sizeof(text), HEAD GOOD "%s\nid=9 kind=memcg-ids\nend 3\n", bad[i]);
                assert_bad(text, 3, 1);
        }
        assert_bad(HEAD GOOD, 3, 1);
        assert_bad(HEAD GOOD "end 1", 3, 1);
        assert_bad(HEAD GOOD "end 1\n\n", 4, 1);
        assert_bad(HEAD GOOD "end 1\nid=8 kind=dying\n", 4, 1);
}

static void test_limits_of_strings(_unused_ void **state) {
        char *path = malloc(FINDING_PATH_MAX + 2), *text = malloc(FINDING_PATH_MAX + 300);
        char device[64] = {};
        Findings *f;

        assert_true(path && text);
        memset(path, 'p', FINDING_PATH_MAX + 1);
        path[0] = '/';
        path[FINDING_PATH_MAX + 1] = '\0';
        (void)snprintf(text, FINDING_PATH_MAX + 300, HEAD "id=8 kind=subtree serial=1 path=%s creator=x\nend 1\n", path);
        assert_bad(text, 2, 0);
        path[FINDING_PATH_MAX] = '\0';
        memset(device, 'd', sizeof(device) - 1);
        (void)snprintf(text, FINDING_PATH_MAX + 300, HEAD "id=8 kind=subtree serial=1 path=%s creator= device=%s\nend 1\n", path, device);
        f = parsed(text, 1, 0);
        assert_int_equal(findings_get(f, 0)->path_len, FINDING_PATH_MAX);
        assert_string_equal(findings_get(f, 0)->device, device);
        findings_free(f);
        free(text);
        free(path);
}

/* Cut anywhere it is never taken for whole, and nothing is made up. */
static void test_truncated(_unused_ void **state) {
        size_t len, whole;
        char *text;
        Scene s;

        start(&s);
        add_world(&s);
        assert_int_equal(scene_census(&s, MINUTE), 5);
        text = scene_state(s.findings);
        whole = strlen(text);
        for (len = 0; len < whole; len++) {
                Findings *f = NULL;
                size_t lines = 0;
                char *cut = malloc(len + 1);

                assert_non_null(cut);
                memcpy(cut, text, len);
                cut[len] = '\0';
                for (size_t i = 0; i < len; i++)
                        lines += cut[i] == '\n';
                assert_int_equal(findings_new(&f), 0);
                assert_int_equal(parse(f, cut, NULL), -EBADMSG);
                assert_int_equal(findings_count(f), lines > 0 ? lines - 1 : 0);
                for (size_t i = 0; i < findings_count(f); i++)
                        assert_same(findings_get(f, i), findings_get(s.findings, i));
                findings_free(f);
                free(cut);
        }
        free(text);
        scene_done(&s);
}

static void test_disk_full(_unused_ void **state) {
        FILE *file = fopen("/dev/full", "we");
        Findings *f;
        int r;

        if (!file)
                skip();
        assert_int_equal(setvbuf(file, NULL, _IONBF, 0), 0);
        f = parsed(HEAD GOOD "end 1\n", 1, 0);
        r = findings_write(f, file, "boot");
        (void)fclose(file);
        assert_int_equal(r, -EIO);
        findings_free(f);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_restart_with_other_limits),
                cmocka_unit_test(test_parse_into),
                cmocka_unit_test(test_form),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_limits_of_strings),
                cmocka_unit_test(test_truncated),
                cmocka_unit_test(test_disk_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
