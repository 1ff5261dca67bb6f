/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The passes along rings, when what they began with goes: both begin at the superblock of the caller's root directory, and end when they
 * come back to it. Here that is a tmpfs of our own, and it is unmounted between two slices: the pass has to say that it lost its place,
 * not to go round for ever.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/mounts.h"
#include "tests/common/supervise.h"

#define OTHERS 64U /* mounts, so that no ring fits a slice: of PROBE_BUDGET_LEAST a shrinker takes 48, a list_lru 32 or more */
#define TRIES 5U /* others may mount and unmount, too */

typedef int (*PassFn)(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error);

typedef struct Pass {
        const char *name;
        PassFn run;
        int old_root;
        bool inside; /* in the root directory of our own */
        bool drop;   /* take it away after the first slice */
        uint64_t slices, records, records_max;
        char path[256]; /* of that directory */
} Pass;

static void leave(Pass *pass) {
        if (!pass->inside)
                return;
        pass->inside = false;
        if (fchdir(pass->old_root) < 0 || chroot(".") < 0)
                fail_test("cannot go back to the root directory: %s", strerror(errno));
        if (umount2(pass->path, 0) < 0)
                fail_test("cannot unmount what was the root directory: %s", strerror(errno));
}

static void on_slice_end(void *userdata) {
        Pass *pass = userdata;

        if (pass->slices++ == 0 && pass->drop)
                leave(pass);
}

static int on_record(const struct sw_head *record, void *userdata) {
        Pass *pass = userdata;

        (void)record;
        return ++pass->records > pass->records_max ? -ECANCELED : 0;
}

/* One pass from a root directory of our own, which goes after the first slice, or stays. first: it is mounted before the others. */
static int run_pass(Pass *pass, bool drop, bool first, ProbeStats *ret_stats) {
        Probe *probe = look_probe();
        ProbeStats stats = {};
        ProbeError e = {};
        int r;

        pass->drop = drop;
        pass->slices = 0;
        pass->records = 0;
        (void)snprintf(pass->path, sizeof(pass->path), "%s/root", own_scratch());

        /* There is a place for the directory with the first of the others. */
        assert_int_equal(mounts_make(first ? 1 : OTHERS), 0);
        assert_int_equal(mkdir(pass->path, 0700), 0);
        assert_int_equal(mount("shrinkwatch-test", pass->path, "tmpfs", 0, "size=1m,mode=700"), 0);
        if (first)
                assert_int_equal(mounts_make(OTHERS - 1), 0);

        pass->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(pass->old_root >= 0);
        probe_set_budget(probe, PROBE_BUDGET_LEAST);
        probe_set_between(probe, on_slice_end, pass);
        assert_int_equal(chroot(pass->path), 0);
        pass->inside = true;
        r = pass->run(probe, on_record, pass, &stats, &e);
        leave(pass);
        probe_set_between(probe, NULL, NULL);
        probe_set_budget(probe, 0);
        pass->old_root = safe_close(pass->old_root);

        assert_int_equal(rmdir(pass->path), 0);
        assert_int_equal(mounts_drop(OTHERS), 0);
        note("%s%s%s: %" PRIu64 " slices, %" PRIu64 " records: %s", pass->name, first ? " from an older mount" : " from the newest mount",
             drop ? ", which goes" : "", stats.slices, pass->records, r < 0 ? strerror(-r) : "done");
        *ret_stats = stats;
        return r;
}

static void check_pass(const char *name, PassFn run) {
        Pass pass = { .name = name, .run = run };
        ProbeStats stats;
        int r = -EAGAIN;

        for (unsigned first = 0; first < 2; first++) {
                /* As long as it stays, the pass comes back to it, in more than one slice. */
                pass.records_max = UINT64_MAX;
                for (unsigned i = 0; i < TRIES && (i == 0 || r == -EAGAIN); i++)
                        r = run_pass(&pass, false, first, &stats);
                assert_int_equal(r, 0);
                assert_true(stats.slices > 1);

                /* Twice round is the most that it takes to know. */
                pass.records_max = 10 * pass.records + 1000;
                r = run_pass(&pass, true, first, &stats);
                if (r == -ECANCELED)
                        fail_test("%s does not end", name);
                assert_int_equal(r, -EAGAIN);
                assert_true(stats.slices > 1);
        }
}

static void test_shrinkers(void **state) {
        (void)state;
        check_pass("the pass over shrinkers", probe_rings);
}

static void test_lists(void **state) {
        char path[256];
        int fd;

        (void)state;
        if (!probe_has(look_probe(), "lists"))
                skip_test("this kernel keeps no lists that we can read");
        /* Something to tell in each round, by which a pass that does not end is known: a memcg that has an inode in a tmpfs. */
        assert_int_equal(mounts_make(1), 0);
        fd = cgroup_make(cgroups_fd(), "lists");
        assert_true(fd >= 0);
        mounts_path(0, "file", path, sizeof(path));
        assert_int_equal(hold_by_pages(fd, path, 1), 0);
        safe_close(fd);
        check_pass("the pass over lists", probe_lists);
        assert_int_equal(mounts_drop(1), 0);
        assert_int_equal(cgroup_remove(cgroups_fd(), "lists"), 0);
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shrinkers),
                cmocka_unit_test(test_lists),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-rings", .limit_sec = 100, .run = run });
}
