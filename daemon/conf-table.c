/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The keys: what there is, what each takes and means, and its default. The shipped file and the manual page are compared with this. */
#include <limits.h>

#include "conf-internal.h"

#define SECOND 1000000ULL
#define MINUTE (60 * SECOND)
#define DAY (24 * 60 * MINUTE)

#define TAKES_BOOL "yes or no"
#define TAKES_BYTES "a size above 0 such as 2G, a percentage of memory such as 5%, or infinity"
#define TAKES_COUNT "a whole number above 0, or infinity"
#define TAKES_AGE "a time span such as 10min, or infinity"

#define AT(member) .offset = offsetof(Conf, member)

/* A limit of [Limits]: its thresholds and its age. */
#define ON(kind, type_, name, default_, takes_, help_)                                                                          \
        {                                                                                                                       \
                "Limits", name, default_, takes_, help_, .type = type_, .infinity = true, .min = 1, .max = UINT64_MAX,          \
                AT(limits.limit[kind].on)                                                                                       \
        }
#define OFF(kind, type_, name, default_, takes_, help_)                                                                         \
        {                                                                                                                       \
                "Limits", name, default_, takes_, help_, .type = type_, .infinity = true, .min = 1, .max = UINT64_MAX,          \
                AT(limits.limit[kind].off)                                                                                      \
        }
#define AGE(kind, name, default_, help_)                                                                                        \
        {                                                                                                                       \
                "Limits", name, default_, TAKES_AGE, help_, .type = CONF_SPAN, .infinity = true, .max = UINT64_MAX,             \
                AT(limits.limit[kind].min_age_usec)                                                                             \
        }
#define LIMIT(kind, type, takes, name, on, off, age, help_on, help_off, help_age)                                               \
        ON(kind, type, name "On", on, takes, help_on), OFF(kind, type, name "Off", off, takes, help_off),                       \
                AGE(kind, name "MinAgeSec", age, help_age)
#define LIMIT_BYTES(kind, ...) LIMIT(kind, CONF_BYTES, TAKES_BYTES, __VA_ARGS__)
#define LIMIT_COUNT(kind, ...) LIMIT(kind, CONF_COUNT, TAKES_COUNT, __VA_ARGS__)

static const ConfKey keys[] = {
        { "Census", "IntervalSec", "60s", "a time span from 1s to 1d",
          "A census begins this long after the one before began.",
          .type = CONF_SPAN, .min = SECOND, .max = DAY, AT(interval_usec) },
        { "Census", "CPUShare", "0.5%", "a percentage of one CPU from 0% to 100%",
          "Most that censuses may take of one CPU in the long run: after one that took long, the next comes later than IntervalSec= says. 0%: no bound.",
          .type = CONF_SHARE, .max = 1000000, AT(cpu_share_ppm) },

        { "Events", "Events", "yes", TAKES_BOOL,
          "Hear from the kernel when memory cgroups are made, removed and released. Without it, ages begin when a census first sees them dying. "
          "A change takes a restart.",
          .type = CONF_BOOL, .max = 1, AT(events) },
        { "Events", "DeathsMax", "262144", "a whole number from 1024 to 16777216",
          "How many times of removal the kernel keeps: of dying memory cgroups, and of those that went since the last census. What does not fit is "
          "counted as lost. "
          "A change takes a restart.",
          .type = CONF_COUNT, .min = 1024, .max = 16777216, AT(max_deaths) },

        LIMIT_BYTES(FINDING_WRITEBACK, "Writeback", "1", "1", "10min",
                    "Report a dying memory cgroup that writeback pins when its overhead is at least this.",
                    "Report it cleared when its overhead is below this, as when writeback pins it no longer.",
                    "Not before it has been dying for this long."),
        LIMIT_BYTES(FINDING_SWAP, "Swap", "1", "1", "1h",
                    "Report a dying memory cgroup that swap entries pin when its overhead is at least this.",
                    "Report it cleared when its overhead is below this, as when no swap entry pins it any more.",
                    "Not before it has been dying for this long."),
        LIMIT_BYTES(FINDING_SUBTREE, "Subtree", "1%", "0.8%", "5min",
                    "Report a live memory cgroup when its overhead with that of all below it, dying ones included, is at least this.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        LIMIT_BYTES(FINDING_HOST, "Host", "5%", "4%", "5min",
                    "Report the host when the overhead of all memory cgroups together is at least this.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        LIMIT_COUNT(FINDING_DYING, "Dying", "20000", "15000", "10min",
                    "Report the host when at least so many memory cgroups are dying.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        LIMIT_COUNT(FINDING_DYING_GROWTH, "DyingGrowth", "2000", "1000", "10min",
                    "Report the host when the number of dying memory cgroups grows by at least so many an hour.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        LIMIT_COUNT(FINDING_STRANDED, "StrandedIds", "8192", "6144", "1h",
                    "Report the host when arrays have room for at least so many shrinker ids that nobody uses.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        LIMIT_COUNT(FINDING_MEMCG_IDS, "MemcgIds", "60000", "55000", "0",
                    "Report the host when at least so many private ids of memory cgroups are in use, of the 65535 there are.",
                    "Report that cleared when it is below this.",
                    "Not before it has been so for this long."),
        AGE(FINDING_DEGRADED, "DegradedMinAgeSec", "3min",
            "Report the watcher itself when it has seen less than it should for this long."),
        { "Limits", "CgroupAttributes", "yes", TAKES_BOOL,
          "Heed the extended attribute user.shrinkwatch.overhead of cgroups that root owns: a limit of the subtree's own, which can only be "
          "stricter than SubtreeOn=.",
          .type = CONF_BOOL, .max = 1, AT(marks) },

        { "Metrics", "TextFile", "", "an absolute path",
          "Write the metrics of each census to this file, for the textfile collector of node_exporter. Empty: to shrinkwatch.prom in the "
          "service's runtime directory, /run/shrinkwatch; without systemd, to none. /dev/null: to none.",
          .type = CONF_PATH, AT(textfile) },

        { "Bus", "Bus", "yes", TAKES_BOOL,
          "Be on the system bus as org.shrinkwatch1. A change takes a restart.",
          .type = CONF_BOOL, .max = 1, AT(bus) },
        { "Bus", "WatchSubtrees", "machine.slice/*", "patterns of paths, a blank between two",
          "Have an object on the bus, with properties that change, for each live memory cgroup that one of these matches.",
          .type = CONF_PATTERNS, AT(watch) },

        { "History", "History", "yes", TAKES_BOOL,
          "Keep the totals of every census of a day, and of one an hour of three months, over restarts.",
          .type = CONF_BOOL, .max = 1, AT(history) },
        { "History", "TrendSec", "1h", "a time span from 10min to 90d",
          "The trend is that of this long until now.",
          .type = CONF_SPAN, .min = 10 * MINUTE, .max = 90 * DAY, AT(trend_usec) },

        { "Subtree", "OverheadOn", "", TAKES_BYTES,
          "As SubtreeOn=, for these memory cgroups; the lower of the two counts.",
          .type = CONF_BYTES, .infinity = true, .min = 1, .max = UINT64_MAX, .offset = offsetof(FindingSubtree, overhead.on) },
        { "Subtree", "OverheadOff", "", TAKES_BYTES,
          "As SubtreeOff=.",
          .type = CONF_BYTES, .infinity = true, .min = 1, .max = UINT64_MAX, .offset = offsetof(FindingSubtree, overhead.off) },
        { "Subtree", "MinAgeSec", "", TAKES_AGE,
          "As SubtreeMinAgeSec=; the lower of the two counts.",
          .type = CONF_SPAN, .infinity = true, .max = UINT64_MAX, .offset = offsetof(FindingSubtree, overhead.min_age_usec) },
};
#define N_KEYS ELEMENTSOF(keys)

const ConfKey *conf_keys(size_t *ret_n) {
        *ret_n = N_KEYS;
        return keys;
}

size_t conf_keys_subtree(void) {
        return N_KEYS - CONF_SUBTREE_KEYS;
}

int conf_key_find(const char *section, const char *key) {
        for (size_t i = 0; i < N_KEYS; i++)
                if (strcmp(keys[i].key, key) == 0 && strcmp(keys[i].section, section) == 0)
                        return (int)i;
        return -ENOENT;
}

int conf_key_find_offset(size_t offset) {
        for (size_t i = 0; i < N_KEYS - CONF_SUBTREE_KEYS; i++)
                if (keys[i].offset == offset)
                        return (int)i;
        return -ENOENT;
}

bool conf_section_known(const char *name) {
        for (size_t i = 0; i < N_KEYS; i++)
                if (strcmp(keys[i].section, name) == 0)
                        return true;
        return false;
}

/* -------------------------------------------------------------------------------------------------------------- values */

/* No ".." and no controls, no slash at the end: a file's name, which goes into messages and gets a suffix. */
static int check_path(const char *s) {
        size_t len = strlen(s);

        if (s[0] != '/' || s[len - 1] == '/' || len >= PATH_MAX)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
                        return -EINVAL;
        for (const char *p = s; (p = strstr(p, "/..")) != NULL; p += 3)
                if (p[3] == '/' || p[3] == '\0')
                        return -EINVAL;
        return 0;
}

int conf_key_parse(const ConfKey *k, const char *value, uint64_t memory_bytes, uint64_t *ret) {
        uint64_t n = 0;
        bool b = false;
        int r = -EINVAL;

        if (conf_is_infinity(value)) {
                if (!k->infinity)
                        return -ERANGE;
                *ret = UINT64_MAX;
                return 0;
        }
        switch (k->type) {
        case CONF_BOOL:
                r = conf_parse_bool(value, &b);
                n = b;
                break;
        case CONF_COUNT:
                r = conf_parse_count(value, &n);
                break;
        case CONF_BYTES:
                r = conf_parse_bytes(value, memory_bytes, &n);
                break;
        case CONF_SPAN:
                r = conf_parse_span(value, &n);
                break;
        case CONF_SHARE:
                r = conf_parse_share(value, &n);
                break;
        case CONF_PATH:
                r = check_path(value);
                break;
        case CONF_PATTERNS:
                r = 0; /* any text is a pattern of something */
                break;
        }
        if (r < 0)
                return r;
        if (n < k->min || n > k->max)
                return -ERANGE;
        *ret = n;
        return 0;
}

/* ------------------------------------------------------------------------------------------------------------- nearest */

#define WORD_MAX 64U

static char lower(char c) {
        return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Edit distance, whatever the case. SIZE_MAX: too long to be a word of ours. */
static size_t distance(const char *a, const char *b) {
        size_t na = strlen(a), nb = strlen(b), row[WORD_MAX + 1];

        if (na > WORD_MAX || nb > WORD_MAX)
                return SIZE_MAX;
        for (size_t j = 0; j <= nb; j++)
                row[j] = j;
        for (size_t i = 1; i <= na; i++) {
                size_t diagonal = row[0];

                row[0] = i;
                for (size_t j = 1; j <= nb; j++) {
                        size_t d = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));

                        diagonal = row[j];
                        if (row[j] + 1 < d)
                                d = row[j] + 1;
                        if (row[j - 1] + 1 < d)
                                d = row[j - 1] + 1;
                        row[j] = d;
                }
        }
        return row[nb];
}

/* Near enough to be meant: a few wrong letters, not another word. */
static bool is_near(const char *word, size_t d) {
        size_t len = strlen(word);

        return d < len && d <= (len / 4 > 3 ? len / 4 : 3);
}

const ConfKey *conf_key_nearest(const char *section, const char *key) {
        const ConfKey *nearest = NULL;
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < N_KEYS; i++) {
                size_t d = strcmp(keys[i].section, section) == 0 ? distance(key, keys[i].key) : SIZE_MAX;

                if (d < best && is_near(key, d)) {
                        best = d;
                        nearest = keys + i;
                }
        }
        /* The right name in the wrong place. */
        for (size_t i = 0; i < N_KEYS && best > 0; i++)
                if (conf_equal_nocase(keys[i].key, key))
                        return keys + i;
        return nearest;
}

const char *conf_section_nearest(const char *name) {
        const char *nearest = NULL;
        size_t best = SIZE_MAX;

        for (size_t i = 0; i < N_KEYS; i++) {
                size_t d = distance(name, keys[i].section);

                if (d < best && is_near(name, d)) {
                        best = d;
                        nearest = keys[i].section;
                }
        }
        return nearest;
}
