/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The values of shrinkwatchd.conf: what systemd takes, what it does not, and where numbers end. */
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>

#include "builder.h"
#include "check.h"
#include "conf.h"

#define UNTOUCHED 4711
#define SEC 1000000ULL
#define MIN (60 * SEC)
#define HOUR (60 * MIN)
#define DAY (24 * HOUR)
#define K 1024ULL

typedef struct Case {
        const char *text;
        int r;
        uint64_t value;
} Case;

typedef int (*parse_t)(const char *s, uint64_t *ret);

static int parse_bytes(const char *s, uint64_t *ret) {
        return conf_parse_bytes(s, 1000003, ret);
}

static void run(parse_t parse, const Case *cases, size_t n) {
        for (size_t i = 0; i < n; i++) {
                uint64_t value = UNTOUCHED;
                int r = parse(cases[i].text, &value);

                if (r != cases[i].r || value != (r < 0 ? UNTOUCHED : cases[i].value))
                        fail_msg("\"%s\": %d, %" PRIu64, cases[i].text, r, value);
        }
}

static void test_span(_unused_ void **state) {
        static const Case cases[] = {
                { "0", 0, 0 },
                { "90", 0, 90 * SEC },
                { "5min", 0, 5 * MIN },
                { "5 min", 0, 5 * MIN },
                { " 5min\t", 0, 5 * MIN },
                { "1h 30min", 0, 90 * MIN },
                { "1h30min", 0, 90 * MIN },
                { "30min 1h 5", 0, 90 * MIN + 5 * SEC },
                { "1 2", 0, 3 * SEC },
                { "1.5h", 0, 90 * MIN },
                { ".5s", 0, SEC / 2 },
                { "0.0000019", 0, 1 },
                { "0.9us", 0, 0 },
                { "12.34 .56", 0, 12900000 },
                { "12.34s.56", 0, 12900000 },
                { "0.333333333333333333333333333d", 0, 28799999999 },
                { "1us 1usec 1µs 1μs", 0, 4 },
                { "1ms 1msec", 0, 2000 },
                { "1s 1sec 1second 1seconds", 0, 4 * SEC },
                { "1m 1min 1minute 1minutes", 0, 4 * MIN },
                { "1h 1hr 1hour 1hours", 0, 4 * HOUR },
                { "1d 1day 1days", 0, 3 * DAY },
                { "1w 1week 1weeks", 0, 21 * DAY },
                { "1M 1month 1months", 0, 3 * 2629800 * SEC },
                { "1y 1year 1years", 0, 3 * 31557600 * SEC },
                { "infinity", 0, UINT64_MAX },
                { " infinity ", 0, UINT64_MAX },
                { "18446744073709551614us", 0, UINT64_MAX - 1 },
                { "18446744073709551615us", -ERANGE, 0 },
                { "18446744073709551616us", -ERANGE, 0 },
                { "18446744073709551614us 1us", -ERANGE, 0 },
                { "584542y", 0, 584542ULL * 31557600 * SEC },
                { "584543y", -ERANGE, 0 },
                { "18446744073710s", -ERANGE, 0 },
                { "99999999999999999999999999", -ERANGE, 0 },
                { "-1", -ERANGE, 0 },
                { "-1min", -ERANGE, 0 },
                { "-x", -EINVAL, 0 },
                { "", -EINVAL, 0 },
                { " ", -EINVAL, 0 },
                { "min", -EINVAL, 0 },
                { "5mim", -EINVAL, 0 },
                { "5minx", -EINVAL, 0 },
                { "5MIN", -EINVAL, 0 },
                { "5 x", -EINVAL, 0 },
                { "5min x", -EINVAL, 0 },
                { "+5", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "1e3", -EINVAL, 0 },
                { "1,5h", -EINVAL, 0 },
                { "1.h", -EINVAL, 0 },
                { "1.", -EINVAL, 0 },
                { ".", -EINVAL, 0 },
                { "12.34.56", -EINVAL, 0 },
                { "infinity 1s", -EINVAL, 0 },
                { "infinityx", -EINVAL, 0 },
                { "Infinity", -EINVAL, 0 },
                { "5\xff", -EINVAL, 0 },
                { "5\xc2", -EINVAL, 0 },
        };

        run(conf_parse_span, cases, ELEMENTSOF(cases));
}

static void test_bytes(_unused_ void **state) {
        static const Case cases[] = {
                { "0", 0, 0 },
                { "1", 0, 1 },
                { "7B", 0, 7 },
                { "1K", 0, K },
                { "2M", 0, 2 * K * K },
                { "2G", 0, 2 * K * K * K },
                { "3T", 0, 3 * K * K * K * K },
                { "5P", 0, 5 * K * K * K * K * K },
                { "7E", 0, 7 * K * K * K * K * K * K },
                { "1.5G", 0, 3 * K * K * K / 2 },
                { "0.3K", 0, 307 },
                { "10.M", 0, 10 * K * K },
                { "1.9", 0, 1 },
                { " 2 G ", 0, 2 * K * K * K },
                { "1G 512M", 0, 1536 * K * K },
                { "1G512M3", 0, 1536 * K * K + 3 },
                { "1E 1P 1T 1G 1M 1K 1B", 0, 1 + K * (1 + K * (1 + K * (1 + K * (1 + K * (1 + K))))) },
                { "9223372036854775807", 0, INT64_MAX },
                { "7.9999999999999999999E", 0, 9223372036854775806 },
                { "9223372036854775808", -ERANGE, 0 },
                { "8E", -ERANGE, 0 },
                { "7E 1024P", -ERANGE, 0 },
                { "18446744073709551616", -ERANGE, 0 },
                { "99999999999999999999E", -ERANGE, 0 },
                { "infinity", 0, UINT64_MAX },
                { "10%", 0, 100000 },
                { "0.0001%", 0, 1 },
                { "0%", 0, 0 },
                { "100%", 0, 1000003 },
                { "33.3333%", 0, 333333 },
                { "5‰", 0, 5000 },
                { "50‱", 0, 5000 },
                { "100.0001%", -ERANGE, 0 },
                { "-5%", -ERANGE, 0 },
                { "-5G", -ERANGE, 0 },
                { "512M 1G", -EINVAL, 0 },
                { "1G 1G", -EINVAL, 0 },
                { "1 1", -EINVAL, 0 },
                { "1B 1B", -EINVAL, 0 },
                { "1B 1", -EINVAL, 0 },
                { "1 1K", -EINVAL, 0 },
                { "2g", -EINVAL, 0 },
                { "2Gi", -EINVAL, 0 },
                { "2GB", -EINVAL, 0 },
                { "2X", -EINVAL, 0 },
                { "G", -EINVAL, 0 },
                { "", -EINVAL, 0 },
                { "%", -EINVAL, 0 },
                { "5%%", -EINVAL, 0 },
                { "5% 1G", -EINVAL, 0 },
                { "1G 5%", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "1e3", -EINVAL, 0 },
                { "1,5G", -EINVAL, 0 },
                { "+1", -EINVAL, 0 },
        };
        uint64_t n = UNTOUCHED;

        run(parse_bytes, cases, ELEMENTSOF(cases));
        /* Parts of memory do not wrap, and of no memory there is no part. */
        assert_int_equal(conf_parse_bytes("100%", UINT64_MAX, &n), 0);
        assert_true(n == UINT64_MAX);
        assert_int_equal(conf_parse_bytes("99.9999%", UINT64_MAX, &n), 0);
        assert_true(n == 18446725626965477905ULL);
        assert_int_equal(conf_parse_bytes("10%", 0, &n), 0);
        assert_int_equal(n, 0);
}

static void test_share(_unused_ void **state) {
        static const Case cases[] = {
                { "0%", 0, 0 },
                { "0.5%", 0, 5000 },
                { ".5%", 0, 5000 },
                { "5‰", 0, 5000 },
                { "50‱", 0, 5000 },
                { " 1% ", 0, 10000 },
                { "100%", 0, 1000000 },
                { "1000‰", 0, 1000000 },
                { "10000‱", 0, 1000000 },
                { "0.0001%", 0, 1 },
                { "0.001‰", 0, 1 },
                { "0.01‱", 0, 1 },
                { "12.3456%", 0, 123456 },
                { "0.00001%", -EINVAL, 0 },
                { "0.0001‰", -EINVAL, 0 },
                { "0.001‱", -EINVAL, 0 },
                { "100.0001%", -ERANGE, 0 },
                { "101%", -ERANGE, 0 },
                { "18446744073709551616%", -ERANGE, 0 },
                { "18446744073709551615%", -ERANGE, 0 },
                { "-1%", -ERANGE, 0 },
                { "", -EINVAL, 0 },
                { "5", -EINVAL, 0 },
                { "%", -EINVAL, 0 },
                { ".%", -EINVAL, 0 },
                { "5.%", -EINVAL, 0 },
                { "5 %", -EINVAL, 0 },
                { "5%x", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
                { "5\xe2\x80", -EINVAL, 0 },
        };

        run(conf_parse_share, cases, ELEMENTSOF(cases));
}

static void test_count(_unused_ void **state) {
        static const Case cases[] = {
                { "0", 0, 0 },
                { "20000", 0, 20000 },
                { "007", 0, 7 },
                { "18446744073709551615", 0, UINT64_MAX },
                { "18446744073709551616", -ERANGE, 0 },
                { "100000000000000000000", -ERANGE, 0 },
                { "-1", -ERANGE, 0 },
                { "", -EINVAL, 0 },
                { "-", -EINVAL, 0 },
                { "+1", -EINVAL, 0 },
                { " 1", -EINVAL, 0 },
                { "1 ", -EINVAL, 0 },
                { "1.0", -EINVAL, 0 },
                { "1.", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "1K", -EINVAL, 0 },
                { "infinity", -EINVAL, 0 },
        };

        run(conf_parse_count, cases, ELEMENTSOF(cases));
}

static void test_bool(_unused_ void **state) {
        static const char *const yes[] = { "yes", "1", "true", "on", "t", "y", "YES", "True", "oN", "T" };
        static const char *const no[] = { "no", "0", "false", "off", "f", "n", "NO", "False", "OFF", "F" };
        static const char *const neither[] = { "", "2", "yes ", " yes", "ye", "yess", "o", "enabled", "00", "\xd9" };
        bool b;

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                b = false;
                assert_int_equal(conf_parse_bool(yes[i], &b), 0);
                assert_true(b);
                assert_int_equal(conf_parse_bool(no[i], &b), 0);
                assert_false(b);
                assert_int_equal(conf_parse_bool(neither[i], &b), -EINVAL);
                assert_false(b);
                b = true;
                assert_int_equal(conf_parse_bool(neither[i], &b), -EINVAL);
                assert_true(b);
        }
}

/* A decimal comma, or a Turkish i, changes nothing; where there are such locales. */
static void test_locale(_unused_ void **state) {
        static const char *const names[] = { "de_DE.UTF-8", "de_DE", "tr_TR.UTF-8", "tr_TR", "fr_FR.UTF-8", "C.UTF-8" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (setlocale(LC_ALL, names[i])) {
                        test_span(NULL);
                        test_bytes(NULL);
                        test_share(NULL);
                        test_count(NULL);
                        test_bool(NULL);
                }
        assert_non_null(setlocale(LC_ALL, "C"));
}

/* Generated sums of parts with decimals against 128 bit arithmetic of whole parts. */
static void test_span_generated(_unused_ void **state) {
        static const struct {
                const char *name;
                uint64_t usec;
        } units[] = { { "us", 1 }, { "ms", 1000 }, { "s", SEC }, { "min", MIN }, { "h", HOUR }, { "d", DAY }, { "w", 7 * DAY } };
        Random random = random_start(20260401);

        for (int round = 0; round < 20000; round++) {
                unsigned __int128 want = 0;
                uint64_t got = UNTOUCHED;
                char text[400] = "";
                size_t len = 0;
                int r;

                for (uint64_t n = 1 + random_below(&random, 5); n > 0; n--) {
                        size_t unit = (size_t)random_below(&random, ELEMENTSOF(units));
                        uint64_t whole = random_u64(&random) >> random_below(&random, 64);
                        unsigned thousandths = (unsigned)random_below(&random, 1000);

                        len += (size_t)snprintf(text + len, sizeof(text) - len, "%" PRIu64 ".%03u%s%s", whole, thousandths, units[unit].name,
                                                random_once_in(&random, 2) ? " " : "");
                        want += (unsigned __int128)whole * units[unit].usec + (unsigned __int128)thousandths * units[unit].usec / 1000;
                }
                r = conf_parse_span(text, &got);
                if (want >= UINT64_MAX ? r != -ERANGE || got != UNTOUCHED : r != 0 || got != want)
                        fail_msg("\"%s\": %d, %" PRIu64, text, r, got);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_span),
                cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_share),
                cmocka_unit_test(test_count),
                cmocka_unit_test(test_bool),
                cmocka_unit_test(test_locale),
                cmocka_unit_test(test_span_generated),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
