/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a path costs the host: the live memcg there and all below it, and all dying ones that had this path, or one below it, in life. The
 * same of a systemd unit and of a machine, wherever in the tree they are and were. Pure: a reading and ages in, sums out.
 */
#pragma once

#include "ages.h"
#include "pins.h"
#include "reading.h"

typedef struct SubtreeSum {
        uint32_t live;   /* index of the live memcg that it is about, the first one of a unit or a machine; CENSUS_NONE: there is none */
        uint64_t tops;   /* memcgs that have this path, or are this unit or machine, with others below them; 0: nothing is known of it */
        uint64_t memcgs, live_memcgs, dying; /* the rest: creating */
        uint64_t units, units_dying;         /* 0 on flat kernels */
        uint64_t overhead_bytes, overhead_dying_bytes; /* alloc bytes */
        /* The dying one that died first, of those whose time is known; serial 0: none. */
        uint64_t oldest_serial, oldest_boot_usec;
        bool oldest_exact;
        /* Dying memcgs that such a pin holds, and their overhead. One with pins of two causes is in both. */
        PinSums causes;
        bool writeback_known; /* else nothing can be said of writeback, nor of what is unexplained */
} SubtreeSum;

/* path: raw bytes from the root of the hierarchy; slashes in front may be missing, doubled ones and those at the end are ignored. ages: may be NULL. 0, -ENOMEM. */
int subtree_sum_path(const Reading *reading, const Ages *ages, const char *path, size_t len, SubtreeSum *ret);
/* name: as systemctl(1) prints it, "nginx.service". 0, -ENOMEM. */
int subtree_sum_unit(const Reading *reading, const Ages *ages, const char *name, SubtreeSum *ret);
/* name: as machinectl(1) and virsh(1) print it. 0, -ENOMEM. */
int subtree_sum_machine(const Reading *reading, const Ages *ages, const char *name, SubtreeSum *ret);
/* Indices of all memcgs with this path, in tree order; newly allocated. 0, -ENOMEM. */
int subtree_find(const Census *c, const char *path, size_t len, uint32_t **ret, size_t *ret_n);
