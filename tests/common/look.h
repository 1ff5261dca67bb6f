/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Censuses for tests. What fails ends the running test. */
#pragma once

#include "daemon/census.h"
#include "daemon/probe.h"
#include "daemon/reading.h"

DEFINE_CLEANUP(Reading, reading_free)

/* Loaded once per process. */
Probe *look_probe(void);
/* A census. flags: READING_*. */
Reading *look(unsigned flags);
/* A census that settled, within so many seconds; NULL when the machine does not come to rest. */
Reading *look_settled(unsigned flags, unsigned sec);
/* Index of the memcg with that cgroup id, in that state (-1: any); CENSUS_NONE if there is none. */
uint32_t look_find(const Census *c, uint64_t cgroup_id, int state);
/* Index of our own cgroup: its subtree is [i, i + subtree_memcgs). */
uint32_t look_own(const Census *c);
/* Dying memcgs in our own subtree. */
uint32_t look_own_dying(const Census *c);

/* For censuses that a test makes itself: probe_alloc_bytes() of our probe. */
uint64_t look_alloc(uint64_t struct_bytes, bool vmalloc, void *userdata);

/* Asks fn again and again, for at most so many seconds, until it is true. */
bool wait_until(unsigned sec, bool (*fn)(void *userdata), void *userdata);
/* Waits until nothing in our subtree is dying any more. */
bool wait_none_dying(unsigned sec);

/* sizeof(struct shrinker_info) with an array for so many ids, by what the kernel's sources say. */
uint64_t look_array_struct_bytes(const ProbeFacts *f, uint32_t ids);
/* ids / ids_per_unit, rounded up; 0 on flat kernels. */
uint32_t look_slots(const ProbeFacts *f, uint32_t ids);

/*
 * Holds a reference to a cgroup's memcg by a TCP socket that is made inside. Returns the socket, which this process holds, or a negative
 * errno; -EOPNOTSUPP where this hierarchy cannot account sockets.
 */
int hold_by_socket(int cgroup);
/* Writes so many pages to a new file from inside. Returns 0 or a negative errno. */
int hold_by_pages(int cgroup, const char *file, unsigned pages);
