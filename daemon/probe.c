/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The objects: which of them this kernel takes, loading them, and the passes they offer. */

#include <bpf/bpf.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "probe-internal.h"
#include "sizeclass.h"

/* The skeletons name the structs of bpf/record.h without declaring them. */
#include "bpf/cache.skel.h"
#include "bpf/lists.skel.h"
#include "bpf/rings.skel.h"
#include "bpf/walk.skel.h"

#define BUDGET_FIRST 16384

enum {
        FEATURE_WALK,
        FEATURE_ALLOC_SIZE,
        FEATURE_SHRINKERS,
        FEATURE_WRITEBACK,
        FEATURE_LISTS,
        _FEATURE_MAX,
};

struct Probe {
        ProbeFacts facts;
        ProbeBtf btf;
        ProbeFeature features[_FEATURE_MAX];

        struct walk_bpf *walk;
        struct rings_bpf *rings;
        struct lists_bpf *lists;
        struct cache_bpf *cache;
        ProbeProgram walk_program, rings_program, lists_program;

        /* What the kernel named: the cache of a unit and of an array that the last walk met. */
        uint64_t unit_cache_bytes, array_cache_bytes, array_struct_bytes;
        char unit_cache_name[64];
};

static int read_line(const char *path, char *buf, size_t size) {
        FILE *f = fopen(path, "re");
        char *s;

        if (!f)
                return -errno;
        s = fgets(buf, (int)size, f);
        (void)fclose(f);
        if (!s)
                return -EIO;
        buf[strcspn(buf, "\n")] = 0;
        return 0;
}

static int read_facts(ProbeFacts *facts, const ProbeBtf *btf, ProbeError *ret_error) {
        struct utsname un;
        char line[1024];
        int r;

        if (uname(&un) < 0)
                return probe_error_set(ret_error, -errno, "cannot ask for the kernel's release: %s", strerror(errno));
        (void)snprintf(facts->release, sizeof(facts->release), "%s", un.release);
        if (read_line("/proc/sys/kernel/random/boot_id", facts->boot_id, sizeof(facts->boot_id)) < 0)
                facts->boot_id[0] = 0;
        facts->page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);

        r = read_line("/sys/devices/system/node/possible", line, sizeof(line));
        if (r == -ENOENT) {
                /* A kernel without CONFIG_NUMA has one node and no such file; a sandbox that hides /sys/devices has no such file, either. */
                if (access("/sys/devices/system/cpu/possible", F_OK) < 0)
                        return probe_error_set(ret_error, -EOPNOTSUPP, "/sys/devices is not visible here: how many NUMA nodes are possible cannot be told. Mount /sys whole");
                facts->possible_nodes = 1;
                r = 0;
        } else if (r >= 0)
                r = probe_parse_nodes(line, &facts->possible_nodes);
        if (r == -ERANGE)
                return probe_error_set(ret_error, -EOPNOTSUPP, "this machine has possible NUMA nodes above %d (%s), more than this program counts", SW_NODES_MAX - 1,
                                       line);
        if (r < 0)
                return probe_error_set(ret_error, r, "cannot read /sys/devices/system/node/possible: %s", strerror(-r));
        facts->n_possible_nodes = (uint32_t)__builtin_popcountll(facts->possible_nodes);

        facts->layout = btf->layout;
        facts->ids_per_unit = btf->ids_per_unit;
        facts->unit_struct_bytes = btf->unit_struct_bytes;
        return 0;
}

/*
 * The options of every object. Without btf_custom_path, libbpf 1.1 goes through the BTF of all modules as soon as one type that we
 * declare is not in this kernel, and that needs CAP_SYS_ADMIN.
 */
#define OPEN_OPTS(name) LIBBPF_OPTS(bpf_object_open_opts, name, .btf_custom_path = PROBE_BTF_PATH)

#define SET_CSS_FLAGS(skel, b)                                  \
        do {                                                    \
                (skel)->rodata->css_online = (b)->css_online;   \
                (skel)->rodata->css_dying = (b)->css_dying;     \
                (skel)->rodata->css_released = (b)->css_released; \
                (skel)->rodata->css_visible = (b)->css_visible; \
        } while (0)

#define SET_PROGRAM(program, skel, name)                                        \
        do {                                                                    \
                (program)->fd = bpf_program__fd((skel)->progs.name);            \
                (program)->control = &(skel)->bss->control;                     \
                (program)->out = (skel)->bss->out;                              \
                (program)->budget = BUDGET_FIRST;                               \
        } while (0)

static int load_walk(Probe *p, ProbeError *ret_error) {
        OPEN_OPTS(opts);
        int r;

        probe_log_begin();
        p->walk = walk_bpf__open_opts(&opts);
        if (!p->walk)
                return probe_error_load(ret_error, errno > 0 ? -errno : -EIO, "walk");
        SET_CSS_FLAGS(p->walk, &p->btf);
        r = walk_bpf__load(p->walk);
        if (r < 0)
                return probe_error_load(ret_error, r, "walk");
        SET_PROGRAM(&p->walk_program, p->walk, walk);
        return 0;
}

static int load_rings(Probe *p, ProbeError *ret_error) {
        OPEN_OPTS(opts);
        int r;

        probe_log_begin();
        p->rings = rings_bpf__open_opts(&opts);
        if (!p->rings)
                return probe_error_load(ret_error, errno > 0 ? -errno : -EIO, "rings");
        SET_CSS_FLAGS(p->rings, &p->btf);
        r = rings_bpf__load(p->rings);
        if (r < 0) {
                rings_bpf__destroy(p->rings);
                p->rings = NULL;
                return probe_error_load(ret_error, r, "rings");
        }
        SET_PROGRAM(&p->rings_program, p->rings, rings);
        return 0;
}

static int load_lists(Probe *p, ProbeError *ret_error) {
        OPEN_OPTS(opts);
        int r;

        if (!p->btf.has_list_lru_xarray)
                return probe_error_set(ret_error, -EOPNOTSUPP, "this kernel's list_lru keeps its lists in an array, not in an xarray (before 5.18)");
        probe_log_begin();
        p->lists = lists_bpf__open_opts(&opts);
        if (!p->lists)
                return probe_error_load(ret_error, errno > 0 ? -errno : -EIO, "lists");
        r = lists_bpf__load(p->lists);
        if (r < 0) {
                lists_bpf__destroy(p->lists);
                p->lists = NULL;
                return probe_error_load(ret_error, r, "lists");
        }
        SET_PROGRAM(&p->lists_program, p->lists, lists);
        return 0;
}

/* The one user of a kfunc, so it is an object of its own, opened only when the kernel has it. */
static int load_cache(Probe *p, ProbeError *ret_error) {
        OPEN_OPTS(opts);
        int r;

        if (!p->btf.has_get_kmem_cache)
                return probe_error_set(ret_error, -EOPNOTSUPP, "the kernel cannot name the slab cache of an address (bpf_get_kmem_cache, from 6.13); the size-class rule is used");
        probe_log_begin();
        p->cache = cache_bpf__open_opts(&opts);
        if (!p->cache)
                return probe_error_load(ret_error, errno > 0 ? -errno : -EIO, "cache");
        r = cache_bpf__load(p->cache);
        if (r < 0) {
                cache_bpf__destroy(p->cache);
                p->cache = NULL;
                return probe_error_load(ret_error, r, "cache");
        }
        return 0;
}

static void set_feature(Probe *p, unsigned i, const char *name, int r, const ProbeError *e, const char *rests_on) {
        ProbeFeature *f = &p->features[i];

        f->name = name;
        f->available = r >= 0;
        (void)snprintf(f->reason, sizeof(f->reason), "%.*s", (int)sizeof(f->reason) - 1, r >= 0 ? rests_on : e->text);
}

/* No property of the kernel: a part that is missing for want of these would be told as one that the kernel does not have. */
static bool out_of_resources(int r) {
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

int probe_new(Probe **ret, ProbeError *ret_error) {
        ProbeError e = {};
        Probe *p;
        int r;

        p = calloc(1, sizeof(*p));
        if (!p)
                return probe_error_set(ret_error, -ENOMEM, "out of memory");

        r = probe_btf_read(PROBE_BTF_PATH, &p->btf, ret_error);
        if (r >= 0)
                r = read_facts(&p->facts, &p->btf, ret_error);
        if (r >= 0)
                r = load_walk(p, ret_error);
        if (r < 0) {
                probe_free(p);
                return r;
        }
        set_feature(p, FEATURE_WALK, "walk", 0, NULL, "memory cgroups, their shrinker arrays and references");

        r = load_cache(p, &e);
        if (out_of_resources(r))
                goto fail;
        set_feature(p, FEATURE_ALLOC_SIZE, "alloc-size", r, &e, "the kernel names the slab cache of a unit");
        r = load_rings(p, &e);
        if (out_of_resources(r))
                goto fail;
        set_feature(p, FEATURE_SHRINKERS, "shrinkers", r, &e, "shrinker ids in use, by file system type");
        if (r >= 0 && !p->btf.has_cgroup_writeback)
                r = probe_error_set(&e, -EOPNOTSUPP, "this kernel was built without CONFIG_CGROUP_WRITEBACK: writeback pins nothing here");
        set_feature(p, FEATURE_WRITEBACK, "writeback", r, &e, "dying memory cgroups pinned by writeback");
        r = load_lists(p, &e);
        if (out_of_resources(r))
                goto fail;
        set_feature(p, FEATURE_LISTS, "lists", r, &e, "the lists of all list_lrus, for the estimate");

        *ret = p;
        return 0;

fail:
        if (ret_error)
                *ret_error = e;
        probe_free(p);
        return r;
}

Probe *probe_free(Probe *p) {
        if (!p)
                return NULL;
        cache_bpf__destroy(p->cache);
        lists_bpf__destroy(p->lists);
        rings_bpf__destroy(p->rings);
        walk_bpf__destroy(p->walk);
        free(p);
        return NULL;
}

const ProbeFacts *probe_facts(const Probe *p) {
        return &p->facts;
}

const ProbeFeature *probe_features(const Probe *p, size_t *ret_n) {
        *ret_n = ELEMENTSOF(p->features);
        return p->features;
}

bool probe_has(const Probe *p, const char *feature) {
        for (size_t i = 0; i < ELEMENTSOF(p->features); i++)
                if (strcmp(p->features[i].name, feature) == 0)
                        return p->features[i].available;
        return false;
}

/* Asks for the cache of an address. 0 when the kernel does not know one: the address is not from slab any more, or never was. */
static uint64_t ask_cache(Probe *p, uint64_t addr, char *name, size_t size) {
        LIBBPF_OPTS(bpf_test_run_opts, opts);

        if (!p->cache || !addr)
                return 0;
        p->cache->bss->addr = addr;
        p->cache->bss->size = 0;
        if (bpf_prog_test_run_opts(bpf_program__fd(p->cache->progs.cache), &opts) < 0)
                return 0;
        if (name)
                (void)snprintf(name, size, "%s", p->cache->bss->name);
        return p->cache->bss->size;
}

#define NO_MEMCGS "the memory controller is disabled (cgroup_disable=memory on the kernel's command line): there are no memory cgroups to count"
#define NO_SHRINKER "the root file system of this process has no shrinker, so that nothing leads to the others"

int probe_walk(Probe *p, unsigned flags, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        const ProbePass pass = {
                .flags = flags & PROBE_WALK_BITS ? SW_WALK_BITS : 0,
                .fn = fn,
                .userdata = userdata,
                .nothing = NO_MEMCGS,
        };
        uint64_t bytes;
        int r;

        r = probe_pass_run(&p->walk_program, &p->facts, &pass, stats, ret_error);
        if (r < 0)
                return r;
        p->facts.v2 = p->walk->bss->control.v2;
        
        /*
         * The addresses are a moment old. Should one have been freed and its page given to another cache since, the size could be
         * another's: it is taken only when an object of ours fits.
         */
        bytes = ask_cache(p, p->walk->bss->control.unit_addr, p->unit_cache_name, sizeof(p->unit_cache_name));
        if (bytes >= p->btf.unit_struct_bytes)
                p->unit_cache_bytes = bytes;
        bytes = ask_cache(p, p->walk->bss->control.array_addr, NULL, 0);
        if (bytes >= p->walk->bss->control.array_struct_bytes) {
                p->array_cache_bytes = bytes;
                p->array_struct_bytes = p->walk->bss->control.array_struct_bytes;
        }
        return 0;
}

int probe_summary(Probe *p, uint64_t above, ProbeSummary *ret, ProbeStats *stats, ProbeError *ret_error) {
        const ProbePass pass = { .flags = SW_WALK_SUMMARY, .above = above, .nothing = NO_MEMCGS };
        const struct sw_control *c;
        int r;

        r = probe_pass_run(&p->walk_program, &p->facts, &pass, stats, ret_error);
        if (r < 0)
                return r;
        c = &p->walk->bss->control;
                *ret = (ProbeSummary){
                .live = c->live,
                .dying = c->dying,
                .creating = c->creating,
                .highest_serial = c->highest_serial,
                .newer = c->newer,
                .digest = c->digest,
                .ids = c->root_ids,
        };
        return 0;
}

int probe_rings(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        const ProbePass pass = { .fn = fn, .userdata = userdata, .nothing = NO_SHRINKER };
        int r;

        if (!p->rings)
                return probe_error_set(ret_error, -EOPNOTSUPP, "%s", p->features[FEATURE_SHRINKERS].reason);
        r = probe_pass_run(&p->rings_program, &p->facts, &pass, stats, ret_error);
        if (r < 0)
                return r;
        stats->shrinkers_known = p->rings->bss->control.known & SW_KNOWN_SHRINKERS;
        stats->writeback_known = p->rings->bss->control.known & SW_KNOWN_WRITEBACK;
        return 0;
}

int probe_lists(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        const ProbePass pass = { .fn = fn, .userdata = userdata, .nothing = NO_SHRINKER };
        int r;

        if (!p->lists)
                return probe_error_set(ret_error, -EOPNOTSUPP, "%s", p->features[FEATURE_LISTS].reason);
        r = probe_pass_run(&p->lists_program, &p->facts, &pass, stats, ret_error);
        if (r >= 0 && !(p->lists->bss->control.known & SW_KNOWN_SHRINKERS))
                r = probe_error_set(ret_error, -EAGAIN, "the ring of list_lrus did not close");
        return r;
}

uint64_t probe_alloc_bytes(const Probe *p, uint64_t struct_bytes, bool vmalloc) {
        if (!vmalloc && struct_bytes == p->btf.unit_struct_bytes && p->unit_cache_bytes)
                return p->unit_cache_bytes;
        if (!vmalloc && struct_bytes == p->array_struct_bytes && p->array_cache_bytes)
                return p->array_cache_bytes;
        return size_class_bytes(struct_bytes, p->facts.page_bytes, vmalloc);
}

bool probe_unit_cache(const Probe *p, const char **ret_name) {
        if (!p->unit_cache_bytes)
                return false;
        *ret_name = p->unit_cache_name;
        return true;
}

void probe_set_budget(Probe *p, int64_t budget) {
        ProbeProgram *programs[] = { &p->walk_program, &p->rings_program, &p->lists_program };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                programs[i]->budget = budget > 0 ? budget : BUDGET_FIRST;
                programs[i]->budget_fixed = budget > 0;
        }
}

void probe_set_between(Probe *p, void (*fn)(void *userdata), void *userdata) {
        ProbeProgram *programs[] = { &p->walk_program, &p->rings_program, &p->lists_program };

        for (size_t i = 0; i < ELEMENTSOF(programs); i++) {
                programs[i]->between = fn;
                programs[i]->between_userdata = userdata;
        }
}
