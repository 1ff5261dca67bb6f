/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sentences beneath a table. */
#pragma once

#include "daemon/reading.h"
#include "text.h"

/*
 * "2,003 memory cgroups (12 live, 1,990 dying, 1 creating): 1,009,512 units and their arrays take 1.0 GiB, 98 % of it held by dying
 * ones." listed: rows above, when fewer than matched.
 */
void footer_add_totals(Text *t, const Format *format, const Reading *reading);
/* "The first 20 of 1,990." Nothing when all of them are listed. */
void footer_add_listed(Text *t, size_t listed, size_t matched);
/* "Shrinker ids: room for 8,064, 8,010 in use (tmpfs 8,000, proc 5, others 5), 54 stranded." */
void footer_add_ids(Text *t, const Reading *reading);
/* "units-64, eager, 4 possible nodes." */
void footer_add_layout(Text *t, const ProbeFacts *facts, const Reading *reading);
/* What changed since the last round. */
void footer_add_changes(Text *t, const Format *format, const Reading *previous, const Reading *reading);
/* That writeback may hide behind "unexplained"; nothing when it was looked at. */
void footer_add_pins(Text *t, const Reading *reading);
