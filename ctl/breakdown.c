/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "breakdown.h"

#include <inttypes.h>

#include "daemon/json.h"
#include "table.h"

/* Live ones are told apart by what they have on demand, where that is known. */
typedef enum Class {
        CLASS_ROOT,
        CLASS_LISTS,
        CLASS_EMPTY,
        CLASS_LIVE,
        CLASS_DYING,
        CLASS_CREATING,
        _CLASS_MAX,
} Class;

static const char *const class_names[_CLASS_MAX] = {
        [CLASS_ROOT] = "root",   [CLASS_LISTS] = "live, with lists", [CLASS_EMPTY] = "live, without lists", [CLASS_LIVE] = "live",
        [CLASS_DYING] = "dying", [CLASS_CREATING] = "creating",
};

typedef struct Sum {
        const char *name;
        uint64_t memcgs, units, units_63, on_demand;
        bool units_known, on_demand_known;
} Sum;

static Class class_of(const CensusMemcg *m, const EstimateMemcg *e) {
        if (m->parent == CENSUS_NONE)
                return CLASS_ROOT;
        if (m->state == CENSUS_DYING)
                return CLASS_DYING;
        if (m->state == CENSUS_CREATING)
                return CLASS_CREATING;
        if (!e->on_demand_known)
                return CLASS_LIVE;
        return e->on_demand > 0 ? CLASS_LISTS : CLASS_EMPTY;
}

static const TableColumn columns_[] = {
        { "CLASS", false, 0, false },    { "MEMCGS", true, 0, false },    { "UNITS", true, 0, false },
        { "OF-63-IDS", true, 0, false }, { "ON-DEMAND", true, 0, false },
};

static int cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const Sum *s = (const Sum *)userdata + row;
        const uint64_t numbers[] = { 0, s->memcgs, s->units, s->units_63, s->on_demand };

        (void)format;
        if (column == 0)
                text_add_string(ret, s->name);
        else if ((column == 2 && !s->units_known) || (column == 4 && !s->on_demand_known))
                text_add_string(ret, "-");
        else
                text_add(ret, "%" PRIu64, numbers[column]);
        return 0;
}

int breakdown_print(const Breakdown *b, const Format *format) {
        Sum sums[_CLASS_MAX] = {};
        Table table = { .columns = columns_, .n_columns = ELEMENTSOF(columns_), .cell = cell, .userdata = sums };

        for (size_t i = 0; i < b->census->n_memcgs; i++) {
                const CensusMemcg *m = &b->census->memcgs[i];
                const EstimateMemcg *e = &b->memcgs[i];
                Sum *s = &sums[class_of(m, e)];

                s->memcgs++;
                s->units += m->units;
                s->units_63 += e->units_63;
                s->on_demand += e->on_demand;
                s->units_known = !b->census->options.flat;
                s->on_demand_known = e->on_demand_known;
        }
        for (size_t i = 0; i < _CLASS_MAX; i++) {
                sums[i].name = class_names[i];
                if (sums[i].memcgs > 0)
                        sums[table.n_rows++] = sums[i];
        }
        return table_print(&table, format);
}

json_t *breakdown_memcg(size_t i, void *userdata) {
        const Breakdown *b = userdata;
        const CensusMemcg *m = &b->census->memcgs[i];
        const EstimateMemcg *e = &b->memcgs[i];
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "serial", m->serial);
        r |= json_put_path(o, b->census, (uint32_t)i);
        r |= json_put_text(o, "state", census_state_to_string(m->state));
        r |= json_put_known(o, "units", !b->census->options.flat, m->units);
        r |= json_put_u64(o, "units_63", e->units_63);
        r |= json_put_known(o, "units_on_demand", e->on_demand_known, e->on_demand);
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}
