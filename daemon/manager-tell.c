/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the journal hears of the daemon itself. */
#include <inttypes.h>
#include <stdio.h>

#include "config.h"
#include "escape.h"
#include "manager-internal.h"

/* Which parts of what we look for this kernel does not give. Newly allocated; NULL: all of it is there, or memory is out. */
static char *missing_features(const Manager *m) {
        const ProbeFeature *features;
        char *s = NULL;
        size_t n;

        features = probe_features(m->probe, &n);
        for (size_t i = 0; i < n; i++) {
                char *longer = NULL;

                if (features[i].available)
                        continue;
                if (asprintf(&longer, "%s%s%s (%s)", s ? s : "", s ? ", " : "", features[i].name, features[i].reason) < 0)
                        break;
                free(s);
                s = longer;
        }
        return s;
}

/* For people; the field SHRINKWATCH_EVENTS= has the word that programs go by. */
static const char *describe_events(const Manager *m) {
        if (!m->events)
                return m->events_reason ? "life events are not available: " : "life events are switched off";
        switch (events_origin(m->events)) {
        case EVENTS_ADOPTED:
                return "life events go on where the last run left them";
        case EVENTS_DRAINED:
                return "life events begin anew, with the ages that were in the store";
        case EVENTS_DISCARDED:
                return "life events begin anew, what is in the store cannot be read";
        default:
                return "life events begin now";
        }
}

void manager_tell_start(Manager *m) {
        const char *events = m->events ? events_origin_to_string(events_origin(m->events)) : m->events_reason ? "unavailable" : "off";
        _cleanup_(freep) char *missing = missing_features(m), *origin = NULL;
        const ProbeFacts *facts = probe_facts(m->probe);
        const char *fields[2] = {};

        if (asprintf(&origin, "SHRINKWATCH_EVENTS=%s", events) < 0)
                origin = NULL;
        fields[0] = origin;
        (void)journal_log(m->journal, JOURNAL_STARTED, fields, "shrinkwatchd " PACKAGE_VERSION " on Linux %s (%s, %" PRIu32 " possible node%s); %s%s%s%s", facts->release,
                          probe_layout_to_string(facts->layout), facts->n_possible_nodes, PLURAL(facts->n_possible_nodes), describe_events(m),
                          m->events_reason ? m->events_reason : "", missing ? "; this kernel does not give: " : "", missing ? missing : "");
}

/* "3 made, 2 removed, 1 gone" */
static char *format_counts(char *buf, size_t size, const uint64_t counts[static SW_EVENT_RELEASED + 1]) {
        (void)snprintf(buf, size, "%" PRIu64 " made, %" PRIu64 " removed, %" PRIu64 " gone", counts[SW_EVENT_CREATED], counts[SW_EVENT_REMOVED],
                       counts[SW_EVENT_RELEASED]);
        return buf;
}

static void tell_rate(Manager *m, const char *name, const Rate *rate) {
        char now[128], total[128];

        (void)journal_log(m->journal, JOURNAL_RATES, NULL, "%s: %s; since the start %s", name, format_counts(now, sizeof(now), rate->now),
                          format_counts(total, sizeof(total), rate->total));
}

void manager_tell_rates(Manager *m, size_t most) {
        _cleanup_(freep) const Rate **list = NULL;
        const Rate *others = rates_others(m->rates);
        uint64_t now = manager_now(CLOCK_BOOTTIME), n_others, lost;
        EventsCounts counts = {};
        char span[64];
        size_t n;

        if (!m->events) {
                (void)journal_log(m->journal, JOURNAL_RATES, NULL, "Who makes and removes memory cgroups is not known: %s%s", describe_events(m),
                                  m->events_reason ? m->events_reason : "");
                return;
        }
        if (rates_list(m->rates, &list, &n) < 0)
                return;
        n_others = others->total[SW_EVENT_CREATED] + others->total[SW_EVENT_REMOVED] + others->total[SW_EVENT_RELEASED];
        lost = events_counts(m->events, &counts) < 0 ? 0 : counts.lost_records - m->records_lost_before;
        if (n == 0 && n_others == 0 && lost == 0) {
                (void)journal_log(m->journal, JOURNAL_RATES, NULL, "No memory cgroup was made or removed since the start");
                return;
        }
        (void)journal_log(m->journal, JOURNAL_RATES, NULL, "Memory cgroups since the last census, %s ago, by the pattern of their names (%zu pattern%s%s):",
                          journal_format_span(span, sizeof(span), (now - m->census_boot_usec) / 1000 * 1000), n, PLURAL(n),
                          n > most ? ", the busiest" : "");
        for (size_t i = 0; i < n && i < most; i++) {
                _cleanup_(freep) char *pattern = escape_text(list[i]->pattern, list[i]->pattern_len, ESCAPE_TERMINAL, NULL);

                if (!pattern)
                        return;
                tell_rate(m, pattern, list[i]);
        }
        if (n_others > 0)
                tell_rate(m, "All others, and those whose name is not known", others);
        if (lost > 0)
                (void)journal_log(m->journal, JOURNAL_RATES, NULL,
                                  "Not among these: %" PRIu64 " events whose names found no room. The metrics count them: shrinkwatch_memcg_events_total", lost);
}
