/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of finding share, and nobody else sees. */
#pragma once

#include "finding.h"

/* A finding with what is needed to judge it again. */
typedef struct Entry {
        Finding finding; /* first: it is what is handed out */
        uint64_t off;    /* in force at the last census that could judge it */
        uint64_t peak;   /* highest value since it was raised */
        bool own;        /* a subtree that is judged by a limit of its own */
        bool nested;     /* a subtree inside another one that was found */
} Entry;

/* A value that is above: it reached `on`, and did not fall below `off` since. */
typedef struct Watch {
        bool above;
        bool exact;
        uint64_t since_boot_usec;
        uint64_t on; /* the limit that it is known to have reached */
} Watch;

typedef struct SubtreeWatch {
        uint64_t serial;
        Watch common; /* without what is found below it, by the common limit */
        Watch own;    /* the whole, by a limit of its own */
} SubtreeWatch;

/* A value, and what it is judged by. */
typedef struct Measure {
        FindingLimit limit; /* in force */
        bool known;
        bool at_least; /* of a census that is not complete */
        bool own;
        uint64_t value, bytes, units;
} Measure;

struct Findings {
        uint64_t next_id;
        Entry **standing; /* in the order of their ids */
        Entry **by_key;   /* the same in the order of (kind, serial) */
        size_t n_standing;
        size_t count[_FINDING_KIND_MAX];
        uint64_t sum_bytes[_FINDING_KIND_MAX];

        FindingChange *changes;
        size_t n_changes;
        Entry **ended; /* that changes point to */
        size_t n_ended;

        Watch host[_FINDING_KIND_MAX];
        Measure host_measure[_FINDING_KIND_MAX]; /* of the last census */
        SubtreeWatch *watches; /* in ascending serial */
        size_t n_watches;
        bool judged[_FINDING_KIND_MAX]; /* the last census could tell the whole value */
        uint64_t limits_digest;         /* of the last census */
};

/* A live memcg that is above a limit, or was, or has a finding. */
typedef struct Subtree {
        uint32_t memcg;
        Measure measure;
        Watch watch; /* the one that decides */
        Entry *entry; /* that stands */
} Subtree;

/* What findings_update() is about to do. Nothing of the Findings changes until all memory is there. */
typedef struct Plan {
        const Findings *f;
        const FindingLimits *limits;
        const FindingInput *input;
        bool limits_same;

        Measure host[_FINDING_KIND_MAX];
        Watch host_watch[_FINDING_KIND_MAX];
        Subtree *subtrees; /* in ascending index */
        size_t n_subtrees, subtrees_allocated;
        SubtreeWatch *watches; /* in ascending serial */
        size_t n_watches, watches_allocated;

        Entry **raised;
        size_t n_raised, raised_allocated;
        Entry **standing, **by_key, **ended;
        FindingChange *changes;
        char *text; /* another one for the degraded finding that stands */
} Plan;

typedef enum Evidence {
        EVIDENCE_UNKNOWN, /* nothing new was told */
        EVIDENCE_NONE,
        EVIDENCE_FOUND,
} Evidence;

/* finding.c */
Entry *entry_free(Entry *e);
DEFINE_CLEANUP(Entry, entry_free)
Entry *entry_find(const Findings *f, FindingKind kind, uint64_t serial);
int entry_compare(const void *a, const void *b); /* of two Entry *: by key */
/* Counts anew what stands. */
void findings_sum_up(Findings *f);
/* From one census to the next. fresh: that it was not above before is known. */
Watch watch_step(const Watch *before, const Measure *m, bool fresh, uint64_t boot_usec);
/* What a finding that stands tells about that: the watch is lost over a restart. */
Watch watch_seed(const Watch *w, const Entry *e);
bool watch_is_due(const Watch *w, const Measure *m, uint64_t boot_usec);
int plan_raise(Plan *p, FindingKind kind, uint32_t memcg, const Measure *m, uint64_t since_boot_usec, bool since_exact);

/* finding-memcg.c */
/* The pins of this cause. *ret is filled where it is EVIDENCE_FOUND: pins of that cause alone, *ret_n of them in a row. */
Evidence evidence_get(const FindingInput *input, uint32_t memcg, FindingKind kind, const Pin **ret, size_t *ret_n);
/* Path, creator, numbers: 0, -ENOMEM. */
int finding_describe(Finding *f, const Census *c, uint32_t memcg);
/* What changes as long as it stands: references, evidence, since. */
void finding_follow(Finding *f, const FindingInput *input, uint32_t memcg);
void measure_dying(const Plan *p, FindingKind kind, uint32_t memcg, Measure *ret);
int plan_dying(Plan *p);

/* finding-subtree.c */
int plan_subtrees(Plan *p);
/* NULL: not a live memcg that matters. */
const Subtree *plan_subtree_find(const Plan *p, uint32_t memcg);
