/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "estimate.h"

/* A word of counters for each id, and one word of map: 520 bytes for 64, 512 for 63. */
#define WORD_BYTES 8
#define UNIT_BYTES(ids) ((UINT64_C(1) + (ids)) * WORD_BYTES)
#define IDS_PATCHED 63U
#define IDS_WORD 64U
/* offsetof(struct shrinker_info, unit): struct rcu_head, int map_nr_max, padding. A pointer for each unit follows. */
#define INFO_BYTES 24U
/* Below a page kvmalloc() does not think of vmalloc. No kernel has smaller pages. */
#define PAGE_BYTES_MIN 4096U

typedef struct Lists {
        int32_t shrinker_id;
        uint32_t base;
        uint64_t mask;
} Lists;

/* A live memcg by its index in the list_lrus' arrays. */
typedef struct Owner {
        int32_t kmemcg_id;
        uint32_t memcg;
} Owner;

struct EstimateLists {
        const Census *census;
        Lists *lists; /* 16 bytes for each 64 memcgs of a list_lru that have a list: a small part of what a single list takes */
        size_t n_lists, lists_allocated;
        Owner *owners; /* in ascending kmemcg_id, each once */
        size_t n_owners;
        bool owners_known; /* every live memcg below the root told its kmemcg_id */
};

static int compare_owners(const void *a, const void *b) {
        const Owner *x = a, *y = b;

        return (x->kmemcg_id > y->kmemcg_id) - (x->kmemcg_id < y->kmemcg_id);
}

static int find_owners(EstimateLists *l) {
        const Census *c = l->census;
        size_t n = 0;

        l->owners = malloc(c->n_memcgs * sizeof(*l->owners));
        if (!l->owners)
                return -ENOMEM;

        l->owners_known = true;
        /* The root keeps its objects on the lists that are nobody's. */
        for (uint32_t i = 1; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];

                if (m->state != CENSUS_LIVE)
                        continue;
                if (!(m->valid & SW_MEMCG_KMEM_ID)) {
                        l->owners_known = false;
                        continue;
                }
                if (m->kmemcg_id >= 0)
                        l->owners[n++] = (Owner){ m->kmemcg_id, i };
        }
        qsort(l->owners, n, sizeof(*l->owners), compare_owners);

        /* The kernel gives an index to one live memcg. Where two claim it, nobody can say whose the lists are: neither gets them. */
        for (size_t i = 0, k; i < n; i = k) {
                for (k = i + 1; k < n && l->owners[k].kmemcg_id == l->owners[i].kmemcg_id; k++)
                        ;
                if (k == i + 1)
                        l->owners[l->n_owners++] = l->owners[i];
        }
        return 0;
}

int estimate_lists_new(EstimateLists **ret, const Census *census) {
        _cleanup_(estimate_lists_freep) EstimateLists *l = NULL;
        int r;

        if (!census->sealed)
                return -EINVAL;

        l = calloc(1, sizeof(*l));
        if (!l)
                return -ENOMEM;
        l->census = census;
        r = find_owners(l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

EstimateLists *estimate_lists_free(EstimateLists *l) {
        if (!l)
                return NULL;
        free(l->owners);
        free(l->lists);
        free(l);
        return NULL;
}

int estimate_lists_add(EstimateLists *l, const struct sw_head *record) {
        const struct sw_lists *r = (const struct sw_lists *)record;
        int k;

        if (record->type != SW_TYPE_LISTS)
                return 0;
        if (record->size != sizeof(*r))
                return -EBADMSG;
        /* Without a sign, -1 is too high like the ids that came after the census. */
        if (r->mask == 0 || (uint32_t)r->shrinker_id >= l->census->totals.ids)
                return 0;

        k = grow_array(&l->lists, &l->lists_allocated, l->n_lists + 1, sizeof(*l->lists));
        if (k < 0)
                return k;
        l->lists[l->n_lists++] = (Lists){ r->shrinker_id, r->base, r->mask };
        return 0;
}

bool estimate_unaccounted(const Census *c) {
        bool any = false;

        for (size_t i = 1; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];

                if (m->state != CENSUS_LIVE)
                        continue;
                if (!(m->valid & SW_MEMCG_KMEM_ID) || m->kmemcg_id >= 0)
                        return false;
                any = true;
        }
        return any;
}

static int compare_lists(const void *a, const void *b) {
        const Lists *x = a, *y = b;

        if (x->shrinker_id != y->shrinker_id)
                return x->shrinker_id < y->shrinker_id ? -1 : 1;
        return (x->base > y->base) - (x->base < y->base);
}

/* The first owner with an index of at least base. */
static size_t find_owner(const EstimateLists *l, uint32_t base) {
        size_t low = 0, high = l->n_owners;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if ((uint32_t)l->owners[mid].kmemcg_id < base)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static uint64_t divide_up(uint64_t n, uint32_t by) {
        return n / by + (n % by > 0);
}

/* Ids of a unit of this kernel; of those whose arrays hold everything, the step by which they grow: the bits of a word. */
static uint32_t ids_of_unit_now(const Census *c) {
        if (c->options.flat || c->options.unit_struct_bytes < UNIT_BYTES(1))
                return IDS_WORD;
        return (uint32_t)(c->options.unit_struct_bytes / WORD_BYTES - 1);
}

/*
 * Units of another size that an array with room for so many ids would have. Arrays grow by whole units, for the highest id that there
 * ever was: that lies in the last unit, and not below the highest id in use. The rest of the last unit may not need another one.
 */
static uint64_t count_units(const Census *c, uint32_t ids, uint32_t ids_per_unit) {
        uint32_t now = ids_of_unit_now(c), end = c->totals.ids_end;

        if (end > 0 && ids > 0 && ids_per_unit != now) {
                uint32_t before_last = (ids - 1) / now * now;

                if (end <= before_last)
                        end = before_last + 1;
                if (end < ids)
                        ids = end;
        }
        return divide_up(ids, ids_per_unit);
}

/* All units that a memcg's arrays have room for. */
static uint64_t count_all(const Census *c, const CensusMemcg *m, uint32_t ids_per_unit) {
        uint64_t units = 0;

        for (uint32_t k = 0; k < m->n_nodes; k++)
                units += count_units(c, c->nodes[m->first_node + k].ids, ids_per_unit);
        return units;
}

/*
 * Units where a live memcg, or one below it, has a list; units: memcg → its units, zeros before. The lists are sorted by shrinker, so
 * the units come one after the other, and for each it is enough to mark who has it already: going up from a list ends at the first
 * ancestor that is marked. The time is that of the lists plus that of the units which come out.
 */
static int count_lists(EstimateLists *l, uint32_t ids_per_unit, uint64_t *units, uint64_t *ret_lists) {
        _cleanup_(freep) uint32_t *has_unit = NULL, *has_list = NULL; /* memcg → the last unit, the last shrinker id, plus one */
        const Census *c = l->census;
        uint64_t lists = 0;

        has_unit = calloc(c->n_memcgs, sizeof(*has_unit));
        has_list = calloc(c->n_memcgs, sizeof(*has_list));
        if (!has_unit || !has_list)
                return -ENOMEM;
        if (l->n_lists > 0)
                qsort(l->lists, l->n_lists, sizeof(*l->lists), compare_lists);

        for (size_t i = 0; i < l->n_lists; i++) {
                const Lists *at = &l->lists[i];
                uint32_t id = (uint32_t)at->shrinker_id, unit = id / ids_per_unit;

                for (size_t k = find_owner(l, at->base); k < l->n_owners; k++) {
                        uint32_t bit = (uint32_t)l->owners[k].kmemcg_id - at->base, memcg = l->owners[k].memcg;

                        if (bit > 63)
                                break;
                        if (!(at->mask >> bit & 1))
                                continue;
                        /* A superblock has two list_lrus with one shrinker, for dentries and inodes. */
                        if (has_list[memcg] == id + 1)
                                continue;
                        has_list[memcg] = id + 1;
                        lists++;
                        for (; memcg != 0 && has_unit[memcg] != unit + 1; memcg = c->memcgs[memcg].parent) {
                                has_unit[memcg] = unit + 1;
                                units[memcg] += c->memcgs[memcg].n_nodes;
                        }
                }
        }
        *ret_lists = lists;
        return 0;
}

/*
 * Units that dying memcgs would still have. Their lists are gone, to the parent, but nobody reclaims from them: the bits in their maps
 * are as they were when they were removed, and where there is a bit, there was a list.
 */
static void count_dying(const Census *c, uint32_t ids_per_unit, Estimate *e, uint64_t *units) {
        bool counted = c->allocation == CENSUS_ALLOCATION_ON_DEMAND;

        e->units_dying_known = counted || e->bits_known;
        if (!e->units_dying_known)
                return;
        e->units_dying_at_least = !counted;

        for (size_t i = 1; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];
                uint64_t used = 0, most;

                if (m->state != CENSUS_DYING)
                        continue;
                /* A unit is on all nodes, whichever of them has the bit. */
                for (uint32_t k = 0; k < m->n_nodes; k++)
                        if (c->nodes[m->first_node + k].units_used > used)
                                used = c->nodes[m->first_node + k].units_used;
                most = count_all(c, m, ids_per_unit);
                used *= m->n_nodes;
                units[i] = counted ? m->units : used < most ? used : most;
                e->units_dying += units[i];
        }
}

/* *ret_units: memcg → its units on demand, the caller's to free; left alone when they are not known. */
static int count_on_demand(const Census *c, EstimateLists *l, uint32_t ids_per_unit, Estimate *e, uint64_t **ret_units) {
        _cleanup_(freep) uint64_t *units = NULL;
        int r;

        if (!l || !l->owners_known)
                return 0;

        units = calloc(c->n_memcgs, sizeof(*units));
        if (!units)
                return -ENOMEM;
        r = count_lists(l, ids_per_unit, units, &e->lists);
        if (r < 0)
                return r;
        count_dying(c, ids_per_unit, e, units);
        /* The root has all of its units from the start: they hold the counters of shrinkers that work for nobody in particular. */
        units[0] = count_all(c, &c->memcgs[0], ids_per_unit);

        e->on_demand_known = true;
        *ret_units = TAKE_PTR(units);
        return 0;
}

/* Everything allocated as today, but in units of so many ids; for each array as many ids as it has room for now. */
static void estimate_units(const Census *c, uint32_t ids_per_unit, EstimateVariant *ret) {
        const CensusOptions *o = &c->options;
        EstimateVariant v = {
                .ids_per_unit = ids_per_unit,
                .unit_struct_bytes = UNIT_BYTES(ids_per_unit),
        };

        v.unit_alloc_bytes = o->alloc(v.unit_struct_bytes, false, o->alloc_userdata);
        for (size_t i = 0; i < c->n_nodes; i++) {
                const CensusNode *n = &c->nodes[i];
                uint64_t slots = count_units(c, n->ids, ids_per_unit), bytes = INFO_BYTES + slots * WORD_BYTES;

                if (!(n->valid & SW_NODE_INFO))
                        continue;
                v.units += slots;
                v.array_bytes = add_sat_u64(v.array_bytes,
                                            o->alloc(bytes, (n->valid & SW_NODE_VMALLOC) && bytes > PAGE_BYTES_MIN, o->alloc_userdata));
        }
        v.unit_bytes = mul_sat_u64(v.units, v.unit_alloc_bytes);
        *ret = v;
}

/* Whether the maps were read, all of them. */
static bool bits_known(const Census *c) {
        bool any = false;

        for (size_t i = 0; i < c->n_nodes; i++) {
                if (!(c->nodes[i].valid & SW_NODE_INFO))
                        continue;
                if (!(c->nodes[i].valid & SW_NODE_BITS))
                        return false;
                any = true;
        }
        return any;
}

static bool fits(const Census *census, const EstimateLists *lists) {
        return census->sealed && (!lists || lists->census == census);
}

int estimate_host(const Census *census, EstimateLists *lists, Estimate *ret) {
        _cleanup_(freep) uint64_t *units = NULL;
        Estimate e = {};
        int r;

        if (!fits(census, lists))
                return -EINVAL;

        e.now = (EstimateVariant){
                .unit_struct_bytes = census->options.flat ? 0 : census->options.unit_struct_bytes,
                .unit_alloc_bytes = census->unit_alloc_bytes,
                .units = census->totals.units,
                .unit_bytes = census->totals.unit_bytes,
                .array_bytes = census->totals.array_bytes,
        };
        if (e.now.unit_struct_bytes >= UNIT_BYTES(1))
                e.now.ids_per_unit = ids_of_unit_now(census);

        e.bits_known = bits_known(census);
        if (e.bits_known) {
                e.bits = census->totals.bits;
                e.units_with_bits = census->totals.units_used;
        }

        estimate_units(census, IDS_PATCHED, &e.units_63);

        e.on_demand = e.units_63;
        e.on_demand.units = e.on_demand.unit_bytes = 0;
        r = count_on_demand(census, lists, IDS_PATCHED, &e, &units);
        if (r < 0)
                return r;
        for (size_t i = 0; units && i < census->n_memcgs; i++)
                e.on_demand.units += units[i];
        e.on_demand.unit_bytes = mul_sat_u64(e.on_demand.units, e.on_demand.unit_alloc_bytes);
        *ret = e;
        return 0;
}

int estimate_memcgs(const Census *census, EstimateLists *lists, EstimateMemcg **ret) {
        _cleanup_(freep) uint64_t *units = NULL;
        _cleanup_(freep) EstimateMemcg *memcgs = NULL;
        Estimate e = {};
        int r;

        if (!fits(census, lists))
                return -EINVAL;

        memcgs = calloc(census->n_memcgs, sizeof(*memcgs));
        if (!memcgs)
                return -ENOMEM;
        e.bits_known = bits_known(census);
        r = count_on_demand(census, lists, IDS_PATCHED, &e, &units);
        if (r < 0)
                return r;

        for (size_t i = 0; i < census->n_memcgs; i++) {
                const CensusMemcg *m = &census->memcgs[i];

                memcgs[i] = (EstimateMemcg){
                        .units_63 = count_all(census, m, IDS_PATCHED),
                        .on_demand = units ? units[i] : 0,
                        .on_demand_known = units && (m->state != CENSUS_DYING || e.units_dying_known),
                };
        }
        *ret = TAKE_PTR(memcgs);
        return 0;
}

static int model_variant(const EstimateModel *m, uint32_t ids_per_unit, census_alloc_t alloc, void *userdata, EstimateVariant *ret) {
        uint64_t slots = divide_up(m->ids, ids_per_unit), arrays, info_bytes;
        EstimateVariant v = {
                .ids_per_unit = ids_per_unit,
                .unit_struct_bytes = UNIT_BYTES(ids_per_unit),
                .unit_alloc_bytes = alloc(UNIT_BYTES(ids_per_unit), false, userdata),
        };

        if (__builtin_mul_overflow(m->memcgs, m->nodes, &arrays) || __builtin_mul_overflow(arrays, slots, &v.units) ||
            __builtin_mul_overflow(v.units, v.unit_alloc_bytes, &v.unit_bytes) || __builtin_mul_overflow(slots, WORD_BYTES, &info_bytes) ||
            __builtin_add_overflow(info_bytes, INFO_BYTES, &info_bytes) ||
            __builtin_mul_overflow(arrays, alloc(info_bytes, false, userdata), &v.array_bytes))
                return -ERANGE;
        *ret = v;
        return 0;
}

/*
 * What the formula gives beside a host that was measured. Published: 145 GB of shrinker memory on a host with 45,000 memory cgroups, 4
 * nodes, shrinker_nr_max 52,480. Here: 45,000 × 4 × 52,480 / 64 = 147.6 million units of 1,024 bytes = 151.1 GB or 140.8 GiB, and
 * 180,000 arrays of 24 + 820 × 8 = 6,584 bytes, 8,192 from the allocator, 1.5 GB or 1.4 GiB more. So if the published figure counts
 * in GiB, as free(1) and "of 377 GB" of a machine with 384 GiB suggest, the formula says 142.2 and is 2 % short of it, about what
 * rounding the number of cgroups leaves open; if it counts in decimal GB, the formula is 5 % above.
 */
int estimate_model(const EstimateModel *model, census_alloc_t alloc, void *userdata, Estimate *ret) {
        Estimate e = {};
        int r;

        r = model_variant(model, 64, alloc, userdata, &e.now);
        if (r < 0)
                return r;
        r = model_variant(model, IDS_PATCHED, alloc, userdata, &e.units_63);
        if (r < 0)
                return r;
        e.on_demand = e.units_63;
        e.on_demand.units = e.on_demand.unit_bytes = 0;
        *ret = e;
        return 0;
}

/* Decimal digits, at least one and nothing else; above 0. */
static bool parse_number(const char *s, size_t len, uint64_t *ret) {
        uint64_t n = 0;

        for (size_t i = 0; i < len; i++) {
                if (s[i] < '0' || s[i] > '9')
                        return false;
                if (__builtin_mul_overflow(n, 10U, &n) || __builtin_add_overflow(n, (uint64_t)(s[i] - '0'), &n))
                        return false;
        }
        if (n == 0)
                return false;
        *ret = n;
        return true;
}

int estimate_model_parse(const char *text, EstimateModel *ret, const char **ret_bad, size_t *ret_bad_len) {
        EstimateModel m = {};
        const struct {
                const char *key;
                uint64_t *value;
        } keys[] = {
                { "memcgs", &m.memcgs },
                { "nodes", &m.nodes },
                { "ids", &m.ids },
        };

        for (const char *word = text;;) {
                size_t len = strcspn(word, ","), key_len = strcspn(word, ",="), i;

                for (i = 0; i < ELEMENTSOF(keys); i++)
                        if (strlen(keys[i].key) == key_len && memcmp(keys[i].key, word, key_len) == 0)
                                break;
                if (i == ELEMENTSOF(keys) || key_len == len || *keys[i].value != 0 ||
                    !parse_number(word + key_len + 1, len - key_len - 1, keys[i].value)) {
                        *ret_bad = word;
                        *ret_bad_len = len;
                        return -EINVAL;
                }
                if (word[len] == '\0')
                        break;
                word += len + 1;
        }
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (*keys[i].value == 0) {
                        *ret_bad = text;
                        *ret_bad_len = strlen(text);
                        return -EINVAL;
                }
        *ret = m;
        return 0;
}
