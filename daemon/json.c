/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "json.h"

#include <errno.h>
#include <string.h>

#include "escape.h"
#include "identity.h"
#include "util.h"

/* ------------------------------------------------------------------------------------------------------------- setters */

int json_put(json_t *object, const char *key, json_t *value) {
        /* NULL is refused by jansson, so a failed constructor ends up here as a failure. Keys are our own literals. */
        return json_object_set_new_nocheck(object, key, value);
}

int json_put_i64(json_t *object, const char *key, int64_t value) {
        return json_put(object, key, json_integer(value));
}

int json_put_u64(json_t *object, const char *key, uint64_t value) {
        return json_put_i64(object, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

int json_put_null(json_t *object, const char *key) {
        return json_put(object, key, json_null());
}

int json_put_known(json_t *object, const char *key, bool known, uint64_t value) {
        return known ? json_put_u64(object, key, value) : json_put_null(object, key);
}

int json_put_bool(json_t *object, const char *key, bool value) {
        return json_put(object, key, json_boolean(value));
}

int json_put_real(json_t *object, const char *key, double value) {
        return json_put(object, key, json_real(value));
}

int json_put_text(json_t *object, const char *key, const char *text) {
        return text ? json_put(object, key, json_string(text)) : json_put_null(object, key);
}

int json_put_bytes(json_t *object, const char *key, const char *bytes, size_t size) {
        _cleanup_(freep) char *text = NULL;

        if (!bytes)
                return json_put_null(object, key);

        text = escape_text(bytes, size, 0, NULL);
        if (!text)
                return -1;
        return json_put_text(object, key, text);
}

static json_t *finish(json_t *object, int failed) {
        if (!failed)
                return object;
        json_decref(object);
        return NULL;
}

/* ---------------------------------------------------------------------------------------------------------------- host */

static json_t *ids_by_fstype(const Reading *reading) {
        json_t *o;
        int r = 0;

        if (!reading || !reading->ids_in_use_known)
                return json_null();

        o = json_object();
        for (size_t i = 0; i < reading->n_fstypes; i++) {
                const ReadingFstype *t = reading->fstypes + i;
                _cleanup_(freep) char *name = escape_text(t->name, strlen(t->name), 0, NULL);

                r |= name ? json_put_u64(o, name, t->ids) : -1;
        }
        return finish(o, r);
}

json_t *json_host(const ProbeFacts *facts, const Reading *reading) {
        bool flat = facts->layout == PROBE_LAYOUT_FLAT;
        const Census *c = reading ? reading->census : NULL;
        bool in_use = reading && reading->ids_in_use_known;
        json_t *o = json_object();
        int r = 0;

        r |= json_put_bytes(o, "kernel", facts->release, strlen(facts->release));
        r |= json_put_text(o, "boot_id", facts->boot_id[0] ? facts->boot_id : NULL);
        r |= json_put_known(o, "time_usec", reading, reading ? reading->time_usec : 0);
        r |= json_put_text(o, "hierarchy", facts->v2 ? "v2" : "v1");
        r |= json_put_text(o, "layout", probe_layout_to_string(facts->layout));
        r |= json_put_text(o, "allocation", c ? census_allocation_to_string(c->allocation) : "unknown");
        r |= json_put_u64(o, "possible_nodes", facts->n_possible_nodes);
        r |= json_put_known(o, "shrinker_nr_max", c, c ? c->totals.ids : 0);
        r |= json_put_known(o, "shrinker_ids_in_use", in_use, in_use ? reading->ids_in_use : 0);
        /* The two are read one after the other: a mount in between can make more ids than there was room for. */
        r |= json_put_known(o, "stranded_ids", in_use && c,
                            in_use && c && c->totals.ids > reading->ids_in_use ? c->totals.ids - reading->ids_in_use : 0);
        r |= json_put(o, "ids_by_fstype", ids_by_fstype(reading));
        r |= json_put_known(o, "ids_per_unit", !flat, facts->ids_per_unit);
        r |= json_put_known(o, "unit_struct_bytes", !flat, facts->unit_struct_bytes);
        r |= json_put_known(o, "unit_alloc_bytes", !flat && c, c ? c->unit_alloc_bytes : 0);
        r |= json_put_u64(o, "page_bytes", facts->page_bytes);
        r |= json_put(o, "complete", reading ? json_boolean(reading->complete) : json_null());
        r |= json_put(o, "settled", reading ? json_boolean(reading->settled) : json_null());
        return finish(o, r);
}

/* -------------------------------------------------------------------------------------------------------------- totals */

json_t *json_totals(const ProbeFacts *facts, const Reading *reading) {
        bool units = facts->layout != PROBE_LAYOUT_FLAT;
        const CensusTotals *t = &reading->census->totals;
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "memcgs", t->memcgs);
        r |= json_put_u64(o, "live", t->live);
        r |= json_put_u64(o, "dying", t->dying);
        r |= json_put_u64(o, "creating", t->creating);
        r |= json_put_known(o, "units", units, t->units);
        r |= json_put_known(o, "units_live", units, t->units_live);
        r |= json_put_known(o, "units_dying", units, t->units_dying);
        r |= json_put_known(o, "slots", units, t->slots);
        r |= json_put_known(o, "slots_live", units, t->slots_live);
        r |= json_put_known(o, "slots_dying", units, t->slots_dying);
        r |= json_put_u64(o, "unit_bytes", t->unit_bytes);
        r |= json_put_u64(o, "array_bytes", t->array_bytes);
        r |= json_put_u64(o, "overhead_live_bytes", t->overhead_live_bytes);
        r |= json_put_u64(o, "overhead_dying_bytes", t->overhead_dying_bytes);
        r |= json_put_u64(o, "uneven", t->uneven);
        r |= json_put_u64(o, "dropped", t->dropped);
        /* What came and went is meaningful only when something did; its presence says so. */
        if (!reading->settled) {
                r |= json_put_u64(o, "added", reading->added);
                r |= json_put_u64(o, "gone", reading->gone);
        }
        r |= json_put_u64(o, "duration_usec", reading->duration_usec);
        r |= json_put_u64(o, "longest_slice_usec", reading->walk.longest_slice_usec);
        r |= json_put_u64(o, "slices", reading->walk.slices);
        r |= json_put_u64(o, "restarts", reading->walk.restarts);
        return finish(o, r);
}

/* -------------------------------------------------------------------------------------------------------------- memcgs */

static json_t *pin_object(const Pin *pin) {
        json_t *o = json_object();
        int r = 0;

        r |= json_put_text(o, "cause", pin_cause_to_string(pin->cause));
        r |= json_put_u64(o, "refs", pin->refs);
        r |= json_put_bool(o, "exact", pin->exact);

        switch (pin->cause) {
        case PIN_WRITEBACK:
                r |= json_put_known(o, "bytes", pin->has_bytes, pin->bytes);
                r |= json_put_bool(o, "bytes_at_least", pin->at_least);
                r |= json_put_u64(o, "inodes", pin->inodes);
                r |= json_put_bytes(o, "device", pin->device[0] ? pin->device : NULL, strlen(pin->device));
                break;
        case PIN_SWAP:
                r |= json_put_u64(o, "entries", pin->entries);
                r |= json_put_known(o, "bytes", pin->has_bytes, pin->bytes);
                r |= json_put_bool(o, "bytes_at_least", pin->at_least);
                break;
        default:
                break;
        }
        return finish(o, r);
}

static json_t *pins_array(const Reading *reading, uint32_t memcg) {
        const Pin *pins = NULL;
        size_t n = 0;
        json_t *a;
        int r = 0;

        if (!reading->pins || !pins_get(reading->pins, memcg, &pins, &n))
                return json_null();

        a = json_array();
        for (size_t i = 0; i < n; i++)
                r |= json_array_append_new(a, pin_object(pins + i));
        return finish(a, r);
}

static json_t *nodes_array(const Census *c, const CensusMemcg *m) {
        json_t *a = json_array();
        int r = 0;

        for (uint32_t i = 0; i < m->n_nodes; i++) {
                const CensusNode *n = c->nodes + m->first_node + i;
                bool units = (n->valid & SW_NODE_UNITS) && !c->options.flat;
                json_t *o = json_object();

                r |= json_put_u64(o, "node", n->node);
                r |= json_put_known(o, "units", units, n->units);
                r |= json_put_known(o, "slots", units, n->slots);
                r |= json_put_known(o, "array_bytes", n->valid & SW_NODE_INFO, n->array_bytes);
                r |= json_put_known(o, "ids", n->valid & SW_NODE_INFO, n->ids);
                if (n->valid & SW_NODE_BITS) {
                        r |= json_put_u64(o, "bits", n->bits);
                        r |= json_put_u64(o, "units_used", n->units_used);
                }
                r |= json_array_append_new(a, o);
        }
        return finish(a, r);
}

static int put_part(json_t *object, const char *key, IdentityPart part) {
        return json_put_bytes(object, key, part.s, part.len);
}

static json_t *identity_object(const char *path, size_t path_len) {
        Identity id;
        json_t *o;
        int r = 0;

        identity_parse(path, path_len, &id);
        if (!id.unit.s && !id.slice.s && !id.machine.s && !id.container.s && !id.engine && !id.pod_uid[0])
                return json_null();

        o = json_object();
        r |= put_part(o, "unit", id.unit);
        r |= put_part(o, "slice", id.slice);
        r |= put_part(o, "machine", id.machine);
        r |= put_part(o, "container", id.container);
        r |= json_put_text(o, "engine", id.engine);
        r |= json_put_text(o, "pod_uid", id.pod_uid[0] ? id.pod_uid : NULL);
        return finish(o, r);
}

static int put_path(json_t *object, const char *path, size_t path_len) {
        _cleanup_(freep) char *text = escape_text(path, path_len, 0, NULL), *base64 = NULL;
        int r;

        if (!text)
                return -1;
        r = json_put_text(object, "path", text);
        if (strlen(text) == path_len && memcmp(text, path, path_len) == 0)
                return r;

        base64 = base64_encode(path, path_len, NULL);
        if (!base64)
                return -1;
        return r | json_put_text(object, "path_bytes", base64);
}

int json_put_path(json_t *object, const Census *census, uint32_t memcg) {
        _cleanup_(freep) char *path = NULL;
        size_t path_len = 0;

        path = census_path(census, memcg, &path_len);
        return path ? put_path(object, path, path_len) : -1;
}

json_t *json_memcg(const ProbeFacts *facts, const Reading *reading, uint32_t memcg) {
        const Census *c = reading->census;
        const CensusMemcg *m = c->memcgs + memcg;
        bool units = !c->options.flat, cgroup = m->valid & SW_MEMCG_CGROUP, memory = m->valid & SW_MEMCG_MEMORY, explained_known;
        _cleanup_(freep) char *path = NULL;
        uint64_t explained = 0, page = facts->page_bytes, swap = 0;
        bool swap_known;
        size_t path_len = 0;
        json_t *o;
        int r = 0;

        path = census_path(c, memcg, &path_len);
        if (!path)
                return NULL;

        explained_known = reading->pins && pins_explained(reading->pins, memcg, &explained);
        swap_known = json_swap_pages(m, &swap);

        o = json_object();
        r |= json_put_u64(o, "serial", m->serial);
        r |= json_put_u64(o, "parent_serial", m->parent_serial);
        r |= json_put_known(o, "id", cgroup, m->cgroup_id);
        r |= put_path(o, path, path_len);
        r |= json_put_text(o, "state", census_state_to_string(m->state));
        r |= json_put_bool(o, "offline", m->offline);
        r |= json_put_known(o, "level", cgroup, m->level);
        r |= json_put_known(o, "units", units, m->units);
        r |= json_put_known(o, "slots", units, m->slots);
        r |= json_put(o, "nodes", nodes_array(c, m));
        r |= json_put_u64(o, "unit_bytes", m->unit_bytes);
        r |= json_put_u64(o, "array_bytes", m->array_bytes);
        r |= json_put_known(o, "subtree_units", units, m->subtree_units);
        r |= json_put_u64(o, "subtree_bytes", census_subtree_overhead(m));
        r |= json_put_u64(o, "subtree_memcgs", m->subtree_memcgs);
        r |= json_put_u64(o, "subtree_dying", m->subtree_dying);
        r |= json_put_known(o, "refs", m->valid & SW_MEMCG_REFS, m->refs);
        r |= json_put_known(o, "refs_explained", explained_known, explained);
        r |= json_put(o, "pins", pins_array(reading, memcg));
        r |= json_put_known(o, "memory_bytes", memory, mul_sat_u64(m->memory_pages, page));
        r |= json_put_known(o, "swap_bytes", swap_known, mul_sat_u64(swap, page));
        r |= json_put(o, "identity", identity_object(path, path_len));
        return finish(o, r);
}

bool json_swap_pages(const CensusMemcg *m, uint64_t *ret) {
        if (m->valid & SW_MEMCG_SWAP) {
                *ret = m->swap_pages;
                return true;
        }
        /* v1 counts memory and swap together; the two counters are read one after the other and may cross. */
        if ((m->valid & SW_MEMCG_MEMSW) && (m->valid & SW_MEMCG_MEMORY) && m->swap_pages >= m->memory_pages) {
                *ret = m->swap_pages - m->memory_pages;
                return true;
        }
        return false;
}

/* ------------------------------------------------------------------------------------------------------------ document */

static int stream_error(FILE *f) {
        return ferror(f) ? -EIO : 0;
}

static int dump(FILE *f, json_t *value) {
        int r;

        if (!value)
                return -ENOMEM;
        r = json_dumpf(value, f, JSON_COMPACT | JSON_ENCODE_ANY);
        json_decref(value);
        if (stream_error(f))
                return -EIO;
        return r < 0 ? -ENOMEM : 0;
}

int json_write_value(FILE *f, json_t *value) {
        int r = dump(f, value);

        if (r < 0)
                return r;
        (void)fputc('\n', f);
        return stream_error(f);
}

int json_write_list(FILE *f, json_t *object, const char *key, size_t n, json_t *(*item)(size_t i, void *userdata), void *userdata) {
        int r;

        if (!object)
                return -ENOMEM;
        (void)fputc('{', f);
        r = json_dumpf(object, f, JSON_COMPACT | JSON_EMBED);
        json_decref(object);
        if (r < 0)
                return stream_error(f) < 0 ? -EIO : -ENOMEM;
        (void)fprintf(f, ",\"%s\":[", key);
        for (size_t i = 0; i < n; i++) {
                (void)fputs(i > 0 ? ",\n" : "\n", f);
                r = dump(f, item(i, userdata));
                if (r < 0)
                        return r;
        }
        (void)fputs("]}\n", f);
        return stream_error(f);
}

static json_t *selection_object(const JsonSelection *s) {
        json_t *o = json_object();
        int r = 0;

        r |= json_put_text(o, "state", s->state);
        r |= json_put_text(o, "sort", s->sort);
        r |= json_put_u64(o, "matched", s->matched);
        r |= json_put_u64(o, "listed", s->n_memcgs);
        return finish(o, r);
}

static bool wanted(const JsonSelection *s, const char *key) {
        for (size_t i = 0; i < s->n_members; i++)
                if (strcmp(s->members[i], key) == 0)
                        return true;
        return false;
}

static void keep_members(json_t *object, const JsonSelection *s) {
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(object, next, key, value) {
                if (!wanted(s, key))
                        (void)json_object_del(object, key);
        }
}

int json_write_reading(FILE *f, const ProbeFacts *facts, const Reading *reading, const JsonSelection *selection) {
        bool some = selection && selection->memcgs;
        size_t n = some ? selection->n_memcgs : reading->census->n_memcgs;
        int r;

        (void)fprintf(f, "{\"schema\":%d,\"host\":", JSON_SCHEMA);
        r = dump(f, json_host(facts, reading));
        if (r < 0)
                return r;
        (void)fputs(",\"totals\":", f);
        r = dump(f, json_totals(facts, reading));
        if (r < 0)
                return r;
        if (some) {
                (void)fputs(",\"selection\":", f);
                r = dump(f, selection_object(selection));
                if (r < 0)
                        return r;
        }

        (void)fputs(",\"memcgs\":[", f);
        for (size_t i = 0; i < n; i++) {
                json_t *o = json_memcg(facts, reading, some ? selection->memcgs[i] : (uint32_t)i);

                if (o && some && selection->members)
                        keep_members(o, selection);
                (void)fputs(i > 0 ? ",\n" : "\n", f);
                r = dump(f, o);
                if (r < 0)
                        return r;
        }
        (void)fputs("]}\n", f);
        return stream_error(f);
}
