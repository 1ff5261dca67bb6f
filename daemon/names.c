/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <libcgroup.h>
#include <linux/limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/vfs.h>

#include "names.h"
#include "util.h"

DEFINE_CLEANUP(Names, names_free);

/* A callback, not NULL: cgroup_init() takes NULL for "not set yet" and sets the logger that prints to stdout. */
static void on_libcgroup_log(void *userdata, int level, const char *format, va_list ap) {
        (void)userdata;
        (void)level;
        (void)format;
        (void)ap;
}

/* libcgroup's positive errors → negative errno. What is not listed means that libcgroup could not do it, and says no more: -EIO. */
static int names_errno(int r) {
        static const struct {
                int from, to;
        } table[] = {
                { ECGROUPNOTMOUNTED,       -ENOENT     },
                { ECGROUPNOTEXIST,         -ENOENT     },
                { ECGROUPSUBSYSNOTMOUNTED, -ENOENT     },
                { ECGROUPNOTALLOWED,       -EACCES     },
                { ECGMAXVALUESEXCEEDED,    -E2BIG      },
                { ECGINVAL,                -EINVAL     },
                { ECGROUPVALUENOTEXIST,    -ENOENT     },
                { ECGROUPUNSUPP,           -EOPNOTSUPP },
        };
        int error;

        if (r == 0)
                return 0;
        if (r == ECGOTHER) {
                error = cgroup_get_last_errno();
                return error > 0 ? -error : -EIO;
        }
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (table[i].from == r)
                        return table[i].to;
        return -EIO;
}

int names_new(Names **ret) {
        _cleanup_(names_freep) Names *n = NULL;
        struct statfs st;
        int r;

        n = calloc(1, sizeof(*n));
        if (!n)
                return -ENOMEM;

        /* Before anything else of libcgroup: without a logger it prints its errors to stdout. */
        cgroup_set_logger(on_libcgroup_log, CGROUP_LOG_ERROR, NULL);
        r = names_errno(cgroup_init());
        if (r < 0)
                return r;
        r = names_errno(cgroup_get_subsys_mount_point("memory", &n->mount_point));
        if (r < 0)
                return r;

        if (statfs(n->mount_point, &st) < 0)
                return -errno;
        n->v2 = st.f_type == CGROUP2_SUPER_MAGIC;

        *ret = TAKE_PTR(n);
        return 0;
}

Names *names_free(Names *n) {
        if (!n)
                return NULL;
        free(n->mount_point);
        free(n);
        return NULL;
}

/* One component at a time: a cgroup's path may be longer than PATH_MAX, a name may not be longer than NAME_MAX. */
int names_exists(const Names *n, const char *path) {
        _cleanup_(closep) int fd = -1;

        fd = open(n->mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;

        for (;;) {
                char name[NAME_MAX + 1];
                size_t len;
                int next;

                path += strspn(path, "/");
                len = strcspn(path, "/");
                if (len == 0)
                        return 1;
                if (len > NAME_MAX)
                        return 0;
                memcpy(name, path, len);
                name[len] = '\0';
                path += len;
                /* No cgroup has such a name, and ".." would lead out of the hierarchy. */
                if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                        return 0;

                next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
                safe_close(fd);
                fd = next;
        }
}
