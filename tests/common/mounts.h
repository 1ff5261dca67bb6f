/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tmpfs mounts in the mount namespace of the test: each is a superblock with one memcg-aware shrinker, which raises shrinker_nr_max
 * until the next boot once the free ids are used up. So there is a limit on how many are there at a time.
 */
#pragma once

#define MOUNTS_MAX 256

/* Mounts so many more, 0.. below own_scratch(). Returns 0 or a negative errno. */
int mounts_make(unsigned n);
/* Unmounts the last so many. */
int mounts_drop(unsigned n);
/* A directory of mount i. */
void mounts_path(unsigned i, const char *file, char *buf, unsigned size);
