/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Any records → census, pins, estimate. The first byte decides how the others are read: as the records themselves, or as a script that
 * builds a walk which is good except where the script says otherwise. The second gets deep, the first finds what nobody thought of.
 */
#include "estimate.h"
#include "fuzz.h"
#include "pins.h"

#define DEPTH_MAX 256

/* Bytes of the input; zeros when they are used up. */
typedef struct Script {
        const uint8_t *data;
        size_t left;
} Script;

static uint8_t take_u8(Script *s) {
        if (s->left == 0)
                return 0;
        s->left--;
        return *s->data++;
}

static uint32_t take_u16(Script *s) {
        uint32_t high = take_u8(s);

        return high << 8 | take_u8(s);
}

/* Mostly small, sometimes huge. */
static uint64_t take_number(Script *s) {
        uint8_t b = take_u8(s);

        return b < 0xf0 ? b : UINT64_MAX >> (b & 15) * 4;
}

typedef struct Build {
        Script script;
        Records walk, evidence;
        uint64_t path[DEPTH_MAX]; /* serials from the root to the newest */
        size_t depth;
        uint64_t serial;
        uint16_t nodes;
} Build;

static void script_memcg(Build *b, uint8_t op) {
        static const uint32_t states[] = { STATE_LIVE, STATE_DYING, SW_CSS_DYING | SW_CSS_ONLINE, STATE_CREATING };
        size_t up = op >> 4, len = take_u8(&b->script) % 4;
        char name[255];
        uint64_t parent;
        struct sw_memcg *m;
        uint8_t how = take_u8(&b->script);

        /* One step down from the newest, or up first. */
        b->depth = up < b->depth ? b->depth - up : b->depth > 0;
        if (b->depth == DEPTH_MAX)
                b->depth--;
        parent = b->depth > 0 ? b->path[b->depth - 1] : 0;
        if (len == 3)
                len = take_u8(&b->script) % 255;
        for (size_t i = 0; i < len; i++)
                name[i] = (char)take_u8(&b->script);

        b->serial += 1 + how / 64;
        m = records_add_memcg(&b->walk, b->serial, parent, states[how & 3], name, len, b->nodes);
        if (how & 4) {
                m->head.valid = take_u16(&b->script);
                m->refs = take_number(&b->script);
                m->id_refs = (uint32_t)take_number(&b->script);
                m->kmemcg_id = (int32_t)take_u8(&b->script) - 2;
        }
        b->path[b->depth++] = b->serial;

        for (uint32_t i = 0; i < b->nodes; i++) {
                uint32_t slots = how & 8 ? (uint32_t)take_number(&b->script) : 3;
                struct sw_node *n;

                /* Released while its nodes were read; the newest has no children then. */
                if ((how & 48) == 48) {
                        b->depth--;
                        return;
                }
                n = records_add_node(&b->walk, b->serial, i, slots * 64, slots, how & 16 ? slots / 2 : slots);
                if (how & 32) {
                        n->head.valid = take_u8(&b->script);
                        n->bits = (uint32_t)take_number(&b->script);
                        n->units_used = (uint32_t)take_number(&b->script);
                        n->array_bytes = (uint32_t)take_number(&b->script);
                }
        }
}

static void read_script(Build *b) {
        while (b->script.left > 0 && b->walk.len < 1U << 20) {
                uint8_t op = take_u8(&b->script);
                uint64_t at;

                switch (op & 15) {
                default:
                        script_memcg(b, op);
                        break;
                case 8: /* a byte of the walk is another */
                        at = take_u16(&b->script);
                        if (b->walk.len > 0 && (at % b->walk.len) % 8 != 2 && (at % b->walk.len) % 8 != 3)
                                b->walk.bytes[at % b->walk.len] ^= take_u8(&b->script);
                        break;
                case 9:
                        at = take_u16(&b->script);
                        records_add_lists(&b->evidence, (int32_t)take_u8(&b->script) - 1, (uint32_t)at, take_number(&b->script));
                        break;
                case 10:
                case 11:
                        at = 1 + take_u8(&b->script);
                        records_add_wb(&b->evidence, at, op & 16 ? "8:0" : "btrfs-1", take_number(&b->script), take_number(&b->script))
                                ->head.valid = op & 32 ? 3 : 1;
                        break;
                }
        }
}

/* The input as it is, as long as the sizes in it make sense; they are what the probe has checked. */
static void read_raw(Build *b) {
        while (b->script.left >= sizeof(struct sw_head)) {
                struct sw_head head;
                uint8_t *copy;

                memcpy(&head, b->script.data, sizeof(head));
                if (head.size < sizeof(head) || head.size > b->script.left || head.size % 8 != 0)
                        return;
                copy = records_add(head.type == SW_TYPE_MEMCG || head.type == SW_TYPE_NODE ? &b->walk : &b->evidence, head.type, head.size);
                memcpy(copy, b->script.data, head.size);
                b->script.data += head.size;
                b->script.left -= head.size;
        }
}

static void check_tree(const Census *c) {
        uint64_t *memcgs = calloc(c->n_memcgs, sizeof(*memcgs)), *units = calloc(c->n_memcgs, sizeof(*units));
        CensusDelta d;

        CHECK(memcgs && units && c->n_memcgs > 0);
        CHECK(c->memcgs[0].parent == CENSUS_NONE && c->memcgs[0].subtree_memcgs == c->n_memcgs);
        CHECK(c->totals.memcgs == c->n_memcgs && c->totals.live + c->totals.dying + c->totals.creating == c->n_memcgs);
        CHECK(c->totals.units == c->memcgs[0].subtree_units && c->totals.dying == c->memcgs[0].subtree_dying);
        for (uint32_t i = (uint32_t)c->n_memcgs; i-- > 0;) {
                const CensusMemcg *m = &c->memcgs[i];

                memcgs[i]++;
                units[i] += m->units;
                CHECK(m->subtree_memcgs == memcgs[i] && m->subtree_units == units[i]);
                CHECK(i + m->subtree_memcgs <= c->n_memcgs);
                CHECK(m->units <= m->slots && m->first_node + m->n_nodes <= c->n_nodes);
                CHECK(m->nearest_live <= i && (m->nearest_live == 0 || c->memcgs[m->nearest_live].state == CENSUS_LIVE));
                CHECK(census_find(c, m->serial) == i);
                CHECK(strlen(census_name(c, i)) == m->name_len && !strchr(census_name(c, i), '/'));
                if (i == 0)
                        break;
                CHECK(m->parent < i && i < m->parent + c->memcgs[m->parent].subtree_memcgs);
                CHECK(m->serial > m->parent_serial && m->parent_serial == c->memcgs[m->parent].serial);
                memcgs[m->parent] += memcgs[i];
                units[m->parent] += units[i];
        }
        free(memcgs);
        free(units);
        census_compare(c, c, &d);
        CHECK(d.added == 0 && d.gone == 0 && d.died == 0 && d.units == 0 && d.overhead_bytes == 0 && d.ids == 0);
}

static void check_paths(const Census *c) {
        for (uint32_t i = 0; i < c->n_memcgs; i += 1 + i / 4) {
                size_t len = 0, found_len = 0;
                char *path = census_path(c, i, &len), *found_path;
                uint32_t found;

                CHECK(path && strlen(path) == len && path[0] == '/' && (len == 1 || path[len - 1] != '/'));
                found = census_find_path(c, path, len);
                CHECK(found != CENSUS_NONE);
                found_path = census_path(c, found, &found_len);
                CHECK(found_path && strcmp(path, found_path) == 0);
                CHECK(c->memcgs[i].state != CENSUS_LIVE || c->memcgs[found].state == CENSUS_LIVE);
                CHECK(c->memcgs[i].state != c->memcgs[found].state || c->memcgs[found].serial >= c->memcgs[i].serial);
                free(path);
                free(found_path);
        }
}

static int feed_pins(const struct sw_head *record, void *pins) {
        return pins_add(pins, record);
}

static int feed_lists(const struct sw_head *record, void *lists) {
        return estimate_lists_add(lists, record);
}

static void check_pins(const Census *c, const Records *evidence, bool known) {
        Pins *pins = NULL;

        CHECK(pins_new(&pins, c, 4096) == 0);
        (void)records_feed(evidence, feed_pins, pins);
        CHECK(pins_seal(pins, known) == 0);
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];
                uint64_t sum = 0, explained = 0;
                const Pin *pin;
                size_t n;

                CHECK(pins_get(pins, i, &pin, &n) == (m->state == CENSUS_DYING));
                if (m->state != CENSUS_DYING)
                        continue;
                CHECK(pins_explained(pins, i, &explained));
                for (size_t k = 0; k < n; k++) {
                        CHECK(pin[k].refs > 0 && pin[k].cause < _PIN_CAUSE_MAX && (k == 0 || pin[k].cause >= pin[k - 1].cause));
                        CHECK(known || pin[k].cause != PIN_WRITEBACK || !pin[k].exact);
                        CHECK(pin[k].cause != PIN_UNEXPLAINED || (k == n - 1 && explained + pin[k].refs == m->refs));
                        sum += pin[k].refs;
                }
                if (m->valid & SW_MEMCG_REFS)
                        CHECK(sum >= m->refs && explained <= m->refs);
                else
                        CHECK(sum == explained);
        }
        pins_free(pins);
}

static void check_estimate(const Census *c, const Records *evidence) {
        uint64_t slots = c->totals.ids / 63 + 1;
        EstimateLists *lists = NULL;
        Estimate e = {}, again = {};

        CHECK(estimate_lists_new(&lists, c) == 0);
        (void)records_feed(evidence, feed_lists, lists);
        CHECK(estimate_host(c, lists, &e) == 0);
        CHECK(estimate_host(c, lists, &again) == 0);
        CHECK(e.on_demand.units == again.on_demand.units && e.lists == again.lists);
        /* Where units are allocated on demand already, those of dying memcgs are as they were counted. */
        CHECK(e.on_demand.units <= c->n_nodes * slots + c->totals.units_dying && e.units_63.units <= c->n_nodes * slots);
        CHECK(e.lists <= c->totals.live * c->totals.ids);
        estimate_lists_free(lists);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Build b = { .script = { data, size } };
        uint8_t how = take_u8(&b.script);
        CensusOptions options = options_units(how >> 2 & 3);
        Census *c = NULL;
        int r;

        options.flat = how & 2;
        b.nodes = (uint16_t)options.n_nodes;
        if (how & 1)
                read_raw(&b);
        else
                read_script(&b);

        CHECK(census_new(&c, &options) == 0);
        r = records_feed(&b.walk, feed_census, c);
        if (r == 0)
                r = census_seal(c);
        CHECK(r == 0 || r == -EBADMSG);
        if (r == 0) {
                check_tree(c);
                check_paths(c);
                check_pins(c, &b.evidence, how & 16);
                check_estimate(c, &b.evidence);
        }
        census_free(c);
        records_done(&b.walk);
        records_done(&b.evidence);
        return 0;
}

/* Scripts with few broken places: half of the walks should be good. */
size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        size_t len = 0;

        if (random_once_in(random, 6))
                return fuzz_noise(random, buf, size);
        buf[len++] = (uint8_t)(random_u64(random) & 0xfe);
        while (len + 16 < size && !random_once_in(random, 60)) {
                size_t up = random_once_in(random, 2) ? 0 : random_below(random, 4);
                uint8_t op = (uint8_t)(up << 4 | random_below(random, 8));

                if (random_once_in(random, 3))
                        op = (uint8_t)(random_u64(random) & 0xf0) | (uint8_t)(9 + random_below(random, 3));
                if (random_once_in(random, 200))
                        op = 8;
                buf[len++] = op;
                for (size_t i = 0; i < 4; i++)
                        buf[len++] = (uint8_t)random_u64(random);
        }
        return len;
}
