/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "column.h"

#include <inttypes.h>
#include <strings.h>

#include "daemon/json.h"
#include "table.h"

/* ---------------------------------------------------------------------------------------------------------------- rows */

void row_done(Row *row) {
        free(row->path);
        row->path = NULL;
        row->identified = false;
}

int row_need_path(Row *row) {
        if (!row->path)
                row->path = census_path(row->reading->census, row->group ? row->group->ancestor : row->memcg, &row->path_len);
        return row->path ? 0 : -ENOMEM;
}

static int need_identity(Row *row) {
        int r = row_need_path(row);

        if (r < 0 || row->identified)
                return r;
        identity_parse(row->path, row->path_len, &row->identity);
        row->identified = true;
        return 0;
}

static const CensusMemcg *memcg_of(const Row *row) {
        return row->reading->census->memcgs + row->memcg;
}

static bool has_units(const Row *row) {
        return !row->reading->census->options.flat;
}

/* -------------------------------------------------------------------------------------------------------------- memcgs */

static bool value_serial(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->serial;
        return true;
}

static bool value_parent(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->parent_serial;
        return *ret > 0;
}

static bool value_id(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->cgroup_id;
        return memcg_of(row)->valid & SW_MEMCG_CGROUP;
}

static bool value_level(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->level;
        return memcg_of(row)->valid & SW_MEMCG_CGROUP;
}

static bool value_nodes(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->n_nodes;
        return true;
}

static bool value_slots(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->slots;
        return has_units(row);
}

static bool value_units(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->units;
        return has_units(row);
}

static bool value_arrays(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->array_bytes;
        return true;
}

static bool value_overhead(const Row *row, uint64_t *ret) {
        *ret = census_overhead(memcg_of(row));
        return true;
}

static bool value_delta(const Row *row, uint64_t *ret) {
        uint32_t i;

        if (!row->previous)
                return false;
        i = census_find(row->previous->census, memcg_of(row)->serial);
        *ret = census_overhead(memcg_of(row)) - (i == CENSUS_NONE ? 0 : census_overhead(row->previous->census->memcgs + i));
        return true;
}

static bool value_subtree(const Row *row, uint64_t *ret) {
        *ret = census_subtree_overhead(memcg_of(row));
        return true;
}

static bool value_memcgs(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->subtree_memcgs;
        return true;
}

static bool value_dying(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->subtree_dying;
        return true;
}

static bool value_refs(const Row *row, uint64_t *ret) {
        *ret = memcg_of(row)->refs;
        return memcg_of(row)->valid & SW_MEMCG_REFS;
}

static bool value_memory(const Row *row, uint64_t *ret) {
        *ret = mul_sat_u64(memcg_of(row)->memory_pages, row->facts->page_bytes);
        return memcg_of(row)->valid & SW_MEMCG_MEMORY;
}

static bool value_swap(const Row *row, uint64_t *ret) {
        uint64_t pages = 0;

        if (!json_swap_pages(memcg_of(row), &pages))
                return false;
        *ret = mul_sat_u64(pages, row->facts->page_bytes);
        return true;
}

static int string_state(Row *row, const Format *format, Text *ret) {
        const CensusMemcg *m = memcg_of(row);

        (void)format;
        text_add_string(ret, census_state_to_string(m->state));
        return 0;
}

/* "writeback, swap 2": the references in front of several of one cause. */
static int string_pins(Row *row, const Format *format, Text *ret) {
        uint64_t refs[_PIN_CAUSE_MAX] = {};
        const Pin *pins = NULL;
        bool first = true;
        size_t n = 0;

        (void)format;
        if (!row->reading->pins || !pins_get(row->reading->pins, row->memcg, &pins, &n))
                return 0;
        for (size_t i = 0; i < n; i++)
                refs[pins[i].cause] = add_sat_u64(refs[pins[i].cause], pins[i].refs);
        for (int cause = 0; cause < _PIN_CAUSE_MAX; cause++) {
                if (refs[cause] == 0)
                        continue;
                text_add(ret, "%s%s", first ? "" : ",", pin_cause_to_string(cause));
                if (refs[cause] > 1)
                        text_add(ret, ":%" PRIu64, refs[cause]);
                first = false;
        }
        if (first)
                text_add_string(ret, "none");
        return 0;
}

static int add_part(Row *row, const Format *format, size_t offset, Text *ret) {
        const IdentityPart *part;
        int r = need_identity(row);

        if (r < 0)
                return r;
        part = (const IdentityPart *)((const char *)&row->identity + offset);
        if (part->s)
                text_add_name(ret, format, part->s, part->len);
        return 0;
}

static int string_unit(Row *row, const Format *format, Text *ret) {
        return add_part(row, format, offsetof(Identity, unit), ret);
}

static int string_slice(Row *row, const Format *format, Text *ret) {
        return add_part(row, format, offsetof(Identity, slice), ret);
}

static int string_machine(Row *row, const Format *format, Text *ret) {
        return add_part(row, format, offsetof(Identity, machine), ret);
}

static int string_container(Row *row, const Format *format, Text *ret) {
        return add_part(row, format, offsetof(Identity, container), ret);
}

static int string_engine(Row *row, const Format *format, Text *ret) {
        int r = need_identity(row);

        (void)format;
        if (r >= 0 && row->identity.engine)
                text_add_string(ret, row->identity.engine);
        return r;
}

static int string_pod(Row *row, const Format *format, Text *ret) {
        int r = need_identity(row);

        (void)format;
        if (r >= 0)
                text_add_string(ret, row->identity.pod_uid);
        return r;
}

static int string_path(Row *row, const Format *format, Text *ret) {
        int r = row_need_path(row);

        if (r >= 0)
                text_add_name(ret, format, row->path, row->path_len);
        return r;
}

/* -------------------------------------------------------------------------------------------------------------- groups */

static bool value_group_count(const Row *row, uint64_t *ret) {
        *ret = row->group->memcgs;
        return true;
}

static bool value_group_units(const Row *row, uint64_t *ret) {
        *ret = row->group->units;
        return has_units(row);
}

static bool value_group_overhead(const Row *row, uint64_t *ret) {
        *ret = row->group->unit_bytes + row->group->array_bytes;
        return true;
}

static int string_group_causes(Row *row, const Format *format, Text *ret) {
        const Group *g = row->group;
        bool first = true;

        (void)format;
        if (!g->pins_known)
                return 0;
        for (int cause = 0; cause < _PIN_CAUSE_MAX; cause++) {
                if (g->causes[cause] == 0)
                        continue;
                text_add(ret, "%s%s %" PRIu64, first ? "" : ", ", pin_cause_to_string(cause), g->causes[cause]);
                first = false;
        }
        if (g->unpinned > 0)
                text_add(ret, "%snone %" PRIu64, first ? "" : ", ", g->unpinned);
        return 0;
}

static int string_group_pattern(Row *row, const Format *format, Text *ret) {
        text_add_name(ret, format, row->group->pattern, row->group->pattern_len);
        return 0;
}

/* --------------------------------------------------------------------------------------------------------------- table */

const Column columns[] = {
        /* name, help, kind, type, value, string, json */
        { "SERIAL", "number of the memcg, unique until reboot", COLUMN_MEMCG, COLUMN_NUMBER, value_serial, NULL, "serial" },
        { "PARENT", "serial of its parent", COLUMN_MEMCG, COLUMN_NUMBER, value_parent, NULL, "parent_serial" },
        { "ID", "cgroup id; a dying and a live memcg can share one", COLUMN_MEMCG, COLUMN_NUMBER, value_id, NULL, "id" },
        { "STATE", "live, dying or creating", COLUMN_MEMCG, COLUMN_STRING, NULL, string_state, "state,offline" },
        { "LEVEL", "depth in the tree, 0 for the root", COLUMN_MEMCG, COLUMN_NUMBER, value_level, NULL, "level" },
        { "NODES", "NUMA nodes it keeps arrays for", COLUMN_MEMCG, COLUMN_NUMBER, value_nodes, NULL, "nodes" },
        { "SLOTS", "slots for units, over all nodes", COLUMN_MEMCG, COLUMN_NUMBER, value_slots, NULL, "slots" },
        { "UNITS", "allocated units, over all nodes", COLUMN_MEMCG, COLUMN_NUMBER, value_units, NULL, "units" },
        { "ARRAYS", "bytes of its arrays", COLUMN_MEMCG, COLUMN_SIZE, value_arrays, NULL, "array_bytes" },
        { "OVERHEAD", "bytes of its units and arrays", COLUMN_MEMCG, COLUMN_SIZE, value_overhead, NULL, "unit_bytes,array_bytes" },
        { "DELTA", "change of OVERHEAD since the last round of --watch", COLUMN_MEMCG, COLUMN_DELTA, value_delta, NULL, NULL },
        { "SUBTREE", "OVERHEAD of it and all below it, dying ones included", COLUMN_MEMCG, COLUMN_SIZE, value_subtree, NULL,
          "subtree_bytes" },
        { "MEMCGS", "memcgs in its subtree, itself included", COLUMN_MEMCG, COLUMN_NUMBER, value_memcgs, NULL, "subtree_memcgs" },
        { "DYING", "dying memcgs in its subtree, itself included", COLUMN_MEMCG, COLUMN_NUMBER, value_dying, NULL, "subtree_dying" },
        { "REFS", "references that keep it; not known while it is live", COLUMN_MEMCG, COLUMN_NUMBER, value_refs, NULL,
          "refs,refs_explained" },
        { "PINS", "causes of these references, with their number above one", COLUMN_MEMCG, COLUMN_STRING, NULL, string_pins, "pins" },
        { "MEMORY", "memory charged to it and to those below", COLUMN_MEMCG, COLUMN_SIZE, value_memory, NULL, "memory_bytes" },
        { "SWAP", "swap charged to it and to those below", COLUMN_MEMCG, COLUMN_SIZE, value_swap, NULL, "swap_bytes" },
        { "UNIT", "systemd unit", COLUMN_MEMCG, COLUMN_STRING, NULL, string_unit, "identity" },
        { "SLICE", "systemd slice", COLUMN_MEMCG, COLUMN_STRING, NULL, string_slice, "identity" },
        { "MACHINE", "container or virtual machine known to systemd-machined", COLUMN_MEMCG, COLUMN_STRING, NULL, string_machine,
          "identity" },
        { "CONTAINER", "id or name of the container", COLUMN_MEMCG, COLUMN_STRING, NULL, string_container, "identity" },
        { "ENGINE", "what runs the container", COLUMN_MEMCG, COLUMN_STRING, NULL, string_engine, "identity" },
        { "POD", "uid of the Kubernetes pod", COLUMN_MEMCG, COLUMN_STRING, NULL, string_pod, "identity" },
        { "PATH", "path below the mount point, as it is or was", COLUMN_MEMCG, COLUMN_PATH, NULL, string_path, "path,path_bytes" },

        { "COUNT", "dying memcgs of this group", COLUMN_GROUP, COLUMN_NUMBER, value_group_count, NULL, "memcgs" },
        { "UNITS", "allocated units of the group", COLUMN_GROUP, COLUMN_NUMBER, value_group_units, NULL, "units" },
        { "OVERHEAD", "bytes of the group's units and arrays", COLUMN_GROUP, COLUMN_SIZE, value_group_overhead, NULL,
          "unit_bytes,array_bytes" },
        { "CAUSES", "what pins them, and how many of them", COLUMN_GROUP, COLUMN_STRING, NULL, string_group_causes, "causes" },
        { "PATTERN", "what their names have in common", COLUMN_GROUP, COLUMN_STRING, NULL, string_group_pattern, "pattern" },
        { "ANCESTOR", "nearest live memcg above", COLUMN_GROUP, COLUMN_PATH, NULL, string_path, "ancestor" },
};
const size_t n_columns = ELEMENTSOF(columns);

const Column *column_find(const char *name, size_t len, ColumnKind kind) {
        for (size_t i = 0; i < n_columns; i++)
                if ((columns[i].kind & kind) && strlen(columns[i].name) == len && strncasecmp(columns[i].name, name, len) == 0)
                        return columns + i;
        return NULL;
}

int column_add_text(const Column *column, Row *row, const Format *format, Text *ret) {
        size_t before = ret->len;
        uint64_t value = 0;
        int r = 0;

        if (column->string)
                r = column->string(row, format, ret);
        else if (column->value(row, &value)) {
                if (column->type == COLUMN_SIZE)
                        text_add_size(ret, format, value);
                else if (column->type == COLUMN_DELTA)
                        text_add_size_delta(ret, format, (int64_t)value);
                else
                        text_add(ret, "%" PRIu64, value);
        }
        if (r < 0)
                return r;
        /* Unknown is not zero. */
        if (ret->len == before)
                text_add_string(ret, "-");
        return ret->failed ? -ENOMEM : 0;
}

unsigned column_weight(const Column *column) {
        switch (column->type) {
        case COLUMN_STRING:
                return TABLE_WEIGHT_TEXT;
        case COLUMN_PATH:
                return TABLE_WEIGHT_PATH;
        default:
                return 0;
        }
}

ExitCode column_list_parse(const char *text, ColumnKind kind, ColumnList *ret) {
        Format format = {};
        ColumnList list = {};

        for (const char *p = text;; p++) {
                size_t len = strcspn(p, ",");
                const Column *column = column_find(p, len, kind);

                if (!column) {
                        Text t = {};

                        text_add_name(&t, &format, p, len);
                        (void)exit_complain(CTL_EXIT_USAGE, "there is no column '%s'. --help after the verb lists them", text_get(&t));
                        text_done(&t);
                        return CTL_EXIT_USAGE;
                }
                if (list.n == COLUMNS_MAX)
                        return exit_complain(CTL_EXIT_USAGE, "at most %d columns can be printed", COLUMNS_MAX);
                list.columns[list.n++] = column;
                p += len;
                if (!*p)
                        break;
        }
        *ret = list;
        return CTL_EXIT_OK;
}

bool column_list_has(const ColumnList *list, const char *name) {
        for (size_t i = 0; i < list->n; i++)
                if (strcmp(list->columns[i]->name, name) == 0)
                        return true;
        return false;
}
