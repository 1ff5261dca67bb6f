/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "daemon/util.h"
#include "slabs.h"

static uint64_t read_number(int dir, const char *file) {
        int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
        char text[32] = "";
        ssize_t n;

        if (fd < 0)
                return 0;
        n = read(fd, text, sizeof(text) - 1);
        safe_close(fd);
        return n > 0 ? strtoull(text, NULL, 10) : 0;
}

void slabs_flush(uint64_t size) {
        DIR *d = opendir("/sys/kernel/slab");
        struct dirent *de;

        while (d && (de = readdir(d))) {
                int dir, fd;

                /* Links are other names of merged caches. */
                if (de->d_type != DT_DIR || de->d_name[0] == '.')
                        continue;
                dir = openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (dir < 0)
                        continue;
                if (read_number(dir, "slab_size") == size) {
                        fd = openat(dir, "shrink", O_WRONLY | O_CLOEXEC);
                        if (fd >= 0 && write(fd, "1", 1) < 0)
                                (void)0; /* less exact, no more */
                        safe_close(fd);
                }
                safe_close(dir);
        }
        if (d)
                (void)closedir(d);
}

static int scan(int (*fn)(const char *name, uint64_t active, uint64_t size, void *userdata), void *userdata) {
        FILE *f = fopen("/proc/slabinfo", "re");
        char line[512], name[128];
        unsigned long long active, total, size;

        if (!f)
                return -errno;
        while (fgets(line, sizeof(line), f))
                if (line[0] != '#' && sscanf(line, "%127s %llu %llu %llu", name, &active, &total, &size) == 4)
                        (void)fn(name, active, size, userdata);
        (void)fclose(f);
        return 0;
}

struct sum {
        uint64_t size, active;
};

static int add(const char *name, uint64_t active, uint64_t size, void *userdata) {
        struct sum *s = userdata;

        (void)name;
        if (size == s->size)
                s->active += active;
        return 0;
}

int slabs_objects(uint64_t size, uint64_t *ret) {
        struct sum s = { .size = size };
        int r = scan(add, &s);

        *ret = s.active;
        return r;
}

struct wanted {
        const char *name;
        uint64_t size;
};

static int match(const char *name, uint64_t active, uint64_t size, void *userdata) {
        struct wanted *w = userdata;

        (void)active;
        if (strcmp(name, w->name) == 0)
                w->size = size;
        return 0;
}

uint64_t slabs_size_of(const char *cache) {
        struct wanted w = { .name = cache };

        (void)scan(match, &w);
        return w.size;
}
