/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One census, and all that follows from it: ages, history, findings, what is told of them, metrics. */
#include <inttypes.h>
#include <stdio.h>

#include "escape.h"
#include "group.h"
#include "identity.h"
#include "manager-internal.h"
#include "metrics.h"

/* Growth that reaches the limit of the host later than this is no news. */
#define PROJECTION_MAX_USEC (30 * 24 * 3600 * 1000000ULL)
/* Censuses in a row that failed before the first is told: one that lost its way in a storm of removals is no news. */
#define FAILED_TELL 3U

static void on_event(const struct sw_event *event, void *userdata) {
        Manager *m = userdata;
        const char *name = event->head.valid & SW_EVENT_NAME ? (const char *)(event + 1) : NULL;

        (void)rates_add(m->rates, event->kind, name, event->name_len);
}

void manager_drain_events(Manager *m) {
        if (m->events)
                (void)events_drain(m->events, on_event, m);
}

static const char *describe_error(const ProbeError *error) {
        return error->text[0] ? error->text : strerror(-error->error);
}

/*
 * Dying memcgs whose removal was not written down for want of room. Most that finds none is of memcgs that are gone soon, and nobody misses
 * it: so not what was lost counts, but what lacks an age for it. Events were on: whatever came without a time since then is of these.
 */
static size_t count_ageless(const Manager *m) {
        const Age *ages;
        size_t n, found = 0;

        if (m->lost_since_usec == 0)
                return 0;
        ages = ages_all(m->ages, &n);
        for (size_t i = 0; i < n; i++)
                found += !ages[i].exact && ages[i].boot_usec >= m->lost_since_usec;
        return found;
}

/* Why the watcher sees less than it should. NULL: it does not. */
static char *describe_degraded(const Manager *m, const ProbeError *error, size_t ageless) {
        char *s = NULL;
        int r = 0;

        if (m->failed_in_row >= FAILED_TELL)
                r = asprintf(&s, "%u censuses in a row failed: %s", m->failed_in_row, describe_error(error));
        else if (m->reading && !m->reading->complete)
                r = asprintf(&s, "the census is not complete: some memory cgroups could not be read");
        else if (m->events_reason)
                r = asprintf(&s, "removals are not seen as they happen: %s", m->events_reason);
        else if (ageless > 0)
                r = asprintf(&s, "the kernel had no room to write down when they were removed: %zu age%s of dying memory cgroups are lower bounds. Raise DeathsMax=",
                             ageless, PLURAL(ageless));
        return r < 0 ? NULL : s;
}

/* ---------------------------------------------------------------------------------------------------------------- ages */

/* What the kernel saw goes to the ages. */
int manager_collect_deaths(Manager *m) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        size_t n = 0;
        int r;

        if (!m->events)
                return 0;
        r = events_deaths(m->events, &deaths, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                r = ages_put(m->ages, deaths[i].serial, deaths[i].boot_usec, deaths[i].exact);
                if (r < 0 && r != -EINVAL)
                        return r;
                m->ages_changed |= r > 0;
        }
        return 0;
}

/* And what the ages learned otherwise goes to the kernel's map, where it outlives us. */
static int update_ages(Manager *m, uint64_t boot_usec) {
        _cleanup_(freep) Age *new = NULL;
        _cleanup_(freep) uint64_t *gone = NULL;
        size_t n_new = 0, n_gone = 0;
        int r;

        /* After the walk: whoever is dying in it has been written by now. */
        r = manager_collect_deaths(m);
        if (r < 0)
                return r;
        r = ages_observe(m->ages, m->reading->census, m->reading->complete, boot_usec, &new, &n_new, &gone, &n_gone);
        if (r < 0)
                return r;
        m->ages_changed |= n_new > 0 || n_gone > 0;
        if (!m->events)
                return 0;
        for (size_t i = 0; i < n_new; i++)
                if (events_put(m->events, new[i].serial, new[i].boot_usec) == -E2BIG)
                        break; /* the state file has them */
        if (n_gone > 0)
                (void)events_forget(m->events, gone, n_gone);
        return 0;
}

/* ------------------------------------------------------------------------------------------------------------- history */

static void name_top(HistoryTop *top, const char *path, size_t len, const char *pattern, size_t pattern_len) {
        static const char dots[] = "\xe2\x80\xa6";
        _cleanup_(freep) char *whole = NULL, *name = NULL;
        size_t n;

        if (pattern_len > 0 && len == 1)
                len = 0; /* the root */
        whole = malloc(len + 1 + pattern_len + 1);
        if (!whole)
                return;
        memcpy(whole, path, len);
        n = len;
        if (pattern_len > 0) {
                whole[n++] = '/';
                memcpy(whole + n, pattern, pattern_len);
                n += pattern_len;
        }
        name = escape_text(whole, n, ESCAPE_TERMINAL, &n);
        if (!name)
                return;
        if (n >= sizeof(top->name)) {
                n = sizeof(top->name) - sizeof(dots);
                while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80)
                        n--; /* not in the middle of a character */
                memcpy(top->name, name, n);
                memcpy(top->name + n, dots, sizeof(dots));
        } else
                memcpy(top->name, name, n + 1);
}

static void fill_creators(Manager *m, HistorySample *sample) {
        _cleanup_(groups_freep) Groups *groups = NULL;
        const Census *c = m->reading->census;

        if (groups_new(&groups, m->reading) < 0)
                return;
        for (size_t i = 0; i < groups->n_groups && i < HISTORY_TOP; i++) {
                const Group *g = groups->groups + i;
                _cleanup_(freep) char *path = NULL;
                size_t len;

                path = census_path(c, g->ancestor, &len);
                if (!path)
                        return;
                name_top(sample->creators + i, path, len, g->pattern, g->pattern_len);
                sample->creators[i].memcgs = g->memcgs;
                sample->creators[i].bytes = add_sat_u64(g->unit_bytes, g->array_bytes);
        }
}

/*
 * The largest workloads: live cgroups that are a unit (no slice), a container or a machine, and those directly below the root that are no slices. What is
 * below one of them belongs to it.
 */
static bool is_workload(const Census *c, uint32_t i, const char *path, size_t len) {
        Identity id;

        identity_parse(path, len, &id);
        if (id.container.len > 0 || id.machine.len > 0)
                return true;
        if (id.unit.len > 0)
                return !(id.slice.s == id.unit.s && id.slice.len == id.unit.len);
        return c->memcgs[i].parent == 0;
}

static void fill_subtrees(Manager *m, HistorySample *sample) {
        const Census *c = m->reading->census;
        uint32_t i = 1;

        while (i < c->n_memcgs) {
                const CensusMemcg *memcg = c->memcgs + i;
                uint64_t bytes = census_subtree_overhead(memcg);
                _cleanup_(freep) char *path = NULL;
                size_t len, at;

                /* No room among the largest for it, nor for anything below it. */
                if (memcg->state != CENSUS_LIVE || bytes <= sample->subtrees[HISTORY_TOP - 1].bytes) {
                        i += memcg->subtree_memcgs;
                        continue;
                }
                path = census_path(c, i, &len);
                if (!path)
                        return;
                if (!is_workload(c, i, path, len)) {
                        i++;
                        continue;
                }
                for (at = HISTORY_TOP - 1; at > 0 && sample->subtrees[at - 1].bytes < bytes; at--)
                        sample->subtrees[at] = sample->subtrees[at - 1];
                sample->subtrees[at] = (HistoryTop){ .memcgs = memcg->subtree_memcgs, .bytes = bytes };
                name_top(sample->subtrees + at, path, len, NULL, 0);
                i += memcg->subtree_memcgs;
        }
}

static uint64_t since(uint64_t now, uint64_t before) {
        return now > before ? now - before : 0;
}

static void append_history(Manager *m, uint64_t boot_usec) {
        const CensusTotals *t = &m->reading->census->totals;
        const ProbeFacts *facts = probe_facts(m->probe);
        HistorySample sample = {
                .time_usec = m->reading->time_usec,
                .boot_usec = boot_usec,
                .boot = history_boot(facts->boot_id),
                .memcgs = t->memcgs,
                .live = t->live,
                .dying = t->dying,
                .overhead_bytes = add_sat_u64(t->unit_bytes, t->array_bytes),
                .dying_bytes = t->overhead_dying_bytes,
                .ids = t->ids,
                .memory_bytes = m->memory_bytes,
                .census_usec = m->reading->duration_usec,
                .findings = findings_count(m->findings),
        };

        if (m->reading->complete)
                sample.valid |= HISTORY_COMPLETE;
        if (m->reading->settled)
                sample.valid |= HISTORY_SETTLED;
        if (facts->layout != PROBE_LAYOUT_FLAT) {
                sample.valid |= HISTORY_UNITS;
                sample.units = t->units;
        }
        if (m->reading->ids_in_use_known) {
                sample.valid |= HISTORY_IDS_IN_USE;
                sample.ids_in_use = m->reading->ids_in_use;
        }
        if (m->snapshot.events_known) {
                sample.valid |= HISTORY_EVENTS;
                sample.created = since(m->snapshot.events.created, m->events_before.created);
                sample.removed = since(m->snapshot.events.removed, m->events_before.removed);
                sample.released = since(m->snapshot.events.released, m->events_before.released);
        }
        fill_creators(m, &sample);
        fill_subtrees(m, &sample);
        if (m->history)
                (void)history_append(m->history, &sample);
}

/* ------------------------------------------------------------------------------------------------------------ findings */

static void tell_findings(Manager *m) {
        const StormEntry *entries;
        size_t n;

        if (storm_update(m->storm, m->findings) < 0)
                return;
        entries = storm_entries(m->storm, &n);
        for (size_t i = 0; i < n; i++)
                (void)journal_tell(m->journal, &m->snapshot, entries + i);
}

/* fresh: there is a new census. Else only the watcher itself is judged: an old census proves nothing about now. */
static int update_findings(Manager *m, uint64_t boot_usec, bool fresh) {
        const Conf *conf = &m->conf->conf;
        HistoryTrend *growth = &m->snapshot.dying_trend;
        const FindingInput input = {
                .census = m->reading->census,
                .pins = fresh ? m->reading->pins : NULL,
                .ages = m->ages,
                .complete = fresh && m->reading->complete,
                .boot_usec = boot_usec,
                .ids_in_use_known = fresh && m->reading->ids_in_use_known,
                .ids_in_use = m->reading->ids_in_use,
                .growth_known = fresh && growth->known,
                .growth_per_hour = clamp_i64(growth->per_hour),
                .marks = m->marks,
                .n_marks = m->n_marks,
                .degraded = m->degraded,
        };
        int r = findings_update(m->findings, &conf->limits, &input);

        if (r < 0)
                return r;
        m->findings_unwritten |= r > 0;
        tell_findings(m);
        return 0;
}

/* ------------------------------------------------------------------------------------------------------------- outlets */

static void write_metrics(Manager *m) {
        _cleanup_(freep) char *in_runtime_dir = NULL;
        const char *path = m->conf->conf.textfile;
        int r;

        if (!path) {
                if (!m->options.runtime_dir || asprintf(&in_runtime_dir, "%s/shrinkwatch.prom", m->options.runtime_dir) < 0)
                        return;
                path = in_runtime_dir;
        } else if (strcmp(path, "/dev/null") == 0)
                return;
        r = metrics_write(path, &m->snapshot);
        if (r < 0 && !m->metrics_failed)
                (void)journal_log(m->journal, JOURNAL_STATE, NULL, "Cannot write the metrics to %s: %s. See TextFile= in shrinkwatchd.conf(5)", path, strerror(-r));
        m->metrics_failed = r < 0;
}

/* "; grows by 1.2G an hour: the limit of the host in 3d 4h". Empty: it does not, or nobody knows, or not within the month. */
static char *format_growth(const Manager *m, char *buf, size_t size) {
        const FindingLimit *limit = &m->conf->conf.limits.limit[FINDING_HOST];
        const HistoryTrend *trend = &m->snapshot.overhead_trend;
        char bytes[32], span[64];
        uint64_t usec;

        buf[0] = '\0';
        if (limit->enabled && history_project(trend, limit->on, &usec) && usec > 0 && usec <= PROJECTION_MAX_USEC)
                (void)snprintf(buf, size, "; grows by %s an hour: the limit of the host in %s",
                               journal_format_bytes(bytes, sizeof(bytes), (uint64_t)trend->per_hour), journal_format_span(span, sizeof(span), usec));
        return buf;
}

void manager_format_status(const Manager *m, char *buf, size_t size) {
        char bytes[32], dying[32], growth[128];
        const CensusTotals *t;

        if (!m->reading) {
                (void)snprintf(buf, size, "No census yet");
                return;
        }
        t = &m->reading->census->totals;
        (void)snprintf(buf, size, "%s of shrinker memory, %s of it by %" PRIu64 " dying of %" PRIu64 " memory cgroup%s; %zu finding%s%s%s%s",
                       journal_format_bytes(bytes, sizeof(bytes), add_sat_u64(t->unit_bytes, t->array_bytes)),
                       journal_format_bytes(dying, sizeof(dying), t->overhead_dying_bytes), t->dying, t->memcgs, PLURAL(t->memcgs),
                       findings_count(m->findings), PLURAL(findings_count(m->findings)), format_growth(m, growth, sizeof(growth)),
                       m->degraded ? "; degraded: " : "", m->degraded ? m->degraded : "");
}

static void count_events(Manager *m) {
        EventsCounts now = {};

        m->events_before = m->snapshot.events;
        m->snapshot.events_known = m->events && events_counts(m->events, &now) >= 0;
        if (m->snapshot.events_known)
                m->snapshot.events = now;
}

static void set_degraded(Manager *m, uint64_t boot_usec, const ProbeError *error) {
        size_t ageless;

        if (m->lost_since_usec == 0 && m->snapshot.events.lost_deaths > m->events_before.lost_deaths)
                m->lost_since_usec = boot_usec;
        ageless = count_ageless(m);
        if (ageless == 0)
                m->lost_since_usec = 0;
        free(m->degraded);
        m->degraded = describe_degraded(m, error, ageless);
        m->snapshot.degraded = m->degraded;
}

/* Nothing new is known; what was known stays, and its age shows. */
static int census_failed(Manager *m, uint64_t boot_usec, const ProbeError *error) {
        m->snapshot.censuses_failed++;
        m->failed_in_row++;
        count_events(m);
        set_degraded(m, boot_usec, error);
        if (m->failed_in_row == 1 && !m->reading)
                (void)journal_log(m->journal, JOURNAL_CENSUS_FAILED, NULL, "The first census failed: %s", describe_error(error));
        else if (m->failed_in_row == FAILED_TELL)
                (void)journal_log(m->journal, JOURNAL_CENSUS_FAILED, NULL, "The census failed %u times in a row: %s. Trying again with each interval", FAILED_TELL,
                                  describe_error(error));
        if (m->reading)
                (void)update_findings(m, boot_usec, false);
        return error->error;
}

int manager_take_census(Manager *m) {
        uint64_t boot_usec = manager_now(CLOCK_BOOTTIME), window = m->conf->conf.trend_usec;
        uint64_t boot = history_boot(probe_facts(m->probe)->boot_id);
        ProbeError error = {};
        Reading *reading = NULL;
        int r;

        manager_drain_events(m);
        r = reading_new(&reading, m->probe, READING_RINGS, &error);
        if (r < 0) {
                error.error = r;
                r = census_failed(m, boot_usec, &error);
                goto outlets;
        }
        reading_free(m->reading);
        m->reading = reading;
        m->failed_in_row = 0;
        m->snapshot.reading = reading;
        m->snapshot.boot_usec = boot_usec;
        m->snapshot.time_usec = reading->time_usec;
        m->snapshot.censuses++;
        m->snapshot.censuses_incomplete += !reading->complete;

        count_events(m);
        r = update_ages(m, boot_usec);
        set_degraded(m, boot_usec, &error);
        manager_read_marks(m);
        append_history(m, boot_usec);
        if (m->history) {
                history_trend(m->history, HISTORY_FIELD_OVERHEAD, boot, boot_usec, window, &m->snapshot.overhead_trend);
                history_trend(m->history, HISTORY_FIELD_DYING, boot, boot_usec, window, &m->snapshot.dying_trend);
        }
        if (r >= 0)
                r = update_findings(m, boot_usec, true);
        rates_tick(m->rates);

outlets:
        m->snapshot.cpu_usec = manager_now(CLOCK_PROCESS_CPUTIME_ID);
        write_metrics(m);
        manager_save_findings(m);
        manager_save_ages(m, false);
        manager_save_counts(m);
        return r;
}
