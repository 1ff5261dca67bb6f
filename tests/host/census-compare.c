/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Our census against kcore-census, memcg by memcg: two readers that share no code. For a machine that holds still; the two look at
 * different moments, so what differs is looked at again a few times. While dying memcgs still go, it does not hold still yet: tries
 * whose number of memcgs is another one than before do not count.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/reading.h"
#include "daemon/util.h"

#define TRIES 10
#define TRIES_MOVING 200

DEFINE_CLEANUP(Reading, reading_free)

static unsigned n_differences;

_printf_(1, 2) static void differ(const char *format, ...) {
        va_list ap;

        if (n_differences++ >= 20)
                return;
        va_start(ap, format);
        printf("# ");
        vprintf(format, ap);
        putchar('\n');
        va_end(ap);
}

static uint64_t number(const json_t *o, const char *key) {
        return (uint64_t)json_integer_value(json_object_get(o, key));
}

static bool is_null(const json_t *o, const char *key) {
        const json_t *v = json_object_get(o, key);

        return !v || json_is_null(v);
}

static void compare_node(const CensusNode *n, const json_t *o, bool flat, uint64_t serial) {
        if (number(o, "node") != n->node) {
                differ("serial %" PRIu64 ": node %u, not %" PRIu64, serial, n->node, number(o, "node"));
                return;
        }
        if (is_null(o, flat ? "ids" : "map_nr_max") == !!(n->valid & SW_NODE_INFO))
                differ("serial %" PRIu64 " node %u: one has shrinker info, the other has not", serial, n->node);
        else if (!(n->valid & SW_NODE_INFO))
                return;
        else if (number(o, flat ? "ids" : "map_nr_max") != n->ids)
                differ("serial %" PRIu64 " node %u: %u ids, not %" PRIu64, serial, n->node, n->ids, number(o, flat ? "ids" : "map_nr_max"));
        else if (!flat && (number(o, "slots") != n->slots || number(o, "units") != n->units))
                differ("serial %" PRIu64 " node %u: %u of %u units, not %" PRIu64 " of %" PRIu64, serial, n->node, n->units, n->slots, number(o, "units"),
                       number(o, "slots"));
}

static void compare_memcg(const Census *c, uint32_t i, const json_t *o) {
        const CensusMemcg *m = c->memcgs + i;
        bool online = json_is_true(json_object_get(o, "online")), dying = json_is_true(json_object_get(o, "dying"));
        CensusState state = dying ? CENSUS_DYING : online ? CENSUS_LIVE : CENSUS_CREATING;
        uint64_t serial = number(o, "serial");
        const json_t *nodes = json_object_get(o, "nodes");

        if (serial != m->serial) {
                differ("memcg %u has serial %" PRIu64 ", not %" PRIu64, i, m->serial, serial);
                return;
        }
        if (number(o, "parent_serial") != m->parent_serial)
                differ("serial %" PRIu64 ": parent %" PRIu64 ", not %" PRIu64, serial, m->parent_serial, number(o, "parent_serial"));
        if (number(o, "id") != m->cgroup_id)
                differ("serial %" PRIu64 ": id %" PRIu64 ", not %" PRIu64, serial, m->cgroup_id, number(o, "id"));
        if (number(o, "level") != m->level)
                differ("serial %" PRIu64 ": level %u, not %" PRIu64, serial, m->level, number(o, "level"));
        if (state != m->state || (dying && !online) != m->offline)
                differ("serial %" PRIu64 ": %s%s, not %s%s", serial, census_state_to_string(m->state), m->offline ? ", offline" : "",
                       census_state_to_string(state), dying && !online ? ", offline" : "");
        if (is_null(o, "refs") == !!(m->valid & SW_MEMCG_REFS))
                differ("serial %" PRIu64 ": one knows the references, the other does not", serial);
        else if (m->valid & SW_MEMCG_REFS && number(o, "refs") != m->refs)
                differ("serial %" PRIu64 ": %" PRIu64 " references, not %" PRIu64, serial, m->refs, number(o, "refs"));
        if (!is_null(o, "memcg_id_refs") && number(o, "memcg_id_refs") != m->id_refs)
                differ("serial %" PRIu64 ": %u references to the swap id, not %" PRIu64, serial, m->id_refs, number(o, "memcg_id_refs"));
        if (i > 0 && m->name_len < 200) {
                const char *name = json_string_value(json_object_get(o, "name"));

                if (!name || strcmp(name, census_name(c, i)) != 0)
                        differ("serial %" PRIu64 ": name %s, not %s", serial, census_name(c, i), name ? name : "(none)");
        }
        if (json_array_size(nodes) != m->n_nodes)
                differ("serial %" PRIu64 ": %u nodes, not %zu", serial, m->n_nodes, json_array_size(nodes));
        else
                for (uint32_t k = 0; k < m->n_nodes; k++)
                        compare_node(c->nodes + m->first_node + k, json_array_get(nodes, k), c->options.flat, serial);
}

/* 0: equal; the number of memcgs that we saw goes to *ret_n if there was a census. */
static int compare(Probe *probe, size_t *ret_n) {
        _cleanup_(reading_freep) Reading *r = NULL;
        _cleanup_(freep) char *line = NULL;
        FILE *f = popen("kcore-census", "r");
        ProbeError e = {};
        size_t size = 0;
        uint32_t i = 0;

        n_differences = 0;
        if (!f || reading_new(&r, probe, 0, &e) < 0) {
                differ("%s", f ? e.text : "kcore-census cannot be run");
                if (f)
                        (void)pclose(f);
                return -1;
        }
        *ret_n = r->census->n_memcgs;
        while (getline(&line, &size, f) >= 0) {
                json_t *o = json_loads(line, 0, NULL);
                json_t *totals = json_object_get(o, "totals");

                if (!o)
                        differ("a line that is not JSON: %.80s", line);
                else if (totals) {
                        const CensusTotals *t = &r->census->totals;

                        if (number(totals, "memcgs") != t->memcgs || number(totals, "live") != t->live || number(totals, "dying") != t->dying)
                                differ("memcgs %" PRIu64 " live %" PRIu64 " dying %" PRIu64 ", not %" PRIu64 " %" PRIu64 " %" PRIu64, t->memcgs, t->live,
                                       t->dying, number(totals, "memcgs"), number(totals, "live"), number(totals, "dying"));
                        if (!r->census->options.flat && number(totals, "units") != t->units)
                                differ("%" PRIu64 " units, not %" PRIu64, t->units, number(totals, "units"));
                } else if (i < r->census->n_memcgs)
                        compare_memcg(r->census, i++, o);
                else
                        differ("serial %" PRIu64 " is not in our census", number(o, "serial"));
                json_decref(o);
        }
        if (pclose(f) != 0)
                differ("kcore-census failed");
        if (i != r->census->n_memcgs)
                differ("%zu memcgs, not %u", r->census->n_memcgs, i);
        if (n_differences == 0)
                printf("# %zu memcgs (%" PRIu64 " dying), %" PRIu64 " units, shrinker_nr_max %u: equal\n", r->census->n_memcgs, r->census->totals.dying,
                       r->census->totals.units, r->census->totals.ids);
        return n_differences ? -1 : 0;
}

int main(void) {
        ProbeError e = {};
        Probe *probe;
        size_t n = 0;
        int r = -1;

        if (probe_new(&probe, &e) < 0) {
                printf("# %s\n", e.text);
                return 1;
        }
        for (unsigned i = 0, still = 0; still < TRIES && i < TRIES_MOVING && r < 0; i++) {
                size_t before = n;

                if (i > 0)
                        (void)usleep(300000);
                r = compare(probe, &n);
                still = n == before ? still + 1 : 1;
        }
        probe_free(probe);
        return r < 0;
}
