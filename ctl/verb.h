/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The verbs: one table, which the parser, the help and the tests read. */
#pragma once

#include "exit.h"
#include "options.h"

struct Verb {
        const char *name;
        const char *argument; /* "PATH|SERIAL" when the verb takes one, which it then needs */
        const char *help;     /* one line */
        unsigned accepts;     /* OPTION_BIT()s beyond the common ones */
        unsigned refuses;     /* common ones that make no sense for it */
        unsigned columns;     /* COLUMN_MEMCG, COLUMN_GROUP: kinds of columns it can show, 0 for none */
        const char *default_columns;
        ExitCode (*run)(const Options *options);
};

extern const Verb verbs[];
extern const size_t n_verbs;

/* All that it takes. */
static inline unsigned verb_options(const Verb *verb) {
        return (OPTION_COMMON | verb->accepts) & ~verb->refuses;
}

const Verb *verb_find(const char *name);
/* Verb: its own help; NULL: that of the program. */
void verb_print_help(const Verb *verb);

ExitCode verb_list(const Options *options); /* census, top */
ExitCode verb_show(const Options *options);
ExitCode verb_creators(const Options *options);
ExitCode verb_estimate(const Options *options);
ExitCode verb_support(const Options *options);
ExitCode verb_config(const Options *options);
ExitCode verb_status(const Options *options);
ExitCode verb_monitor(const Options *options);
ExitCode verb_watch(const Options *options);
