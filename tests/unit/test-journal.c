/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The journal: what an entry says to programs and to people. How it gets there is in test-journal-send.c. */
#include <inttypes.h>
#include <stdio.h>
#include <syslog.h>

#include "check.h"
#include "journal-got.h"

#define SECOND 1000000ULL
#define MINUTE (60 * SECOND)
#define NOW (100 * MINUTE)

static void tell(const Snapshot *snapshot, const StormEntry *entry) {
        Journal *j = NULL;

        assert_int_equal(journal_new(&j, sink, &got), 0);
        got.entries = 0;
        assert_int_equal(journal_tell(j, snapshot, entry), 0);
        assert_int_equal(got.entries, 1);
        assert_int_equal(journal_sent(j), 1);
        assert_int_equal(journal_failed(j), 0);
        assert_null(journal_free(j));
}

static void tell_path(const char *path, size_t len) {
        Finding f = { .kind = FINDING_SUBTREE, .path = (char *)path, .path_len = len };
        StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
        Snapshot s = {};

        tell(&s, &entry);
}

#define PATH "/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-" HEX64 ".scope"
#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static Finding writeback_finding(void) {
        static char path[] = PATH, creator[] = "/kubepods.slice/cri-containerd-*.scope";

        return (Finding){
                .id = 7, .kind = FINDING_WRITEBACK, .serial = 412, .cgroup_id = 63, .path = path, .path_len = sizeof(path) - 1,
                .creator = creator, .value = 4194304, .limit = 1, .bytes = 4194304, .units = 4096, .raised_boot_usec = NOW - 2 * MINUTE,
                .since_boot_usec = NOW - 12 * MINUTE, .since_exact = true, .refs_known = true, .refs = 3, .pin_refs = 2, .pin_bytes = 20480,
                .pin_exact = true, .device = "8:0", .n_devices = 1,
        };
}

static void test_raised(_unused_ void **state) {
        Finding f = writeback_finding();
        StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
        ProbeFacts facts = { .layout = PROBE_LAYOUT_UNITS_64 };
        Snapshot s = { .facts = &facts, .boot_usec = NOW };

        tell(&s, &entry);
        assert_entry(JOURNAL_WRITEBACK, LOG_WARNING,
                     "Dying memory cgroup " PATH " is pinned by writeback on 8:0 for 12min, holding 4.0M of shrinker memory",
                     (const char *const[][2]){
                             { "CHANGE", "raised" }, { "KIND", "writeback" }, { "CAUSE", "writeback" }, { "FINDING", "7" },
                             { "CGROUP", PATH }, { "SERIAL", "412" }, { "CGROUP_ID", "63" }, { "CONTAINER_ID", HEX64 },
                             { "ENGINE", "containerd" }, { "POD_UID", "01234567-89ab-cdef-0123-456789abcdef" },
                             { "OBJECT_SYSTEMD_UNIT", "cri-containerd-" HEX64 ".scope" },
                             { "CREATOR", "/kubepods.slice/cri-containerd-*.scope" }, { "REFS", "3" }, { "PIN_REFS", "2" },
                             { "PIN_BYTES", "20480" }, { "PIN_EXACT", "yes" }, { "DEVICE", "8:0" }, { "BYTES", "4194304" },
                             { "UNITS", "4096" }, { "VALUE", "4194304" }, { "LIMIT", "1" }, { "AGE_USEC", "720000000" },
                             { "AGE_EXACT", "yes" }, { "ADVICE", "Safe: Wait. At a cost: Sync. Not safe: Drop caches." }, {} });

        /* A flat kernel has no units; references can be unknown, and so can the device and the moment of death. */
        facts.layout = PROBE_LAYOUT_FLAT;
        f.since_exact = f.refs_known = f.pin_exact = false;
        f.since_boot_usec = NOW + 5; /* it died while the census was taken */
        f.device[0] = '\0';
        f.creator = NULL;
        f.path = (char *)"/t/wb1";
        f.path_len = 6;
        tell(&s, &entry);
        assert_entry(JOURNAL_WRITEBACK, LOG_WARNING,
                     "Dying memory cgroup /t/wb1 is pinned by writeback for at least 0, holding 4.0M of shrinker memory",
                     (const char *const[][2]){
                             { "CHANGE", "raised" }, { "KIND", "writeback" }, { "CAUSE", "writeback" }, { "FINDING", "7" }, { "CGROUP", "/t/wb1" },
                             { "SERIAL", "412" }, { "CGROUP_ID", "63" }, { "PIN_REFS", "2" }, { "PIN_BYTES", "20480" },
                             { "PIN_EXACT", "no" }, { "BYTES", "4194304" }, { "VALUE", "4194304" }, { "LIMIT", "1" }, { "AGE_USEC", "0" },
                             { "AGE_EXACT", "no" }, { "ADVICE", "Safe: Wait. At a cost: Sync. Not safe: Drop caches." }, {} });

        f = writeback_finding();
        f.n_devices = 3;
        memset(f.device, 'd', sizeof(f.device)); /* no NUL */
        tell(&s, &entry);
        assert_int_equal(find("SHRINKWATCH_DEVICE", &(size_t){ 0 }) != NULL, true);
        assert_field("MESSAGE", "Dying memory cgroup " PATH " is pinned by writeback on "
                                "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd and 2 more for 12min, "
                                "holding 4.0M of shrinker memory");
        forget();
}

static void test_kinds(_unused_ void **state) {
        static const struct {
                FindingKind kind;
                JournalMessage message;
                int priority;
                const char *text, *over;
        } table[] = {
                { FINDING_SWAP, JOURNAL_SWAP, LOG_WARNING,
                  "Dying memory cgroup /a is pinned by 2048 swap entries (8.0M) for 1h 30min, holding 3.0K of shrinker memory",
                  "Over: Dying memory cgroup /a: swap entries pin it no longer, or it holds less than the limit. It stood for 1min" },
                { FINDING_SUBTREE, JOURNAL_SUBTREE, LOG_WARNING,
                  "Memory cgroup /a and those below it take 6.8K of shrinker memory, which is charged to none of them; the limit is 5.8K",
                  "Over: Memory cgroup /a: its shrinker memory is below the limit. It stood for 1min" },
                { FINDING_HOST, JOURNAL_HOST, LOG_WARNING,
                  "Shrinker memory of this host takes 6.8K, 5.3% of its memory; the limit is 5.8K",
                  "Over: Shrinker memory of this host: it is below the limit. It stood for 1min" },
                { FINDING_DYING, JOURNAL_DYING, LOG_WARNING, "7000 memory cgroups are dying and not gone; the limit is 6000",
                  "Over: Number of dying memory cgroups: it is below the limit. It stood for 1min" },
                { FINDING_DYING_GROWTH, JOURNAL_DYING_GROWTH, LOG_WARNING,
                  "Dying memory cgroups become 7000 more an hour; the limit is 6000",
                  "Over: Growth of the number of dying memory cgroups: it is below the limit. It stood for 1min" },
                { FINDING_STRANDED, JOURNAL_STRANDED, LOG_WARNING,
                  "7000 shrinker ids are paid for by every memory cgroup and used by nobody; the limit is 6000",
                  "Over: Shrinker ids that nobody uses: there are fewer than the limit. It stood for 1min" },
                { FINDING_MEMCG_IDS, JOURNAL_MEMCG_IDS, LOG_ERR,
                  "7000 of 65535 private ids of memory cgroups are in use, without a free one none can be made; the limit is 6000",
                  "Over: Private ids of memory cgroups in use: there are fewer than the limit. It stood for 1min" },
                { FINDING_DEGRADED, JOURNAL_DEGRADED, LOG_WARNING, "shrinkwatchd sees less than it should (no\\x0aevents)",
                  "Over: shrinkwatchd sees less than it should: it sees everything again. It stood for 1min" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                bool memcg = table[i].kind <= FINDING_SUBTREE;
                Finding f = {
                        .id = 1, .kind = table[i].kind, .serial = memcg ? 5 : 0, .path = memcg ? (char *)"/a" : NULL, .path_len = memcg ? 2 : 0,
                        .value = 7000, .limit = 6000, .bytes = 3 * 1024, .raised_boot_usec = NOW - MINUTE, .since_boot_usec = NOW - 90 * MINUTE,
                        .since_exact = true, .pin_entries = 2048, .pin_bytes = 8ULL << 20, .text = (char *)"no\nevents",
                };
                StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
                Snapshot s = { .boot_usec = NOW, .memory_bytes = 128 * 1024 };

                tell(&s, &entry);
                assert_field("MESSAGE", table[i].text);
                assert_field("MESSAGE_ID", journal_message_id(table[i].message));
                assert_field("PRIORITY", table[i].priority == LOG_ERR ? "3" : "4");
                assert_field("SHRINKWATCH_AGE_USEC", "5400000000");
                assert_no_field("SHRINKWATCH_END");
                /* What is about the host names no cgroup; the watcher itself has no memory to speak of. */
                for (size_t k = 0; k < 3 && !memcg; k++)
                        assert_no_field((const char *const[]){ "SHRINKWATCH_CGROUP", "SHRINKWATCH_SERIAL", "SHRINKWATCH_CGROUP_ID" }[k]);
                if (f.kind == FINDING_DEGRADED) {
                        assert_no_field("SHRINKWATCH_BYTES");
                        assert_no_field("SHRINKWATCH_VALUE");
                } else {
                        assert_field("SHRINKWATCH_BYTES", "3072");
                        assert_field("SHRINKWATCH_VALUE", "7000");
                        assert_field("SHRINKWATCH_LIMIT", "6000");
                }
                if (f.kind == FINDING_SWAP) {
                        assert_field("SHRINKWATCH_CAUSE", "swap");
                        assert_field("SHRINKWATCH_ADVICE", "Safe: Nothing.");
                } else {
                        assert_no_field("SHRINKWATCH_CAUSE");
                        assert_no_field("SHRINKWATCH_PIN_BYTES");
                        assert_no_field("SHRINKWATCH_ADVICE");
                }

                entry.kind = STORM_CLEARED;
                entry.end = FINDING_END_BELOW;
                tell(&s, &entry);
                assert_field("MESSAGE", table[i].over);
                assert_field("MESSAGE_ID", journal_message_id(JOURNAL_CLEARED));
                assert_field("PRIORITY", "5");
                assert_field("SHRINKWATCH_CHANGE", "cleared");
                assert_field("SHRINKWATCH_END", "below");
                assert_no_field("SHRINKWATCH_ADVICE");
        }

        /* Nothing is said of a share of a memory whose size is not known; a share beyond all bounds does not wrap. */
        for (size_t i = 0; i < 2; i++) {
                Finding f = { .kind = FINDING_HOST, .value = UINT64_MAX, .limit = UINT64_MAX };
                StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
                Snapshot s = { .memory_bytes = i == 0 ? 0 : UINT64_MAX };

                tell(&s, &entry);
                assert_field("MESSAGE", i == 0 ? "Shrinker memory of this host takes 15.9E; the limit is 15.9E" :
                                                 "Shrinker memory of this host takes 15.9E, 100.0% of its memory; the limit is 15.9E");
        }
        forget();
}

/* How fast the host's grows, and what that comes to. */
static void test_growth(_unused_ void **state) {
#define TAKES "Shrinker memory of this host takes 20.0M, 10.0% of its memory; the limit is 10.0M"
        static const struct {
                HistoryTrend trend;
                const char *text, *field;
        } table[] = {
                { { .known = true, .per_hour = 40 << 20, .last_value = 20 << 20 }, TAKES ". It grows by 40.0M an hour: half of the memory in 2h", "41943040" },
                { { .known = true, .per_hour = 40 << 20, .last_value = 150 << 20 }, TAKES ". It grows by 40.0M an hour", "41943040" }, /* beyond half */
                { { .known = true, .per_hour = -3.9, .last_value = 20 << 20 }, TAKES, "-3" },
                { { .per_hour = 40 << 20 }, TAKES, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                Finding f = { .kind = FINDING_HOST, .value = 20 << 20, .limit = 10 << 20 };
                StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
                Snapshot s = { .memory_bytes = 200 << 20, .overhead_trend = table[i].trend };

                tell(&s, &entry);
                assert_field("MESSAGE", table[i].text);
                if (table[i].field)
                        assert_field("SHRINKWATCH_GROWTH_BYTES", table[i].field);
                else
                        assert_no_field("SHRINKWATCH_GROWTH_BYTES");
        }
        forget();
}

static void test_ends(_unused_ void **state) {
        static const char *const texts[][2] = {
                [FINDING_END_BELOW] = { "below", "writeback pins it no longer, or it holds less than the limit" },
                [FINDING_END_GONE] = { "gone", "it is gone, its memory is free" },
                [FINDING_END_LIMIT] = { "limit", "another limit is in force, or none" },
                [FINDING_END_REMOVED] = { "removed", "the cgroup was removed; it is dying, and its memory counts for those above it" },
        };

        for (FindingEnd end = 0; end < ELEMENTSOF(texts); end++) {
                Finding f = writeback_finding();
                StormEntry entry = { .kind = STORM_CLEARED, .finding_kind = f.kind, .finding = &f, .end = end };
                Snapshot s = { .boot_usec = NOW };
                char text[512];

                tell(&s, &entry);
                (void)snprintf(text, sizeof(text), "Over: Dying memory cgroup " PATH ": %s. It stood for 2min", texts[end][1]);
                assert_entry(JOURNAL_CLEARED, LOG_NOTICE, text,
                             (const char *const[][2]){
                                     { "CHANGE", "cleared" }, { "KIND", "writeback" }, { "CAUSE", "writeback" }, { "END", texts[end][0] },
                                     { "FINDING", "7" }, { "CGROUP", PATH }, { "SERIAL", "412" }, { "CGROUP_ID", "63" },
                                     { "CONTAINER_ID", HEX64 }, { "ENGINE", "containerd" },
                                     { "POD_UID", "01234567-89ab-cdef-0123-456789abcdef" },
                                     { "OBJECT_SYSTEMD_UNIT", "cri-containerd-" HEX64 ".scope" },
                                     { "CREATOR", "/kubepods.slice/cri-containerd-*.scope" }, { "REFS", "3" }, { "PIN_REFS", "2" },
                                     { "PIN_BYTES", "20480" }, { "PIN_EXACT", "yes" }, { "DEVICE", "8:0" }, { "BYTES", "4194304" },
                                     { "UNITS", "4096" }, { "VALUE", "4194304" }, { "LIMIT", "1" }, { "AGE_USEC", "720000000" },
                                     { "AGE_EXACT", "yes" }, {} });
        }
        forget();
}

static void test_storm(_unused_ void **state) {
        Finding f = writeback_finding();
        StormEntry entry = {
                .kind = STORM_BEGINS, .finding_kind = FINDING_WRITEBACK, .finding = &f, .creator = "/a.slice/run-r*.scope", .raised = 10007,
                .cleared = 3, .standing = 10004, .bytes = 5ULL << 30, .units = 5242880, .oldest_boot_usec = NOW - 61 * MINUTE,
        };
        Snapshot s = { .boot_usec = NOW };

        tell(&s, &entry);
        assert_entry(JOURNAL_STORM, LOG_WARNING,
                     "Storm: 10004 dying memory cgroups pinned by writeback, made by /a.slice/run-r*.scope, hold 5.0G of shrinker memory, "
                     "the oldest for at least 1h 1min (in this census 10007 more, 3 less). They are told together from here on",
                     (const char *const[][2]){
                             { "CHANGE", "storm-begins" }, { "KIND", "writeback" }, { "CAUSE", "writeback" }, { "CGROUP", PATH },
                             { "SERIAL", "412" }, { "CGROUP_ID", "63" }, { "CREATOR", "/a.slice/run-r*.scope" }, { "STANDING", "10004" },
                             { "RAISED", "10007" }, { "CLEARED", "3" }, { "BYTES", "5368709120" }, { "UNITS", "5242880" },
                             { "AGE_USEC", "3660000000" }, { "ADVICE", "Safe: Wait. At a cost: Sync. Not safe: Drop caches." }, {} });

        /* Nothing was raised now. */
        entry.kind = STORM_GOES_ON;
        entry.finding = NULL;
        entry.finding_kind = FINDING_SUBTREE;
        entry.creator = "/b\n*";
        tell(&s, &entry);
        assert_entry(JOURNAL_STORM, LOG_WARNING,
                     "Storm goes on: 10004 memory cgroups with too much shrinker memory below them, made by /b\\x0a*, hold 5.0G of shrinker memory, "
                     "the oldest for at least 1h 1min (in this census 10007 more, 3 less)",
                     (const char *const[][2]){
                             { "CHANGE", "storm-goes-on" }, { "KIND", "subtree" }, { "CREATOR", "/b\n*" }, { "STANDING", "10004" },
                             { "RAISED", "10007" }, { "CLEARED", "3" }, { "BYTES", "5368709120" }, { "UNITS", "5242880" },
                             { "AGE_USEC", "3660000000" }, {} });

        entry = (StormEntry){ .kind = STORM_ENDS, .finding_kind = FINDING_SWAP, .creator = "/c", .cleared = 9 };
        tell(&s, &entry);
        assert_entry(JOURNAL_STORM, LOG_NOTICE,
                     "Storm is over: 0 dying memory cgroups pinned by swap entries, made by /c (in this census 0 more, 9 less)",
                     (const char *const[][2]){ { "CHANGE", "storm-ends" }, { "KIND", "swap" }, { "CAUSE", "swap" }, { "CREATOR", "/c" },
                                               { "STANDING", "0" }, { "RAISED", "0" }, { "CLEARED", "9" }, { "BYTES", "0" },
                                               { "UNITS", "0" }, {} });

        entry = (StormEntry){ .kind = STORM_MORE, .raised = 11, .cleared = 13 };
        tell(&s, &entry);
        assert_entry(JOURNAL_MORE, LOG_WARNING,
                     "Not told one by one, beyond 64 entries of one census: 11 findings raised, 13 cleared",
                     (const char *const[][2]){ { "CHANGE", "more" }, { "RAISED", "11" }, { "CLEARED", "13" }, {} });
        forget();
}

static void assert_starts(const char *value, const char *expected) {
        assert_memory_equal(value, expected, strlen(expected));
}

/* A name is chosen by whoever the cgroup is delegated to. */
static void test_hostile_paths(_unused_ void **state) {
        static const char path[] = "/a\nMESSAGE=b\x1b[2J\xff\xe2\x80\xae";
        static char large[100000];
        size_t n = 0;
        const char *value;

        tell_path(path, sizeof(path) - 1);
        assert_bytes("SHRINKWATCH_CGROUP", path, sizeof(path) - 1);
        value = find("MESSAGE", &n);
        assert_non_null(value);
        assert_starts(value, "Memory cgroup /a\\x0aMESSAGE=b\\x1b[2J\\xff\\xe2\\x80\\xae and those below");
        assert_null(memchr(value, '\n', n));

        /* Beyond 64 KiB it is cut and said so; in the sentence much earlier, and not within a character. */
        memset(large, 'x', sizeof(large));
        large[0] = '/';
        memcpy(large + 510, "\xe2\x82\xac\xe2\x82\xac", 6);
        tell_path(large, sizeof(large));
        assert_bytes("SHRINKWATCH_CGROUP", large, 65536 - sizeof("SHRINKWATCH_CGROUP=") + 1);
        assert_field("SHRINKWATCH_CUT", "SHRINKWATCH_CGROUP");
        value = find("MESSAGE", &n);
        assert_non_null(value);
        assert_starts(value + strlen("Memory cgroup ") + 509, "x\xe2\x80\xa6 and those below");

        /* To the byte. */
        tell_path(large, 65536 - sizeof("SHRINKWATCH_CGROUP=") + 1);
        assert_no_field("SHRINKWATCH_CUT");
        tell_path(large, 65536 - sizeof("SHRINKWATCH_CGROUP=") + 2);
        assert_field("SHRINKWATCH_CUT", "SHRINKWATCH_CGROUP");

        tell_path(NULL, 0);
        assert_no_field("SHRINKWATCH_CGROUP");
        value = find("MESSAGE", &n);
        assert_non_null(value);
        assert_starts(value, "Memory cgroup (unknown) and those below");
        forget();
}

static void test_units(_unused_ void **state) {
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        static const char *const table[][2] = {
                { "/system.slice/foo.service", "foo.service" },
                { "/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service" },
                { "/init.scope", "init.scope" },
                { "/system.slice", "system.slice" },
                { "/-.slice", "-.slice" },
                { "//system.slice//foo.service", "foo.service" },
                { "/system.slice/dev-sda\\x2d1.swap", "dev-sda\\x2d1.swap" },
                { "/system.slice/_cgroup.service", "cgroup.service" },
                /* What is inside a unit was named by others: a container's sshd, a user's own. */
                { "/machine.slice/systemd-nspawn@web.service/payload/system.slice/sshd.service", "systemd-nspawn@web.service" },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/sshd.service", "user@1000.service" },
                { "/user.slice/user-1000.slice/session-2.scope", "session-2.scope" },
                { "/docker/" A64 "/system.slice/sshd.service", NULL },
                { "/a/b.service", NULL },
                { "/system.slice/a/b.service", NULL },
                { "/system.slice/a", NULL },
                { "/.slice/b.service", NULL },
                { "/", NULL },
                { "", NULL },
                /* Names that systemd could not have. */
                { "/system.slice/.service", NULL },
                { "/system.slice/@a.service", NULL },
                { "/system.slice/a b.service", NULL },
                { "/system.slice/a\nUNIT=b.service", NULL },
                { "/system.slice/\xc3\xa4.service", NULL },
                { "/system.slice/\xff.service", NULL },
                { "/system.slice/foo.target", NULL },
                { "/system.slice/foo.service2", NULL },
                { "/system.slice/" A64 A64 A64 A64 ".service", NULL },
                { "/system.slice/" A64 A64 A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.service",
                  A64 A64 A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.service" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                print_message("# %zu\n", i);
                tell_path(table[i][0], strlen(table[i][0]));
                if (table[i][1])
                        assert_field("OBJECT_SYSTEMD_UNIT", table[i][1]);
                else
                        assert_no_field("OBJECT_SYSTEMD_UNIT");
        }
        forget();
}

static void test_log(_unused_ void **state) {
        const char *const fields[] = { "SHRINKWATCH_EVENTS=fresh", "EMPTY=", "LINES=a\nb=c", "no value", "=no name", NULL };
        Journal *j = NULL;

        assert_int_equal(journal_new(&j, sink, &got), 0);
        assert_int_equal(journal_log(j, JOURNAL_CONF, fields, "%s:%u: what\tis \xff\n", "/etc/x", 3U), 0);
        assert_field("MESSAGE", "/etc/x:3: what\\x09is \\xff\\x0a");
        assert_field("MESSAGE_ID", journal_message_id(JOURNAL_CONF));
        assert_field("PRIORITY", "4");
        assert_field("SHRINKWATCH_EVENTS", "fresh");
        assert_field("EMPTY", "");
        assert_field("LINES", "a\nb=c");
        assert_int_equal(got.n, 6);

        assert_int_equal(journal_log(j, JOURNAL_STARTED, NULL, "%s", ""), 0);
        assert_field("MESSAGE", "");
        assert_field("PRIORITY", "6");
        assert_int_equal(got.n, 3);

        /* What is not taken is counted, and told to the caller. */
        got.answer = -ECONNREFUSED;
        assert_int_equal(journal_log(j, JOURNAL_STOPPED, NULL, "# this line is on stderr"), -ECONNREFUSED);
        got.answer = 0;
        assert_int_equal(journal_sent(j), 3);
        assert_int_equal(journal_failed(j), 1);
        journal_free(j);
        assert_null(journal_free(NULL));
        forget();
}

/* Whether an entry of the catalog has fields; each must be in the entry that was sent last. */
static size_t check_catalog(const char *catalog, JournalMessage message) {
        const char *at = strstr(catalog, journal_message_id(message)), *end;
        size_t fields = 0;

        assert_non_null(at);
        end = strstr(at, "\n-- ");
        while ((at = strchr(at, '@')) && (!end || at < end)) {
                const char *close = strchr(at + 1, '@');
                char name[80];
                size_t n;

                assert_non_null(close);
                (void)snprintf(name, sizeof(name), "%.*s", (int)(close - at - 1), at + 1);
                if (!find(name, &n))
                        fail_msg("@%s@ of the catalog is not in the entry", name);
                at = close + 1;
                fields++;
        }
        return fields;
}

/* What the catalog puts into its text is there even in an entry about which next to nothing is known. */
static void test_catalog(_unused_ void **state) {
        const char *path = getenv("SHRINKWATCH_CATALOG");
        FILE *file = fopen(path ? path : "", "r");
        static char catalog[200000];
        Snapshot s = {};
        size_t n;

        assert_non_null(file);
        n = fread(catalog, 1, sizeof(catalog) - 1, file);
        assert_int_equal(fclose(file), 0);
        assert_in_range(n, 1000, sizeof(catalog) - 2);
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                Finding f = { .kind = kind };
                StormEntry entry = { .kind = STORM_RAISED, .finding_kind = kind, .finding = &f };

                tell(&s, &entry);
                n = check_catalog(catalog, JOURNAL_WRITEBACK + kind);
                assert_int_equal(n > 0, kind != FINDING_DEGRADED);
        }
        forget();
        for (JournalMessage i = JOURNAL_CLEARED; i < _JOURNAL_MESSAGE_MAX; i++)
                assert_int_equal(check_catalog(catalog, i), 0);
}

/* Every allocation fails once: the caller is told, nothing leaks, and the next entry is whole. */
static long allocations_left = -1;

static bool allocation_fails(void) {
        return allocations_left >= 0 && allocations_left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
        return allocation_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
        return allocation_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
        return allocation_fails() ? NULL : __real_realloc(p, size);
}

typedef struct Counted {
        int n;       /* fields of the first entry */
        char lost[128]; /* the message about entries that were lost */
} Counted;

static int count_sink(const struct iovec *fields, int n, void *userdata) {
        static const char lost[] = " did not get to the journal";
        Counted *c = userdata;

        if (c->n == 0)
                c->n = n;
        for (int i = 0; i < n; i++)
                if (memmem(fields[i].iov_base, fields[i].iov_len, lost, strlen(lost)))
                        (void)snprintf(c->lost, sizeof(c->lost), "%.*s", (int)fields[i].iov_len, (const char *)fields[i].iov_base);
        return 0;
}

static void test_out_of_memory(_unused_ void **state) {
        Finding f = writeback_finding();
        StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
        Snapshot s = { .boot_usec = NOW };
        int r = -ENOMEM, log = dup(STDERR_FILENO);
        char text[128];
        Counted c = {};
        uint64_t failed = 0;
        Journal *j = NULL;

        allocations_left = 0;
        assert_int_equal(journal_new(&j, count_sink, &c), -ENOMEM);
        assert_null(j);
        assert_int_equal(journal_new(&j, count_sink, &c), 0);
        /* Each failure makes a line there. */
        assert_true(log >= 0 && freopen("/dev/null", "w", stderr));
        for (long i = 0; r < 0 && i < 1000; i++) {
                c.n = 0;
                allocations_left = i;
                r = journal_tell(j, &s, &entry);
                if (r < 0 && (r != -ENOMEM || c.n > 0 || journal_failed(j) != ++failed))
                        break;
        }
        allocations_left = -1;
        (void)dup2(log, STDERR_FILENO);
        close(log);
        assert_int_equal(r, 0);
        assert_in_range(failed, 20, 999);
        assert_int_equal(c.n, 27);
        /* The last one got through; that others did not is told with it, or, when memory is out for that as well, with the next. */
        assert_in_range(journal_failed(j), failed, failed + 1);
        assert_int_equal(journal_tell(j, &s, &entry), 0);
        (void)snprintf(text, sizeof(text), "MESSAGE=%" PRIu64 " messages did not get to the journal", failed);
        assert_int_equal(strncmp(c.lost, text, strlen(text)), 0);
        c.lost[0] = '\0';
        assert_int_equal(journal_tell(j, &s, &entry), 0);
        assert_string_equal(c.lost, "");
        journal_free(j);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_raised),
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_growth),
                cmocka_unit_test(test_ends),
                cmocka_unit_test(test_storm),
                cmocka_unit_test(test_hostile_paths),
                cmocka_unit_test(test_units),
                cmocka_unit_test(test_log),
                cmocka_unit_test(test_catalog),
                cmocka_unit_test(test_out_of_memory),
        };

        return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
