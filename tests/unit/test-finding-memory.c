/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Out of memory at each allocation in turn: the call says so, and nothing has changed. The linker hands the allocations of the library to
 * the functions here (--wrap).
 */
#include <stdio.h>

#include "check.h"
#include "scene.h"

#define MINUTE (60 * SECOND)

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);

static size_t left = SIZE_MAX; /* allocations that still succeed */

static bool may(void) {
        if (left == SIZE_MAX)
                return true;
        if (left == 0)
                return false;
        left--;
        return true;
}

void *__wrap_malloc(size_t size) {
        return may() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size) {
        return may() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t size) {
        return may() ? __real_realloc(p, size) : NULL;
}

char *__wrap_strdup(const char *s) {
        return may() ? __real_strdup(s) : NULL;
}

static FindingSubtree subtrees[] = {
        { .pattern = (char[]){ "a.slice/*" }, .overhead = { .enabled = true, .on = 2000, .off = 1000 } },
};
static const FindingMark marks[] = { { 3, 1000 } };

static void start(Scene *s) {
        scene_start(s);
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                scene_limit(s, kind, 2, 1);
        s->limits.subtrees = subtrees;
        s->limits.n_subtrees = ELEMENTSOF(subtrees);
        s->input.marks = marks;
        s->input.n_marks = ELEMENTSOF(marks);
        s->input.degraded = "one thing";
}

static void add_first(Scene *s) {
        scene_add(s, 1, 0, STATE_LIVE, "", 1);
        scene_add(s, 2, 1, STATE_LIVE, "a.slice", 1);
        for (uint64_t serial = 3; serial < 30; serial++) {
                scene_add(s, serial, 2, serial < 20 ? STATE_DYING : STATE_LIVE, "run-12.scope", 2)->id_refs = 5;
                records_add_wb(&s->evidence, serial, "8:0", 1, 1);
        }
}

/* Something of everything: raised, cleared, told anew; and a path that is too long. */
static void add_second(Scene *s) {
        char name[256] = {};

        memset(name, 'n', sizeof(name) - 1);
        s->input.degraded = "another thing";
        scene_add(s, 1, 0, STATE_LIVE, "", 1);
        for (uint64_t serial = 10; serial < 15; serial++)
                scene_add(s, serial, 1, STATE_LIVE, "b", 3);
        for (uint64_t serial = 100; serial < 120; serial++) {
                scene_add(s, serial, serial == 100 ? 1 : serial - 1, serial < 118 ? STATE_LIVE : STATE_DYING, name, 3);
                records_add_wb(&s->evidence, serial, "8:0", 1, 1);
        }
}

static void test_update(_unused_ void **state) {
        char *before, *after, *end;
        Findings *findings;
        size_t n, failures = 0;
        Scene s, control;
        int r;

        /* What it comes to when all goes well. */
        start(&control);
        add_first(&control);
        assert_true(scene_census(&control, MINUTE) > 40);
        add_second(&control);
        assert_true(scene_census(&control, 2 * MINUTE) > 40);
        after = scene_state(control.findings);
        scene_done(&control);

        start(&s);
        add_first(&s);
        assert_true(scene_census(&s, MINUTE) > 40);
        before = scene_state(s.findings);
        /* The same census, with others' findings. */
        findings = s.findings;
        assert_int_equal(findings_new(&s.findings), 0);
        add_second(&s);
        assert_true(scene_census(&s, 2 * MINUTE) > 0);
        findings_free(s.findings);
        s.findings = findings;

        for (size_t i = 0;; i++) {
                char *now;

                left = i;
                r = findings_update(s.findings, &s.limits, &s.input);
                left = SIZE_MAX;
                if (r >= 0)
                        break;
                failures++;
                assert_int_equal(r, -ENOMEM);
                (void)findings_changes(s.findings, &n);
                assert_int_equal(n, 0);
                now = scene_state(s.findings);
                assert_string_equal(now, before);
                free(now);
        }
        assert_true(failures > 50);
        end = scene_state(s.findings);
        assert_string_equal(end, after);
        free(end);
        free(before);
        free(after);
        scene_done(&s);
}

static void test_new_and_parse(_unused_ void **state) {
        size_t failures = 0, n;
        Findings *f = NULL;
        char *text, *again;
        Scene s;
        int r;

        start(&s);
        add_first(&s);
        assert_true(scene_census(&s, MINUTE) > 0);
        text = scene_state(s.findings);
        n = findings_count(s.findings);

        left = 0;
        assert_int_equal(findings_new(&f), -ENOMEM);
        left = SIZE_MAX;
        assert_null(f);
        assert_int_equal(findings_new(&f), 0);
        for (size_t i = 0;; i++) {
                unsigned line = 4711;

                left = i;
                r = findings_parse(f, text, strlen(text), "boot", &line);
                left = SIZE_MAX;
                assert_int_equal(line, 4711);
                if (r >= 0)
                        break;
                failures++;
                assert_int_equal(r, -ENOMEM);
                assert_int_equal(findings_count(f), 0);
        }
        assert_int_equal(r, n);
        assert_true(failures > n);
        again = scene_state(f);
        assert_string_equal(again, text);
        free(again);
        free(text);
        findings_free(f);
        scene_done(&s);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_update),
                cmocka_unit_test(test_new_and_parse),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
