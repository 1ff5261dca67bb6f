/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names are bytes: as long as they may be, in no encoding, with control bytes; and trees whose paths are longer than PATH_MAX. */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/resource.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "daemon/escape.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"

#define DEPTH 300U
#define DEPTH_WALKED 1100U /* more levels than the walk remembers */

static void fill_name(char *name, size_t len, unsigned char first) {
        unsigned char c = first;

        for (size_t i = 0; i < len; i++) {
                /* cgroup_mkdir() refuses a newline: /proc/PID/cgroup would be ambiguous. */
                while (c == 0 || c == '/' || c == '\n')
                        c++;
                name[i] = (char)c++;
        }
        name[len] = 0;
}

static void test_names(void **state) {
        static const char *const fixed[] = {
                "back\\slash", "\\x41", "\\", " ", "space at end ", "-", "...", ".hidden", "~", "\xff", "\xc3\xa4", "\xc3", "\xed\xa0\x80",
                "tab\there", "\x1b[31mred\x1b[0m", "\x7f", ("\xe2\x80\xae" "rtl"), "a%sb%n", "{\"json\":1}", "quote'\"`$(x)", "\r", "cgroup.mine",
        };
        char names[ELEMENTSOF(fixed) + 6][NAME_MAX + 1];
        uint64_t ids[ELEMENTSOF(names)];
        _cleanup_(reading_freep) Reading *r = NULL;
        _cleanup_(freep) char *own = NULL;
        size_t own_len, n = 0;

        (void)state;
        for (size_t i = 0; i < ELEMENTSOF(fixed); i++)
                (void)snprintf(names[n++], sizeof(names[0]), "%s", fixed[i]);
        memset(names[n], 'L', NAME_MAX); /* the longest */
        names[n++][NAME_MAX] = 0;
        for (unsigned len = 247; len < 250; len++) /* around a multiple of eight: records are padded */
                fill_name(names[n++], len, 'A');
        fill_name(names[n++], NAME_MAX, 1);   /* every byte there can be, but for three */
        fill_name(names[n++], NAME_MAX, 128);
        assert_int_equal(n, ELEMENTSOF(names));

        for (size_t i = 0; i < n; i++) {
                int k = cgroup_mkdir(cgroups_fd(), names[i]);

                if (k < 0)
                        fail_test("cannot make cgroup %zu: %s", i, strerror(-k));
                ids[i] = cgroup_id(cgroups_fd(), names[i]);
                assert_true(ids[i] != 0);
        }
        r = look_settled(0, 30);
        assert_non_null(r);
        own = census_path(r->census, look_own(r->census), &own_len);
        assert_non_null(own);
        assert_int_equal(r->census->memcgs[look_own(r->census)].subtree_memcgs, 1 + n);
        for (size_t i = 0; i < n; i++) {
                uint32_t k = look_find(r->census, ids[i], CENSUS_LIVE);
                _cleanup_(freep) char *path = NULL, *escaped = NULL;
                size_t len, escaped_len;

                assert_true(k != CENSUS_NONE);
                assert_int_equal(r->census->memcgs[k].name_len, strlen(names[i]));
                assert_memory_equal(census_name(r->census, k), names[i], strlen(names[i]) + 1);
                path = census_path(r->census, k, &len);
                assert_non_null(path);
                assert_int_equal(len, own_len + 1 + strlen(names[i]));
                assert_memory_equal(path, own, own_len);
                assert_int_equal(path[own_len], '/');
                assert_string_equal(path + own_len + 1, names[i]);
                assert_int_equal(census_find_path(r->census, path, len), k);
                escaped = escape_text(path, len, 0, &escaped_len);
                assert_non_null(escaped);
                for (size_t b = 0; b < escaped_len; b++)
                        assert_true((unsigned char)escaped[b] >= 32 && escaped[b] != 127);
        }
        for (size_t i = 0; i < n; i++)
                assert_int_equal(cgroup_remove(cgroups_fd(), names[i]), 0);
        assert_true(wait_none_dying(20));
}

/* A chain of cgroups; returns the id of the lowest. */
static uint64_t make_chain(unsigned depth, const char *format) {
        int fd = dup(cgroups_fd());
        uint64_t id = 0;

        assert_true(fd >= 0);
        for (unsigned i = 0; i < depth; i++) {
                char name[64];
                int next;

                (void)snprintf(name, sizeof(name), format, i);
                next = cgroup_make(fd, name);
                if (next < 0)
                        fail_test("cannot make a cgroup at depth %u: %s", i, strerror(-next));
                safe_close(fd);
                fd = next;
                assert_int_equal(cgroup_switch_memory(fd, true), 0);
        }
        id = cgroup_id_fd(fd);
        safe_close(fd);
        return id;
}

static void check_chain(const Census *c, unsigned depth, const char *format, uint64_t lowest) {
        _cleanup_(freep) char *path = NULL;
        uint32_t own = look_own(c), k = look_find(c, lowest, CENSUS_LIVE);
        size_t len, own_len;
        const char *p;

        assert_int_equal(c->memcgs[own].subtree_memcgs, 1 + depth);
        assert_int_equal(k, own + depth);
        assert_int_equal(c->memcgs[k].level, c->memcgs[own].level + depth);
        for (uint32_t i = own + 1; i <= k; i++)
                assert_int_equal(c->memcgs[i].parent, i - 1);
        path = census_path(c, own, &own_len);
        assert_non_null(path);
        freep(&path);
        path = census_path(c, k, &len);
        assert_non_null(path);
        p = path + own_len;
        for (unsigned i = 0; i < depth; i++) {
                char name[64];

                (void)snprintf(name, sizeof(name), format, i);
                assert_int_equal(*p++, '/');
                assert_memory_equal(p, name, strlen(name));
                p += strlen(name);
        }
        assert_int_equal(*p, 0);
        assert_int_equal((size_t)(p - path), len);
        assert_int_equal(census_find_path(c, path, len), k);
        note("%u levels, a path of %zu bytes (PATH_MAX is %d)", c->memcgs[k].level, len, PATH_MAX);
}

static void test_deep(void **state) {
        static const char format[] = "a-name-of-thirty-one-bytes-%04u";
        _cleanup_(reading_freep) Reading *r = NULL;
        uint64_t lowest = make_chain(DEPTH, format);

        (void)state;
        r = look_settled(0, 30);
        assert_non_null(r);
        check_chain(r->census, DEPTH, format, lowest);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "a-name-of-thirty-one-bytes-0000"), 0);
        assert_true(wait_none_dying(60));
}

static uint64_t lowest_walked; /* the lowest of the chain of the two tests below; 0: there is none */

/* Deeper than what the walk remembers of its way, in slices of all lengths. */
static void test_deeper(void **state) {
        const int64_t budgets[] = { PROBE_BUDGET_LEAST, 4096, 0 };

        (void)state;
        lowest_walked = make_chain(DEPTH_WALKED, "d%u");
        for (size_t i = 0; i < ELEMENTSOF(budgets); i++) {
                Reading *r;

                probe_set_budget(look_probe(), budgets[i]);
                r = look_settled(0, 30);
                assert_non_null(r);
                check_chain(r->census, DEPTH_WALKED, "d%u", lowest_walked);
                reading_free(r);
        }
        probe_set_budget(look_probe(), 0);
}

#define BESIDE 60U /* leaves behind the chain: several slices of them */

/* A walk that comes back from the depth and finds, slice by slice, that the leaf it stood on is gone. */
typedef struct Climb {
        Census *census;
        int top;              /* the directory with the chain, and behind it the leaves */
        uint64_t ids[BESIDE]; /* of the leaves */
        uint64_t last_id;     /* of the memcg that was told last */
        bool removed[BESIDE];
        unsigned n_removed, n_gone;
} Climb;

static int on_climb(const struct sw_head *record, void *userdata) {
        Climb *climb = userdata;

        if (record->type == SW_TYPE_MEMCG)
                climb->last_id = ((const struct sw_memcg *)record)->cgroup_id;
        return census_add(climb->census, record);
}

/* How many cgroups the kernel still keeps, as far as it tells: those of v1's whole hierarchy, or the dying ones below our directory. */
static uint64_t kept(const Climb *climb) {
        uint64_t n = 0;

        if (cgroups_v2())
                assert_int_equal(cgroup_read_key(climb->top, "cgroup.stat", "nr_dying_descendants", &n), 0);
        else
                assert_int_equal(cgroups_kernel_count(&n), 0);
        return n;
}

static void on_climb_slice(void *userdata) {
        Climb *climb = userdata;

        for (unsigned i = 0; i < BESIDE; i++) {
                uint64_t before;
                char name[16];

                if (climb->ids[i] != climb->last_id || climb->removed[i])
                        continue;
                before = kept(climb);
                (void)snprintf(name, sizeof(name), "s%u", i);
                assert_int_equal(cgroup_remove(climb->top, name), 0);
                climb->removed[i] = true;
                climb->n_removed++;
                /* Released, not removed alone: only then it is off its parent's list. */
                for (unsigned k = 0; k < 100; k++) {
                        if (cgroups_v2() ? kept(climb) == 0 : kept(climb) < before) {
                                climb->n_gone++;
                                break;
                        }
                        (void)usleep(10000);
                }
        }
}

/*
 * On the chain of the test before: nothing else of ours is dying, so it can be told when a leaf is gone.
 *
 * Where the walk comes back to from more than 1,024 levels below, the place of the level above was a descendant's. It stands on a leaf
 * there; the leaf goes; the way on is its parent's.
 */
static void test_back(void **state) {
        const ProbeFacts *f = probe_facts(look_probe());
        const CensusOptions options = {
                .flat = f->layout == PROBE_LAYOUT_FLAT,
                .unit_struct_bytes = f->unit_struct_bytes,
                .n_nodes = f->n_possible_nodes,
                .alloc = look_alloc,
        };
        Climb climb = {};
        ProbeStats stats = {};
        ProbeError e = {};
        uint32_t top;
        int r;

        (void)state;
        if (!lowest_walked)
                fail_test("there is no chain");
        climb.top = openat(cgroups_fd(), "d0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(climb.top >= 0);
        for (unsigned i = 0; i < BESIDE; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "s%u", i);
                assert_int_equal(cgroup_mkdir(climb.top, name), 0);
                climb.ids[i] = cgroup_id(climb.top, name);
        }
        assert_int_equal(census_new(&climb.census, &options), 0);

        probe_set_budget(look_probe(), PROBE_BUDGET_LEAST);
        probe_set_between(look_probe(), on_climb_slice, &climb);
        r = probe_walk(look_probe(), 0, on_climb, &climb, &stats, &e);
        probe_set_between(look_probe(), NULL, NULL);
        probe_set_budget(look_probe(), 0);

        note("%u of %u leaves removed under the walk, %u of them freed at once", climb.n_removed, BESIDE, climb.n_gone);
        if (r < 0)
                fail_test("%s", e.text);
        assert_int_equal(census_seal(climb.census), 0);
        assert_true(climb.n_gone > 0);
        top = look_find(climb.census, cgroup_id_fd(climb.top), CENSUS_LIVE);
        assert_true(top != CENSUS_NONE);
        assert_int_equal(look_find(climb.census, lowest_walked, CENSUS_LIVE), top + DEPTH_WALKED - 1);
        for (unsigned i = 0; i < BESIDE; i++) {
                uint32_t k = look_find(climb.census, climb.ids[i], -1);

                if (climb.removed[i])
                        continue;
                assert_true(k != CENSUS_NONE);
                assert_int_equal(climb.census->memcgs[k].parent, top);
        }
        census_free(climb.census);
        safe_close(climb.top);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "d0"), 0);
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_deep),
                cmocka_unit_test(test_deeper),
                cmocka_unit_test(test_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-paths", .limit_sec = 200, .run = run });
}
