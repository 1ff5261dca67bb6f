/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* creators: dying memcgs grouped by who makes them. */
#include <stdio.h>

#include "column.h"
#include "daemon/json.h"
#include "footer.h"
#include "source.h"
#include "table.h"
#include "verb.h"

typedef struct Page {
        const ColumnList *columns;
        const Groups *groups;
        size_t current;
        Row row;
} Page;

static int page_cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        Page *p = userdata;

        if (p->current != row) {
                row_done(&p->row);
                p->row.group = p->groups->groups + row;
                p->current = row;
        }
        return column_add_text(p->columns->columns[column], &p->row, format, ret);
}

static int print_table(const Options *o, const ColumnList *list, const Groups *groups, size_t n, const Row *template,
                       const Format *format) {
        Page page = { .columns = list, .groups = groups, .current = SIZE_MAX, .row = *template };
        TableColumn columns_[COLUMNS_MAX];
        Table table = {
                .columns = columns_,
                .n_columns = list->n,
                .n_rows = n,
                .noheadings = option_given(o, OPTION_NOHEADINGS),
                .cell = page_cell,
                .userdata = &page,
        };
        int r;

        for (size_t i = 0; i < list->n; i++)
                columns_[i] = (TableColumn){
                        .name = list->columns[i]->name,
                        .right = list->columns[i]->type != COLUMN_STRING && list->columns[i]->type != COLUMN_PATH,
                        .weight = column_weight(list->columns[i]),
                };
        r = table_print(&table, format);
        row_done(&page.row);
        return r;
}

static int print_footer(const Groups *groups, size_t n, const Reading *reading, const Format *format) {
        Text t = {};
        int r = 0;

        footer_add_listed(&t, n, groups->n_groups);
        footer_add_totals(&t, format, reading);
        footer_add_pins(&t, reading);
        if (t.failed)
                r = -ENOMEM;
        else {
                if (n > 0)
                        (void)fputc('\n', stdout);
                text_print_wrapped(text_get(&t), format->width);
        }
        text_done(&t);
        return r;
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static json_t *causes_object(const Group *g) {
        json_t *o;
        int r = 0;

        if (!g->pins_known)
                return json_null();
        o = json_object();
        for (int cause = 0; cause < _PIN_CAUSE_MAX; cause++)
                if (g->causes[cause] > 0)
                        r |= json_put_u64(o, pin_cause_to_string(cause), g->causes[cause]);
        if (g->unpinned > 0)
                r |= json_put_u64(o, "none", g->unpinned);
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}

static json_t *group_object(const Group *g, const Row *row) {
        const Census *c = row->reading->census;
        _cleanup_(freep) char *path = NULL;
        size_t len = 0;
        json_t *o;
        int r = 0;

        path = census_path(c, g->ancestor, &len);
        if (!path)
                return NULL;
        o = json_object();
        r |= json_put_bytes(o, "pattern", g->pattern, g->pattern_len);
        r |= json_put_bytes(o, "ancestor", path, len);
        r |= json_put_u64(o, "ancestor_serial", c->memcgs[g->ancestor].serial);
        r |= json_put_u64(o, "memcgs", g->memcgs);
        r |= json_put_known(o, "units", !c->options.flat, g->units);
        r |= json_put_u64(o, "unit_bytes", g->unit_bytes);
        r |= json_put_u64(o, "array_bytes", g->array_bytes);
        r |= json_put(o, "causes", causes_object(g));
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}

static int print_json(const Groups *groups, size_t n, const Row *row) {
        json_t *o = json_object(), *a = json_array();
        int r = 0;

        for (size_t i = 0; i < n; i++)
                r |= json_array_append_new(a, group_object(groups->groups + i, row));
        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_put(o, "host", json_host(row->facts, row->reading));
        r |= json_put(o, "totals", json_totals(row->facts, row->reading));
        r |= json_put_u64(o, "groups", groups->n_groups);
        r |= json_put(o, "creators", a);
        if (r < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        return json_write_value(stdout, o);
}

/* ---------------------------------------------------------------------------------------------------------------- verb */

static ExitCode print(const Options *o, const ColumnList *list, const Probe *probe, const Reading *reading) {
        _cleanup_(groups_freep) Groups *groups = NULL;
        Row row = { .facts = probe_facts(probe), .reading = reading };
        Format format;
        ExitCode code;
        size_t n;
        int r;

        format_detect(&format, option_given(o, OPTION_BYTES));
        if (groups_new(&groups, reading) < 0)
                return exit_out_of_memory();
        n = o->limit > 0 && o->limit < groups->n_groups ? (size_t)o->limit : groups->n_groups;

        if (option_given(o, OPTION_JSON))
                r = print_json(groups, n, &row);
        else {
                r = print_table(o, list, groups, n, &row, &format);
                if (r >= 0 && !option_given(o, OPTION_NOHEADINGS))
                        r = print_footer(groups, n, reading, &format);
        }
        code = exit_from_output(r);
        return code == CTL_EXIT_OK ? source_verdict(probe, reading) : code;
}

ExitCode verb_creators(const Options *options) {
        _cleanup_(drop_probe) Probe *probe = NULL;
        _cleanup_(drop_reading) Reading *reading = NULL;
        ColumnList list;
        ExitCode code;

        if (option_given(options, OPTION_COLUMNS) && option_given(options, OPTION_JSON))
                return exit_complain(CTL_EXIT_USAGE, "the JSON of 'creators' always has all members. Leave --columns out");
        code = column_list_parse(options->columns ? options->columns : options->verb->default_columns, COLUMN_GROUP, &list);
        if (code == CTL_EXIT_OK)
                code = source_open(&probe);
        if (code == CTL_EXIT_OK)
                code = source_read(probe, READING_RINGS, &reading);
        return code == CTL_EXIT_OK ? print(options, &list, probe, reading) : code;
}
