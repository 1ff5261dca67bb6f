/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdio.h>

/* Rows that are in memory at once. */
#define PIECE 512U
/* Columns of the screen that a column keeps for each of its weight: less tells nothing. */
#define SHORTENED_MIN 9U

static void drop_scols(struct libscols_table **t) {
        scols_unref_table(*t);
}

/* Columns of the screen that each column of the table needs. */
static int measure(const Table *table, const Format *format, size_t *widths) {
        Text t = {};
        int r = 0;

        for (size_t k = 0; k < table->n_columns; k++)
                widths[k] = table->noheadings ? 1 : text_width(table->columns[k].name);
        for (size_t i = 0; r >= 0 && i < table->n_rows; i++)
                for (size_t k = 0; r >= 0 && k < table->n_columns; k++) {
                        size_t w;

                        text_clear(&t);
                        r = table->cell(table->userdata, i, k, format, &t);
                        w = text_width(text_get(&t));
                        if (w > widths[k])
                                widths[k] = w;
                }
        if (t.failed)
                r = -ENOMEM;
        text_done(&t);
        return r < 0 ? r : 0;
}

/* Takes what is too much from the columns that give way, one by one from the widest for its weight, down to a width that still tells. */
static void fit(const Table *table, const Format *format, size_t *widths) {
        size_t total = table->n_columns - 1;

        if (!format->terminal)
                return;
        for (size_t k = 0; k < table->n_columns; k++)
                total += widths[k];

        while (total > format->width) {
                size_t widest = SIZE_MAX;

                for (size_t k = 0; k < table->n_columns; k++) {
                        unsigned weight = table->columns[k].weight;

                        if (weight == 0 || widths[k] <= SHORTENED_MIN * weight)
                                continue;
                        if (widest == SIZE_MAX || widths[k] * table->columns[widest].weight > widths[widest] * weight)
                                widest = k;
                }
                if (widest == SIZE_MAX)
                        return; /* the terminal has to break the lines */
                widths[widest]--;
                total--;
        }
}

/* Columns of the screen for sentences in the last column, when they are to be broken there; 0 when not. */
static size_t wrap_width(const Table *table, const Format *format, const size_t *widths) {
        size_t last = table->n_columns - 1, others = 0;

        if (!table->columns[last].wrap || !format->terminal)
                return 0;
        for (size_t k = 0; k < last; k++)
                others += widths[k] + 1;
        return format->width >= others + SHORTENED_MIN ? format->width - others : 0;
}

static int make_columns(struct libscols_table *t, const Table *table, const Format *format, const size_t *widths) {
        for (size_t k = 0; k < table->n_columns; k++) {
                const TableColumn *c = table->columns + k;
                /* The last one needs no room behind its text. */
                double width = k + 1 < table->n_columns || c->right ? (double)widths[k] : 0.0;
                bool wrap = k + 1 == table->n_columns && wrap_width(table, format, widths) > 0;
                struct libscols_column *column =
                        scols_table_new_column(t, c->name, width,
                                               (c->right ? SCOLS_FL_RIGHT : 0) | (wrap ? SCOLS_FL_WRAP : 0) | SCOLS_FL_NOEXTREMES);

                if (!column)
                        return -ENOMEM;
                if (wrap && scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL) < 0)
                        return -ENOMEM;
                if (format->colour && scols_cell_set_color(scols_column_get_header(column), "bold") < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int add_row(struct libscols_table *t, const Table *table, const Format *format, const size_t *widths, size_t row, Text *cell,
                   Text *shortened) {
        struct libscols_line *line = scols_table_new_line(t, NULL);
        size_t wrap = wrap_width(table, format, widths);

        if (!line)
                return -ENOMEM;
        for (size_t k = 0; k < table->n_columns; k++) {
                const char *colour = format->colour && table->colour ? table->colour(table->userdata, row, k) : NULL;
                int r;

                text_clear(cell);
                r = table->cell(table->userdata, row, k, format, cell);
                if (r < 0)
                        return r;
                text_clear(shortened);
                if (k + 1 == table->n_columns && wrap > 0)
                        text_add_wrapped(shortened, text_get(cell), wrap);
                else if (table->columns[k].weight > 0 && format->terminal)
                        text_add_shortened(shortened, format, text_get(cell), widths[k], table->columns[k].weight == TABLE_WEIGHT_PATH);
                if (cell->failed || shortened->failed)
                        return -ENOMEM;
                r = scols_line_set_data(line, k, text_get(shortened->len > 0 ? shortened : cell));
                if (r >= 0 && colour)
                        r = scols_cell_set_color(scols_line_get_cell(line, k), colour);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int print_pieces(struct libscols_table *t, const Table *table, const Format *format, const size_t *widths, Text *cell,
                        Text *shortened) {
        for (size_t i = 0; i < table->n_rows || i == 0;) {
                size_t end = i + PIECE < table->n_rows ? i + PIECE : table->n_rows;
                bool first = i == 0;
                int r;

                for (; i < end; i++) {
                        r = add_row(t, table, format, widths, i, cell, shortened);
                        if (r < 0)
                                return r;
                }
                if (!first && (r = scols_table_enable_noheadings(t, 1)) < 0)
                        return r;
                /* An empty table prints nothing at all, not even headings: the totals beneath say that there is nothing. */
                r = scols_print_table(t);
                if (r < 0)
                        return r;
                if (ferror(stdout))
                        return -EIO;
                if (end == table->n_rows)
                        break;
                scols_table_remove_lines(t);
        }
        return 0;
}

int table_print(const Table *table, const Format *format) {
        _cleanup_(drop_scols) struct libscols_table *t = NULL;
        _cleanup_(freep) size_t *widths = calloc(table->n_columns + 1, sizeof *widths);
        Text cell = {}, shortened = {};
        int r;

        if (!widths)
                return -ENOMEM;
        r = measure(table, format, widths);
        if (r < 0)
                return r;
        fit(table, format, widths);

        t = scols_new_table();
        if (!t)
                return -ENOMEM;
        r = scols_table_set_stream(t, stdout);
        /* Widths are decided here, and names are escaped already: a literal backslash must come out as it is. */
        if (r >= 0)
                r = scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
        if (r >= 0)
                r = scols_table_enable_noencoding(t, 1);
        if (r >= 0)
                r = scols_table_enable_noheadings(t, table->noheadings);
        if (r >= 0)
                r = scols_table_enable_colors(t, format->colour);
        if (r >= 0)
                r = make_columns(t, table, format, widths);
        if (r >= 0)
                r = print_pieces(t, table, format, widths, &cell, &shortened);
        text_done(&cell);
        text_done(&shortened);
        return r;
}
