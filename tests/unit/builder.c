/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "builder.h"

#include <inttypes.h>
#include <stdio.h>

#include "sizeclass.h"

Random random_start(uint64_t seed) {
        const char *given = getenv("SHRINKWATCH_TEST_SEED");

        if (given)
                seed = strtoull(given, NULL, 0);
        /* "#": a remark in the Test Anything Protocol. */
        printf("# seed %" PRIu64 "\n", seed);
        return (Random){ seed };
}

uint64_t random_u64(Random *r) {
        uint64_t x = r->state += 0x9e3779b97f4a7c15;

        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
}

uint64_t random_below(Random *r, uint64_t n) {
        return random_u64(r) % n;
}

bool random_once_in(Random *r, uint64_t n) {
        return random_below(r, n) == 0;
}

static void *check_memory(void *p) {
        if (!p) {
                fputs("no memory for the test\n", stderr);
                abort();
        }
        return p;
}

void records_done(Records *r) {
        free(r->bytes);
        *r = (Records){};
}

void *records_add(Records *r, uint16_t type, size_t size) {
        struct sw_head *head;

        if (r->len + size > r->allocated) {
                r->allocated = (r->len + size) * 2;
                r->bytes = check_memory(realloc(r->bytes, r->allocated));
        }
        head = memset(r->bytes + r->len, 0, size);
        head->type = type;
        head->size = (uint16_t)size;
        r->len += size;
        return head;
}

struct sw_memcg *records_add_memcg(Records *r, uint64_t serial, uint64_t parent, uint32_t css, const char *name, size_t len,
                                   uint16_t nodes) {
        struct sw_memcg *m = records_add(r, SW_TYPE_MEMCG, ALIGN8(sizeof(*m) + len));

        m->head.valid = SW_MEMCG_REFS | SW_MEMCG_ID | SW_MEMCG_MEMORY | SW_MEMCG_SWAP | SW_MEMCG_KMEM_ID | SW_MEMCG_NAME;
        m->serial = serial;
        m->parent_serial = parent;
        m->cgroup_id = serial * 10 + 1;
        m->refs = serial * 10 + 2;
        m->memory_pages = serial * 10 + 3;
        m->swap_pages = serial * 10 + 4;
        m->memcg_id = (int32_t)serial + 5;
        m->kmemcg_id = (int32_t)serial + 6;
        m->state = css;
        m->nodes = nodes;
        m->name_len = (uint16_t)len;
        memcpy(m + 1, name, len);
        return m;
}

struct sw_node *records_add_node(Records *r, uint64_t serial, uint32_t node, uint32_t ids, uint32_t slots, uint32_t units) {
        struct sw_node *n = records_add(r, SW_TYPE_NODE, sizeof(*n));

        n->head.valid = SW_NODE_INFO | SW_NODE_UNITS;
        n->serial = serial;
        n->node = node;
        n->ids = ids;
        n->slots = slots;
        n->units = units;
        n->array_bytes = 24 + 8 * slots;
        return n;
}

void records_add_simple(Records *r, uint64_t serial, uint64_t parent, uint32_t css, const char *name, uint16_t nodes, uint32_t slots) {
        records_add_memcg(r, serial, parent, css, name, strlen(name), nodes);
        for (uint32_t i = 0; i < nodes; i++)
                records_add_node(r, serial, i, slots * 64, slots, slots);
}

struct sw_wb *records_add_wb(Records *r, uint64_t serial, const char *device, uint64_t inodes, uint64_t pages) {
        struct sw_wb *wb = records_add(r, SW_TYPE_WB, sizeof(*wb));

        wb->head.valid = SW_WB_REFS | SW_WB_INODES;
        wb->serial = serial;
        wb->refs = 1;
        wb->inodes = inodes;
        wb->pages = pages;
        memcpy(wb->device, device, strnlen(device, sizeof(wb->device)));
        return wb;
}

struct sw_lists *records_add_lists(Records *r, int32_t shrinker_id, uint32_t base, uint64_t mask) {
        struct sw_lists *l = records_add(r, SW_TYPE_LISTS, sizeof(*l));

        l->shrinker_id = shrinker_id;
        l->base = base;
        l->mask = mask;
        return l;
}

int records_feed(const Records *r, records_fn fn, void *userdata) {
        for (size_t at = 0; at < r->len;) {
                const struct sw_head *head = (const struct sw_head *)(r->bytes + at);
                void *copy = check_memory(malloc(head->size));
                size_t size = head->size;
                int k;

                memcpy(copy, head, size);
                k = fn(copy, userdata);
                free(copy);
                if (k < 0)
                        return k;
                at += size;
        }
        return 0;
}

int feed_census(const struct sw_head *record, void *census) {
        return census_add(census, record);
}

uint64_t alloc_plus(uint64_t struct_bytes, bool vmalloc, _unused_ void *userdata) {
        return add_sat_u64(struct_bytes, vmalloc ? 7 : 3);
}

uint64_t alloc_size_class(uint64_t struct_bytes, bool vmalloc, _unused_ void *userdata) {
        return size_class_bytes(struct_bytes, 4096, vmalloc);
}

CensusOptions options_units(uint32_t nodes) {
        return (CensusOptions){ .unit_struct_bytes = 520, .n_nodes = nodes, .alloc = alloc_plus };
}

Census *census_of(const Records *r, const CensusOptions *options) {
        Census *c = NULL;
        int k;

        k = census_new(&c, options);
        if (k >= 0)
                k = records_feed(r, feed_census, c);
        if (k >= 0)
                k = census_seal(c);
        if (k < 0) {
                fprintf(stderr, "the census of a good walk failed: %s\n", strerror(-k));
                abort();
        }
        return c;
}
