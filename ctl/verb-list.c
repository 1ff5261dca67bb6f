/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* census, top: a line for each memcg. */
#include <stdio.h>

#include "daemon/json.h"
#include "footer.h"
#include "selection.h"
#include "source.h"
#include "table.h"
#include "verb.h"
#include "watch.h"

#define TOP_LIMIT 20U
/* Lines of the screen that are no rows: heading, empty line, five of totals, the prompt. */
#define WATCH_LINES 8U
/* Of that width none of the sentences is broken; narrower, up to four more lines go to them. */
#define WATCH_WIDE 130U
#define WATCH_LINES_NARROW 12U

#define MEMBERS_MAX (2U * COLUMNS_MAX)

/* What stays the same from round to round. */
typedef struct List {
        const Options *options;
        Probe *probe;
        Format format;
        ColumnList columns;
        const Column *sort; /* NULL: tree order */
        int state;          /* CensusState, negative for all */
} List;

/* One round's table: the rows of the selection. */
typedef struct Page {
        const List *list;
        const Selection *selection;
        size_t current; /* row that is in "row" */
        Row row;
} Page;

static void page_turn(Page *p, size_t row) {
        if (p->current == row)
                return;
        row_done(&p->row);
        p->row.memcg = p->selection->memcgs[row];
        p->current = row;
}

static int page_cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        Page *p = userdata;

        page_turn(p, row);
        return column_add_text(p->list->columns.columns[column], &p->row, format, ret);
}

static const char *page_colour(void *userdata, size_t row, size_t column) {
        Page *p = userdata;

        if (strcmp(p->list->columns.columns[column]->name, "STATE") != 0)
                return NULL;
        page_turn(p, row);
        switch (p->row.reading->census->memcgs[p->row.memcg].state) {
        case CENSUS_DYING:
                return "red";
        case CENSUS_CREATING:
                return "cyan";
        default:
                return NULL;
        }
}

static int print_table(const List *list, const Selection *selection, const Row *template) {
        Page page = { .list = list, .selection = selection, .current = SIZE_MAX, .row = *template };
        TableColumn columns_[COLUMNS_MAX];
        Table table = {
                .columns = columns_,
                .n_columns = list->columns.n,
                .n_rows = selection->n_memcgs,
                .noheadings = option_given(list->options, OPTION_NOHEADINGS),
                .cell = page_cell,
                .colour = page_colour,
                .userdata = &page,
        };
        int r;

        for (size_t i = 0; i < list->columns.n; i++) {
                const Column *c = list->columns.columns[i];

                columns_[i] = (TableColumn){
                        .name = c->name,
                        .right = c->type != COLUMN_STRING && c->type != COLUMN_PATH,
                        .weight = column_weight(c),
                };
        }
        r = table_print(&table, &list->format);
        row_done(&page.row);
        return r;
}

static int print_footer(const List *list, const Selection *selection, const Row *row) {
        Text t = {};
        int r = 0;

        footer_add_listed(&t, selection->n_memcgs, selection->matched);
        footer_add_totals(&t, &list->format, row->reading);
        footer_add_ids(&t, row->reading);
        footer_add_layout(&t, row->facts, row->reading);
        if (column_list_has(&list->columns, "PINS"))
                footer_add_pins(&t, row->reading);
        if (row->previous)
                footer_add_changes(&t, &list->format, row->previous, row->reading);
        if (t.failed)
                r = -ENOMEM;
        else {
                if (selection->n_memcgs > 0)
                        (void)fputc('\n', stdout);
                text_print_wrapped(text_get(&t), list->format.width);
        }
        text_done(&t);
        return r;
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

/* The JSON members that the columns name. Pointers into *buffer, which is the caller's to free. */
static size_t list_members(const ColumnList *columns_, const char *ret[MEMBERS_MAX], char **buffer) {
        Text t = {};
        size_t n = 0;

        for (size_t i = 0; i < columns_->n; i++)
                if (columns_->columns[i]->json)
                        text_add(&t, "%s,", columns_->columns[i]->json);
        if (t.failed) {
                text_done(&t);
                return 0;
        }
        *buffer = t.s;
        for (char *save = NULL, *word = t.s ? strtok_r(t.s, ",", &save) : NULL; word && n < MEMBERS_MAX; word = strtok_r(NULL, ",", &save))
                ret[n++] = word;
        return n;
}

static int print_json(const List *list, const Selection *selection, const Row *row) {
        const Options *o = list->options;
        _cleanup_(freep) char *buffer = NULL;
        const char *members[MEMBERS_MAX];
        JsonSelection s = {
                .memcgs = selection->memcgs,
                .n_memcgs = selection->n_memcgs,
                .matched = selection->matched,
                .state = list->state < 0 ? NULL : census_state_to_string((CensusState)list->state),
                .sort = list->sort ? list->sort->name : NULL,
        };

        if (option_given(o, OPTION_COLUMNS)) {
                s.n_members = list_members(&list->columns, members, &buffer);
                s.members = members;
        }
        return json_write_reading(stdout, row->facts, row->reading, &s);
}

/* -------------------------------------------------------------------------------------------------------------- rounds */

static size_t limit_of(const List *list) {
        const Options *o = list->options;

        if (option_given(o, OPTION_LIMIT))
                return (size_t)o->limit;
        /* What scrolls away while it is redrawn nobody can read. */
        if (o->watch_sec > 0 && list->format.redraws && !option_given(o, OPTION_JSON)) {
                unsigned rest = list->format.width >= WATCH_WIDE ? WATCH_LINES : WATCH_LINES_NARROW;

                return list->format.lines > rest ? list->format.lines - rest : 1;
        }
        return strcmp(o->verb->name, "top") == 0 ? TOP_LIMIT : 0;
}

static ExitCode print_round(const List *list, const Reading *previous, const Reading *reading) {
        Row row = { .facts = probe_facts(list->probe), .reading = reading, .previous = previous };
        Selection selection = {};
        bool json = option_given(list->options, OPTION_JSON);
        int r;

        r = selection_make(&selection, &row, list->state, list->sort, limit_of(list));
        if (r >= 0)
                r = json ? print_json(list, &selection, &row) : print_table(list, &selection, &row);
        if (r >= 0 && !json && !option_given(list->options, OPTION_NOHEADINGS))
                r = print_footer(list, &selection, &row);
        selection_done(&selection);

        return exit_from_output(r);
}

static ExitCode run_rounds(List *list) {
        _cleanup_(drop_reading) Reading *previous = NULL, *reading = NULL;
        const Options *o = list->options;
        unsigned flags = READING_RINGS;
        Watch watch;
        ExitCode code;

        if (o->watch_sec > 0 && watch_begin(&watch, o->watch_sec) < 0)
                return exit_complain(CTL_EXIT_FAILURE, "cannot take signals over: %s", strerror(errno));

        for (;;) {
                code = source_read(list->probe, flags, &reading);
                if (code != CTL_EXIT_OK)
                        return code;
                if (o->watch_sec > 0 && list->format.terminal) {
                        format_measure(&list->format);
                        if (list->format.redraws && !option_given(o, OPTION_JSON))
                                (void)fputs("\033[H\033[2J", stdout);
                }
                code = print_round(list, previous, reading);
                if (code != CTL_EXIT_OK)
                        return code;
                code = source_verdict(list->probe, reading);
                if (o->watch_sec == 0)
                        return code;

                /* Two censuses are kept, however long it runs. */
                (void)fflush(stdout);
                if (ferror(stdout) || !watch_wait(&watch))
                        return CTL_EXIT_OK;
                if (previous)
                        (void)reading_free(previous);
                previous = TAKE_PTR(reading);
        }
}

static ExitCode choose_columns(List *list) {
        const Options *o = list->options;
        ExitCode code;

        code = column_list_parse(o->columns ? o->columns : o->verb->default_columns, COLUMN_MEMCG, &list->columns);
        if (code != CTL_EXIT_OK)
                return code;
        /* Watching is for what changes: the change stands beside what it changed. */
        if (!o->columns && o->watch_sec > 0 && list->columns.n < COLUMNS_MAX) {
                size_t at = 0;

                while (at < list->columns.n && strcmp(list->columns.columns[at]->name, "OVERHEAD") != 0)
                        at++;
                memmove(list->columns.columns + at + 1, list->columns.columns + at,
                        (list->columns.n - at) * sizeof list->columns.columns[0]);
                list->columns.columns[at] = column_find("DELTA", strlen("DELTA"), COLUMN_MEMCG);
                list->columns.n++;
        }

        if (o->sort) {
                list->sort = column_find(o->sort, strlen(o->sort), COLUMN_MEMCG);
                if (!list->sort) {
                        Format ascii = {};
                        Text t = {};

                        text_add_name(&t, &ascii, o->sort, strlen(o->sort));
                        (void)exit_complain(CTL_EXIT_USAGE, "there is no column '%s' to sort by. 'shrinkwatchctl %s --help' lists them",
                                            text_get(&t), o->verb->name);
                        text_done(&t);
                        return CTL_EXIT_USAGE;
                }
        } else if (strcmp(o->verb->name, "top") == 0)
                list->sort = column_find("OVERHEAD", strlen("OVERHEAD"), COLUMN_MEMCG);
        return CTL_EXIT_OK;
}

ExitCode verb_list(const Options *options) {
        List list = { .options = options, .state = -1 };
        ExitCode code;

        if (option_given(options, OPTION_DYING))
                list.state = CENSUS_DYING;
        if (option_given(options, OPTION_LIVE))
                list.state = CENSUS_LIVE;
        format_detect(&list.format, option_given(options, OPTION_BYTES));

        code = choose_columns(&list);
        if (code != CTL_EXIT_OK)
                return code;
        code = source_open(&list.probe);
        if (code != CTL_EXIT_OK)
                return code;
        code = run_rounds(&list);
        (void)probe_free(list.probe);
        return code;
}
