/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the journal asks of rooms that are not under test. */
#include "advice.h"
#include "finding.h"
#include "storm.h"

const char *storm_kind_to_string(StormKind kind) {
        static const char *const names[] = { "raised", "cleared", "storm-begins", "storm-goes-on", "storm-ends", "more" };

        return names[kind];
}

const char *finding_kind_to_string(FindingKind kind) {
        static const char *const names[] = { "writeback", "swap",         "subtree",   "host",    "dying",
                                             "dying-growth", "stranded-ids", "memcg-ids", "degraded" };

        return names[kind];
}

bool finding_kind_is_memcg(FindingKind kind) {
        return kind <= FINDING_SUBTREE;
}

const char *finding_end_to_string(FindingEnd end) {
        static const char *const names[] = { "below", "gone", "limit", "removed" };

        return names[end];
}

/* One with all parts, one with the least, and kinds without any. */
const Advice *advice_get(FindingKind kind) {
        static const Advice whole = { .means = "m.", .safe = "Wait.", .costs = "Sync.", .never = "Drop caches.", .setting = "WritebackOn=" };
        static const Advice least = { .means = "m.", .safe = "Nothing.", .costs = "", .never = "", .setting = "SwapOn=" };

        return kind == FINDING_WRITEBACK ? &whole : kind == FINDING_SWAP ? &least : NULL;
}
