/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bounds of the life events: a map and a ring that are full, what is counted as lost then, and who is woken before. And what user
 * space puts into the map itself. Others on this machine may make and remove cgroups, which take room, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "life.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"

#define ROOM 4096U
#define PAIRS 5003U /* more than the ring has room for: a record of ours takes 56 bytes */

/* As many as find room; others on this machine may take some. Returns how many did. */
static uint32_t fill(Events *e, uint32_t n) {
        uint32_t i = 0;

        while (i < n && events_put(e, UINT64_MAX - 1000 - i, 1) == 0)
                i++;
        return i;
}

static void test_put(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(ROOM);
        _cleanup_(freep) EventsDeath *deaths = NULL;
        const EventsDeath *d;
        Life life;
        size_t n;

        (void)state;
        life_make(&life, cgroups_fd(), "put");
        life_look(&life, 1);
        /* A census may say "dying" of one that is just being removed: what the program sees is better. */
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

        assert_true(fill(e, ROOM) < ROOM - 2);
        assert_int_equal(events_put(e, UINT64_MAX - 2, 1), -E2BIG);
        assert_int_equal(events_put(e, UINT64_MAX, 1), 0);
        /* A full map takes what replaces an entry; and nothing replaces an exact time. */
        life_remove(&life, cgroups_fd());
        expect_deaths(e, &life, 1);
        assert_int_equal(events_put(e, life.serial, 17), 0);
        expect_deaths(e, &life, 1);
}

static void test_full_map(void **state) {
        _cleanup_(events_freep) Events *e = fresh_events(ROOM);
        _cleanup_(freep) EventsDeath *deaths = NULL;
        Life lives[13];
        Lives all = { .lives = lives, .n = ELEMENTSOF(lives), .events = e };
        EventsCounts counts;
        uint32_t put;
        size_t n;

        (void)state;
        assert_int_equal(events_max_deaths(e), ROOM);
        put = fill(e, ROOM - 8);
        lives_pass(lives, ELEMENTSOF(lives));
        assert_int_equal(events_deaths(e, &deaths, &n), 0);
        assert_int_equal(n, ROOM);
        /* Others may remove one just now. */
        for (unsigned i = 0; i < 100; i++) {
                counts = counts_of(e);
                if (counts.lost_deaths == counts.removed - (ROOM - put))
                        break;
        }
        note("%" PRIu64 " removed, %u had room, %" PRIu64 " were lost", counts.removed, ROOM - put, counts.lost_deaths);
        assert_int_equal(counts.lost_deaths, counts.removed - (ROOM - put));
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

/* The ring: a quarter of it is a thousand records of ours. */
static void wake_by_ring(_unused_ Events *e, int epoll) {
        lives_flash(101);
        assert_int_equal(wait_for(epoll, 300), 0);
        lives_flash(PAIRS / 4);
        assert_int_equal(wait_for(epoll, 5000), 1);
}

/* The map: user space has put nearly half of it there. And again with every sixteenth more. */
static void wake_by_map(Events *e, int epoll) {
        const uint64_t put = ROOM / 2 - 199;
        Lives none = {};

        assert_int_equal(fill(e, put), put);
        lives_flash(97);
        assert_int_equal(wait_for(epoll, 300), 0);
        lives_flash(107);
        assert_int_equal(wait_for(epoll, 5000), 1);
        assert_true(events_drain(e, life_record, &none) > 0);
        assert_int_equal(wait_for(epoll, 0), 0);
        lives_flash(97);
        assert_int_equal(wait_for(epoll, 300), 0);
        lives_flash(ROOM / 16 - 97);
        assert_int_equal(wait_for(epoll, 5000), 1);
        assert_true(events_drain(e, life_record, &none) > 0);
        assert_int_equal(wait_for(epoll, 0), 0);
        /* What was forgotten takes no room. */
        for (uint64_t i = 0; i < put; i++)
                assert_int_equal(events_forget(e, (uint64_t[]){ UINT64_MAX - 1000 - i }, 1), 0);
        lives_flash(ROOM / 16 + 7);
        assert_int_equal(wait_for(epoll, 300), 0);
}

static bool is_quiet(void *userdata) {
        EventsCounts before = counts_of(userdata), after;

        (void)usleep(1000000);
        after = counts_of(userdata);
        return after.created - before.created + after.removed - before.removed + after.released - before.released < 20;
}

/* Nobody is woken for each cgroup. */
static void test_wakeup(void **state) {
        void (*const ways[])(Events *e, int epoll) = { wake_by_ring, wake_by_map };

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(ways); i++) {
                struct epoll_event event = { .events = EPOLLIN };
                _cleanup_(closep) int epoll = epoll_create1(EPOLL_CLOEXEC);
                _cleanup_(events_freep) Events *e = fresh_events(ROOM);

                /* What others do counts, too, and what is still to be released of ours. */
                if (!wait_until(30, is_quiet, e))
                        skip_test("others make and remove too many cgroups here");
                assert_true(epoll >= 0);
                assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, events_fd(e), &event), 0);
                if (wait_for(epoll, 0) > 0) {
                        Lives none = {};

                        assert_true(events_drain(e, life_record, &none) > 0);
                        assert_int_equal(wait_for(epoll, 0), 0);
                }
                ways[i](e, epoll);
        }
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_put),
                cmocka_unit_test(test_full_map),
                cmocka_unit_test(test_full_ring),
                cmocka_unit_test(test_wakeup),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-events-room", .limit_sec = 200, .run = run });
}
