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

/* Every entry the daemon makes. The MESSAGE_IDs stand in journal-id.c, and a test compares them with the catalog. */
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
        JOURNAL_STARTED,    /* before the first census: what was adopted, what is not available */
        JOURNAL_FIRST_CENSUS, /* the headline figures; what comes after is in the status */
        JOURNAL_STOPPED,
        JOURNAL_CANNOT_START, /* why, and what to do */
        JOURNAL_RELOADED,
        JOURNAL_CONF,       /* something in the configuration that was not understood: file, line */
        JOURNAL_RELOAD_REFUSED, /* the configuration in force stays */
        JOURNAL_CENSUS_FAILED,  /* the first of all, or several in a row; the row's end is a JOURNAL_DEGRADED that is cleared */
        JOURNAL_RATES,      /* who makes and removes memory cgroups: on SIGUSR1 */
        JOURNAL_BUS,        /* the name on the bus cannot be had */
        JOURNAL_LOST,       /* entries before this one did not get through: how many */
        JOURNAL_STATE,      /* a file of the state directory cannot be read or written */
        _JOURNAL_MESSAGE_MAX,
} JournalMessage;

/* 32 hex digits; NULL for a message that there is not. */
const char *journal_message_id(JournalMessage message);
/* LOG_* of syslog.h. raised: it begins or happens; else it is over. */
int journal_priority(JournalMessage message, bool raised);

/* One field of an entry: NAME=value, value any bytes. */
typedef int (*journal_sink_t)(const struct iovec *fields, int n, void *userdata);

typedef struct Journal Journal;

/*
 * sink: where entries go: 0, or a negative errno when it does not take one. NULL: the journal where the process's stderr is connected to it or its
 * socket is there, else stderr. Lines on stderr are plain; those to the journal's own stream begin with "<4>", as it reads priorities. On a terminal
 * each entry is shown beside the journal as well: somebody started us by hand. 0, -ENOMEM.
 */
int journal_new(Journal **ret, journal_sink_t sink, void *userdata);
Journal *journal_free(Journal *j);
DEFINE_CLEANUP(Journal, journal_free)

/*
 * A change of findings. Fields beside MESSAGE, MESSAGE_ID, PRIORITY: SHRINKWATCH_KIND, _CHANGE (storm_kind_to_string()), _END (of one that is cleared), _FINDING (id),
 * _CGROUP (raw), _SERIAL, _CGROUP_ID, _CAUSE, _BYTES, _UNITS, _VALUE, _LIMIT, _AGE_USEC, _AGE_EXACT (yes, no), _REFS, _PIN_REFS, _PIN_BYTES, _PIN_EXACT (yes, no),
 * _DEVICE, _CREATOR, _CONTAINER_ID, _ENGINE, _POD_UID, _MACHINE, _STANDING, _RAISED, _CLEARED, _ADVICE, OBJECT_SYSTEMD_UNIT. What is not known is left out. Of a
 * group _BYTES and _UNITS are sums, _AGE_USEC is that of the oldest, and _CGROUP, _SERIAL, _CGROUP_ID are those of the largest that was raised now.
 * A field of more than 64 KiB is cut, and SHRINKWATCH_CUT= names it.
 *
 * OBJECT_SYSTEMD_UNIT is the unit of this host's systemd that the cgroup is or belongs to, never a name that somebody else gave to a cgroup below such a unit (a
 * container has a sshd.service of its own); none for groups. Mind that "journalctl -u UNIT" matches this field only in entries of root (_UID=0), and
 * UNIT= only in those of PID 1, tried with systemd 252: what a daemon with a user of its own says about a unit is found by
 * "journalctl OBJECT_SYSTEMD_UNIT=UNIT", with what the unit says itself by "journalctl _SYSTEMD_UNIT=UNIT + OBJECT_SYSTEMD_UNIT=UNIT".
 *
 * Returns 0, or a negative errno: the entry went to stderr then.
 */
int journal_tell(Journal *j, const Snapshot *snapshot, const StormEntry *entry);
/*
 * Any other message. fields: "NAME=value" strings, NULL at the end; may be NULL. What is formatted may hold any bytes but NUL: MESSAGE is
 * made one line, safe for a terminal. Returns what journal_tell() does.
 */
int journal_log(Journal *j, JournalMessage message, const char *const *fields, const char *format, ...) _printf_(4, 5);
/* Entries since the start; those of them that the journal did not take. */
/* Entries of a lower priority than this (LOG_DEBUG, all, at the start) are left out; and where entries go. */
void journal_set_level(Journal *j, int level);
int journal_level(const Journal *j);
bool journal_is_journal(const Journal *j);
uint64_t journal_sent(const Journal *j);
uint64_t journal_failed(const Journal *j);

/*
 * "5min 3s": the two largest units of systemd.time(7), the rest is dropped; "1.4G": of 1024, the rest is dropped; "512B". buf gets at most
 * size bytes with the NUL; returns buf.
 */
char *journal_format_span(char *buf, size_t size, uint64_t usec);
char *journal_format_bytes(char *buf, size_t size, uint64_t bytes);
