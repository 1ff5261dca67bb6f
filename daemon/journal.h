/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The journal: one structured entry for each change of state, with a MESSAGE_ID that the catalog explains (units/shrinkwatch.catalog). Without a
 * journal the messages go to stderr as lines.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "snapshot.h"
#include "storm.h"
#include "util.h"

/* Every entry the daemon makes. The MESSAGE_IDs stand in journal.c, and a test compares them with the catalog. */
typedef enum JournalMessage {
        /* findings: one message for each FindingKind raised, one for all that are cleared */
        JOURNAL_WRITEBACK,
        JOURNAL_SWAP,
        JOURNAL_SUBTREE,
        JOURNAL_HOST,
        JOURNAL_DYING,
        JOURNAL_DYING_GROWTH,
        JOURNAL_STRANDED,
        JOURNAL_MEMCG_IDS,
        JOURNAL_DEGRADED,
        JOURNAL_CLEARED,
        JOURNAL_STORM,      /* begins, goes on, ends */
        JOURNAL_MORE,       /* entries were left out */
        /* the daemon itself */
        JOURNAL_STARTED,    /* with the headline figures of the first census, what was adopted, what is not available */
        JOURNAL_STOPPED,
        JOURNAL_RELOADED,
        JOURNAL_CONF,       /* something in the configuration that was not understood: file, line */
        JOURNAL_RELOAD_REFUSED, /* the configuration in force stays */
        JOURNAL_CENSUS_FAILED,  /* the first of a row; the row's end is a JOURNAL_DEGRADED that is cleared */
        JOURNAL_RATES,      /* who makes and removes memory cgroups: on SIGUSR1 */
        JOURNAL_STATE,      /* a file of the state directory cannot be read or written */
        _JOURNAL_MESSAGE_MAX,
} JournalMessage;

/* 32 hex digits. */
const char *journal_message_id(JournalMessage message);
/* LOG_* of syslog.h */
int journal_priority(JournalMessage message, bool raised);

/* One field of an entry: NAME=value, value any bytes. */
typedef int (*journal_sink_t)(const struct iovec *fields, int n, void *userdata);

typedef struct Journal Journal;

/* sink: NULL: the journal where the process's stderr is connected to it or its socket is there, else stderr. 0, -ENOMEM. */
int journal_new(Journal **ret, journal_sink_t sink, void *userdata);
Journal *journal_free(Journal *j);
DEFINE_CLEANUP(Journal, journal_free)

/*
 * A change of findings. Fields beside MESSAGE, MESSAGE_ID, PRIORITY: SHRINKWATCH_KIND, _CHANGE (storm_kind_to_string()), _FINDING (id), _CGROUP (raw), _SERIAL, _CGROUP_ID, _CAUSE,
 * _BYTES, _UNITS, _VALUE, _LIMIT, _AGE_USEC, _AGE_EXACT (yes, no), _REFS, _PIN_REFS, _PIN_BYTES, _DEVICE, _CREATOR, _CONTAINER_ID, _ENGINE, _POD_UID, _MACHINE, _STANDING,
 * _RAISED, _CLEARED, _ADVICE, OBJECT_SYSTEMD_UNIT (a name that systemd could have; never of another's cgroup). What is not known is left out.
 * Returns 0, or a negative errno: the entry went to stderr then.
 */
int journal_tell(Journal *j, const Snapshot *snapshot, const StormEntry *entry);
/* Any other message. fields: "NAME=value" strings, NULL at the end; may be NULL. */
int journal_log(Journal *j, JournalMessage message, const char *const *fields, const char *format, ...) _printf_(4, 5);
/* Entries since the start; those the journal did not take. */
uint64_t journal_sent(const Journal *j);
uint64_t journal_failed(const Journal *j);

/* "5min 3s", as systemd writes spans; "1.4G". buf gets at most size bytes with the NUL; returns buf. */
char *journal_format_span(char *buf, size_t size, uint64_t usec);
char *journal_format_bytes(char *buf, size_t size, uint64_t bytes);
