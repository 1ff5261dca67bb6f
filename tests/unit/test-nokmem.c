/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A kernel without accounting of kernel memory (cgroup.memory=nokmem): the census and the estimate of memcgs without ids or lists. */
#include "builder.h"
#include "check.h"
#include "estimate.h"

/* No shrinker gets an id: each memcg has its arrays, which have no slots. */
static void test_no_ids(_unused_ void **state) {
        CensusOptions options = options_units(2);
        Records r = {};
        Census *c;

        for (uint64_t serial = 1; serial <= 3; serial++) {
                records_add_memcg(&r, serial, serial - 1, serial == 3 ? STATE_DYING : STATE_LIVE, "x", serial > 1, 2);
                for (uint32_t node = 0; node < 2; node++)
                        records_add_node(&r, serial, node, 0, 0, 0)->array_bytes = 24;
        }
        c = census_of(&r, &options);
        assert_int_equal(c->totals.memcgs, 3);
        assert_int_equal(c->totals.ids, 0);
        assert_int_equal(c->totals.slots, 0);
        assert_int_equal(c->totals.units, 0);
        assert_int_equal(c->totals.unit_bytes, 0);
        assert_int_equal(c->totals.array_bytes, 6 * (24 + 3));
        assert_int_equal(c->totals.overhead_dying_bytes, 2 * (24 + 3));
        assert_int_equal(c->totals.uneven, 0);
        assert_int_equal(c->allocation, CENSUS_ALLOCATION_UNKNOWN);
        for (size_t i = 0; i < c->n_nodes; i++) {
                assert_true(c->nodes[i].valid & SW_NODE_INFO);
                assert_int_equal(c->nodes[i].array_bytes, 24 + 3);
        }
        census_free(c);
        records_done(&r);
}

static struct sw_memcg *add(Records *r, uint64_t serial, uint64_t parent, uint32_t css, int32_t kmemcg_id) {
        size_t at = r->len;
        struct sw_memcg *m;

        records_add_simple(r, serial, parent, css, "x", 2, 0);
        m = (struct sw_memcg *)(r->bytes + at);
        m->kmemcg_id = kmemcg_id;
        return m;
}

static bool unaccounted(const Records *r) {
        CensusOptions options = options_units(2);
        Census *c = census_of(r, &options);
        bool is = estimate_unaccounted(c);

        census_free(c);
        return is;
}

static void test_unaccounted(_unused_ void **state) {
        CensusOptions options = options_units(2);
        EstimateLists *lists = NULL;
        struct sw_memcg *m;
        Estimate e = {};
        Records r = {};
        Census *c;

        /* The root has no index, whatever the kernel accounts; one being made not yet; a dying one not any more. */
        add(&r, 1, 0, STATE_LIVE, -1);
        assert_false(unaccounted(&r));
        add(&r, 2, 1, STATE_CREATING, -1);
        add(&r, 3, 1, STATE_DYING, -1);
        assert_false(unaccounted(&r));
        add(&r, 4, 1, STATE_LIVE, -1);
        assert_true(unaccounted(&r));
        add(&r, 5, 1, STATE_DYING, 1); /* it shows its parent's, or an old one */
        assert_true(unaccounted(&r));

        /* Nothing to save, and no claim of any. */
        c = census_of(&r, &options);
        assert_int_equal(estimate_lists_new(&lists, c), 0);
        assert_int_equal(estimate_host(c, lists, &e), 0);
        assert_true(e.on_demand_known);
        assert_int_equal(e.units_63.units, 0);
        assert_int_equal(e.on_demand.units, 0);
        assert_int_equal(e.units_63.array_bytes, e.now.array_bytes);
        assert_null(estimate_lists_free(lists));
        census_free(c);

        m = add(&r, 6, 1, STATE_LIVE, -1);
        m->head.valid &= ~(uint32_t)SW_MEMCG_KMEM_ID;
        assert_false(unaccounted(&r));
        m->head.valid |= SW_MEMCG_KMEM_ID;
        assert_true(unaccounted(&r));
        m->kmemcg_id = 0;
        assert_false(unaccounted(&r));
        records_done(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_ids), cmocka_unit_test(test_unaccounted) };

        return cmocka_run_group_tests_name("nokmem", tests, NULL, NULL);
}
