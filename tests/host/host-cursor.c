/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The walk's cursor, one slice at a time: slices so small that they end everywhere, and between two slices this very program removes
 * what the walk stands on, what it remembers beside and above it, and adds more. A memcg that is there from the beginning of a walk to
 * its end must be in it once, wherever the slices ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"
#include "tree.h"

#define SEED 20260
#define NODES 700
#define HELD 23
#define BUFFER_BYTES (256 * 1024)
#define FILL_SEC 8 /* a slow machine gets a smaller tree */
#define NODES_LEAST 150U

typedef struct Walk {
        Tree *tree;
        Census *census;
        ProbeStats stats;
        uint64_t slices_seen;
        unsigned changes, waits; /* left */
        unsigned removed;
        unsigned chance; /* one change in so many records of our tree; 0: where each slice ended */
        uint64_t last_id; /* of the memcg that was told last */
} Walk;

static void remove_some(Walk *w, uint32_t i) {
        uint32_t before = w->tree->n_there;
        int r = tree_remove(w->tree, i);

        if (r < 0)
                fail_test("cannot remove n%u: %s", i, strerror(-r));
        w->removed += before - w->tree->n_there;
}

static void add_some(Walk *w, uint32_t parent, unsigned n) {
        for (unsigned k = 0; k < n && w->tree->n_there < NODES * 3 / 2; k++) {
                int64_t r = tree_add(w->tree, parent);

                if (r < 0)
                        fail_test("cannot make a cgroup: %s", strerror((int)-r));
                if (!tree_random(w->tree, 3))
                        parent = (uint32_t)r;
        }
}

/* Something near i, which the walk has just sent. */
static void change(Walk *w, uint32_t i) {
        Tree *t = w->tree;
        uint32_t up = i, k;
        unsigned n = 1 + (unsigned)tree_random(t, 120), kind = (unsigned)tree_random(t, 10);

        switch (kind) {
        case 0:
                remove_some(w, i);
                break;
        case 1: /* and those before it: all that the walk remembers beside it */
        case 8:
        case 9:
                if (kind != 1)
                        n = 80;
                for (k = i; k != TREE_NONE && n--;) {
                        uint32_t previous = t->nodes[k].previous_sibling;

                        remove_some(w, k);
                        k = previous;
                }
                break;
        case 2: /* and those after it */
                for (k = i; k != TREE_NONE && n--;) {
                        uint32_t next = t->nodes[k].next_sibling;

                        remove_some(w, k);
                        k = next;
                }
                break;
        case 3: /* and what is above it */
                for (n = 1 + (unsigned)tree_random(t, 8); n-- && t->nodes[up].parent != 0 && t->nodes[up].parent != TREE_NONE;)
                        up = t->nodes[up].parent;
                remove_some(w, up);
                break;
        case 4: /* all of that directory but the last */
                for (k = t->nodes[t->nodes[i].parent].first_child; k != TREE_NONE && t->nodes[k].next_sibling != TREE_NONE;) {
                        uint32_t next = t->nodes[k].next_sibling;

                        remove_some(w, k);
                        k = next;
                }
                break;
        case 5:
                add_some(w, i, 1 + n % 16);
                break;
        case 6:
                add_some(w, t->nodes[i].parent, 1 + n % 16);
                break;
        default:
                remove_some(w, tree_pick(t));
        }
        /* Removed is one thing; off the list, and freed, takes a few grace periods. */
        if (w->waits > 0 && (kind >= 8 || !tree_random(t, 3))) {
                w->waits--;
                (void)usleep(tree_random(t, 2) ? 30000 : 90000);
                /* New ones may get the memory of those that are freed by now. */
                if (tree_random(t, 2))
                        add_some(w, tree_pick(t), 1 + (unsigned)tree_random(t, 40));
        }
}

static void change_near(Walk *w, uint64_t id) {
        uint32_t i = tree_find(w->tree, id);

        if (i == TREE_NONE || i == 0 || !w->tree->nodes[i].there)
                return;
        w->changes--;
        change(w, i);
}

static int on_record(const struct sw_head *record, void *userdata) {
        const struct sw_memcg *m = (const struct sw_memcg *)record;
        Walk *w = userdata;
        int r;

        r = census_add(w->census, record);
        if (r < 0 || record->type != SW_TYPE_MEMCG)
                return r;
        w->last_id = m->cgroup_id;
        /* What pads the name is no older record's. */
        for (const char *p = (const char *)(m + 1) + m->name_len; p < (const char *)m + m->head.size; p++)
                if (*p)
                        fail_test("the name of the memcg with serial %" PRIu64 " is padded with rubbish", (uint64_t)m->serial);
        if (w->chance && w->changes && !tree_random(w->tree, w->chance))
                change_near(w, m->cgroup_id);
        return 0;
}

/* The cursor is on the memcg that was told last, or in the middle of its nodes. */
static void on_slice_end(void *userdata) {
        Walk *w = userdata;

        if (!w->chance && w->changes && tree_random(w->tree, 2))
                change_near(w, w->last_id);
}

static Census *new_census(void) {
        const ProbeFacts *f = probe_facts(look_probe());
        const CensusOptions options = {
                .flat = f->layout == PROBE_LAYOUT_FLAT,
                .unit_struct_bytes = f->unit_struct_bytes,
                .n_nodes = f->n_possible_nodes,
                .alloc = look_alloc,
        };
        Census *c = NULL;

        assert_int_equal(census_new(&c, &options), 0);
        return c;
}

static double now(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A tree of a wide directory, a deep one, and whatever comes. */
static void fill(Tree *t) {
        static unsigned wanted = NODES;
        double start = now();
        uint32_t top = 0;

        if (t->n_there > wanted)
                return;
        for (unsigned part = 0; part < 3; part++) {
                /* Mostly the wide one: a search for the way on must outlast a slice. */
                unsigned n = t->n_there < wanted ? (wanted - t->n_there) * (part == 0 ? 7 : 5 * part) / 10 : 0;
                uint32_t parent = 0;
                int64_t r = tree_add(t, top);

                assert_true(r >= 0);
                parent = (uint32_t)r;
                for (unsigned k = 0; k < n; k++) {
                        r = tree_add(t, part == 2 ? tree_pick(t) : parent);
                        assert_true(r >= 0);
                        if (part == 1 && tree_level(t, parent) < 60)
                                parent = (uint32_t)r;
                        if (k % 16 == 15 && now() - start > FILL_SEC / 3.0 * (part + 1) && wanted > NODES_LEAST) {
                                wanted = wanted * 3 / 4;
                                break;
                        }
                }
        }
        for (unsigned tries = 0; t->n_held < HELD && tries < 10 * HELD; tries++) {
                uint32_t i = tree_pick(t);
                int r;

                if (i == 0 || t->nodes[i].first_child != TREE_NONE)
                        continue;
                r = tree_hold(t, i);
                if (r == -EOPNOTSUPP)
                        return;
                assert_int_equal(r, 0);
                if (tree_random(t, 2))
                        assert_int_equal(tree_remove(t, i), 0);
        }
}

static bool few_dying(void *userdata) {
        Reading *r = look(0);
        bool few = look_own_dying(r->census) < 500;

        (void)userdata;
        reading_free(r);
        return few;
}

/* SHRINKWATCH_TEST_TIMES: so many times as long as every run can afford. */
static double times_as_long(void) {
        const char *s = getenv("SHRINKWATCH_TEST_TIMES");
        double times = s ? strtod(s, NULL) : 1;

        return times >= 1 ? times : 1;
}

static void run_walks(const char *what, const int64_t *budgets, size_t n_budgets, unsigned walks, unsigned sec, unsigned changes) {
        uint64_t slices = 0, memcgs = 0, dropped = 0, removed = 0;
        double end = now() + times_as_long() * (own_slow() ? sec / 2.0 : sec);
        unsigned done = 0;
        Tree tree;

        assert_int_equal(tree_begin(&tree, what, SEED), 0);
        for (unsigned i = 0; i < walks && (now() < end || i < 3); i++) {
                Walk w = { .tree = &tree, .changes = changes, .waits = changes / 2, .chance = i % 3 == 0 ? 1 + (unsigned)tree_random(&tree, 30) : 0 };
                int64_t budget = budgets[i % n_budgets];
                ProbeError e = {};
                char text[64];
                int r;

                fill(&tree);
                probe_set_budget(look_probe(), budget);
                w.census = new_census();
                (void)snprintf(text, sizeof(text), "walk %u of %u, budget %" PRId64, i, walks, budget);
                tree_start_walk(&tree);
                probe_set_between(look_probe(), on_slice_end, &w);
                r = probe_walk(look_probe(), i % 4 == 3 ? PROBE_WALK_BITS : 0, on_record, &w, &w.stats, &e);
                probe_set_between(look_probe(), NULL, NULL);
                if (r < 0)
                        fail_test("%s: %s", text, e.text);
                r = census_seal(w.census);
                if (r < 0)
                        fail_test("%s: the records do not form a tree: %s", text, strerror(-r));
                tree_check(&tree, w.census, text);
                slices += w.stats.slices;
                memcgs += w.census->n_memcgs;
                dropped += w.census->totals.dropped;
                removed += w.removed;
                census_free(w.census);
                if (i % 5 == 4)
                        tree_let_go(&tree);
                /* The kernel is slower at letting go than we at removing. */
                if (i % 5 == 4)
                        (void)wait_until(10, few_dying, NULL);
                done++;
        }
        probe_set_budget(look_probe(), 0);
        note("%u walks, %" PRIu64 " slices, %" PRIu64 " memcgs told, %" PRIu64 " removed and %zu made meanwhile, %" PRIu64
             " dropped for being released between two slices",
             done, slices, memcgs, removed, tree.n, dropped);
        tree_end(&tree);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), what), 0);
}

/* Nothing changes: every slice length gives the same census. From one that hardly fits a memcg on. */
static void test_slices_alone(void **state) {
        const ProbeFacts *f = probe_facts(look_probe());
        double start = now();
        Tree tree;

        (void)state;
        assert_int_equal(tree_begin(&tree, "alone", SEED + 1), 0);
        fill(&tree);
        for (int64_t budget = 25; budget < 400; budget += now() - start > (own_slow() ? 8 : 20) ? 71 : budget < 200 ? 1 : 7) {
                Walk w = { .tree = &tree };
                ProbeError e = {};
                char text[64];

                probe_set_budget(look_probe(), budget);
                w.census = new_census();
                (void)snprintf(text, sizeof(text), "budget %" PRId64, budget);
                tree_start_walk(&tree);
                if (probe_walk(look_probe(), budget & 1 ? PROBE_WALK_BITS : 0, on_record, &w, &w.stats, &e) < 0)
                        fail_test("%s: %s", text, e.text);
                assert_int_equal(census_seal(w.census), 0);
                tree_check(&tree, w.census, text);
                for (uint32_t k = 0; k < w.census->n_nodes; k++) {
                        const CensusNode *n = w.census->nodes + k;

                        if (!(n->valid & SW_NODE_INFO))
                                continue;
                        assert_int_equal(n->slots, look_slots(f, n->ids));
                        assert_true(n->units <= n->slots);
                        if (w.census->allocation == CENSUS_ALLOCATION_EAGER)
                                assert_int_equal(n->units, n->slots);
                        assert_true(n->units_used <= n->units);
                }
                if (budget == 25)
                        note("budget %" PRId64 ": %zu memcgs in %" PRIu64 " slices", budget, w.census->n_memcgs, w.stats.slices);
                census_free(w.census);
        }
        probe_set_budget(look_probe(), 0);
        tree_end(&tree);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "alone"), 0);
}

/* A slice that ends because its buffer is full, not its work. */
static void test_full_buffer(void **state) {
        size_t each = sizeof(struct sw_memcg) + 8 + probe_facts(look_probe())->n_possible_nodes * sizeof(struct sw_node);
        Tree tree;

        (void)state;
        assert_int_equal(tree_begin(&tree, "full", SEED + 2), 0);
        for (unsigned i = 0; i < 2 * BUFFER_BYTES / each + 100; i++)
                assert_true(tree_add(&tree, i % 100 ? 0 : tree_pick(&tree)) >= 0);
        for (unsigned i = 0; i < 3; i++) {
                Walk w = { .tree = &tree };
                ProbeError e = {};
                char text[64];

                probe_set_budget(look_probe(), INT64_C(1) << 24);
                w.census = new_census();
                (void)snprintf(text, sizeof(text), "full buffer, walk %u", i);
                tree_start_walk(&tree);
                if (probe_walk(look_probe(), 0, on_record, &w, &w.stats, &e) < 0)
                        fail_test("%s: %s", text, e.text);
                assert_int_equal(census_seal(w.census), 0);
                tree_check(&tree, w.census, text);
                assert_true(w.stats.slices > 2);
                census_free(w.census);
        }
        probe_set_budget(look_probe(), 0);
        tree_end(&tree);
        assert_int_equal(cgroup_remove_tree(cgroups_fd(), "full"), 0);
}

static void test_small_slices(void **state) {
        static const int64_t budgets[] = { PROBE_BUDGET_LEAST, 2791, 3001, 3457, 4096, 5003 };

        (void)state;
        run_walks("small", budgets, ELEMENTSOF(budgets), 2000, 14, 16);
}

static void test_one_change(void **state) {
        static const int64_t budgets[] = { PROBE_BUDGET_LEAST, 2600, 2700, 2800, 2900 };

        (void)state;
        run_walks("one", budgets, ELEMENTSOF(budgets), 5000, 8, 3);
}

static void test_default_slices(void **state) {
        static const int64_t budgets[] = { 0 };

        (void)state;
        run_walks("default", budgets, ELEMENTSOF(budgets), 500, 4, 20);
}

static int run(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_slices_alone),
                cmocka_unit_test(test_full_buffer),
                cmocka_unit_test(test_small_slices),
                cmocka_unit_test(test_one_change),
                cmocka_unit_test(test_default_slices),
        };
        struct rlimit limit = { 4096, 4096 };

        (void)setrlimit(RLIMIT_NOFILE, &limit);
        return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
        return supervise(&(Supervised){ .name = "host-cursor", .limit_sec = 280, .run = run });
}
