/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "metrics.h"

#include <fcntl.h>
#include <inttypes.h>

#include "config.h"
#include "replace.h"

/*
 * Rules for what stands here: base units; a sum over the labels of one series means something, or the help says that it does not; no
 * label whose values an outsider could make more of; names never change, since alert rules and dashboards rest on them.
 */

static void family(FILE *f, const char *name, const char *type, const char *help) {
        (void)fprintf(f, "# HELP shrinkwatch_%s %s\n# TYPE shrinkwatch_%s %s\n", name, help, name, type);
}

/* The value of a label: backslash, quote and newline are escaped. Only UTF-8 comes here. */
static void label(FILE *f, const char *name, const char *value) {
        (void)fprintf(f, "%s=\"", name);
        for (; *value; value++)
                if (*value == '\n')
                        (void)fputs("\\n", f);
                else {
                        if (*value == '\\' || *value == '"')
                                (void)fputc('\\', f);
                        (void)fputc(*value, f);
                }
        (void)fputc('"', f);
}

static void sample(FILE *f, const char *name, const char *key, const char *value, uint64_t n) {
        (void)fprintf(f, "shrinkwatch_%s{", name);
        label(f, key, value);
        (void)fprintf(f, "} %" PRIu64 "\n", n);
}

static void gauge(FILE *f, const char *name, const char *help, uint64_t n) {
        family(f, name, "gauge", help);
        (void)fprintf(f, "shrinkwatch_%s %" PRIu64 "\n", name, n);
}

/* Microseconds as seconds, exactly, and with a point in every locale. */
static void seconds(FILE *f, const char *name, const char *type, const char *help, uint64_t usec) {
        family(f, name, type, help);
        (void)fprintf(f, "shrinkwatch_%s %" PRIu64 ".%06" PRIu64 "\n", name, usec / 1000000, usec % 1000000);
}

static uint64_t less(uint64_t a, uint64_t b) {
        return a > b ? a - b : 0;
}

/* ------------------------------------------------------------------------------------------------------------ the host */

static void put_facts(FILE *f, const Snapshot *s) {
        family(f, "build_info", "gauge", "The version of shrinkwatchd.");
        sample(f, "build_info", "version", PACKAGE_VERSION, 1);

        if (s->facts) {
                /* Known with the first census: whether arrays have gaps is seen in them. */
                const CensusAllocation allocation = s->reading ? s->reading->census->allocation : CENSUS_ALLOCATION_UNKNOWN;

                family(f, "kernel_info", "gauge", "How this kernel keeps the shrinker info of memory cgroups.");
                (void)fputs("shrinkwatch_kernel_info{", f);
                label(f, "layout", probe_layout_to_string(s->facts->layout));
                (void)fputc(',', f);
                label(f, "allocation", census_allocation_to_string(allocation));
                (void)fputs("} 1\n", f);
                gauge(f, "possible_nodes", "NUMA nodes that are possible: each takes the overhead of a memory cgroup once.",
                      s->facts->n_possible_nodes);
        }
        if (s->memory_bytes > 0)
                gauge(f, "memory_bytes", "Memory of this host (MemTotal), of which overhead is a share.", s->memory_bytes);
}

/* ---------------------------------------------------------------------------------------------------------- the census */

static void put_states(FILE *f, const char *name, const char *help, uint64_t all, uint64_t live, uint64_t dying) {
        family(f, name, "gauge", help);
        sample(f, name, "state", "live", live);
        sample(f, name, "state", "dying", dying);
        sample(f, name, "state", "creating", less(less(all, live), dying));
}

static void put_census(FILE *f, const Snapshot *s) {
        const CensusTotals *t = &s->reading->census->totals;

        put_states(f, "memcgs", "Memory cgroups.", t->memcgs, t->live, t->dying);
        if (!s->reading->census->options.flat)
                put_states(f, "units", "Allocated shrinker_info_units.", t->units, t->units_live, t->units_dying);
        put_states(f, "overhead_bytes", "Memory that the allocator takes for shrinker info, which no cgroup is charged for.",
                   add_sat_u64(t->unit_bytes, t->array_bytes), t->overhead_live_bytes, t->overhead_dying_bytes);
        gauge(f, "shrinker_ids", "Shrinker ids that every memory cgroup has room for (shrinker_nr_max); it never falls until the next boot.",
              t->ids);
        if (s->reading->ids_in_use_known)
                gauge(f, "shrinker_ids_in_use", "Shrinker ids in use.", s->reading->ids_in_use);
}

/* Dying memcgs by what pins them. */
static void put_pins(FILE *f, const Pins *pins) {
        PinSums sums;

        pins_sum(pins, &sums);
        for (unsigned which = 0; which < 2; which++) {
                const char *name = which == 0 ? "pinned_memcgs" : "pinned_overhead_bytes";

                family(f, name, "gauge",
                       which == 0 ? "Dying memory cgroups that this cause pins, maybe beside others: do not add causes up." :
                                    "Overhead of the dying memory cgroups that this cause pins, maybe beside others: do not add causes up.");
                for (PinCause cause = 0; cause < _PIN_CAUSE_MAX; cause++)
                        if (pins_sum_known(pins, cause))
                                sample(f, name, "cause", pin_cause_to_string(cause), which == 0 ? sums.memcgs[cause] : sums.bytes[cause]);
        }
}

static void put_oldest(FILE *f, const Snapshot *s) {
        uint64_t oldest;

        if (ages_oldest(s->ages, &oldest))
                seconds(f, "dying_oldest_age_seconds", "gauge", "How long the oldest dying memory cgroup has been dying, at least.",
                        less(s->boot_usec, oldest));
}

/* --------------------------------------------------------------------------------------------------------- the watcher */

static void put_findings(FILE *f, const Findings *findings) {
        family(f, "findings", "gauge", "Findings that stand: what is beyond a limit of shrinkwatchd.conf.");
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                sample(f, "findings", "kind", finding_kind_to_string(kind), findings_count_kind(findings, kind));
}

static void put_events(FILE *f, const EventsCounts *events) {
        family(f, "memcg_events_total", "counter", "Memory cgroups made, removed, and released: gone for good.");
        sample(f, "memcg_events_total", "event", "created", events->created);
        sample(f, "memcg_events_total", "event", "removed", events->removed);
        sample(f, "memcg_events_total", "event", "released", events->released);
        family(f, "events_lost_total", "counter", "What found no room on the side of the kernel: times of removal (deaths), names for rates (records).");
        sample(f, "events_lost_total", "what", "deaths", events->lost_deaths);
        sample(f, "events_lost_total", "what", "records", events->lost_records);
}

static void put_watcher(FILE *f, const Snapshot *s) {
        if (s->reading) {
                seconds(f, "census_timestamp_seconds", "gauge", "When the last good census began, since the epoch. Everything here is of then.",
                        s->time_usec);
                seconds(f, "census_duration_seconds", "gauge", "How long that census took.", s->reading->duration_usec);
                gauge(f, "census_complete", "Whether every memory cgroup that existed throughout is in it: 1, 0.", s->reading->complete);
        }
        if (s->interval_usec > 0)
                seconds(f, "census_interval_seconds", "gauge", "From one census to the next, as it is now.", s->interval_usec);
        family(f, "censuses_total", "counter", "Censuses since the daemon started.");
        sample(f, "censuses_total", "result", "complete", less(s->censuses, s->censuses_incomplete));
        sample(f, "censuses_total", "result", "incomplete", s->censuses_incomplete);
        sample(f, "censuses_total", "result", "failed", s->censuses_failed);
        seconds(f, "cpu_seconds_total", "counter", "CPU time that the daemon took since it started.", s->cpu_usec);
        gauge(f, "degraded", "Whether the daemon sees less than it should: 1, 0. Its journal says why.", s->degraded != NULL);
}

int metrics_format(FILE *f, const Snapshot *snapshot) {
        put_facts(f, snapshot);
        if (snapshot->reading) {
                put_census(f, snapshot);
                if (snapshot->reading->pins)
                        put_pins(f, snapshot->reading->pins);
                if (snapshot->ages)
                        put_oldest(f, snapshot);
        }
        if (snapshot->findings)
                put_findings(f, snapshot->findings);
        if (snapshot->events_known)
                put_events(f, &snapshot->events);
        put_watcher(f, snapshot);
        return fflush(f) == 0 && !ferror(f) ? 0 : -EIO;
}

/* ------------------------------------------------------------------------------------------------------------ the file */

static int write_format(FILE *f, const void *userdata) {
        return metrics_format(f, userdata);
}

int metrics_write(const char *path, const Snapshot *snapshot) {
        _cleanup_(freep) char *directory = NULL;
        _cleanup_(closep) int dirfd = -1;
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return -EINVAL;
        /* "/name" is in the root, "name" where we stand. */
        directory = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
        if (!directory)
                return -ENOMEM;
        dirfd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dirfd < 0)
                return -errno;
        return replace_file(dirfd, name, 0644, write_format, snapshot);
}
