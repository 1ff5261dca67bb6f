/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "footer.h"

#include <inttypes.h>

/* File systems that are named one by one. */
#define FSTYPES_MAX 4U

void footer_add_totals(Text *t, const Format *format, const Reading *reading) {
        const CensusTotals *totals = &reading->census->totals;
        uint64_t overhead = add_sat_u64(totals->unit_bytes, totals->array_bytes);

        text_add_count_of(t, totals->memcgs, "memory cgroup", "memory cgroups");
        text_add_string(t, " (");
        text_add_count(t, totals->live);
        text_add_string(t, " live, ");
        text_add_count(t, totals->dying);
        text_add_string(t, " dying");
        if (totals->creating > 0) {
                text_add_string(t, ", ");
                text_add_count(t, totals->creating);
                text_add_string(t, " being made");
        }
        text_add_string(t, "): ");
        if (reading->census->options.flat)
                text_add_string(t, "shrinker arrays take ");
        else {
                text_add_count_of(t, totals->units, "shrinker unit", "shrinker units");
                text_add_string(t, totals->units == 1 ? " and the arrays take " : " and their arrays take ");
        }
        text_add_size_words(t, format, overhead);
        if (totals->dying > 0) {
                text_add_string(t, ", ");
                text_add_percent(t, totals->overhead_dying_bytes, overhead);
                text_add_string(t, " of it held by dying ones");
        }
        text_add_string(t, ".\n");
}

void footer_add_listed(Text *t, size_t listed, size_t matched) {
        if (listed >= matched)
                return;
        text_add_string(t, "Listed are the first ");
        text_add_count(t, listed);
        text_add_string(t, " of ");
        text_add_count(t, matched);
        text_add_string(t, "; --limit 0 lists all.\n");
}

void footer_add_ids(Text *t, const Reading *reading) {
        uint64_t ids = reading->census->totals.ids, rest = 0;

        if (ids == 0 && reading->complete) {
                text_add_string(t, "Shrinker ids: none. No shrinker gets one where kernel memory is not accounted (cgroup.memory=nokmem).\n");
                return;
        }
        text_add_string(t, "Shrinker ids: room for ");
        text_add_count(t, ids);
        if (!reading->ids_in_use_known) {
                text_add_string(t, "; how many are in use is not known.\n");
                return;
        }
        text_add_string(t, ", ");
        text_add_count(t, reading->ids_in_use);
        text_add_string(t, " in use");
        for (size_t i = 0; i < reading->n_fstypes; i++) {
                const ReadingFstype *f = reading->fstypes + i;
                Format ascii = {};

                if (i >= FSTYPES_MAX) {
                        rest += f->ids;
                        continue;
                }
                text_add_string(t, i == 0 ? " (" : ", ");
                /* "other" is no file system; beside the rest of the list that would read like it. */
                if (strcmp(f->name, "other") == 0)
                        text_add_string(t, "no file system");
                else
                        text_add_name(t, &ascii, f->name, strlen(f->name));
                text_add_string(t, " ");
                text_add_count(t, f->ids);
        }
        if (rest > 0) {
                text_add_string(t, ", ");
                text_add_count(t, rest);
                text_add_string(t, " more");
        }
        text_add(t, "%s, ", reading->n_fstypes > 0 ? ")" : "");
        text_add_count(t, ids > reading->ids_in_use ? ids - reading->ids_in_use : 0);
        text_add_string(t, " stranded.\n");
}

void footer_add_layout(Text *t, const ProbeFacts *facts, const Reading *reading) {
        text_add(t, "Layout %s, allocation %s, ", probe_layout_to_string(facts->layout),
                 census_allocation_to_string(reading->census->allocation));
        text_add_count_of(t, facts->n_possible_nodes, "possible node", "possible nodes");
        text_add_string(t, ".\n");
}

void footer_add_changes(Text *t, const Format *format, const Reading *previous, const Reading *reading) {
        CensusDelta delta = {};

        census_compare(previous->census, reading->census, &delta);
        text_add_string(t, "Since the last round: ");
        text_add_count(t, delta.added);
        text_add_string(t, " came, ");
        text_add_count(t, delta.gone);
        text_add_string(t, " went, ");
        text_add_count(t, delta.died);
        text_add_string(t, " began to die; ");
        if (!reading->census->options.flat)
                text_add(t, "units %s%" PRId64 ", ", delta.units > 0 ? "+" : "", delta.units);
        text_add_string(t, "overhead ");
        text_add_size_delta(t, format, delta.overhead_bytes);
        text_add(t, ", shrinker ids %s%" PRId64 ".\n", delta.ids > 0 ? "+" : "", delta.ids);
}

void footer_add_pins(Text *t, const Reading *reading) {
        if (!reading->pins || pins_writeback_known(reading->pins) || reading->census->totals.dying == 0)
                return;
        text_add_string(t, "Writeback structures could not all be read: some of what is unexplained may be writeback.\n");
}
