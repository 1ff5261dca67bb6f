/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "life.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"

uint64_t boot_usec(void) {
        struct timespec ts;

        assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &ts), 0);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void life_make(Life *l, int parent, const char *name) {
        *l = (Life){};
        (void)snprintf(l->name, sizeof(l->name), "%s", name);
        l->made_before = boot_usec();
        assert_int_equal(cgroup_mkdir(parent, name), 0);
        l->made_after = boot_usec();
        l->id = cgroup_id(parent, name);
        assert_true(l->id != 0);
}

void life_look(Life *lives, size_t n) {
        _cleanup_(reading_freep) Reading *r = look(0);

        for (size_t i = 0; i < n; i++) {
                uint32_t k = look_find(r->census, lives[i].id, CENSUS_LIVE);

                if (k == CENSUS_NONE)
                        fail_test("%s is not in the census", lives[i].name);
                lives[i].serial = r->census->memcgs[k].serial;
                lives[i].level = r->census->memcgs[k].level;
        }
}

void life_remove(Life *l, int parent) {
        l->removed_before = boot_usec();
        assert_int_equal(cgroup_remove(parent, l->name), 0);
        l->removed_after = boot_usec();
}

void lives_pass(Life *lives, size_t n) {
        char name[32];

        for (size_t i = 0; i < n; i++) {
                (void)snprintf(name, sizeof(name), "ev%zu", i);
                life_make(lives + i, cgroups_fd(), name);
        }
        life_look(lives, n);
        for (size_t i = 0; i < n; i++)
                life_remove(lives + i, cgroups_fd());
}

void lives_flash(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                assert_int_equal(cgroup_mkdir(cgroups_fd(), "flash"), 0);
                assert_int_equal(cgroup_remove(cgroups_fd(), "flash"), 0);
        }
}

static Life *find_life(Lives *l, uint64_t id) {
        for (size_t i = 0; i < l->n; i++)
                if (l->lives[i].id == id)
                        return l->lives + i;
        return NULL;
}

void life_record(const struct sw_event *event, void *userdata) {
        Lives *all = userdata;
        const char *name = (const char *)(event + 1);
        size_t room = event->head.size - sizeof(*event);
        Life *l;

        all->records++;
        assert_int_equal(event->head.type, SW_TYPE_EVENT);
        assert_int_equal(room, ALIGN8((size_t)event->name_len));
        assert_int_equal((uintptr_t)event % 8, 0);
        assert_true(event->head.valid & SW_EVENT_NAME && event->name_len > 0);
        for (size_t i = event->name_len; i < room; i++)
                assert_int_equal(name[i], 0);
        assert_int_equal(!(event->head.valid & SW_EVENT_SERIAL), event->kind == SW_EVENT_RELEASED);
        assert_int_equal(event->serial == 0, event->kind == SW_EVENT_RELEASED);

        l = find_life(all, event->cgroup_id);
        if (!l)
                return;
        assert_int_equal(event->name_len, strlen(l->name));
        assert_memory_equal(name, l->name, event->name_len);
        switch (event->kind) {
        case SW_EVENT_CREATED:
                l->created++;
                l->created_serial = event->serial;
                l->created_usec = event->boot_nsec / 1000;
                break;
        case SW_EVENT_REMOVED:
                l->removed++;
                l->removed_serial = event->serial;
                l->removed_usec = event->boot_nsec / 1000;
                break;
        case SW_EVENT_RELEASED:
                assert_int_equal(l->removed, 1);
                l->released++;
                break;
        default:
                fail_test("an event of kind %u", event->kind);
        }
        if (l->level)
                assert_int_equal(event->level, l->level);
}

static bool all_released(void *userdata) {
        Lives *l = userdata;

        assert_true(events_drain(l->events, life_record, l) >= 0);
        for (size_t i = 0; i < l->n; i++)
                if (!l->lives[i].released)
                        return false;
        return true;
}

bool lives_released(Lives *l) {
        return wait_until(30, all_released, l);
}

const EventsDeath *find_death(const EventsDeath *deaths, size_t n, uint64_t serial) {
        const EventsDeath *found = NULL;

        for (size_t i = 0; i < n; i++)
                if (deaths[i].serial == serial) {
                        assert_null(found); /* once, not twice */
                        found = deaths + i;
                }
        return found;
}

void expect_deaths(const Events *e, const Life *lives, size_t n) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        size_t n_deaths;

        assert_int_equal(events_deaths(e, &deaths, &n_deaths), 0);
        for (size_t i = 0; i < n; i++) {
                const EventsDeath *d = find_death(deaths, n_deaths, lives[i].serial);

                if (!d)
                        fail_test("%s, serial %" PRIu64 ", has no time of death; %zu have, %" PRIu64 " were lost", lives[i].name, lives[i].serial,
                                  n_deaths, counts_of(e).lost_deaths);
                assert_true(d->exact);
                if (d->boot_usec < lives[i].removed_before || d->boot_usec > lives[i].removed_after)
                        fail_test("%s was removed between %" PRIu64 " and %" PRIu64 ", not at %" PRIu64, lives[i].name, lives[i].removed_before,
                                  lives[i].removed_after, d->boot_usec);
        }
}

void expect_no_death(const Events *e, const Life *lives, size_t n) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        size_t n_deaths;

        assert_int_equal(events_deaths(e, &deaths, &n_deaths), 0);
        for (size_t i = 0; i < n; i++)
                if (find_death(deaths, n_deaths, lives[i].serial))
                        fail_test("%s, serial %" PRIu64 ", has a time of death", lives[i].name, lives[i].serial);
}

Events *fresh_events(uint32_t max_deaths) {
        ProbeError error = {};
        Events *e;

        if (events_new(&e, max_deaths, NULL, 0, &error) < 0)
                fail_test("%s", error.text);
        assert_int_equal(events_origin(e), EVENTS_FRESH);
        return e;
}

EventsCounts counts_of(const Events *e) {
        EventsCounts c;

        assert_int_equal(events_counts(e, &c), 0);
        return c;
}
