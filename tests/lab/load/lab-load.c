/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Workloads of lab guests that a shell would be too slow for, or would disturb: thousands of mounts, cgroups, sockets.
 *
 * What runs in a cgroup is this process itself. It opens cgroup.procs before it moves, and moves back before it does anything else:
 * no exec, no page of a file system and no name of cgroup2's own is charged by accident.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 512

/* Says what went wrong with what, and ends with an error. */
static void __attribute__((noreturn)) die(const char *what, const char *path) {
        fprintf(stderr, "lab-load: %s %s: %s\n", what, path, strerror(errno));
        exit(1);
}

static unsigned number(const char *text) {
        char *end = NULL;

        errno = 0;
        unsigned long n = strtoul(text, &end, 10);
        if (errno == 0 && (*text == '\0' || *end != '\0' || n > INT32_MAX))
                errno = EINVAL;
        if (errno != 0)
                die("number", text);
        return (unsigned)n;
}

/* Replaces each occurrence of a mark in a pattern by a number. */
static const char *replace(char buf[static PATH_SIZE], const char *pattern, const char *mark, unsigned n) {
        size_t used = 0;

        for (const char *p = pattern; *p != '\0';) {
                int r;

                if (strncmp(p, mark, strlen(mark)) == 0) {
                        r = snprintf(buf + used, PATH_SIZE - used, "%u", n);
                        p += strlen(mark);
                } else
                        r = snprintf(buf + used, PATH_SIZE - used, "%c", *p++);
                if (r < 0 || (size_t)r >= PATH_SIZE - used) {
                        errno = ENAMETOOLONG;
                        die("pattern", pattern);
                }
                used += (size_t)r;
        }
        buf[used] = '\0';
        return buf;
}

static const char *fill(char buf[static PATH_SIZE], const char *pattern, unsigned n) {
        return replace(buf, pattern, "{}", n);
}

static int open_procs(const char *cgroup) {
        char path[PATH_SIZE + sizeof("/cgroup.procs")];

        (void)snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                die("open", path);
        return fd;
}

static void enter(int procs) {
        if (write(procs, "0", 1) != 1)
                die("move to", "a cgroup");
}

/* Where this process belongs: the cgroup that it started in, the root's in a guest. $LAB_HOME says another one. */
static int open_home(void) {
        const char *home = getenv("LAB_HOME");

        return open_procs(home ? home : "/sys/fs/cgroup");
}

/* Makes a file, for who waits for it, and waits for a signal. */
static void __attribute__((noreturn)) say_ready(const char *path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        if (fd < 0)
                die("make", path);
        close(fd);
        for (;;)
                pause();
}

static void do_mounts(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE];

        for (unsigned i = first; i < first + count; i++) {
                fill(path, argv[0], i);
                if (mkdir(path, 0755) < 0 && errno != EEXIST)
                        die("mkdir", path);
                if (mount("lab", path, "tmpfs", 0, "size=64k") < 0)
                        die("mount", path);
        }
}

static void do_umounts(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE];

        for (unsigned i = first; i < first + count; i++)
                if (umount2(fill(path, argv[0], i), 0) < 0)
                        die("umount", path);
}

/* A copy of an image, on a loop device, mounted as ext4. The copy goes with the device. */
static void mount_image(const char *image, const char *copy, const char *path, int control) {
        char device[64];
        struct stat st;

        int from = open(image, O_RDONLY | O_CLOEXEC);
        if (from < 0 || fstat(from, &st) < 0)
                die("open", image);
        int to = open(copy, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (to < 0 || ftruncate(to, st.st_size) < 0)
                die("make", copy);
        for (off_t at = 0; at < st.st_size;)
                if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
                        die("copy to", copy);
        close(from);

        int n = ioctl(control, LOOP_CTL_GET_FREE);
        if (n < 0)
                die("find", "a free loop device");
        (void)snprintf(device, sizeof(device), "/dev/loop%d", n);
        int loop = open(device, O_RDWR | O_CLOEXEC);
        struct loop_config config = { .fd = (uint32_t)to, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
        if (loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config) < 0)
                die("set up", device);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                die("mkdir", path);
        if (mount(device, path, "ext4", MS_NOATIME, NULL) < 0)
                die("mount", path);
        close(loop);
        close(to);
        unlink(copy);
}

static void do_images(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE], copy[PATH_SIZE];

        int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
        if (control < 0)
                die("open", "/dev/loop-control");
        for (unsigned i = first; i < first + count; i++) {
                fill(copy, "/run/lab-image-{}", i);
                mount_image(argv[1], copy, fill(path, argv[0], i), control);
        }
        close(control);
}

static void do_cgroups(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE];

        for (unsigned i = first; i < first + count; i++)
                if (mkdir(fill(path, argv[0], i), 0755) < 0)
                        die("mkdir", path);
}

static void do_rmdirs(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE];

        for (unsigned i = first; i < first + count; i++)
                if (rmdir(fill(path, argv[0], i)) < 0)
                        die("rmdir", path);
}

/* In each cgroup argv[0], looks up the names argv[1] and on: their dentries and inodes are charged if they are new. */
static void do_lookups(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE], names[64][PATH_SIZE];
        unsigned n_names = 0;
        struct stat st;
        int home = open_home();

        while (argv[1 + n_names] && n_names < 64)
                n_names++;
        for (unsigned i = first; i < first + count; i++) {
                int procs = open_procs(fill(path, argv[0], i));
                for (unsigned k = 0; k < n_names; k++)
                        fill(names[k], argv[1 + k], i);
                enter(procs);
                int failed = -1, error = 0;
                for (unsigned k = 0; k < n_names; k++)
                        if (lstat(names[k], &st) < 0 && errno != ENOENT) {
                                failed = (int)k;
                                error = errno;
                        }
                enter(home);
                close(procs);
                errno = error;
                if (failed >= 0)
                        die("look up", names[failed]);
        }
        close(home);
}

/* Looks up argv[1], whose {} counts, in one cgroup. */
static void walk(unsigned first, unsigned count, const char *cgroup, const char *pattern, int home) {
        char name[PATH_SIZE];
        struct stat st;
        int procs = open_procs(cgroup), error = 0;

        enter(procs);
        for (unsigned i = first; i < first + count && error == 0; i++)
                if (lstat(fill(name, pattern, i), &st) < 0 && errno != ENOENT)
                        error = errno;
        enter(home);
        close(procs);
        errno = error;
        if (error)
                die("look up", name);
}

static void do_walk(unsigned first, unsigned count, char **argv) {
        int home = open_home();

        walk(first, count, argv[0], argv[1], home);
        close(home);
}

/* The same in the cgroups argv[1], and every argv[2]th from there, below argv[3]; @ in the name is the cgroup's number. */
static void do_sweep(unsigned first, unsigned count, char **argv) {
        char path[PATH_SIZE], pattern[PATH_SIZE];
        int home = open_home();
        unsigned step = number(argv[2]), end = number(argv[3]);

        for (unsigned i = number(argv[1]); step > 0 && i < end; i += step)
                walk(first, count, fill(path, argv[0], i), replace(pattern, argv[4], "@", i), home);
        close(home);
}

/* In each cgroup argv[0], writes one page into the file argv[1], which must be there. */
static void do_writes(unsigned first, unsigned count, char **argv) {
        static const char page[4096] = "lab";
        char path[PATH_SIZE], name[PATH_SIZE];
        int home = open_home();

        for (unsigned i = first; i < first + count; i++) {
                int procs = open_procs(fill(path, argv[0], i));
                int file = open(fill(name, argv[1], i), O_WRONLY | O_CLOEXEC);
                if (file < 0)
                        die("open", name);
                enter(procs);
                ssize_t n = write(file, page, sizeof(page));
                int error = errno;
                enter(home);
                errno = error;
                if (n != (ssize_t)sizeof(page))
                        die("write", name);
                close(file);
                close(procs);
        }
        close(home);
}

/* Makes a socket in each cgroup argv[0] and keeps it; says so by a file argv[1], and waits for a signal. */
static void __attribute__((noreturn)) hold(unsigned first, unsigned count, char **argv, int fresh) {
        struct rlimit limit = { .rlim_cur = count + 64UL, .rlim_max = count + 64UL };
        char path[PATH_SIZE];
        int home = open_home();

        if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                die("raise the limit of", "open files (fs.nr_open)");
        for (unsigned i = first; i < first + count; i++) {
                if (mkdir(fill(path, argv[0], i), 0755) < 0 && fresh)
                        die("mkdir", path);
                int procs = open_procs(path);
                enter(procs);
                int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                int error = errno;
                enter(home);
                close(procs);
                errno = error;
                if (fd < 0)
                        die("socket in", path);
                if (fresh && rmdir(path) < 0)
                        die("rmdir", path);
        }
        say_ready(argv[1]);
}

/*
 * In the cgroup argv[0], anonymous memory of that many huge pages; half of each is given back, which puts it on the list of those to
 * split. With "whole" as argv[2] nothing is given back: memory to push out. Stays in the cgroup.
 */
static void __attribute__((noreturn)) do_huge(unsigned first, unsigned count, char **argv) {
        const size_t huge = 2UL << 20;

        (void)first;
        int procs = open_procs(argv[0]);

        enter(procs);
        close(procs);
        char *map = mmap(NULL, (count + 1) * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
                die("map", "memory");
        char *start = (char *)(((uintptr_t)map + huge - 1) / huge * huge);
        if (!argv[2] && madvise(start, count * huge, MADV_HUGEPAGE) < 0)
                die("ask for", "huge pages");
        uint64_t *words = (uint64_t *)(void *)start, seed = 1;
        for (size_t i = 0; i < count * huge / sizeof(*words); i++) { /* hard to compress: zswap counts by what it saves */
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                if (argv[2] ? i % 2 == 0 : i % 512 == 0)
                        words[i] = seed;
        }
        for (unsigned i = 0; !argv[2] && i < count; i++)
                if (madvise(start + i * huge, huge / 2, MADV_DONTNEED) < 0)
                        die("give back", "memory");
        say_ready(argv[1]);
}

/* In the cgroup argv[0], reads one page in every 256 KiB of the file argv[1]: each gets a node of the page cache's tree to itself. */
static void do_scatter(unsigned first, unsigned count, char **argv) {
        char page[4096];
        int home = open_home(), procs = open_procs(argv[0]), error = 0;
        int file = open(argv[1], O_RDONLY | O_CLOEXEC);

        if (file < 0)
                die("open", argv[1]);
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
        enter(procs);
        for (unsigned i = first; i < first + count && error == 0; i++)
                if (pread(file, page, sizeof(page), (off_t)i << 18) != sizeof(page))
                        error = errno;
        enter(home);
        errno = error;
        if (error)
                die("read", argv[1]);
}

static void __attribute__((noreturn)) do_hold(unsigned first, unsigned count, char **argv) {
        hold(first, count, argv, 0);
}

/* Makes the cgroups and removes each at once: dying memcgs, more of them than there can be live ones. */
static void __attribute__((noreturn)) do_sockets(unsigned first, unsigned count, char **argv) {
        hold(first, count, argv, 1);
}

static const struct {
        const char *name, *arguments;
        int n_min, n_max;
        void (*run)(unsigned first, unsigned count, char **argv);
} verbs[] = {
        { "mounts", "DIR{}", 1, 1, do_mounts },
        { "umounts", "DIR{}", 1, 1, do_umounts },
        { "images", "DIR{} IMAGE", 2, 2, do_images },
        { "cgroups", "CGROUP{}", 1, 1, do_cgroups },
        { "rmdirs", "CGROUP{}", 1, 1, do_rmdirs },
        { "lookups", "CGROUP{} NAME{}...", 2, 65, do_lookups },
        { "walk", "CGROUP NAME{}", 2, 2, do_walk },
        { "sweep", "CGROUP{} FROM STEP END NAME{}", 5, 5, do_sweep },
        { "writes", "CGROUP{} FILE{}", 2, 2, do_writes },
        { "huge", "CGROUP READYFILE [whole]", 2, 3, do_huge },
        { "scatter", "CGROUP FILE", 2, 2, do_scatter },
        { "hold", "CGROUP{} READYFILE", 2, 2, do_hold },
        { "sockets", "CGROUP{} READYFILE", 2, 2, do_sockets },
};

int main(int argc, char **argv) {
        for (size_t i = 0; argc > 3 && i < sizeof(verbs) / sizeof(*verbs); i++)
                if (strcmp(argv[1], verbs[i].name) == 0 && argc - 4 >= verbs[i].n_min && argc - 4 <= verbs[i].n_max) {
                        verbs[i].run(number(argv[2]), number(argv[3]), argv + 4);
                        return 0;
                }
        fprintf(stderr, "usage: %s VERB FIRST COUNT ...; {} is replaced by FIRST, FIRST + 1, ...\n", argv[0]);
        for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
                fprintf(stderr, "  %s FIRST COUNT %s\n", verbs[i].name, verbs[i].arguments);
        return 2;
}
