/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* show: all about one memcg. */
#include <inttypes.h>
#include <stdio.h>

#include "column.h"
#include "daemon/json.h"
#include "daemon/names.h"
#include "footer.h"
#include "lookup.h"
#include "source.h"
#include "table.h"
#include "verb.h"

#define NAMESAKES_MAX 8U
#define LABEL_WIDTH 12

typedef struct Sheet {
        Row row;
        const Census *census;
        const CensusMemcg *memcg;
        Format format;
        Text text;
} Sheet;

static void label(Sheet *s, const char *name) {
        text_add(&s->text, "%*s: ", LABEL_WIDTH, name);
}

static void add_path(Sheet *s, uint32_t memcg) {
        _cleanup_(freep) char *path = NULL;
        size_t len = 0;

        path = census_path(s->census, memcg, &len);
        if (path)
                text_add_name(&s->text, &s->format, path, len);
        else
                s->text.failed = true;
}

static void add_state(Sheet *s) {
        const CensusMemcg *m = s->memcg;

        label(s, "State");
        text_add(&s->text, "%s%s\n", census_state_to_string(m->state), m->offline ? ", offline" : "");
        label(s, "Serial");
        text_add(&s->text, "%" PRIu64, m->serial);
        if (m->valid & SW_MEMCG_CGROUP)
                text_add(&s->text, ", cgroup id %" PRIu64 ", level %" PRIu32, m->cgroup_id, m->level);
        text_add_string(&s->text, "\n");
        if (m->parent != CENSUS_NONE) {
                label(s, "Parent");
                add_path(s, m->parent);
                text_add(&s->text, " (serial %" PRIu64 ", %s)\n", m->parent_serial,
                         census_state_to_string(s->census->memcgs[m->parent].state));
        }
        if (m->state != CENSUS_LIVE && m->nearest_live != CENSUS_NONE && m->nearest_live != m->parent) {
                label(s, "Live above");
                add_path(s, m->nearest_live);
                text_add(&s->text, " (serial %" PRIu64 ")\n", s->census->memcgs[m->nearest_live].serial);
        }
}

static int add_identity(Sheet *s) {
        static const struct {
                const char *label, *column;
        } lines[] = {
                { "Unit", "UNIT" },           { "Slice", "SLICE" },   { "Machine", "MACHINE" },
                { "Container", "CONTAINER" }, { "Engine", "ENGINE" }, { "Pod", "POD" },
        };
        Text value = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(lines); i++) {
                const Column *c = column_find(lines[i].column, strlen(lines[i].column), COLUMN_MEMCG);

                text_clear(&value);
                r = c->string(&s->row, &s->format, &value);
                if (r >= 0 && value.len > 0) {
                        label(s, lines[i].label);
                        text_add(&s->text, "%s\n", text_get(&value));
                }
        }
        text_done(&value);
        return r;
}

static void add_overhead(Sheet *s) {
        const CensusMemcg *m = s->memcg;
        bool flat = s->census->options.flat;

        label(s, "Overhead");
        text_add_size_words(&s->text, &s->format, census_overhead(m));
        if (!flat) {
                text_add_string(&s->text, " (");
                text_add_count_of(&s->text, m->units, "unit", "units");
                text_add_string(&s->text, " in ");
                text_add_count_of(&s->text, m->slots, "slot", "slots");
                text_add_string(&s->text, ": ");
                text_add_size_words(&s->text, &s->format, m->unit_bytes);
                text_add_string(&s->text, ", arrays: ");
                text_add_size_words(&s->text, &s->format, m->array_bytes);
                text_add_string(&s->text, ")");
        }
        text_add_string(&s->text, "\n");

        label(s, "Subtree");
        text_add_size_words(&s->text, &s->format, census_subtree_overhead(m));
        text_add_string(&s->text, " in ");
        text_add_count_of(&s->text, m->subtree_memcgs, "memory cgroup", "memory cgroups");
        text_add_string(&s->text, ", ");
        text_add_count(&s->text, m->subtree_dying);
        text_add_string(&s->text, " dying\n");
}

static void add_memory(Sheet *s) {
        const CensusMemcg *m = s->memcg;
        uint64_t swap = 0, page = s->row.facts->page_bytes;

        label(s, "Charged");
        if (m->valid & SW_MEMCG_MEMORY)
                text_add_size_words(&s->text, &s->format, mul_sat_u64(m->memory_pages, page));
        else
                text_add_string(&s->text, "-");
        text_add_string(&s->text, " of memory, ");
        if (json_swap_pages(m, &swap))
                text_add_size_words(&s->text, &s->format, mul_sat_u64(swap, page));
        else
                text_add_string(&s->text, "-");
        text_add_string(&s->text, " of swap\n");
}

static void add_pin(Sheet *s, const Pin *pin) {
        const CensusMemcg *m = &s->row.reading->census->memcgs[s->row.memcg];
        Text *t = &s->text;

        text_add(t, "%s: %s", pin_cause_to_string(pin->cause), pin->exact ? "" : "about ");
        text_add_count_of(t, pin->refs, "reference", "references");
        if (pin->has_bytes) {
                text_add(t, ", %s", pin->at_least ? "at least " : "");
                text_add_size_words(t, &s->format, pin->bytes);
        }
        if (pin->cause == PIN_WRITEBACK) {
                text_add_string(t, " in ");
                text_add_count_of(t, pin->inodes, "inode", "inodes");
                if (pin->device[0]) {
                        text_add_string(t, " on device ");
                        text_add_name(t, &s->format, pin->device, strlen(pin->device));
                }
        } else if (pin->cause == PIN_UNEXPLAINED && m->valid & SW_MEMCG_MEMORY && m->memory_pages > 0) {
                /* A kernel that hands charged pages on to the parent leaves none with a dying memcg; one that does not counts a reference each. */
                text_add_string(t, "; ");
                text_add_count_of(t, m->memory_pages, "page charged to it may hold one", "pages charged to it may hold up to as many");
        } else if (pin->cause == PIN_SWAP) {
                text_add_string(t, " in ");
                text_add_count_of(t, pin->entries, "swap entry", "swap entries");
        }
        text_add_string(t, "\n");
}

static void add_pins(Sheet *s) {
        const CensusMemcg *m = s->memcg;
        const Pins *all = s->row.reading->pins;
        const Pin *pins = NULL;
        uint64_t explained = 0;
        size_t n = 0;

        label(s, "References");
        if (m->valid & SW_MEMCG_REFS)
                text_add_count(&s->text, m->refs);
        else
                text_add_string(&s->text, m->state == CENSUS_LIVE ? "- (they are counted per CPU while it is live)" : "-");
        if (all && pins_explained(all, s->row.memcg, &explained)) {
                text_add_string(&s->text, ", ");
                text_add_count(&s->text, explained);
                text_add_string(&s->text, " explained");
        }
        text_add_string(&s->text, "\n");

        if (!all || !pins_get(all, s->row.memcg, &pins, &n))
                return;
        label(s, "Pins");
        if (n == 0)
                text_add_string(&s->text, "none\n");
        for (size_t i = 0; i < n; i++) {
                if (i > 0)
                        text_add(&s->text, "%*s  ", LABEL_WIDTH, "");
                add_pin(s, pins + i);
        }
        if (n > 0 && !pins_writeback_known(all)) {
                text_add(&s->text, "%*s  ", LABEL_WIDTH, "");
                footer_add_pins(&s->text, s->row.reading);
        }
}

static void add_namesakes(Sheet *s, const uint32_t *others, size_t n) {
        if (n == 0)
                return;
        label(s, "Same path");
        for (size_t i = 0; i < n && i < NAMESAKES_MAX; i++)
                text_add(&s->text, "%sserial %" PRIu64 " (%s)", i > 0 ? ", " : "", s->census->memcgs[others[i]].serial,
                         census_state_to_string(s->census->memcgs[others[i]].state));
        if (n > NAMESAKES_MAX) {
                text_add_string(&s->text, " and ");
                text_add_count(&s->text, n - NAMESAKES_MAX);
                text_add_string(&s->text, " more");
        }
        text_add_string(&s->text, "\n");
}

/* --------------------------------------------------------------------------------------------------------------- nodes */

static int node_cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const Sheet *s = userdata;
        const CensusNode *n = s->census->nodes + s->memcg->first_node + row;
        bool units = (n->valid & SW_NODE_UNITS) && !s->census->options.flat, info = n->valid & SW_NODE_INFO;

        if (column == 0)
                text_add(ret, "%" PRIu32, n->node);
        else if ((column == 2 || column == 3) ? !units : !info)
                text_add_string(ret, "-");
        else if (column == 1)
                text_add(ret, "%" PRIu32, n->ids);
        else if (column == 2)
                text_add(ret, "%" PRIu32, n->slots);
        else if (column == 3)
                text_add(ret, "%" PRIu32, n->units);
        else
                text_add_size(ret, format, n->array_bytes);
        return 0;
}

static int print_nodes(Sheet *s) {
        static const TableColumn columns_[] = {
                { "NODE", true, 0, false },  { "IDS", true, 0, false },   { "SLOTS", true, 0, false },
                { "UNITS", true, 0, false }, { "ARRAY", true, 0, false },
        };
        Table table = {
                .columns = columns_,
                .n_columns = ELEMENTSOF(columns_),
                .n_rows = s->memcg->n_nodes,
                .cell = node_cell,
                .userdata = s,
        };

        if (table.n_rows == 0)
                return 0;
        (void)fputc('\n', stdout);
        return table_print(&table, &s->format);
}

/* ---------------------------------------------------------------------------------------------------------------- verb */

static int print_sheet(Sheet *s, const uint32_t *others, size_t n_others) {
        int r;

        add_path(s, s->row.memcg);
        text_add_string(&s->text, "\n");
        add_state(s);
        add_namesakes(s, others, n_others);
        r = add_identity(s);
        if (r < 0)
                return r;
        add_overhead(s);
        add_memory(s);
        add_pins(s);
        if (s->text.failed)
                return -ENOMEM;
        (void)fputs(text_get(&s->text), stdout);
        return print_nodes(s);
}

static int print_json(const Row *row, const uint32_t *others, size_t n_others) {
        const Census *c = row->reading->census;
        json_t *o = json_object(), *same = json_array();
        int r = 0;

        for (size_t i = 0; i < n_others && i < NAMESAKES_MAX; i++) {
                json_t *other = json_object();

                r |= json_put_u64(other, "serial", c->memcgs[others[i]].serial);
                r |= json_put_text(other, "state", census_state_to_string(c->memcgs[others[i]].state));
                r |= json_array_append_new(same, other);
        }
        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_put(o, "host", json_host(row->facts, row->reading));
        r |= json_put(o, "memcg", json_memcg(row->facts, row->reading, row->memcg));
        r |= json_put(o, "same_path", same);
        r |= json_put_u64(o, "same_path_memcgs", n_others);
        if (r < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        return json_write_value(stdout, o);
}

static ExitCode show(const Options *options, const Probe *probe, const Reading *reading) {
        Sheet s = {
                .row = { .facts = probe_facts(probe), .reading = reading },
                .census = reading->census,
        };
        uint32_t others[NAMESAKES_MAX];
        Names *names = NULL;
        size_t n_others;
        ExitCode code;
        int r;

        /* Without a mount point a path below it is just not recognised. */
        if (names_new(&names) < 0)
                names = NULL;
        code = lookup_memcg(reading->census, options->argument, names, &s.row.memcg);
        (void)names_free(names);
        if (code != CTL_EXIT_OK)
                return code;

        s.memcg = s.census->memcgs + s.row.memcg;
        n_others = lookup_namesakes(s.census, s.row.memcg, others, NAMESAKES_MAX);
        format_detect(&s.format, option_given(options, OPTION_BYTES));
        if (option_given(options, OPTION_JSON))
                r = print_json(&s.row, others, n_others);
        else
                r = print_sheet(&s, others, n_others);
        text_done(&s.text);
        row_done(&s.row);
        code = exit_from_output(r);
        return code == CTL_EXIT_OK ? source_verdict(probe, reading) : code;
}

ExitCode verb_show(const Options *options) {
        _cleanup_(drop_probe) Probe *probe = NULL;
        _cleanup_(drop_reading) Reading *reading = NULL;
        ExitCode code;

        code = source_open(&probe);
        if (code == CTL_EXIT_OK)
                code = source_read(probe, READING_RINGS, &reading);
        return code == CTL_EXIT_OK ? show(options, probe, reading) : code;
}
