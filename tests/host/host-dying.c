/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Dying memcgs: pinned by pages and by sockets, under one name again and again, and beside a live one when the controller is switched off
 * and on. They appear with path, units and exact references, the kernel counts as many, and they go when the pin goes.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "daemon/pins.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/mounts.h"
#include "tests/common/supervise.h"

#define DYING 31U
#define PAGES 7U
#define AGAIN 13U

/* What the kernel says is dying in our subtree; what says so in *ret_source. -EOPNOTSUPP on v1, which tells only of the whole machine. */
static int kernel_dying(uint64_t *ret, const char **ret_source) {
        if (!cgroups_v2())
                return -EOPNOTSUPP;
        *ret_source = "nr_dying_subsys_memory";
        if (cgroup_read_key(cgroups_fd(), "cgroup.stat", *ret_source, ret) == 0)
                return 0;
        *ret_source = "nr_dying_descendants";
        return cgroup_read_key(cgroups_fd(), "cgroup.stat", *ret_source, ret);
}

typedef struct Want {
        uint32_t dying;
        uint64_t kernel;
        const char *source;
        bool has_kernel;
} Want;

static bool is_dying(void *userdata) {
        Want *w = userdata;
        Reading *r = look(0);
        uint32_t own = look_own(r->census), n = look_own_dying(r->census), offline = 0;

        for (uint32_t i = own; i < own + r->census->memcgs[own].subtree_memcgs; i++)
                offline += r->census->memcgs[i].offline;
        w->has_kernel = kernel_dying(&w->kernel, &w->source) == 0;
        reading_free(r);
        return n == w->dying && offline == n && (!w->has_kernel || w->kernel == w->dying);
}

/* So many dying ones, by the census and by the kernel, within a time. */
static void expect_dying(uint32_t n, const char *what) {
        Want w = { .dying = n };

        if (!wait_until(20, is_dying, &w)) {
                Reading *r = look(0);

                fail_test("%s: %u dying in the census, not %u; by the kernel's count %" PRIu64, what, look_own_dying(r->census), n,
                          w.has_kernel ? w.kernel : UINT64_MAX);
        }
        if (n > 0)
                note("%s: %u dying%s%s", what, n, w.has_kernel ? ", as in " : "", w.has_kernel ? w.source : "");
}

/*
 * The whole machine's, on v1: memcgs that are no directory. Others may come and go: compared when the kernel's count is the same before
 * and after the census.
 */
static void expect_machine_agrees(void) {
        uint64_t before = 0, after = 0, memcgs = 0, last[2] = {};
        unsigned same = 0;

        for (unsigned i = 0; i < 200 && same < 40; i++) {
                _cleanup_(reading_freep) Reading *r = NULL;

                if (cgroups_kernel_count(&before) < 0)
                        return;
                r = look(0);
                if (cgroups_kernel_count(&after) < 0)
                        return;
                memcgs = r->census->totals.memcgs;
                if (r->settled && before == after && memcgs == before) {
                        note("memcgs of the machine, the dying included: %" PRIu64 ", as in /proc/cgroups", memcgs);
                        return;
                }
                /* A cgroup counts until it is freed, a grace period after its memcg is off the list. */
                same = r->settled && before == after && memcgs == last[0] && before == last[1] ? same + 1 : 0;
                last[0] = memcgs;
                last[1] = before;
                (void)usleep(50000);
        }
        if (same >= 40)
                fail_test("the census has %" PRIu64 " memcgs, /proc/cgroups %" PRIu64 ", and both hold still", memcgs, before);
        note("the machine did not hold still: not compared with /proc/cgroups");
}

static void check_dying(const Census *c, uint32_t i, const char *path) {
        const ProbeFacts *f = probe_facts(look_probe());
        const CensusMemcg *m = c->memcgs + i;
        _cleanup_(freep) char *p = census_path(c, i, NULL);

        assert_int_equal(m->state, CENSUS_DYING);
        assert_true(m->offline);
        assert_non_null(p);
        assert_non_null(strstr(p, path));
        assert_string_equal(strstr(p, path), path);
        assert_true(m->valid & SW_MEMCG_REFS);
        assert_true(m->refs > 0);
        assert_int_equal(m->n_nodes, f->n_possible_nodes);
        if (c->allocation == CENSUS_ALLOCATION_EAGER)
                assert_int_equal(m->units, (uint64_t)f->n_possible_nodes * look_slots(f, c->totals.ids));
        assert_true(census_overhead(m) > 0);
}

static bool folios_hold(void) {
        uint64_t id, value;
        int fd = cgroup_make(cgroups_fd(), "try");
        char path[256];
        bool there;

        /* Whether a page alone keeps a memcg: kernels that reparent folios let it go. Asked of a kernel that counts, else found out. */
        assert_true(fd >= 0);
        id = cgroup_id_fd(fd);
        mounts_path(0, "try", path, sizeof(path));
        assert_int_equal(hold_by_pages(fd, path, 1), 0);
        safe_close(fd);
        assert_int_equal(cgroup_remove(cgroups_fd(), "try"), 0);
        (void)usleep(1500000);
        {
                _cleanup_(reading_freep) Reading *r = look(0);
                const char *source;

                there = look_find(r->census, id, CENSUS_DYING) != CENSUS_NONE;
                if (kernel_dying(&value, &source) == 0)
                        assert_int_equal(there, value > 0);
        }
        (void)unlink(path);
        return there;
}

static void test_pages(void **state) {
        _cleanup_(reading_freep) Reading *r = NULL;
        uint64_t ids[DYING];
        char name[32], path[256];
        uint32_t exact = 0;

        (void)state;
        assert_int_equal(mounts_make(1), 0);
        if (!folios_hold()) {
                expect_dying(0, "afterwards");
                assert_int_equal(mounts_drop(1), 0);
                skip_test("this kernel gives the folios of a removed cgroup to its parent: a page is no pin");
        }
        expect_dying(0, "afterwards");
        for (unsigned i = 0; i < DYING; i++) {
                int fd;

                (void)snprintf(name, sizeof(name), "page%u", i);
                fd = cgroup_make(cgroups_fd(), name);
                assert_true(fd >= 0);
                ids[i] = cgroup_id_fd(fd);
                mounts_path(0, name, path, sizeof(path));
                assert_int_equal(hold_by_pages(fd, path, PAGES), 0);
                safe_close(fd);
                assert_int_equal(cgroup_remove(cgroups_fd(), name), 0);
        }
        expect_dying(DYING, "written pages");
        if (!cgroups_v2())
                expect_machine_agrees();

        /* One reference a folio, once nothing transient is left (what CPUs keep charged in advance). */
        for (unsigned tries = 0; tries < 100 && exact < DYING; tries++) {
                reading_freep(&r);
                (void)usleep(50000);
                r = look(0);
                exact = 0;
                for (unsigned i = 0; i < DYING; i++) {
                        uint32_t k = look_find(r->census, ids[i], CENSUS_DYING);

                        assert_true(k != CENSUS_NONE);
                        exact += r->census->memcgs[k].refs == PAGES;
                }
        }
        for (unsigned i = 0; i < DYING; i++) {
                uint32_t k = look_find(r->census, ids[i], CENSUS_DYING);

                (void)snprintf(name, sizeof(name), "/page%u", i);
                check_dying(r->census, k, name);
                assert_int_equal(r->census->memcgs[k].parent, look_own(r->census));
        }
        note("%u of %u have exactly the %u references of their folios", exact, DYING, PAGES);
        assert_int_equal(exact, DYING);
        assert_int_equal(r->census->memcgs[look_own(r->census)].subtree_dying, DYING);

        /* One by one: the page goes, the memcg goes. */
        for (unsigned i = 0; i < 5; i++) {
                (void)snprintf(name, sizeof(name), "page%u", i);
                mounts_path(0, name, path, sizeof(path));
                assert_int_equal(unlink(path), 0);
        }
        expect_dying(DYING - 5, "5 files removed");
        assert_int_equal(mounts_drop(1), 0);
        expect_dying(0, "unmounted");
}

/* A census in which that memcg has so many references: some that pass (charges in advance, reclaim) may add for a moment. */
static Reading *look_refs(uint64_t id, uint64_t refs, uint32_t *ret_index) {
        uint64_t last = 0;

        for (unsigned tries = 0; tries < 200; tries++) {
                Reading *r = look(READING_RINGS);
                uint32_t k = look_find(r->census, id, CENSUS_DYING);

                if (k != CENSUS_NONE && r->census->memcgs[k].valid & SW_MEMCG_REFS && r->census->memcgs[k].refs == refs) {
                        *ret_index = k;
                        return r;
                }
                if (k != CENSUS_NONE)
                        last = r->census->memcgs[k].refs;
                reading_free(r);
                (void)usleep(50000);
        }
        fail_test("the memcg has %" PRIu64 " references, not %" PRIu64, last, refs);
}

static void test_socket(void **state) {
        _cleanup_(reading_freep) Reading *r = NULL;
        const Pin *pins;
        uint64_t id, explained, sum = 0;
        size_t n_pins;
        int fd, child, s;
        uint32_t k, c;

        (void)state;
        fd = cgroup_make(cgroups_fd(), "parent");
        assert_true(fd >= 0);
        assert_int_equal(cgroup_switch_memory(fd, true), 0);
        child = cgroup_make(fd, "socket");
        assert_true(child >= 0);
        id = cgroup_id_fd(child);
        s = hold_by_socket(child);
        if (s == -EOPNOTSUPP)
                skip_test("sockets are not charged to a memcg here");
        assert_true(s >= 0);
        assert_int_equal(cgroup_remove(fd, "socket"), 0);
        safe_close(child);
        expect_dying(1, "a socket");

        r = look_refs(id, 1, &k);
        check_dying(r->census, k, "/parent/socket");
        assert_true(pins_get(r->pins, k, &pins, &n_pins));
        for (size_t i = 0; i < n_pins; i++)
                sum += pins[i].refs;
        assert_int_equal(sum, 1);
        assert_true(pins_explained(r->pins, k, &explained));
        /* A socket is not among the cheap evidence. */
        assert_int_equal(explained, 0);
        assert_int_equal(pins[0].cause, PIN_UNEXPLAINED);

        /* Its parent is removed as well: kept by the child, and told so. */
        assert_int_equal(cgroup_remove(cgroups_fd(), "parent"), 0);
        id = cgroup_id_fd(fd);
        safe_close(fd);
        expect_dying(2, "a socket and the parent of its cgroup");
        reading_freep(&r);
        r = look_refs(id, 1, &k);
        c = r->census->memcgs[look_own(r->census)].subtree_memcgs;
        assert_int_equal(c, 3);
        assert_int_equal(k, look_own(r->census) + 1);
        check_dying(r->census, k, "/parent");
        check_dying(r->census, k + 1, "/parent/socket");
        assert_int_equal(r->census->memcgs[k].n_children, 1);
        assert_int_equal(r->census->memcgs[k + 1].nearest_live, look_own(r->census));
        assert_true(pins_get(r->pins, k, &pins, &n_pins));
        assert_int_equal(n_pins, 1);
        assert_int_equal(pins[0].cause, PIN_CHILD);
        assert_int_equal(pins[0].refs, 1);
        assert_true(pins[0].exact);
        assert_int_equal(r->census->memcgs[k].refs, 1);

        safe_close(s);
        expect_dying(0, "closed");
}

/* The same name, made and removed again and again, each time with something that stays. */
static void test_same_name(void **state) {
        _cleanup_(reading_freep) Reading *r = NULL;
        _cleanup_(freep) char *path = NULL;
        uint64_t last_serial = 0;
        int sockets[AGAIN];
        uint32_t own, n = 0, found;
        size_t len;

        (void)state;
        for (unsigned i = 0; i < AGAIN; i++) {
                int fd = cgroup_make(cgroups_fd(), "same");

                assert_true(fd >= 0);
                sockets[i] = hold_by_socket(fd);
                safe_close(fd);
                if (sockets[i] == -EOPNOTSUPP)
                        skip_test("sockets are not charged to a memcg here");
                assert_true(sockets[i] >= 0);
                assert_int_equal(cgroup_remove(cgroups_fd(), "same"), 0);
        }
        expect_dying(AGAIN, "one name");
        r = look(0);
        own = look_own(r->census);
        for (uint32_t k = own + 1; k < own + r->census->memcgs[own].subtree_memcgs; k++) {
                check_dying(r->census, k, "/same");
                assert_true(r->census->memcgs[k].serial > last_serial);
                last_serial = r->census->memcgs[k].serial;
                n++;
        }
        assert_int_equal(n, AGAIN);
        /* The newest dying one, until there is a live one. */
        path = census_path(r->census, own + 1, &len);
        assert_non_null(path);
        found = census_find_path(r->census, path, len);
        assert_true(found != CENSUS_NONE);
        assert_int_equal(r->census->memcgs[found].serial, last_serial);
        reading_freep(&r);
        assert_int_equal(cgroup_mkdir(cgroups_fd(), "same"), 0);
        r = look(0);
        found = census_find_path(r->census, path, len);
        assert_true(found != CENSUS_NONE);
        assert_int_equal(r->census->memcgs[found].state, CENSUS_LIVE);
        assert_int_equal(r->census->memcgs[found].cgroup_id, cgroup_id(cgroups_fd(), "same"));
        assert_int_equal(look_own_dying(r->census), AGAIN);
        assert_int_equal(cgroup_remove(cgroups_fd(), "same"), 0);
        for (unsigned i = 0; i < AGAIN; i++)
                safe_close(sockets[i]);
        expect_dying(0, "closed");
}

/* A controller switched off on a live cgroup, and on again: two memcgs of one cgroup. */
static void test_switched(void **state) {
        _cleanup_(reading_freep) Reading *r = NULL;
        _cleanup_(freep) char *path = NULL;
        uint32_t dying, live;
        uint64_t id, value;
        int parent, fd, s;
        size_t len;

        (void)state;
        if (!cgroups_v2())
                skip_test("on a v1 hierarchy a cgroup cannot lose its controller");
        parent = cgroup_make(cgroups_fd(), "switched");
        assert_true(parent >= 0);
        assert_int_equal(cgroup_switch_memory(parent, true), 0);
        fd = cgroup_make(parent, "child");
        assert_true(fd >= 0);
        id = cgroup_id_fd(fd);
        s = hold_by_socket(fd);
        assert_true(s >= 0);

        assert_int_equal(cgroup_switch_memory(parent, false), 0);
        (void)usleep(500000);
        r = look_settled(0, 20);
        assert_non_null(r);
        assert_int_equal(look_find(r->census, id, CENSUS_LIVE), CENSUS_NONE);
        dying = look_find(r->census, id, CENSUS_DYING);
        assert_true(dying != CENSUS_NONE);
        check_dying(r->census, dying, "/switched/child");
        assert_int_equal(look_own_dying(r->census), 1);
        reading_freep(&r);

        assert_int_equal(cgroup_switch_memory(parent, true), 0);
        r = look_settled(0, 20);
        assert_non_null(r);
        dying = look_find(r->census, id, CENSUS_DYING);
        live = look_find(r->census, id, CENSUS_LIVE);
        assert_true(dying != CENSUS_NONE && live != CENSUS_NONE);
        assert_true(r->census->memcgs[live].serial > r->census->memcgs[dying].serial);
        assert_int_equal(r->census->memcgs[live].parent, r->census->memcgs[dying].parent);
        check_dying(r->census, dying, "/switched/child");
        path = census_path(r->census, dying, &len);
        assert_non_null(path);
        assert_int_equal(census_find_path(r->census, path, len), live);
        if (cgroup_read_key(cgroups_fd(), "cgroup.stat", "nr_dying_subsys_memory", &value) == 0) {
                assert_int_equal(value, 1);
                note("one id, two memcgs: serials %" PRIu64 " (dying, as nr_dying_subsys_memory has it) and %" PRIu64 " (live)",
                     r->census->memcgs[dying].serial, r->census->memcgs[live].serial);
        } else
                note("one id, two memcgs; this kernel does not count memcgs that die in a live cgroup");
        safe_close(fd);
        safe_close(parent);
        safe_close(s);
        assert_true(wait_none_dying(20));
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "switched"), 0);
        expect_dying(0, "removed");
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pages),
                cmocka_unit_test(test_socket),
                cmocka_unit_test(test_same_name),
                cmocka_unit_test(test_switched),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-dying", .limit_sec = 280, .run = run });
}
