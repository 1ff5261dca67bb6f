/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The file of the history, for history.c alone: slots with one record each, and a head that says of which form they are. */
#pragma once

#include "history.h"

/* Records that a ring has room for. */
size_t history_file_slots(HistoryRing ring);
/* Opens the file, or makes it, as history_new() says. Returns a descriptor, which holds a lock on the file, or a negative errno. */
int history_file_open(int dirfd, char **ret_note);
/*
 * Reads all good records of a ring. samples: a ring of history_file_slots(); they lie in it one behind the other from *ret_first on, the
 * oldest first. *ret_sequence: of the newest; 0: there is none. Returns their number, or -ENOMEM. What cannot be read is left out.
 */
int history_file_load(int fd, HistoryRing ring, HistorySample *samples, size_t *ret_first, uint64_t *ret_sequence);
/* Writes one record into the slot of its sequence: 1 and up. 0, or a negative errno. */
int history_file_write(int fd, HistoryRing ring, uint64_t sequence, const HistorySample *sample);

/* FNV-1a of 64 bits, on words of eight bytes. Each step is a bijection: a change within one word never goes unseen, more than that once in 2^64. */
uint64_t history_file_hash(const void *data, size_t len);
