/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The configuration: shrinkwatchd.conf and its drop-ins, read by inih. One table (conf-table.c) has every key with its default, from which
 * the parser, `shrinkwatchctl config`, the shipped file and the manual page are checked.
 *
 * Where files are looked for, as systemd does: the first shrinkwatchd.conf of /etc/shrinkwatch, /run/shrinkwatch, /usr/local/lib/shrinkwatch, /usr/lib/shrinkwatch; then
 * all shrinkwatchd.conf.d/NAME.conf of these, in the order of their names; of the same name the one that is first in this list counts, and one that is
 * empty or a link to /dev/null hides the others. Later files win over earlier ones, and an empty value puts the default back.
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
        uint64_t timeout_usec;   /* TimeoutSec=30s: a census that takes longer is a failure of the watcher */
        /* [Events] */
        bool events;             /* Events=yes */
        uint64_t max_deaths;     /* DeathsMax=262144 */
        /* [Limits], see finding.h */
        FindingLimits limits;    /* its subtrees come from [Subtree PATTERN] sections */
        bool marks;              /* CgroupAttributes=yes: user.shrinkwatch.overhead of root-owned cgroups */
        /* [Metrics] */
        char *textfile;          /* TextFile=: NULL: none is written */
        /* [History] */
        bool history;            /* History=yes */
        uint64_t trend_usec;     /* TrendSec=1h */
} Conf;

typedef struct ConfMessage {
        char *file;
        unsigned line; /* 0: the whole file */
        char *text;    /* one sentence: what is wrong and what is done about it */
} ConfMessage;

/* Where a value in force comes from. */
typedef struct ConfOrigin {
        const char *section; /* "Limits"; for a subtree the whole heading, "Subtree machine.slice/ *" */
        const char *key;
        char *value;       /* as in the file, or the default in its canonical form */
        const char *file;  /* NULL: the default */
        unsigned line;
} ConfOrigin;

typedef struct ConfResult {
        Conf conf;
        ConfMessage *messages; /* warnings, in the order of files and lines */
        size_t n_messages;
        ConfOrigin *origins; /* every key in the order of the table, then subtrees */
        size_t n_origins;
        char **files; /* what was read, in that order */
        size_t n_files;
        bool failed; /* a file could not be read or is no configuration at all: not to be used for a reload */
} ConfResult;

typedef struct ConfPaths {
        const char *root;        /* prefix of the directories, "" on a host; tests have their own */
        const char *file;        /* NULL: looked for as above; else this file alone, without drop-ins */
        uint64_t memory_bytes;   /* what percentages of memory are of */
} ConfPaths;

/* Always gives a whole configuration, on any input, unless memory is out (-ENOMEM). Bad keys and values are messages. 0. */
int conf_load(ConfResult **ret, const ConfPaths *paths);
ConfResult *conf_free(ConfResult *r);
DEFINE_CLEANUP(ConfResult, conf_free)

/* The parsers of values, with nothing around them. 0, -EINVAL, -ERANGE. */
int conf_parse_span(const char *s, uint64_t *ret_usec);  /* "5min", "1h 30min", "90" (seconds), "infinity" (UINT64_MAX): systemd.time(7) */
int conf_parse_bytes(const char *s, uint64_t memory_bytes, uint64_t *ret); /* "2G", "512K" (1024), "10%" of memory, "infinity" */
int conf_parse_bool(const char *s, bool *ret);           /* as systemd: yes, no, 1, 0, true, false, on, off, t, f, y, n; any case */
int conf_parse_share(const char *s, uint64_t *ret_ppm);  /* "0.5%", "5‰", "50‱" */
int conf_parse_count(const char *s, uint64_t *ret);      /* decimal */
