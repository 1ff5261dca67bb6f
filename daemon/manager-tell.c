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

void manager_tell_start(Manager *m, const char *status) {
        const char *events = m->events ? events_origin_to_string(events_origin(m->events)) : m->events_reason ? "unavailable" : "off";
        _cleanup_(freep) char *missing = missing_features(m), *origin = NULL;
        const ProbeFacts *facts = probe_facts(m->probe);
        const char *fields[2] = {};

        if (asprintf(&origin, "SHRINKWATCH_EVENTS=%s", events) < 0)
                origin = NULL;
        fields[0] = origin;
        (void)journal_log(m->journal, JOURNAL_STARTED, fields, "shrinkwatchd " PACKAGE_VERSION " on %s (%s, %" PRIu32 " possible nodes), events %s%s%s%s%s. %s", facts->release,
                          probe_layout_to_string(facts->layout), facts->n_possible_nodes, events, m->events_reason ? ": " : "",
                          m->events_reason ? m->events_reason : "", missing ? "; not available: " : "", missing ? missing : "", status);
}

void manager_tell_rates(Manager *m, size_t most) {
        _cleanup_(freep) const Rate **list = NULL;
        const Rate *others = rates_others(m->rates);
        size_t n;

        if (rates_list(m->rates, &list, &n) < 0)
                return;
        (void)journal_log(m->journal, JOURNAL_RATES, NULL, "Memory cgroups since the last census, made/removed/released, by creator: %zu patterns; other: %" PRIu64 "/%" PRIu64 "/%" PRIu64, n,
                          others->now[SW_EVENT_CREATED], others->now[SW_EVENT_REMOVED], others->now[SW_EVENT_RELEASED]);
        for (size_t i = 0; i < n && i < most; i++) {
                const Rate *r = list[i];
                _cleanup_(freep) char *pattern = escape_text(r->pattern, r->pattern_len, ESCAPE_TERMINAL, NULL);

                if (!pattern)
                        return;
                (void)journal_log(m->journal, JOURNAL_RATES, NULL, "%s: %" PRIu64 "/%" PRIu64 "/%" PRIu64 " since the last census, %" PRIu64 "/%" PRIu64 "/%" PRIu64 " since the start", pattern,
                                  r->now[SW_EVENT_CREATED], r->now[SW_EVENT_REMOVED], r->now[SW_EVENT_RELEASED], r->total[SW_EVENT_CREATED],
                                  r->total[SW_EVENT_REMOVED], r->total[SW_EVENT_RELEASED]);
        }
}
