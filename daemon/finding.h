/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Findings: what is beyond a limit. Pure: limits and one census after the other in, what is raised and what is cleared out.
 *
 * Each limit has two thresholds, so that a value which wavers around one does not raise and clear in turn: a finding is raised when the
 * value is at or above `on` and its age has reached the minimal one, and cleared when it falls below `off`. For a dying memcg the age is
 * that of its death; for everything else the time since the value first reached `on` without falling below `off` since. The minimal age
 * is for raising only: what stands does not go because that age is longer now.
 *
 * A finding is raised once and cleared once, whatever happens between. A census that is not complete clears nothing by what it lacks: what
 * it counts are lower bounds, which can rise above a limit and not fall below one. A cause that the evidence does not show is never
 * claimed: no writeback finding without a writeback pin, no swap finding without swap entries.
 *
 * Memory is bounded by the census: one finding of a kind for each memcg, one time for each live memcg that is above a limit. Findings of
 * memcgs that an incomplete census lacks stay until a complete one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ages.h"
#include "census.h"
#include "pins.h"
#include "util.h"

typedef enum FindingKind {
        FINDING_WRITEBACK,    /* a dying memcg pinned by writeback; value: its overhead in bytes */
        FINDING_SWAP,         /* a dying memcg pinned by swap entries; value: its overhead in bytes */
        FINDING_SUBTREE,      /* a live memcg whose subtree's overhead is large; value: the bytes that are judged, see findings_update() */
        FINDING_HOST,         /* all overhead together; value: bytes */
        FINDING_DYING,        /* dying memcgs; value: their number */
        FINDING_DYING_GROWTH, /* value: more dying memcgs an hour */
        FINDING_STRANDED,     /* shrinker ids that nobody uses; value: their number */
        FINDING_MEMCG_IDS,    /* private memcg ids in use, of 65,535; value: their number */
        FINDING_DEGRADED,     /* the watcher itself sees less than it should; value: 1, and so are its thresholds, whatever they say */
        _FINDING_KIND_MAX,
} FindingKind;

/* "writeback", "swap", "subtree", "host", "dying", "dying-growth", "stranded-ids", "memcg-ids", "degraded"; and back: -EINVAL. */
const char *finding_kind_to_string(FindingKind kind);
int finding_kind_from_string(const char *s);
/* Whether it is about one memcg, rather than about the host. */
bool finding_kind_is_memcg(FindingKind kind);

typedef struct FindingLimit {
        bool enabled;
        uint64_t on, off; /* off <= on */
        uint64_t min_age_usec;
} FindingLimit;

/*
 * A limit for subtrees whose path matches: fnmatch() with FNM_PATHNAME, so that * does not go beyond a slash, and FNM_NOESCAPE, since
 * names of systemd have backslashes; no slash in front. It adds a watch, or is stricter than the common one: the effective thresholds are
 * the lower ones of the two, and so is the age. Of several that match the strictest counts in the same way.
 */
typedef struct FindingSubtree {
        char *pattern;
        FindingLimit overhead;
} FindingSubtree;

typedef struct FindingLimits {
        FindingLimit limit[_FINDING_KIND_MAX];
        FindingSubtree *subtrees;
        size_t n_subtrees;
} FindingLimits;

/*
 * A limit that one cgroup carries itself (an extended attribute): bytes of subtree overhead. As above, it can only be stricter. Its `off`
 * is nine tenths of it, its age that of the common limit.
 */
typedef struct FindingMark {
        uint64_t serial;
        uint64_t overhead_on;
} FindingMark;

/* What one census told. Everything is borrowed for the call. */
typedef struct FindingInput {
        const Census *census; /* sealed */
        const Pins *pins;     /* may be NULL: then there is nothing new about pins, and nothing is cleared for want of one */
        const Ages *ages;
        bool complete;
        uint64_t boot_usec; /* when the census began */
        bool ids_in_use_known;
        uint64_t ids_in_use;
        bool growth_known;
        int64_t growth_per_hour; /* of dying memcgs; of complete censuses, so it counts whether this one is complete or not */
        const FindingMark *marks; /* in ascending serial */
        size_t n_marks;
        const char *degraded; /* for people: what the watcher cannot see; NULL: it sees everything */
} FindingInput;

/* A longer path is "/the/first/names/.../last"; so is the part of a creator before its last name. */
#define FINDING_PATH_MAX 4096

/*
 * As long as it stands, value, bytes, units, since, references, evidence and text follow the censuses; what a census does not tell stays
 * as it was. So one that was cleared has the value that cleared it, and what was last seen of a memcg that is gone.
 */
typedef struct Finding {
        uint64_t id; /* 1, 2, …: unique while the daemon lives, and beyond where findings_parse() brought it */
        FindingKind kind;
        uint64_t serial; /* 0 where it is about the host */
        uint64_t cgroup_id;
        char *path;      /* raw bytes, as in life, a slash in front; NULL where it is about the host */
        size_t path_len;
        /*
         * Who makes such: the path of the nearest live ancestor of a dying memcg, and the pattern (identity_pattern()) of the topmost
         * dying name below it, which is what somebody made: "system.slice/docker-*.scope". For a live one: its parent's path and its
         * own pattern. Raw bytes, NUL-terminated; NULL for the host.
         */
        char *creator;
        uint64_t value, limit; /* as the kind says; the limit that was in force when it was raised */
        uint64_t bytes, units; /* overhead of what it is about: memcg, whole subtree, all dying ones (dying, dying-growth), host */
        uint64_t raised_boot_usec;
        uint64_t since_boot_usec; /* memcg: when it died; else: since when the value is above */
        bool since_exact;         /* false: at least since then; true for a value: the census before still saw it below */
        bool refs_known;
        uint64_t refs;
        /* Evidence of writeback and swap: sums over the pins of that cause. */
        uint64_t pin_refs, pin_bytes, pin_inodes, pin_entries;
        bool pin_exact; /* none of these is a lower bound or in doubt */
        char device[64]; /* of the first writeback pin, raw */
        size_t n_devices;
        char *text; /* degraded: what is wrong; else NULL */
} Finding;

typedef enum FindingEnd {
        FINDING_END_BELOW,   /* the value fell below off, or the cause is no longer there */
        FINDING_END_GONE,    /* the memcg is gone: its last reference was dropped, its memory is free */
        FINDING_END_LIMIT,   /* another limit is in force, by which it would not stand, or none */
        FINDING_END_REMOVED, /* subtree: the cgroup was removed, but is still dying: its memory is its nearest live ancestor's now */
} FindingEnd;

const char *finding_end_to_string(FindingEnd end); /* "below", "gone", "limit", "removed" */

/* First those that were cleared, then those that were raised, each in the order in which they were raised. */
typedef struct FindingChange {
        bool raised; /* else cleared */
        FindingEnd end; /* of one that was cleared */
        const Finding *finding;
} FindingChange;

typedef struct Findings Findings;

int findings_new(Findings **ret); /* 0, -ENOMEM */
Findings *findings_free(Findings *f);
DEFINE_CLEANUP(Findings, findings_free)

/*
 * Brings the findings in line with this census. Returns the number of changes, which findings_changes() gives until the next call; or
 * -EINVAL (a census that is not sealed), -ENOMEM: then nothing has changed, and there are no changes to give.
 *
 * Of nested subtrees that are above the common limit, the innermost ones are found: an ancestor only when its overhead without that of
 * those below it (which is its value then) is above the limit as well. A subtree with a limit of its own is judged by that, whatever is
 * found below it. The root is the host's business (FINDING_HOST), never a subtree.
 * Of an unknown value (stranded ids without ids_in_use, growth, memcg ids where this kernel does not give them) nothing is raised and
 * nothing cleared. When the limits are others than in the last call, a finding stands on that has reached the new `on` before and is not
 * below the new `off`.
 */
int findings_update(Findings *f, const FindingLimits *limits, const FindingInput *input);
const FindingChange *findings_changes(const Findings *f, size_t *ret_n);
/* Those that stand, in the order in which they were raised. Pointers to findings are good until the next findings_update(). */
size_t findings_count(const Findings *f);
const Finding *findings_get(const Findings *f, size_t i);
const Finding *findings_find(const Findings *f, FindingKind kind, uint64_t serial);
/*
 * Whether a value of the host is above its limit, as of the last update, however long: it reached `on`, and did not fall below `off` since. False: it is
 * not known, or there is no limit. Not of the degraded watcher, which has no value.
 */
bool findings_above(const Findings *f, FindingKind kind, bool *ret_above, uint64_t *ret_value, uint64_t *ret_limit);
size_t findings_count_kind(const Findings *f, FindingKind kind);
/* Overhead of the memcgs that findings of this kind are about, summed up: alloc bytes. A subtree inside another one counts once. */
uint64_t findings_sum_bytes(const Findings *f, FindingKind kind);

/*
 * The findings over a restart: text, a line for each; the form is in finding-state.c. So that what was raised before is not raised again
 * by the next daemon of this boot. As ages_write() and ages_parse(), but all or nothing at -ENOMEM, and what stands already stays as it is.
 * A finding that was read stands until a census says otherwise. How long a value is above a limit that has no finding yet is not kept:
 * its age begins anew with the next daemon.
 */
int findings_write(const Findings *f, FILE *file, const char *boot_id);
int findings_parse(Findings *f, const char *text, size_t len, const char *boot_id, unsigned *ret_line);
