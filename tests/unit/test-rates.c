/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rates: patterns, intervals, and what happens when there are more patterns than room. */
#include <stdio.h>

#include "check.h"
#include "rates.h"

static void add(Rates *r, uint32_t kind, const char *name) {
        assert_int_equal(rates_add(r, kind, name, strlen(name)), 0);
}

/* The one with this pattern; NULL if there is none. */
static const Rate *find(const Rates *r, const char *pattern) {
        _cleanup_(freep) const Rate **list = NULL;
        const Rate *found = NULL;
        size_t n;

        assert_int_equal(rates_list(r, &list, &n), 0);
        for (size_t i = 0; i < n; i++)
                if (strcmp(list[i]->pattern, pattern) == 0) {
                        assert_null(found); /* each pattern once */
                        found = list[i];
                }
        return found;
}

static void test_patterns(void **state) {
        _cleanup_(rates_freep) Rates *r = NULL;
        const Rate *run;

        (void)state;
        assert_int_equal(rates_new(&r), 0);
        add(r, SW_EVENT_CREATED, "run-r1a2b3c.scope");
        add(r, SW_EVENT_CREATED, "run-r9f8e7d.scope");
        add(r, SW_EVENT_REMOVED, "run-r1a2b3c.scope");
        add(r, SW_EVENT_RELEASED, "run-r1a2b3c.scope");
        add(r, SW_EVENT_CREATED, "nginx.service");

        run = find(r, "run-r*.scope");
        assert_non_null(run);
        assert_int_equal(run->total[SW_EVENT_CREATED], 2);
        assert_int_equal(run->total[SW_EVENT_REMOVED], 1);
        assert_int_equal(run->total[SW_EVENT_RELEASED], 1);
        assert_int_equal(run->now[SW_EVENT_CREATED], 2);
        assert_int_equal(find(r, "nginx.service")->total[SW_EVENT_CREATED], 1);
        assert_null(find(r, "run-r1a2b3c.scope"));
}

static void test_ticks(void **state) {
        _cleanup_(rates_freep) Rates *r = NULL;
        const Rate *rate;

        (void)state;
        assert_int_equal(rates_new(&r), 0);
        add(r, SW_EVENT_CREATED, "a.service");
        rates_tick(r);
        rate = find(r, "a.service");
        assert_int_equal(rate->now[SW_EVENT_CREATED], 0);
        assert_int_equal(rate->total[SW_EVENT_CREATED], 1);
        assert_int_equal(rate->quiet_ticks, 1);
        add(r, SW_EVENT_REMOVED, "a.service");
        rate = find(r, "a.service");
        assert_int_equal(rate->now[SW_EVENT_REMOVED], 1);
        assert_int_equal(rate->quiet_ticks, 0);
}

/* Most events since the last tick first; then by pattern. */
static void test_order(void **state) {
        static const char *const wanted[] = { "c.service", "a.service", "b.service" };
        _cleanup_(rates_freep) Rates *r = NULL;
        _cleanup_(freep) const Rate **list = NULL;
        size_t n;

        (void)state;
        assert_int_equal(rates_new(&r), 0);
        for (unsigned i = 0; i < 9; i++)
                add(r, SW_EVENT_CREATED, "b.service");
        rates_tick(r);
        add(r, SW_EVENT_CREATED, "b.service");
        add(r, SW_EVENT_CREATED, "c.service");
        add(r, SW_EVENT_REMOVED, "c.service");
        add(r, SW_EVENT_RELEASED, "a.service");
        assert_int_equal(rates_list(r, &list, &n), 0);
        assert_int_equal(n, ELEMENTSOF(wanted));
        for (size_t i = 0; i < n; i++)
                assert_string_equal(list[i]->pattern, wanted[i]);
}

static void test_unnamed(void **state) {
        char longest[SW_NAME_MAX + 2];
        _cleanup_(rates_freep) Rates *r = NULL;

        (void)state;
        memset(longest, 'x', sizeof(longest));
        assert_int_equal(rates_new(&r), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, NULL, 0), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, "", 0), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, longest, sizeof(longest)), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, longest, SW_NAME_MAX), 0); /* as long as a name can be */
        assert_int_equal(rates_add(r, 3, "a", 1), -EINVAL);
        assert_int_equal(rates_others(r)->total[SW_EVENT_CREATED], 3);
}

/* Raw bytes: a NUL and what is no text are parts of a name like others. */
static void test_bytes(void **state) {
        _cleanup_(rates_freep) Rates *r = NULL;
        _cleanup_(freep) const Rate **list = NULL;
        size_t n;

        (void)state;
        assert_int_equal(rates_new(&r), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, "\xff\xfe", 2), 0);
        assert_int_equal(rates_add(r, SW_EVENT_CREATED, "\xff", 1), 0);
        assert_int_equal(rates_list(r, &list, &n), 0);
        assert_int_equal(n, 2);
        assert_memory_equal(list[0]->pattern, "\xff", 2);
        assert_memory_equal(list[1]->pattern, "\xff\xfe", 3);
}

static void add_numbered(Rates *r, unsigned i) {
        char name[32];

        /* Letters only: numbers would be a pattern. */
        (void)snprintf(name, sizeof(name), "svc%c%c%c.service", (int)('a' + i / 676 % 26), (int)('a' + i / 26 % 26), (int)('a' + i % 26));
        add(r, SW_EVENT_CREATED, name);
}

static uint64_t sum(const Rates *r) {
        _cleanup_(freep) const Rate **list = NULL;
        uint64_t total = rates_others(r)->total[SW_EVENT_CREATED];
        size_t n;

        assert_int_equal(rates_list(r, &list, &n), 0);
        assert_true(n <= RATES_PATTERNS_MAX);
        for (size_t i = 0; i < n; i++)
                total += list[i]->total[SW_EVENT_CREATED];
        return total;
}

/* However many patterns: bounded, and no event is lost. Those that are active stay, those that were quiet longest go. */
static void test_bound(void **state) {
        _cleanup_(rates_freep) Rates *r = NULL;

        (void)state;
        assert_int_equal(rates_new(&r), 0);
        for (unsigned i = 0; i < RATES_PATTERNS_MAX + 100; i++)
                add_numbered(r, i);
        assert_int_equal(rates_others(r)->total[SW_EVENT_CREATED], 100); /* all active: none made room */
        assert_int_equal(sum(r), RATES_PATTERNS_MAX + 100);

        rates_tick(r);
        add_numbered(r, 0); /* the only one that is not quiet */
        for (unsigned i = 5000; i < 5000 + 2 * RATES_PATTERNS_MAX; i++)
                add_numbered(r, i);
        assert_non_null(find(r, "svcaaa.service"));
        assert_null(find(r, "svcaab.service"));
        assert_int_equal(sum(r), 3 * RATES_PATTERNS_MAX + 101);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_patterns), cmocka_unit_test(test_ticks), cmocka_unit_test(test_order),
                cmocka_unit_test(test_unnamed),  cmocka_unit_test(test_bytes), cmocka_unit_test(test_bound),
        };

        return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
