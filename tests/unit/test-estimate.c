/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The estimate, by hand and against a model that keeps a set of units for every memcg. */
#include <limits.h>

#include "builder.h"
#include "check.h"
#include "estimate.h"

static int feed_lists(const struct sw_head *record, void *lists) {
        return estimate_lists_add(lists, record);
}

/* Memcg by memcg it is the same: *ret, unless NULL, is the caller's to free. */
static void check_memcgs(const Census *c, EstimateLists *lists, const Estimate *e, EstimateMemcg **ret) {
        uint64_t now = 0, units_63 = 0, on_demand = 0, dying = 0;
        EstimateMemcg *memcgs = NULL;

        assert_int_equal(estimate_memcgs(c, lists, &memcgs), 0);
        for (size_t i = 0; i < c->n_memcgs; i++) {
                bool is_dying = c->memcgs[i].state == CENSUS_DYING;

                now += c->memcgs[i].units;
                units_63 += memcgs[i].units_63;
                on_demand += memcgs[i].on_demand;
                dying += is_dying ? memcgs[i].on_demand : 0;
                assert_int_equal(memcgs[i].on_demand_known, is_dying ? e->units_dying_known : e->on_demand_known);
                if (!memcgs[i].on_demand_known)
                        assert_int_equal(memcgs[i].on_demand, 0);
        }
        assert_int_equal(now, e->now.units);
        assert_int_equal(units_63, e->units_63.units);
        assert_int_equal(on_demand, e->on_demand.units);
        assert_int_equal(dying, e->units_dying);
        if (ret)
                *ret = memcgs;
        else
                free(memcgs);
}

static Estimate estimate(const Census *c, const Records *records) {
        EstimateLists *lists = NULL;
        Estimate e = {};

        assert_int_equal(estimate_lists_new(&lists, c), 0);
        assert_int_equal(records_feed(records, feed_lists, lists), 0);
        assert_int_equal(estimate_host(c, lists, &e), 0);
        check_memcgs(c, lists, &e, NULL);
        assert_null(estimate_lists_free(lists));
        return e;
}

static struct sw_memcg *add(Records *r, uint64_t serial, uint64_t parent, uint32_t css, int32_t kmemcg_id, uint16_t nodes, uint32_t slots) {
        struct sw_memcg *m;
        size_t at = r->len;

        records_add_simple(r, serial, parent, css, "x", nodes, slots);
        m = (struct sw_memcg *)(r->bytes + at);
        m->kmemcg_id = kmemcg_id;
        return m;
}

/*
 * 640 ids: 10 units of 64, 11 of 63, on two nodes. The root; 2 and its child 3, which has the lists; 4, without any; 5 is dying, 6 being
 * made, 7 shares an index with 8.
 */
static void make_host(Records *r) {
        add(r, 1, 0, STATE_LIVE, 3, 2, 10); /* -1 in the kernel; whatever it is, its lists are nobody's */
        add(r, 2, 1, STATE_LIVE, 1, 2, 10);
        add(r, 3, 2, STATE_LIVE, 2, 2, 10);
        add(r, 4, 1, STATE_LIVE, 0, 2, 10);
        add(r, 5, 1, STATE_DYING, 70, 2, 10);
        add(r, 6, 1, STATE_CREATING, 71, 2, 10);
        add(r, 7, 1, STATE_LIVE, 80, 2, 10);
        add(r, 8, 1, STATE_LIVE, 80, 2, 10);
}

static void test_host(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records r = {}, lists = {};
        Census *c;
        Estimate e;

        make_host(&r);
        c = census_of(&r, &options);
        e = estimate(c, &lists);
        assert_int_equal(e.now.ids_per_unit, 64);
        assert_int_equal(e.now.unit_struct_bytes, 520);
        assert_int_equal(e.now.unit_alloc_bytes, 523);
        assert_int_equal(e.now.units, 160);
        assert_int_equal(e.now.unit_bytes, 160 * 523);
        assert_int_equal(e.now.array_bytes, 16 * (24 + 80 + 3));
        assert_int_equal(e.units_63.ids_per_unit, 63);
        assert_int_equal(e.units_63.unit_struct_bytes, 512);
        assert_int_equal(e.units_63.unit_alloc_bytes, 515);
        assert_int_equal(e.units_63.units, 16 * 11);
        assert_int_equal(e.units_63.unit_bytes, 16 * 11 * 515);
        assert_int_equal(e.units_63.array_bytes, 16 * (24 + 88 + 3));
        /* No list anywhere: the root's alone. */
        assert_true(e.on_demand_known);
        assert_int_equal(e.on_demand.units, 22);
        assert_int_equal(e.on_demand.unit_bytes, 22 * 515);
        assert_int_equal(e.on_demand.array_bytes, e.units_63.array_bytes);
        assert_int_equal(e.lists, 0);
        assert_false(e.bits_known);

        /* Ids 0 and 62 are of the first unit, 63 is of the second; 3's ancestor 2 gets what 3 has. The second list_lru of 62 adds nothing. */
        records_add_lists(&lists, 62, 0, 1U << 2);
        records_add_lists(&lists, 0, 0, 1U << 2);
        records_add_lists(&lists, 62, 0, 1U << 2);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 2);
        assert_int_equal(e.on_demand.units, 22 + 2 * 2);
        records_add_lists(&lists, 63, 0, 1U << 2);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 3);
        assert_int_equal(e.on_demand.units, 22 + 2 * 4);
        /* 2 has one of its own in a unit that it has already, and one in another. */
        records_add_lists(&lists, 5, 0, 1U << 1);
        records_add_lists(&lists, 639, 0, 1U << 1);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 5);
        assert_int_equal(e.on_demand.units, 22 + 2 * 5);
        /* A base that is no multiple of 64. */
        records_add_lists(&lists, 200, 1, 1U << 1);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 6);
        assert_int_equal(e.on_demand.units, 22 + 2 * 7);
        /* The first index is 0; its memcg is live like the others. */
        records_add_lists(&lists, 64, 0, 1);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 7);
        assert_int_equal(e.on_demand.units, 22 + 2 * 8);
        /* Nobody's: the root, dying, creating, two owners, no owner, no shrinker, no room, no list. */
        records_add_lists(&lists, 300, 0, 1U << 3);
        records_add_lists(&lists, 300, 64, 1U << 6 | 1U << 7 | 1U << 16 | 1U << 20);
        records_add_lists(&lists, 300, UINT32_MAX, UINT64_MAX);
        records_add_lists(&lists, 300, INT32_MAX - 10, UINT64_MAX);
        records_add_lists(&lists, -1, 0, UINT64_MAX);
        records_add_lists(&lists, 640, 0, UINT64_MAX);
        records_add_lists(&lists, 300, 0, 0);
        records_add_wb(&lists, 3, "8:0", 1, 1);
        e = estimate(c, &lists);
        assert_int_equal(e.lists, 7);
        assert_int_equal(e.on_demand.units, 22 + 2 * 8);

        census_free(c);
        records_done(&r);
        records_done(&lists);
}

/* Units of 63 ids go by the highest id that there was, not by the room for ids. */
static void test_ids_end(_unused_ void **state) {
        static const struct {
                uint32_t ids_end;
                uint64_t units; /* of an array with room for 576 */
        } cases[] = {
                { 0, 10 },                             /* not known: for all that there is room for */
                { 1, 9 },                              /* 513 at least, or there would be no ninth unit of 64 */
                { 513, 9 },  { 567, 9 },               /* 9 * 63 */
                { 568, 10 }, { 576, 10 }, { 577, 10 }, /* came after the census */
        };
        CensusOptions options = options_units(2);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Records r = {}, none = {};
                Census *c;

                add(&r, 1, 0, STATE_LIVE, -1, 2, 9);
                add(&r, 2, 1, STATE_LIVE, 1, 2, 9);
                c = census_of(&r, &options);
                census_set_ids_end(c, cases[i].ids_end);
                assert_int_equal(estimate(c, &none).units_63.units, 4 * cases[i].units);
                assert_int_equal(estimate(c, &none).on_demand.units, 2 * cases[i].units); /* the root's */
                census_free(c);
                records_done(&r);
        }
}

static void test_unknown(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records r = {}, other = {}, bad = {};
        EstimateLists *lists = NULL;
        Estimate e = { .lists = 4711 };
        Census *c, *c2, *open = NULL;

        make_host(&r);
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_false(e.on_demand_known);
        assert_int_equal(e.on_demand.units, 0);
        assert_int_equal(e.units_63.units, 16 * 11);

        /* A live memcg that does not tell its index. A dying one need not. */
        make_host(&other);
        add(&other, 9, 1, STATE_DYING, 0, 2, 10)->head.valid &= ~(uint32_t)SW_MEMCG_KMEM_ID;
        c2 = census_of(&other, &options);
        e = estimate(c2, &bad);
        assert_true(e.on_demand_known);
        census_free(c2);
        add(&other, 10, 1, STATE_LIVE, 0, 2, 10)->head.valid &= ~(uint32_t)SW_MEMCG_KMEM_ID;
        c2 = census_of(&other, &options);
        e = estimate(c2, &bad);
        assert_false(e.on_demand_known);
        assert_int_equal(e.on_demand.units, 0);

        assert_int_equal(estimate_lists_new(&lists, c2), 0);
        assert_int_equal(estimate_host(c, lists, &e), -EINVAL);
        records_add(&bad, SW_TYPE_LISTS, sizeof(struct sw_lists) + 8);
        assert_int_equal(records_feed(&bad, feed_lists, lists), -EBADMSG);
        lists = estimate_lists_free(lists);

        assert_int_equal(census_new(&open, &options), 0);
        assert_int_equal(estimate_lists_new(&lists, open), -EINVAL);
        assert_int_equal(estimate_host(open, NULL, &e), -EINVAL);
        assert_null(lists);
        census_free(open);
        census_free(c);
        census_free(c2);
        records_done(&r);
        records_done(&other);
        records_done(&bad);
}

static void test_layouts(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        Census *c;
        Estimate e = {};

        /* As patched already: the same units again. */
        options.unit_struct_bytes = 512;
        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 1);
        records_add_node(&r, 1, 0, 630, 10, 10);
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_int_equal(e.now.ids_per_unit, 63);
        assert_memory_equal(&e.now, &e.units_63, sizeof(e.now));
        census_free(c);

        options.flat = true;
        options.unit_struct_bytes = 0;
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_int_equal(e.now.ids_per_unit, 0);
        assert_int_equal(e.now.units, 0);
        assert_int_equal(e.now.unit_bytes, 0);
        assert_int_equal(e.now.array_bytes, 24 + 80 + 3);
        assert_int_equal(e.units_63.units, 10);
        census_free(c);
        records_done(&r);

        /* In vmalloc space stays in vmalloc space while it is larger than a page; a missing array has nothing. */
        options = options_units(3);
        options.n_nodes = 4;
        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 4);
        records_add_node(&r, 1, 0, 64000, 1000, 0)->head.valid |= SW_NODE_VMALLOC;
        records_add_node(&r, 1, 1, 64, 1, 1)->head.valid |= SW_NODE_VMALLOC;
        records_add_node(&r, 1, 2, 64, 1, 1)->head.valid = SW_NODE_UNITS;
        records_add_node(&r, 1, 3, 64000, 1000, 0);
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_int_equal(e.units_63.units, 1016 + 2 + 1016);
        assert_int_equal(e.units_63.array_bytes, 24 + 1016 * 8 + 7 + 24 + 16 + 3 + 24 + 1016 * 8 + 3);
        census_free(c);
        records_done(&r);
}

static void test_bits(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        struct sw_node *n;
        Census *c;
        Estimate e = {};

        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 1);
        n = records_add_node(&r, 1, 0, 640, 10, 10);
        n->head.valid |= SW_NODE_BITS;
        n->bits = 100;
        n->units_used = 7;
        records_add_memcg(&r, 2, 1, STATE_LIVE, "x", 1, 1);
        n = records_add_node(&r, 2, 0, 640, 10, 10);
        n->head.valid |= SW_NODE_BITS;
        n->bits = 20;
        n->units_used = 3;
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_true(e.bits_known);
        assert_int_equal(e.bits, 120);
        assert_int_equal(e.units_with_bits, 10);
        census_free(c);

        records_add_simple(&r, 3, 1, STATE_LIVE, "not read", 1, 10);
        c = census_of(&r, &options);
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_false(e.bits_known);
        assert_int_equal(e.bits, 0);
        census_free(c);
        records_done(&r);
}

static void set_bits(struct sw_node *n, uint32_t bits, uint32_t units_used) {
        n->head.valid |= SW_NODE_BITS;
        n->bits = bits;
        n->units_used = units_used;
}

/*
 * Two nodes of 10 units of 64 ids, all allocated or only those of the root and these: 2 live, with one list; 3 and 4 dying below
 * it, 4 without a bit; 5 live, with bits and no list; 6 being made, with bits that nobody can have set. bits: were read.
 */
static Census *dying_host(const CensusOptions *options, bool on_demand, bool bits) {
        static const uint32_t used[7][2] = { [1] = { 9, 9 }, [2] = { 4, 4 }, [3] = { 2, 3 }, [5] = { 5, 5 }, [6] = { 6, 6 } };
        static const uint32_t css[7] = { 0, STATE_LIVE, STATE_LIVE, STATE_DYING, STATE_DYING, STATE_LIVE, STATE_CREATING };
        Records r = {};
        Census *c;

        for (uint64_t i = 1; i < 7; i++) {
                records_add_memcg(&r, i, i == 1 ? 0 : i == 3 || i == 4 ? 2 : 1, css[i], "x", i > 1, 2);
                for (uint32_t node = 0; node < 2; node++) {
                        struct sw_node *n = records_add_node(&r, i, node, 640, 10, on_demand && i > 1 ? 2 + (uint32_t)i : 10);

                        if (bits)
                                set_bits(n, used[i][node] * 7, used[i][node]);
                }
        }
        c = census_of(&r, options);
        records_done(&r);
        return c;
}

static void test_dying(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records lists = {};
        Census *c;
        Estimate e;

        records_add_lists(&lists, 100, 0, 1U << 8); /* 2's: its index is its serial plus 6 */

        /* The root's 11 units of 63, 2's one; and of the dying ones as many as the node that has most of them, on both. */
        c = dying_host(&options, false, true);
        e = estimate(c, &lists);
        assert_true(e.on_demand_known);
        assert_true(e.units_dying_known);
        assert_true(e.units_dying_at_least);
        assert_int_equal(e.units_dying, 2 * 3);
        assert_int_equal(e.lists, 1);
        assert_int_equal(e.on_demand.units, 22 + 2 + 6);
        assert_int_equal(e.on_demand.unit_bytes, 30 * 515);
        /* Without lists nothing of it is known. */
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        assert_false(e.units_dying_known);
        assert_false(e.units_dying_at_least);
        assert_int_equal(e.units_dying, 0);
        census_free(c);

        /* Not read: left out, and said so. */
        c = dying_host(&options, false, false);
        e = estimate(c, &lists);
        assert_true(e.on_demand_known);
        assert_false(e.units_dying_known);
        assert_false(e.units_dying_at_least);
        assert_int_equal(e.units_dying, 0);
        assert_int_equal(e.on_demand.units, 22 + 2);
        census_free(c);

        /* On demand already: what they have, whatever the bits say. */
        for (unsigned bits = 0; bits < 2; bits++) {
                c = dying_host(&options, true, bits);
                e = estimate(c, &lists);
                assert_true(e.units_dying_known);
                assert_false(e.units_dying_at_least);
                assert_int_equal(e.units_dying, 2 * (5 + 6));
                assert_int_equal(e.on_demand.units, 22 + 2 + 22);
                census_free(c);
        }
        records_done(&lists);
}

/* Each by itself: the root, one with a list, its parent, one with none; dying, being made. */
static void test_memcgs(_unused_ void **state) {
        static const uint64_t want[] = { 22, 2, 2 * 3, 0, 0, 0 };
        CensusOptions options = options_units(2);
        EstimateLists *lists = NULL;
        EstimateMemcg *memcgs = NULL;
        Records records = {};
        Census *c, *open = NULL;
        Estimate e;

        c = dying_host(&options, false, true);
        records_add_lists(&records, 100, 0, 1U << 8);
        assert_int_equal(estimate_lists_new(&lists, c), 0);
        assert_int_equal(records_feed(&records, feed_lists, lists), 0);
        assert_int_equal(estimate_host(c, lists, &e), 0);
        check_memcgs(c, lists, &e, &memcgs);
        for (size_t i = 0; i < ELEMENTSOF(want); i++) {
                assert_int_equal(c->memcgs[i].serial, i + 1);
                assert_int_equal(memcgs[i].on_demand, want[i]);
                assert_int_equal(memcgs[i].units_63, 22);
        }
        free(memcgs);
        memcgs = NULL;

        /* Without lists. */
        assert_int_equal(estimate_host(c, NULL, &e), 0);
        check_memcgs(c, NULL, &e, NULL);

        assert_int_equal(census_new(&open, &options), 0);
        assert_int_equal(estimate_memcgs(open, NULL, &memcgs), -EINVAL);
        census_free(open);
        open = dying_host(&options, false, true);
        assert_int_equal(estimate_memcgs(open, lists, &memcgs), -EINVAL);
        assert_null(memcgs);
        census_free(open);
        estimate_lists_free(lists);
        census_free(c);
        records_done(&records);
}

#define MEMCGS 40
#define IDS 700

/* Gives the last so many nodes bits, if they are to be read. Returns in how many units the one with most of them has any. */
static uint64_t add_bits(Random *random, Records *r, uint16_t nodes, bool bits) {
        struct sw_node *n = (struct sw_node *)(r->bytes + r->len) - nodes;
        uint64_t most = 0;

        for (uint16_t k = 0; k < nodes && bits; k++) {
                uint32_t used = random_once_in(random, 2) ? 0 : (uint32_t)random_below(random, 12);

                set_bits(n + k, used * 3, used);
                most = used > most ? used : most;
        }
        return most;
}

/* A flag for each memcg and unit; from every list up to the root. Of dying ones the bits. */
static void test_generated(_unused_ void **state) {
        Random random = random_start(3141);

        for (size_t round = 0; round < 150; round++) {
                static bool unit[MEMCGS + 1][IDS], list[MEMCGS + 1][IDS];
                uint64_t parent[MEMCGS + 1] = {}, units = 0, lists = 0, dying = 0;
                uint16_t nodes = (uint16_t)(1 + random_below(&random, 3));
                CensusOptions options = options_units(nodes);
                bool bits = round % 2;
                int32_t index[MEMCGS + 1];
                uint32_t css[MEMCGS + 1];
                Records r = {}, records = {};
                Census *c;
                Estimate e;

                memset(unit, 0, sizeof(unit));
                memset(list, 0, sizeof(list));
                add(&r, 1, 0, STATE_LIVE, -1, nodes, 11); /* 704 ids */
                (void)add_bits(&random, &r, nodes, bits);
                for (uint64_t i = 2; i <= MEMCGS; i++) {
                        parent[i] = random_once_in(&random, 3) || i == 2 ? 1 : i - 1;
                        /* Nothing below a dying one is live. */
                        css[i] = random_once_in(&random, 4) || (parent[i] > 1 && css[parent[i]] == STATE_DYING) ? STATE_DYING : STATE_LIVE;
                        /* A permutation of 5, 12, 19 … 40·7 – 2, which is several words of masks. */
                        index[i] = (int32_t)((i * 13 % 41) * 7 - 2);
                        add(&r, i, parent[i], css[i], index[i], nodes, 11);
                        dying += add_bits(&random, &r, nodes, bits) * (css[i] == STATE_DYING);
                }
                for (size_t n = random_below(&random, 60); n > 0; n--) {
                        uint32_t id = (uint32_t)random_below(&random, IDS), base = (uint32_t)random_below(&random, 300);
                        uint64_t mask = random_u64(&random) & random_u64(&random);

                        if (random_once_in(&random, 2))
                                base &= ~63U;
                        records_add_lists(&records, (int32_t)id, base, mask);
                        for (uint64_t i = 2; i <= MEMCGS; i++) {
                                int64_t bit = (int64_t)index[i] - base;

                                if (css[i] != STATE_LIVE || bit < 0 || bit > 63 || !(mask >> bit & 1))
                                        continue;
                                list[i][id] = true;
                                for (uint64_t k = i; k > 1; k = parent[k])
                                        unit[k][id / 63] = true;
                        }
                }
                for (uint64_t i = 2; i <= MEMCGS; i++)
                        for (size_t k = 0; k < IDS; k++) {
                                units += unit[i][k];
                                lists += list[i][k];
                        }

                c = census_of(&r, &options);
                e = estimate(c, &records);
                assert_int_equal(e.lists, lists);
                assert_int_equal(e.on_demand.units, (units + 12 + dying) * nodes);
                assert_int_equal(e.units_dying, dying * nodes);
                assert_int_equal(e.units_dying_known, bits);
                assert_int_equal(e.units_dying_at_least, bits);
                census_free(c);
                records_done(&r);
                records_done(&records);
        }
}

static void test_model(_unused_ void **state) {
        EstimateModel model = { 45000, 4, 52480 };
        Estimate e = {};

        assert_int_equal(estimate_model(&model, alloc_size_class, NULL, &e), 0);
        assert_int_equal(e.now.ids_per_unit, 64);
        assert_int_equal(e.now.units, 147600000);
        assert_int_equal(e.now.unit_alloc_bytes, 1024);
        assert_int_equal(e.now.unit_bytes, 151142400000);
        assert_int_equal(e.now.array_bytes, 180000ULL * 8192);
        assert_int_equal(e.units_63.units, 180000ULL * 834);
        assert_int_equal(e.units_63.unit_alloc_bytes, 512);
        assert_int_equal(e.units_63.unit_bytes, 180000ULL * 834 * 512);
        assert_int_equal(e.units_63.array_bytes, 180000ULL * 8192);
        assert_false(e.on_demand_known);
        assert_false(e.bits_known);

        model = (EstimateModel){ 1, 1, 1 };
        assert_int_equal(estimate_model(&model, alloc_plus, NULL, &e), 0);
        assert_int_equal(e.now.units, 1);
        assert_int_equal(e.now.unit_bytes, 523);
        assert_int_equal(e.now.array_bytes, 35);
        assert_int_equal(e.units_63.unit_bytes, 515);

        e.now.units = 4711;
        model = (EstimateModel){ UINT64_MAX, 2, 1 };
        assert_int_equal(estimate_model(&model, alloc_plus, NULL, &e), -ERANGE);
        model = (EstimateModel){ 1, 1, UINT64_MAX };
        assert_int_equal(estimate_model(&model, alloc_plus, NULL, &e), -ERANGE);
        model = (EstimateModel){ 1ULL << 60, 1, 64 };
        assert_int_equal(estimate_model(&model, alloc_plus, NULL, &e), -ERANGE);
        assert_int_equal(e.now.units, 4711);
}

static void test_model_parse(_unused_ void **state) {
        static const struct {
                const char *text, *bad;
        } wrong[] = {
                { "", "" },
                { "memcgs=1,nodes=2", "memcgs=1,nodes=2" },
                { "memcgs=1,nodes=2,ids", "ids" },
                { "memcgs=1,nodes=2,ids=", "ids=" },
                { "memcgs=1,nodes=2,ids=0", "ids=0" },
                { "memcgs=1,nodes=-2,ids=3", "nodes=-2" },
                { "memcgs=1,nodes= 2,ids=3", "nodes= 2" },
                { "memcgs=1,nodes=2x,ids=3", "nodes=2x" },
                { "memcgs=1,nodes=2,ids=3,", "" },
                { ",memcgs=1,nodes=2,ids=3", "" },
                { "memcgs=1,memcgs=1,nodes=2,ids=3", "memcgs=1" },
                { "memcgs=1,memcg=2,nodes=2,ids=3", "memcg=2" },
                { "memcgs=1,nodess=2,ids=3", "nodess=2" },
                { "memcgs=1=1,nodes=2,ids=3", "memcgs=1=1" },
                { "memcgs=18446744073709551616,nodes=2,ids=3", "memcgs=18446744073709551616" },
                { "memcgs=1,nodes=2,ids=99999999999999999999", "ids=99999999999999999999" },
                { "=1", "=1" },
                { "MEMCGS=1,nodes=2,ids=3", "MEMCGS=1" },
        };
        EstimateModel m = { 7, 8, 9 };
        const char *bad = NULL;
        size_t len = 4711;

        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                assert_int_equal(estimate_model_parse(wrong[i].text, &m, &bad, &len), -EINVAL);
                assert_int_equal(len, strlen(wrong[i].bad));
                assert_memory_equal(bad, wrong[i].bad, len);
                assert_true(bad >= wrong[i].text && bad + len <= wrong[i].text + strlen(wrong[i].text));
        }
        assert_int_equal(m.memcgs, 7);

        bad = NULL;
        len = 4711;
        assert_int_equal(estimate_model_parse("memcgs=45000,nodes=4,ids=52480", &m, &bad, &len), 0);
        assert_int_equal(m.memcgs, 45000);
        assert_int_equal(m.nodes, 4);
        assert_int_equal(m.ids, 52480);
        assert_int_equal(estimate_model_parse("ids=18446744073709551615,memcgs=00010,nodes=1", &m, &bad, &len), 0);
        assert_int_equal(m.ids, UINT64_MAX);
        assert_int_equal(m.memcgs, 10);
        assert_null(bad);
        assert_int_equal(len, 4711);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_host),        cmocka_unit_test(test_ids_end),   cmocka_unit_test(test_unknown),
                cmocka_unit_test(test_layouts),     cmocka_unit_test(test_bits),      cmocka_unit_test(test_dying),
                cmocka_unit_test(test_memcgs),      cmocka_unit_test(test_generated), cmocka_unit_test(test_model),
                cmocka_unit_test(test_model_parse),
        };

        return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}
