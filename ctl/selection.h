/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which memcgs of a census are shown, and in which order. */
#pragma once

#include "column.h"

typedef struct Selection {
        uint32_t *memcgs; /* indices in the census */
        size_t n_memcgs;
        size_t matched; /* before the limit */
} Selection;

/*
 * state: CENSUS_LIVE or CENSUS_DYING, a negative number for every memcg. sort: NULL for tree order; numbers go from high to low, texts
 * from A to Z, what is not known comes last, equals stay in tree order. limit: 0 for none. row: as a row of the table, its memcg is set
 * here. 0 or -ENOMEM.
 */
int selection_make(Selection *ret, const Row *row, int state, const Column *sort, size_t limit);
void selection_done(Selection *s);
