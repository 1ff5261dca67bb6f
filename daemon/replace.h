/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file that is always whole: the old one, or the new one. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

/* 0, or a negative errno; -EIO stands for what the stream's last call left in errno. */
typedef int (*ReplaceWrite)(FILE *f, const void *userdata);

/*
 * Writes a new file beside dirfd/name, as ".name.tmp", and puts it in place of the old one at once. mode: whatever the umask says. Only
 * one process may do so with a name. Nothing waits for a disk: a power loss may leave an empty file. 0, or a negative errno: the old file
 * is there as it was, and no other one.
 */
int replace_file(int dirfd, const char *name, mode_t mode, ReplaceWrite write, const void *userdata);
