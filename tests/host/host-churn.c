/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Censuses while two processes make and remove cgroups as fast as they can: one by one, whole chains, directories of many siblings that
 * go from either end, some pinned. Each cgroup's name is a number in its maker's log, which both sides share. What was made before a
 * census began and not yet removed when it had ended is in it once; nothing is in it that the logs do not have.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"

#define CHURNERS 2U
#define MADE_MAX 400000U
#define CENSUSES 240U
#define CENSUSES_LEAST 60U /* what a slow guest must reach in the same time */
#define SECONDS 60.0
#define LEVELS 12U
#define GROUPS 40U
#define SIBLINGS 40U
#define WIDE_MAX 3000U
#define PINNED 16U
#define DYING_MAX 4000U

typedef struct Made {
        _Atomic uint64_t id;        /* 0 while it is being made */
        uint64_t parent_id;
        _Atomic bool removing;      /* set before rmdir is called */
        bool fixed;
} Made;

typedef struct Log {
        _Atomic uint32_t n; /* of made; the last one may be in the making */
        _Atomic bool ready, paused, stop;
        _Atomic int error, line;
        _Atomic uint64_t operations, pinned;
        Made made[MADE_MAX];
} Log;

static Log *logs[CHURNERS];

/* ---- a churner ---- */

typedef struct Churner {
        Log *log;
        unsigned number;
        uint64_t random;
        int level_fds[LEVELS]; /* directories that stay */
        int wide_fd;
        uint64_t level_ids[LEVELS], wide_id;
        uint32_t wide[WIDE_MAX]; /* siblings that are there, in the order they were made */
        uint32_t n_wide;
        int sockets[PINNED];
        uint32_t n_sockets;
} Churner;

static uint64_t churn_random(Churner *c, uint64_t below) {
        c->random ^= c->random >> 12;
        c->random ^= c->random << 25;
        c->random ^= c->random >> 27;
        return (c->random * UINT64_C(0x2545f4914f6cdd1d) >> 20) % below;
}

static _Noreturn void give_up(Churner *c, int error, int line) {
        atomic_store(&c->log->error, error);
        atomic_store(&c->log->line, line);
        _exit(1);
}

static uint32_t make(Churner *c, int parent, uint64_t parent_id, bool fixed) {
        uint32_t i = atomic_load(&c->log->n);
        char name[32];
        uint64_t id;
        int r;

        if (i >= MADE_MAX) {
                /* The log is full: that is enough. */
                while (!atomic_load(&c->log->stop))
                        (void)usleep(1000);
                _exit(0);
        }
        c->log->made[i].parent_id = parent_id;
        c->log->made[i].fixed = fixed;
        atomic_store(&c->log->n, i + 1);
        (void)snprintf(name, sizeof(name), "c%u.%u", c->number, i);
        r = cgroup_mkdir(parent, name);
        if (r < 0)
                give_up(c, -r, __LINE__);
        id = cgroup_id(parent, name);
        if (!id)
                give_up(c, ENOENT, __LINE__);
        atomic_store(&c->log->made[i].id, id);
        atomic_fetch_add(&c->log->operations, 1);
        return i;
}

static void drop(Churner *c, int parent, uint32_t i) {
        char name[32];
        int r;

        atomic_store(&c->log->made[i].removing, true);
        (void)snprintf(name, sizeof(name), "c%u.%u", c->number, i);
        r = cgroup_remove(parent, name);
        if (r < 0)
                give_up(c, -r, __LINE__);
        atomic_fetch_add(&c->log->operations, 1);
}

static int open_made(Churner *c, int parent, uint32_t i) {
        char name[32];
        int fd;

        (void)snprintf(name, sizeof(name), "c%u.%u", c->number, i);
        fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                give_up(c, errno, __LINE__);
        return fd;
}

static void churn_begin(Churner *c) {
        int fd = dup(cgroups_fd());
        uint64_t id = cgroup_id_fd(fd);

        /* A way down of directories that stay, two more that stay beside each. */
        for (unsigned k = 0; k < LEVELS; k++) {
                uint32_t i = make(c, fd, id, true);

                (void)make(c, fd, id, true);
                c->level_fds[k] = open_made(c, fd, i);
                c->level_ids[k] = atomic_load(&c->log->made[i].id);
                if (cgroup_switch_memory(c->level_fds[k], true) < 0)
                        give_up(c, EIO, __LINE__);
                fd = c->level_fds[k];
                id = c->level_ids[k];
                (void)make(c, fd, id, true);
        }
        /* A directory of many, every so many-th stays. */
        {
                uint32_t i = make(c, c->level_fds[2], c->level_ids[2], true);

                c->wide_fd = open_made(c, c->level_fds[2], i);
                c->wide_id = atomic_load(&c->log->made[i].id);
                if (cgroup_switch_memory(c->wide_fd, true) < 0)
                        give_up(c, EIO, __LINE__);
        }
        for (unsigned g = 0; g < (own_slow() ? GROUPS / 5 : GROUPS); g++) {
                for (unsigned k = 0; k < SIBLINGS; k++)
                        c->wide[c->n_wide++] = make(c, c->wide_fd, c->wide_id, false);
                (void)make(c, c->wide_fd, c->wide_id, true);
        }
}

static void churn_chain(Churner *c) {
        unsigned depth = 2 + (unsigned)churn_random(c, 24), k = (unsigned)churn_random(c, LEVELS);
        int fds[32] = { c->level_fds[k] };
        uint64_t id = c->level_ids[k];
        uint32_t chain[32];

        for (unsigned i = 0; i < depth; i++) {
                chain[i] = make(c, fds[i], id, false);
                fds[i + 1] = open_made(c, fds[i], chain[i]);
                id = atomic_load(&c->log->made[chain[i]].id);
                if (i + 1 < depth && cgroup_switch_memory(fds[i + 1], true) < 0)
                        give_up(c, EIO, __LINE__);
        }
        for (unsigned i = depth; i-- > 0;) {
                safe_close(fds[i + 1]);
                drop(c, fds[i], chain[i]);
        }
}

static void churn_pinned(Churner *c) {
        unsigned k = (unsigned)churn_random(c, LEVELS);
        uint32_t i = make(c, c->level_fds[k], c->level_ids[k], false);
        int fd = open_made(c, c->level_fds[k], i), s = hold_by_socket(fd);

        safe_close(fd);
        if (s >= 0) {
                int *slot = c->sockets + c->n_sockets++ % PINNED;

                safe_close(*slot);
                *slot = s;
                atomic_fetch_add(&c->log->pinned, 1);
        }
        drop(c, c->level_fds[k], i);
}

static void drop_wide(Churner *c, uint32_t first, uint32_t n) {
        for (uint32_t k = first; k < first + n; k++)
                drop(c, c->wide_fd, c->wide[k]);
        memmove(c->wide + first, c->wide + first + n, (c->n_wide - first - n) * sizeof(*c->wide));
        c->n_wide -= n;
}

static _Noreturn void churn(unsigned number) {
        Churner c = { .log = logs[number], .number = number, .random = 4711 + number };
        uint64_t round = 0;

        for (unsigned i = 0; i < PINNED; i++)
                c.sockets[i] = -1;
        churn_begin(&c);
        atomic_store(&c.log->ready, true);
        while (!atomic_load(&c.log->stop)) {
                unsigned n = 1 + (unsigned)churn_random(&c, 200), k = (unsigned)churn_random(&c, LEVELS);

                if (atomic_load(&c.log->paused)) {
                        (void)usleep(2000);
                        continue;
                }
                if (++round % 8 == 0)
                        churn_pinned(&c);
                switch (churn_random(&c, 6)) {
                case 0:
                        for (; n > 0; n--)
                                drop(&c, c.level_fds[k], make(&c, c.level_fds[k], c.level_ids[k], false));
                        break;
                case 1:
                        churn_chain(&c);
                        break;
                case 2:
                        for (; n > 0 && c.n_wide < WIDE_MAX; n--)
                                c.wide[c.n_wide++] = make(&c, c.wide_fd, c.wide_id, false);
                        break;
                case 3: /* the oldest */
                        drop_wide(&c, 0, n < c.n_wide ? n : c.n_wide);
                        break;
                case 4: /* the newest */
                        n = n < c.n_wide ? n : c.n_wide;
                        drop_wide(&c, c.n_wide - n, n);
                        break;
                default: /* a run of them */
                        if (c.n_wide > n)
                                drop_wide(&c, (uint32_t)churn_random(&c, c.n_wide - n), n);
                }
                if (c.n_wide < 300)
                        while (c.n_wide < (own_slow() ? 400 : 1200) && !atomic_load(&c.log->stop))
                                c.wide[c.n_wide++] = make(&c, c.wide_fd, c.wide_id, false);
        }
        _exit(0);
}

/* ---- the censuses ---- */

typedef struct Watch {
        Census *census;
        ProbeStats stats;
        uint64_t random;
        bool slow; /* let the others do something between two slices */
        uint32_t *seen[CHURNERS]; /* the census in which it was seen last */
} Watch;

static int on_record(const struct sw_head *record, void *userdata) {
        Watch *w = userdata;

        if (w->slow && record->type == SW_TYPE_MEMCG) {
                w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
                if ((w->random >> 33) % 64 == 0)
                        (void)usleep((useconds_t)((w->random >> 40) % 1500));
        }
        return census_add(w->census, record);
}

static void check(Watch *w, uint32_t number, const uint32_t *from, const uint32_t *to, const char *what, uint64_t *ret_told) {
        const Census *c = w->census;
        uint32_t own = look_own(c);

        for (uint32_t k = own + 1; k < own + c->memcgs[own].subtree_memcgs; k++) {
                const CensusMemcg *m = c->memcgs + k;
                unsigned churner;
                uint32_t i;
                Made *made;
                uint64_t id;
                int end = 0;

                if (sscanf(census_name(c, k), "c%u.%u%n", &churner, &i, &end) != 2 || census_name(c, k)[end] || churner >= CHURNERS || i >= to[churner])
                        fail_test("%s: invented: \"%s\", serial %" PRIu64, what, census_name(c, k), m->serial);
                made = logs[churner]->made + i;
                id = atomic_load(&made->id);
                if (id && m->cgroup_id != id)
                        fail_test("%s: %s has the id %" PRIu64 ", not %" PRIu64, what, census_name(c, k), m->cgroup_id, id);
                if (c->memcgs[m->parent].cgroup_id != made->parent_id)
                        fail_test("%s: %s is below the wrong parent", what, census_name(c, k));
                if (w->seen[churner][i] == number)
                        fail_test("%s: %s is there twice", what, census_name(c, k));
                w->seen[churner][i] = number;
                if (made->fixed && m->state != CENSUS_LIVE)
                        fail_test("%s: %s stays, and is %s", what, census_name(c, k), census_state_to_string(m->state));
                ++*ret_told;
        }
        for (unsigned churner = 0; churner < CHURNERS; churner++)
                for (uint32_t i = 0; i < from[churner]; i++)
                        if (!atomic_load(&logs[churner]->made[i].removing) && w->seen[churner][i] != number)
                                fail_test("%s: missed: c%u.%u%s", what, churner, i, logs[churner]->made[i].fixed ? ", which stays" : "");
}

static void check_alive(void) {
        for (unsigned k = 0; k < CHURNERS; k++)
                if (atomic_load(&logs[k]->error))
                        fail_test("churner %u: %s, line %d", k, strerror(atomic_load(&logs[k]->error)), atomic_load(&logs[k]->line));
}

static double now(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void test_churn(void **state) {
        static const int64_t budgets[] = { 0, PROBE_BUDGET_LEAST, 2791, 4096, 6007, 0 };
        const ProbeFacts *f = probe_facts(look_probe());
        const CensusOptions options = {
                .flat = f->layout == PROBE_LAYOUT_FLAT,
                .unit_struct_bytes = f->unit_struct_bytes,
                .n_nodes = f->n_possible_nodes,
                .alloc = look_alloc,
        };
        uint64_t told = 0, slices = 0, lost = 0, dropped = 0, operations = 0, pinned = 0, creating = 0, dying_max = 0;
        double start, end, ended;
        Watch w = { .random = 1 };
        pid_t pids[CHURNERS];
        unsigned done = 0;

        (void)state;
        for (unsigned k = 0; k < CHURNERS; k++) {
                logs[k] = mmap(NULL, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                assert_true(logs[k] != MAP_FAILED);
                w.seen[k] = calloc(MADE_MAX, sizeof(uint32_t));
                assert_non_null(w.seen[k]);
        }
        (void)fflush(stdout);
        for (unsigned k = 0; k < CHURNERS; k++) {
                pids[k] = fork();
                assert_true(pids[k] >= 0);
                if (pids[k] == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        churn(k);
                }
        }
        end = now() + (own_slow() ? 240 : 60);
        for (unsigned k = 0; k < CHURNERS;) {
                check_alive();
                if (atomic_load(&logs[k]->ready))
                        k++;
                else if (now() > end)
                        fail_test("the churners do not get ready");
                else
                        (void)usleep(10000);
        }

        start = now();
        end = start + (own_slow() ? SECONDS / 2 : SECONDS);
        while (done < CENSUSES && now() < end) {
                uint32_t from[CHURNERS], to[CHURNERS];
                ProbeError e = {};
                char what[96];
                int r;

                check_alive();
                probe_set_budget(look_probe(), budgets[done % ELEMENTSOF(budgets)]);
                w.slow = done % 2;
                w.stats = (ProbeStats){};
                assert_int_equal(census_new(&w.census, &options), 0);
                for (unsigned k = 0; k < CHURNERS; k++) {
                        from[k] = atomic_load(&logs[k]->n);
                        if (from[k] > 0 && !atomic_load(&logs[k]->made[from[k] - 1].id))
                                from[k]--;
                }
                r = probe_walk(look_probe(), done % 4 == 3 ? PROBE_WALK_BITS : 0, on_record, &w, &w.stats, &e);
                for (unsigned k = 0; k < CHURNERS; k++)
                        to[k] = atomic_load(&logs[k]->n);
                (void)snprintf(what, sizeof(what), "census %u, budget %" PRId64 "%s", done, budgets[done % ELEMENTSOF(budgets)], w.slow ? ", slow" : "");
                slices += w.stats.slices;
                if (r == -EAGAIN) {
                        lost++;
                        census_free(w.census);
                        if (lost > 5 + done / 10)
                                fail_test("%s: lost its place for the %" PRIu64 "th time: %s", what, lost, e.text);
                        continue;
                }
                if (r < 0)
                        fail_test("%s: %s (%s)", what, strerror(-r), e.text);
                r = census_seal(w.census);
                if (r < 0)
                        fail_test("%s: the records do not form a tree: %s", what, strerror(-r));
                check(&w, done + 1, from, to, what, &told);
                dropped += w.census->totals.dropped;
                creating += w.census->totals.creating;
                {
                        uint32_t dying = look_own_dying(w.census);

                        if (dying > dying_max)
                                dying_max = dying;
                        /* The kernel is slower at letting go than they are at removing: not more than it can take. */
                        for (unsigned k = 0; k < CHURNERS; k++)
                                atomic_store(&logs[k]->paused, dying > DYING_MAX);
                }
                census_free(w.census);
                done++;
        }
        ended = now();
        probe_set_budget(look_probe(), 0);
        for (unsigned k = 0; k < CHURNERS; k++) {
                int status = 0;

                atomic_store(&logs[k]->stop, true);
                (void)waitpid(pids[k], &status, 0);
                check_alive();
                operations += atomic_load(&logs[k]->operations);
                pinned += atomic_load(&logs[k]->pinned);
        }
        note("%u censuses in %.1f s (%" PRIu64 " slices, begun again %" PRIu64 " times) beside %.0f operations a second; %" PRIu64
             " memcgs told, %" PRIu64 " of them in the making, %" PRIu64 " dropped; up to %" PRIu64 " dying; %" PRIu64 " pinned",
             done, ended - start, slices, lost, (double)operations / (ended - start), told, creating, dropped, dying_max, pinned);
        assert_true(done >= (own_slow() ? CENSUSES_LEAST / 2 : CENSUSES_LEAST));
        for (unsigned k = 0; k < CHURNERS; k++) {
                (void)munmap(logs[k], sizeof(Log));
                free(w.seen[k]);
        }
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_churn),
        };
        struct rlimit limit = { 4096, 4096 };

        (void)setrlimit(RLIMIT_NOFILE, &limit);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-churn", .limit_sec = 280, .run = run });
}
