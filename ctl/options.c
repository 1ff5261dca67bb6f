/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

#include <getopt.h>
#include <stdio.h>

#include "config.h"
#include "text.h"
#include "verb.h"

/* A day: longer waits are a timer's work. A million lines: more than anyone reads, 0 prints all. */
#define WATCH_SEC_MAX 86400U
#define LIMIT_MAX 1000000U

const OptionSpec option_specs[_OPTION_MAX] = {
        [OPTION_DYING] = { "dying", 'd', NULL, "only dying memory cgroups" },
        [OPTION_LIVE] = { "live", 'l', NULL, "only live memory cgroups" },
        [OPTION_SORT] = { "sort", 's', "COLUMN", "sort by this column" },
        [OPTION_LIMIT] = { "limit", 'n', "N", "print at most N lines, 0 for all" },
        [OPTION_WATCH] = { "watch", 'w', "SEC", "do it again every SEC seconds, with what changed" },
        [OPTION_COLUMNS] = { "columns", 'o', "LIST", "columns to print, separated by commas" },
        [OPTION_NOHEADINGS] = { "noheadings", 'H', NULL, "print neither headings nor totals" },
        [OPTION_MODEL] = { "model", 'm', "LIST", "estimate for memcgs=N,nodes=N,ids=N instead of this host" },
        [OPTION_MEMCGS] = { "memcgs", 0, NULL, "estimate by class of memory cgroup too, in JSON for each" },
        [OPTION_FILE] = { "file", 0, "PATH", "read this file of configuration alone" },
        [OPTION_ROOT] = { "root", 0, "DIR", "look for files of configuration below DIR" },
        [OPTION_BYTES] = { "bytes", 'b', NULL, "print sizes in bytes, not in K, M, G" },
        [OPTION_JSON] = { "json", 'J', NULL, "print JSON" },
        [OPTION_DIRECT] = { "direct", 0, NULL, "read the kernel itself, do not ask shrinkwatchd" },
        [OPTION_HELP] = { "help", 'h', NULL, "print this help; after a verb, the help of the verb" },
        [OPTION_VERSION] = { "version", 'V', NULL, "print the version" },
};

#define LONG_BASE 256 /* values of long options, out of the way of letters */

static void make_getopt(char ret_short[2 * _OPTION_MAX + 3], struct option ret_long[_OPTION_MAX + 1]) {
        char *p = ret_short;

        /* Nothing printed by getopt itself, and a missing argument told apart. Options may stand behind the verb. */
        *p++ = ':';
        for (int i = 0; i < _OPTION_MAX; i++) {
                const OptionSpec *s = option_specs + i;

                ret_long[i] = (struct option){ s->name, s->argument ? required_argument : no_argument, NULL, LONG_BASE + i };
                if (!s->letter)
                        continue;
                *p++ = s->letter;
                if (s->argument)
                        *p++ = ':';
        }
        *p = '\0';
        ret_long[_OPTION_MAX] = (struct option){};
}

static OptionId option_from_getopt(int c) {
        if (c >= LONG_BASE)
                return (OptionId)(c - LONG_BASE);
        for (int i = 0; i < _OPTION_MAX; i++)
                if (option_specs[i].letter == c)
                        return (OptionId)i;
        return _OPTION_MAX;
}

static ExitCode usage(const char *what) {
        return exit_complain(CTL_EXIT_USAGE, "%s. Try 'shrinkwatchctl --help'", what);
}

/* What getopt could not take. optopt: the letter, our number of the long option, or 0 when it is no option of ours. */
static ExitCode bad_option(int c, char *argv[]) {
        Format format = {};
        Text t = {};
        ExitCode code;

        if (c == ':') {
                OptionId id = option_from_getopt(optopt);

                text_add(&t, "option --%s needs a value", id < _OPTION_MAX ? option_specs[id].name : "?");
        } else if (optopt >= LONG_BASE)
                text_add(&t, "option --%s takes no value", option_specs[optopt - LONG_BASE].name);
        else if (optopt > 0) {
                char letter = (char)optopt;

                text_add_string(&t, "unknown option -");
                text_add_name(&t, &format, &letter, 1);
        } else {
                /* An unknown or ambiguous long option: optind has just passed it. */
                const char *word = argv[optind - 1];

                text_add_string(&t, "unknown option ");
                text_add_name(&t, &format, word, strlen(word));
        }
        code = usage(text_get(&t));
        text_done(&t);
        return code;
}

static ExitCode bad_number(OptionId id, const char *value, uint64_t min, uint64_t max) {
        Format format = {};
        Text t = {};

        text_add_name(&t, &format, value, strlen(value));
        (void)exit_complain(CTL_EXIT_USAGE, "--%s takes a whole number from %llu to %llu, not '%s'", option_specs[id].name,
                            (unsigned long long)min, (unsigned long long)max, text_get(&t));
        text_done(&t);
        return CTL_EXIT_USAGE;
}

static ExitCode take_value(Options *o, OptionId id, const char *value) {
        switch (id) {
        case OPTION_SORT:
                o->sort = value;
                break;
        case OPTION_COLUMNS:
                o->columns = value;
                break;
        case OPTION_MODEL:
                o->model = value;
                break;
        case OPTION_FILE:
                o->file = value;
                break;
        case OPTION_ROOT:
                o->root = value;
                break;
        case OPTION_LIMIT:
                if (text_parse_u64(value, 0, LIMIT_MAX, &o->limit) < 0)
                        return bad_number(id, value, 0, LIMIT_MAX);
                break;
        case OPTION_WATCH:
                if (text_parse_u64(value, 1, WATCH_SEC_MAX, &o->watch_sec) < 0)
                        return bad_number(id, value, 1, WATCH_SEC_MAX);
                break;
        default:
                break;
        }
        o->given |= OPTION_BIT(id);
        return CTL_EXIT_OK;
}

/* What stands on the line fits together, and with the verb. */
static ExitCode check(const Options *o, const Verb *verb) {
        unsigned strange = o->given & ~verb_options(verb);

        if (strange)
                return exit_complain(CTL_EXIT_USAGE, "--%s does not apply to '%s'. Try 'shrinkwatchctl %s --help'",
                                     option_specs[__builtin_ctz(strange)].name, verb->name, verb->name);
        if (option_given(o, OPTION_DYING) && option_given(o, OPTION_LIVE))
                return exit_complain(CTL_EXIT_USAGE, "--dying and --live exclude each other. Leave both out to see all");
        if (option_given(o, OPTION_MEMCGS) && option_given(o, OPTION_MODEL))
                return exit_complain(CTL_EXIT_USAGE, "--memcgs and --model exclude each other: a model has no memory cgroups to tell apart");
        if (option_given(o, OPTION_FILE) && option_given(o, OPTION_ROOT))
                return exit_complain(CTL_EXIT_USAGE, "--file and --root exclude each other: a file is not looked for");
        if (verb->argument && !(o->argument && o->argument[0]))
                return exit_complain(CTL_EXIT_USAGE, "'%s' needs %s", verb->name, verb->argument);
        return CTL_EXIT_OK;
}

/* CTL_EXIT_OK: o->verb is there. */
static ExitCode take_words(Options *o, int n, char *words[]) {
        Format format = {};
        Text t = {};
        ExitCode code = CTL_EXIT_OK;

        if (n == 0)
                return usage("a verb is missing");

        o->verb = verb_find(words[0]);
        if (!o->verb) {
                text_add_string(&t, "unknown verb '");
                text_add_name(&t, &format, words[0], strlen(words[0]));
                text_add_string(&t, "'");
                code = usage(text_get(&t));
        } else if (n > 2 || (n > 1 && !o->verb->argument)) {
                const char *extra = words[o->verb->argument ? 2 : 1];

                text_add_string(&t, "'");
                text_add_name(&t, &format, extra, strlen(extra));
                text_add(&t, "' is one word too many for '%s'", o->verb->name);
                code = usage(text_get(&t));
        } else if (n > 1)
                o->argument = words[1];
        text_done(&t);
        return code;
}

ExitCode options_parse(int argc, char *argv[], Options *ret, bool *ret_done) {
        char letters[2 * _OPTION_MAX + 3];
        struct option longs[_OPTION_MAX + 1];
        Options o = {};
        ExitCode code;
        int c;

        *ret_done = false;
        make_getopt(letters, longs);
        while ((c = getopt_long(argc, argv, letters, longs, NULL)) >= 0) {
                if (c == '?' || c == ':')
                        return bad_option(c, argv);
                code = take_value(&o, option_from_getopt(c), optarg);
                if (code != CTL_EXIT_OK)
                        return code;
        }

        if (option_given(&o, OPTION_VERSION)) {
                (void)printf("shrinkwatchctl %s\n", PACKAGE_VERSION);
                *ret_done = true;
                return CTL_EXIT_OK;
        }
        if (option_given(&o, OPTION_HELP)) {
                const Verb *verb = optind < argc ? verb_find(argv[optind]) : NULL;

                if (optind < argc && !verb)
                        return take_words(&o, argc - optind, argv + optind);
                verb_print_help(verb);
                *ret_done = true;
                return CTL_EXIT_OK;
        }

        code = take_words(&o, argc - optind, argv + optind);
        if (code != CTL_EXIT_OK || !o.verb)
                return code;
        code = check(&o, o.verb);
        if (code != CTL_EXIT_OK)
                return code;
        *ret = o;
        return CTL_EXIT_OK;
}
