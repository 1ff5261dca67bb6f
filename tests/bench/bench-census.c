/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a census costs, and what it could cost at the least. Makes its own memory cgroups and tmpfs mounts, measures at several numbers
 * of them, prints a table, removes all of it. Nothing is asserted: machines are noisy. Compare columns of one run, not of two.
 *
 *   first      reading_new() once: the walk, the second look, the rings, the tree with its rollups
 *   whole      the same again and again, in memory that the first one took: the median
 *   walk       the walk alone, records handed to a callback that drops them; of that, "kernel" is the time of its slices
 *   chase      tests/bench/chase.bpf.c over the same memory in one run without an end
 *   stat       open, read, close memory.stat of every directory: what people do today, and it does not show the units
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <bpf/bpf.h>

#include "names.h"
#include "reading.h"
#include "util.h"

#include "tests/bench/chase.skel.h"

#define ROUNDS 9
#define GROUP 1000 /* memcgs a directory */
#define SLICES_MAX 100000
#define MOUNTS_WITHOUT_FLAG 256

static char base[300], mounts[64];
static size_t made, mounted;
static volatile sig_atomic_t stop;

static void on_signal(int sig) {
        (void)sig;
        stop = 1;
}

static uint64_t now_usec(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int compare_u64(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static int compare_u32(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return x < y ? -1 : x > y;
}

static double median_msec(uint64_t *v, size_t n) {
        qsort(v, n, sizeof(*v), compare_u64);
        return (double)v[n / 2] / 1000;
}

static int cgroup_name(char *buf, size_t size, size_t i) {
        return snprintf(buf, size, "%s/g%zu/c%zu", base, i / GROUP, i);
}

/* Memcgs up to n; a directory of its own for every GROUP of them. */
static int make_cgroups(size_t n, bool v2) {
        char path[400];

        for (; made < n && !stop; made++) {
                if (made % GROUP == 0) {
                        (void)snprintf(path, sizeof(path), "%s/g%zu", base, made / GROUP);
                        if (mkdir(path, 0755) < 0)
                                return -errno;
                        if (v2) {
                                int fd;

                                (void)snprintf(path, sizeof(path), "%s/g%zu/cgroup.subtree_control", base, made / GROUP);
                                fd = open(path, O_WRONLY | O_CLOEXEC);
                                if (fd < 0 || write(fd, "+memory", 7) < 0) {
                                        safe_close(fd);
                                        return -errno;
                                }
                                safe_close(fd);
                        }
                }
                (void)cgroup_name(path, sizeof(path), made);
                if (mkdir(path, 0755) < 0)
                        return -errno;
        }
        return stop ? -EINTR : 0;
}

static void remove_all(void) {
        char path[400];

        for (size_t i = 0; i < mounted; i++) {
                (void)snprintf(path, sizeof(path), "%s/%zu", mounts, i);
                (void)umount2(path, MNT_DETACH);
                (void)rmdir(path);
        }
        if (mounts[0])
                (void)rmdir(mounts);
        for (size_t i = 0; i < made; i++) {
                (void)cgroup_name(path, sizeof(path), i);
                (void)rmdir(path);
        }
        for (size_t i = 0; i < made; i += GROUP) {
                (void)snprintf(path, sizeof(path), "%s/g%zu", base, i / GROUP);
                (void)rmdir(path);
        }
        if (base[0])
                (void)rmdir(base);
}

static int make_mounts(size_t n) {
        char path[128];

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        (void)snprintf(mounts, sizeof(mounts), "/tmp/shrinkwatch-bench-XXXXXX");
        if (!mkdtemp(mounts))
                return -errno;
        for (; mounted < n && !stop; mounted++) {
                (void)snprintf(path, sizeof(path), "%s/%zu", mounts, mounted);
                if (mkdir(path, 0755) < 0 || mount("shrinkwatch-bench", path, "tmpfs", 0, "size=64k") < 0)
                        return -errno;
        }
        return stop ? -EINTR : 0;
}

static int drop_record(const struct sw_head *record, void *userdata) {
        (void)record;
        (void)userdata;
        return 0;
}

/* memory.stat of every directory below base. Returns the number read. */
static size_t read_stats(void) {
        static char buf[16384];
        char path[400];
        size_t n = 0;

        for (size_t i = 0; i < made; i++) {
                int fd;

                (void)snprintf(path, sizeof(path), "%s/g%zu/c%zu/memory.stat", base, i / GROUP, i);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd >= 0 && read(fd, buf, sizeof(buf)) > 0)
                        n++;
                safe_close(fd);
        }
        return n;
}

static double timeval_msec(struct timeval tv) {
        return (double)tv.tv_sec * 1000 + (double)tv.tv_usec / 1000;
}

typedef struct Row {
        double first, whole, walk, kernel, chase, user, sys;
        double p50, p99, max; /* usec */
        uint64_t memcgs, units, chase_memcgs, chase_units;
        uint32_t ids;
        uint64_t settled, rounds;
        long rss;
} Row;

/* In a process of its own, so that peak RSS is that of this many memcgs and of nothing else. */
static int measure(Row *row) {
        uint64_t first, whole[ROUNDS], walk[ROUNDS], kernel[ROUNDS], chase_time[ROUNDS];
        uint32_t *slices;
        struct rusage before, after;
        struct chase_bpf *chase;
        ProbeError e = {};
        Reading *r;
        size_t n_slices = 0;
        Probe *probe;

        if (probe_new(&probe, &e) < 0) {
                (void)fprintf(stderr, "bench-census: %s\n", e.text);
                return 1;
        }
        /* As whoever takes one census after the other would: what one has freed is kept for the next, not taken anew page by page. */
        (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
        (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
        slices = calloc(SLICES_MAX, sizeof(*slices));
        if (!slices)
                return 1;
        first = now_usec();
        if (reading_new(&r, probe, READING_RINGS, &e) >= 0)
                reading_free(r);
        row->first = (double)(now_usec() - first) / 1000;
        (void)getrusage(RUSAGE_SELF, &before);
        for (size_t i = 0; i < ROUNDS; i++) {
                uint64_t start = now_usec();

                if (reading_new(&r, probe, READING_RINGS, &e) < 0) {
                        (void)fprintf(stderr, "bench-census: %s\n", e.text);
                        return 1;
                }
                whole[i] = now_usec() - start;
                row->memcgs = r->census->totals.memcgs;
                row->units = r->census->totals.units;
                row->ids = r->census->totals.ids;
                row->settled += r->settled;
                row->rounds++;
                reading_free(r);
        }
        (void)getrusage(RUSAGE_SELF, &after);
        row->user = (timeval_msec(after.ru_utime) - timeval_msec(before.ru_utime)) / ROUNDS;
        row->sys = (timeval_msec(after.ru_stime) - timeval_msec(before.ru_stime)) / ROUNDS;
        row->rss = after.ru_maxrss - (long)(SLICES_MAX * sizeof(*slices) / 1024);

        chase = chase_bpf__open_and_load();
        if (!chase) {
                (void)fprintf(stderr, "bench-census: cannot load the chase\n");
                return 1;
        }
        for (size_t i = 0; i < ROUNDS; i++) {
                LIBBPF_OPTS(bpf_test_run_opts, opts);
                ProbeStats st = { .slice_nsec = slices + n_slices, .slice_nsec_max = SLICES_MAX - n_slices };

                if (probe_walk(probe, 0, drop_record, NULL, &st, &e) < 0) {
                        (void)fprintf(stderr, "bench-census: %s\n", e.text);
                        return 1;
                }
                walk[i] = st.duration_usec;
                kernel[i] = st.slice_nsec_sum / 1000;
                n_slices += st.slices < st.slice_nsec_max ? st.slices : st.slice_nsec_max;
                if (bpf_prog_test_run_opts(bpf_program__fd(chase->progs.chase), &opts) < 0)
                        return 1;
                chase_time[i] = chase->bss->slice_nsec / 1000;
                row->chase_memcgs = chase->bss->memcgs;
                row->chase_units = chase->bss->units;
        }
        qsort(slices, n_slices, sizeof(*slices), compare_u32);
        row->p50 = slices[n_slices / 2] / 1000.0;
        row->p99 = slices[n_slices * 99 / 100] / 1000.0;
        row->max = slices[n_slices - 1] / 1000.0;
        row->whole = median_msec(whole, ROUNDS);
        row->walk = median_msec(walk, ROUNDS);
        row->kernel = median_msec(kernel, ROUNDS);
        row->chase = median_msec(chase_time, ROUNDS);
        chase_bpf__destroy(chase);
        free(slices);
        probe_free(probe);
        return 0;
}

static int measure_apart(Row *row) {
        int fds[2], status;
        ssize_t n;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                Row r = {};
                int k = measure(&r);

                if (k == 0 && write(fds[1], &r, sizeof(r)) != sizeof(r))
                        k = 1;
                _exit(k);
        }
        safe_close(fds[1]);
        n = read(fds[0], row, sizeof(*row));
        safe_close(fds[0]);
        if (waitpid(pid, &status, 0) < 0)
                return -errno;
        return n == sizeof(*row) && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static void usage(FILE *f) {
        (void)fprintf(f,
                      "usage: bench-census [--memcgs N] [--mounts N] [--raise-shrinker-nr-max]\n"
                      "Measures censuses over memory cgroups and tmpfs mounts of its own, as root.\n"
                      "  --memcgs N                 the most memory cgroups (default 45000); 1000 and a third of it are measured, too\n"
                      "  --mounts N                 tmpfs mounts, each of which takes a shrinker id (default 0; above %d only with the flag)\n"
                      "  --raise-shrinker-nr-max    yes, shrinker_nr_max may rise with the mounts: it never comes down until reboot, and every\n"
                      "                             memory cgroup made from then on takes the more\n",
                      MOUNTS_WITHOUT_FLAG);
}

static int run(size_t memcgs, size_t n_mounts, const Names *names) {
        size_t steps[] = { 1000, memcgs / 3, memcgs };
        Row first = {};
        int r;

        r = make_mounts(n_mounts);
        if (r < 0) {
                (void)fprintf(stderr, "bench-census: cannot make the mounts: %s\n", strerror(-r));
                return r;
        }
        (void)printf("%8s %6s %9s | %8s %8s %8s %8s %8s %6s | %6s %6s %6s | %7s %7s %8s | %9s\n", "memcgs", "ids", "units", "first ms", "whole ms", "walk ms", "kernel", "chase ms",
                     "ratio", "p50 us", "p99 us", "max us", "user ms", "sys ms", "RSS KiB", "stat ms");
        for (size_t i = 0; i < ELEMENTSOF(steps); i++) {
                uint64_t start;
                Row row = {};
                double stat_msec;
                size_t n;

                r = make_cgroups(steps[i], names->v2);
                if (r < 0) {
                        (void)fprintf(stderr, "bench-census: cannot make memory cgroup %zu: %s\n", made, strerror(-r));
                        return r;
                }
                r = measure_apart(&row);
                if (r < 0)
                        return r;
                start = now_usec();
                n = read_stats();
                stat_msec = (double)(now_usec() - start) / 1000;
                (void)printf("%8lu %6u %9lu | %8.1f %8.1f %8.1f %8.1f %8.1f %6.2f | %6.0f %6.0f %6.0f | %7.1f %7.1f %8ld | %9.0f\n", row.memcgs, row.ids, row.units, row.first, row.whole,
                             row.walk, row.kernel, row.chase, row.whole / row.chase, row.p50, row.p99, row.max, row.user, row.sys, row.rss, stat_msec);
                if (row.settled < row.rounds)
                        (void)printf("# %lu of %lu censuses did not settle: something else made or removed memory cgroups\n", row.rounds - row.settled, row.rounds);
                if (row.chase_memcgs != row.memcgs || row.chase_units != row.units)
                        (void)printf("# the chase saw %lu memcgs and %lu units\n", row.chase_memcgs, row.chase_units);
                if (n != made)
                        (void)printf("# memory.stat of %zu directories only\n", n);
                (void)fflush(stdout);
                if (i == 0)
                        first = row;
                else
                        (void)printf("# slope since the first row: %.2f us a memcg\n", (row.whole - first.whole) * 1000 / (double)(row.memcgs - first.memcgs));
        }
        return 0;
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                { "memcgs", required_argument, NULL, 'n' },
                { "mounts", required_argument, NULL, 'm' },
                { "raise-shrinker-nr-max", no_argument, NULL, 'r' },
                { "help", no_argument, NULL, 'h' },
                {},
        };
        unsigned long memcgs = 45000, n_mounts = 0;
        bool raise = false;
        Names *names;
        int c, r;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'n':
                        memcgs = strtoul(optarg, NULL, 10);
                        break;
                case 'm':
                        n_mounts = strtoul(optarg, NULL, 10);
                        break;
                case 'r':
                        raise = true;
                        break;
                case 'h':
                        usage(stdout);
                        return 0;
                default:
                        usage(stderr);
                        return 2;
                }
        if (memcgs < 3000 || memcgs > 200000 || n_mounts > 60000) {
                (void)fprintf(stderr, "bench-census: --memcgs takes 3000 to 200000, --mounts up to 60000\n");
                return 2;
        }
        if (n_mounts > MOUNTS_WITHOUT_FLAG && !raise) {
                (void)fprintf(stderr, "bench-census: %lu mounts raise shrinker_nr_max until reboot; say --raise-shrinker-nr-max if that is meant\n", n_mounts);
                return 2;
        }
        r = names_new(&names);
        if (r < 0) {
                (void)fprintf(stderr, "bench-census: no memory hierarchy: %s\n", strerror(-r));
                return 1;
        }
        (void)signal(SIGINT, on_signal);
        (void)signal(SIGTERM, on_signal);
        (void)snprintf(base, sizeof(base), "%s/shrinkwatch-bench-%d", names->mount_point, getpid());
        if (mkdir(base, 0755) < 0) {
                (void)fprintf(stderr, "bench-census: cannot make %s: %s\n", base, strerror(errno));
                return 1;
        }
        if (names->v2) {
                char path[400];
                int fd;

                (void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", base);
                fd = open(path, O_WRONLY | O_CLOEXEC);
                if (fd < 0 || write(fd, "+memory", 7) < 0)
                        (void)fprintf(stderr, "bench-census: memory is not switched on at %s: %s\n", base, strerror(errno));
                safe_close(fd);
        }
        r = run(memcgs, n_mounts, names);
        remove_all();
        names_free(names);
        return r < 0 ? 1 : 0;
}
