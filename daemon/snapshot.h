/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The snapshot: what is known after a census. Journal, bus and metrics tell from it, so that they tell the same. Everything is borrowed from
 * the manager and constant until the next census.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ages.h"
#include "events.h"
#include "finding.h"
#include "history.h"
#include "probe.h"
#include "rates.h"
#include "reading.h"

typedef struct Snapshot {
        const ProbeFacts *facts;
        const Reading *reading; /* NULL before the first census */
        const Ages *ages;
        const Findings *findings;
        const History *history;     /* NULL: none is kept */
        const Rates *rates;         /* events since the census before */
        HistoryTrend overhead_trend, dying_trend; /* over the last hour */
        uint64_t memory_bytes;   /* MemTotal */
        uint64_t host_limit_bytes; /* HostOn=; UINT64_MAX: there is none */
        uint64_t boot_usec;      /* CLOCK_BOOTTIME when the last good census began */
        uint64_t time_usec;      /* CLOCK_REALTIME of the same */
        uint64_t interval_usec;  /* until the next one, as it is now */
        uint64_t started_usec;   /* CLOCK_REALTIME of the start of this daemon */
        uint64_t censuses, censuses_failed, censuses_incomplete;
        bool events_known;
        EventsCounts events;
        uint64_t cpu_usec;       /* of this process, since its start */
        const char *degraded;    /* for people; NULL: nothing is */
} Snapshot;
