/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mounts.h"
#include "supervise.h"

static unsigned n_mounts;

void mounts_path(unsigned i, const char *file, char *buf, unsigned size) {
        (void)snprintf(buf, size, "%s/%u%s%s", own_scratch(), i, file ? "/" : "", file ? file : "");
}

int mounts_make(unsigned n) {
        /* The directories are in a tmpfs as well: what a killed run leaves on the host is one empty directory. */
        if (n_mounts == 0) {
                if (mount("shrinkwatch-test", own_scratch(), "tmpfs", 0, "size=1m,mode=700") < 0)
                        return -errno;
        }
        for (unsigned i = 0; i < n; i++) {
                char path[256];

                if (n_mounts + 2 > MOUNTS_MAX)
                        return -E2BIG;
                mounts_path(n_mounts, NULL, path, sizeof(path));
                if (mkdir(path, 0700) < 0 || mount("shrinkwatch-test", path, "tmpfs", 0, "size=16m,mode=700") < 0)
                        return -errno;
                n_mounts++;
        }
        return 0;
}

int mounts_drop(unsigned n) {
        for (; n > 0 && n_mounts > 0; n--) {
                char path[256];

                mounts_path(n_mounts - 1, NULL, path, sizeof(path));
                if (umount2(path, 0) < 0)
                        return -errno;
                (void)rmdir(path);
                n_mounts--;
        }
        if (n_mounts == 0 && umount2(own_scratch(), 0) < 0)
                return -errno;
        return 0;
}
