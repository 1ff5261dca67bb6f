/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The configuration: shrinkwatchd.conf and its drop-ins, read by inih. One table (conf-table.c) has every key with its default, from which
 * the parser, `shrinkwatchctl config`, the shipped file and the manual page are checked.
 *
 * Where files are looked for, as systemd does: the first shrinkwatchd.conf of /etc/shrinkwatch, /run/shrinkwatch, /usr/local/lib/shrinkwatch,
 * /usr/lib/shrinkwatch; then all shrinkwatchd.conf.d/NAME.conf of these, in the order of their names; of the same name the one that is
 * first in this list counts, and one that is empty or a link to /dev/null hides the others. Later files win over earlier ones, and an
 * empty value puts the default back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "finding.h"
#include "util.h"

typedef struct Conf {
        /* [Census] */
        uint64_t interval_usec;  /* IntervalSec=60s */
        uint64_t cpu_share_ppm;  /* CPUShare=0.5%: millionths of one CPU; 0: no bound */
        /* [Events] */
        bool events;             /* Events=yes */
        uint64_t max_deaths;     /* DeathsMax=262144 */
        /* [Limits], see finding.h */
        FindingLimits limits;    /* its subtrees come from [Subtree PATTERN] sections */
        bool marks;              /* CgroupAttributes=yes: user.shrinkwatch.overhead of root-owned cgroups */
        /* [Metrics] */
        char *textfile;          /* TextFile=: NULL: in the runtime directory, if there is one; "/dev/null": none is written */
        /* [Bus] */
        bool bus;                /* Bus=yes */
        char *watch;             /* WatchSubtrees=: patterns of paths, a blank between two */
        /* [History] */
        bool history;            /* History=yes */
        uint64_t trend_usec;     /* TrendSec=1h */
} Conf;

/* ----------------------------------------------------------------------------------------------------------- the table */

typedef enum ConfType {
        CONF_BOOL,
        CONF_COUNT,
        CONF_BYTES,
        CONF_SPAN,
        CONF_SHARE,
        CONF_PATH,
        CONF_PATTERNS,
} ConfType;

typedef struct ConfKey {
        const char *section; /* "Subtree" for the keys of [Subtree PATTERN] */
        const char *key;
        const char *value;   /* the default in its canonical form; "": none, and of a subtree's keys that of [Limits] */
        const char *takes;   /* "a time span from 1s to 1d" */
        const char *help;    /* a sentence or two */
        ConfType type;
        bool infinity;       /* takes "infinity", UINT64_MAX */
        uint64_t min, max;   /* of any other number */
        size_t offset;       /* in Conf, or in FindingSubtree: bool, uint64_t, or char * by its type */
} ConfKey;

/* All keys in the order of the shipped file, those of a subtree last. */
const ConfKey *conf_keys(size_t *ret_n);

/* ------------------------------------------------------------------------------------------------------------- loading */

typedef struct ConfMessage {
        char *file;
        unsigned line; /* 0: the whole file */
        char *text;    /* a sentence or two: what is wrong and what is done about it; printable, whatever the file holds */
} ConfMessage;

/* Where a value in force comes from. */
typedef struct ConfOrigin {
        const char *section; /* "Limits", "Subtree" */
        const char *pattern; /* of a subtree, raw; else NULL */
        const char *key;
        char *value;         /* as in the file, raw, or the default in its canonical form */
        const char *file;    /* NULL: the default */
        unsigned line;
} ConfOrigin;

/* So much of a configuration that is no configuration is listed, and so many subtrees are watched; a message says that there was more. */
#define CONF_MESSAGES_MAX 256U
#define CONF_SUBTREES_MAX 256U
#define CONF_FILE_BYTES_MAX (1024U * 1024U)

typedef struct ConfResult {
        Conf conf;
        ConfMessage *messages; /* warnings, in the order of files and lines */
        size_t n_messages;
        ConfOrigin *origins; /* every key in the order of the table, then those of each subtree */
        size_t n_origins;
        char **files; /* what was read, in that order; empty ones, which only hide others, are not among them */
        size_t n_files;
        bool failed; /* a file could not be read or is no configuration at all; strict: there is a message. Not to be used for a reload */
} ConfResult;

typedef struct ConfPaths {
        const char *root;        /* prefix of the directories, "" on a host; tests have their own */
        const char *file;        /* NULL: looked for as above; else this file alone, without drop-ins */
        uint64_t memory_bytes;   /* what percentages of memory are of: conf_memory_bytes(); 0: not known, limits by percentage are off */
        bool strict;             /* anything to complain about is failed: for who has a configuration to stay with */
} ConfPaths;

/*
 * Always gives a whole configuration, on any input, unless memory is out (-ENOMEM). Bad keys and values are messages: what was in force before
 * them stays. A thing that is no regular file is not waited for.
 *
 * An Off= above its On= is a message, and On= is used for both; where Off= is not set, On= is used without one when it is below the default.
 * "infinity" as On= or as MinAgeSec= turns the limit off. What a subtree does not set is that of [Limits] (SubtreeOn= and so on).
 */
int conf_load(ConfResult **ret, const ConfPaths *paths);
ConfResult *conf_free(ConfResult *r);
DEFINE_CLEANUP(ConfResult, conf_free)

/* MemTotal of this machine. */
uint64_t conf_memory_bytes(void);

/* ------------------------------------------------------------------------------------------------------------- parsing */

/*
 * The parsers of values, with nothing around them. 0, -EINVAL, -ERANGE: too large, or negative. Not of any locale.
 */

/* systemd.time(7): "5min", "1h 30min", "1.5h", "90" (seconds), "infinity" (UINT64_MAX). */
int conf_parse_span(const char *s, uint64_t *ret_usec);
/* "2G", "1.5G", "1G 512M" (K, M, G, T, P, E of 1024; B), up to INT64_MAX; "10%" of memory, rounded down; "infinity" (UINT64_MAX). */
int conf_parse_bytes(const char *s, uint64_t memory_bytes, uint64_t *ret);
/* As systemd: yes, no, 1, 0, true, false, on, off, t, f, y, n; any case. */
int conf_parse_bool(const char *s, bool *ret);
/* "0.5%", "5‰", "50‱"; up to 100%; millionths, finer is -EINVAL. */
int conf_parse_share(const char *s, uint64_t *ret_ppm);
/* Decimal digits. */
int conf_parse_count(const char *s, uint64_t *ret);
