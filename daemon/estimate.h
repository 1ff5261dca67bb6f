/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The estimate: what units of 63 ids, and units on demand, would take. Pure.
 *
 * On demand, a memcg gets a unit when it, or a descendant of it, gets a list on a list_lru whose shrinker id falls into that unit, on
 * every possible node; the root has all of its units from the start. Units stay until the memcg is freed. So:
 *
 * - a live memcg has those of the lists that there are now. A list goes with its superblock, the unit it brought does not: a kernel that
 *   allocates on demand may have more, where file systems were unmounted.
 * - a dying one keeps what it had, though its lists went to its parent. What is left to tell are the bits in its maps, which nobody
 *   clears any more: it has at least the units in which a bit is set, on all nodes. (Units as this kernel has them: that two of 64 ids
 *   are one of 63, because both bits are near the same border, is possible.) Where this kernel allocates on demand already, a dying
 *   memcg's units are those counted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "census.h"

/* One way to keep the same ids. */
typedef struct EstimateVariant {
        uint32_t ids_per_unit;
        uint64_t unit_struct_bytes, unit_alloc_bytes;
        uint64_t units;
        uint64_t unit_bytes;  /* alloc bytes */
        uint64_t array_bytes; /* alloc bytes */
} EstimateVariant;

typedef struct Estimate {
        EstimateVariant now;       /* as counted, or as the formula gives it for a model; flat kernels: array_bytes alone */
        EstimateVariant units_63;  /* units of 63 ids, all of them */
        EstimateVariant on_demand; /* units of 63 ids where there is a list */
        bool on_demand_known;
        uint64_t units_dying;      /* of the units of on_demand: those of dying memcgs; 0 when not known, as in on_demand */
        bool units_dying_known;    /* on_demand_known, and bits_known or this kernel allocates on demand */
        bool units_dying_at_least; /* a lower bound, and so is on_demand: not counted, but told from the bits that are set */
        uint64_t bits;            /* (memcg, node, id) triples with something to scan */
        uint64_t units_with_bits; /* units, as they are now, with any of them: about what on demand cannot go below */
        bool bits_known;
        uint64_t lists; /* (memcg, id) pairs with a list, of live memcgs below the root */
} Estimate;

/* Of one memcg. */
typedef struct EstimateMemcg {
        uint64_t units_63;
        uint64_t on_demand; /* 0 when not known */
        bool on_demand_known;
} EstimateMemcg;

typedef struct EstimateModel {
        uint64_t memcgs, nodes, ids;
} EstimateModel;

typedef struct EstimateLists EstimateLists;

/*
 * Collects SW_TYPE_LISTS records beside a sealed census, which it borrows. A list belongs to the live memcg with that kmemcg_id: a
 * dying one has handed its lists to its parent, and may still show its parent's id. Ids of no live memcg (it came after the census),
 * shrinker ids that the census had no room for, and -1 are ignored.
 */
int estimate_lists_new(EstimateLists **ret, const Census *census);
EstimateLists *estimate_lists_free(EstimateLists *l);
DEFINE_CLEANUP(EstimateLists, estimate_lists_free)
/* 0, also for other types of records; -EBADMSG (size), -ENOMEM. */
int estimate_lists_add(EstimateLists *l, const struct sw_head *record);

/*
 * Whether kernel memory is not accounted here (cgroup.memory=nokmem): then no live memcg below the root has an index in the list_lrus'
 * arrays, nor will one have lists. False where no live memcg below the root told whether it has.
 */
bool estimate_unaccounted(const Census *census);
/*
 * The estimate for this host, with the census' own alloc function. lists: of this census, or NULL: on demand is then unknown. Sorts the
 * lists in place, more may be added later. 0, -EINVAL (census not sealed, lists of another one), -ENOMEM.
 */
int estimate_host(const Census *census, EstimateLists *lists, Estimate *ret);
/*
 * The same memcg by memcg: *ret is an array of census->n_memcgs, by index, the caller's to free(). Its sums are the units of
 * estimate_host(). Same returns.
 */
int estimate_memcgs(const Census *census, EstimateLists *lists, EstimateMemcg **ret);
/*
 * A host that is not here: units of 64 ids as "now", every memcg with every unit on every node. On demand is not known, it depends on
 * what the memcgs do. -ERANGE when a number does not fit.
 */
int estimate_model(const EstimateModel *model, census_alloc_t alloc, void *userdata, Estimate *ret);
/*
 * "memcgs=45000,nodes=4,ids=52480" → *ret: each of the three once, in any order, decimal, above 0. 0, or -EINVAL with the offending word
 * in *ret_bad (part of text; the whole of it when a key is missing). *ret_bad is left alone on success.
 */
int estimate_model_parse(const char *text, EstimateModel *ret, const char **ret_bad, size_t *ret_bad_len);
