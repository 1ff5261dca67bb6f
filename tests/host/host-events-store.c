/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Life events over restart, upgrade and downgrade: the store is an array of duplicated descriptors here. A second build of daemon/events.c is
 * the daemon of version 2. What is in the store is taken back only when it is what its name says.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "life.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"

/* Of the second build; the struct is the same. */
int events_v2_new(Events **ret, uint32_t max_deaths, EventsFd *stored, size_t n_stored, ProbeError *ret_error);
Events *events_v2_free(Events *e);
EventsOrigin events_v2_origin(const Events *e);
const EventsFd *events_v2_fds(const Events *e, size_t *ret_n);
const EventsFd *events_v2_dropped(const Events *e, size_t *ret_n);

#define PARTS 6
#define ROOM 65536U /* others on this machine may remove thousands meanwhile */
#define STORE_MAX 20
enum { DEATHS, COUNTS, RING, MKDIR, RMDIR, RELEASE }; /* the order of events_fds() */

/* What systemd has between two runs of the daemon. */
typedef struct Store {
        EventsFd fds[STORE_MAX];
        size_t n;
} Store;

static EventsFd *store_add(Store *s, const char *name, int fd) {
        EventsFd *f = s->fds + s->n++;

        assert_true(s->n <= STORE_MAX);
        memset(f, 0, sizeof(*f));
        (void)snprintf(f->name, sizeof(f->name), "%s", name);
        f->fd = fd;
        assert_true(fd >= 0);
        return f;
}

static void store_all(Store *s, const EventsFd *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                (void)store_add(s, fds[i].name, fcntl(fds[i].fd, F_DUPFD_CLOEXEC, 3));
}

static void store_clear(Store *s) {
        for (size_t i = 0; i < s->n; i++)
                safe_close(s->fds[i].fd);
        s->n = 0;
}

/* A daemon that has run, stored all, and ended; its lives are those of before. */
static void run_first(Store *s, Life *lives, size_t n) {
        Events *e = fresh_events(ROOM);
        const EventsFd *fds;
        size_t n_fds;

        fds = events_fds(e, &n_fds);
        assert_int_equal(n_fds, PARTS);
        store_all(s, fds, n_fds);
        if (n > 0) {
                lives_pass(lives, n);
                assert_int_equal(events_put(e, UINT64_MAX, 4711), 0);
        }
        assert_null(events_free(e));
}

static Events *start(Store *s, EventsOrigin expected, size_t n_dropped) {
        ProbeError error = {};
        Events *e;
        size_t n;

        if (events_new(&e, ROOM, s->fds, s->n, &error) < 0)
                fail_test("%s", error.text);
        if (events_origin(e) != expected)
                fail_test("%s, not %s", events_origin_to_string(events_origin(e)), events_origin_to_string(expected));
        (void)events_dropped(e, &n);
        assert_int_equal(n, n_dropped);
        for (size_t i = 0; i < s->n; i++)
                assert_int_equal(s->fds[i].fd, -1);
        s->n = 0;
        return e;
}

/* Our own entry that is not exact, over all of it. */
static void expect_put(const Events *e) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        const EventsDeath *d;
        size_t n;

        assert_int_equal(events_deaths(e, &deaths, &n), 0);
        d = find_death(deaths, n, UINT64_MAX);
        assert_true(d && !d->exact && d->boot_usec == 4711);
}

/* It works: what is removed now is seen. */
static void expect_works(Events *e) {
        Life lives[3];
        Lives all = { .lives = lives, .n = ELEMENTSOF(lives), .events = e };
        EventsCounts before = counts_of(e);

        lives_pass(lives, ELEMENTSOF(lives));
        expect_deaths(e, lives, ELEMENTSOF(lives));
        assert_true(lives_released(&all));
        for (size_t i = 0; i < ELEMENTSOF(lives); i++)
                assert_true(lives[i].created == 1 && lives[i].removed == 1);
        assert_true(counts_of(e).removed >= before.removed + ELEMENTSOF(lives));
}

static void test_restart(void **state) {
        Life lives[17];
        Lives all = { .lives = lives, .n = ELEMENTSOF(lives) };
        Store s = {};
        Events *e;

        (void)state;
        run_first(&s, lives, 7);
        /* Nobody is there, and nothing is missed. */
        lives_pass(lives + 7, 10);
        e = start(&s, EVENTS_ADOPTED, 0);
        assert_true(counts_of(e).created >= 17 && counts_of(e).removed >= 17);
        expect_deaths(e, lives, ELEMENTSOF(lives));
        expect_put(e);
        all.events = e;
        assert_true(lives_released(&all));
        for (size_t i = 0; i < ELEMENTSOF(lives); i++)
                assert_true(lives[i].created == 1 && lives[i].removed == 1);
        expect_works(e);
        events_free(e);
}

/* Names that are not ours, in all of which there is something. */
static void test_names(void **state) {
        const char *const foreign[] = { "", "sw", "sw-deaths", "sw0-deaths", "sw01-deaths", "sw1deaths", "sw4294967296-deaths", "sw1x-deaths",
                                        "SW1-deaths", " sw1-deaths", "foreign" };
        const char *const ours[] = { "sw1-", "sw1-death", "sw1-deaths2", "sw4294967295-deaths", "sw2-x", "sw2-x" };
        const EventsFd *dropped;
        ProbeError error = {};
        Store s = {};
        Events *e;
        size_t n;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(foreign); i++)
                (void)store_add(&s, foreign[i], memfd_create("x", MFD_CLOEXEC));
        if (events_new(&e, ROOM, s.fds, s.n, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_origin(e), EVENTS_FRESH);
        (void)events_dropped(e, &n);
        assert_int_equal(n, 0);
        for (size_t i = 0; i < s.n; i++)
                assert_true(fcntl(s.fds[i].fd, F_GETFD) >= 0);
        events_free(e);
        store_clear(&s);

        for (size_t i = 0; i < ELEMENTSOF(ours); i++)
                (void)store_add(&s, ours[i], memfd_create("x", MFD_CLOEXEC));
        e = start(&s, EVENTS_DISCARDED, ELEMENTSOF(ours) - 1);
        dropped = events_dropped(e, &n);
        for (size_t i = 0; i < n; i++) {
                assert_string_equal(dropped[i].name, ours[i]);
                assert_int_equal(dropped[i].fd, -1);
        }
        events_free(e);
}

/* Half a set: the daemon was killed while it stored. Its times are good all the same. */
static void test_parts(void **state) {
        Life lives[5];

        (void)state;
        for (unsigned missing = 0; missing < PARTS; missing++) {
                Store s = {};
                Events *e;

                run_first(&s, lives, ELEMENTSOF(lives));
                safe_close(s.fds[missing].fd);
                s.fds[missing] = s.fds[--s.n];
                e = start(&s, missing == DEATHS ? EVENTS_DISCARDED : EVENTS_DRAINED, PARTS - 1);
                if (missing == DEATHS)
                        expect_no_death(e, lives, ELEMENTSOF(lives));
                else {
                        expect_deaths(e, lives, ELEMENTSOF(lives));
                        expect_put(e);
                }
                expect_works(e);
                events_free(e);
        }
}

/* A name that comes twice: it could be of two sets. */
static void test_twice(void **state) {
        Life lives[5], more[5];
        Store s = {};
        Events *e;

        (void)state;
        run_first(&s, lives, ELEMENTSOF(lives));
        (void)store_add(&s, "sw1-ring", fcntl(s.fds[RING].fd, F_DUPFD_CLOEXEC, 3));
        e = start(&s, EVENTS_DRAINED, PARTS);
        expect_deaths(e, lives, ELEMENTSOF(lives));
        events_free(e);

        run_first(&s, lives, ELEMENTSOF(lives));
        run_first(&s, more, ELEMENTSOF(more));
        assert_int_equal(s.n, 2 * PARTS);
        e = start(&s, EVENTS_DRAINED, PARTS);
        expect_deaths(e, lives, ELEMENTSOF(lives));
        expect_deaths(e, more, ELEMENTSOF(more));
        expect_works(e);
        events_free(e);
}

static int make_map(enum bpf_map_type type, __u32 key, __u32 value, __u32 entries, __u32 flags) {
        LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);
        int fd = bpf_map_create(type, "hostile", key, value, entries, &opts);

        assert_true(fd >= 0);
        return fd;
}

static int a_pipe(void) {
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        safe_close(fds[1]);
        return fds[0];
}

static int a_file(void) {
        FILE *f = tmpfile();
        int fd;

        assert_non_null(f);
        assert_int_equal(ftruncate(fileno(f), 65536), 0);
        fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3);
        (void)fclose(f);
        return fd;
}

static int a_program(void) {
        const struct bpf_insn nothing[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K }, { .code = BPF_JMP | BPF_EXIT } };
        int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "hostile", "GPL", nothing, ELEMENTSOF(nothing), NULL);

        assert_true(fd >= 0);
        return fd;
}

static int a_link(const char *tracepoint) {
        int program = a_program(), fd = bpf_raw_tracepoint_open(tracepoint, program);

        assert_true(fd >= 0);
        safe_close(program);
        return fd;
}

static Life set_lives[3];

/* One of a set is not what its name says. */
static void expect_refused(const Store *set, unsigned part, int fd) {
        Store s = {};
        Events *e;

        store_all(&s, set->fds, set->n);
        safe_close(s.fds[part].fd);
        s.fds[part].fd = fd;
        e = start(&s, part == DEATHS ? EVENTS_DISCARDED : EVENTS_DRAINED, PARTS);
        if (part == DEATHS)
                expect_no_death(e, set_lives, ELEMENTSOF(set_lives));
        else
                expect_deaths(e, set_lives, ELEMENTSOF(set_lives));
        events_free(e);
}

static void test_hostile(void **state) {
        Store set = {};

        (void)state;
        run_first(&set, set_lives, ELEMENTSOF(set_lives));
        for (unsigned part = 0; part < PARTS; part++) {
                expect_refused(&set, part, a_pipe());
                expect_refused(&set, part, a_file());
                expect_refused(&set, part, a_program());
                expect_refused(&set, part, a_link("sched_process_exit"));
                expect_refused(&set, part, make_map(BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0));
        }
        expect_refused(&set, DEATHS, make_map(BPF_MAP_TYPE_HASH, 8, 24, ROOM, BPF_F_NO_PREALLOC));
        expect_refused(&set, DEATHS, make_map(BPF_MAP_TYPE_HASH, 4, 16, ROOM, BPF_F_NO_PREALLOC));
        expect_refused(&set, DEATHS, make_map(BPF_MAP_TYPE_HASH, 8, 16, ROOM, 0));
        expect_refused(&set, DEATHS, make_map(BPF_MAP_TYPE_LRU_HASH, 8, 16, ROOM, 0));
        expect_refused(&set, COUNTS, make_map(BPF_MAP_TYPE_ARRAY, 4, 8, _SW_COUNT_MAX, 0));
        expect_refused(&set, COUNTS, make_map(BPF_MAP_TYPE_ARRAY, 4, 8, _SW_COUNT_MAX - 1, BPF_F_MMAPABLE));
        expect_refused(&set, COUNTS, make_map(BPF_MAP_TYPE_ARRAY, 4, 16, _SW_COUNT_MAX, BPF_F_MMAPABLE));
        expect_refused(&set, RING, make_map(BPF_MAP_TYPE_RINGBUF, 0, 0, SW_EVENTS_RING_BYTES / 2, 0));
        /* The right kind in the wrong place. */
        expect_refused(&set, MKDIR, a_link("cgroup_rmdir"));
        expect_refused(&set, RELEASE, a_link("cgroup_mkdir"));
        store_clear(&set);
}

/* The room was changed in the configuration: a new map, the old times. Those that find no room are counted. */
static void test_other_room(void **state) {
        ProbeError error = {};
        Life lives[11];
        Store s = {};
        Events *e;
        size_t n;

        (void)state;
        run_first(&s, lives, ELEMENTSOF(lives));
        if (events_new(&e, 2 * ROOM, s.fds, s.n, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_origin(e), EVENTS_DRAINED);
        assert_int_equal(events_max_deaths(e), 2 * ROOM);
        expect_deaths(e, lives, ELEMENTSOF(lives));
        expect_put(e);
        assert_int_equal(counts_of(e).lost_deaths, 0);
        events_free(e);

        s.n = 0;
        run_first(&s, lives, ELEMENTSOF(lives));
        if (events_new(&e, 4, s.fds, s.n, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_origin(e), EVENTS_DRAINED);
        assert_int_equal(events_max_deaths(e), 4);
        assert_true(counts_of(e).lost_deaths >= ELEMENTSOF(lives) + 1 - 4);
        (void)events_dropped(e, &n);
        assert_int_equal(n, PARTS);
        events_free(e);
}

/* Upgrade: version 2 drains version 1, also what died while nobody was there. Then it is restarted, and downgraded: version 1 knows nothing of it. */
static void test_versions(void **state) {
        Life lives[13], later[5];
        ProbeError error = {};
        Store s = {};
        const EventsFd *fds;
        size_t n;
        Events *e;

        (void)state;
        run_first(&s, lives, 7);
        lives_pass(lives + 7, ELEMENTSOF(lives) - 7);
        if (events_v2_new(&e, ROOM, s.fds, s.n, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_v2_origin(e), EVENTS_DRAINED);
        for (size_t i = 0; i < s.n; i++)
                assert_int_equal(s.fds[i].fd, -1);
        fds = events_v2_dropped(e, &n);
        assert_int_equal(n, PARTS);
        assert_string_equal(fds[DEATHS].name, "sw1-deaths");
        fds = events_v2_fds(e, &n);
        assert_int_equal(n, PARTS);
        assert_string_equal(fds[DEATHS].name, "sw2-deaths");
        /* The two builds have one struct: this reads version 2's map. */
        expect_deaths(e, lives, ELEMENTSOF(lives));
        expect_put(e);
        s.n = 0;
        store_all(&s, fds, n);
        events_v2_free(e);

        lives_pass(later, ELEMENTSOF(later));
        if (events_v2_new(&e, ROOM, s.fds, s.n, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_v2_origin(e), EVENTS_ADOPTED);
        expect_deaths(e, lives, ELEMENTSOF(lives));
        expect_deaths(e, later, ELEMENTSOF(later));
        fds = events_v2_fds(e, &n);
        s.n = 0;
        store_all(&s, fds, n);
        events_v2_free(e);

        e = start(&s, EVENTS_DISCARDED, PARTS);
        fds = events_dropped(e, &n);
        assert_string_equal(fds[DEATHS].name, "sw2-deaths");
        expect_no_death(e, lives, ELEMENTSOF(lives));
        expect_no_death(e, later, ELEMENTSOF(later));
        expect_works(e);
        events_free(e);
}

/* Killed in the middle of an upgrade: a part of version 2, all of version 1. Whichever starts, no time is lost that it can read. */
static void test_half_upgrade(void **state) {
        Life first[5], second[5];
        ProbeError error = {};
        Store s = {}, half = {};
        const EventsFd *fds;
        Events *e;
        size_t n;

        (void)state;
        for (unsigned back = 0; back < 2; back++) {
                s.n = half.n = 0;
                run_first(&s, first, ELEMENTSOF(first));
                assert_int_equal(events_v2_new(&e, ROOM, NULL, 0, &error), 0);
                assert_int_equal(events_v2_origin(e), EVENTS_FRESH);
                lives_pass(second, ELEMENTSOF(second));
                fds = events_v2_fds(e, &n);
                store_all(&half, fds, 2);
                events_v2_free(e);
                for (size_t i = 0; i < half.n; i++)
                        (void)store_add(&s, half.fds[i].name, half.fds[i].fd);
                if (back) {
                        /* Version 1 goes on with its own, and has the rest of the other dropped. */
                        e = start(&s, EVENTS_ADOPTED, 2);
                        expect_deaths(e, first, ELEMENTSOF(first));
                        expect_deaths(e, second, ELEMENTSOF(second));
                        events_free(e);
                        continue;
                }
                assert_int_equal(events_v2_new(&e, ROOM, s.fds, s.n, &error), 0);
                assert_int_equal(events_v2_origin(e), EVENTS_DRAINED);
                (void)events_v2_dropped(e, &n);
                assert_int_equal(n, PARTS + 2);
                expect_deaths(e, first, ELEMENTSOF(first));
                expect_deaths(e, second, ELEMENTSOF(second));
                events_v2_free(e);
        }
}

/* No descriptor is left behind, in any of these ways. */
static unsigned count_fds(void) {
        unsigned n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static void test_no_leak(void **state) {
        unsigned before;

        (void)look_probe();
        before = count_fds();
        test_restart(state);
        test_versions(state);
        if (!own_slow()) {
                test_parts(state);
                test_twice(state);
                test_other_room(state);
                test_half_upgrade(state);
        }
        assert_int_equal(count_fds(), before);
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_restart),  cmocka_unit_test(test_names),      cmocka_unit_test(test_parts),
                cmocka_unit_test(test_twice),    cmocka_unit_test(test_hostile),    cmocka_unit_test(test_other_room),
                cmocka_unit_test(test_versions), cmocka_unit_test(test_half_upgrade), cmocka_unit_test(test_no_leak),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-events-store", .limit_sec = 280, .run = run });
}
