/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The census: records in, a tree with rollups out. Pure: no clock, no input or output, the same records always give the same tree.
 *
 * Usage: census_new(), census_add() for each record of a walk in the order they came, census_seal() once, then read. Everything
 * below a sealed census is constant. Indices are positions in memcgs[], which is in pre-order: a parent before its children, a
 * subtree is one run of indices [i, i + subtree_memcgs).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/record.h"

#define CENSUS_NONE UINT32_MAX

typedef enum CensusState {
        CENSUS_LIVE,
        CENSUS_DYING,
        CENSUS_CREATING,
} CensusState;

const char *census_state_to_string(CensusState state); /* "live", "dying", "creating" */

/* One possible NUMA node of one memcg. */
typedef struct CensusNode {
        uint32_t node;
        uint32_t valid; /* SW_NODE_* */
        uint32_t ids;
        uint32_t slots;
        uint32_t units;
        uint32_t bits;
        uint32_t units_used;  /* units with a bit set */
        uint64_t array_bytes; /* alloc bytes */
} CensusNode;

typedef struct CensusMemcg {
        uint64_t serial;
        uint64_t parent_serial;
        uint64_t cgroup_id;
        uint64_t refs;
        uint64_t memory_pages;
        uint64_t swap_pages;
        int32_t memcg_id;
        uint32_t id_refs;
        int32_t kmemcg_id;
        uint32_t level;
        uint32_t valid; /* SW_MEMCG_* */
        CensusState state;
        bool offline;

        uint32_t parent;       /* index, CENSUS_NONE for the root */
        uint32_t nearest_live; /* index of the nearest ancestor that is live; itself when live */
        uint32_t n_children;   /* child csses in this census, each of which holds a reference */
        uint32_t name;         /* offset in names, NUL-terminated there; may hold any byte but NUL and '/' */
        uint16_t name_len;
        uint16_t n_nodes;
        uint32_t first_node; /* index in nodes[] */

        uint64_t slots, units, bits, units_used; /* sums over the nodes; 0 on flat kernels */
        uint64_t unit_bytes;          /* alloc bytes */
        uint64_t array_bytes;         /* alloc bytes */
        uint64_t subtree_units;       /* itself and all its descendants, the dying ones included */
        uint64_t subtree_unit_bytes;
        uint64_t subtree_array_bytes;
        uint32_t subtree_memcgs; /* itself included */
        uint32_t subtree_dying;  /* itself included */
} CensusMemcg;

typedef struct CensusTotals {
        uint64_t memcgs, live, dying, creating;
        uint64_t slots, slots_live, slots_dying;
        uint64_t units, units_live, units_dying; /* the rest: creating */
        uint64_t bits, units_used; /* where the maps were read (SW_NODE_BITS) */
        uint64_t unit_bytes, array_bytes;                   /* alloc bytes */
        uint64_t overhead_live_bytes, overhead_dying_bytes; /* unit + array bytes */
        uint64_t highest_serial;
        uint64_t digest;  /* as ProbeSummary.digest: over (serial, state) */
        uint32_t ids;     /* shrinker_nr_max: the highest map_nr_max of any memcg and node */
        uint64_t dropped; /* memcgs that were released while their nodes were read */
        uint64_t uneven;  /* live or dying memcgs with an array shorter than ids: an expansion failed half way, or was under way */
} CensusTotals;

typedef enum CensusAllocation {
        CENSUS_ALLOCATION_UNKNOWN, /* nothing but the root, or nothing with slots */
        CENSUS_ALLOCATION_EAGER,
        CENSUS_ALLOCATION_ON_DEMAND, /* some live or dying memcg has an empty slot */
} CensusAllocation;

const char *census_allocation_to_string(CensusAllocation allocation);

/* Struct bytes → alloc bytes. vmalloc: the object lies in vmalloc space. */
typedef uint64_t (*census_alloc_t)(uint64_t struct_bytes, bool vmalloc, void *userdata);

typedef struct CensusOptions {
        bool flat;                  /* no units: slots and units mean nothing */
        uint32_t unit_struct_bytes; /* 0 on flat kernels */
        uint32_t n_nodes;           /* possible nodes: what a memcg has to have */
        census_alloc_t alloc;
        void *alloc_userdata;
} CensusOptions;

typedef struct Census {
        CensusOptions options;
        CensusTotals totals;
        CensusAllocation allocation;
        uint64_t unit_alloc_bytes; /* 0 on flat kernels */
        bool sealed;

        CensusMemcg *memcgs;
        size_t n_memcgs, memcgs_allocated;
        CensusNode *nodes;
        size_t n_nodes, nodes_allocated;
        char *names;
        size_t names_bytes, names_allocated;

        uint32_t *by_serial; /* indices in ascending serial */
        uint32_t last;       /* while records come: the memcg whose nodes come next */
} Census;

int census_new(Census **ret, const CensusOptions *options);
Census *census_free(Census *c);

/*
 * Takes one record of a walk. Returns 0, -EBADMSG for a record that breaks the contract of record.h (size, order, a second record of
 * the same serial next to the first, nodes of another memcg), -ENOMEM.
 */
int census_add(Census *c, const struct sw_head *record);
/*
 * Drops memcgs whose nodes are not all there, links parents, sums subtrees. Returns 0, -EBADMSG (a parent that is not there, the same
 * serial twice, no root), -ENOMEM.
 */
int census_seal(Census *c);

/* Index of a serial, CENSUS_NONE if it is not there. */
uint32_t census_find(const Census *c, uint64_t serial);
const char *census_name(const Census *c, uint32_t i);
/*
 * The raw path from the root, "/" for the root itself, no trailing slash. Any length. Returns a newly allocated, NUL-terminated string
 * with its length in *ret_len, or NULL when memory is out.
 */
char *census_path(const Census *c, uint32_t i, size_t *ret_len);
/*
 * Index of the memcg with that raw path: the live one if there is one, else the newest dying one. CENSUS_NONE if there is none.
 */
uint32_t census_find_path(const Census *c, const char *path, size_t len);

/* unit + array bytes of one memcg, and of its subtree. */
static inline uint64_t census_overhead(const CensusMemcg *m) {
        return m->unit_bytes + m->array_bytes;
}
static inline uint64_t census_subtree_overhead(const CensusMemcg *m) {
        return m->subtree_unit_bytes + m->subtree_array_bytes;
}

/* What changed from one sealed census to a later one of the same boot. */
typedef struct CensusDelta {
        uint64_t added;        /* serials in b that are not in a */
        uint64_t gone;         /* serials in a that are not in b */
        uint64_t died;         /* live in a, dying in b */
        int64_t units;         /* b - a */
        int64_t overhead_bytes;
        int64_t ids;
} CensusDelta;
void census_compare(const Census *a, const Census *b, CensusDelta *ret);

/* The digest over (serial, state) that a walk and the light look share; add the values up, wrapping. */
uint64_t census_digest_one(uint64_t serial, CensusState state);
/* SW_CSS_* → state. */
CensusState census_state_from_css(uint32_t css_state);
