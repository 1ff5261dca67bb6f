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
#include "util.h"

#define CENSUS_NONE UINT32_MAX

/* Stands for a name that could not be read; SW_MEMCG_NAME is clear in valid then. */
#define CENSUS_NAME_UNKNOWN "(unknown)"

/* The numbers are what sw_digest() mixes, in the kernel too. */
typedef enum CensusState {
        CENSUS_LIVE = 0,
        CENSUS_DYING = 1,
        CENSUS_CREATING = 2,
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
        uint32_t level; /* without SW_MEMCG_CGROUP: the parent's plus one */
        uint32_t valid; /* SW_MEMCG_*; a field whose bit is clear is 0 here and means nothing */
        CensusState state;
        bool offline; /* dying, and not online any more */

        uint32_t parent;       /* index, CENSUS_NONE for the root */
        uint32_t nearest_live; /* index of the nearest ancestor that is live; itself when live; the root stands for itself */
        uint32_t n_children;   /* child csses in this census, each of which holds a reference */
        uint32_t name;         /* offset in names, NUL-terminated there; any byte but NUL and '/'; see CENSUS_NAME_UNKNOWN */
        uint16_t name_len;
        uint16_t n_nodes;
        uint32_t first_node; /* index in nodes[] */

        uint64_t slots, units, bits, units_used; /* sums over the nodes; 0 on flat kernels */
        uint64_t unit_bytes;                     /* alloc bytes */
        uint64_t array_bytes;                    /* alloc bytes */
        uint64_t subtree_units;                  /* itself and all its descendants, the dying ones included */
        uint64_t subtree_unit_bytes;
        uint64_t subtree_array_bytes;
        uint32_t subtree_memcgs; /* itself included */
        uint32_t subtree_dying;  /* itself included */
} CensusMemcg;

typedef struct CensusTotals {
        uint64_t memcgs, live, dying, creating;
        uint64_t slots, slots_live, slots_dying;
        uint64_t units, units_live, units_dying;            /* the rest: creating */
        uint64_t bits, units_used;                          /* where the maps were read (SW_NODE_BITS) */
        uint64_t unit_bytes, array_bytes;                   /* alloc bytes */
        uint64_t overhead_live_bytes, overhead_dying_bytes; /* unit + array bytes */
        uint64_t highest_serial;
        uint64_t digest;  /* as ProbeSummary.digest: over (serial, state) */
        uint32_t ids;     /* shrinker_nr_max: the highest map_nr_max of any memcg and node */
        uint32_t ids_end; /* the highest shrinker id in use, and one; 0: not known. Not of the walk: see census_set_ids_end() */
        uint64_t dropped; /* memcgs that were released while their nodes were read */
        uint64_t uneven;  /* live or dying memcgs with an array shorter than ids: an expansion failed half way, or was under way */
} CensusTotals;

typedef enum CensusAllocation {
        CENSUS_ALLOCATION_UNKNOWN,   /* nothing live or dying but the root, or nothing with slots (flat kernels: with an array) */
        CENSUS_ALLOCATION_EAGER,     /* flat kernels cannot do otherwise: counters and map of all ids are in the array */
        CENSUS_ALLOCATION_ON_DEMAND, /* some live or dying memcg has an empty slot */
} CensusAllocation;

const char *census_allocation_to_string(CensusAllocation allocation);

/*
 * Struct bytes → alloc bytes. vmalloc: the object lies in vmalloc space. Called by census_seal() and later, never while records come:
 * what the kernel told during the walk may decide.
 */
typedef uint64_t (*census_alloc_t)(uint64_t struct_bytes, bool vmalloc, void *userdata);

typedef struct CensusOptions {
        bool flat;                  /* no units: slots and units mean nothing */
        uint32_t unit_struct_bytes; /* 0 on flat kernels */
        uint32_t n_nodes;           /* possible nodes: what a memcg has to announce; 0: any number */
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

        uint32_t *by_serial;    /* indices in ascending serial; NULL until sealed */
        uint32_t tip;           /* while records come: the newest memcg; the next one hangs on it or on one of its ancestors */
        uint32_t nodes_missing; /* while records come: nodes of the newest memcg that are still to come */
} Census;

/* 0, -EINVAL (no alloc function, more nodes than SW_NODES_MAX), -ENOMEM. */
int census_new(Census **ret, const CensusOptions *options);
Census *census_free(Census *c);
DEFINE_CLEANUP(Census, census_free)

/* What the ring of shrinkers told, for the estimate of other unit sizes. At any time. */
static inline void census_set_ids_end(Census *c, uint32_t ids_end) {
        c->totals.ids_end = ids_end;
}

/*
 * Takes one record of a walk; head.size bytes must be readable. Returns 0, also for record types that are none of its business;
 * -EBADMSG for a record that breaks the contract of record.h: size, order (the parent is not on the way from the memcg before it to
 * the root, siblings do not ascend, a second root, a second record of the same serial next to the first), a serial not above its
 * parent's, nodes of another memcg, out of order or too many; -E2BIG past 2^32 of anything; -ENOMEM.
 *
 * A memcg whose nodes do not all come before the next memcg was released in between: it is dropped, and counted. It cannot have
 * children in the census: each would hold a reference to it, so it would not have been released, and nobody can make new ones below a
 * css that has left its parent's list. A record that names a dropped memcg as its parent therefore is a broken walk: -EBADMSG, rather
 * than a tree that quietly lacks a branch.
 */
int census_add(Census *c, const struct sw_head *record);
/*
 * Closes the tree and sums it up. Returns 0, -EBADMSG (the same serial twice, no root), -EINVAL when it is sealed already, -ENOMEM.
 * After a failure of census_add() or census_seal() the census is good for census_free() alone.
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
 * Index of the memcg with that raw path: the live one if there is one, else the newest dying one, else the newest in the making.
 * CENSUS_NONE if there is none. Slashes in front may be missing, doubled ones and those at the end are ignored; "/" is the root.
 */
uint32_t census_find_path(const Census *c, const char *path, size_t len);

/* unit + array bytes of one memcg, and of its subtree. */
static inline uint64_t census_overhead(const CensusMemcg *m) {
        return add_sat_u64(m->unit_bytes, m->array_bytes);
}
static inline uint64_t census_subtree_overhead(const CensusMemcg *m) {
        return add_sat_u64(m->subtree_unit_bytes, m->subtree_array_bytes);
}

/* What changed from one sealed census to a later one of the same boot. */
typedef struct CensusDelta {
        uint64_t added; /* serials in b that are not in a */
        uint64_t gone;  /* serials in a that are not in b */
        uint64_t died;  /* live in a, dying in b */
        int64_t units;  /* b - a; differences stop at the ends of the type */
        int64_t overhead_bytes;
        int64_t ids;
} CensusDelta;
void census_compare(const Census *a, const Census *b, CensusDelta *ret);

/* The digest over (serial, state) that a walk and the light look share: sw_digest(); add the values up, wrapping. */
uint64_t census_digest_one(uint64_t serial, CensusState state);
/* SW_CSS_* → state: dying once DYING is set, whatever else; else live when ONLINE; else creating. */
CensusState census_state_from_css(uint32_t css_state);
