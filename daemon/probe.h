/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What this kernel is, and the readings of it: the only user of libbpf.
 *
 * A Probe loads every BPF object once (CAP_BPF and CAP_PERFMON are needed for that and for nothing later), and then runs passes. A
 * pass runs one program again and again, each run a slice bounded by work, and hands the records of each slice to a callback.
 * Records are described in bpf/record.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/record.h"

typedef struct Probe Probe;

typedef enum ProbeLayout {
        PROBE_LAYOUT_UNKNOWN,
        PROBE_LAYOUT_FLAT,     /* up to 6.6: one allocation per memcg and node */
        PROBE_LAYOUT_UNITS_64, /* from 6.7: 520 bytes for 64 ids */
        PROBE_LAYOUT_UNITS_63, /* patched: 512 bytes for 63 ids */
} ProbeLayout;

const char *probe_layout_to_string(ProbeLayout layout);

/* Facts that do not change while the kernel runs. */
typedef struct ProbeFacts {
        char release[65]; /* uname -r */
        char boot_id[37]; /* as /proc/sys/kernel/random/boot_id gives it; "" when it could not be read */
        ProbeLayout layout;
        bool v2;                    /* the memory controller sits on the v2 hierarchy */
        uint32_t ids_per_unit;      /* 64 or 63; 0 on flat kernels */
        uint32_t unit_struct_bytes; /* sizeof(struct shrinker_info_unit); 0 on flat kernels */
        uint64_t possible_nodes;    /* bit n: NUMA node n is possible */
        uint32_t n_possible_nodes;
        uint32_t page_bytes;
} ProbeFacts;

/* One thing that a kernel may or may not give: the rows of "shrinkwatchctl support". */
typedef struct ProbeFeature {
        const char *name; /* "walk", "alloc-size", "shrinkers", "writeback", "lists", ... */
        bool available;
        char reason[512]; /* why not, or what it rests on */
} ProbeFeature;

typedef struct ProbeError {
        int error;      /* negative errno */
        char text[512]; /* one or two sentences for a person: what is wrong and what to do */
} ProbeError;

/* How a pass went. */
typedef struct ProbeStats {
        uint64_t slices;
        uint64_t records;
        uint64_t restarts;           /* counted by the caller: passes begun again after -EAGAIN */
        uint64_t duration_usec;      /* wall time of the pass */
        uint64_t longest_slice_usec; /* time that a slice kept its CPU, by the kernel's clock */
        uint64_t slice_nsec_sum;
        uint32_t *slice_nsec; /* per slice when asked for, at most slice_nsec_max of them; owned by the caller */
        size_t slice_nsec_max;
        bool shrinkers_known; /* the pass over the rings: every shrinker was seen once */
        bool writeback_known; /* and every backing device */
} ProbeStats;

/* A light second look at the css tree: the same order, no arrays, no names. */
typedef struct ProbeSummary {
        uint64_t live, dying, creating;
        uint64_t highest_serial;
        uint64_t newer;  /* memcgs with a serial above the one given */
        uint64_t digest; /* order-independent, over (serial, state) */
        uint32_t ids;    /* the root's map_nr_max, 0 when unknown */
} ProbeSummary;

enum {
        PROBE_WALK_BITS = 1U << 0, /* read the maps of the units too: touches every unit */
};

/* Called for each record, aligned to eight. A negative return ends the pass with that error. */
typedef int (*probe_record_t)(const struct sw_head *record, void *userdata);

/*
 * Opens and loads every object this kernel can take. Returns 0, or a negative errno with *ret_error filled:
 * -EPERM a capability is missing (named) or BPF is refused, -ENOENT no BTF, -EOPNOTSUPP no memory controller or an unknown layout.
 * An object that is not vital and does not load is a feature that is not available, not an error.
 */
int probe_new(Probe **ret, ProbeError *ret_error);
Probe *probe_free(Probe *p);

const ProbeFacts *probe_facts(const Probe *p);
const ProbeFeature *probe_features(const Probe *p, size_t *ret_n);
bool probe_has(const Probe *p, const char *feature);

/*
 * Every pass below: 0, or a negative errno with *ret_error filled. -EAGAIN: the pass lost its place, because what it stood on and all
 * it remembered was gone; begin again with nothing of what came before. Numbers are added to *stats, which begins as zeros.
 */
/* The walk: SW_TYPE_MEMCG and SW_TYPE_NODE records. flags: PROBE_WALK_*. */
int probe_walk(Probe *p, unsigned flags, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error);
/* The light look that tells whether a walk settled. above: counts ProbeSummary.newer. */
int probe_summary(Probe *p, uint64_t above, ProbeSummary *ret, ProbeStats *stats, ProbeError *ret_error);
/* Shrinkers with an id (SW_TYPE_SHRINKER; id 0 only of superblocks) and cgroup writeback structures (SW_TYPE_WB); stats->shrinkers_known, writeback_known. */
int probe_rings(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error);
/* The lists of all memcg-aware list_lrus: SW_TYPE_LISTS. */
int probe_lists(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error);

/*
 * What the allocator takes for an object of this many bytes: the size of the slab cache as the kernel named it for an address of the
 * last walk where it can, else the size-class rule (8 … 8192 with 96 and 192; above, whole pages: a power of two of them, or the exact
 * number in vmalloc space).
 */
uint64_t probe_alloc_bytes(const Probe *p, uint64_t struct_bytes, bool vmalloc);
/* Whether the kernel named the cache of a unit; *ret_name: its name, e.g. "kmalloc-1k", owned by the probe. */
bool probe_unit_cache(const Probe *p, const char **ret_name);

/*
 * For tests: slices of so much work each (prices stand beside the programs), in place of a bound that follows the clock. 0: back to that.
 * Below PROBE_BUDGET_LEAST a slice may end before it has found its way on, and the pass goes nowhere; above, each slice gets further.
 */
#define PROBE_BUDGET_LEAST 2560
void probe_set_budget(Probe *p, int64_t budget);
/* For tests: called between two slices, once the records of the first were handed on. NULL: nothing is. */
void probe_set_between(Probe *p, void (*fn)(void *userdata), void *userdata);
