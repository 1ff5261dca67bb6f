/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The estimate memcg by memcg: in JSON each of them, for people by class. */
#pragma once

#include <jansson.h>

#include "daemon/estimate.h"
#include "text.h"

typedef struct Breakdown {
        const Census *census;
        EstimateMemcg *memcgs; /* by index */
} Breakdown;

/* Prints a table: the classes that have members. Returns as table_print(). */
int breakdown_print(const Breakdown *b, const Format *format);
/* One memcg; userdata: a Breakdown. NULL: memory is out. For json_write_list(). */
json_t *breakdown_memcg(size_t i, void *userdata);
