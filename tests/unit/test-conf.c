/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shrinkwatchd.conf: the table, the shipped file, what is said of what is wrong, limits and subtrees. */
#include <ctype.h>
#include <locale.h>

#include "builder.h"
#include "conf-fixture.h"

#define SEC 1000000ULL
#define MIN (60 * SEC)
#define HOUR (60 * MIN)

static void assert_limit(const FindingLimit *l, bool enabled, uint64_t on, uint64_t off, uint64_t min_age_usec) {
        assert_int_equal(l->enabled, enabled);
        assert_true(l->on == on);
        assert_true(l->off == off);
        assert_true(l->min_age_usec == min_age_usec);
}

static void assert_defaults(const Conf *c) {
        const FindingLimit *l = c->limits.limit;

        assert_int_equal(c->interval_usec, 60 * SEC);
        assert_int_equal(c->cpu_share_ppm, 5000);
        assert_true(c->events);
        assert_int_equal(c->max_deaths, 262144);
        assert_true(c->marks);
        assert_null(c->textfile);
        assert_true(c->history);
        assert_int_equal(c->trend_usec, HOUR);
        assert_limit(l + FINDING_WRITEBACK, true, 1, 1, 10 * MIN);
        assert_limit(l + FINDING_SWAP, true, 1, 1, HOUR);
        assert_limit(l + FINDING_SUBTREE, true, MEMORY / 100, MEMORY / 125, 5 * MIN);
        assert_limit(l + FINDING_HOST, true, MEMORY / 20, MEMORY / 25, 5 * MIN);
        assert_limit(l + FINDING_DYING, true, 20000, 15000, 10 * MIN);
        assert_limit(l + FINDING_DYING_GROWTH, true, 2000, 1000, 10 * MIN);
        assert_limit(l + FINDING_STRANDED, true, 8192, 6144, HOUR);
        assert_limit(l + FINDING_MEMCG_IDS, true, 60000, 55000, 0);
        assert_limit(l + FINDING_DEGRADED, true, 1, 1, 3 * MIN);
        assert_int_equal(_FINDING_KIND_MAX, FINDING_DEGRADED + 1);
}

static void test_nothing(_unused_ void **state) {
        const ConfKey *keys;
        ConfResult *r;
        size_t n;
        Tree t;

        tree_new(&t);
        r = tree_load(&t);
        tree_done(&t);
        keys = conf_keys(&n);
        assert_quiet(r);
        assert_defaults(&r->conf);
        assert_int_equal(r->conf.limits.n_subtrees, 0);
        assert_int_equal(r->n_files, 0);
        assert_int_equal(r->n_origins, n - 3);
        for (size_t i = 0; i < r->n_origins; i++) {
                assert_string_equal(r->origins[i].section, keys[i].section);
                assert_string_equal(r->origins[i].key, keys[i].key);
                assert_null(r->origins[i].pattern);
                assert_origin(r->origins + i, keys[i].value, NULL, 0);
        }
        assert_null(conf_free(r));
        assert_null(conf_free(NULL));
}

static void test_table(_unused_ void **state) {
        size_t n, sections = 0;
        const ConfKey *keys = conf_keys(&n);

        for (size_t i = 0; i < n; i++) {
                const ConfKey *k = keys + i;

                assert_true(isupper((unsigned char)k->key[0]));
                assert_true(strspn(k->key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(k->key));
                assert_true(strlen(k->help) > 10 && k->help[strlen(k->help) - 1] == '.');
                assert_true(strlen(k->takes) > 5);
                assert_true(k->min <= k->max);
                assert_int_equal(k->type == CONF_SPAN, strlen(k->key) > 3 && strcmp(k->key + strlen(k->key) - 3, "Sec") == 0);
                assert_int_equal(*k->value == '\0', k->type == CONF_PATH || strcmp(k->section, "Subtree") == 0);
                sections += i == 0 || strcmp(keys[i - 1].section, k->section) != 0;
                for (size_t j = 0; j < i; j++) {
                        assert_false(strcmp(keys[j].key, k->key) == 0 && strcmp(keys[j].section, k->section) == 0);
                        if (strcmp(k->section, "Subtree") != 0)
                                assert_true(keys[j].offset != k->offset);
                }
        }
        /* The sections are together; those of a subtree are the last three. */
        assert_int_equal(sections, 7);
        assert_string_equal(keys[n - 3].section, "Subtree");
        assert_string_equal(keys[n - 4].section, "History");
}

/* A value of each key that is not its default. */
static const char *other_value(const ConfKey *k) {
        switch (k->type) {
        case CONF_BOOL:
                return "no";
        case CONF_COUNT:
                return "54321";
        case CONF_BYTES:
                return "3G";
        case CONF_SPAN:
                return "11min 30s";
        case CONF_SHARE:
                return "7%";
        case CONF_PATTERNS:
                return "a.slice/* b/?";
        case CONF_PATH:
        default:
                return "/a/b.prom";
        }
}

static void assert_member(const void *base, const ConfKey *k) {
        const char *member = (const char *)base + k->offset;

        switch (k->type) {
        case CONF_BOOL:
                assert_false(*(const bool *)member);
                break;
        case CONF_COUNT:
                assert_true(*(const uint64_t *)(const void *)member == 54321);
                break;
        case CONF_BYTES:
                assert_true(*(const uint64_t *)(const void *)member == 3ULL << 30);
                break;
        case CONF_SPAN:
                assert_true(*(const uint64_t *)(const void *)member == 690 * SEC);
                break;
        case CONF_SHARE:
                assert_true(*(const uint64_t *)(const void *)member == 70000);
                break;
        case CONF_PATTERNS:
                assert_string_equal(*(char *const *)(const void *)member, "a.slice/* b/?");
                break;
        case CONF_PATH:
                assert_string_equal(*(char *const *)(const void *)member, "/a/b.prom");
                break;
        }
}

/* Every key is read into its place, known by its line, and put back by an empty value. */
static void test_every_key(_unused_ void **state) {
        size_t n, line = 0;
        const ConfKey *keys = conf_keys(&n);
        char text[16384] = "", *p = text;
        ConfResult *r;

        for (size_t i = 0; i < n; i++)
                p += sprintf(p, "[%s%s]\n%s = %s\n", keys[i].section, strcmp(keys[i].section, "Subtree") ? "" : " a/b", keys[i].key, other_value(keys + i));
        r = load_text(text);
        assert_quiet(r);
        assert_int_equal(r->n_origins, n);
        assert_int_equal(r->conf.limits.n_subtrees, 1);
        for (size_t i = 0; i < n; i++) {
                bool subtree = strcmp(keys[i].section, "Subtree") == 0;

                assert_member(subtree ? (const void *)r->conf.limits.subtrees : &r->conf, keys + i);
                assert_origin(origin_of(r, keys[i].section, subtree ? "a/b" : NULL, keys[i].key), other_value(keys + i), ETC, 2 * (unsigned)i + 2);
        }
        conf_free(r);

        for (size_t i = 0; i < n; i++)
                p += sprintf(p, "[%s%s]\n%s=\n", keys[i].section, strcmp(keys[i].section, "Subtree") ? "" : " a/b", keys[i].key);
        r = load_text(text);
        assert_quiet(r);
        assert_defaults(&r->conf);
        for (size_t i = 0; i < r->n_origins; i++)
                assert_origin(r->origins + i, i < n - 3 ? keys[i].value : (const char *[]){ "1%", "0.8%", "5min" }[i - (n - 3)], NULL, 0);
        assert_limit(&r->conf.limits.subtrees[0].overhead, true, MEMORY / 100, MEMORY / 125, 5 * MIN);
        conf_free(r);
        assert_int_equal(line, 0);
}

/* --------------------------------------------------------------------------------------------------------- shipped file */

static char *read_shipped(void) {
        const char *root = getenv("SHRINKWATCH_SOURCE_ROOT");
        char path[4096], *text;
        size_t len;
        FILE *f;

        if (!root)
                return NULL;
        (void)snprintf(path, sizeof(path), "%s/conf/shrinkwatchd.conf", root);
        f = fopen(path, "re");
        assert_non_null(f);
        text = calloc(1, 65536);
        assert_non_null(text);
        len = fread(text, 1, 65535, f);
        assert_true(len > 0 && len < 65535);
        assert_int_equal(fclose(f), 0);
        return text;
}

/* Each key stands there once, in the order of the table, commented out at its default, below the words of the table. */
static void test_shipped_keys(_unused_ void **state) {
        _cleanup_(freep) char *text = read_shipped();
        char comment[4096] = "", section[64] = "", *save = NULL;
        size_t n, i = 0;
        const ConfKey *keys = conf_keys(&n);

        if (!text) {
                skip();
                return;
        }
        for (char *line = text, *next; line && *line; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                if (sscanf(line, "[%63[A-Za-z]]", section) == 1 || sscanf(line, "#[%63[A-Za-z]", section) == 1 || !*line) {
                        comment[0] = '\0';
                        continue;
                }
                assert_int_equal(line[0], '#');
                if (line[1] == ' ' || line[1] == '\0') {
                        (void)strncat(comment, line + 1, sizeof(comment) - strlen(comment) - 1);
                        continue;
                }
                assert_true(i < n);
                save = strchr(line, '=');
                assert_non_null(save);
                *save = '\0';
                assert_string_equal(section, keys[i].section);
                assert_string_equal(line + 1, keys[i].key);
                assert_string_equal(save + 1, keys[i].value);
                assert_string_equal(comment + 1, keys[i].help);
                comment[0] = '\0';
                i++;
        }
        assert_int_equal(i, n);
}

/* It says nothing; without the comment signs it says the defaults. */
static void test_shipped_values(_unused_ void **state) {
        _cleanup_(freep) char *text = read_shipped();
        ConfResult *r;
        char *to;
        size_t n;

        if (!text) {
                skip();
                return;
        }
        r = load_text(text);
        assert_quiet(r);
        assert_defaults(&r->conf);
        assert_int_equal(r->conf.limits.n_subtrees, 0);
        assert_int_equal(r->n_files, 1);
        for (size_t i = 0; i < r->n_origins; i++)
                assert_null(r->origins[i].file);
        conf_free(r);

        to = text;
        for (const char *from = text; *from; from++)
                if (*from != '#' || (from > text && from[-1] != '\n') || from[1] == ' ' || from[1] == '\n')
                        *to++ = *from;
        *to = '\0';
        r = load_text(text);
        assert_quiet(r);
        assert_defaults(&r->conf);
        assert_int_equal(r->conf.limits.n_subtrees, 1);
        assert_string_equal(r->conf.limits.subtrees[0].pattern, "machine.slice/*");
        (void)conf_keys(&n);
        assert_int_equal(r->n_origins, n);
        for (size_t i = 0; i < n - 3; i++)
                assert_int_equal(r->origins[i].file != NULL, strcmp(r->origins[i].key, "TextFile") != 0);
        conf_free(r);
}

/* ------------------------------------------------------------------------------------------------------------ messages */

static void test_messages(_unused_ void **state) {
        static const struct {
                const char *text;
                unsigned line;
                const char *message;
        } cases[] = {
                { "[Census]\nIntervalSec=soon\n", 2,
                  "IntervalSec=soon is not understood: it takes a time span from 1s to 1d. The default, 60s, stays in force." },
                { "[Census]\nIntervalSec=2min\nIntervalSec=0\n", 3,
                  "IntervalSec=0 is out of range: it takes a time span from 1s to 1d. 2min stays in force." },
                { "[Census]\nIntervalSec=infinity\n", 2,
                  "IntervalSec=infinity is out of range: it takes a time span from 1s to 1d. The default, 60s, stays in force." },
                { "[Census]\nIntervalSec=1d 1us\n", 2,
                  "IntervalSec=1d 1us is out of range: it takes a time span from 1s to 1d. The default, 60s, stays in force." },
                { "[Census]\nCPUShare=1\n", 2,
                  "CPUShare=1 is not understood: it takes a percentage of one CPU from 0% to 100%. The default, 0.5%, stays in force." },
                { "[Events]\nEvents=maybe\n", 2, "Events=maybe is not understood: it takes yes or no. The default, yes, stays in force." },
                { "[Events]\nDeathsMax=1023\n", 2,
                  "DeathsMax=1023 is out of range: it takes a whole number from 1024 to 16777216. The default, 262144, stays in force." },
                { "[Limits]\nWritebackOn=0\n", 2,
                  "WritebackOn=0 is out of range: it takes a size above 0 such as 2G, a percentage of memory such as 5%, or infinity. "
                  "The default, 1, stays in force." },
                { "[Limits]\nDyingOn=5%\n", 2, "DyingOn=5% is not understood: it takes a whole number above 0, or infinity. The default, 20000, stays in force." },
                { "[Limits]\nDegradedMinAgeSec=-1s\n", 2,
                  "DegradedMinAgeSec=-1s is out of range: it takes a time span such as 10min, or infinity. The default, 3min, stays in force." },
                { "[Metrics]\nTextFile=a.prom\n", 2, "TextFile=a.prom is not understood: it takes an absolute path. The default stays in force." },
                { "[Metrics]\nTextFile=/a/../b.prom\n", 2, "TextFile=/a/../b.prom is not understood: it takes an absolute path. The default stays in force." },
                { "[Metrics]\nTextFile=/a/..\n", 2, "TextFile=/a/.. is not understood: it takes an absolute path. The default stays in force." },
                { "[Metrics]\nTextFile=/a/\n", 2, "TextFile=/a/ is not understood: it takes an absolute path. The default stays in force." },
                { "[Metrics]\nTextFile=/a\x1b[31m\n", 2,
                  "TextFile=/a\\x1b[31m is not understood: it takes an absolute path. The default stays in force." },
                { "[Subtree a]\nOverheadOn=x\n", 2,
                  "OverheadOn=x is not understood: it takes a size above 0 such as 2G, a percentage of memory such as 5%, or infinity. "
                  "The default stays in force." },
                { "[Census]\nIntervallSec=5s\n", 2, "There is no key IntervallSec= in [Census]: it is ignored. Is IntervalSec= meant?" },
                { "[Census]\nintervalsec=5s\n", 2, "There is no key intervalsec= in [Census]: it is ignored. Is IntervalSec= meant?" },
                { "[Census]\nInterval=5s\n", 2, "There is no key Interval= in [Census]: it is ignored. Is IntervalSec= meant?" },
                { "[Census]\nDyingOn=5\n", 2, "There is no key DyingOn= in [Census]: it is ignored. DyingOn= belongs in [Limits]." },
                { "[Limits]\nOverheadOn=5\n", 2, "There is no key OverheadOn= in [Limits]: it is ignored. OverheadOn= belongs in [Subtree]." },
                { "[Subtree a]\nOverhead=5\n", 2, "There is no key Overhead= in [Subtree]: it is ignored. Is OverheadOn= meant?" },
                { "[Census]\nColour=red\n", 2, "There is no key Colour= in [Census]: it is ignored." },
                { "[Census]\n=red\n", 2, "There is no key = in [Census]: it is ignored." },
                { "[Census]\n\xff\x1b[1mX=red\n", 2, "There is no key \\xff\\x1b[1mX= in [Census]: it is ignored." },
                { "IntervalSec=5s\n", 1, "IntervalSec= stands before the first [section]: it is ignored." },
                { "[Census]\nIntervalSec\n", 2, "This is no assignment, as in \"Key=value\": it is ignored." },
                { "[Census]\n# a\n\nyes no\nCPUShare=1%\n", 4, "This is no assignment, as in \"Key=value\": it is ignored." },
                { "[Census]\nyes no", 2, "This is no assignment, as in \"Key=value\": it is ignored." },
                { "[Censsu]\nIntervalSec=x\nnothing\nFoo=1\n", 1, "There is no section [Censsu]: what is below it is ignored. Is [Census] meant?" },
                { "[census]\n", 1, "There is no section [census]: what is below it is ignored. Is [Census] meant?" },
                { "[Manager]\nA=b\n", 1, "There is no section [Manager]: what is below it is ignored." },
                { "[]\nA=b\n", 1, "There is no section []: what is below it is ignored." },
                { "[Census x]\n", 1, "There is no section [Census x]: what is below it is ignored. Is [Census] meant?" },
                { "[Census\nIntervalSec=x\n", 1, "\"[Census\" does not end with \"]\": what is below it is ignored." },
                { "[\n", 1, "\"[\" does not end with \"]\": what is below it is ignored." },
                { "[Census] IntervalSec=5\n", 1, "\"[Census] IntervalSec=5\" does not end with \"]\": what is below it is ignored." },
                { "[Subtree]\nOverheadOn=x\n", 1,
                  "[Subtree] names no cgroup: what is below it is ignored. Write the pattern of a path, as in [Subtree machine.slice/*]." },
                { "[Subtree //]\n", 1, "[Subtree] names no cgroup: what is below it is ignored. Write the pattern of a path, as in [Subtree machine.slice/*]." },
                { "[Subtrees a]\n", 1, "There is no section [Subtrees a]: what is below it is ignored. Is [Subtree] meant?" },
                { "[Limits]\nHostOn=2G\nHostOff=3G\n", 3, "HostOff=3G is above HostOn=2G: 2G is used for both." },
                { "[Limits]\nWritebackOff=2G\n", 2, "WritebackOff=2G is above WritebackOn=1: 1 is used for both." },
                { "[Subtree a]\nOverheadOff=2G\n", 2, "OverheadOff=2G is above OverheadOn=1%: 1% is used for both." },
                { "[Census]\nIntervalSec=\xff\xe2\x80\xae" "1234567890123456789012345678901234567890123456789012345678901234567890123456789\n", 2,
                  "IntervalSec=\\xff\\xe2\\x80\\xae1234567890123456789012345678901234567890123456789012345678901234567890123456… is not understood: "
                  "it takes a time span from 1s to 1d. The default, 60s, stays in force." },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                ConfResult *r = load_text(cases[i].text);

                if (r->n_messages != 1)
                        print_error("%s: %zu\n", cases[i].text, r->n_messages);
                assert_int_equal(r->n_messages, 1);
                assert_message(r, 0, ETC, cases[i].line, cases[i].message);
                assert_false(r->failed);
                assert_int_equal(r->conf.trend_usec, 3600 * SEC);
                conf_free(r);
        }
}

/* What is wrong is said where it stands, also when that shows only at the end; all else is in force. */
static void test_message_order(_unused_ void **state) {
        ConfResult *r;
        Tree t;

        tree_new(&t);
        tree_put(&t, ETC, "[Limits]\nHostOff=3G\nHostOn=2G\nFoo=1\n[Subtree b]\nOverheadOn=1K\nOverheadOff=1M\n[Events]\nDeathsMax=\n");
        tree_put(&t, RUN ".d/10.conf", "[Limits]\nDyingOff=7\nFoo=2\nDyingOn=5\n[Events]\nDeathsMax=4096\nEvents=x\n");
        r = tree_load(&t);
        assert_int_equal(r->n_messages, 6);
        assert_message(r, 0, ETC, 2, "HostOff=3G is above HostOn=2G: 2G is used for both.");
        assert_message(r, 1, ETC, 4, "There is no key Foo= in [Limits]: it is ignored.");
        assert_message(r, 2, ETC, 7, "OverheadOff=1M is above OverheadOn=1K: 1K is used for both.");
        assert_message(r, 3, "/10.conf", 2, "DyingOff=7 is above DyingOn=5: 5 is used for both.");
        assert_message(r, 4, "/10.conf", 3, "There is no key Foo= in [Limits]: it is ignored.");
        assert_message(r, 5, "/10.conf", 7, "Events=x is not understood: it takes yes or no. The default, yes, stays in force.");
        assert_limit(r->conf.limits.limit + FINDING_HOST, true, 2ULL << 30, 2ULL << 30, 5 * MIN);
        assert_limit(r->conf.limits.limit + FINDING_DYING, true, 5, 5, 10 * MIN);
        assert_origin(origin_of(r, "Limits", NULL, "HostOff"), "2G", ETC, 3);
        assert_origin(origin_of(r, "Limits", NULL, "DyingOff"), "5", "/10.conf", 4);
        assert_origin(origin_of(r, "Subtree", "b", "OverheadOff"), "1K", ETC, 6);
        assert_int_equal(r->conf.max_deaths, 4096);
        conf_free(r);
        tree_done(&t);
}

static void test_message_bound(_unused_ void **state) {
        char text[CONF_MESSAGES_MAX * 8 + 100] = "[Census]\n", *p = text + strlen(text);
        ConfResult *r;

        for (unsigned i = 0; i < CONF_MESSAGES_MAX - 1; i++)
                p += sprintf(p, "x\n");
        r = load_text(text);
        assert_int_equal(r->n_messages, CONF_MESSAGES_MAX - 1);
        assert_int_equal(r->messages[CONF_MESSAGES_MAX - 2].line, CONF_MESSAGES_MAX);
        conf_free(r);
        (void)sprintf(p, "x\nx\nx\nCPUShare=1%%\n");
        r = load_text(text);
        assert_int_equal(r->n_messages, CONF_MESSAGES_MAX);
        assert_message(r, CONF_MESSAGES_MAX - 1, ETC, 0, "What else is wrong, here or in files after this one, is not listed: 3 messages more.");
        assert_int_equal(r->conf.cpu_share_ppm, 10000);
        conf_free(r);
}

/* -------------------------------------------------------------------------------------------------------------- limits */

static void test_limits(_unused_ void **state) {
        ConfResult *r = load_text("[Limits]\nWritebackOn=infinity\nSwapMinAgeSec=infinity\nHostOn=1%\nDyingOn=14999\nStrandedIdsOn=6144\nMemcgIdsOff=1\n"
                                  "DegradedMinAgeSec=infinity\nDyingGrowthOn=infinity\nDyingGrowthOff=infinity\nSubtreeOff=infinity\nSubtreeOn=infinity\n");
        const FindingLimit *l = r->conf.limits.limit;
        ConfPaths paths = { .root = "/nonexistent" };

        assert_quiet(r);
        assert_limit(l + FINDING_WRITEBACK, false, UINT64_MAX, 1, 10 * MIN);
        assert_limit(l + FINDING_SWAP, false, 1, 1, UINT64_MAX);
        /* The default of Off= is above: On= is used, and said to be. */
        assert_limit(l + FINDING_HOST, true, MEMORY / 100, MEMORY / 100, 5 * MIN);
        assert_origin(origin_of(r, "Limits", NULL, "HostOff"), "1%", ETC, 4);
        assert_limit(l + FINDING_DYING, true, 14999, 14999, 10 * MIN);
        assert_origin(origin_of(r, "Limits", NULL, "DyingOff"), "14999", ETC, 5);
        /* It is not above. */
        assert_limit(l + FINDING_STRANDED, true, 6144, 6144, HOUR);
        assert_origin(origin_of(r, "Limits", NULL, "StrandedIdsOff"), "6144", NULL, 0);
        assert_limit(l + FINDING_MEMCG_IDS, true, 60000, 1, 0);
        assert_limit(l + FINDING_DEGRADED, false, 1, 1, UINT64_MAX);
        assert_limit(l + FINDING_DYING_GROWTH, false, UINT64_MAX, UINT64_MAX, 10 * MIN);
        assert_limit(l + FINDING_SUBTREE, false, UINT64_MAX, UINT64_MAX, 5 * MIN);
        conf_free(r);

        /* A part of a memory that is not known is no limit, rather than one that everything is above. */
        r = NULL;
        assert_int_equal(conf_load(&r, &paths), 0);
        assert_quiet(r);
        l = r->conf.limits.limit;
        assert_limit(l + FINDING_SUBTREE, false, UINT64_MAX, UINT64_MAX, 5 * MIN);
        assert_limit(l + FINDING_HOST, false, UINT64_MAX, UINT64_MAX, 5 * MIN);
        assert_limit(l + FINDING_SWAP, true, 1, 1, HOUR);
        assert_origin(origin_of(r, "Limits", NULL, "HostOn"), "infinity", NULL, 0);
        conf_free(r);
        assert_true(conf_memory_bytes() > 1 << 20);
}

static void test_subtrees(_unused_ void **state) {
        char text[8192] = "", *p = text;
        const FindingSubtree *s;
        ConfResult *r;
        Tree t;

        tree_new(&t);
        tree_put(&t, ETC,
                 "[Limits]\nSubtreeOn=100M\nSubtreeOff=50M\n"
                 "[Subtree /a/*/]\nOverheadOn=10M\n[Subtree b [0-9] c[x]]\nMinAgeSec=1s\n"
                 "[ Subtree \t d\\\\x2d ] ; a comment\nOverheadOn=infinity\n[Subtree e]\n");
        tree_put(&t, LIB ".d/z.conf", "[Subtree a/*]\nOverheadOff=5M\n[Limits]\nSubtreeMinAgeSec=7s\n[Subtree e]\nMinAgeSec=infinity\n");
        r = tree_load(&t);
        assert_quiet(r);
        assert_int_equal(r->conf.limits.n_subtrees, 4);
        s = r->conf.limits.subtrees;
        assert_string_equal(s[0].pattern, "a/*");
        assert_limit(&s[0].overhead, true, 10 << 20, 5 << 20, 7 * SEC);
        assert_origin(origin_of(r, "Subtree", "a/*", "OverheadOn"), "10M", ETC, 5);
        assert_origin(origin_of(r, "Subtree", "a/*", "OverheadOff"), "5M", "/z.conf", 2);
        assert_origin(origin_of(r, "Subtree", "a/*", "MinAgeSec"), "7s", "/z.conf", 4);
        assert_string_equal(s[1].pattern, "b [0-9] c[x]");
        assert_limit(&s[1].overhead, true, 100 << 20, 50 << 20, SEC);
        assert_origin(origin_of(r, "Subtree", "b [0-9] c[x]", "OverheadOn"), "100M", ETC, 2);
        assert_string_equal(s[2].pattern, "d\\\\x2d");
        assert_limit(&s[2].overhead, false, UINT64_MAX, 50 << 20, 7 * SEC);
        assert_string_equal(s[3].pattern, "e");
        assert_limit(&s[3].overhead, false, 100 << 20, 50 << 20, UINT64_MAX);
        /* Behind the table, as they came. */
        assert_string_equal(r->origins[r->n_origins - 12].pattern, "a/*");
        assert_string_equal(r->origins[r->n_origins - 1].pattern, "e");
        conf_free(r);

        /* On= below the common Off=; and where there is no common limit. */
        tree_put(&t, ETC, "[Limits]\nSubtreeOn=infinity\n[Subtree a]\nOverheadOn=1M\n[Subtree b]\n");
        tree_unlink(&t, LIB ".d/z.conf");
        r = tree_load(&t);
        assert_quiet(r);
        s = r->conf.limits.subtrees;
        assert_limit(&s[0].overhead, true, 1 << 20, 1 << 20, 5 * MIN);
        assert_origin(origin_of(r, "Subtree", "a", "OverheadOff"), "1M", ETC, 4);
        assert_limit(&s[1].overhead, false, UINT64_MAX, MEMORY / 125, 5 * MIN);
        conf_free(r);
        tree_done(&t);

        for (unsigned i = 0; i < CONF_SUBTREES_MAX + 2; i++)
                p += sprintf(p, "[Subtree %u]\nMinAgeSec=1\n", i);
        (void)sprintf(p, "[Subtree 0]\nMinAgeSec=2\n");
        r = load_text(text);
        assert_int_equal(r->conf.limits.n_subtrees, CONF_SUBTREES_MAX);
        assert_int_equal(r->conf.limits.subtrees[0].overhead.min_age_usec, 2 * SEC);
        assert_int_equal(r->n_messages, 2);
        assert_message(r, 0, ETC, 2 * CONF_SUBTREES_MAX + 1, "There are more than 256 patterns in [Subtree] headings: what is below this one is ignored.");
        conf_free(r);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nothing),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_every_key),
                cmocka_unit_test(test_shipped_keys),
                cmocka_unit_test(test_shipped_values),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_message_order),
                cmocka_unit_test(test_message_bound),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_subtrees),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
