/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the pure rooms share: random numbers with a seed, and records as the kernel would send them. */
#pragma once

#include "census.h"

/* splitmix64. The same seed gives the same numbers everywhere. */
typedef struct Random {
        uint64_t state;
} Random;

/* The seed of SHRINKWATCH_TEST_SEED if it is set, else this one; prints it. */
Random random_start(uint64_t seed);
uint64_t random_u64(Random *r);
/* 0 … n - 1 */
uint64_t random_below(Random *r, uint64_t n);
/* True once in n times. */
bool random_once_in(Random *r, uint64_t n);

/* Records, one behind the other. Running out of memory ends the test. */
typedef struct Records {
        uint8_t *bytes;
        size_t len, allocated;
} Records;

void records_done(Records *r);
/* Appends a zeroed record. Returns it; the pointer is good until the next one. */
void *records_add(Records *r, uint16_t type, size_t size);

enum { STATE_LIVE = SW_CSS_ONLINE | SW_CSS_VISIBLE, STATE_DYING = SW_CSS_DYING, STATE_CREATING = 0 };

/* A memcg with everything valid; counters by serial so that no two are the same. nodes: announced, to be added by the caller. */
struct sw_memcg *records_add_memcg(Records *r, uint64_t serial, uint64_t parent, uint32_t css, const char *name, size_t len,
                                   uint16_t nodes);
struct sw_node *records_add_node(Records *r, uint64_t serial, uint32_t node, uint32_t ids, uint32_t slots, uint32_t units);
/* The two above: one memcg with this many nodes, all alike, the name NUL-terminated. */
void records_add_simple(Records *r, uint64_t serial, uint64_t parent, uint32_t css, const char *name, uint16_t nodes, uint32_t slots);
struct sw_wb *records_add_wb(Records *r, uint64_t serial, const char *device, uint64_t inodes, uint64_t pages);
struct sw_lists *records_add_lists(Records *r, int32_t shrinker_id, uint32_t base, uint64_t mask);

typedef int (*records_fn)(const struct sw_head *record, void *userdata);
/*
 * Hands over each record in memory of its own that ends with it, so that a sanitizer sees a byte read too many. Stops at the first
 * negative answer and returns it.
 */
int records_feed(const Records *r, records_fn fn, void *userdata);
int feed_census(const struct sw_head *record, void *census);

/* An allocator that is none: what it returns tells what it was asked. +7 with vmalloc, else +3. */
uint64_t alloc_plus(uint64_t struct_bytes, bool vmalloc, void *userdata);
/* For figures: the size classes with pages of 4 KiB. */
uint64_t alloc_size_class(uint64_t struct_bytes, bool vmalloc, void *userdata);

/* Units of 64 ids on this many nodes, with alloc_plus. */
CensusOptions options_units(uint32_t nodes);
/* Builds and seals; any error ends the test. */
Census *census_of(const Records *r, const CensusOptions *options);
