/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the life events cost those who make and remove cgroups: mkdir + rmdir a second, without the programs attached and with them, in
 * turns, so that what the machine does besides meets both. Nothing is asserted. The ratio is that of the medians of one run; "spread" is
 * the interquartile range of the rounds over their median: a ratio that differs from 1 by less than that says nothing.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include <bpf/bpf.h>

#include "events.h"
#include "names.h"
#include "util.h"

#define ROUNDS_MAX 999

static volatile sig_atomic_t stop;

static void on_signal(int sig) {
        (void)sig;
        stop = 1;
}

static uint64_t now_nsec(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int compare(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

/* Pairs a second; negative: an errno. */
static double measure(const char *path, unsigned pairs) {
        uint64_t start = now_nsec();

        for (unsigned i = 0; i < pairs; i++)
                if (mkdir(path, 0755) < 0 || rmdir(path) < 0)
                        return -errno;
        return pairs * 1e9 / (double)(now_nsec() - start);
}

/* What the programs take of that by the kernel's own clock, which costs time as well: so in a round of its own. */
static int measure_programs(const char *path, unsigned pairs) {
        _cleanup_(events_freep) Events *e = NULL;
        _cleanup_(closep) int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
        ProbeError error = {};
        const EventsFd *fds;
        double speed;
        size_t n;

        if (stats < 0 || events_new(&e, 0, NULL, 0, &error) < 0)
                return -EPERM;
        speed = measure(path, pairs);
        if (speed < 0)
                return (int)speed;
        (void)usleep(300000);
        fds = events_fds(e, &n);
        for (size_t i = 0; i < n; i++) {
                struct bpf_link_info link = {};
                struct bpf_prog_info info = {};
                __u32 len = sizeof(link);
                int fd;

                if (strstr(fds[i].name, "dir") == NULL && strstr(fds[i].name, "release") == NULL)
                        continue;
                if (bpf_obj_get_info_by_fd(fds[i].fd, &link, &len) < 0)
                        continue;
                fd = bpf_prog_get_fd_by_id(link.prog_id);
                len = sizeof(info);
                if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) >= 0 && info.run_cnt > 0)
                        (void)printf("%-15s %8llu ns in the program, %llu times\n", info.name, info.run_time_ns / info.run_cnt, info.run_cnt);
                safe_close(fd);
        }
        return 0;
}

static void drop(const struct sw_event *event, void *userdata) {
        (void)event;
        (void)userdata;
}

/*
 * One way, one round. The programs are loaded for both, and taken away for one: who has just used the CPU is given less of it on a busy
 * machine. What the round before left to be released is given time to go: it would be paid here.
 */
static int measure_round(const char *path, unsigned pairs, bool with, double *ret, EventsCounts *lost) {
        _cleanup_(events_freep) Events *e = NULL;
        ProbeError error = {};
        EventsCounts counts;
        double speed;

        if (events_new(&e, 0, NULL, 0, &error) < 0) {
                (void)fprintf(stderr, "bench-events: %s\n", error.text);
                return error.error;
        }
        if (!with)
                e = events_free(e);
        (void)usleep(300000);
        speed = measure(path, pairs);
        if (speed < 0) {
                (void)fprintf(stderr, "bench-events: %s: %s\n", path, strerror((int)-speed));
                return (int)speed;
        }
        *ret = speed;
        if (e && events_counts(e, &counts) >= 0) {
                lost->created += counts.created;
                lost->lost_records += counts.lost_records;
                lost->lost_deaths += counts.lost_deaths;
                (void)events_drain(e, drop, NULL);
        }
        return 0;
}

static double at(double *sorted, unsigned n, unsigned percent) {
        return sorted[n * percent / 100];
}

static int run(const char *path, unsigned rounds, unsigned pairs) {
        static const char *const names[] = { "without", "with" };
        static double speeds[2][ROUNDS_MAX];
        EventsCounts lost = {};
        double median[2];
        unsigned n = 0;
        int r;

        /* The first round of all warms up, and is not counted. */
        r = measure_round(path, pairs, false, &speeds[0][0], &lost);
        for (; r >= 0 && n < rounds && !stop; n++)
                for (unsigned k = 0; r >= 0 && k < 2; k++) {
                        unsigned with = (k + n) % 2;

                        r = measure_round(path, pairs, with, &speeds[with][n], &lost);
                }
        if (r < 0 || n == 0)
                return r < 0 ? r : -EINTR;

        (void)printf("%-8s %12s %10s %8s\n", "events", "pairs/s", "us a pair", "spread");
        for (unsigned k = 0; k < 2; k++) {
                qsort(speeds[k], n, sizeof(speeds[k][0]), compare);
                median[k] = at(speeds[k], n, 50);
                (void)printf("%-8s %12.0f %10.2f %7.1f%%\n", names[k], median[k], 1e6 / median[k],
                             (at(speeds[k], n, 75) - at(speeds[k], n, 25)) / median[k] * 100);
        }
        (void)printf("ratio %.3f: %+.2f us a pair; %u rounds of %u pairs each; %lu of %lu created: records lost, %lu times lost\n", median[1] / median[0],
                     1e6 / median[1] - 1e6 / median[0], n, pairs, lost.lost_records, lost.created, lost.lost_deaths);
        return measure_programs(path, pairs);
}

static void usage(FILE *f) {
        (void)fprintf(f, "usage: bench-events [--rounds N] [--pairs N]\n"
                         "Makes and removes a memory cgroup of its own again and again, as root, with life events attached and without, in turns.\n"
                         "  --rounds N   of each (default 21, at most 999)\n"
                         "  --pairs N    mkdir + rmdir in a round (default 2000)\n");
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                { "rounds", required_argument, NULL, 'r' },
                { "pairs", required_argument, NULL, 'p' },
                { "help", no_argument, NULL, 'h' },
                {},
        };
        unsigned long rounds = 21, pairs = 2000;
        char base[300], path[320];
        Names *names;
        int c, r;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'r':
                        rounds = strtoul(optarg, NULL, 10);
                        break;
                case 'p':
                        pairs = strtoul(optarg, NULL, 10);
                        break;
                case 'h':
                        usage(stdout);
                        return 0;
                default:
                        usage(stderr);
                        return 2;
                }
        if (rounds < 1 || rounds > ROUNDS_MAX || pairs < 1 || pairs > 1000000) {
                usage(stderr);
                return 2;
        }
        r = names_new(&names);
        if (r < 0) {
                (void)fprintf(stderr, "bench-events: no memory hierarchy: %s\n", strerror(-r));
                return 1;
        }
        (void)signal(SIGINT, on_signal);
        (void)signal(SIGTERM, on_signal);
        (void)snprintf(base, sizeof(base), "%s/shrinkwatch-bench-%d", names->mount_point, getpid());
        (void)snprintf(path, sizeof(path), "%s/pair", base);
        if (mkdir(base, 0755) < 0) {
                (void)fprintf(stderr, "bench-events: cannot make %s: %s\n", base, strerror(errno));
                names_free(names);
                return 1;
        }
        if (names->v2) {
                char control[340];
                int fd;

                (void)snprintf(control, sizeof(control), "%s/cgroup.subtree_control", base);
                fd = open(control, O_WRONLY | O_CLOEXEC);
                if (fd < 0 || write(fd, "+memory", 7) < 0)
                        (void)fprintf(stderr, "bench-events: memory is not switched on at %s: %s\n", base, strerror(errno));
                safe_close(fd);
        }
        r = run(path, (unsigned)rounds, (unsigned)pairs);
        (void)rmdir(path);
        (void)rmdir(base);
        names_free(names);
        return r < 0 ? 1 : 0;
}
