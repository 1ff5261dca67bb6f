/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which files there are, in systemd's order, and their bytes. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "conf-internal.h"

#define NAME "shrinkwatchd.conf"

/* Of files of the same name, the one in the first of these counts. */
static const char *const directories[] = {
        "/etc/shrinkwatch",
        "/run/shrinkwatch",
        "/usr/local/lib/shrinkwatch",
        "/usr/lib/shrinkwatch",
};

typedef struct List {
        char **files;
        size_t n, allocated;
} List;

char **conf_files_free(char **files, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(files[i]);
        free(files);
        return NULL;
}

static const char *base_name(const char *path) {
        return strrchr(path, '/') + 1;
}

/* Takes the path. */
static int add(List *l, char *path) {
        if (!path || grow_array(&l->files, &l->allocated, l->n + 1, sizeof(*l->files)) < 0) {
                free(path);
                return -ENOMEM;
        }
        l->files[l->n++] = path;
        return 0;
}

static char *path_format(const char *root, const char *directory, const char *name) {
        char *path = NULL;

        return asprintf(&path, "%s%s/%s", root, directory, name) < 0 ? NULL : path;
}

static bool is_drop_in(const char *name) {
        size_t len = strlen(name);

        return name[0] != '.' && len > strlen(".conf") && strcmp(name + len - strlen(".conf"), ".conf") == 0;
}

/* from: where the drop-ins begin in the list. */
static bool has_name(const List *l, size_t from, const char *name) {
        for (size_t i = from; i < l->n; i++)
                if (strcmp(base_name(l->files[i]), name) == 0)
                        return true;
        return false;
}

/* 0; -ENOMEM; or another error of reading the directory, after what it gave until then. */
static int add_drop_ins(List *l, size_t from, const char *path) {
        DIR *d = opendir(path);
        struct dirent *entry;
        int r = 0;

        if (!d)
                return errno == ENOENT ? 0 : -errno;
        while (r >= 0) {
                errno = 0;
                entry = readdir(d);
                if (!entry) {
                        r = -errno;
                        break;
                }
                if (is_drop_in(entry->d_name) && !has_name(l, from, entry->d_name))
                        r = add(l, path_format("", path, entry->d_name));
        }
        (void)closedir(d);
        return r;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

int conf_files_find(const char *root, conf_files_error_t on_error, void *userdata, char ***ret, size_t *ret_n) {
        List l = {};
        size_t from;
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(directories) && r >= 0 && l.n == 0; i++) {
                char *path = path_format(root, directories[i], NAME);
                struct stat st;

                /* One that cannot be looked at counts as well: reading it will say why. */
                if (path && lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
                        free(path);
                else
                        r = add(&l, path);
        }
        from = l.n;
        for (size_t i = 0; i < ELEMENTSOF(directories) && r >= 0; i++) {
                _cleanup_(freep) char *path = path_format(root, directories[i], NAME ".d");

                r = path ? add_drop_ins(&l, from, path) : -ENOMEM;
                if (r < 0 && path && r != -ENOMEM) {
                        on_error(userdata, path, r);
                        r = 0;
                }
        }
        if (r < 0) {
                (void)conf_files_free(l.files, l.n);
                return r;
        }
        if (l.n > from)
                qsort(l.files + from, l.n - from, sizeof(*l.files), compare_names);
        *ret = l.files;
        *ret_n = l.n;
        return 0;
}

/* A regular file, up to so many bytes and one more. */
static int read_regular(int fd, char **ret, size_t *ret_len) {
        _cleanup_(freep) char *text = malloc(CONF_FILE_BYTES_MAX + 2);
        size_t len = 0;
        ssize_t n;

        if (!text)
                return -ENOMEM;
        do {
                n = read(fd, text + len, CONF_FILE_BYTES_MAX + 1 - len);
                if (n < 0 && errno != EINTR)
                        return -errno;
                len += n > 0 ? (size_t)n : 0;
        } while (n != 0 && len <= CONF_FILE_BYTES_MAX);
        if (len > CONF_FILE_BYTES_MAX)
                return -EFBIG;
        if (len == 0)
                return 1;
        text[len] = '\0';
        *ret = TAKE_PTR(text);
        *ret_len = len;
        return 0;
}

int conf_files_read(const char *path, char **ret, size_t *ret_len) {
        /* Opening a FIFO, or a device, must not wait for somebody at its other end. */
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        char *text = NULL;
        struct stat st;
        size_t len = 0;
        int r;

        if (fd < 0 && errno == ENXIO)
                return -ENODEV; /* a socket */
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        if (S_ISREG(st.st_mode))
                r = read_regular(fd, &text, &len);
        else
                r = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3) ? 1 : -ENODEV;
        if (r < 0)
                return r;
        *ret = text;
        *ret_len = len;
        return r;
}

bool conf_files_dangling(const char *path) {
        struct stat st;

        return lstat(path, &st) == 0;
}
