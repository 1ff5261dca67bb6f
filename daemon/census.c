/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "census.h"

/*
 * No function here calls itself: a tree can be as deep as there are memcgs. What a recursion would do is done by the pre-order: a parent
 * has a smaller index than its children, so one pass backwards hands sums up, and one forwards hands things down.
 */

const char *census_state_to_string(CensusState state) {
        static const char *const names[] = {
                [CENSUS_LIVE] = "live",
                [CENSUS_DYING] = "dying",
                [CENSUS_CREATING] = "creating",
        };

        return (size_t)state < ELEMENTSOF(names) ? names[state] : NULL;
}

const char *census_allocation_to_string(CensusAllocation allocation) {
        static const char *const names[] = {
                [CENSUS_ALLOCATION_UNKNOWN] = "unknown",
                [CENSUS_ALLOCATION_EAGER] = "eager",
                [CENSUS_ALLOCATION_ON_DEMAND] = "on-demand",
        };

        return (size_t)allocation < ELEMENTSOF(names) ? names[allocation] : NULL;
}

CensusState census_state_from_css(uint32_t css_state) {
        if (css_state & SW_CSS_DYING)
                return CENSUS_DYING;
        return css_state & SW_CSS_ONLINE ? CENSUS_LIVE : CENSUS_CREATING;
}

uint64_t census_digest_one(uint64_t serial, CensusState state) {
        return sw_digest(serial, (uint32_t)state);
}

int census_new(Census **ret, const CensusOptions *options) {
        Census *c;

        if (!options->alloc || options->n_nodes > SW_NODES_MAX)
                return -EINVAL;

        c = calloc(1, sizeof(*c));
        if (!c)
                return -ENOMEM;
        c->options = *options;
        c->tip = CENSUS_NONE;
        *ret = c;
        return 0;
}

Census *census_free(Census *c) {
        if (!c)
                return NULL;
        free(c->by_serial);
        free(c->names);
        free(c->nodes);
        free(c->memcgs);
        free(c);
        return NULL;
}

/* The newest memcg was released while its nodes were read. Its names and nodes are the last ones, so the arrays just end earlier. */
static void drop_newest(Census *c) {
        CensusMemcg *m = &c->memcgs[c->tip];

        c->n_nodes = m->first_node;
        c->names_bytes = m->name;
        c->n_memcgs--;
        /* Not the memcg before it: going up from there again for each of many dropped ones would be quadratic in a deep tree. */
        c->tip = m->parent;
        c->nodes_missing = 0;
        c->totals.dropped++;
}

/*
 * Finds the parent: on the way from the newest memcg up to the root, since the order is pre-order. Each memcg that is passed is never
 * looked at again, so all calls together take linear time.
 */
static int find_parent(const Census *c, const struct sw_memcg *r, uint32_t *ret) {
        uint32_t i = c->tip, child = CENSUS_NONE;

        if (c->n_memcgs == 0) {
                if (r->parent_serial != 0)
                        return -EBADMSG;
                *ret = CENSUS_NONE;
                return 0;
        }

        while (i != CENSUS_NONE && c->memcgs[i].serial != r->parent_serial) {
                child = i;
                i = c->memcgs[i].parent;
        }
        if (i == CENSUS_NONE || (child != CENSUS_NONE && c->memcgs[child].serial >= r->serial))
                return -EBADMSG;
        *ret = i;
        return 0;
}

/* Appends the name with a NUL. *ret_known: it is what the record says; else it stands for one that could not be read. */
static int add_name(Census *c, const struct sw_memcg *r, bool is_root, uint32_t *ret_offset, uint16_t *ret_len, bool *ret_known) {
        const char *name = (const char *)(r + 1);
        size_t len = r->name_len;
        bool known;
        int r2;

        /*
         * The kernel lets no NUL or slash into a name. But it frees the old one when a v1 cgroup is renamed, and what a probe read finds
         * there then can be anything: no reason to do without the census.
         */
        known = (r->head.valid & SW_MEMCG_NAME) && !memchr(name, '\0', len) && !memchr(name, '/', len) && (len > 0 || is_root);
        if (!known) {
                name = CENSUS_NAME_UNKNOWN;
                len = strlen(CENSUS_NAME_UNKNOWN);
        }

        if (c->names_bytes > UINT32_MAX - SW_NAME_MAX)
                return -E2BIG;
        r2 = grow_array(&c->names, &c->names_allocated, c->names_bytes + len + 1, 1);
        if (r2 < 0)
                return r2;
        memcpy(c->names + c->names_bytes, name, len);
        c->names[c->names_bytes + len] = '\0';
        *ret_offset = (uint32_t)c->names_bytes;
        *ret_len = (uint16_t)len;
        *ret_known = known;
        c->names_bytes += len + 1;
        return 0;
}

static int add_memcg(Census *c, const struct sw_memcg *r) {
        uint32_t parent = CENSUS_NONE, name = 0, valid;
        uint16_t name_len = 0;
        bool name_known = false;
        CensusMemcg *m;
        int k;

        if (r->head.size < sizeof(*r) || r->name_len >= SW_NAME_MAX || r->head.size != ALIGN8(sizeof(*r) + r->name_len))
                return -EBADMSG;
        if (r->serial <= r->parent_serial)
                return -EBADMSG;
        if (r->nodes > SW_NODES_MAX || (c->options.n_nodes > 0 && r->nodes != c->options.n_nodes))
                return -EBADMSG;

        if (c->n_memcgs > 0) {
                if (c->memcgs[c->n_memcgs - 1].serial == r->serial)
                        return -EBADMSG;
                if (c->nodes_missing > 0)
                        drop_newest(c);
        }
        k = find_parent(c, r, &parent);
        if (k < 0)
                return k;

        if (c->n_memcgs >= CENSUS_NONE || c->n_nodes > UINT32_MAX - SW_NODES_MAX)
                return -E2BIG;
        k = grow_array(&c->memcgs, &c->memcgs_allocated, c->n_memcgs + 1, sizeof(*c->memcgs));
        if (k < 0)
                return k;
        k = add_name(c, r, parent == CENSUS_NONE, &name, &name_len, &name_known);
        if (k < 0)
                return k;

        valid = r->head.valid;
        if (!name_known)
                valid &= ~(uint32_t)SW_MEMCG_NAME;
        m = &c->memcgs[c->n_memcgs];
        *m = (CensusMemcg){
                .serial = r->serial,
                .parent_serial = r->parent_serial,
                .cgroup_id = valid & SW_MEMCG_CGROUP ? r->cgroup_id : 0,
                .refs = valid & SW_MEMCG_REFS ? r->refs : 0,
                .memory_pages = valid & SW_MEMCG_MEMORY ? r->memory_pages : 0,
                .swap_pages = valid & (SW_MEMCG_SWAP | SW_MEMCG_MEMSW) ? r->swap_pages : 0,
                .memcg_id = valid & SW_MEMCG_ID ? r->memcg_id : 0,
                .id_refs = valid & SW_MEMCG_ID ? r->id_refs : 0,
                .kmemcg_id = valid & SW_MEMCG_KMEM_ID ? r->kmemcg_id : 0,
                .valid = valid,
                .state = census_state_from_css(r->state),
                .offline = (r->state & SW_CSS_DYING) && !(r->state & SW_CSS_ONLINE),
                .parent = parent,
                .name = name,
                .name_len = name_len,
                .first_node = (uint32_t)c->n_nodes,
        };
        /* The tree of memory csses has the shape of the tree of cgroups, as far as it reaches down. */
        if (valid & SW_MEMCG_CGROUP)
                m->level = r->level;
        else if (parent != CENSUS_NONE)
                m->level = c->memcgs[parent].level + 1;

        c->tip = (uint32_t)c->n_memcgs++;
        c->nodes_missing = r->nodes;
        return 0;
}

static int add_node(Census *c, const struct sw_node *r) {
        uint32_t valid;
        CensusMemcg *m;
        int k;

        if (r->head.size != sizeof(*r) || r->node >= SW_NODES_MAX)
                return -EBADMSG;
        if (c->nodes_missing == 0 || c->memcgs[c->tip].serial != r->serial)
                return -EBADMSG;
        m = &c->memcgs[c->tip];
        if (m->n_nodes > 0 && c->nodes[c->n_nodes - 1].node >= r->node)
                return -EBADMSG;

        valid = r->head.valid;
        if (c->options.flat)
                valid &= ~(uint32_t)SW_NODE_UNITS;
        if ((valid & SW_NODE_UNITS) && r->units > r->slots)
                return -EBADMSG;

        k = grow_array(&c->nodes, &c->nodes_allocated, c->n_nodes + 1, sizeof(*c->nodes));
        if (k < 0)
                return k;
        c->nodes[c->n_nodes++] = (CensusNode){
                .node = r->node,
                .valid = valid,
                .ids = valid & SW_NODE_INFO ? r->ids : 0,
                .slots = valid & SW_NODE_UNITS ? r->slots : 0,
                .units = valid & SW_NODE_UNITS ? r->units : 0,
                .bits = valid & SW_NODE_BITS ? r->bits : 0,
                .units_used = valid & SW_NODE_BITS ? r->units_used : 0,
                .array_bytes = valid & SW_NODE_INFO ? r->array_bytes : 0,
        };
        m->n_nodes++;
        c->nodes_missing--;
        return 0;
}

int census_add(Census *c, const struct sw_head *record) {
        if (c->sealed)
                return -EINVAL;

        switch (record->type) {
        case SW_TYPE_MEMCG:
                return add_memcg(c, (const struct sw_memcg *)record);
        case SW_TYPE_NODE:
                return add_node(c, (const struct sw_node *)record);
        default:
                return 0;
        }
}

typedef struct SerialIndex {
        uint64_t serial;
        uint32_t index;
} SerialIndex;

static int compare_serials(const void *a, const void *b) {
        const SerialIndex *x = a, *y = b;

        return (x->serial > y->serial) - (x->serial < y->serial);
}

/* Fills by_serial. Sorts pairs rather than indices: the comparisons then stay in a tenth of the memory. */
static int sort_serials(Census *c) {
        _cleanup_(freep) SerialIndex *pairs = NULL;
        _cleanup_(freep) uint32_t *by_serial = NULL;
        bool ascending = true;

        pairs = malloc(c->n_memcgs * sizeof(*pairs));
        by_serial = malloc(c->n_memcgs * sizeof(*by_serial));
        if (!pairs || !by_serial)
                return -ENOMEM;

        for (size_t i = 0; i < c->n_memcgs; i++) {
                pairs[i] = (SerialIndex){ c->memcgs[i].serial, (uint32_t)i };
                if (i > 0 && pairs[i - 1].serial >= pairs[i].serial)
                        ascending = false;
        }
        if (!ascending)
                qsort(pairs, c->n_memcgs, sizeof(*pairs), compare_serials);
        for (size_t i = 0; i < c->n_memcgs; i++) {
                if (i > 0 && pairs[i - 1].serial == pairs[i].serial)
                        return -EBADMSG;
                by_serial[i] = pairs[i].index;
        }
        c->by_serial = TAKE_PTR(by_serial);
        return 0;
}

/* The highest map_nr_max has to be known before the memcgs that fall short of it are counted. */
static void sum_nodes(Census *c) {
        const CensusOptions *o = &c->options;

        c->unit_alloc_bytes = o->flat ? 0 : o->alloc(o->unit_struct_bytes, false, o->alloc_userdata);

        for (size_t i = 0; i < c->n_memcgs; i++) {
                CensusMemcg *m = &c->memcgs[i];

                for (uint32_t k = 0; k < m->n_nodes; k++) {
                        CensusNode *n = &c->nodes[m->first_node + k];

                        if (n->valid & SW_NODE_INFO)
                                n->array_bytes = o->alloc(n->array_bytes, n->valid & SW_NODE_VMALLOC, o->alloc_userdata);
                        m->slots += n->slots;
                        m->units += n->units;
                        m->bits += n->bits;
                        m->array_bytes = add_sat_u64(m->array_bytes, n->array_bytes);
                        c->totals.units_used += n->units_used;
                        if (n->ids > c->totals.ids)
                                c->totals.ids = n->ids;
                }
                m->unit_bytes = mul_sat_u64(m->units, c->unit_alloc_bytes);
        }
}

static bool is_uneven(const Census *c, const CensusMemcg *m) {
        for (uint32_t k = 0; k < m->n_nodes; k++)
                if (c->nodes[m->first_node + k].ids < c->totals.ids)
                        return true;
        return false;
}

static void sum_totals(Census *c) {
        bool any = false, empty_slot = false;
        CensusTotals *t = &c->totals;

        for (size_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];
                uint64_t overhead = census_overhead(m);

                t->memcgs++;
                t->slots += m->slots;
                t->units += m->units;
                t->bits += m->bits;
                t->unit_bytes = add_sat_u64(t->unit_bytes, m->unit_bytes);
                t->array_bytes = add_sat_u64(t->array_bytes, m->array_bytes);
                t->digest += census_digest_one(m->serial, m->state);
                if (m->serial > t->highest_serial)
                        t->highest_serial = m->serial;

                switch (m->state) {
                case CENSUS_LIVE:
                        t->live++;
                        t->slots_live += m->slots;
                        t->units_live += m->units;
                        t->overhead_live_bytes = add_sat_u64(t->overhead_live_bytes, overhead);
                        break;
                case CENSUS_DYING:
                        t->dying++;
                        t->slots_dying += m->slots;
                        t->units_dying += m->units;
                        t->overhead_dying_bytes = add_sat_u64(t->overhead_dying_bytes, overhead);
                        break;
                case CENSUS_CREATING:
                        /* Half made: neither its missing arrays nor its empty slots say anything about this kernel. */
                        t->creating++;
                        continue;
                }
                if (is_uneven(c, m))
                        t->uneven++;
                /* The root has all of its units in every kernel. */
                if (i > 0) {
                        any |= c->options.flat ? m->array_bytes > 0 : m->slots > 0;
                        empty_slot |= m->slots > m->units;
                }
        }

        c->allocation = !any ? CENSUS_ALLOCATION_UNKNOWN : empty_slot ? CENSUS_ALLOCATION_ON_DEMAND : CENSUS_ALLOCATION_EAGER;
}

static void sum_subtrees(Census *c) {
        for (size_t i = 0; i < c->n_memcgs; i++) {
                CensusMemcg *m = &c->memcgs[i];

                m->subtree_units = m->units;
                m->subtree_unit_bytes = m->unit_bytes;
                m->subtree_array_bytes = m->array_bytes;
                m->subtree_memcgs = 1;
                m->subtree_dying = m->state == CENSUS_DYING;
                m->nearest_live = i == 0 || m->state == CENSUS_LIVE ? (uint32_t)i : c->memcgs[m->parent].nearest_live;
        }

        for (size_t i = c->n_memcgs - 1; i > 0; i--) {
                const CensusMemcg *m = &c->memcgs[i];
                CensusMemcg *p = &c->memcgs[m->parent];

                p->subtree_units += m->subtree_units;
                p->subtree_unit_bytes = add_sat_u64(p->subtree_unit_bytes, m->subtree_unit_bytes);
                p->subtree_array_bytes = add_sat_u64(p->subtree_array_bytes, m->subtree_array_bytes);
                p->subtree_memcgs += m->subtree_memcgs;
                p->subtree_dying += m->subtree_dying;
                p->n_children++;
        }
}

int census_seal(Census *c) {
        int k;

        if (c->sealed)
                return -EINVAL;
        if (c->nodes_missing > 0)
                drop_newest(c);
        if (c->n_memcgs == 0)
                return -EBADMSG;

        k = sort_serials(c);
        if (k < 0)
                return k;
        /* Counts of slots, units and bits cannot wrap: fewer than 2^32 nodes of fewer than 2^32 each. Bytes can, and stop at the top. */
        sum_nodes(c);
        sum_totals(c);
        sum_subtrees(c);
        c->sealed = true;
        return 0;
}

uint32_t census_find(const Census *c, uint64_t serial) {
        size_t low = 0, high = c->by_serial ? c->n_memcgs : 0;

        while (low < high) {
                size_t mid = low + (high - low) / 2;
                uint64_t found = c->memcgs[c->by_serial[mid]].serial;

                if (found == serial)
                        return c->by_serial[mid];
                if (found < serial)
                        low = mid + 1;
                else
                        high = mid;
        }
        return CENSUS_NONE;
}

const char *census_name(const Census *c, uint32_t i) {
        return c->names + c->memcgs[i].name;
}

char *census_path(const Census *c, uint32_t i, size_t *ret_len) {
        size_t len = 0, at;
        char *path;

        for (uint32_t k = i; c->memcgs[k].parent != CENSUS_NONE; k = c->memcgs[k].parent)
                len += (size_t)c->memcgs[k].name_len + 1;
        if (len == 0) {
                path = strdup("/");
                if (path && ret_len)
                        *ret_len = 1;
                return path;
        }

        path = malloc(len + 1);
        if (!path)
                return NULL;
        at = len;
        path[at] = '\0';
        for (uint32_t k = i; c->memcgs[k].parent != CENSUS_NONE; k = c->memcgs[k].parent) {
                const CensusMemcg *m = &c->memcgs[k];

                at -= m->name_len;
                memcpy(path + at, census_name(c, k), m->name_len);
                path[--at] = '/';
        }
        if (ret_len)
                *ret_len = len;
        return path;
}

/* Whether a is the better answer to "which memcg has this path" than b. */
static bool is_better(const CensusMemcg *a, const CensusMemcg *b) {
        static const int rank[] = { [CENSUS_LIVE] = 2, [CENSUS_DYING] = 1, [CENSUS_CREATING] = 0 };

        if (a->state != b->state)
                return rank[a->state] > rank[b->state];
        return a->serial > b->serial;
}

/*
 * Goes through the children of every memcg that matches the path so far, and past all subtrees that do not: a name that was made and
 * removed again and again leaves many dying memcgs behind, and any of them can have the child that is asked for.
 */
uint32_t census_find_path(const Census *c, const char *path, size_t len) {
        uint32_t best = CENSUS_NONE, matched = 0;
        size_t start = 0, end; /* the part of the path to be found below "matched" */

        if (!c->sealed || len == 0)
                return CENSUS_NONE;
        while (len > 0 && path[len - 1] == '/')
                len--;
        while (start < len && path[start] == '/')
                start++;
        if (start == len)
                return 0;

        for (uint32_t i = 1; i < c->n_memcgs;) {
                const CensusMemcg *m = &c->memcgs[i];

                /* Out of the subtree of what matched: back to the parent of this one, by as many parts of the path. */
                while (m->parent != matched) {
                        matched = c->memcgs[matched].parent;
                        while (path[start - 1] == '/')
                                start--;
                        while (start > 0 && path[start - 1] != '/')
                                start--;
                }
                /* No name is longer than SW_NAME_MAX: looking further would make a senseless path dear. */
                for (end = start; end < len && end - start < SW_NAME_MAX && path[end] != '/'; end++)
                        ;

                if (m->name_len != end - start || memcmp(census_name(c, i), path + start, end - start) != 0) {
                        i += m->subtree_memcgs;
                        continue;
                }
                if (end == len) {
                        if (best == CENSUS_NONE || is_better(m, &c->memcgs[best]))
                                best = i;
                        i += m->subtree_memcgs;
                        continue;
                }
                matched = i++;
                for (start = end; path[start] == '/'; start++)
                        ;
        }
        return best;
}

/* b - a, as far as it fits. */
static int64_t subtract_sat(uint64_t b, uint64_t a) {
        if (b >= a)
                return b - a > INT64_MAX ? INT64_MAX : (int64_t)(b - a);
        return a - b > INT64_MAX ? INT64_MIN : -(int64_t)(a - b);
}

void census_compare(const Census *a, const Census *b, CensusDelta *ret) {
        CensusDelta d = {
                .units = subtract_sat(b->totals.units, a->totals.units),
                .overhead_bytes = subtract_sat(add_sat_u64(b->totals.unit_bytes, b->totals.array_bytes),
                                               add_sat_u64(a->totals.unit_bytes, a->totals.array_bytes)),
                .ids = subtract_sat(b->totals.ids, a->totals.ids),
        };
        size_t i = 0, k = 0;

        while (i < a->n_memcgs && k < b->n_memcgs) {
                const CensusMemcg *x = &a->memcgs[a->by_serial[i]], *y = &b->memcgs[b->by_serial[k]];

                if (x->serial == y->serial && x->state == CENSUS_LIVE && y->state == CENSUS_DYING)
                        d.died++;
                if (x->serial < y->serial)
                        d.gone++;
                if (x->serial > y->serial)
                        d.added++;
                if (x->serial <= y->serial)
                        i++;
                if (y->serial <= x->serial)
                        k++;
        }
        d.gone += a->n_memcgs - i;
        d.added += b->n_memcgs - k;
        *ret = d;
}
