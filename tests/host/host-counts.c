/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counts against arithmetic, to the unit; ids in use against mounts; bytes against what the slab allocator gave out.
 *
 * What a memcg takes besides its shrinker info is in every slab gain as well. So some are made while there are few shrinker ids and as
 * many while there are many: the difference of the two gains is shrinker info alone. shrinker_nr_max never comes down, so this takes
 * a machine where so many mounts still raise it; elsewhere the gain for one memcg must at least be a whole number.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "daemon/sizeclass.h"
#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/mounts.h"
#include "tests/common/slabs.h"
#include "tests/common/supervise.h"

#define MEMCGS 211U
#define MOUNTS 97U
#define SLAB_MEMCGS_MAX 3001
/* Slabs are counted whole here and there: a dozen objects more or less must not matter to the arrays, two or three objects a memcg. */
#define SLAB_MEMCGS_MIN 600
#define SLAB_OBJECTS 12000 /* enough for 0.2 % to be well above what else goes on */
#define TRIES 6U
#define RUNS 5

static unsigned slab_memcgs;

/* The sums, and for each memcg what arithmetic says. Returns shrinker_nr_max. */
static uint32_t check_arithmetic(const Census *c) {
        const ProbeFacts *f = probe_facts(look_probe());
        uint64_t live = 0, dying = 0, creating = 0, units = 0, units_live = 0, units_dying = 0, slots = 0, unit_bytes = 0, array_bytes = 0;
        uint32_t nr_max = 0, slots_per_node;

        for (size_t i = 0; i < c->n_nodes; i++)
                if (c->nodes[i].ids > nr_max)
                        nr_max = c->nodes[i].ids;
        assert_int_equal(c->totals.ids, nr_max);
        assert_true(nr_max > 0);
        slots_per_node = look_slots(f, nr_max);

        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = c->memcgs + i;
                uint64_t m_units = 0, m_array_bytes = 0;

                live += m->state == CENSUS_LIVE;
                dying += m->state == CENSUS_DYING;
                creating += m->state == CENSUS_CREATING;
                assert_int_equal(m->n_nodes, f->n_possible_nodes);
                for (uint32_t k = 0; k < m->n_nodes; k++) {
                        const CensusNode *n = c->nodes + m->first_node + k;
                        uint64_t bytes;

                        assert_true(f->possible_nodes >> n->node & 1);
                        if (m->state == CENSUS_CREATING)
                                continue;
                        assert_true(n->valid & SW_NODE_INFO);
                        assert_int_equal(n->ids, nr_max);
                        assert_int_equal(n->slots, slots_per_node);
                        if (c->allocation == CENSUS_ALLOCATION_EAGER)
                                assert_int_equal(n->units, slots_per_node);
                        else
                                assert_true(n->units <= slots_per_node);
                        bytes = look_array_struct_bytes(f, nr_max);
                        assert_int_equal(n->array_bytes, size_class_bytes(bytes, f->page_bytes, n->valid & SW_NODE_VMALLOC));
                        m_units += n->units;
                        m_array_bytes += n->array_bytes;
                }
                if (m->state == CENSUS_CREATING)
                        continue;
                assert_int_equal(m->units, m_units);
                assert_int_equal(m->array_bytes, m_array_bytes);
                assert_int_equal(m->unit_bytes, m_units * c->unit_alloc_bytes);
                units += m->units;
                units_live += m->state == CENSUS_LIVE ? m->units : 0;
                units_dying += m->state == CENSUS_DYING ? m->units : 0;
                slots += m->slots;
                unit_bytes += m->unit_bytes;
                array_bytes += m->array_bytes;
        }
        assert_int_equal(c->totals.memcgs, c->n_memcgs);
        assert_int_equal(c->totals.live, live);
        assert_int_equal(c->totals.dying, dying);
        assert_int_equal(c->totals.creating, creating);
        assert_int_equal(live + dying + creating, c->n_memcgs);
        if (creating == 0) {
                assert_int_equal(c->totals.units, units);
                assert_int_equal(c->totals.slots, slots);
                assert_int_equal(c->totals.unit_bytes, unit_bytes);
                assert_int_equal(c->totals.array_bytes, array_bytes);
        }
        assert_int_equal(c->totals.units_live, units_live);
        assert_int_equal(c->totals.units_dying, units_dying);
        assert_int_equal(c->totals.uneven, 0);
        assert_int_equal(c->totals.dropped, 0);
        if (c->allocation == CENSUS_ALLOCATION_EAGER && f->ids_per_unit && creating == 0)
                assert_int_equal(units, (uint64_t)c->n_memcgs * f->n_possible_nodes * slots_per_node);
        return nr_max;
}

static Reading *settled(void) {
        Reading *r = look_settled(READING_RINGS, 30);

        if (!r)
                fail_test("no census settled within 30 seconds: something makes and removes cgroups all the time");
        return r;
}

static int make_memcgs(const char *group, unsigned n) {
        int fd = cgroup_make(cgroups_fd(), group), r = 0;

        if (fd < 0)
                return fd;
        r = cgroup_switch_memory(fd, true);
        for (unsigned i = 0; i < n && r >= 0; i++) {
                char name[16];

                (void)snprintf(name, sizeof(name), "%u", i);
                r = cgroup_mkdir(fd, name);
        }
        safe_close(fd);
        return r;
}

/*
 * The host's other opinions: directories, and the kernel's count in /proc/cgroups. Others may make and remove cgroups: compared when both
 * are the same before and after the census.
 */
static void check_machine(void) {
        uint64_t directories[2] = {}, counts[2] = {}, live = 0, memcgs = 0;
        uint64_t last[4] = {};
        unsigned same = 0;

        for (unsigned i = 0; i < 200 && same < 40; i++) {
                _cleanup_(closep) int root = openat(cgroups_fd(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                _cleanup_(reading_freep) Reading *r = NULL;

                for (unsigned k = 0; k < 2; k++) {
                        assert_int_equal(cgroups_count_directories(root, directories + k), 0);
                        assert_int_equal(cgroups_kernel_count(counts + k), 0);
                        if (k == 0)
                                r = look(0);
                }
                live = r->census->totals.live;
                memcgs = r->census->totals.memcgs;
                if (r->settled && directories[0] == directories[1] && counts[0] == counts[1]) {
                        if (live == directories[0] && memcgs == counts[0]) {
                                note("live memcgs %" PRIu64 " = directories; memcgs %" PRIu64 " = num_cgroups of /proc/cgroups", live, memcgs);
                                return;
                        }
                }
                /* A cgroup counts until it is freed, a grace period after its memcg is off the list. */
                same = r->settled && live == last[0] && memcgs == last[1] && directories[0] == last[2] && counts[0] == last[3] ? same + 1 : 0;
                last[0] = live;
                last[1] = memcgs;
                last[2] = directories[0];
                last[3] = counts[0];
                (void)usleep(50000);
        }
        if (same >= 40)
                fail_test("live %" PRIu64 ", directories %" PRIu64 "; memcgs %" PRIu64 ", the kernel counts %" PRIu64, live, directories[0], memcgs,
                          counts[0]);
        note("the machine did not hold still: not compared with /proc/cgroups");
}

static void test_arithmetic(void **state) {
        _cleanup_(reading_freep) Reading *before = NULL, *after = NULL;
        const ProbeFacts *f = probe_facts(look_probe());
        uint64_t nodes = f->n_possible_nodes;
        uint32_t own, nr_max;

        (void)state;
        before = settled();
        (void)check_arithmetic(before->census);

        assert_int_equal(make_memcgs("arithmetic", MEMCGS), 0);
        after = settled();
        nr_max = check_arithmetic(after->census);
        own = look_own(after->census);
        assert_int_equal(after->census->memcgs[own].subtree_memcgs, 2 + MEMCGS);
        assert_int_equal(after->census->memcgs[own].subtree_dying, 0);
        if (after->census->allocation == CENSUS_ALLOCATION_EAGER)
                assert_int_equal(after->census->memcgs[own].subtree_units, (2 + MEMCGS) * nodes * look_slots(f, nr_max));
        for (uint32_t i = own; i < own + 2 + MEMCGS; i++) {
                assert_int_equal(after->census->memcgs[i].state, CENSUS_LIVE);
                assert_false(after->census->memcgs[i].offline);
                assert_false(after->census->memcgs[i].valid & SW_MEMCG_REFS);
        }
        note("%s, %s: %zu memcgs, %" PRIu64 " possible nodes, shrinker_nr_max %u, %" PRIu64 " units; %u more memcgs took %" PRIu64 " units and %" PRIu64
             " bytes of arrays, as computed",
             probe_layout_to_string(f->layout), census_allocation_to_string(after->census->allocation), after->census->n_memcgs, nodes, nr_max,
             after->census->totals.units, MEMCGS + 1, after->census->memcgs[own].subtree_units, after->census->memcgs[own].subtree_array_bytes);

        if (!cgroups_v2())
                check_machine();
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "arithmetic"), 0);
        assert_true(wait_none_dying(20));
}

/* ---- ids in use ---- */

static uint64_t tmpfs_ids(const Reading *r) {
        for (size_t i = 0; i < r->n_fstypes; i++)
                if (strcmp(r->fstypes[i].name, "tmpfs") == 0)
                        return r->fstypes[i].ids;
        return 0;
}

static void check_fstypes(const Reading *r) {
        uint64_t sum = 0;

        for (size_t i = 0; i < r->n_fstypes; i++)
                sum += r->fstypes[i].ids;
        assert_int_equal(sum, r->ids_in_use); /* id 0 is one of "other" */
        assert_true(r->ids_in_use <= r->census->totals.ids);
}

/* ---- slab ---- */

/* The classes that shrinker info can come from. */
static const uint64_t classes[] = { 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192 };
#define N_CLASSES ELEMENTSOF(classes)

typedef struct Gain {
        uint32_t ids;
        uint64_t unit_size, array_size; /* 0: there is none, or it is not from slab */
        double objects[N_CLASSES];      /* for one memcg */
        double spread[N_CLASSES];       /* from the lowest to the highest of the runs */
        double whole[N_CLASSES];        /* of a run that gave a whole number, else as objects */
} Gain;

static bool all_gone(void *userdata) {
        _cleanup_(reading_freep) Reading *r = look(0);

        (void)userdata;
        return r->census->memcgs[look_own(r->census)].subtree_memcgs == 1;
}

static void count_objects(uint64_t *ret) {
        for (size_t i = 0; i < N_CLASSES; i++)
                slabs_flush(classes[i]);
        for (size_t i = 0; i < N_CLASSES; i++)
                if (slabs_objects(classes[i], ret + i) < 0)
                        skip_test("/proc/slabinfo cannot be read");
}

/* Tells whether others make or remove memcgs: theirs are of the same caches. */
static uint64_t digest_of_others(void) {
        _cleanup_(reading_freep) Reading *r = look(0);
        const Census *c = r->census;
        uint32_t own = look_own(c);
        uint64_t digest = 0;

        for (uint32_t i = 0; i < c->n_memcgs; i++)
                if (i < own || i >= own + c->memcgs[own].subtree_memcgs)
                        digest += census_digest_one(c->memcgs[i].serial, CENSUS_LIVE);
        return digest;
}

/* What one memcg of slab_memcgs takes. False when others disturbed. */
static bool measure_once(const Reading *r, Gain *ret) {
        const ProbeFacts *f = probe_facts(look_probe());
        uint64_t before[N_CLASSES], after[N_CLASSES], others;
        bool disturbed;
        Gain g = { .ids = r->census->totals.ids };

        g.unit_size = f->unit_struct_bytes ? probe_alloc_bytes(look_probe(), f->unit_struct_bytes, false) : 0;
        g.array_size = probe_alloc_bytes(look_probe(), look_array_struct_bytes(f, g.ids), false);
        if (g.array_size > 2 * f->page_bytes)
                g.array_size = 0;

        others = digest_of_others();
        count_objects(before);
        assert_int_equal(make_memcgs("slab", slab_memcgs), 0);
        count_objects(after);
        disturbed = digest_of_others() != others;
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "slab"), 0);
        if (!wait_until(60, all_gone, NULL))
                fail_test("removed memcgs are still there after a minute");
        /* The directory "slab" is a memcg as well. */
        for (size_t i = 0; i < N_CLASSES; i++)
                g.objects[i] = (double)(int64_t)(after[i] - before[i]) / (slab_memcgs + 1);
        *ret = g;
        return !disturbed;
}

static double distance(double a, double b) {
        return a > b ? a - b : b - a;
}

static double objects_of(const Gain *g, uint64_t size) {
        for (size_t i = 0; i < N_CLASSES; i++)
                if (classes[i] == size)
                        return g->objects[i];
        return 0;
}

/* Objects of a size that shrinker info takes for one memcg, by the census's own sizes. */
static double expected(const Gain *g, uint64_t size) {
        const ProbeFacts *f = probe_facts(look_probe());
        double n = 0;

        if (size == g->unit_size)
                n += (double)f->n_possible_nodes * look_slots(f, g->ids);
        if (size == g->array_size)
                n += f->n_possible_nodes;
        return n;
}

static int compare_double(const void *a, const void *b) {
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

/* Others use these caches as well, now and then: the median of several runs, class by class. */
static double from_whole(double n) {
        return distance(n, (double)(int64_t)(n + 0.5));
}

static Gain measure(void) {
        const ProbeFacts *f = probe_facts(look_probe());
        _cleanup_(reading_freep) Reading *r = settled();
        uint64_t each = f->n_possible_nodes * (look_slots(f, r->census->totals.ids) + 1);
        Gain runs[RUNS], g;
        unsigned disturbed = 0, n_runs = 0;

        slab_memcgs = (unsigned)(SLAB_OBJECTS / (own_slow() ? 2 : 1) / each);
        if (slab_memcgs < SLAB_MEMCGS_MIN)
                slab_memcgs = SLAB_MEMCGS_MIN;
        if (slab_memcgs > SLAB_MEMCGS_MAX)
                slab_memcgs = SLAB_MEMCGS_MAX;
        for (unsigned i = 0; i < RUNS; i++) {
                bool rest = i > 0;

                while (!measure_once(r, &g))
                        if (++disturbed >= TRIES)
                                skip_test("others made or removed memcgs in each of %u tries; this needs a machine that holds still for seconds", TRIES);
                runs[i] = g;
                note("run %u: %u memcgs with %u ids: each %.4f objects of %" PRIu64 " bytes (units: %.0f), %.4f of %" PRIu64 " (arrays: %u)", i + 1,
                     slab_memcgs + 1, g.ids, objects_of(&g, g.unit_size), g.unit_size, expected(&g, g.unit_size), objects_of(&g, g.array_size), g.array_size,
                     f->n_possible_nodes);
                n_runs = i + 1;
                /* On a machine that is all ours, two are enough. */
                for (size_t k = 0; k < N_CLASSES && rest; k++)
                        if (classes[k] == g.unit_size || classes[k] == g.array_size)
                                rest = distance(runs[i].objects[k], runs[i - 1].objects[k]) <= 0.0005 * (runs[i].objects[k] + 1);
                if (rest)
                        break;
        }
        for (size_t k = 0; k < N_CLASSES; k++) {
                double values[RUNS];

                for (unsigned i = 0; i < n_runs; i++)
                        values[i] = runs[i].objects[k];
                qsort(values, n_runs, sizeof(*values), compare_double);
                g.objects[k] = values[n_runs / 2];
                g.spread[k] = values[n_runs - 1] - values[0];
                /* What others do only disturbs: a run that comes out whole was not. */
                g.whole[k] = g.objects[k];
                for (unsigned i = 0; i < n_runs; i++)
                        if (from_whole(values[i]) <= 0.002 * (values[i] > 1 ? values[i] : 1))
                                g.whole[k] = values[i];
        }
        return g;
}

/* Whether the runs agreed so well that 0.2 % can be told. */
static bool at_rest(const Gain *g, uint64_t size) {
        for (size_t i = 0; i < N_CLASSES; i++)
                if (classes[i] == size)
                        return g->spread[i] <= 0.001 * (g->objects[i] + 1);
        return false;
}

static Gain few;
static bool have_few, grown;

static void check_whole(const Gain *g, uint64_t size) {
        double n = 0, least = expected(g, size), rest;

        for (size_t i = 0; i < N_CLASSES; i++)
                if (classes[i] == size)
                        n = g->whole[i];
        rest = from_whole(n);
        if (n < least * (at_rest(g, size) ? 0.998 : 0.98) || rest > (at_rest(g, size) ? 0.002 : 0.02) * (n > 1 ? n : 1))
                fail_test("%.4f objects of %" PRIu64 " bytes for a memcg, of which %.0f should be shrinker info", n, size, least);
}

static void test_slab_few(void **state) {
        _cleanup_(reading_freep) Reading *r = NULL;

        (void)state;
        r = settled();
        if (r->census->allocation != CENSUS_ALLOCATION_EAGER)
                skip_test("units on demand: an empty memcg has none");
        few = measure();
        have_few = true;
        if (few.unit_size)
                check_whole(&few, few.unit_size);
        if (few.array_size >= 1024)
                check_whole(&few, few.array_size); /* smaller ones drown in what else a cgroup takes */
}

static void test_mounts(void **state) {
        _cleanup_(reading_freep) Reading *before = NULL, *during = NULL, *after = NULL;
        uint64_t free_ids;
        bool equal = false;
        uint32_t nr_max;

        (void)state;
        assert_int_equal(make_memcgs("mounts", MEMCGS), 0);
        assert_int_equal(mounts_make(1), 0); /* and the one that the directories are in */
        /* Others may mount at the same time: what must be equal is tried again. */
        for (unsigned i = 0; i < TRIES && !equal; i++) {
                reading_freep(&before);
                reading_freep(&during);
                reading_freep(&after);
                before = settled();
                assert_int_equal(mounts_make(MOUNTS), 0);
                during = settled();
                assert_int_equal(mounts_drop(MOUNTS), 0);
                after = settled();
                equal = during->ids_in_use == before->ids_in_use + MOUNTS && after->ids_in_use == before->ids_in_use &&
                        tmpfs_ids(during) == tmpfs_ids(before) + MOUNTS && tmpfs_ids(after) == tmpfs_ids(before);
                if (during->census->totals.ids > before->census->totals.ids)
                        grown = true;
        }
        if (!equal)
                fail_test("ids in use: %" PRIu64 ", with %u tmpfs more %" PRIu64 ", without %" PRIu64 "; of tmpfs: %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                          before->ids_in_use, MOUNTS, during->ids_in_use, after->ids_in_use, tmpfs_ids(before), tmpfs_ids(during), tmpfs_ids(after));
        check_fstypes(before);
        check_fstypes(during);
        check_fstypes(after);

        (void)check_arithmetic(before->census);
        nr_max = check_arithmetic(during->census);
        assert_int_equal(check_arithmetic(after->census), nr_max); /* it never comes down */
        free_ids = before->census->totals.ids - before->ids_in_use;
        if (free_ids < MOUNTS)
                assert_true(nr_max > before->census->totals.ids);
        note("ids in use %" PRIu64 " -> %" PRIu64 " -> %" PRIu64 ", tmpfs %" PRIu64 " -> %" PRIu64 "; shrinker_nr_max %u -> %u%s", before->ids_in_use,
             during->ids_in_use, after->ids_in_use, tmpfs_ids(before), tmpfs_ids(during), before->census->totals.ids, nr_max,
             grown ? "" : " (there were ids left from before)");
        /* What grew is in every memcg; check_arithmetic() looked at each. Ours once more, in sum. */
        {
                const Census *c = during->census;
                const ProbeFacts *f = probe_facts(look_probe());
                uint32_t own = look_own(c);

                assert_int_equal(c->memcgs[own].subtree_memcgs, 2 + MEMCGS);
                if (c->allocation == CENSUS_ALLOCATION_EAGER)
                        assert_int_equal(c->memcgs[own].subtree_units, (2 + MEMCGS) * (uint64_t)f->n_possible_nodes * look_slots(f, nr_max));
        }
        assert_int_equal(mounts_drop(1), 0);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "mounts"), 0);
        assert_true(wait_none_dying(20));
}

static void test_slab_many(void **state) {
        Gain many;
        unsigned n = 0;

        (void)state;
        if (!have_few)
                skip_test("nothing to compare with");
        if (!grown)
                skip_test("shrinker_nr_max was %u already and %u mounts did not raise it: a machine freshly booted shows the difference", few.ids, MOUNTS);
        many = measure();
        assert_true(many.ids > few.ids);
        for (size_t i = 0; i < N_CLASSES; i++) {
                double got = many.objects[i] - few.objects[i], wanted = expected(&many, classes[i]) - expected(&few, classes[i]);
                double total = expected(&many, classes[i]) + expected(&few, classes[i]);

                if (total == 0)
                        continue;
                if (!at_rest(&few, classes[i]) || !at_rest(&many, classes[i])) {
                        note("caches of %" PRIu64 " bytes did not come to rest: others allocate from them; %.4f more for a memcg, computed %.0f", classes[i],
                             got, wanted);
                        continue;
                }
                note("objects of %" PRIu64 " bytes that a memcg takes more with %u ids than with %u: %.4f, computed %.0f (%+.3f %%)", classes[i], many.ids,
                     few.ids, got, wanted, 100 * (got - wanted) / (wanted != 0 ? distance(wanted, 0) : 1));
                /* Of small sizes a memcg takes many objects besides: there, 0.2 % of all of them. */
                if (distance(got, wanted) > 0.002 * (classes[i] == many.unit_size ? distance(wanted, 0) : many.objects[i] + 1))
                        fail_test("slabinfo gained %.4f objects of %" PRIu64 " bytes more for a memcg, the census says %.0f", got, classes[i], wanted);
                n++;
        }
        if (n == 0)
                skip_test("no slab cache came to rest: others allocate from them");
}

static void test_size_classes(void **state) {
        const ProbeFacts *f = probe_facts(look_probe());
        _cleanup_(reading_freep) Reading *r = NULL;
        const char *cache;
        uint64_t array;

        (void)state;
        r = look(0);
        array = look_array_struct_bytes(f, r->census->totals.ids);
        note("array: %" PRIu64 " bytes take %" PRIu64, array, probe_alloc_bytes(look_probe(), array, false));
        if (!probe_has(look_probe(), "alloc-size"))
                skip_test("this kernel cannot name the cache of an address (bpf_get_kmem_cache, from 6.13): the rule is all there is");
        if (!f->unit_struct_bytes)
                skip_test("this kernel has no units");
        assert_true(probe_unit_cache(look_probe(), &cache));
        note("a unit of %u bytes comes from %s", f->unit_struct_bytes, cache);
        assert_int_equal(probe_alloc_bytes(look_probe(), f->unit_struct_bytes, false), size_class_bytes(f->unit_struct_bytes, f->page_bytes, false));
        assert_int_equal(probe_alloc_bytes(look_probe(), f->unit_struct_bytes, false), slabs_size_of(cache));
        assert_int_equal(probe_alloc_bytes(look_probe(), array, false), size_class_bytes(array, f->page_bytes, false));
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_arithmetic),    cmocka_unit_test(test_slab_few),
                cmocka_unit_test(test_mounts),        cmocka_unit_test(test_slab_many),
                cmocka_unit_test(test_size_classes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-counts", .limit_sec = 280, .run = run });
}
