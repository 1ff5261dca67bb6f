/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The trend of the history, against arithmetic, and when it reaches a value. In memory only: what is on disk is test-history's business. */
#include <math.h>

#include "builder.h"
#include "check.h"
#include "history.h"

#define MINUTE_USEC 60000000ULL
#define HOUR_USEC (60 * MINUTE_USEC)
#define BOOT 77

static History *new_history(void) {
        History *h = NULL;

        assert_int_equal(history_new(&h, -1, NULL), -EBADF);
        assert_non_null(h);
        return h;
}

static void append(History *h, uint64_t boot_usec, uint64_t dying) {
        const HistorySample s = { .boot_usec = boot_usec, .boot = BOOT, .valid = HISTORY_COMPLETE, .dying = dying };

        assert_int_equal(history_append(h, &s), 0);
}

static HistoryTrend trend_of(const History *h, uint64_t now_usec, uint64_t window_usec) {
        HistoryTrend t;

        memset(&t, 0x55, sizeof(t)); /* all of it is set, whatever is known */
        history_trend(h, HISTORY_FIELD_DYING, BOOT, now_usec, window_usec, &t);
        return t;
}

static void assert_unknown(HistoryTrend t, size_t samples, uint64_t span_usec, uint64_t last_value) {
        uint64_t usec = 4711;

        assert_false(t.known);
        assert_true(t.per_hour == 0);
        assert_int_equal(t.samples, samples);
        assert_int_equal(t.span_usec, span_usec);
        assert_int_equal(t.last_value, last_value);
        assert_false(history_project(&t, 0, &usec));
        assert_false(history_project(&t, UINT64_MAX, &usec));
        assert_int_equal(usec, 4711);
}

static void assert_known(HistoryTrend t, double per_hour, size_t samples, uint64_t span_usec, uint64_t last_value) {
        assert_true(t.known);
        if (fabs(t.per_hour - per_hour) > 1e-9 * fabs(per_hour) + 1e-9)
                fail_msg("%.17g an hour, not %.17g", t.per_hour, per_hour);
        assert_int_equal(t.samples, samples);
        assert_int_equal(t.span_usec, span_usec);
        assert_int_equal(t.last_value, last_value);
}

/* Too few samples, too short a time. */
static void test_known(_unused_ void **state) {
        _cleanup_(history_freep) History *h = new_history();

        assert_unknown(trend_of(h, 0, HOUR_USEC), 0, 0, 0);
        for (uint64_t i = 0; i < 4; i++)
                append(h, i * 10 * MINUTE_USEC, 100 + i);
        assert_unknown(trend_of(h, 30 * MINUTE_USEC, HOUR_USEC), 4, 30 * MINUTE_USEC, 103);
        append(h, 40 * MINUTE_USEC, 104);
        assert_known(trend_of(h, 40 * MINUTE_USEC, HOUR_USEC), 6, 5, 40 * MINUTE_USEC, 104);
        /* Exactly a quarter is enough, less is not. */
        assert_known(trend_of(h, 40 * MINUTE_USEC, 160 * MINUTE_USEC), 6, 5, 40 * MINUTE_USEC, 104);
        assert_unknown(trend_of(h, 40 * MINUTE_USEC, 160 * MINUTE_USEC + 4), 5, 40 * MINUTE_USEC, 104);
        assert_unknown(trend_of(h, 40 * MINUTE_USEC, UINT64_MAX), 5, 40 * MINUTE_USEC, 104);
        /* The fifth is out of the window, or later than now. */
        assert_unknown(trend_of(h, 40 * MINUTE_USEC + 1, 40 * MINUTE_USEC), 4, 30 * MINUTE_USEC, 104);
        assert_known(trend_of(h, 40 * MINUTE_USEC, 40 * MINUTE_USEC), 6, 5, 40 * MINUTE_USEC, 104);
        assert_unknown(trend_of(h, 40 * MINUTE_USEC - 1, HOUR_USEC), 4, 30 * MINUTE_USEC, 103);
        assert_unknown(trend_of(h, 40 * MINUTE_USEC, 0), 1, 0, 104);
        assert_unknown(trend_of(h, UINT64_MAX, HOUR_USEC), 0, 0, 0);
}

/* Many samples of one moment have no slope. */
static void test_one_moment(_unused_ void **state) {
        _cleanup_(history_freep) History *h = new_history();

        for (uint64_t i = 0; i < 10; i++)
                append(h, 5, i);
        assert_unknown(trend_of(h, 5, 0), 10, 0, 9);
        assert_unknown(trend_of(h, 5, 3), 10, 0, 9);
}

static void test_which_samples(_unused_ void **state) {
        _cleanup_(history_freep) History *h = new_history();
        HistorySample s = { .boot = BOOT, .valid = HISTORY_COMPLETE };
        HistoryTrend t;

        for (uint64_t i = 0; i < 30; i++) {
                s.boot_usec = i * MINUTE_USEC;
                s.overhead_bytes = 1000000 - i;
                s.dying = 5000 + 2 * i;
                s.ids = 64;
                s.boot = BOOT;
                s.valid = HISTORY_COMPLETE | HISTORY_SETTLED;
                assert_int_equal(history_append(h, &s), 0);
                /* A census that is not complete, and another boot: both far off the line. */
                s.boot_usec++;
                s.overhead_bytes = s.dying = s.ids = random_u64(&(Random){ i });
                s.valid = ~(uint64_t)HISTORY_COMPLETE;
                assert_int_equal(history_append(h, &s), 0);
                s.valid = HISTORY_COMPLETE;
                s.boot = BOOT - 1;
                assert_int_equal(history_append(h, &s), 0);
        }
        assert_known(trend_of(h, 29 * MINUTE_USEC, HOUR_USEC), 120, 30, 29 * MINUTE_USEC, 5058);
        assert_known(trend_of(h, 29 * MINUTE_USEC, 10 * MINUTE_USEC), 120, 11, 10 * MINUTE_USEC, 5058);
        history_trend(h, HISTORY_FIELD_OVERHEAD, BOOT, 29 * MINUTE_USEC, HOUR_USEC, &t);
        assert_known(t, -60, 30, 29 * MINUTE_USEC, 1000000 - 29);
        history_trend(h, HISTORY_FIELD_IDS, BOOT, 29 * MINUTE_USEC, HOUR_USEC, &t);
        assert_known(t, 0, 30, 29 * MINUTE_USEC, 64);
        history_trend(h, HISTORY_FIELD_IDS, BOOT + 1, 29 * MINUTE_USEC, HOUR_USEC, &t);
        assert_unknown(t, 0, 0, 0);
}

/* Where doubles have steps of 2,048, one more an hour is still one more an hour. */
static void test_huge(_unused_ void **state) {
        _cleanup_(history_freep) History *h = new_history(), *wild = new_history();
        uint64_t begin = UINT64_MAX - 20 * HOUR_USEC, usec = 0;
        HistoryTrend t;

        for (uint64_t i = 0; i <= 10; i++)
                append(h, begin + i * HOUR_USEC, UINT64_MAX - 20 + i);
        t = trend_of(h, begin + 10 * HOUR_USEC, 10 * HOUR_USEC);
        assert_known(t, 1, 11, 10 * HOUR_USEC, UINT64_MAX - 10);
        assert_true(history_project(&t, UINT64_MAX - 5, &usec));
        assert_int_equal(usec, 5 * HOUR_USEC);

        /* From one end of the numbers to the other, in turn. */
        for (uint64_t i = 0; i < 10; i++)
                append(wild, i * HOUR_USEC, i % 2 ? UINT64_MAX : 0);
        t = trend_of(wild, 9 * HOUR_USEC, 9 * HOUR_USEC);
        assert_true(t.known);
        assert_true(isfinite(t.per_hour) && t.per_hour > 0);
}

/* Random points: the slope that the textbook gives, in long double. */
static void test_generated(_unused_ void **state) {
        Random random = random_start(577);

        for (unsigned round = 0; round < 200; round++) {
                _cleanup_(history_freep) History *h = new_history();
                size_t n = 5 + random_below(&random, 200);
                uint64_t x = random_u64(&random) >> random_below(&random, 40) >> 8, first = 0;
                long double sx = 0, sy = 0, sxx = 0, sxy = 0, expected;
                HistoryTrend t;

                for (size_t i = 0; i < n; i++) {
                        uint64_t y = random_below(&random, 1000000);
                        long double hours;

                        x += 1 + random_below(&random, 10 * MINUTE_USEC);
                        if (i == 0)
                                first = x;
                        append(h, x, y);
                        hours = (long double)(x - first) / HOUR_USEC;
                        sx += hours;
                        sy += y;
                        sxx += hours * hours;
                        sxy += hours * y;
                }
                expected = ((long double)n * sxy - sx * sy) / ((long double)n * sxx - sx * sx);
                t = trend_of(h, x, x - first);
                assert_true(t.known);
                assert_int_equal(t.samples, n);
                assert_true(fabsl((long double)t.per_hour - expected) <= 1e-6L * fabsl(expected) + 1e-3L);
        }
}

/* Beyond what the fine ring covers, the coarse one: 24 hours of the former, 90 days of the latter. */
static void test_coarse(_unused_ void **state) {
        _cleanup_(history_freep) History *h = new_history();
        const uint64_t hours = 200;
        HistorySample s = { .boot = BOOT - 1, .valid = HISTORY_COMPLETE };
        HistoryTrend t;
        uint64_t now;

        /* The boot before does not count, in either ring. */
        for (uint64_t i = 0; i < 300; i++) {
                s.boot_usec = i * HOUR_USEC / 2;
                s.dying = random_u64(&(Random){ i });
                assert_int_equal(history_append(h, &s), 0);
        }
        /* Two an hour at first, sixty later on: the slope shows which of the samples were used. */
        for (uint64_t i = 0; i <= hours * 60; i++)
                append(h, i * MINUTE_USEC, i <= (hours - 30) * 60 ? i / 30 : (hours - 30) * 2 + (i - (hours - 30) * 60));
        now = hours * HOUR_USEC;
        t = trend_of(h, now, 12 * HOUR_USEC);
        assert_known(t, 60, 12 * 60 + 1, 12 * HOUR_USEC, 60 + (hours - 31) * 2 + 29 * 60 + 2);
        /* The ring is a minute short of a day: that is no reason for the coarse one. */
        assert_known(trend_of(h, now, 24 * HOUR_USEC), 60, 1440, 1439 * MINUTE_USEC, t.last_value);
        /* More than its own hour is. */
        assert_known(trend_of(h, now, 28 * HOUR_USEC), 60, 29, 28 * HOUR_USEC, t.last_value);
        t = trend_of(h, now, hours * HOUR_USEC);
        assert_int_equal(t.samples, hours + 1);
        assert_int_equal(t.span_usec, hours * HOUR_USEC);
        assert_true(t.known && t.per_hour > 2 && t.per_hour < 60);
        /* Everything of this boot, and the fine ring has no part in it. */
        t = trend_of(h, now - 40 * HOUR_USEC, hours * HOUR_USEC);
        assert_known(t, 2, hours - 40 + 1, (hours - 40) * HOUR_USEC, (hours - 40) * 2);
}

static void test_project(_unused_ void **state) {
        HistoryTrend t = { .known = true, .per_hour = 60, .last_value = 1000 };
        uint64_t usec = 4711;

        assert_true(history_project(&t, 1001, &usec));
        assert_int_equal(usec, MINUTE_USEC);
        assert_true(history_project(&t, 1000 + 60 * 24, &usec));
        assert_int_equal(usec, 24 * HOUR_USEC);
        assert_true(history_project(&t, 1000, &usec));
        assert_int_equal(usec, 0);
        usec = 4711;
        assert_true(history_project(&t, 0, &usec));
        assert_int_equal(usec, 0);
        usec = 4711;
        assert_false(history_project(&t, UINT64_MAX, &usec)); /* half a million years and more */
        t.per_hour = 1e-30;
        assert_false(history_project(&t, 1001, &usec));
        t.per_hour = 0;
        assert_false(history_project(&t, 1001, &usec));
        t.per_hour = -60;
        assert_false(history_project(&t, 1001, &usec));
        assert_false(history_project(&t, UINT64_MAX, &usec));
        assert_int_equal(usec, 4711);
        assert_true(history_project(&t, 1000, &usec)); /* it is there, wherever it goes */
        assert_int_equal(usec, 0);
        usec = 4711;
        assert_true(history_project(&t, 999, &usec));
        assert_int_equal(usec, 0);
        t.per_hour = 60;
        t.known = false;
        usec = 4711;
        assert_false(history_project(&t, 999, &usec));
        assert_int_equal(usec, 4711);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known),
                cmocka_unit_test(test_one_moment),
                cmocka_unit_test(test_which_samples),
                cmocka_unit_test(test_huge),
                cmocka_unit_test(test_generated),
                cmocka_unit_test(test_coarse),
                cmocka_unit_test(test_project),
        };

        return cmocka_run_group_tests_name("history-trend", tests, NULL, NULL);
}
