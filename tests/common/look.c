/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sched.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "cgroups.h"
#include "look.h"
#include "supervise.h"

static Probe *probe;

Probe *look_probe(void) {
        ProbeError e = {};

        if (!probe && probe_new(&probe, &e) < 0)
                fail_test("the probe does not load: %s", e.text);
        return probe;
}

Reading *look(unsigned flags) {
        ProbeError e = {};
        Reading *r = NULL;

        if (reading_new(&r, look_probe(), flags, &e) < 0)
                fail_test("no census: %s", e.text);
        return r;
}

uint64_t look_alloc(uint64_t struct_bytes, bool vmalloc, void *userdata) {
        (void)userdata;
        return probe_alloc_bytes(look_probe(), struct_bytes, vmalloc);
}

static double now(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

Reading *look_settled(unsigned flags, unsigned sec) {
        double end = now() + sec;

        do {
                Reading *r = look(flags);

                if (r->settled && (!(flags & READING_RINGS) || r->ids_in_use_known))
                        return r;
                reading_free(r);
                (void)usleep(50000);
        } while (now() < end);
        return NULL;
}

uint32_t look_find(const Census *c, uint64_t id, int state) {
        for (uint32_t i = 0; i < c->n_memcgs; i++)
                if (c->memcgs[i].cgroup_id == id && c->memcgs[i].valid & SW_MEMCG_CGROUP && (state < 0 || (int)c->memcgs[i].state == state))
                        return i;
        return CENSUS_NONE;
}

uint32_t look_own(const Census *c) {
        uint32_t i = look_find(c, cgroups_id(), CENSUS_LIVE);

        if (i == CENSUS_NONE)
                fail_test("our own cgroup (id %llu) is not in the census", (unsigned long long)cgroups_id());
        return i;
}

uint32_t look_own_dying(const Census *c) {
        return c->memcgs[look_own(c)].subtree_dying;
}

/*
 * On an idle machine, what was charged to a memcg can stay in the per-CPU batches of the LRU and in its stock for good: some new pages
 * on each CPU push them out, as any other work there would.
 */
static void stir_cpus(void) {
        const size_t bytes = 512 << 10;
        cpu_set_t before, one;

        if (sched_getaffinity(0, sizeof(before), &before) < 0)
                return;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
                char *p;

                if (!CPU_ISSET(cpu, &before))
                        continue;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                if (sched_setaffinity(0, sizeof(one), &one) < 0)
                        continue;
                p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED)
                        continue;
                (void)madvise(p, bytes, MADV_NOHUGEPAGE);
                memset(p, 1, bytes);
                (void)munmap(p, bytes);
        }
        (void)sched_setaffinity(0, sizeof(before), &before);
}

bool wait_until(unsigned sec, bool (*fn)(void *), void *userdata) {
        double end = now() + sec;

        for (;;) {
                if (fn(userdata))
                        return true;
                if (now() >= end)
                        return false;
                stir_cpus();
                (void)usleep(20000);
        }
}

static bool none_dying(void *userdata) {
        _cleanup_(reading_freep) Reading *r = look(0);

        (void)userdata;
        return look_own_dying(r->census) == 0;
}

bool wait_none_dying(unsigned sec) {
        return wait_until(sec, none_dying, NULL);
}

/* struct shrinker_info: rcu_head (16), then either map_nr_max padded (8) and the array, or two pointers, counters and a bitmap. */
uint64_t look_array_struct_bytes(const ProbeFacts *f, uint32_t ids) {
        if (f->layout == PROBE_LAYOUT_FLAT)
                return 16 + 2 * 8 + 8 * (uint64_t)ids + ids / 8;
        return 16 + 8 + 8 * (uint64_t)look_slots(f, ids);
}

uint32_t look_slots(const ProbeFacts *f, uint32_t ids) {
        return f->ids_per_unit ? (ids + f->ids_per_unit - 1) / f->ids_per_unit : 0;
}

int hold_by_socket(int cgroup) {
        int *result, status, r;
        pid_t pid;

        /* On v1, sockets are charged only to a memcg that has a limit on TCP buffers. */
        if (!cgroups_v2() && cgroup_write(cgroup, "memory.kmem.tcp.limit_in_bytes", "1073741824") < 0)
                return -EOPNOTSUPP;
        result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (result == MAP_FAILED)
                return -errno;
        *result = -EIO;
        (void)fflush(stdout);
        /* A child that shares our descriptors: the socket is made by a task inside and is ours at once. */
        pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0) {
                r = cgroup_enter(cgroup);
                if (r >= 0) {
                        r = socket(AF_INET, SOCK_STREAM, 0);
                        if (r < 0)
                                r = -errno;
                }
                *result = r;
                _exit(0);
        }
        if (pid > 0)
                (void)waitpid(pid, &status, 0);
        r = pid < 0 ? -errno : *result;
        (void)munmap(result, sizeof(*result));
        return r;
}

struct pages {
        const char *file;
        unsigned n;
};

static int write_pages(void *userdata) {
        const struct pages *p = userdata;
        int fd = open(p->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        char page[4096] = { 1 };

        if (fd < 0)
                return 1;
        for (unsigned i = 0; i < p->n; i++)
                if (write(fd, page, sizeof(page)) != (ssize_t)sizeof(page))
                        return 2;
        safe_close(fd);
        return 0;
}

int hold_by_pages(int cgroup, const char *file, unsigned pages) {
        struct pages p = { file, pages };
        int r = cgroup_run(cgroup, write_pages, &p);

        return r < 0 ? r : r > 0 ? -EIO : 0;
}
