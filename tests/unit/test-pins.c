/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pins: evidence in, causes out; that they add up, and what is said when they do not. */
#include <limits.h>

#include "builder.h"
#include "check.h"
#include "pins.h"

#define PAGE 4096

typedef struct Fixture {
        Records walk;
        Records evidence;
        Census *census;
        Pins *pins;
} Fixture;

static int feed_pins(const struct sw_head *record, void *pins) {
        return pins_add(pins, record);
}

/* A memcg by its serial, with what the pins go by. */
static struct sw_memcg *add(Fixture *f, uint64_t serial, uint64_t parent, uint32_t css, uint64_t refs, uint32_t id_refs) {
        struct sw_memcg *m = records_add_memcg(&f->walk, serial, parent, css, "x", 1, 0);

        m->refs = refs;
        m->id_refs = id_refs;
        return m;
}

static void seal(Fixture *f, bool writeback_known) {
        CensusOptions options = options_units(0);

        f->census = census_of(&f->walk, &options);
        assert_int_equal(pins_new(&f->pins, f->census, PAGE), 0);
        assert_int_equal(records_feed(&f->evidence, feed_pins, f->pins), 0);
        assert_int_equal(pins_seal(f->pins, writeback_known), 0);
}

static void done(Fixture *f) {
        assert_null(pins_free(f->pins));
        census_free(f->census);
        records_done(&f->walk);
        records_done(&f->evidence);
}

static size_t get(const Fixture *f, uint64_t serial, const Pin **ret) {
        size_t n = 4711;

        assert_true(pins_get(f->pins, census_find(f->census, serial), ret, &n));
        return n;
}

static uint64_t explained(const Fixture *f, uint64_t serial) {
        uint64_t refs = 4711;

        assert_true(pins_explained(f->pins, census_find(f->census, serial), &refs));
        return refs;
}

static void assert_pin(const Pin *p, PinCause cause, uint64_t refs, bool exact) {
        assert_int_equal(p->cause, cause);
        assert_int_equal(p->refs, refs);
        assert_int_equal(p->exact, exact);
        if (cause != PIN_WRITEBACK)
                assert_string_equal(p->device, "");
        if (cause == PIN_CHILD || cause == PIN_UNEXPLAINED) {
                assert_false(p->has_bytes);
                assert_false(p->at_least);
                assert_int_equal(p->bytes, 0);
        }
}

/* Writeback on two devices, one of them twice; swap; two children; and three references more. */
static void test_all_causes(_unused_ void **state) {
        const Pin *pin;
        Fixture f = {};

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING, 3 + 1 + 2 + 3, 2048);
        add(&f, 3, 2, STATE_DYING, 0, 0);
        add(&f, 4, 2, STATE_DYING, 1, 0);
        records_add_wb(&f.evidence, 2, "8:16", 5, 100);
        records_add_wb(&f.evidence, 4, "8:16", 7, 1);
        records_add_wb(&f.evidence, 2, "253:0", 11, 13);
        records_add_wb(&f.evidence, 2, "8:16", 17, 19)->head.valid = SW_WB_REFS;
        seal(&f, true);

        assert_int_equal(get(&f, 2, &pin), 5);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, true);
        assert_string_equal(pin[0].device, "253:0");
        assert_int_equal(pin[0].inodes, 11);
        assert_int_equal(pin[0].bytes, 13 * PAGE);
        assert_true(pin[0].has_bytes);
        assert_false(pin[0].at_least);
        assert_pin(&pin[1], PIN_WRITEBACK, 2, true);
        assert_string_equal(pin[1].device, "8:16");
        assert_int_equal(pin[1].inodes, 22);
        assert_int_equal(pin[1].bytes, 119 * PAGE);
        assert_true(pin[1].at_least);
        assert_pin(&pin[2], PIN_SWAP, 1, true);
        assert_int_equal(pin[2].entries, 2048);
        assert_int_equal(pin[2].bytes, 2048 * PAGE);
        assert_true(pin[2].has_bytes);
        assert_false(pin[2].at_least);
        assert_pin(&pin[3], PIN_CHILD, 2, true);
        assert_pin(&pin[4], PIN_UNEXPLAINED, 3, true);
        assert_int_equal(explained(&f, 2), 6);

        /* Nothing holds it any more: looked and found none. */
        assert_int_equal(get(&f, 3, &pin), 0);
        assert_null(pin);
        assert_int_equal(explained(&f, 3), 0);
        /* Wholly explained. */
        assert_int_equal(get(&f, 4, &pin), 1);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, true);
        assert_int_equal(pin[0].bytes, PAGE);
        assert_int_equal(explained(&f, 4), 1);
        assert_true(pins_writeback_known(f.pins));
        done(&f);
}

static void test_not_collected(_unused_ void **state) {
        uint64_t refs = 4711;
        const Pin *pin;
        Fixture f = {};
        size_t n;

        add(&f, 1, 0, STATE_LIVE, 5, 5);
        add(&f, 2, 1, STATE_LIVE, 5, 5);
        add(&f, 3, 2, STATE_CREATING, 5, 5);
        records_add_wb(&f.evidence, 2, "8:0", 1, 1);
        records_add_wb(&f.evidence, 3, "8:0", 1, 1);
        records_add_wb(&f.evidence, 99, "8:0", 1, 1); /* came after the census */
        records_add_lists(&f.evidence, 1, 0, 1);      /* none of its business */
        seal(&f, true);
        for (uint32_t i = 0; i < 4; i++) {
                pin = (const Pin *)&f;
                n = 4711;
                assert_false(pins_get(f.pins, i, &pin, &n));
                assert_int_equal(n, 0);
                assert_null(pin);
                assert_false(pins_explained(f.pins, i, &refs));
                assert_int_equal(refs, 4711);
        }
        assert_false(pins_get(f.pins, CENSUS_NONE, &pin, &n));
        done(&f);
}

/* The id has a reference of its own until the memcg is offline; it is no swap entry. */
static void test_swap(_unused_ void **state) {
        const Pin *pin;
        Fixture f = {};

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING | SW_CSS_ONLINE, 4, 1);
        add(&f, 3, 1, STATE_DYING | SW_CSS_ONLINE, 4, 8);
        add(&f, 4, 1, STATE_DYING | SW_CSS_ONLINE, 4, 0);
        add(&f, 5, 1, STATE_DYING, 1, 1);
        add(&f, 6, 1, STATE_DYING, 1, 9)->head.valid = SW_MEMCG_REFS; /* id_refs is not known */
        add(&f, 7, 1, STATE_DYING, 1, UINT32_MAX);
        add(&f, 8, 1, STATE_DYING, 1, 0);
        records_add_wb(&f.evidence, 8, "8:0", 1, UINT64_MAX / 2); /* no swap; pages that are too many to be counted in bytes */
        seal(&f, true);

        assert_int_equal(get(&f, 2, &pin), 1);
        assert_pin(&pin[0], PIN_UNEXPLAINED, 4, true);
        assert_int_equal(get(&f, 3, &pin), 2);
        assert_pin(&pin[0], PIN_SWAP, 1, true);
        assert_int_equal(pin[0].entries, 7);
        assert_int_equal(pin[0].bytes, 7 * PAGE);
        assert_true(pin[0].at_least);
        assert_pin(&pin[1], PIN_UNEXPLAINED, 3, true);
        assert_int_equal(get(&f, 4, &pin), 1);
        assert_pin(&pin[0], PIN_UNEXPLAINED, 4, true);
        assert_int_equal(get(&f, 5, &pin), 1);
        assert_pin(&pin[0], PIN_SWAP, 1, true);
        assert_int_equal(pin[0].entries, 1);
        assert_false(pin[0].at_least);
        assert_int_equal(get(&f, 6, &pin), 1);
        assert_pin(&pin[0], PIN_UNEXPLAINED, 1, true);
        assert_int_equal(get(&f, 7, &pin), 1);
        assert_int_equal(pin[0].bytes, (uint64_t)UINT32_MAX * PAGE);
        assert_int_equal(get(&f, 8, &pin), 1);
        assert_int_equal(pin[0].bytes, UINT64_MAX);
        done(&f);
}

static void test_more_pins_than_references(_unused_ void **state) {
        const Pin *pin;
        Fixture f = {};

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING, 2, 3);
        add(&f, 3, 2, STATE_DYING, 1, 0);
        records_add_wb(&f.evidence, 2, "8:0", 1, 1);
        records_add_wb(&f.evidence, 2, "8:1", 1, 1);
        records_add_wb(&f.evidence, 3, "8:0", 1, 1);
        seal(&f, true);

        assert_int_equal(get(&f, 2, &pin), 4);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, false);
        assert_pin(&pin[1], PIN_WRITEBACK, 1, false);
        assert_pin(&pin[2], PIN_SWAP, 1, false);
        assert_pin(&pin[3], PIN_CHILD, 1, false);
        assert_int_equal(explained(&f, 2), 2);
        /* The neighbour is not touched by that. */
        assert_int_equal(get(&f, 3, &pin), 1);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, true);
        done(&f);
}

static void test_unknown_references(_unused_ void **state) {
        const Pin *pin;
        Fixture f = {};

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING, 5, 3)->head.valid = SW_MEMCG_ID | SW_MEMCG_NAME;
        records_add_wb(&f.evidence, 2, "8:0", 1, 1);
        seal(&f, true);
        assert_int_equal(get(&f, 2, &pin), 2);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, true);
        assert_pin(&pin[1], PIN_SWAP, 1, true);
        assert_int_equal(explained(&f, 2), 2);
        done(&f);
}

static void test_writeback_not_known(_unused_ void **state) {
        const Pin *pin;
        Fixture f = {};

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING, 4, 3);
        records_add_wb(&f.evidence, 2, "8:0", 1, 1);
        seal(&f, false);
        assert_int_equal(get(&f, 2, &pin), 3);
        assert_pin(&pin[0], PIN_WRITEBACK, 1, false);
        assert_true(pin[0].at_least);
        assert_pin(&pin[1], PIN_SWAP, 1, true);
        assert_pin(&pin[2], PIN_UNEXPLAINED, 2, false);
        assert_false(pins_writeback_known(f.pins));
        done(&f);
}

static void test_contract(_unused_ void **state) {
        CensusOptions options = options_units(0);
        struct sw_wb *wb;
        uint64_t refs;
        const Pin *pin;
        Fixture f = {};
        size_t n;

        assert_int_equal(census_new(&f.census, &options), 0);
        assert_int_equal(pins_new(&f.pins, f.census, PAGE), -EINVAL);
        assert_null(f.pins);
        f.census = census_free(f.census);

        add(&f, 1, 0, STATE_LIVE, 0, 1);
        add(&f, 2, 1, STATE_DYING, 1, 0);
        f.census = census_of(&f.walk, &options);
        assert_int_equal(pins_new(&f.pins, f.census, PAGE), 0);
        assert_false(pins_get(f.pins, 1, &pin, &n));
        assert_false(pins_explained(f.pins, 1, &refs));

        records_add(&f.evidence, SW_TYPE_WB, sizeof(*wb) - 8);
        assert_int_equal(records_feed(&f.evidence, feed_pins, f.pins), -EBADMSG);
        records_done(&f.evidence);
        records_add(&f.evidence, SW_TYPE_WB, sizeof(*wb) + 8);
        assert_int_equal(records_feed(&f.evidence, feed_pins, f.pins), -EBADMSG);
        records_done(&f.evidence);
        wb = records_add_wb(&f.evidence, 2, "", 0, 0);
        memset(wb->device, 'd', sizeof(wb->device)); /* no NUL */
        assert_int_equal(records_feed(&f.evidence, feed_pins, f.pins), -EBADMSG);
        records_done(&f.evidence);
        /* The longest name that has one, and sums that would wrap. */
        for (unsigned i = 0; i < 2; i++) {
                wb = records_add_wb(&f.evidence, 2, "", UINT64_MAX - 1, UINT64_MAX / PAGE);
                memset(wb->device, 'd', sizeof(wb->device) - 1);
        }
        assert_int_equal(records_feed(&f.evidence, feed_pins, f.pins), 0);
        assert_int_equal(pins_seal(f.pins, true), 0);
        assert_int_equal(pins_seal(f.pins, true), -EINVAL);
        assert_int_equal(records_feed(&f.evidence, feed_pins, f.pins), -EINVAL);
        assert_int_equal(get(&f, 2, &pin), 1);
        assert_int_equal(strlen(pin[0].device), SW_DEVICE_MAX - 1);
        assert_int_equal(pin[0].refs, 2);
        assert_int_equal(pin[0].inodes, UINT64_MAX);
        assert_int_equal(pin[0].bytes, UINT64_MAX);
        assert_int_equal(explained(&f, 2), 1);

        assert_string_equal(pin_cause_to_string(PIN_WRITEBACK), "writeback");
        assert_string_equal(pin_cause_to_string(PIN_SWAP), "swap");
        assert_string_equal(pin_cause_to_string(PIN_CHILD), "child");
        assert_string_equal(pin_cause_to_string(PIN_UNEXPLAINED), "unexplained");
        assert_null(pin_cause_to_string(_PIN_CAUSE_MAX));
        done(&f);
}

#define MEMCGS 60
#define DEVICES 5

/* Generated evidence in any order: for each memcg the pins are what counting by hand gives. */
static void test_generated(_unused_ void **state) {
        static const char *const devices[DEVICES] = { "0:44", "253:0", "7:0", "8:16", "btrfs-1" }; /* in the order of bytes */
        Random random = random_start(1618);

        for (size_t round = 0; round < 200; round++) {
                uint64_t count[MEMCGS + 1][DEVICES] = {}, pages[MEMCGS + 1][DEVICES] = {};
                uint64_t refs[MEMCGS + 1], children[MEMCGS + 1] = {};
                uint32_t id_refs[MEMCGS + 1], css[MEMCGS + 1];
                bool known = !random_once_in(&random, 4);
                Fixture f = {};

                add(&f, 1, 0, STATE_LIVE, 0, 1);
                for (uint64_t i = 2; i <= MEMCGS; i++) {
                        /* A chain or a sibling: both keep the order. */
                        uint64_t parent = i > 2 && random_once_in(&random, 2) ? i - 1 : 1;

                        css[i] = random_once_in(&random, 5) ? STATE_LIVE :
                                 random_once_in(&random, 5) ? SW_CSS_DYING | SW_CSS_ONLINE :
                                                              STATE_DYING;
                        refs[i] = random_below(&random, 6);
                        id_refs[i] = (uint32_t)random_below(&random, 3);
                        children[parent]++;
                        add(&f, i, parent, css[i], refs[i], id_refs[i]);
                }
                for (size_t i = random_below(&random, 120); i > 0; i--) {
                        uint64_t serial = 1 + random_below(&random, MEMCGS + 3), device = random_below(&random, DEVICES);
                        uint64_t n = random_below(&random, 1000);

                        records_add_wb(&f.evidence, serial, devices[device], 1, n);
                        if (serial <= MEMCGS) {
                                count[serial][device]++;
                                pages[serial][device] += n;
                        }
                }
                seal(&f, known);

                for (uint64_t i = 2; i <= MEMCGS; i++) {
                        uint32_t own = css[i] & SW_CSS_ONLINE ? 1 : 0, swap = id_refs[i] > own ? id_refs[i] - own : 0;
                        uint64_t named = children[i] + (swap > 0);
                        size_t at = 0, n = 0;
                        const Pin *pin;
                        bool over;

                        for (size_t d = 0; d < DEVICES; d++)
                                named += count[i][d];
                        over = named > refs[i];
                        if (css[i] == STATE_LIVE) {
                                assert_false(pins_get(f.pins, census_find(f.census, i), &pin, &n));
                                continue;
                        }
                        n = get(&f, i, &pin);
                        for (size_t d = 0; d < DEVICES; d++) {
                                if (count[i][d] == 0)
                                        continue;
                                assert_in_range(at, 0, n - 1);
                                assert_pin(&pin[at], PIN_WRITEBACK, count[i][d], known && !over);
                                assert_int_equal(pin[at].bytes, pages[i][d] * PAGE);
                                assert_int_equal(pin[at].inodes, count[i][d]);
                                assert_string_equal(pin[at].device, devices[d]);
                                at++;
                        }
                        if (swap > 0) {
                                assert_pin(&pin[at], PIN_SWAP, 1, !over);
                                assert_int_equal(pin[at++].entries, swap);
                        }
                        if (children[i] > 0)
                                assert_pin(&pin[at++], PIN_CHILD, children[i], !over);
                        if (named < refs[i])
                                assert_pin(&pin[at++], PIN_UNEXPLAINED, refs[i] - named, known);
                        assert_int_equal(at, n);
                        assert_int_equal(explained(&f, i), over ? refs[i] : named);
                }
                done(&f);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_causes),
                cmocka_unit_test(test_not_collected),
                cmocka_unit_test(test_swap),
                cmocka_unit_test(test_more_pins_than_references),
                cmocka_unit_test(test_unknown_references),
                cmocka_unit_test(test_writeback_not_known),
                cmocka_unit_test(test_contract),
                cmocka_unit_test(test_generated),
        };

        return cmocka_run_group_tests_name("pins", tests, NULL, NULL);
}
