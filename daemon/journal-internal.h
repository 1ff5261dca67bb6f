/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the journal share: an entry on its way. */
#pragma once

#include "journal.h"

/* Most bytes of one field, NAME= included. What is beyond is cut, and a field SHRINKWATCH_CUT=NAME says so. */
#define JOURNAL_FIELD_MAX (64U * 1024U)

typedef struct JournalEntry {
        struct iovec *fields; /* each owned */
        size_t n, allocated;
        int error; /* -ENOMEM: a field is missing */
} JournalEntry;

void journal_entry_done(JournalEntry *e);
/* One field, the value any bytes. What goes wrong stays in e->error, so that a row of these needs no checks. */
void journal_entry_put(JournalEntry *e, const char *name, const void *value, size_t len);
void journal_entry_putf(JournalEntry *e, const char *name, const char *format, ...) _printf_(3, 4);

/*
 * Adds MESSAGE, MESSAGE_ID, PRIORITY and sends it. text: the message for people, made one line and safe for a terminal here; NULL: there
 * was no memory for it. Returns what journal_tell() does.
 */
int journal_send(Journal *j, JournalMessage message, bool raised, JournalEntry *e, const char *text);
