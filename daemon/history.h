/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * History: totals of each census, and who held most, in two bounded rings on disk: every census of about a day, and one an hour of about three
 * months. The trend is computed from it. The file is a cache of facts, not a contract: its form is private, and stands in history-file.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util.h"

#define HISTORY_TOP 8
#define HISTORY_NAME_MAX 88

/* One creator or subtree among the largest. */
typedef struct HistoryTop {
        char name[HISTORY_NAME_MAX]; /* escaped for people, cut with "…" at the end where it is longer; "" from the first unused one on */
        uint64_t memcgs;
        uint64_t bytes; /* overhead */
} HistoryTop;

enum {
        HISTORY_IDS_IN_USE = 1U << 0, /* ids_in_use */
        HISTORY_UNITS = 1U << 1,      /* units: not on flat kernels */
        HISTORY_EVENTS = 1U << 2,     /* created, removed, released */
        HISTORY_COMPLETE = 1U << 3,   /* the census was */
        HISTORY_SETTLED = 1U << 4,
};

typedef struct HistorySample {
        uint64_t time_usec; /* CLOCK_REALTIME when the census began */
        uint64_t boot_usec; /* CLOCK_BOOTTIME */
        uint64_t boot;      /* hash of the boot id: history_boot() */
        uint64_t valid;     /* HISTORY_* */
        uint64_t memcgs, live, dying;
        uint64_t units;
        uint64_t overhead_bytes, dying_bytes;
        uint64_t ids, ids_in_use;
        uint64_t memory_bytes;               /* MemTotal */
        uint64_t created, removed, released; /* since the sample before; of this daemon's events */
        uint64_t census_usec;                /* what it took */
        uint64_t findings;                   /* that stood after it */
        HistoryTop creators[HISTORY_TOP];    /* of dying memcgs, most bytes first */
        HistoryTop subtrees[HISTORY_TOP];    /* live ones: units, slices, containers; most bytes first */
} HistorySample;

uint64_t history_boot(const char *boot_id);

typedef enum HistoryRing {
        HISTORY_FINE,   /* every census: 1,440 */
        HISTORY_COARSE, /* the first of each hour: 2,160 */
        _HISTORY_RING_MAX,
} HistoryRing;

typedef struct History History;

/*
 * Opens or makes the file below this directory. A file of another form, or one that is damaged beyond use, is put aside as "history.bad" and a new one
 * made; *ret_note (may be NULL) then says so in a sentence, to be freed. A record that is damaged is left out, not an error. Room for the whole
 * file is taken at once, so that a disk which fills up later takes nothing from us.
 * 0; a negative errno: the file cannot be had (-EAGAIN: another process has it), history is then kept in memory only, and *ret is good all the same.
 * -ENOMEM: *ret is not.
 */
int history_new(History **ret, int dirfd, char **ret_note);
History *history_free(History *h);
DEFINE_CLEANUP(History, history_free)

/* Appends to the fine ring, and to the coarse one when the hour of boot time or the boot is another than that of its last. 0; a negative errno of writing: it is in memory. */
int history_append(History *h, const HistorySample *sample);
/* Samples in the ring, oldest first: 0 … n - 1. */
size_t history_count(const History *h, HistoryRing ring);
const HistorySample *history_get(const History *h, HistoryRing ring, size_t i);

typedef enum HistoryField {
        HISTORY_FIELD_OVERHEAD, /* overhead_bytes */
        HISTORY_FIELD_DYING,    /* dying */
        HISTORY_FIELD_IDS,      /* ids */
} HistoryField;

typedef struct HistoryTrend {
        bool known;          /* at least HISTORY_TREND_SAMPLES of them over a quarter of the window */
        double per_hour;     /* slope of the least-squares line */
        uint64_t span_usec;  /* from the first to the last sample used */
        size_t samples;
        uint64_t last_value; /* of the newest sample */
} HistoryTrend;

#define HISTORY_TREND_SAMPLES 5

/* Over the samples of this boot and complete censuses of the last window_usec before now_boot_usec; the fine ring, or the coarse one for windows that it does not cover. */
void history_trend(const History *h, HistoryField field, uint64_t boot, uint64_t now_boot_usec, uint64_t window_usec, HistoryTrend *ret);
/* When the line reaches this value: usec from the newest sample on. False: never, or the trend is not known. 0: it is there already. */
bool history_project(const HistoryTrend *trend, uint64_t value, uint64_t *ret_usec);
