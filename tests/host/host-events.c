/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Life events against lives that this program leads itself: each time of death lies in its removal, serials are those of a census, counts are
 * exact, and what finds no room is counted as lost. Others on this machine may make and remove cgroups: what is theirs is told by the ids.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "daemon/service.h"
#include "life.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/rights.h"
#include "tests/common/supervise.h"

#define N 97
#define PAIRS 5003U /* more than the ring has room for: a record of ours takes 64 bytes */

static void test_lives(void **state) {
        const char *const names[] = { "sw1-deaths", "sw1-counts", "sw1-ring", "sw1-mkdir", "sw1-rmdir", "sw1-release" };
        _cleanup_(events_freep) Events *e = fresh_events(0);
        EventsCounts before = counts_of(e), after;
        Lives all = { .lives = calloc(N, sizeof(Life)), .n = N, .events = e };
        uint64_t serials[N];
        const EventsFd *fds;
        size_t n;

        (void)state;
        assert_non_null(all.lives);
        assert_int_equal(events_max_deaths(e), 262144);
        fds = events_fds(e, &n);
        assert_int_equal(n, ELEMENTSOF(names));
        for (size_t i = 0; i < n; i++) {
                assert_string_equal(fds[i].name, names[i]);
                assert_int_equal(fcntl(fds[i].fd, F_GETFD), FD_CLOEXEC);
        }
        assert_int_equal(events_fd(e), fds[2].fd);
        (void)events_dropped(e, &n);
        assert_int_equal(n, 0);

        for (unsigned i = 0; i < N; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "ev%u", i);
                life_make(all.lives + i, cgroups_fd(), name);
        }
        life_look(all.lives, N);
        after = counts_of(e);
        assert_true(after.created >= before.created + N);
        expect_no_death(e, all.lives, N);

        for (unsigned i = 0; i < N; i++)
                life_remove(all.lives + i, cgroups_fd());
        expect_deaths(e, all.lives, N);
        if (!lives_released(&all))
                fail_test("not all were released");
        after = counts_of(e);
        note("%d lives; of the machine: %" PRIu64 " created, %" PRIu64 " removed, %" PRIu64 " released, %" PRIu64 " records", N,
             after.created - before.created, after.removed - before.removed, after.released - before.released, all.records);
        assert_true(after.removed >= before.removed + N);
        assert_true(after.released >= before.released + N);
        assert_int_equal(after.lost_deaths, 0);
        assert_int_equal(after.lost_records, 0);
        for (unsigned i = 0; i < N; i++) {
                const Life *l = all.lives + i;

                assert_int_equal(l->created, 1);
                assert_int_equal(l->removed, 1);
                assert_int_equal(l->released, 1);
                assert_true(l->created_serial == l->serial && l->removed_serial == l->serial);
                assert_true(l->created_usec >= l->made_before && l->created_usec <= l->made_after);
                assert_true(l->removed_usec >= l->removed_before && l->removed_usec <= l->removed_after);
                serials[i] = l->serial;
        }

        /* The map keeps them until it is told. Those that are not there any more, or never were, are no error. */
        expect_deaths(e, all.lives, N);
        assert_int_equal(events_forget(e, serials, 0), 0);
        assert_int_equal(events_forget(e, serials, N / 2), 0);
        expect_no_death(e, all.lives, N / 2);
        expect_deaths(e, all.lives + N / 2, N - N / 2);
        assert_int_equal(events_forget(e, serials, N), 0);
        expect_no_death(e, all.lives, N);
        assert_int_equal(events_forget(e, (uint64_t[]){ 0, UINT64_MAX }, 2), 0);
        free(all.lives);
}

/* Names are bytes, up to 255 of them. */
static void test_names(void **state) {
        char longest[256], names[9][256] = { "a", "1234567", "12345678", "123456789", "\xff\xfe\x80", "new\nline \x1b[31m", "\xc3\xa4" };
        _cleanup_(events_freep) Events *e = fresh_events(0);
        Life lives[ELEMENTSOF(names)];
        Lives all = { .lives = lives, .n = ELEMENTSOF(names), .events = e };

        (void)state;
        memset(longest, 'x', sizeof(longest) - 1);
        longest[255] = 0;
        memcpy(names[7], longest, sizeof(longest));
        memcpy(names[8], longest, 248);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                /* v1 refuses line breaks; so does a kernel that wants none. */
                if (mkdirat(cgroups_fd(), names[i], 0755) < 0) {
                        (void)snprintf(names[i], sizeof(names[i]), "in place of %zu", i);
                } else
                        assert_int_equal(cgroup_remove(cgroups_fd(), names[i]), 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                life_make(lives + i, cgroups_fd(), names[i]);
                life_remove(lives + i, cgroups_fd());
        }
        assert_true(lives_released(&all));
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                assert_true(lives[i].created == 1 && lives[i].removed == 1 && lives[i].released == 1);
}

static void test_dying(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(0);
        _cleanup_(reading_freep) Reading *r = NULL;
        Lives all = {};
        Life life;
        uint32_t k;
        int fd, s;

        (void)state;
        life_make(&life, cgroups_fd(), "stays");
        life_look(&life, 1);
        fd = openat(cgroups_fd(), "stays", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        s = hold_by_socket(fd);
        safe_close(fd);
        life_remove(&life, cgroups_fd());
        if (s == -EOPNOTSUPP)
                skip_test("sockets are not charged to a memcg here");
        assert_true(s >= 0);
        (void)usleep(300000);
        r = look(0);
        k = look_find(r->census, life.id, CENSUS_DYING);
        assert_true(k != CENSUS_NONE);
        assert_int_equal(r->census->memcgs[k].serial, life.serial);
        expect_deaths(e, &life, 1);
        all = (Lives){ .lives = &life, .n = 1, .events = e };
        assert_true(events_drain(e, life_record, &all) > 0);
        assert_int_equal(life.removed, 1);
        assert_int_equal(life.released, 0);
        safe_close(s);
        assert_true(lives_released(&all));
        expect_deaths(e, &life, 1);
}

static void test_put(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(4);
        _cleanup_(freep) EventsDeath *deaths = NULL;
        const EventsDeath *d;
        Life life;
        size_t n;

        (void)state;
        life_make(&life, cgroups_fd(), "put");
        life_look(&life, 1);
        /* The first census may say "dying" of one that is just being removed: what the program sees is better. */
        assert_int_equal(events_put(e, life.serial, 17), 0);
        assert_int_equal(events_put(e, UINT64_MAX, 4711), 0);
        assert_int_equal(events_put(e, UINT64_MAX, 4712), 0); /* the first one stays */
        assert_int_equal(events_put(e, UINT64_MAX - 1, UINT64_MAX), 0);
        assert_int_equal(events_deaths(e, &deaths, &n), 0);
        d = find_death(deaths, n, life.serial);
        assert_true(d && !d->exact && d->boot_usec == 17);
        d = find_death(deaths, n, UINT64_MAX);
        assert_true(d && !d->exact && d->boot_usec == 4711);
        d = find_death(deaths, n, UINT64_MAX - 1);
        assert_true(d && d->boot_usec == UINT64_MAX / 1000);
        life_remove(&life, cgroups_fd());
        expect_deaths(e, &life, 1);
        assert_int_equal(events_put(e, life.serial, 17), 0);
        expect_deaths(e, &life, 1);

        for (uint64_t serial = UINT64_MAX - 8; serial < UINT64_MAX - 1; serial++)
                (void)events_put(e, serial, 1);
        assert_int_equal(events_put(e, UINT64_MAX - 9, 1), -E2BIG);
        assert_int_equal(events_put(e, UINT64_MAX, 1), 0);
        /* A full map takes what replaces an entry. */
        life_make(&life, cgroups_fd(), "put");
        life_look(&life, 1);
        assert_int_equal(events_forget(e, (uint64_t[]){ UINT64_MAX }, 1), 0);
        assert_int_equal(events_put(e, life.serial, 17), 0);
        life_remove(&life, cgroups_fd());
        expect_deaths(e, &life, 1);
}

static void test_full_map(void **state) {
        enum { room = 8 };
        _cleanup_(events_freep) Events *e = fresh_events(room);
        _cleanup_(freep) EventsDeath *deaths = NULL;
        Life lives[room + 5];
        Lives all = { .lives = lives, .n = ELEMENTSOF(lives), .events = e };
        EventsCounts counts;
        size_t n;

        (void)state;
        assert_int_equal(events_max_deaths(e), room);
        lives_pass(lives, ELEMENTSOF(lives));
        assert_int_equal(events_deaths(e, &deaths, &n), 0);
        assert_int_equal(n, room);
        counts = counts_of(e);
        assert_int_equal(counts.lost_deaths, counts.removed - room);
        assert_true(counts.lost_deaths >= 5);
        /* The records do not suffer. */
        assert_int_equal(counts.lost_records, 0);
        assert_true(lives_released(&all));
        for (size_t i = 0; i < ELEMENTSOF(lives); i++)
                assert_int_equal(lives[i].removed, 1);
        /* Room again. */
        for (size_t i = 0; i < n; i++)
                assert_int_equal(events_forget(e, &deaths[i].serial, 1), 0);
        lives_pass(lives, 3);
        expect_deaths(e, lives, 3);
}

static void test_full_ring(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(0);
        _cleanup_(freep) Life *lives = calloc(PAIRS, sizeof(*lives));
        EventsCounts before, after;
        Lives none = {};
        uint64_t records;
        int r;

        (void)state;
        assert_non_null(lives);
        for (unsigned i = 0; i < PAIRS; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "full%u", i);
                life_make(lives + i, cgroups_fd(), name);
        }
        life_look(lives, PAIRS);
        for (unsigned i = 0; i < PAIRS; i++)
                life_remove(lives + i, cgroups_fd());
        expect_deaths(e, lives, PAIRS);
        before = counts_of(e);
        r = events_drain(e, life_record, &none);
        after = counts_of(e);
        assert_true(r > 0 && (uint64_t)r == none.records);
        /* A record for each event but those that were lost; what happens meanwhile may be in or not. */
        records = before.created + before.removed + before.released - before.lost_records;
        note("%u cgroups: %d records, %" PRIu64 " lost", PAIRS, r, after.lost_records);
        assert_true(before.lost_records > 0);
        assert_in_range(none.records, records, after.created + after.removed + after.released - before.lost_records);
        assert_in_range(none.records * 56, SW_EVENTS_RING_BYTES / 2, UINT32_MAX);
        assert_int_equal(after.lost_deaths, 0);
}

static int wait_for(int epoll, int timeout_msec) {
        struct epoll_event event;
        int r;

        do
                r = epoll_wait(epoll, &event, 1, timeout_msec);
        while (r < 0 && errno == EINTR);
        return r;
}

static void pass(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                assert_int_equal(cgroup_mkdir(cgroups_fd(), "wake"), 0);
                assert_int_equal(cgroup_remove(cgroups_fd(), "wake"), 0);
        }
}

static int watch(const Events *e) {
        struct epoll_event event = { .events = EPOLLIN };
        int epoll = epoll_create1(EPOLL_CLOEXEC);

        assert_true(epoll >= 0);
        assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, events_fd(e), &event), 0);
        return epoll;
}

/* Nobody is woken for each cgroup. */
static void test_wakeup(void **state) {
        const uint32_t room = 1024;
        Lives none = {};
        Events *e;
        int epoll;

        (void)state;
        /* The ring: a quarter is a thousand records. */
        e = fresh_events(0);
        epoll = watch(e);
        pass(101);
        assert_int_equal(wait_for(epoll, 300), 0);
        pass(PAIRS / 4);
        assert_int_equal(wait_for(epoll, 5000), 1);
        assert_true(events_drain(e, life_record, &none) > 0);
        assert_int_equal(wait_for(epoll, 0), 0);
        safe_close(epoll);
        events_free(e);

        /* The map: half of it with what user space put there. */
        e = fresh_events(room);
        epoll = watch(e);
        for (uint64_t i = 0; i < room / 2 - 199; i++)
                assert_int_equal(events_put(e, UINT64_MAX - i, 1), 0);
        pass(97);
        assert_int_equal(wait_for(epoll, 300), 0);
        pass(107);
        assert_int_equal(wait_for(epoll, 5000), 1);
        (void)events_drain(e, life_record, &none);
        assert_int_equal(wait_for(epoll, 0), 0);
        /* Again with every sixteenth more. */
        pass(23);
        assert_int_equal(wait_for(epoll, 300), 0);
        pass(43);
        assert_int_equal(wait_for(epoll, 5000), 1);
        (void)events_drain(e, life_record, &none);
        assert_int_equal(wait_for(epoll, 0), 0);
        /* What was forgotten takes no room. */
        for (uint64_t i = 0; i < room / 2 - 199; i++)
                assert_int_equal(events_forget(e, (uint64_t[]){ UINT64_MAX - i }, 1), 0);
        pass(97);
        assert_int_equal(wait_for(epoll, 300), 0);
        safe_close(epoll);
        events_free(e);
}

/* After the last descriptor nothing is attached any more. */
static void test_detached(void **state) {
        Events *e = fresh_events(0);
        uint64_t *counts;
        size_t n;

        (void)state;
        counts = mmap(NULL, _SW_COUNT_MAX * sizeof(*counts), PROT_READ, MAP_SHARED, events_fds(e, &n)[1].fd, 0);
        assert_true(counts != MAP_FAILED);
        pass(1);
        assert_true(counts[SW_COUNT_CREATED] >= 1);
        events_free(e);
        (void)usleep(100000);
        {
                uint64_t created = counts[SW_COUNT_CREATED], removed = counts[SW_COUNT_REMOVED];

                pass(7);
                assert_int_equal(counts[SW_COUNT_CREATED], created);
                assert_int_equal(counts[SW_COUNT_REMOVED], removed);
        }
        (void)munmap(counts, _SW_COUNT_MAX * sizeof(*counts));
}

/* The serial stays what the name does not. */
static void test_renamed(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(0);
        Lives all = { .n = 1, .events = e };
        Life life;

        (void)state;
        life_make(&life, cgroups_fd(), "old-name");
        life_look(&life, 1);
        if (renameat(cgroups_fd(), "old-name", cgroups_fd(), "new-name") < 0) {
                assert_int_equal(cgroup_remove(cgroups_fd(), "old-name"), 0);
                skip_test("cgroups of this hierarchy cannot be renamed: %s", strerror(errno));
        }
        all.lives = &life;
        assert_true(events_drain(e, life_record, &all) >= 1);
        assert_int_equal(life.created, 1);
        (void)snprintf(life.name, sizeof(life.name), "new-name");
        expect_no_death(e, &life, 1);
        life_remove(&life, cgroups_fd());
        expect_deaths(e, &life, 1);
        assert_true(lives_released(&all));
        assert_true(life.removed_serial == life.serial);
}

/* A controller that is switched off and on: each memcg of the cgroup has its own serial, and only the one that is removed a time. */
static void test_switched(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(0);
        Life life, second, without = {};
        Lives all = { .n = 1, .events = e };
        int parent;

        (void)state;
        if (!cgroups_v2())
                skip_test("on a v1 hierarchy a cgroup cannot lose its controller");
        parent = cgroup_make(cgroups_fd(), "switch");
        assert_true(parent >= 0);
        assert_int_equal(cgroup_switch_memory(parent, true), 0);
        life_make(&life, parent, "child");
        life_look(&life, 1);
        assert_int_equal(cgroup_switch_memory(parent, false), 0);
        (void)usleep(500000);
        expect_no_death(e, &life, 1);

        /* One that never has a memcg is no business of ours: not even its release. */
        without.id = 1;
        {
                EventsCounts before = counts_of(e), after;

                life_make(&without, parent, "without");
                life_remove(&without, parent);
                (void)usleep(1000000);
                all.lives = &without;
                assert_true(events_drain(e, life_record, &all) >= 0);
                assert_true(without.created == 0 && without.removed == 0 && without.released == 0);
                after = counts_of(e);
                note("%" PRIu64 " released meanwhile", after.released - before.released);
        }

        assert_int_equal(cgroup_switch_memory(parent, true), 0);
        second = life;
        life_look(&second, 1);
        assert_true(second.serial > life.serial);
        expect_no_death(e, &second, 1);
        life_remove(&second, parent);
        expect_deaths(e, &second, 1);
        expect_no_death(e, &life, 1);
        second.created = 1;
        all.lives = &second;
        assert_true(lives_released(&all));
        assert_int_equal(second.removed, 1);
        assert_true(second.removed_serial == second.serial);
        safe_close(parent);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "switch"), 0);
}

/* The mount point of a hierarchy that is not the memory controller's. */
static bool other_hierarchy(char *buf, size_t size) {
        FILE *f = setmntent("/proc/self/mounts", "re");
        struct mntent *m;
        bool found = false;

        while (f && !found && (m = getmntent(f)))
                if (strncmp(m->mnt_type, "cgroup", 6) == 0 && strcmp(m->mnt_dir, cgroups_mount()) != 0 && !hasmntopt(m, "memory")) {
                        (void)snprintf(buf, size, "%s/%s", m->mnt_dir, own_name());
                        if (mkdir(buf, 0755) == 0)
                                found = rmdir(buf) == 0;
                }
        if (f)
                (void)endmntent(f);
        return found;
}

typedef struct Named {
        const char *name;
        unsigned n;
        uint64_t serial; /* of the last one that has one */
} Named;

static void count_named(const struct sw_event *event, void *userdata) {
        Named *named = userdata;

        if (event->name_len != strlen(named->name) || memcmp(event + 1, named->name, event->name_len) != 0)
                return;
        named->n++;
        if (event->head.valid & SW_EVENT_SERIAL)
                named->serial = event->serial;
}

static void test_other_hierarchy(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(0);
        Named named = { .name = own_name() };
        char path[4200];

        (void)state;
        if (!other_hierarchy(path, sizeof(path)))
                skip_test("there is no other hierarchy that we may use");
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(rmdir(path), 0);
        (void)usleep(1000000);
        assert_true(events_drain(e, count_named, &named) >= 0);
        assert_int_equal(named.n, 0);
        note("%s: no event", path);
}

/* ---- least power ---- */

/* In a child cmocka's assertions would go on with the parent's next test. */
#define CHECK(condition)                                                       \
        do {                                                                   \
                if (!(condition)) {                                            \
                        note("line %d: %s does not hold", __LINE__, #condition); \
                        return 1;                                              \
                }                                                              \
        } while (0)

static int user_fd;

static int as_user(void) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        Named named = { .name = "by-nobody" };
        EventsFd stored[8] = {};
        uint64_t before, after;
        const EventsDeath *d = NULL;
        ProbeError error = {};
        EventsCounts counts;
        const EventsFd *fds;
        size_t n;
        Events *e;

        CHECK(become(BOTH) == 0);
        if (events_new(&e, 64, NULL, 0, &error) < 0) {
                note("%s", error.text);
                return 1;
        }
        CHECK(service_drop_capabilities() == 0);
        CHECK(get_capabilities() == 0);

        CHECK(mkdirat(user_fd, named.name, 0755) == 0);
        before = boot_usec();
        CHECK(unlinkat(user_fd, named.name, AT_REMOVEDIR) == 0);
        after = boot_usec();
        CHECK(events_drain(e, count_named, &named) >= 2);
        CHECK(named.n >= 2 && named.serial);
        CHECK(events_counts(e, &counts) == 0);
        CHECK(counts.created >= 1 && counts.removed >= 1);
        CHECK(events_put(e, UINT64_MAX, 4711) == 0);
        CHECK(events_deaths(e, &deaths, &n) == 0);
        for (size_t i = 0; i < n; i++)
                if (deaths[i].serial == named.serial)
                        d = deaths + i;
        CHECK(d && d->exact && d->boot_usec >= before && d->boot_usec <= after);

        /* A set in the store needs no capability at all. */
        fds = events_fds(e, &n);
        CHECK(n <= ELEMENTSOF(stored));
        for (size_t i = 0; i < n; i++) {
                memcpy(stored[i].name, fds[i].name, sizeof(stored[i].name));
                stored[i].fd = fcntl(fds[i].fd, F_DUPFD_CLOEXEC, 3);
                CHECK(stored[i].fd >= 0);
        }
        events_free(e);
        CHECK(events_new(&e, 64, stored, n, &error) == 0);
        CHECK(events_origin(e) == EVENTS_ADOPTED);
        CHECK(events_forget(e, (uint64_t[]){ named.serial, UINT64_MAX }, 2) == 0);
        freep(&deaths);
        CHECK(events_deaths(e, &deaths, &n) == 0);
        for (size_t i = 0; i < n; i++)
                CHECK(deaths[i].serial != named.serial && deaths[i].serial != UINT64_MAX);
        events_free(e);
        return 0;
}

static int refused(void) {
        int ours = memfd_create("ours", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
        EventsFd stored[] = { { "sw1-deaths", ours }, { "other", other } };
        ProbeError error = {};
        Events *e = NULL;

        CHECK(become(0) == 0);
        CHECK(events_new(&e, 0, stored, ELEMENTSOF(stored), &error) == -EPERM);
        note("%s", error.text);
        CHECK(!e && error.error == -EPERM && strstr(error.text, "CAP_BPF and CAP_PERFMON"));
        /* Ours is closed all the same, and what is not ours is not. */
        CHECK(stored[0].fd == -1 && fcntl(ours, F_GETFD) < 0);
        CHECK(stored[1].fd == other && fcntl(other, F_GETFD) >= 0);
        return 0;
}

static void in_child(int (*fn)(void)) {
        int status;
        pid_t pid;

        (void)fflush(stdout);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(fn());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_ordinary_user(void **state) {
        (void)state;
        user_fd = cgroup_make(cgroups_fd(), "user");
        assert_true(user_fd >= 0);
        assert_int_equal(fchown(user_fd, NOBODY, NOBODY), 0);
        assert_int_equal(cgroup_switch_memory(user_fd, true), 0);
        in_child(as_user);
        safe_close(user_fd);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "user"), 0);
}

static void test_no_capability(void **state) {
        (void)state;
        in_child(refused);
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lives),    cmocka_unit_test(test_names),    cmocka_unit_test(test_dying),
                cmocka_unit_test(test_put),      cmocka_unit_test(test_full_map), cmocka_unit_test(test_full_ring),
                cmocka_unit_test(test_wakeup),   cmocka_unit_test(test_detached), cmocka_unit_test(test_renamed),
                cmocka_unit_test(test_switched), cmocka_unit_test(test_other_hierarchy),
                cmocka_unit_test(test_ordinary_user), cmocka_unit_test(test_no_capability),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-events", .limit_sec = 120, .run = run });
}
