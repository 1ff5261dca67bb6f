/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "replace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

static int fill_file(int dirfd, const char *name, mode_t mode, ReplaceWrite write, const void *userdata) {
        int fd, r;
        FILE *f;

        fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        f = fchmod(fd, mode) < 0 ? NULL : fdopen(fd, "we");
        if (!f) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        errno = 0;
        r = write(f, userdata);
        if (r == -EIO && errno > 0)
                r = -errno; /* ENOSPC says more than EIO */
        errno = 0;
        if (fclose(f) != 0 && r >= 0)
                r = errno > 0 ? -errno : -EIO;
        return r < 0 ? r : 0;
}

int replace_file(int dirfd, const char *name, mode_t mode, ReplaceWrite write, const void *userdata) {
        _cleanup_(freep) char *temporary = NULL;
        int r;

        if (asprintf(&temporary, ".%s.tmp", name) < 0) {
                temporary = NULL;
                return -ENOMEM;
        }
        /* One that a crash left behind. Only we write it, so nobody is half way through. */
        if (unlinkat(dirfd, temporary, 0) < 0 && errno != ENOENT)
                return -errno;
        r = fill_file(dirfd, temporary, mode, write, userdata);
        /* Whoever has the old file open reads it to its end. O_TMPFILE would leave nothing behind, but cannot take the place of a file. */
        if (r >= 0 && renameat(dirfd, temporary, dirfd, name) < 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dirfd, temporary, 0);
        return r;
}
