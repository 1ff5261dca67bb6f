/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "verb.h"

#include <stdio.h>

#include "column.h"

#define SELECTING \
        (OPTION_BIT(OPTION_DYING) | OPTION_BIT(OPTION_LIVE) | OPTION_BIT(OPTION_SORT) | OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_WATCH))
#define TABULAR (OPTION_BIT(OPTION_COLUMNS) | OPTION_BIT(OPTION_NOHEADINGS))

const Verb verbs[] = {
        {
                .name = "status",
                .help = "what shrinkwatchd knows of this host: the page to look at first",
                .run = verb_status,
        },
        {
                .name = "census",
                .help = "all memory cgroups, in the order of the tree",
                .accepts = SELECTING | TABULAR,
                .columns = COLUMN_MEMCG,
                .default_columns = "SERIAL,STATE,UNITS,OVERHEAD,SUBTREE,DYING,PATH",
                .run = verb_list,
        },
        {
                .name = "top",
                .help = "the 20 memory cgroups with most overhead",
                .accepts = SELECTING | TABULAR,
                .columns = COLUMN_MEMCG,
                .default_columns = "SERIAL,STATE,UNITS,OVERHEAD,SUBTREE,DYING,REFS,PINS,PATH",
                .run = verb_list,
        },
        {
                .name = "show",
                .argument = "PATH|SERIAL",
                .help = "one memory cgroup: whose, on which nodes, what pins it",
                .run = verb_show,
        },
        {
                .name = "creators",
                .help = "dying memory cgroups, grouped by who makes them",
                .accepts = TABULAR | OPTION_BIT(OPTION_LIMIT),
                .columns = COLUMN_GROUP,
                .default_columns = "COUNT,UNITS,OVERHEAD,CAUSES,PATTERN,ANCESTOR",
                .run = verb_creators,
        },
        {
                .name = "estimate",
                .help = "what other ways of allocating units would take",
                .accepts = OPTION_BIT(OPTION_MODEL) | OPTION_BIT(OPTION_MEMCGS),
                .run = verb_estimate,
        },
        {
                .name = "support",
                .help = "what this kernel can and cannot give, and why",
                .accepts = OPTION_BIT(OPTION_NOHEADINGS),
                .run = verb_support,
        },
        {
                .name = "config",
                .help = "what the configuration of shrinkwatchd says, and where",
                .accepts = OPTION_BIT(OPTION_NOHEADINGS) | OPTION_BIT(OPTION_FILE) | OPTION_BIT(OPTION_ROOT),
                .run = verb_config,
        },
        {
                .name = "monitor",
                .help = "what shrinkwatchd finds and what is over, as it happens",
                .refuses = OPTION_BIT(OPTION_DIRECT),
                .run = verb_monitor,
        },
        {
                .name = "watch",
                .argument = "PATH",
                .help = "one subtree as shrinkwatchd sees it, a line for each change",
                .refuses = OPTION_BIT(OPTION_DIRECT),
                .run = verb_watch,
        },
};
const size_t n_verbs = ELEMENTSOF(verbs);

const Verb *verb_find(const char *name) {
        for (size_t i = 0; i < n_verbs; i++)
                if (strcmp(verbs[i].name, name) == 0)
                        return verbs + i;
        return NULL;
}

static void print_options(unsigned accepts) {
        (void)printf("\nOptions:\n");
        for (int i = 0; i < _OPTION_MAX; i++) {
                const OptionSpec *s = option_specs + i;
                char left[64];

                if (!(accepts & OPTION_BIT(i)))
                        continue;
                (void)snprintf(left, sizeof left, "--%s%s%s", s->name, s->argument ? "=" : "", s->argument ? s->argument : "");
                (void)printf("  %c%c%c %-20s %s\n", s->letter ? '-' : ' ', s->letter ? s->letter : ' ', s->letter ? ',' : ' ', left,
                             s->help);
        }
}

static void print_columns(const Verb *verb) {
        (void)printf("\nColumns:\n");
        for (size_t i = 0; i < n_columns; i++)
                if (columns[i].kind & verb->columns)
                        (void)printf("  %-10s %s\n", columns[i].name, columns[i].help);
        (void)printf("\nBy default: %s\n", verb->default_columns);
}

static void print_program_help(void) {
        (void)printf("Usage: shrinkwatchctl [OPTION...] VERB\n\n"
                     "Shows the shrinker memory that memory cgroups hold and no limit sees, the dying\n"
                     "ones included.\n\nVerbs:\n");
        for (size_t i = 0; i < n_verbs; i++) {
                char left[64];

                (void)snprintf(left, sizeof left, "%s%s%s", verbs[i].name, verbs[i].argument ? " " : "",
                               verbs[i].argument ? verbs[i].argument : "");
                (void)printf("  %-17s %s\n", left, verbs[i].help);
        }
        print_options(~0U);
        (void)printf("\nExit status:\n");
        for (size_t i = 0; i < n_exit_meanings; i++)
                (void)printf("  %d  %s\n", (int)exit_meanings[i].code, exit_meanings[i].meaning);
        (void)printf("\n'shrinkwatchctl VERB --help' tells which options and columns a verb has.\n"
                     "See shrinkwatchctl(8).\n");
}

void verb_print_help(const Verb *verb) {
        if (!verb) {
                print_program_help();
                return;
        }
        (void)printf("Usage: shrinkwatchctl %s [OPTION...]%s%s\n\nPrints %s.\n", verb->name, verb->argument ? " " : "",
                     verb->argument ? verb->argument : "", verb->help);
        print_options(verb_options(verb));
        if (verb->columns)
                print_columns(verb);
}
