/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Least power, object by object: everything loads and runs as an ordinary user who has CAP_BPF and CAP_PERFMON and nothing else, and
 * still runs when these are dropped, too. Without them the error says what is missing. Root would hide all of it: libbpf looks through
 * the BTF of modules when it can, and fails when it may not.
 *
 * And what the verifier had to do for each program on this kernel.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "daemon/events.h"
#include "daemon/probe-internal.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/mounts.h"
#include "tests/common/rights.h"
#include "tests/common/supervise.h"

#include "bpf/cache.skel.h"
#include "bpf/events.skel.h"
#include "bpf/lists.skel.h"
#include "bpf/rings.skel.h"
#include "bpf/walk.skel.h"

#define FEATURES_MAX 16

/* What a child found out, in memory that it shares with us. */
typedef struct Outcome {
        int error;
        char text[512];
        size_t n_features;
        bool available[FEATURES_MAX];
        char reason[FEATURES_MAX][512];
        uint64_t memcgs, dropped_memcgs; /* with the two capabilities, and after they were dropped */
        int64_t summary, rings, lists, dropped_summary, dropped_rings, dropped_lists;
        uint64_t capabilities_left;
        bool unit_cache;
        int events, dropped_events; /* attached; and read after the drop: 0 */
        char events_text[512];
} Outcome;

static Outcome *outcome;

static int count_record(const struct sw_head *record, void *userdata) {
        uint64_t *n = userdata;

        *n += record->type == SW_TYPE_MEMCG;
        return 0;
}

static void run_passes(Probe *p, uint64_t *memcgs, int64_t *summary, int64_t *rings, int64_t *lists) {
        ProbeSummary s = {};
        ProbeError e = {};
        ProbeStats stats;
        uint64_t none = 0;
        int r = -EAGAIN;

        for (unsigned i = 0; i < 5 && r == -EAGAIN; i++) {
                stats = (ProbeStats){};
                *memcgs = 0;
                r = probe_walk(p, PROBE_WALK_BITS, count_record, memcgs, &stats, &e);
        }
        if (r < 0)
                *memcgs = 0;
        stats = (ProbeStats){};
        r = probe_summary(p, 0, &s, &stats, &e);
        *summary = r < 0 ? r : (int64_t)(s.live + s.dying + s.creating);
        r = -EAGAIN;
        for (unsigned i = 0; i < 5 && r == -EAGAIN; i++) {
                stats = (ProbeStats){};
                r = probe_rings(p, count_record, &none, &stats, &e);
        }
        *rings = r < 0 ? r : (int64_t)stats.records;
        r = -EAGAIN;
        for (unsigned i = 0; i < 5 && r == -EAGAIN; i++) {
                stats = (ProbeStats){};
                r = probe_lists(p, count_record, &none, &stats, &e);
        }
        *lists = r < 0 ? r : (int64_t)stats.records;
}

/* The times of death, with one that we put there. */
static int read_events(Events *e) {
        _cleanup_(freep) EventsDeath *deaths = NULL;
        size_t n;
        int r = events_put(e, UINT64_MAX, 1);

        if (r >= 0)
                r = events_deaths(e, &deaths, &n);
        return r < 0 ? r : n > 0 ? 0 : -ENOENT;
}

static void try_probe(void) {
        const ProbeFeature *features;
        Events *events = NULL;
        ProbeError e = {};
        const char *name;
        Probe *p;

        outcome->error = probe_new(&p, &e);
        (void)snprintf(outcome->text, sizeof(outcome->text), "%s", e.text);
        if (outcome->error < 0)
                return;
        features = probe_features(p, &outcome->n_features);
        for (size_t i = 0; i < outcome->n_features && i < FEATURES_MAX; i++) {
                outcome->available[i] = features[i].available;
                (void)snprintf(outcome->reason[i], sizeof(outcome->reason[i]), "%s: %s", features[i].name, features[i].reason);
        }
        run_passes(p, &outcome->memcgs, &outcome->summary, &outcome->rings, &outcome->lists);
        outcome->events = events_new(&events, 0, NULL, 0, &e);
        (void)snprintf(outcome->events_text, sizeof(outcome->events_text), "%s", e.text);
        (void)set_capabilities(0);
        outcome->capabilities_left = get_capabilities();
        run_passes(p, &outcome->dropped_memcgs, &outcome->dropped_summary, &outcome->dropped_rings, &outcome->dropped_lists);
        outcome->dropped_events = events ? read_events(events) : -ENOENT;
        outcome->unit_cache = probe_unit_cache(p, &name);
        events_free(events);
        probe_free(p);
}

/* Runs fn in a child; what it finds is in *outcome. */
static void in_child(void (*fn)(void)) {
        int status;
        pid_t pid;

        if (!outcome) {
                outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
                assert_true(outcome != MAP_FAILED);
        }
        memset(outcome, 0, sizeof(*outcome));
        outcome->error = -ECHILD;
        (void)fflush(stdout);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                fn();
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_test("the child ended with status %x", (unsigned)status);
}

static void as_root(void) {
        try_probe();
}
static void with_both(void) {
        outcome->error = become(BOTH);
        if (outcome->error == 0)
                try_probe();
}
static void with_bpf(void) {
        outcome->error = become(BIT(CAP_BPF));
        if (outcome->error == 0)
                try_probe();
}
static void with_perfmon(void) {
        outcome->error = become(BIT(CAP_PERFMON));
        if (outcome->error == 0)
                try_probe();
}
static void with_none(void) {
        outcome->error = become(0);
        if (outcome->error == 0)
                try_probe();
}

static void test_two_capabilities(void **state) {
        char path[256];
        Outcome root;
        int fd;

        (void)state;
        /* Something to find for the pass over the lists: a memcg that has an inode in a tmpfs. */
        assert_int_equal(mounts_make(1), 0);
        fd = cgroup_make(cgroups_fd(), "lists");
        assert_true(fd >= 0);
        mounts_path(0, "file", path, sizeof(path));
        assert_int_equal(hold_by_pages(fd, path, 1), 0);
        safe_close(fd);

        in_child(as_root);
        root = *outcome;
        if (root.error < 0)
                fail_test("root cannot load the probe: %s", root.text);
        in_child(with_both);
        if (outcome->error < 0)
                fail_test("with CAP_BPF and CAP_PERFMON: %s", outcome->text);
        assert_int_equal(outcome->n_features, root.n_features);
        assert_true(root.n_features >= 5 && root.n_features <= FEATURES_MAX);
        /* Nothing that root gets is missing, and what neither gets is what the kernel does not have. */
        for (size_t i = 0; i < root.n_features; i++) {
                note("%s %s", outcome->available[i] ? "yes" : "no ", outcome->reason[i]);
                if (outcome->available[i] != root.available[i])
                        fail_test("root: %s; with CAP_BPF and CAP_PERFMON: %s", root.reason[i], outcome->reason[i]);
                if (!root.available[i] && strncmp(root.reason[i], "alloc-size: ", 12) != 0)
                        fail_test("not even for root: %s", root.reason[i]);
        }
        note("memcgs %llu, in the light look %lld; records of the rings %lld, of the lists %lld; after dropping all capabilities %llu, %lld, %lld, %lld",
             (unsigned long long)outcome->memcgs, (long long)outcome->summary, (long long)outcome->rings, (long long)outcome->lists,
             (unsigned long long)outcome->dropped_memcgs, (long long)outcome->dropped_summary, (long long)outcome->dropped_rings,
             (long long)outcome->dropped_lists);
        if (outcome->events < 0)
                fail_test("life events with CAP_BPF and CAP_PERFMON: %s", outcome->events_text);
        assert_int_equal(root.events, 0);
        assert_int_equal(outcome->capabilities_left, 0);
        assert_int_equal(outcome->dropped_events, 0);
        assert_true(outcome->memcgs >= 2 && outcome->dropped_memcgs >= 2);
        assert_true(outcome->summary >= 2 && outcome->dropped_summary >= 2);
        assert_true(outcome->rings > 0 && outcome->dropped_rings > 0);
        assert_true(outcome->lists > 0 && outcome->dropped_lists > 0);
        assert_int_equal(outcome->unit_cache, root.unit_cache);
        assert_int_equal(mounts_drop(1), 0);
        assert_int_equal(cgroup_remove(cgroups_fd(), "lists"), 0);
}

static void expect_error(int error, const char *word, const char *other) {
        note("%s", outcome->text);
        assert_int_equal(outcome->error, error);
        if (!strstr(outcome->text, word) || (other && !strstr(outcome->text, other)))
                fail_test("the error does not name %s%s%s", word, other ? " and " : "", other ? other : "");
}

static void test_bpf_alone(void **state) {
        (void)state;
        in_child(with_bpf);
        expect_error(-EPERM, "missing CAP_PERFMON:", NULL);
}

static void test_perfmon_alone(void **state) {
        (void)state;
        in_child(with_perfmon);
        expect_error(-EPERM, "missing CAP_BPF:", NULL);
}

static void test_no_capability(void **state) {
        (void)state;
        in_child(with_none);
        expect_error(-EPERM, "missing CAP_BPF and CAP_PERFMON:", NULL);
}

/* bpf(2) returns this errno, as container runtimes have it. */
static int forbid_bpf(unsigned error) {
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { ELEMENTSOF(filter), filter };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}
static void under_seccomp(void) {
        outcome->error = forbid_bpf(EPERM);
        if (outcome->error == 0)
                try_probe();
}
static void under_seccomp_enosys(void) {
        outcome->error = forbid_bpf(ENOSYS);
        if (outcome->error == 0)
                try_probe();
}

static void test_seccomp(void **state) {
        (void)state;
        in_child(under_seccomp);
        if (outcome->error == -EINVAL || outcome->error == -ENOSYS)
                skip_test("this kernel has no seccomp filters");
        expect_error(-EPERM, "seccomp", "capabilities are there");
        in_child(under_seccomp_enosys);
        expect_error(-EOPNOTSUPP, "no bpf system call", NULL);
}

static void without_btf(void) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", "/sys/kernel/btf", "tmpfs", 0, "size=4k") < 0) {
                outcome->error = -errno;
                return;
        }
        try_probe();
}

static void test_no_btf(void **state) {
        (void)state;
        in_child(without_btf);
        expect_error(-ENOENT, "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF");
}

static void without_devices(void) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", "/sys/devices", "tmpfs", 0, "size=4k") < 0) {
                outcome->error = -errno;
                return;
        }
        try_probe();
}

/* Where the number of nodes is hidden, one node would be a guess. */
static void test_no_devices(void **state) {
        (void)state;
        in_child(without_devices);
        expect_error(-EOPNOTSUPP, "/sys/devices is not visible", "NUMA");
}

static void in_user_namespace(void) {
        outcome->error = unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
        if (outcome->error == 0)
                try_probe();
        else
                outcome->error = -EINVAL;
}

static void test_user_namespace(void **state) {
        (void)state;
        in_child(in_user_namespace);
        if (outcome->error == -EINVAL)
                skip_test("this kernel makes no user namespaces");
        expect_error(-EPERM, "user namespace", NULL);
}

static rlim_t few; /* descriptors */

static void with_few_descriptors(void) {
        const struct rlimit limit = { few, few };

        outcome->error = setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
        if (outcome->error == 0)
                try_probe();
}

/* Want of descriptors is no property of the kernel: no part is said to be missing from it. Where libbpf meets it decides which error it has. */
static void test_few_descriptors(void **state) {
        (void)state;
        for (few = 7; few <= 15; few++) {
                char text[64];

                (void)snprintf(text, sizeof(text), "%llu open files are all", (unsigned long long)few);
                in_child(with_few_descriptors);
                expect_error(-EMFILE, text, NULL);
        }
}

/* ---- the verifier ---- */

static int quiet(enum libbpf_print_level level, const char *format, va_list ap) {
        (void)level;
        (void)format;
        (void)ap;
        return 0;
}

static void load_object(const char *name, const void *bytes, size_t size, const ProbeBtf *btf) {
        static char log[1 << 16];
        LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = PROBE_BTF_PATH, .object_name = name, .kernel_log_buf = log,
                    .kernel_log_size = sizeof(log), .kernel_log_level = 4); /* statistics only */
        struct bpf_object *o;
        struct bpf_map *map;
        char *line;
        int r;

        memset(log, 0, sizeof(log));
        o = bpf_object__open_mem(bytes, size, &opts);
        assert_non_null(o);
        /* The values that the flags of a css have here: what is constant to the verifier is what it sees in the product. */
        bpf_object__for_each_map(map, o) {
                size_t n;
                uint32_t *data = (uint32_t *)(uintptr_t)bpf_map__initial_value(map, &n);

                if (data && strstr(bpf_map__name(map), ".rodata") && n == 4 * sizeof(*data)) {
                        data[0] = btf->css_online;
                        data[1] = btf->css_dying;
                        data[2] = btf->css_released;
                        data[3] = btf->css_visible;
                }
        }
        r = bpf_object__load(o);
        line = strstr(log, "processed ");
        if (line)
                line[strcspn(line, "\n")] = 0;
        note("%s: %s", name, line ? line : "the kernel gave no statistics");
        bpf_object__close(o);
        if (r < 0)
                fail_test("%s does not load: %s", name, strerror(-r));
}

static void test_verifier(void **state) {
        ProbeError e = {};
        ProbeBtf btf = {};
        size_t size;

        (void)state;
        if (probe_btf_read(PROBE_BTF_PATH, &btf, &e) < 0)
                fail_test("%s", e.text);
        (void)libbpf_set_print(quiet);
        {
                const void *bytes = walk_bpf__elf_bytes(&size);

                load_object("walk", bytes, size, &btf);
                bytes = rings_bpf__elf_bytes(&size);
                load_object("rings", bytes, size, &btf);
                bytes = events_bpf__elf_bytes(&size);
                load_object("events", bytes, size, &btf);
                if (btf.has_list_lru_xarray) {
                        bytes = lists_bpf__elf_bytes(&size);
                        load_object("lists", bytes, size, &btf);
                }
                if (btf.has_get_kmem_cache) {
                        bytes = cache_bpf__elf_bytes(&size);
                        load_object("cache", bytes, size, &btf);
                }
        }
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_capabilities), cmocka_unit_test(test_bpf_alone), cmocka_unit_test(test_perfmon_alone),
                cmocka_unit_test(test_no_capability),    cmocka_unit_test(test_seccomp),   cmocka_unit_test(test_no_btf),
                cmocka_unit_test(test_no_devices), cmocka_unit_test(test_user_namespace), cmocka_unit_test(test_few_descriptors),
                cmocka_unit_test(test_verifier),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-rights", .limit_sec = 120, .run = run });
}
