/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tables on stdout: the only user of libsmartcols. */
#pragma once

#include "text.h"

typedef struct TableColumn {
        const char *name;
        bool right; /* aligned to the right */
        /*
         * How hard it holds on to its width when the terminal is too narrow: the column that is widest for its weight gives way first.
         * 0: never gives way.
         */
        unsigned weight;
        bool wrap; /* sentences: on a terminal, the last column of them is broken between words instead */
} TableColumn;

#define TABLE_WEIGHT_TEXT 1U
#define TABLE_WEIGHT_PATH 2U

typedef struct Table {
        const TableColumn *columns;
        size_t n_columns;
        size_t n_rows;
        bool noheadings;
        /*
         * Adds the text of a cell to an empty *ret. Returns 0 or a negative errno, which ends the table. Called more than once for a
         * row, but always along it: what a row needs can be kept until another row is asked for.
         */
        int (*cell)(void *userdata, size_t row, size_t column, const Format *format, Text *ret);
        /* The colour of a cell by libsmartcols' name, NULL for none. The function itself may be NULL. */
        const char *(*colour)(void *userdata, size_t row, size_t column);
        void *userdata;
} Table;

/*
 * Prints the table in pieces, so that memory does not grow with the number of rows. Returns 0, -EIO when stdout failed, another negative
 * errno. What does not fit the terminal is shortened in the columns that give way; without a terminal nothing ever is.
 */
int table_print(const Table *table, const Format *format);
