/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A reading: one census of this kernel with everything that belongs to it. The way from the probe to the tree stands here once, for
 * the command line and for the daemon.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "census.h"
#include "pins.h"
#include "probe.h"

/* Shrinker ids in use by the superblocks of one file system type; "other" for shrinkers that are no superblock's. Their sum is ids_in_use. */
typedef struct ReadingFstype {
        char name[SW_FSTYPE_MAX + 1];
        uint64_t ids;
} ReadingFstype;

typedef struct Reading {
        Census *census;
        Pins *pins; /* NULL when not asked for */

        uint64_t time_usec; /* CLOCK_REALTIME at the start */
        uint64_t duration_usec;
        ProbeStats walk;
        bool complete; /* every memcg that existed throughout is in, once */
        bool settled;  /* nothing changed while the census was taken; see ARCHITECTURE.md */
        uint64_t added, gone; /* memcgs that came and went between the walk and the look after it */

        bool ids_in_use_known;
        uint64_t ids_in_use; /* shrinkers with an id above 0, plus id 0; 0 where arrays have room for none */
        ReadingFstype *fstypes; /* most ids first */
        size_t n_fstypes;
} Reading;

enum {
        READING_BITS = 1U << 0,  /* read the maps of the units */
        READING_RINGS = 1U << 1, /* shrinkers and writeback: ids in use, pins */
};

/* 0, or a negative errno with *ret_error filled. A census that did not settle is a success. */
int reading_new(Reading **ret, Probe *probe, unsigned flags, ProbeError *ret_error);
Reading *reading_free(Reading *r);
