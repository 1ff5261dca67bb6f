/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The estimate: what units of 63 ids, and units on demand, would take. Pure.
 *
 * On demand, a memcg has a unit exactly where it, or a descendant of it, holds a list on a list_lru whose shrinker id falls into that
 * unit, on every possible node; the root has all of its units from the start.
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
        EstimateVariant now;       /* as counted, or as the formula gives it for a model */
        EstimateVariant units_63;  /* units of 63 ids, all of them */
        EstimateVariant on_demand; /* units of 63 ids where there is a list */
        bool on_demand_known;
        uint64_t bits;             /* (memcg, node, id) triples with something to scan: what on demand could not go below */
        uint64_t units_with_bits;
        bool bits_known;
        uint64_t lists;            /* (memcg, id) pairs with a list */
} Estimate;

typedef struct EstimateModel {
        uint64_t memcgs, nodes, ids;
} EstimateModel;

typedef struct EstimateLists EstimateLists;

/* Collects SW_TYPE_LISTS records beside a sealed census, which it borrows. */
int estimate_lists_new(EstimateLists **ret, const Census *census);
EstimateLists *estimate_lists_free(EstimateLists *l);
int estimate_lists_add(EstimateLists *l, const struct sw_head *record);

/* alloc: struct bytes → alloc bytes, as in CensusOptions. lists may be NULL: on demand is then unknown. 0 or -ENOMEM. */
int estimate_host(const Census *census, EstimateLists *lists, Estimate *ret);
/* A host that is not here: units-64 as "now", by the size-class rule. -ERANGE when a number does not fit. */
int estimate_model(const EstimateModel *model, census_alloc_t alloc, void *userdata, Estimate *ret);
/* "memcgs=45000,nodes=4,ids=52480" → *ret. 0, or -EINVAL with the offending word in *ret_bad (part of text). */
int estimate_model_parse(const char *text, EstimateModel *ret, const char **ret_bad, size_t *ret_bad_len);
