/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The load of the scenario lockless-shrink: workers touch files, each file in a cgroup and on a mount of its own, and mounters make
 * and take away file systems meanwhile, each of which registers shrinkers.
 *
 * A touch: move into a cgroup, open and empty its file, write 16 pages. A hundred cgroups share a parent, whose limit has room for half of
 * their files; so touches push older files out to swap, and that reclaim calls the shrinkers of cgroup after cgroup. Few have anything
 * to free: a tmpfs keeps its dentries and inodes. So one process more stays in a cgroup of its own and looks up names that do not
 * exist; their dentries are kept, and there are enough of them to be scanned.
 *
 * Prints KEY VALUE lines. Counts are read before the processes are told to stop, so what a slow last one still does is not in them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_SIZE 256
#define N_PROCESSES 64
#define GROUP_SIZE 100
#define FILE_BYTES (64 * 1024) /* all that a mount of lab-load's has room for */

/* What a process has done so far. Each is written by one process; the padding keeps them off each other's cache lines. */
struct tally {
        _Alignas(128) atomic_ullong done;
        atomic_ullong total_ns, longest_ns; /* of mount(), and of umount2(): the two calls that take the lock for writing */
};

static struct {
        atomic_bool stop;
        struct tally touches[N_PROCESSES], mounts[N_PROCESSES], umounts[N_PROCESSES], lookups[N_PROCESSES];
} *shared;

static void __attribute__((noreturn)) die(const char *what, const char *path) {
        fprintf(stderr, "lockless-touch: %s %s: %s\n", what, path, strerror(errno));
        exit(1);
}

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void tally_add(struct tally *t, uint64_t took_ns) {
        atomic_fetch_add(&t->done, 1);
        atomic_fetch_add(&t->total_ns, took_ns);
        if (took_ns > atomic_load(&t->longest_ns))
                atomic_store(&t->longest_ns, took_ns);
}

static const char *numbered(char buf[static PATH_SIZE], const char *directory, unsigned n, const char *name) {
        (void)snprintf(buf, PATH_SIZE, "%s/%u%s", directory, n, name);
        return buf;
}

static void enter(const char *procs) {
        int fd = open(procs, O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, "0", 1) != 1)
                die("move to", procs);
        close(fd);
}

static void touch(const char *file) {
        static char data[FILE_BYTES];

        memset(data, 'x', sizeof(data)); /* one byte again and again: zram keeps such a page in a word */
        int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, data, sizeof(data)) != (ssize_t)sizeof(data))
                die("write", file);
        close(fd);
}

/* Touches every n_workers-th file, over and over, or once. */
static void work(unsigned self, unsigned n_workers, unsigned n_files, bool once, const char *cgroups, const char *mounts) {
        char path[PATH_SIZE];

        for (unsigned i = self; !atomic_load(&shared->stop);) {
                uint64_t begin = now_ns();

                (void)snprintf(path, sizeof(path), "%s/%u/%u/cgroup.procs", cgroups, i / GROUP_SIZE, i % GROUP_SIZE);
                enter(path);
                touch(numbered(path, mounts, i, "/touched"));
                tally_add(&shared->touches[self], now_ns() - begin);
                i += n_workers;
                if (i >= n_files) {
                        if (once)
                                break;
                        i = self;
                }
        }
        enter("/sys/fs/cgroup/cgroup.procs");
}

static void mount_and_umount(unsigned self, const char *directory) {
        char path[PATH_SIZE];

        numbered(path, directory, self, "");
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                die("mkdir", path);
        while (!atomic_load(&shared->stop)) {
                uint64_t begin = now_ns();
                if (mount("lab", path, "tmpfs", 0, "size=64k") < 0)
                        die("mount", path);
                tally_add(&shared->mounts[self], now_ns() - begin);

                begin = now_ns();
                if (umount2(path, 0) < 0)
                        die("umount", path);
                tally_add(&shared->umounts[self], now_ns() - begin);
        }
}

/* At a steady rate, or it would have all of the memory. */
static void look_up(const char *cgroups) {
        char path[PATH_SIZE];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/lookups/cgroup.procs", cgroups);
        enter(path);
        for (unsigned i = 0; !atomic_load(&shared->stop);) {
                uint64_t begin = now_ns();

                for (unsigned k = 0; k < 64; k++, i++) {
                        (void)snprintf(path, sizeof(path), "%s/absent-%u", cgroups, i);
                        if (lstat(path, &st) == 0 || errno != ENOENT)
                                die("look up", path);
                }
                tally_add(&shared->lookups[0], now_ns() - begin);
                usleep(5000);
        }
        enter("/sys/fs/cgroup/cgroup.procs");
}

static void print_tally(const char *name, struct tally tallies[static N_PROCESSES]) {
        unsigned long long done = 0, total_ns = 0, longest_ns = 0;

        for (unsigned i = 0; i < N_PROCESSES; i++) {
                done += atomic_load(&tallies[i].done);
                total_ns += atomic_load(&tallies[i].total_ns);
                if (atomic_load(&tallies[i].longest_ns) > longest_ns)
                        longest_ns = atomic_load(&tallies[i].longest_ns);
        }
        printf("%s %llu\n%s_mean_usec %llu\n%s_longest_usec %llu\n", name, done, name, done ? total_ns / done / 1000 : 0, name,
               longest_ns / 1000);
}

static unsigned number(const char *text, unsigned most) {
        char *end = NULL;
        unsigned long n = strtoul(text, &end, 10);

        if (*text == '\0' || *end != '\0' || n > most) {
                fprintf(stderr, "lockless-touch: %s is no number up to %u\n", text, most);
                exit(2);
        }
        return (unsigned)n;
}

int main(int argc, char **argv) {
        if (argc != 8) {
                fprintf(stderr, "usage: %s SECONDS WORKERS MOUNTERS FILES CGROUPS MOUNTS SPARE\n"
                                "0 seconds: each file once. CGROUPS/0/0 ... CGROUPS/0/99, CGROUPS/1/0 ..., CGROUPS/lookups, MOUNTS/0 ... must be there.\n", argv[0]);
                return 2;
        }
        unsigned seconds = number(argv[1], 3600), n_workers = number(argv[2], N_PROCESSES);
        unsigned n_mounters = number(argv[3], N_PROCESSES), n_files = number(argv[4], 1000000), n_children = 0;
        int failed = 0, status;

        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                die("map", "memory");
        uint64_t begin = now_ns();
        for (unsigned i = 0; i < n_workers + n_mounters + (seconds > 0); i++) {
                pid_t pid = fork();
                if (pid < 0)
                        die("fork", "a process");
                if (pid == 0) {
                        if (i < n_workers)
                                work(i, n_workers, n_files, seconds == 0, argv[5], argv[6]);
                        else if (i == n_workers + n_mounters)
                                look_up(argv[5]);
                        else
                                mount_and_umount(i - n_workers, argv[7]);
                        return 0;
                }
                n_children++;
        }
        if (seconds > 0)
                sleep(seconds);
        else
                for (; n_children > 0; n_children--)
                        failed |= wait(&status) < 0 || status != 0;

        uint64_t took_ns = now_ns() - begin;
        printf("usec %llu\n", (unsigned long long)took_ns / 1000);
        print_tally("touches", shared->touches);
        print_tally("mounts", shared->mounts);
        print_tally("umounts", shared->umounts);
        print_tally("lookups", shared->lookups); /* 64 each */
        atomic_store(&shared->stop, true);
        for (; n_children > 0; n_children--)
                failed |= wait(&status) < 0 || status != 0;
        return failed;
}
