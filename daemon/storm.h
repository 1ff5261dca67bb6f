/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Storms: ten thousand findings are one fact, not ten thousand entries. Pure: the changes of a census in, what is to be told out.
 *
 * Changes about memcgs are grouped by kind and creator. As long as few of a group stand, each is told by itself. When more come, the group is told as one:
 * when it becomes a storm, when the number that stands has doubled or halved since it was last told, and when it is over. Changes about the host are
 * always told by themselves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "finding.h"
#include "util.h"

/* Findings of a group that are told one by one, before it is a storm. */
#define STORM_SINGLE 5
/* Entries of one census, all groups together: what is beyond becomes one note with the number, behind them. */
#define STORM_ENTRIES_MAX 64

typedef enum StormKind {
        STORM_RAISED,  /* one finding; finding is set */
        STORM_CLEARED, /* one finding; finding and end are set */
        STORM_BEGINS,  /* a group; the sums are set, finding is the largest of those raised now */
        STORM_GOES_ON, /* it doubled or halved; as above, of those that stand where none was raised */
        STORM_ENDS,    /* fewer than STORM_SINGLE stand; these will be told when they are cleared */
        STORM_MORE,    /* so many entries were left out: raised and cleared tell how many findings that is */
} StormKind;

/* "raised", "cleared", "storm-begins", "storm-goes-on", "storm-ends", "more" */
const char *storm_kind_to_string(StormKind kind);

typedef struct StormEntry {
        StormKind kind;
        FindingKind finding_kind; /* _FINDING_KIND_MAX for STORM_MORE */
        const Finding *finding; /* borrowed: good as long as the changes are; NULL for STORM_ENDS and STORM_MORE */
        FindingEnd end;
        const char *creator;      /* of the group, or of the one finding; NULL for the host and STORM_MORE. Good until the next call */
        uint64_t raised, cleared; /* findings that this tells of, in this census: of one, 1 and 0, or 0 and 1 */
        uint64_t standing;        /* of the group, now; this and the rest are 0 where it is no group */
        uint64_t bytes, units;    /* of those standing */
        uint64_t oldest_boot_usec; /* since_boot_usec of the oldest standing */
} StormEntry;

typedef struct Storm Storm;

int storm_new(Storm **ret);
Storm *storm_free(Storm *s);
DEFINE_CLEANUP(Storm, storm_free)

/*
 * To be called after each findings_update(), also without changes. Returns the number of entries, storm_entries() gives them until the next call; -ENOMEM:
 * nothing was told, and it may be called again. First what is about the host, then groups, then single findings; in each the largest first.
 */
int storm_update(Storm *s, const Findings *findings);
const StormEntry *storm_entries(const Storm *s, size_t *ret_n);
/* After findings_parse(): what stands was told by the daemon before; groups begin in the state they would be in. 0, -ENOMEM. */
int storm_resume(Storm *s, const Findings *findings);
