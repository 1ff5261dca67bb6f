/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The options: one table, and the strict reading of a command line by it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exit.h"

typedef struct Verb Verb;

typedef enum OptionId {
        OPTION_DYING,
        OPTION_LIVE,
        OPTION_SORT,
        OPTION_LIMIT,
        OPTION_WATCH,
        OPTION_COLUMNS,
        OPTION_NOHEADINGS,
        OPTION_MODEL,
        OPTION_MEMCGS,
        OPTION_FILE,
        OPTION_ROOT,
        OPTION_BYTES,
        OPTION_JSON,
        OPTION_DIRECT,
        OPTION_HELP,
        OPTION_VERSION,
        _OPTION_MAX,
} OptionId;

#define OPTION_BIT(id) (1U << (id))
#define OPTION_COMMON                                                                                               \
        (OPTION_BIT(OPTION_BYTES) | OPTION_BIT(OPTION_JSON) | OPTION_BIT(OPTION_DIRECT) | OPTION_BIT(OPTION_HELP) | \
         OPTION_BIT(OPTION_VERSION))

typedef struct OptionSpec {
        const char *name; /* long */
        char letter;      /* short, 0 for none */
        const char *argument;
        const char *help;
} OptionSpec;

/* Indexed by OptionId. */
extern const OptionSpec option_specs[_OPTION_MAX];

typedef struct Options {
        const Verb *verb;
        const char *argument; /* of the verb */
        unsigned given;       /* OPTION_BIT()s */
        const char *columns, *sort, *model, *file, *root;
        uint64_t limit;     /* 0: all */
        uint64_t watch_sec; /* 0: once */
} Options;

static inline bool option_given(const Options *o, OptionId id) {
        return o->given & OPTION_BIT(id);
}

/*
 * Reads the command line. Returns CTL_EXIT_OK with *ret filled, or CTL_EXIT_USAGE after complaining. *ret_done: help or the version
 * was asked for and printed, there is nothing left to do.
 */
ExitCode options_parse(int argc, char *argv[], Options *ret, bool *ret_done);
