/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rates: who makes and removes memory cgroups, also those that live too short for any census. Pure: names of events in, counts by creator
 * pattern (identity_pattern()) out. Bounded: what finds no room among the patterns is counted together.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/record.h"
#include "util.h"

/* Patterns kept. When there are more, those that were quiet longest make room. */
#define RATES_PATTERNS_MAX 512

typedef struct Rate {
        char *pattern; /* raw bytes, NUL-terminated */
        size_t pattern_len;
        /* Since the start, while this pattern was kept; and since the last rates_tick(). By enum sw_event_kind. */
        uint64_t total[3], now[3];
        uint64_t quiet_ticks; /* rates_tick()s since its last event */
} Rate;

typedef struct Rates Rates;

int rates_new(Rates **ret); /* 0, -ENOMEM */
Rates *rates_free(Rates *r);
DEFINE_CLEANUP(Rates, rates_free)

/* Takes one event; name: raw bytes, NULL where it could not be read. 0, -EINVAL (no such kind), -ENOMEM: it is counted with the others. */
int rates_add(Rates *r, uint32_t kind, const char *name, size_t len);
/* Ends an interval: begins the counts of the next. */
void rates_tick(Rates *r);
/* The patterns, most events since the last tick first. Newly allocated array of borrowed pointers, good until the next rates_add(). -ENOMEM. */
int rates_list(const Rates *r, const Rate ***ret, size_t *ret_n);
/* What could not be told by pattern: events without a name, and those of patterns that had to make room. */
const Rate *rates_others(const Rates *r);
