/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* status: the page to look at first. What the daemon knows; with --direct, what a census of our own tells. */
#include <stdio.h>
#include <time.h>

#include "client.h"
#include "daemon/journal.h"
#include "daemon/json.h"
#include "footer.h"
#include "source.h"
#include "table.h"
#include "verb.h"

/* An hour's growth below this is none. */
#define GROWTH_MIN 1024.0

typedef struct Status {
        json_t *manager;  /* properties */
        json_t *findings; /* array of properties, by id */
        uint64_t now_usec; /* CLOCK_BOOTTIME */
} Status;

static void add_span_since(Text *t, const Status *s, uint64_t boot_usec) {
        char span[64];

        text_add_string(t, journal_format_span(span, sizeof(span), (s->now_usec > boot_usec ? s->now_usec - boot_usec : 0) / 1000 * 1000));
}

/* ---------------------------------------------------------------------------------------------------------------- text */

static void add_memory(Text *t, const Format *f, const Status *s) {
        uint64_t overhead = 0, memory, memcgs = 0, dying = 0, dying_bytes = 0, oldest;

        (void)client_get_u64(s->manager, "OverheadBytes", &overhead);
        (void)client_get_u64(s->manager, "OverheadDyingBytes", &dying_bytes);
        (void)client_get_u64(s->manager, "Memcgs", &memcgs);
        (void)client_get_u64(s->manager, "MemcgsDying", &dying);
        text_add_string(t, "Shrinker memory: ");
        text_add_size_words(t, f, overhead);
        if (client_get_u64(s->manager, "MemoryBytes", &memory)) {
                text_add_string(t, ", ");
                text_add_percent(t, overhead, memory);
                text_add_string(t, " of this host's memory");
        }
        text_add_string(t, ", in ");
        text_add_count_of(t, memcgs, "memory cgroup.\n", "memory cgroups.\n");
        if (dying == 0) {
                text_add_string(t, "Dying: none.\n");
                return;
        }
        text_add_string(t, "Dying: ");
        text_add_count_of(t, dying, "of them holds ", "of them hold ");
        text_add_size_words(t, f, dying_bytes);
        text_add_string(t, " (");
        text_add_percent(t, dying_bytes, overhead);
        text_add_string(t, ")");
        if (client_get_u64(s->manager, "DyingOldestBoottimeUSec", &oldest)) {
                text_add_string(t, ", the oldest for at least ");
                add_span_since(t, s, oldest);
        }
        text_add_string(t, ".\n");
}

static void add_pins(Text *t, const Format *f, const Status *s) {
        json_t *memcgs = json_object_get(s->manager, "PinnedMemcgs"), *bytes = json_object_get(s->manager, "PinnedOverheadBytes"), *value;
        bool any = false;
        const char *cause;

        json_object_foreach (memcgs, cause, value) {
                uint64_t n = 0;

                if (json_integer_value(value) <= 0)
                        continue;
                text_add_string(t, any ? ", " : "Pinned by: ");
                text_add_string(t, cause);
                text_add_string(t, " ");
                text_add_count(t, (uint64_t)json_integer_value(value));
                if (client_get_u64(bytes, cause, &n)) {
                        text_add_string(t, " (");
                        text_add_size_words(t, f, n);
                        text_add_string(t, ")");
                }
                any = true;
        }
        text_add_string(t, any ? ".\n" : "");
}

static void add_trend(Text *t, const Format *f, const Status *s) {
        double per_hour;
        char span[64];
        uint64_t usec;

        if (!client_get_real(s->manager, "OverheadTrendPerHour", &per_hour)) {
                text_add_string(t, "Trend: not known yet.\n");
                return;
        }
        if (per_hour < GROWTH_MIN && per_hour > -GROWTH_MIN) {
                text_add_string(t, "Trend: steady.\n");
                return;
        }
        text_add_string(t, per_hour > 0 ? "Trend: grows by " : "Trend: shrinks by ");
        text_add_size_words(t, f, (uint64_t)clamp_i64(per_hour > 0 ? per_hour : -per_hour));
        text_add_string(t, " an hour");
        if (per_hour > 0 && client_get_u64(s->manager, "HostLimitReachedUSec", &usec))
                text_add(t, ", the limit of the host is reached %s%s", usec == 0 ? "already" : "in ",
                         usec == 0 ? "" : journal_format_span(span, sizeof(span), usec / 1000000 * 1000000));
        text_add_string(t, ".\n");
}

static void add_ids(Text *t, const Status *s) {
        uint64_t ids = 0, in_use, stranded;

        (void)client_get_u64(s->manager, "ShrinkerNrMax", &ids);
        text_add_string(t, "Shrinker ids: room for ");
        text_add_count(t, ids);
        if (client_get_u64(s->manager, "ShrinkerIDsInUse", &in_use) && client_get_u64(s->manager, "ShrinkerIDsStranded", &stranded)) {
                text_add_string(t, ", ");
                text_add_count(t, in_use);
                text_add_string(t, " in use, ");
                text_add_count(t, stranded);
                text_add_string(t, " stranded");
        }
        text_add_string(t, ".\n");
}

static void add_watcher(Text *t, const Format *f, const Status *s) {
        const char *degraded = client_get_string(s->manager, "Degraded");
        uint64_t begun = 0, took = 0, interval = 0, nodes = 0;
        char span[64];

        (void)client_get_u64(s->manager, "CensusBoottimeUSec", &begun);
        (void)client_get_u64(s->manager, "CensusDurationUSec", &took);
        (void)client_get_u64(s->manager, "CensusIntervalUSec", &interval);
        (void)client_get_u64(s->manager, "PossibleNodes", &nodes);
        text_add_string(t, "Census: ");
        add_span_since(t, s, begun);
        text_add(t, " ago, took %s", journal_format_span(span, sizeof(span), took));
        text_add(t, ", every %s%s.\n", journal_format_span(span, sizeof(span), interval),
                 json_is_false(json_object_get(s->manager, "CensusComplete")) ? "; it is not complete" : "");
        if (*degraded) {
                text_add_string(t, "Degraded: ");
                text_add_name(t, f, degraded, strlen(degraded));
                text_add_string(t, ".\n");
        }
        text_add_string(t, "shrinkwatchd ");
        text_add_string(t, client_get_string(s->manager, "Version"));
        text_add_string(t, " on Linux ");
        text_add_string(t, client_get_string(s->manager, "KernelRelease"));
        text_add(t, ": layout %s, allocation %s, ", client_get_string(s->manager, "Layout"), client_get_string(s->manager, "Allocation"));
        text_add_count_of(t, nodes, "possible node.\n", "possible nodes.\n");
}

/* ------------------------------------------------------------------------------------------------------------ findings */

static bool counts_bytes(const char *kind) {
        return strcmp(kind, "writeback") == 0 || strcmp(kind, "swap") == 0 || strcmp(kind, "subtree") == 0 || strcmp(kind, "host") == 0;
}

static void add_value(Text *t, const Format *f, const json_t *finding, const char *key) {
        const char *kind = client_get_string(finding, "Kind");
        uint64_t value;

        if (strcmp(kind, "degraded") == 0 || !client_get_u64(finding, key, &value))
                text_add_string(t, "-");
        else if (counts_bytes(kind))
                text_add_size(t, f, value);
        else
                text_add(t, "%llu", (unsigned long long)value);
}

static int cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const Status *s = userdata;
        const json_t *finding = json_array_get(s->findings, row);
        const char *path = client_get_string(finding, "PathText"), *text = client_get_string(finding, "Text");
        uint64_t since;

        switch (column) {
        case 0:
                text_add_string(ret, client_get_string(finding, "Kind"));
                break;
        case 1:
                if (client_get_u64(finding, "SinceBoottimeUSec", &since))
                        add_span_since(ret, s, since / 1000000 * 1000000);
                break;
        case 2:
                add_value(ret, format, finding, "Value");
                break;
        case 3:
                add_value(ret, format, finding, "Limit");
                break;
        default:
                text_add_name(ret, format, *path ? path : *text ? text : "this host", *path ? strlen(path) : *text ? strlen(text) : strlen("this host"));
                break;
        }
        return 0;
}

static int print_findings(Status *s, const Format *format) {
        static const TableColumn columns_[] = {
                { "FINDING", false, 0, false }, { "FOR", true, 0, false },        { "VALUE", true, 0, false },
                { "LIMIT", true, 0, false },    { "WHAT", false, TABLE_WEIGHT_PATH, false },
        };
        const Table table = { .columns = columns_, .n_columns = ELEMENTSOF(columns_), .n_rows = json_array_size(s->findings), .cell = cell, .userdata = s };

        return table_print(&table, format);
}

static int print_text(Status *s, const Options *options) {
        size_t n = json_array_size(s->findings);
        uint64_t hidden = 0;
        Format format;
        Text t = {};
        int r = 0;

        format_detect(&format, option_given(options, OPTION_BYTES));
        add_memory(&t, &format, s);
        add_pins(&t, &format, s);
        add_trend(&t, &format, s);
        add_ids(&t, s);
        add_watcher(&t, &format, s);
        text_add_string(&t, n == 0 ? "Findings: none.\n" : "\n");
        if (t.failed)
                r = -ENOMEM;
        else
                text_print_wrapped(text_get(&t), format.width);
        text_clear(&t);
        if (r >= 0 && n > 0)
                r = print_findings(s, &format);
        (void)client_get_u64(s->manager, "FindingsWithoutObject", &hidden);
        if (r >= 0 && hidden > 0) {
                text_add_string(&t, "And ");
                text_add_count(&t, hidden);
                text_add_string(&t, " more.\n");
                text_print_wrapped(text_get(&t), format.width);
        }
        text_done(&t);
        return r;
}

/* -------------------------------------------------------------------------------------------------------------- source */

static int compare_ids(const void *a, const void *b) {
        uint64_t x = 0, y = 0;

        (void)client_get_u64(*(json_t *const *)a, "ID", &x);
        (void)client_get_u64(*(json_t *const *)b, "ID", &y);
        return x < y ? -1 : x > y;
}

/* The findings among the objects, in the order in which they were raised. */
static json_t *findings_of(json_t *objects) {
        json_t **list = calloc(json_object_size(objects) + 1, sizeof(json_t *)), *findings = json_array(), *interfaces;
        const char *path;
        size_t n = 0;

        if (!list || !findings) {
                free(list);
                json_decref(findings);
                return NULL;
        }
        json_object_foreach (objects, path, interfaces) {
                json_t *properties = json_object_get(interfaces, CLIENT_FINDING);

                if (properties)
                        list[n++] = properties;
        }
        if (n > 1)
                qsort(list, n, sizeof(*list), compare_ids);
        for (size_t i = 0; i < n; i++)
                (void)json_array_append(findings, list[i]);
        free(list);
        return findings;
}

static ExitCode ask(sd_bus *bus, Status *s) {
        json_t *objects = NULL;
        struct timespec ts = {};
        ExitCode code = client_get_all(bus, CLIENT_PATH, CLIENT_MANAGER, &s->manager);

        if (code == CTL_EXIT_OK)
                code = client_get_objects(bus, &objects);
        if (code != CTL_EXIT_OK)
                return code;
        (void)clock_gettime(CLOCK_BOOTTIME, &ts);
        s->now_usec = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
        s->findings = findings_of(objects);
        json_decref(objects);
        return s->findings ? CTL_EXIT_OK : exit_out_of_memory();
}

static int print_json(const Status *s) {
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_object_set(o, "manager", s->manager);
        r |= json_object_set(o, "findings", s->findings);
        if (r == 0)
                return json_write_value(stdout, o);
        json_decref(o);
        return -ENOMEM;
}

static ExitCode status_direct(const Options *options) {
        Reading *reading = NULL;
        Probe *probe = NULL;
        ExitCode code = source_open(&probe);

        if (code == CTL_EXIT_OK)
                code = source_read(probe, READING_RINGS, &reading);
        if (code == CTL_EXIT_OK) {
                Format format;
                Text t = {};
                int r = 0;

                format_detect(&format, option_given(options, OPTION_BYTES));
                if (option_given(options, OPTION_JSON)) {
                        const JsonSelection none = { .memcgs = (const uint32_t[]){ 0 }, .n_memcgs = 0 };

                        r = json_write_reading(stdout, probe_facts(probe), reading, &none);
                } else {
                        footer_add_totals(&t, &format, reading);
                        footer_add_ids(&t, reading);
                        text_add_string(&t, "Findings, ages and the trend are the daemon's: it was not asked (--direct).\n");
                        if (t.failed)
                                r = -ENOMEM;
                        else
                                text_print_wrapped(text_get(&t), format.width);
                }
                text_done(&t);
                code = exit_from_output(r);
                if (code == CTL_EXIT_OK)
                        code = source_verdict(probe, reading);
        }
        reading_free(reading);
        probe_free(probe);
        return code;
}

ExitCode verb_status(const Options *options) {
        sd_bus *bus = NULL;
        Status s = {};
        ExitCode code;

        if (option_given(options, OPTION_DIRECT))
                return status_direct(options);
        code = client_open(&bus);
        if (code == CTL_EXIT_OK)
                code = ask(bus, &s);
        if (code == CTL_EXIT_OK)
                code = exit_from_output(option_given(options, OPTION_JSON) ? print_json(&s) : print_text(&s, options));
        json_decref(s.findings);
        json_decref(s.manager);
        sd_bus_flush_close_unref(bus);
        return code;
}
