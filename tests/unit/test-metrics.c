/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The metrics: every series and value, read back by a strict parser of the text format, and the file that takes the place of another. */
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "builder.h"
#include "check.h"
#include "config.h"
#include "metrics.h"

#define SECOND 1000000ULL

/* What the metrics ask of rooms that are not under test. */

struct Findings {
        size_t count[_FINDING_KIND_MAX];
};

struct Ages {
        Age ages[3];
        size_t n;
};

size_t findings_count_kind(const Findings *f, FindingKind kind) {
        return f->count[kind];
}

const char *finding_kind_to_string(FindingKind kind) {
        static const char *const names[] = { "writeback", "swap",         "subtree",   "host",    "dying",
                                             "dying-growth", "stranded-ids", "memcg-ids", "degraded" };

        return names[kind];
}

bool ages_oldest(const Ages *a, uint64_t *ret_boot_usec) {
        for (size_t i = 0; i < a->n; i++)
                if (i == 0 || a->ages[i].boot_usec < *ret_boot_usec)
                        *ret_boot_usec = a->ages[i].boot_usec;
        return a->n > 0;
}

const char *probe_layout_to_string(ProbeLayout layout) {
        return layout == PROBE_LAYOUT_FLAT ? "flat" : "units-64";
}

/* -------------------------------------------------------------------------------------------------------- the fixture */

typedef struct Fixture {
        ProbeFacts facts;
        Reading reading;
        Findings findings;
        Ages ages;
        Snapshot snapshot;
        Records walk, evidence;
} Fixture;

static int feed_pins(const struct sw_head *record, void *pins) {
        return pins_add(pins, record);
}

/*
 * The root, two live, one in the making, five dying: 4 by writeback on two devices and by swap, 5 by swap, 6 by its child 7, which nothing
 * that we know pins, 8 by nothing at all.
 */
static void setup(Fixture *f, bool flat, bool writeback_known) {
        static const struct {
                uint64_t serial, parent;
                uint32_t css, slots;
                uint64_t refs;
                uint32_t id_refs;
        } memcgs[] = {
                { 1, 0, STATE_LIVE, 5, 0, 1 },  { 2, 1, STATE_LIVE, 5, 0, 1 },  { 3, 1, STATE_CREATING, 5, 0, 1 },
                { 4, 1, STATE_DYING, 7, 3, 9 }, { 5, 1, STATE_DYING, 11, 1, 1 }, { 6, 1, STATE_DYING, 13, 1, 0 },
                { 7, 6, STATE_DYING, 17, 2, 0 }, { 8, 1, STATE_DYING, 19, 0, 0 }, { 9, 1, STATE_LIVE, 23, 0, 1 },
        };
        CensusOptions options = options_units(1);

        *f = (Fixture){};
        options.flat = flat;
        if (flat)
                options.unit_struct_bytes = 0;
        for (size_t i = 0; i < ELEMENTSOF(memcgs); i++) {
                struct sw_memcg *m = records_add_memcg(&f->walk, memcgs[i].serial, memcgs[i].parent, memcgs[i].css, "x", 1, 1);

                m->refs = memcgs[i].refs;
                m->id_refs = memcgs[i].id_refs;
                records_add_node(&f->walk, memcgs[i].serial, 0, 64 * memcgs[i].slots, memcgs[i].slots, memcgs[i].slots);
        }
        records_add_wb(&f->evidence, 4, "8:0", 1, 1);
        records_add_wb(&f->evidence, 4, "8:16", 1, 1);
        records_add_wb(&f->evidence, 2, "8:16", 1, 1); /* live: no pin */

        f->reading.census = census_of(&f->walk, &options);
        assert_int_equal(pins_new(&f->reading.pins, f->reading.census, 4096), 0);
        assert_int_equal(records_feed(&f->evidence, feed_pins, f->reading.pins), 0);
        assert_int_equal(pins_seal(f->reading.pins, writeback_known), 0);
        f->reading.duration_usec = 70001;
        f->reading.complete = true;
        f->reading.ids_in_use_known = true;
        f->reading.ids_in_use = 8010;

        f->facts = (ProbeFacts){ .layout = flat ? PROBE_LAYOUT_FLAT : PROBE_LAYOUT_UNITS_64, .n_possible_nodes = 4 };
        f->findings.count[FINDING_WRITEBACK] = 10007;
        f->findings.count[FINDING_DEGRADED] = 1;
        f->ages = (Ages){ { { 4, 900 * SECOND, true }, { 5, 100 * SECOND + 1, false }, { 6, 1001 * SECOND, true } }, 3 };
        f->snapshot = (Snapshot){
                .facts = &f->facts, .reading = &f->reading, .ages = &f->ages, .findings = &f->findings, .memory_bytes = 405000000007,
                .boot_usec = 1000 * SECOND, .time_usec = 1796100000000123, .interval_usec = 60 * SECOND, .censuses = 101,
                .censuses_failed = 3, .censuses_incomplete = 2, .events_known = true,
                .events = { .created = 11, .removed = 7, .released = 5, .lost_deaths = 3, .lost_records = 2 }, .cpu_usec = 1500000,
                .degraded = "why",
        };
}

static void done(Fixture *f) {
        pins_free(f->reading.pins);
        census_free(f->reading.census);
        records_done(&f->walk);
        records_done(&f->evidence);
}

/* ---------------------------------------------------------------------------------------------------------- the parser */

/* Text → "name{labels} value" lines, without the remarks. Anything that the format does not say ends the test. */
typedef struct Parsed {
        char *lines[200];
        size_t n, used;
} Parsed;

static size_t span_name(const char *s) {
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");

        assert_true(n > 0 && !isdigit((unsigned char)s[0]));
        return n;
}

static void check_labels(const char **s) {
        const char *p = *s;

        if (*p != '{')
                return;
        do {
                p++;
                p += span_name(p);
                assert_memory_equal(p, "=\"", 2);
                for (p += 2; *p != '"'; p++) {
                        assert_true(*p != '\0' && *p != '\n');
                        if (*p == '\\') {
                                p++;
                                assert_true(*p == '\\' || *p == '"' || *p == 'n');
                        }
                }
                p++;
        } while (*p == ',');
        assert_int_equal(*p, '}');
        *s = p + 1;
}

/* Each family once: HELP, TYPE, its samples, nothing between; no sample twice; at the end a newline. */
static void parse(char *text, Parsed *p) {
        char family[128] = "", *saveptr = NULL;
        bool counter = false, helped = false;

        *p = (Parsed){};
        assert_true(strlen(text) > 0);
        assert_int_equal(text[strlen(text) - 1], '\n');
        assert_null(strstr(text, "\n\n"));
        for (char *line = strtok_r(text, "\n", &saveptr); line; line = strtok_r(NULL, "\n", &saveptr)) {
                const char *s = line;
                char *end;
                size_t n;

                if (strncmp(line, "# HELP ", 7) == 0) {
                        n = span_name(line + 7);
                        assert_true(line[7 + n] == ' ' && isupper((unsigned char)line[8 + n]) && line[strlen(line) - 1] == '.');
                        assert_true(n < sizeof(family) - 1);
                        memcpy(family, line + 7, n);
                        family[n] = '\0';
                        for (size_t i = 0; i < p->n; i++)
                                assert_false(strncmp(p->lines[i], family, n) == 0 && (p->lines[i][n] == ' ' || p->lines[i][n] == '{'));
                        helped = true;
                        continue;
                }
                if (strncmp(line, "# TYPE ", 7) == 0) {
                        n = strlen(family);
                        assert_true(helped);
                        helped = false;
                        assert_memory_equal(line + 7, family, n);
                        counter = strcmp(line + 7 + n, " counter") == 0;
                        assert_true(counter || strcmp(line + 7 + n, " gauge") == 0);
                        assert_int_equal(counter, n > 6 && strcmp(family + n - 6, "_total") == 0);
                        continue;
                }
                assert_false(helped);
                n = span_name(s);
                assert_int_equal(n, strlen(family));
                assert_memory_equal(s, family, n);
                assert_memory_equal(s, "shrinkwatch_", 12);
                s += n;
                check_labels(&s);
                assert_int_equal(*s, ' ');
                (void)strtod(s + 1, &end);
                assert_true(end > s + 1 && *end == '\0' && strspn(s + 1, "0123456789.") == strlen(s + 1));
                for (size_t i = 0; i < p->n; i++)
                        assert_false(strncmp(p->lines[i], line, (size_t)(s - line) + 1) == 0);
                assert_true(p->n < ELEMENTSOF(p->lines));
                p->lines[p->n++] = line;
        }
        assert_false(helped);
}

static char *format(const Snapshot *snapshot) {
        char *text = NULL;
        size_t n;
        FILE *f = open_memstream(&text, &n);

        assert_non_null(f);
        assert_int_equal(metrics_format(f, snapshot), 0);
        fclose(f);
        return text;
}

/* These lines and no others; without the common prefix. */
static void assert_lines(const Snapshot *snapshot, const char *const *expected, size_t n) {
        _cleanup_(freep) char *text = format(snapshot);
        Parsed p;

        parse(text, &p);
        for (size_t i = 0; i < n || i < p.n; i++)
                assert_string_equal(i < p.n ? p.lines[i] + strlen("shrinkwatch_") : "(nothing)", i < n ? expected[i] : "(nothing)");
}

/* Whether there is a sample of this series, labels apart. */
static bool has_family(const Snapshot *snapshot, const char *family) {
        _cleanup_(freep) char *text = format(snapshot);
        Parsed p;

        parse(text, &p);
        for (size_t i = 0; i < p.n; i++) {
                size_t n = strlen(family);

                if (strncmp(p.lines[i], "shrinkwatch_", 12) == 0 && strncmp(p.lines[i] + 12, family, n) == 0 && strchr("{ ", p.lines[i][12 + n]))
                        return true;
        }
        return false;
}

/* ----------------------------------------------------------------------------------------------------------- the tests */

/* A unit takes 520 + 3 bytes, an array of n slots 24 + 8 n + 3. */
static void test_all(_unused_ void **state) {
        static const char *const expected[] = {
                "build_info{version=\"" PACKAGE_VERSION "\"} 1",
                "kernel_info{layout=\"units-64\",allocation=\"eager\"} 1",
                "possible_nodes 4",
                "memory_bytes 405000000007",
                "memcgs{state=\"live\"} 3",
                "memcgs{state=\"dying\"} 5",
                "memcgs{state=\"creating\"} 1",
                "units{state=\"live\"} 33",
                "units{state=\"dying\"} 67",
                "units{state=\"creating\"} 5",
                "overhead_bytes{state=\"live\"} 17604",
                "overhead_bytes{state=\"dying\"} 35712",
                "overhead_bytes{state=\"creating\"} 2682",
                "shrinker_ids 1472",
                "shrinker_ids_in_use 8010",
                "pinned_memcgs{cause=\"writeback\"} 1",
                "pinned_memcgs{cause=\"swap\"} 2",
                "pinned_memcgs{cause=\"child\"} 1",
                "pinned_memcgs{cause=\"unexplained\"} 1",
                "pinned_overhead_bytes{cause=\"writeback\"} 3744",
                "pinned_overhead_bytes{cause=\"swap\"} 9612",
                "pinned_overhead_bytes{cause=\"child\"} 6930",
                "pinned_overhead_bytes{cause=\"unexplained\"} 9054",
                "dying_oldest_age_seconds 899.999999",
                "findings{kind=\"writeback\"} 10007",
                "findings{kind=\"swap\"} 0",
                "findings{kind=\"subtree\"} 0",
                "findings{kind=\"host\"} 0",
                "findings{kind=\"dying\"} 0",
                "findings{kind=\"dying-growth\"} 0",
                "findings{kind=\"stranded-ids\"} 0",
                "findings{kind=\"memcg-ids\"} 0",
                "findings{kind=\"degraded\"} 1",
                "memcg_events_total{event=\"created\"} 11",
                "memcg_events_total{event=\"removed\"} 7",
                "memcg_events_total{event=\"released\"} 5",
                "events_lost_total{what=\"deaths\"} 3",
                "events_lost_total{what=\"records\"} 2",
                "census_timestamp_seconds 1796100000.000123",
                "census_duration_seconds 0.070001",
                "census_complete 1",
                "census_interval_seconds 60.000000",
                "censuses_total{result=\"complete\"} 99",
                "censuses_total{result=\"incomplete\"} 2",
                "censuses_total{result=\"failed\"} 3",
                "cpu_seconds_total 1.500000",
                "degraded 1",
        };
        Fixture f;

        setup(&f, false, true);
        assert_lines(&f.snapshot, expected, ELEMENTSOF(expected));
        done(&f);
}

/* What is not known has no sample. */
static void test_unknown(_unused_ void **state) {
        static const char *const expected[] = {
                "build_info{version=\"" PACKAGE_VERSION "\"} 1",
                "censuses_total{result=\"complete\"} 0",
                "censuses_total{result=\"incomplete\"} 0",
                "censuses_total{result=\"failed\"} 0",
                "cpu_seconds_total 0.000000",
                "degraded 0",
        };
        Fixture f;

        assert_lines(&(Snapshot){}, expected, ELEMENTSOF(expected));

        setup(&f, true, true);
        assert_false(has_family(&f.snapshot, "units"));
        assert_true(has_family(&f.snapshot, "overhead_bytes"));
        f.reading.ids_in_use_known = false;
        assert_false(has_family(&f.snapshot, "shrinker_ids_in_use"));
        assert_true(has_family(&f.snapshot, "shrinker_ids"));
        f.snapshot.events_known = false;
        assert_false(has_family(&f.snapshot, "memcg_events_total"));
        assert_false(has_family(&f.snapshot, "events_lost_total"));
        f.ages.n = 0;
        assert_false(has_family(&f.snapshot, "dying_oldest_age_seconds"));
        f.snapshot.findings = NULL;
        assert_false(has_family(&f.snapshot, "findings"));
        f.snapshot.memory_bytes = 0;
        assert_false(has_family(&f.snapshot, "memory_bytes"));
        pins_free(f.reading.pins);
        f.reading.pins = NULL;
        assert_false(has_family(&f.snapshot, "pinned_memcgs"));
        f.snapshot.reading = NULL;
        assert_false(has_family(&f.snapshot, "memcgs"));
        assert_false(has_family(&f.snapshot, "census_timestamp_seconds"));
        assert_true(has_family(&f.snapshot, "kernel_info"));
        done(&f);

        /* Not all devices were seen: what is missing there looks unexplained. */
        setup(&f, false, false);
        {
                _cleanup_(freep) char *text = format(&f.snapshot);

                assert_null(strstr(text, "cause=\"writeback\""));
                assert_null(strstr(text, "cause=\"unexplained\""));
                assert_non_null(strstr(text, "shrinkwatch_pinned_memcgs{cause=\"swap\"} 2\n"));
        }
        /* The oldest died while the census was taken. */
        f.ages.ages[0].boot_usec = f.ages.ages[1].boot_usec = f.snapshot.boot_usec + 1;
        {
                _cleanup_(freep) char *text = format(&f.snapshot);

                assert_non_null(strstr(text, "shrinkwatch_dying_oldest_age_seconds 0.000000\n"));
        }
        done(&f);
}

/* The largest numbers come out whole, in any locale. */
static void test_large(_unused_ void **state) {
        Fixture f;
        char *text;

        setup(&f, false, true);
        f.snapshot.memory_bytes = f.snapshot.events.created = f.snapshot.time_usec = UINT64_MAX;
        f.snapshot.censuses = 1; /* a race of counters must not wrap */
        (void)setlocale(LC_ALL, "de_DE.UTF-8");
        text = format(&f.snapshot);
        (void)setlocale(LC_ALL, "C");
        assert_non_null(strstr(text, "shrinkwatch_memory_bytes 18446744073709551615\n"));
        assert_non_null(strstr(text, "shrinkwatch_memcg_events_total{event=\"created\"} 18446744073709551615\n"));
        assert_non_null(strstr(text, "shrinkwatch_census_timestamp_seconds 18446744073709.551615\n"));
        assert_non_null(strstr(text, "shrinkwatch_censuses_total{result=\"complete\"} 0\n"));
        free(text);
        done(&f);
}

static void test_stream_fails(_unused_ void **state) {
        Fixture f;
        FILE *full = fopen("/dev/full", "w");

        assert_non_null(full);
        setup(&f, false, true);
        assert_int_equal(metrics_format(full, &f.snapshot), -EIO);
        fclose(full);
        done(&f);
}

/* ------------------------------------------------------------------------------------------------------------ the file */

static char directory[] = "/tmp/test-metrics-XXXXXX";

static char *read_all(const char *path) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        char *text = calloc(1, 65536);

        assert_true(fd >= 0 && text);
        assert_in_range(read(fd, text, 65535), 0, 65535);
        return text;
}

static void assert_file(const char *path, const Snapshot *snapshot) {
        _cleanup_(freep) char *text = read_all(path), *expected = format(snapshot);
        struct stat st;

        assert_string_equal(text, expected);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0644);
}

static void write_file(const char *path, const char *text) {
        FILE *f = fopen(path, "w");

        assert_non_null(f);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
}

static void test_write(_unused_ void **state) {
        mode_t before = umask(0077);
        _cleanup_(freep) char *old = NULL;
        struct stat st;
        Fixture f;
        int fd;

        setup(&f, false, true);
        assert_int_equal(metrics_write("shrinkwatch.prom", &f.snapshot), 0);
        assert_file("shrinkwatch.prom", &f.snapshot);

        /* Whoever reads the old one goes on reading it; what a crash left behind is no hindrance, nor is a link there followed. */
        fd = open("shrinkwatch.prom", O_RDONLY | O_CLOEXEC);
        old = format(&f.snapshot);
        write_file("victim", "untouched");
        assert_int_equal(symlink("victim", ".shrinkwatch.prom.tmp"), 0);
        f.snapshot.memory_bytes = 4711;
        assert_int_equal(metrics_write("./shrinkwatch.prom", &f.snapshot), 0);
        assert_file("shrinkwatch.prom", &f.snapshot);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, strlen(old));
        close(fd);
        assert_int_equal(lstat(".shrinkwatch.prom.tmp", &st), -1);

        assert_int_equal(unlink("shrinkwatch.prom"), 0);
        assert_int_equal(symlink("victim", "shrinkwatch.prom"), 0);
        assert_int_equal(metrics_write("shrinkwatch.prom", &f.snapshot), 0);
        assert_file("shrinkwatch.prom", &f.snapshot);
        {
                _cleanup_(freep) char *text = read_all("victim");

                assert_string_equal(text, "untouched");
        }
        (void)umask(before);
        done(&f);
}

static void test_write_fails(_unused_ void **state) {
        static char name[300];
        struct rlimit unlimited;
        struct stat st;
        Fixture f;
        int r;

        setup(&f, false, true);
        assert_int_equal(metrics_write("", &f.snapshot), -EINVAL);
        assert_int_equal(metrics_write("/", &f.snapshot), -EINVAL);
        assert_int_equal(metrics_write("a/", &f.snapshot), -EINVAL);
        assert_int_equal(metrics_write("..", &f.snapshot), -EINVAL);
        assert_int_equal(metrics_write("a/.", &f.snapshot), -EINVAL);
        assert_int_equal(metrics_write("nowhere/x.prom", &f.snapshot), -ENOENT);
        write_file("plain", "x");
        assert_int_equal(metrics_write("plain/x.prom", &f.snapshot), -ENOTDIR);
        memset(name, 'n', sizeof(name) - 1);
        assert_int_equal(metrics_write(name, &f.snapshot), -ENAMETOOLONG);

        /* The old file cannot be replaced: it stays, and nothing is left beside it. */
        assert_int_equal(mkdir("taken.prom", 0755), 0);
        assert_int_equal(metrics_write("taken.prom", &f.snapshot), -EISDIR);
        assert_int_equal(lstat(".taken.prom.tmp", &st), -1);
        /* No room for all of it. */
        write_file("full.prom", "old");
        (void)signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100, unlimited.rlim_max }), 0);
        r = metrics_write("full.prom", &f.snapshot);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_int_equal(r, -EFBIG);
        assert_int_equal(lstat(".full.prom.tmp", &st), -1);
        {
                _cleanup_(freep) char *text = read_all("full.prom");

                assert_string_equal(text, "old");
        }
        /* What stands where the temporary file goes is no file. */
        write_file("kept.prom", "old");
        assert_int_equal(mkdir(".kept.prom.tmp", 0755), 0);
        assert_int_equal(metrics_write("kept.prom", &f.snapshot), -EISDIR);
        {
                _cleanup_(freep) char *text = read_all("kept.prom");

                assert_string_equal(text, "old");
        }
        done(&f);
}

/* A second opinion: promtool's. */
static void test_promtool(_unused_ void **state) {
        Fixture f;

        if (system("command -v promtool >/dev/null 2>&1") != 0) { /* NOLINT */
                print_message("# promtool is not installed\n");
                return;
        }
        setup(&f, false, true);
        assert_int_equal(metrics_write("check.prom", &f.snapshot), 0);
        assert_int_equal(system("promtool check metrics <check.prom"), 0); /* NOLINT */
        done(&f);
}

static int enter_directory(_unused_ void **state) {
        return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave_directory(_unused_ void **state) {
        char command[sizeof(directory) + 16];

        (void)snprintf(command, sizeof(command), "rm -rf %s", directory);
        return chdir("/") == 0 && system(command) == 0 ? 0 : -1; /* NOLINT */
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all),
                cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_large),
                cmocka_unit_test(test_stream_fails),
                cmocka_unit_test(test_write),
                cmocka_unit_test(test_write_fails),
                cmocka_unit_test(test_promtool),
        };

        return cmocka_run_group_tests_name("metrics", tests, enter_directory, leave_directory);
}
