/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The census on trees made by hand: what it adds up, and every way in which a walk can break its contract. */
#include "builder.h"
#include "check.h"

/* Serial 1 is the root; 2 has 3 (dying), below it 4 (dying) and 5 (creating); 6 is empty; 7 is live below 6. Two nodes. */
static void make_tree(Records *r) {
        records_add_simple(r, 1, 0, STATE_LIVE, "", 2, 3);
        records_add_simple(r, 2, 1, STATE_LIVE, "two", 2, 3);
        records_add_simple(r, 3, 2, STATE_DYING, "three", 2, 3);
        records_add_simple(r, 4, 3, STATE_DYING | SW_CSS_ONLINE, "four", 2, 3);
        records_add_memcg(r, 5, 3, STATE_CREATING, "five", 4, 2);
        records_add_node(r, 5, 0, 192, 3, 1);
        records_add_node(r, 5, 1, 0, 0, 0)->head.valid = 0;
        records_add_simple(r, 6, 1, STATE_LIVE, "six", 2, 3);
        records_add_simple(r, 7, 6, STATE_LIVE, "seven", 2, 3);
}

static void test_tree(_unused_ void **state) {
        static const uint32_t parents[] = { CENSUS_NONE, 0, 1, 2, 2, 0, 5 };
        static const uint32_t nearest[] = { 0, 1, 1, 1, 1, 5, 6 };
        static const uint32_t memcgs[] = { 7, 4, 3, 1, 1, 2, 1 };
        static const uint32_t dying[] = { 2, 2, 2, 1, 0, 0, 0 };
        static const uint32_t children[] = { 2, 1, 2, 0, 0, 1, 0 };
        static const uint64_t units[] = { 6, 6, 6, 6, 1, 6, 6 };
        static const uint64_t subtree[] = { 37, 19, 13, 6, 1, 12, 6 };
        const uint64_t array = 24 + 8 * 3 + 3;
        CensusOptions options = options_units(2);
        Records r = {};
        Census *c;

        make_tree(&r);
        c = census_of(&r, &options);

        assert_int_equal(c->n_memcgs, 7);
        assert_int_equal(c->n_nodes, 14);
        assert_int_equal(c->unit_alloc_bytes, 523);
        for (uint32_t i = 0; i < 7; i++) {
                const CensusMemcg *m = &c->memcgs[i];
                uint64_t arrays = i == 4 ? 1 : 2;

                assert_int_equal(m->serial, i + 1);
                assert_int_equal(m->parent, parents[i]);
                assert_int_equal(m->nearest_live, nearest[i]);
                assert_int_equal(m->subtree_memcgs, memcgs[i]);
                assert_int_equal(m->subtree_dying, dying[i]);
                assert_int_equal(m->n_children, children[i]);
                assert_int_equal(m->units, units[i]);
                assert_int_equal(m->unit_bytes, units[i] * 523);
                assert_int_equal(m->array_bytes, arrays * array);
                assert_int_equal(m->subtree_units, subtree[i]);
                assert_int_equal(m->subtree_unit_bytes, subtree[i] * 523);
                assert_int_equal(census_overhead(m), units[i] * 523 + arrays * array);
                assert_int_equal(m->n_nodes, 2);
                assert_int_equal(m->first_node, 2 * i);
                assert_int_equal(census_find(c, i + 1), i);
        }
        assert_int_equal(c->memcgs[0].subtree_array_bytes, 13 * array);
        assert_int_equal(census_subtree_overhead(&c->memcgs[0]), 37 * 523 + 13 * array);
        assert_int_equal(c->memcgs[1].subtree_array_bytes, 7 * array);
        assert_int_equal(c->memcgs[2].subtree_array_bytes, 5 * array);
        assert_int_equal(census_find(c, 0), CENSUS_NONE);
        assert_int_equal(census_find(c, 8), CENSUS_NONE);

        assert_int_equal(c->memcgs[1].state, CENSUS_LIVE);
        assert_int_equal(c->memcgs[2].state, CENSUS_DYING);
        assert_true(c->memcgs[2].offline);
        assert_int_equal(c->memcgs[3].state, CENSUS_DYING);
        assert_false(c->memcgs[3].offline);
        assert_int_equal(c->memcgs[4].state, CENSUS_CREATING);
        assert_false(c->memcgs[4].offline);

        assert_int_equal(c->totals.memcgs, 7);
        assert_int_equal(c->totals.live, 4);
        assert_int_equal(c->totals.dying, 2);
        assert_int_equal(c->totals.creating, 1);
        assert_int_equal(c->totals.units, 37);
        assert_int_equal(c->totals.units_live, 24);
        assert_int_equal(c->totals.units_dying, 12);
        assert_int_equal(c->totals.slots, 39);
        assert_int_equal(c->totals.slots_live, 24);
        assert_int_equal(c->totals.slots_dying, 12);
        assert_int_equal(c->totals.unit_bytes, 37 * 523);
        assert_int_equal(c->totals.array_bytes, 13 * array);
        assert_int_equal(c->totals.overhead_live_bytes, 24 * 523 + 8 * array);
        assert_int_equal(c->totals.overhead_dying_bytes, 12 * 523 + 4 * array);
        assert_int_equal(c->totals.highest_serial, 7);
        assert_int_equal(c->totals.ids, 192);
        assert_int_equal(c->totals.dropped, 0);
        assert_int_equal(c->totals.uneven, 0);
        /* One slot of the creating memcg is empty, and one of its arrays is missing: that says nothing about the kernel. */
        assert_int_equal(c->allocation, CENSUS_ALLOCATION_EAGER);

        census_free(c);
        records_done(&r);
}

static void test_fields(_unused_ void **state) {
        CensusOptions options = options_units(1);
        struct sw_memcg *m;
        struct sw_node *n;
        Records r = {};
        Census *c;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 1);
        m = records_add_memcg(&r, 12, 1, STATE_LIVE, "all", 3, 1);
        m->head.valid |= SW_MEMCG_CGROUP;
        m->level = 9;
        m->id_refs = 77;
        n = records_add_node(&r, 12, 0, 64, 1, 1);
        n->head.valid |= SW_NODE_BITS | SW_NODE_VMALLOC;
        n->bits = 5;
        n->units_used = 1;
        /* The same, but nothing is valid: nothing must come through. */
        m = records_add_memcg(&r, 13, 12, STATE_LIVE, "none", 4, 1);
        m->head.valid = 0;
        m->level = 9;
        m->id_refs = 77;
        n = records_add_node(&r, 13, 0, 64, 1, 1);
        n->head.valid = 0;
        n->bits = 5;
        n->units_used = 1;
        c = census_of(&r, &options);

        assert_int_equal(c->memcgs[1].cgroup_id, 121);
        assert_int_equal(c->memcgs[1].refs, 122);
        assert_int_equal(c->memcgs[1].memory_pages, 123);
        assert_int_equal(c->memcgs[1].swap_pages, 124);
        assert_int_equal(c->memcgs[1].memcg_id, 17);
        assert_int_equal(c->memcgs[1].kmemcg_id, 18);
        assert_int_equal(c->memcgs[1].id_refs, 77);
        assert_int_equal(c->memcgs[1].level, 9);
        assert_int_equal(c->memcgs[1].bits, 5);
        assert_int_equal(c->memcgs[1].array_bytes, 32 + 7);
        assert_int_equal(c->nodes[1].units_used, 1);
        assert_int_equal(c->nodes[1].array_bytes, 32 + 7);
        assert_int_equal(c->totals.bits, 5);
        assert_int_equal(c->totals.units_used, 1);

        assert_int_equal(c->memcgs[2].cgroup_id, 0);
        assert_int_equal(c->memcgs[2].refs, 0);
        assert_int_equal(c->memcgs[2].memory_pages, 0);
        assert_int_equal(c->memcgs[2].swap_pages, 0);
        assert_int_equal(c->memcgs[2].memcg_id, 0);
        assert_int_equal(c->memcgs[2].kmemcg_id, 0);
        assert_int_equal(c->memcgs[2].id_refs, 0);
        assert_int_equal(c->memcgs[2].level, 10);
        assert_int_equal(c->memcgs[2].units, 0);
        assert_int_equal(c->memcgs[2].array_bytes, 0);
        assert_string_equal(census_name(c, 2), CENSUS_NAME_UNKNOWN);
        /* A live memcg without an array where others have one falls short. */
        assert_int_equal(c->totals.uneven, 1);

        census_free(c);
        records_done(&r);
}

static void test_memsw_is_swap_pages_too(_unused_ void **state) {
        CensusOptions options = options_units(0);
        Records r = {};
        Census *c;

        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 0)->head.valid = SW_MEMCG_MEMSW;
        c = census_of(&r, &options);
        assert_int_equal(c->memcgs[0].swap_pages, 14);
        census_free(c);
        records_done(&r);
}

static void test_states(_unused_ void **state) {
        for (uint32_t css = 0; css < 16; css++) {
                CensusState expected = css & 2 ? CENSUS_DYING : css & 1 ? CENSUS_LIVE : CENSUS_CREATING;

                assert_int_equal(census_state_from_css(css), expected);
        }
        assert_string_equal(census_state_to_string(CENSUS_LIVE), "live");
        assert_string_equal(census_state_to_string(CENSUS_DYING), "dying");
        assert_string_equal(census_state_to_string(CENSUS_CREATING), "creating");
        assert_null(census_state_to_string((CensusState)3));
        assert_string_equal(census_allocation_to_string(CENSUS_ALLOCATION_UNKNOWN), "unknown");
        assert_string_equal(census_allocation_to_string(CENSUS_ALLOCATION_EAGER), "eager");
        assert_string_equal(census_allocation_to_string(CENSUS_ALLOCATION_ON_DEMAND), "on-demand");
        assert_null(census_allocation_to_string((CensusAllocation)3));
}

/* The published first output of splitmix64 from seed 0 is the mix of its increment, which is serial 0x278d… in state 1. */
static void test_digest(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records r = {};
        Census *c;

        assert_int_equal(census_digest_one(0x278dde6e5fd29f05, CENSUS_DYING), 0xe220a8397b1dcdaf);
        assert_int_equal(census_digest_one(7, CENSUS_CREATING), sw_digest(7, 2));

        make_tree(&r);
        c = census_of(&r, &options);
        assert_int_equal(c->totals.digest, sw_digest(1, 0) + sw_digest(2, 0) + sw_digest(3, 1) + sw_digest(4, 1) + sw_digest(5, 2) +
                                                   sw_digest(6, 0) + sw_digest(7, 0));
        census_free(c);
        records_done(&r);
}

static void test_dropped(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records r = {};
        Census *c;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 2, 3);
        records_add_simple(&r, 2, 1, STATE_LIVE, "stays", 2, 3);
        records_add_simple(&r, 3, 2, STATE_DYING, "stays-too", 2, 3);
        /* One of two nodes; then none; then the last record of the walk. */
        records_add_memcg(&r, 4, 2, STATE_DYING, "goes", 4, 2);
        records_add_node(&r, 4, 0, 6400, 100, 100);
        records_add_memcg(&r, 5, 2, STATE_DYING, "goes", 4, 2);
        records_add_simple(&r, 6, 1, STATE_LIVE, "last", 2, 3);
        records_add_memcg(&r, 9, 6, STATE_DYING, "goes", 4, 2);
        records_add_node(&r, 9, 0, 192, 3, 3);
        c = census_of(&r, &options);

        assert_int_equal(c->n_memcgs, 4);
        assert_int_equal(c->n_nodes, 8);
        assert_int_equal(c->totals.memcgs, 4);
        assert_int_equal(c->totals.dropped, 3);
        assert_int_equal(c->totals.dying, 1);
        assert_int_equal(c->totals.units, 24);
        assert_int_equal(c->totals.ids, 192);
        assert_int_equal(c->totals.highest_serial, 6);
        assert_int_equal(c->totals.digest, sw_digest(1, 0) + sw_digest(2, 0) + sw_digest(3, 1) + sw_digest(6, 0));
        assert_int_equal(c->memcgs[1].n_children, 1);
        assert_int_equal(c->memcgs[1].subtree_memcgs, 2);
        assert_int_equal(c->memcgs[3].n_children, 0);
        assert_int_equal(census_find(c, 4), CENSUS_NONE);
        assert_int_equal(census_find(c, 6), 3);
        assert_string_equal(census_name(c, 3), "last");
        assert_int_equal(c->names_bytes, sizeof("") + sizeof("stays") + sizeof("stays-too") + sizeof("last"));

        census_free(c);
        records_done(&r);
}

/* A walk that was good so far: the root, 2, below it 3 with both its nodes; then the record under test. */
static int add_one(uint32_t nodes, void (*change)(Records *r)) {
        CensusOptions options = options_units(nodes);
        Records r = {};
        Census *c = NULL;
        int k;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 2, 3);
        records_add_simple(&r, 20, 1, STATE_LIVE, "two", 2, 3);
        records_add_simple(&r, 30, 20, STATE_LIVE, "three", 2, 3);
        assert_int_equal(census_new(&c, &options), 0);
        assert_int_equal(records_feed(&r, feed_census, c), 0);
        records_done(&r);

        change(&r);
        k = records_feed(&r, feed_census, c);
        records_done(&r);
        if (k == 0)
                k = census_seal(c);
        census_free(c);
        return k;
}

static void good_memcg(Records *r) {
        records_add_simple(r, 40, 20, STATE_LIVE, "good", 2, 3);
}
static void good_uncle(Records *r) {
        records_add_simple(r, 25, 1, STATE_LIVE, "good", 2, 3);
}
static void good_other_types(Records *r) {
        records_add_wb(r, 3, "7:0", 1, 1);
        records_add_lists(r, 3, 0, 1);
        records_add(r, SW_TYPE_NONE, 8);
        records_add(r, 4711, 8);
}
static void bad_size_head_only(Records *r) {
        records_add(r, SW_TYPE_MEMCG, sizeof(struct sw_head));
}
static void bad_size_longer(Records *r) {
        struct sw_memcg *m = records_add(r, SW_TYPE_MEMCG, sizeof(*m) + 16);

        m->serial = 40;
        m->parent_serial = 20;
        m->nodes = 2;
        m->name_len = 8;
}
static void bad_size_shorter(Records *r) {
        struct sw_memcg *m = records_add(r, SW_TYPE_MEMCG, sizeof(*m));

        m->serial = 40;
        m->parent_serial = 20;
        m->nodes = 2;
        m->name_len = 1;
}
static void bad_name_len(Records *r) {
        static const char name[256] = "too long";

        records_add_memcg(r, 40, 20, STATE_LIVE, name, 256, 2);
}
static void bad_serial_zero(Records *r) {
        records_add_simple(r, 0, 0, STATE_LIVE, "x", 2, 3);
}
static void bad_serial_below_parent(Records *r) {
        records_add_simple(r, 10, 20, STATE_LIVE, "x", 2, 3);
}
static void bad_serial_is_parent(Records *r) {
        records_add_simple(r, 30, 30, STATE_LIVE, "x", 2, 3);
}
static void bad_second_root(Records *r) {
        records_add_simple(r, 40, 0, STATE_LIVE, "", 2, 3);
}
static void bad_no_parent(Records *r) {
        records_add_simple(r, 40, 19, STATE_LIVE, "x", 2, 3);
}
static void bad_parent_past(Records *r) {
        records_add_simple(r, 40, 1, STATE_LIVE, "x", 2, 3);
        records_add_simple(r, 41, 20, STATE_LIVE, "x", 2, 3);
}
static void bad_sibling_order(Records *r) {
        records_add_simple(r, 29, 20, STATE_LIVE, "x", 2, 3);
}
static void bad_same_again(Records *r) {
        records_add_simple(r, 30, 20, STATE_LIVE, "x", 2, 3);
}
static void bad_same_again_incomplete(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_simple(r, 40, 20, STATE_LIVE, "x", 2, 3);
}
static void bad_same_elsewhere(Records *r) {
        records_add_simple(r, 35, 1, STATE_LIVE, "x", 2, 3);
        records_add_simple(r, 50, 35, STATE_LIVE, "x", 2, 3);
        records_add_simple(r, 51, 50, STATE_LIVE, "x", 2, 3);
        records_add_simple(r, 50, 1, STATE_LIVE, "x", 2, 3);
}
static void bad_child_of_dropped(Records *r) {
        records_add_memcg(r, 40, 20, STATE_DYING, "x", 1, 2);
        records_add_simple(r, 41, 40, STATE_DYING, "y", 2, 3);
}
static void bad_nodes_announced(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 1);
        records_add_node(r, 40, 0, 64, 1, 1);
}
static void bad_nodes_too_many(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 65);
}
static void bad_node_extra(Records *r) {
        records_add_node(r, 30, 2, 64, 1, 1);
}
static void bad_node_stranger(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_node(r, 41, 0, 64, 1, 1);
}
static void bad_node_twice(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_node(r, 40, 1, 64, 1, 1);
        records_add_node(r, 40, 1, 64, 1, 1);
}
static void bad_node_order(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_node(r, 40, 1, 64, 1, 1);
        records_add_node(r, 40, 0, 64, 1, 1);
}
static void bad_node_number(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_node(r, 40, SW_NODES_MAX, 64, 1, 1);
}
static void bad_node_size(Records *r) {
        struct sw_node *n;

        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        n = records_add(r, SW_TYPE_NODE, sizeof(*n) - 8);
        n->serial = 40;
}
static void bad_units(Records *r) {
        records_add_memcg(r, 40, 20, STATE_LIVE, "x", 1, 2);
        records_add_node(r, 40, 0, 64, 1, 2);
}

static void test_contract(_unused_ void **state) {
        static void (*const bad[])(Records *) = {
                bad_size_head_only,
                bad_size_longer,
                bad_size_shorter,
                bad_name_len,
                bad_serial_zero,
                bad_serial_below_parent,
                bad_serial_is_parent,
                bad_second_root,
                bad_no_parent,
                bad_parent_past,
                bad_sibling_order,
                bad_same_again,
                bad_same_again_incomplete,
                bad_same_elsewhere,
                bad_child_of_dropped,
                bad_nodes_announced,
                bad_nodes_too_many,
                bad_node_extra,
                bad_node_stranger,
                bad_node_twice,
                bad_node_order,
                bad_node_number,
                bad_node_size,
                bad_units,
        };

        assert_int_equal(add_one(2, good_memcg), 0);
        assert_int_equal(add_one(2, good_uncle), 0);
        assert_int_equal(add_one(2, good_other_types), 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                int k = add_one(2, bad[i]);

                if (k != -EBADMSG)
                        fail_msg("broken walk %zu: %d", i, k);
        }
        /* With no number of nodes to keep to, what is announced counts. */
        assert_int_equal(add_one(0, bad_nodes_announced), 0);
        assert_int_equal(add_one(0, bad_nodes_too_many), -EBADMSG);
}

static void test_begin_and_end(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        Census *c = NULL;

        options.n_nodes = SW_NODES_MAX + 1;
        assert_int_equal(census_new(&c, &options), -EINVAL);
        options = options_units(1);
        options.alloc = NULL;
        assert_int_equal(census_new(&c, &options), -EINVAL);
        assert_null(c);
        options = options_units(1);

        /* Nothing at all; a root that is not whole, or has no serial; a node and a child before a root. */
        assert_int_equal(census_new(&c, &options), 0);
        assert_int_equal(census_seal(c), -EBADMSG);
        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 1);
        assert_int_equal(records_feed(&r, feed_census, c), 0);
        assert_int_equal(census_seal(c), -EBADMSG);
        c = census_free(c);
        records_done(&r);

        assert_int_equal(census_new(&c, &options), 0);
        records_add_memcg(&r, 0, 0, STATE_LIVE, "", 0, 1);
        assert_int_equal(records_feed(&r, feed_census, c), -EBADMSG);
        c = census_free(c);
        records_done(&r);

        assert_int_equal(census_new(&c, &options), 0);
        records_add_node(&r, 1, 0, 64, 1, 1);
        assert_int_equal(records_feed(&r, feed_census, c), -EBADMSG);
        c = census_free(c);
        records_done(&r);

        assert_int_equal(census_new(&c, &options), 0);
        records_add_simple(&r, 2, 1, STATE_LIVE, "x", 1, 1);
        assert_int_equal(records_feed(&r, feed_census, c), -EBADMSG);
        c = census_free(c);
        records_done(&r);

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 1);
        assert_int_equal(census_new(&c, &options), 0);
        assert_int_equal(census_find(c, 1), CENSUS_NONE);
        assert_int_equal(census_find_path(c, "/", 1), CENSUS_NONE);
        assert_int_equal(records_feed(&r, feed_census, c), 0);
        assert_int_equal(census_seal(c), 0);
        assert_int_equal(census_seal(c), -EINVAL);
        assert_int_equal(records_feed(&r, feed_census, c), -EINVAL);
        c = census_free(c);
        assert_null(c);
        assert_null(census_free(NULL));
        records_done(&r);
}

static CensusAllocation allocation_of(bool flat, uint32_t css, uint32_t slots, uint32_t units, bool root_only) {
        CensusOptions options = options_units(1);
        CensusAllocation allocation;
        Records r = {};
        Census *c;

        options.flat = flat;
        records_add_memcg(&r, 1, 0, STATE_LIVE, "", 0, 1);
        records_add_node(&r, 1, 0, 64 * slots, slots, units);
        if (!root_only) {
                records_add_memcg(&r, 2, 1, css, "x", 1, 1);
                records_add_node(&r, 2, 0, 64 * slots, slots, units);
        }
        c = census_of(&r, &options);
        allocation = c->allocation;
        census_free(c);
        records_done(&r);
        return allocation;
}

static void test_allocation(_unused_ void **state) {
        assert_int_equal(allocation_of(false, STATE_LIVE, 3, 3, false), CENSUS_ALLOCATION_EAGER);
        assert_int_equal(allocation_of(false, STATE_LIVE, 3, 2, false), CENSUS_ALLOCATION_ON_DEMAND);
        assert_int_equal(allocation_of(false, STATE_DYING, 3, 3, false), CENSUS_ALLOCATION_EAGER);
        assert_int_equal(allocation_of(false, STATE_DYING, 3, 0, false), CENSUS_ALLOCATION_ON_DEMAND);
        assert_int_equal(allocation_of(false, STATE_CREATING, 3, 2, false), CENSUS_ALLOCATION_UNKNOWN);
        assert_int_equal(allocation_of(false, STATE_LIVE, 0, 0, false), CENSUS_ALLOCATION_UNKNOWN);
        assert_int_equal(allocation_of(false, STATE_LIVE, 3, 2, true), CENSUS_ALLOCATION_UNKNOWN);
        assert_int_equal(allocation_of(true, STATE_LIVE, 3, 2, false), CENSUS_ALLOCATION_EAGER);
        assert_int_equal(allocation_of(true, STATE_LIVE, 3, 2, true), CENSUS_ALLOCATION_UNKNOWN);
}

static void test_flat(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        Census *c;

        options.flat = true;
        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 5);
        c = census_of(&r, &options);
        assert_int_equal(c->unit_alloc_bytes, 0);
        assert_int_equal(c->totals.units, 0);
        assert_int_equal(c->totals.slots, 0);
        assert_int_equal(c->totals.unit_bytes, 0);
        assert_int_equal(c->totals.array_bytes, 24 + 40 + 3);
        assert_int_equal(c->totals.ids, 320);
        assert_int_equal(c->nodes[0].valid, SW_NODE_INFO);
        census_free(c);
        records_done(&r);
}

static void test_uneven(_unused_ void **state) {
        CensusOptions options = options_units(1);
        Records r = {};
        Census *c;

        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 2);
        records_add_simple(&r, 2, 1, STATE_LIVE, "longest", 1, 3);
        records_add_simple(&r, 3, 1, STATE_DYING, "short", 1, 2);
        records_add_simple(&r, 4, 1, STATE_CREATING, "no matter", 1, 1);
        c = census_of(&r, &options);
        assert_int_equal(c->totals.ids, 192);
        assert_int_equal(c->totals.uneven, 2);
        census_free(c);
        records_done(&r);
}

static uint64_t alloc_huge(uint64_t struct_bytes, _unused_ bool vmalloc, _unused_ void *userdata) {
        return struct_bytes == 520 ? UINT64_MAX / 3 : UINT64_MAX - 1;
}

static void test_saturation(_unused_ void **state) {
        CensusOptions options = options_units(1);
        CensusDelta d;
        Records r = {};
        Census *a, *b;

        options.alloc = alloc_huge;
        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 2);
        records_add_simple(&r, 2, 1, STATE_LIVE, "x", 1, 4);
        b = census_of(&r, &options);
        assert_int_equal(b->memcgs[0].unit_bytes, UINT64_MAX / 3 * 2);
        assert_int_equal(b->memcgs[1].unit_bytes, UINT64_MAX);
        assert_int_equal(b->memcgs[0].subtree_unit_bytes, UINT64_MAX);
        assert_int_equal(b->memcgs[0].subtree_array_bytes, UINT64_MAX);
        assert_int_equal(census_overhead(&b->memcgs[0]), UINT64_MAX);
        assert_int_equal(census_subtree_overhead(&b->memcgs[0]), UINT64_MAX);
        assert_int_equal(b->totals.unit_bytes, UINT64_MAX);
        assert_int_equal(b->totals.array_bytes, UINT64_MAX);
        assert_int_equal(b->totals.overhead_live_bytes, UINT64_MAX);
        records_done(&r);

        options.alloc = alloc_plus;
        records_add_simple(&r, 1, 0, STATE_LIVE, "", 1, 1);
        a = census_of(&r, &options);
        census_compare(a, b, &d);
        assert_true(d.overhead_bytes == INT64_MAX);
        census_compare(b, a, &d);
        assert_true(d.overhead_bytes == INT64_MIN);
        assert_true(d.units == -5);
        assert_true(d.ids == -192);
        census_free(a);
        census_free(b);
        records_done(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tree),     cmocka_unit_test(test_fields),        cmocka_unit_test(test_memsw_is_swap_pages_too),
                cmocka_unit_test(test_states),   cmocka_unit_test(test_digest),        cmocka_unit_test(test_dropped),
                cmocka_unit_test(test_contract), cmocka_unit_test(test_begin_and_end), cmocka_unit_test(test_allocation),
                cmocka_unit_test(test_flat),     cmocka_unit_test(test_uneven),        cmocka_unit_test(test_saturation),
        };

        return cmocka_run_group_tests_name("census", tests, NULL, NULL);
}
