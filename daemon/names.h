/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names: where the memory controller's hierarchy is mounted. The only user of libcgroup, whose errors become errno here. */
#pragma once

#include <stdbool.h>

typedef struct Names {
        char *mount_point; /* of the hierarchy the memory controller sits in */
        bool v2;
} Names;

/*
 * Finds the hierarchy. Returns 0, -ENOENT when no memory hierarchy is mounted, another negative errno when libcgroup cannot tell.
 * Never writes to stdout or stderr: libcgroup's logger is set first.
 */
int names_new(Names **ret);
Names *names_free(Names *n);

/* Whether the path (relative to the hierarchy) still exists as a directory. 1, 0, or a negative errno. */
int names_exists(const Names *n, const char *path);
