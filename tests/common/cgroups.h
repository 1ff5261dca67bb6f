/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cgroups of our own in the hierarchy of the memory controller, v1 or v2. Everything goes by directory descriptors: paths may be
 * longer than PATH_MAX. Functions return 0 or a descriptor, or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Removes what dead runs left, makes our cgroup. On v2 memory is switched on below the root, should it not be, until the end. */
int cgroups_open(const char *name);
/* Kills what is in our cgroups and removes them. */
void cgroups_close(void);

bool cgroups_v2(void);
int cgroups_fd(void);                 /* our cgroup's directory; children of it have memory */
uint64_t cgroups_id(void);            /* its cgroup id */
const char *cgroups_mount(void);      /* mount point of the hierarchy */

/* Makes a cgroup and opens it. */
int cgroup_make(int parent, const char *name);
/* As cgroup_make() without opening it. */
int cgroup_mkdir(int parent, const char *name);
/* Children of it get the memory controller, or lose it. Nothing to do on v1. */
int cgroup_switch_memory(int cgroup, bool on);
/* The cgroup id: the kernfs node's, which is the inode number on 64 bits. 0 when it is not there. */
uint64_t cgroup_id(int parent, const char *name);
uint64_t cgroup_id_fd(int cgroup);
/* Removes it; a process that is just leaving may keep it busy for a moment. */
int cgroup_remove(int parent, const char *name);
/* Removes it and all below. */
int cgroup_remove_tree(int parent, const char *name);
/* Moves this process. */
int cgroup_enter(int cgroup);
/* A child enters the cgroup, calls fn, ends. Returns what fn returned, 0 to 127. */
int cgroup_run(int cgroup, int (*fn)(void *userdata), void *userdata);
int cgroup_write(int cgroup, const char *file, const char *text);
/* A value of a flat keyed file. -ENOENT when there is no such file or key. */
int cgroup_read_key(int cgroup, const char *file, const char *key, uint64_t *ret);

/* How many cgroups the memory controller's hierarchy has by the kernel's count, the dying included: v1's line of /proc/cgroups. */
int cgroups_kernel_count(uint64_t *ret);
/* Directories below and including one, whoever made them. */
int cgroups_count_directories(int cgroup, uint64_t *ret);
