/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The columns: one table, which the tables, the sorting, the help, JSON and the tests read. */
#pragma once

#include "daemon/identity.h"
#include "daemon/reading.h"
#include "exit.h"
#include "daemon/group.h"
#include "text.h"

/* What a row is about. */
typedef enum ColumnKind {
        COLUMN_MEMCG = 1U << 0,
        COLUMN_GROUP = 1U << 1,
} ColumnKind;

/* One line: a memcg, or a group of dying ones. What is dear to find out is kept from column to column. */
typedef struct Row {
        const ProbeFacts *facts;
        const Reading *reading;
        const Reading *previous; /* NULL: nothing to compare with */
        uint32_t memcg;
        const Group *group; /* for COLUMN_GROUP */

        char *path; /* raw; of the memcg, or of the group's ancestor */
        size_t path_len;
        bool identified;
        Identity identity;
} Row;

void row_done(Row *row);
/* 0 or -ENOMEM; afterwards path is there. */
int row_need_path(Row *row);

typedef enum ColumnType {
        COLUMN_NUMBER,
        COLUMN_SIZE,  /* bytes */
        COLUMN_DELTA, /* bytes with a sign */
        COLUMN_STRING,
        COLUMN_PATH, /* a string that gives way last when the terminal is too narrow */
} ColumnType;

typedef struct Column {
        const char *name; /* heading, and what the command line says */
        const char *help;
        unsigned kind;
        ColumnType type;
        /* Numbers, sizes, deltas: the value. False: not known, printed "-", and last in every order. */
        bool (*value)(const Row *row, uint64_t *ret);
        /* Strings and paths: the text. Nothing added: "-". */
        int (*string)(Row *row, const Format *format, Text *ret);
        const char *json; /* members of the JSON object that say the same, separated by commas; NULL: none */
} Column;

extern const Column columns[];
extern const size_t n_columns;

const Column *column_find(const char *name, size_t len, ColumnKind kind);
/* Adds the text of one cell. 0 or -ENOMEM. */
int column_add_text(const Column *column, Row *row, const Format *format, Text *ret);

/* How the column gives way on a narrow terminal, as a TableColumn has it. */
unsigned column_weight(const Column *column);

#define COLUMNS_MAX 64

typedef struct ColumnList {
        const Column *columns[COLUMNS_MAX];
        size_t n;
} ColumnList;

/* "SERIAL,path" → list; letters of either size. CTL_EXIT_OK, or CTL_EXIT_USAGE after complaining. */
ExitCode column_list_parse(const char *text, ColumnKind kind, ColumnList *ret);
bool column_list_has(const ColumnList *list, const char *name);
