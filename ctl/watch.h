/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Doing something again every few seconds until Ctrl-C, which ends the program in order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct Watch {
        uint64_t period_sec;
        uint64_t next_nsec; /* CLOCK_MONOTONIC of the next round */
} Watch;

/* Takes SIGINT and SIGTERM over. 0 or a negative errno. */
int watch_begin(Watch *ret, uint64_t period_sec);
/*
 * Waits for the next round. A round that took longer than the period puts the next one off instead of hurrying after. Returns true
 * when it is due, false when the program was asked to end.
 */
bool watch_wait(Watch *w);
/* Asked to end; also by a signal that interrupted output to a terminal that stands still. */
bool watch_interrupted(void);
