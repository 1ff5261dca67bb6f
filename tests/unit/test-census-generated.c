/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The census on generated trees, against a model that shares nothing with it: parents by search, descendants by going up from every
 * memcg, sums by adding over all of them, paths by recursion. Slow, and plain enough to be believed.
 */
#include <stdio.h>

#include "builder.h"
#include "check.h"

#define MEMCGS_MAX 220
#define NODES_MAX 5

typedef struct ModelNode {
        uint32_t ids, slots, units, bits, units_used, array_bytes, valid;
} ModelNode;

typedef struct ModelMemcg {
        uint64_t serial, parent; /* serials */
        uint32_t css;
        uint32_t valid;
        char name[12];
        ModelNode nodes[NODES_MAX];
        size_t n_sent; /* fewer than the nodes there are: released in between */
} ModelMemcg;

typedef struct Model {
        ModelMemcg memcgs[MEMCGS_MAX];
        size_t n;
        size_t n_nodes;
        bool flat;
} Model;

static ModelMemcg *find(Model *model, uint64_t serial) {
        for (size_t i = 0; i < model->n; i++)
                if (model->memcgs[i].serial == serial)
                        return &model->memcgs[i];
        return NULL;
}

static bool is_there(const Model *model, const ModelMemcg *m) {
        return m->n_sent == model->n_nodes;
}

static bool has_children(const Model *model, uint64_t serial) {
        for (size_t i = 0; i < model->n; i++)
                if (model->memcgs[i].parent == serial)
                        return true;
        return false;
}

static bool is_in_subtree(Model *model, const ModelMemcg *m, uint64_t serial) {
        for (; m; m = find(model, m->parent))
                if (m->serial == serial)
                        return true;
        return false;
}

static uint32_t make_css(Random *random) {
        static const uint32_t choice[] = { STATE_LIVE, STATE_LIVE, STATE_DYING, SW_CSS_DYING | SW_CSS_ONLINE, STATE_CREATING };

        return choice[random_below(random, ELEMENTSOF(choice))];
}

static void make_node(Random *random, ModelNode *n) {
        n->slots = (uint32_t)random_below(random, 40);
        n->units = n->slots ? (uint32_t)random_below(random, n->slots + 1) : 0;
        n->ids = n->slots * 64;
        n->units_used = n->units ? (uint32_t)random_below(random, n->units + 1) : 0;
        n->bits = n->units_used * (uint32_t)(1 + random_below(random, 3));
        n->array_bytes = 24 + 8 * n->slots;
        n->valid = random_once_in(random, 10) ? 0 : SW_NODE_INFO | SW_NODE_UNITS;
        if (random_once_in(random, 2))
                n->valid |= SW_NODE_BITS;
        if (random_once_in(random, 3))
                n->valid |= SW_NODE_VMALLOC;
}

/* Trees from a bush to a chain: how far back a parent can lie is drawn as well. */
static void make_model(Random *random, Model *model) {
        size_t reach = 1 + random_below(random, MEMCGS_MAX);
        uint64_t serial = 0;

        memset(model, 0, sizeof(*model));
        model->n = 1 + random_below(random, MEMCGS_MAX);
        model->n_nodes = 1 + random_below(random, NODES_MAX);
        model->flat = random_once_in(random, 8);
        for (size_t i = 0; i < model->n; i++) {
                ModelMemcg *m = &model->memcgs[i];
                size_t span = i < reach ? i : reach;

                serial += 1 + random_below(random, 1000) * random_below(random, 2);
                m->serial = serial;
                m->parent = i == 0 ? 0 : model->memcgs[i - 1 - random_below(random, span)].serial;
                m->css = i == 0 ? STATE_LIVE : make_css(random);
                m->valid = (uint32_t)random_u64(random) | SW_MEMCG_NAME;
                /* Few names, so that siblings often share one. */
                snprintf(m->name, sizeof(m->name), "n%u", (unsigned)random_below(random, 4));
                m->n_sent = model->n_nodes;
                for (size_t k = 0; k < model->n_nodes; k++)
                        make_node(random, &m->nodes[k]);
        }
        for (size_t i = 1; i < model->n; i++)
                if (random_once_in(random, 12) && !has_children(model, model->memcgs[i].serial))
                        model->memcgs[i].n_sent = random_below(random, model->n_nodes);
}

static void send(Model *model, const ModelMemcg *m, Records *r) {
        struct sw_memcg *memcg;

        memcg = records_add_memcg(r, m->serial, m->parent, m->css, m->name, strlen(m->name), (uint16_t)model->n_nodes);
        memcg->head.valid = m->valid;
        for (uint32_t k = 0; k < m->n_sent; k++) {
                const ModelNode *n = &m->nodes[k];
                struct sw_node *node = records_add_node(r, m->serial, k * 3, n->ids, n->slots, n->units);

                node->head.valid = n->valid;
                node->bits = n->bits;
                node->units_used = n->units_used;
                node->array_bytes = n->array_bytes;
        }
        /* Serials ascend with i, so the children do. */
        for (size_t i = 0; i < model->n; i++)
                if (model->memcgs[i].parent == m->serial)
                        send(model, &model->memcgs[i], r);
}

static Census *build(Model *model) {
        CensusOptions options = options_units((uint32_t)model->n_nodes);
        Records r = {};
        Census *c;

        options.flat = model->flat;
        send(model, &model->memcgs[0], &r);
        c = census_of(&r, &options);
        records_done(&r);
        return c;
}

typedef struct Sums {
        uint64_t slots, units, bits, units_used, unit_bytes, array_bytes;
} Sums;

static Sums own_sums(const Model *model, const ModelMemcg *m) {
        Sums s = {};

        for (size_t k = 0; k < model->n_nodes; k++) {
                const ModelNode *n = &m->nodes[k];

                if ((n->valid & SW_NODE_UNITS) && !model->flat) {
                        s.slots += n->slots;
                        s.units += n->units;
                        s.unit_bytes += n->units * 523ULL;
                }
                if (n->valid & SW_NODE_BITS) {
                        s.bits += n->bits;
                        s.units_used += n->units_used;
                }
                if (n->valid & SW_NODE_INFO)
                        s.array_bytes += n->array_bytes + (n->valid & SW_NODE_VMALLOC ? 7 : 3);
        }
        return s;
}

static void path_of(Model *model, const ModelMemcg *m, char *path) {
        if (m->parent == 0)
                return;
        path_of(model, find(model, m->parent), path);
        strcat(path, "/");
        strcat(path, m->name);
}

static CensusState state_of(const ModelMemcg *m) {
        return m->css & SW_CSS_DYING ? CENSUS_DYING : m->css & SW_CSS_ONLINE ? CENSUS_LIVE : CENSUS_CREATING;
}

static void check_memcg(Model *model, const Census *c, const ModelMemcg *m) {
        uint32_t i = census_find(c, m->serial);
        const ModelMemcg *live = m;
        uint64_t units = 0, unit_bytes = 0, array_bytes = 0, memcgs = 0, dying = 0, children = 0;
        char path[MEMCGS_MAX * 4] = "";
        const CensusMemcg *got;
        size_t len = 0;
        char *got_path;
        Sums own = own_sums(model, m);

        if (!is_there(model, m)) {
                assert_int_equal(i, CENSUS_NONE);
                return;
        }
        assert_int_not_equal(i, CENSUS_NONE);
        got = &c->memcgs[i];

        for (size_t k = 0; k < model->n; k++) {
                const ModelMemcg *other = &model->memcgs[k];
                Sums s = own_sums(model, other);

                if (!is_there(model, other))
                        continue;
                children += other->parent == m->serial;
                if (!is_in_subtree(model, other, m->serial))
                        continue;
                units += s.units;
                unit_bytes += s.unit_bytes;
                array_bytes += s.array_bytes;
                memcgs++;
                dying += state_of(other) == CENSUS_DYING;
                /* One run of indices. */
                assert_in_range(census_find(c, other->serial), i, i + got->subtree_memcgs - 1);
        }
        while (state_of(live) != CENSUS_LIVE)
                live = find(model, live->parent);

        assert_int_equal(got->serial, m->serial);
        assert_int_equal(got->parent_serial, m->parent);
        assert_int_equal(got->parent, m->parent ? census_find(c, m->parent) : CENSUS_NONE);
        assert_int_equal(c->memcgs[got->nearest_live].serial, live->serial);
        assert_int_equal(got->state, state_of(m));
        assert_int_equal(got->offline, (m->css & SW_CSS_DYING) && !(m->css & SW_CSS_ONLINE));
        assert_int_equal(got->refs, m->valid & SW_MEMCG_REFS ? m->serial * 10 + 2 : 0);
        assert_int_equal(got->n_children, children);
        assert_int_equal(got->n_nodes, model->n_nodes);
        assert_int_equal(got->slots, own.slots);
        assert_int_equal(got->units, own.units);
        assert_int_equal(got->bits, own.bits);
        assert_int_equal(got->unit_bytes, own.unit_bytes);
        assert_int_equal(got->array_bytes, own.array_bytes);
        assert_int_equal(got->subtree_units, units);
        assert_int_equal(got->subtree_unit_bytes, unit_bytes);
        assert_int_equal(got->subtree_array_bytes, array_bytes);
        assert_int_equal(got->subtree_memcgs, memcgs);
        assert_int_equal(got->subtree_dying, dying);
        for (uint32_t k = 0; k < got->n_nodes; k++)
                assert_int_equal(c->nodes[got->first_node + k].node, k * 3);

        path_of(model, m, path);
        got_path = census_path(c, i, &len);
        assert_non_null(got_path);
        assert_string_equal(got_path, path[0] ? path : "/");
        assert_int_equal(len, strlen(got_path));
        free(got_path);
}

static void check_totals(Model *model, const Census *c) {
        uint64_t count[3] = {}, units[3] = {}, slots[3] = {}, bytes[3] = {}, digest = 0, dropped = 0, uneven = 0, highest = 0;
        uint32_t ids = 0;
        Sums all = {};

        for (size_t i = 0; i < model->n; i++)
                for (size_t k = 0; k < model->n_nodes && is_there(model, &model->memcgs[i]); k++) {
                        const ModelNode *n = &model->memcgs[i].nodes[k];

                        if ((n->valid & SW_NODE_INFO) && n->ids > ids)
                                ids = n->ids;
                }
        for (size_t i = 0; i < model->n; i++) {
                const ModelMemcg *m = &model->memcgs[i];
                Sums s = own_sums(model, m);
                bool shorter = false;

                if (!is_there(model, m)) {
                        dropped++;
                        continue;
                }
                count[state_of(m)]++;
                units[state_of(m)] += s.units;
                slots[state_of(m)] += s.slots;
                bytes[state_of(m)] += s.unit_bytes + s.array_bytes;
                all.unit_bytes += s.unit_bytes;
                all.array_bytes += s.array_bytes;
                all.bits += s.bits;
                all.units_used += s.units_used;
                digest += sw_digest(m->serial, (uint32_t)state_of(m));
                highest = m->serial > highest ? m->serial : highest;
                for (size_t k = 0; k < model->n_nodes; k++)
                        shorter |= !(m->nodes[k].valid & SW_NODE_INFO) ? ids > 0 : m->nodes[k].ids < ids;
                uneven += shorter && state_of(m) != CENSUS_CREATING;
        }
        assert_int_equal(c->totals.memcgs, count[0] + count[1] + count[2]);
        assert_int_equal(c->totals.memcgs, c->n_memcgs);
        assert_int_equal(c->totals.live, count[CENSUS_LIVE]);
        assert_int_equal(c->totals.dying, count[CENSUS_DYING]);
        assert_int_equal(c->totals.creating, count[CENSUS_CREATING]);
        assert_int_equal(c->totals.units, units[0] + units[1] + units[2]);
        assert_int_equal(c->totals.units_live, units[CENSUS_LIVE]);
        assert_int_equal(c->totals.units_dying, units[CENSUS_DYING]);
        assert_int_equal(c->totals.slots, slots[0] + slots[1] + slots[2]);
        assert_int_equal(c->totals.slots_live, slots[CENSUS_LIVE]);
        assert_int_equal(c->totals.slots_dying, slots[CENSUS_DYING]);
        assert_int_equal(c->totals.overhead_live_bytes, bytes[CENSUS_LIVE]);
        assert_int_equal(c->totals.overhead_dying_bytes, bytes[CENSUS_DYING]);
        assert_int_equal(c->totals.unit_bytes, all.unit_bytes);
        assert_int_equal(c->totals.array_bytes, all.array_bytes);
        assert_int_equal(c->totals.bits, all.bits);
        assert_int_equal(c->totals.units_used, all.units_used);
        assert_int_equal(c->totals.digest, digest);
        assert_int_equal(c->totals.highest_serial, highest);
        assert_int_equal(c->totals.ids, ids);
        assert_int_equal(c->totals.dropped, dropped);
        assert_int_equal(c->totals.uneven, uneven);
}

/* Each path that there is, and each that differs from it in one name. */
static void check_find_path(Model *model, const Census *c) {
        static const char *const tails[] = { "", "/n0", "/n1", "/n3", "/n", "/n00" };
        static const int rank[] = { [CENSUS_LIVE] = 2, [CENSUS_DYING] = 1, [CENSUS_CREATING] = 0 };

        for (size_t i = 0; i < model->n; i += 1 + i / 8) {
                for (size_t t = 0; t < ELEMENTSOF(tails); t++) {
                        char wanted[MEMCGS_MAX * 4] = "", path[MEMCGS_MAX * 4];
                        const ModelMemcg *best = NULL;
                        uint32_t got;

                        path_of(model, &model->memcgs[i], wanted);
                        strcat(wanted, tails[t]);
                        for (size_t k = 0; k < model->n; k++) {
                                const ModelMemcg *m = &model->memcgs[k];

                                path[0] = '\0';
                                path_of(model, m, path);
                                if (!is_there(model, m) || strcmp(path, wanted) != 0)
                                        continue;
                                /* Serials ascend with k. */
                                if (!best || rank[state_of(m)] >= rank[state_of(best)])
                                        best = m;
                        }
                        if (!wanted[0])
                                strcpy(wanted, "/");
                        got = census_find_path(c, wanted, strlen(wanted));
                        assert_int_equal(got, best ? census_find(c, best->serial) : CENSUS_NONE);
                }
        }
}

static void test_generated(_unused_ void **state) {
        Random random = random_start(20250117);
        static Model model;

        for (size_t round = 0; round < 150; round++) {
                Census *c;

                make_model(&random, &model);
                c = build(&model);
                for (size_t i = 0; i < model.n; i++)
                        check_memcg(&model, c, &model.memcgs[i]);
                check_totals(&model, c);
                if (round % 3 == 0)
                        check_find_path(&model, c);
                census_free(c);
        }
}

/* A later census of the same boot: some die, some leaves go, some come. Serials of the dead are not used again. */
static void age(Random *random, Model *model) {
        uint64_t serial = model->memcgs[model->n - 1].serial;

        for (size_t i = model->n - 1; i > 0; i--) {
                ModelMemcg *m = &model->memcgs[i];

                if (random_once_in(random, 4))
                        m->css = make_css(random);
                if (random_once_in(random, 4) && !has_children(model, m->serial)) {
                        memmove(m, m + 1, (model->n - i - 1) * sizeof(*m));
                        model->n--;
                }
        }
        for (size_t i = model->n; i < MEMCGS_MAX && !random_once_in(random, 20); i++) {
                ModelMemcg *m = &model->memcgs[model->n++];

                *m = (ModelMemcg){ .n_sent = model->n_nodes, .css = make_css(random), .name = "new", .valid = SW_MEMCG_NAME };
                m->serial = ++serial;
                m->parent = model->memcgs[random_below(random, model->n - 1)].serial;
                while (!is_there(model, find(model, m->parent)))
                        m->parent = find(model, m->parent)->parent;
                for (size_t k = 0; k < model->n_nodes; k++)
                        make_node(random, &m->nodes[k]);
        }
}

static void test_deltas(_unused_ void **state) {
        Random random = random_start(7919);
        static Model before, after;

        for (size_t round = 0; round < 200; round++) {
                CensusDelta expected = {}, got, back;
                Census *a, *b;

                make_model(&random, &before);
                after = before;
                age(&random, &after);
                a = build(&before);
                b = build(&after);

                for (size_t i = 0; i < before.n; i++) {
                        const ModelMemcg *x = &before.memcgs[i], *y = find(&after, x->serial);

                        if (!is_there(&before, x))
                                continue;
                        if (!y || !is_there(&after, y))
                                expected.gone++;
                        else if (state_of(x) == CENSUS_LIVE && state_of(y) == CENSUS_DYING)
                                expected.died++;
                }
                for (size_t i = 0; i < after.n; i++)
                        if (is_there(&after, &after.memcgs[i]) && !find(&before, after.memcgs[i].serial))
                                expected.added++;
                for (size_t i = 0; i < before.n; i++) {
                        Sums s = own_sums(&before, &before.memcgs[i]);

                        if (!is_there(&before, &before.memcgs[i]))
                                continue;
                        expected.units -= (int64_t)s.units;
                        expected.overhead_bytes -= (int64_t)(s.unit_bytes + s.array_bytes);
                }
                for (size_t i = 0; i < after.n; i++) {
                        Sums s = own_sums(&after, &after.memcgs[i]);

                        if (!is_there(&after, &after.memcgs[i]))
                                continue;
                        expected.units += (int64_t)s.units;
                        expected.overhead_bytes += (int64_t)(s.unit_bytes + s.array_bytes);
                }

                census_compare(a, b, &got);
                assert_int_equal(got.added, expected.added);
                assert_int_equal(got.gone, expected.gone);
                assert_int_equal(got.died, expected.died);
                assert_int_equal(got.units, expected.units);
                assert_int_equal(got.overhead_bytes, expected.overhead_bytes);
                assert_int_equal(got.ids, (int64_t)b->totals.ids - (int64_t)a->totals.ids);

                census_compare(b, a, &back);
                assert_int_equal(back.added, got.gone);
                assert_int_equal(back.gone, got.added);
                assert_int_equal(back.units, -got.units);
                census_compare(a, a, &back);
                assert_int_equal(back.added + back.gone + back.died, 0);

                census_free(a);
                census_free(b);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_generated),
                cmocka_unit_test(test_deltas),
        };

        return cmocka_run_group_tests_name("census-generated", tests, NULL, NULL);
}
