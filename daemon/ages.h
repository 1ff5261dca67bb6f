/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ages: since when is a dying memcg dying? Pure: what events, censuses and the state file said goes in, one time for each serial comes
 * out. Times are CLOCK_BOOTTIME in usec: they go on through suspend, and setting the clock does not move them.
 *
 * Three sources, best first: a removal that was seen as it happened (exact); a removal that was seen by an earlier daemon of this boot
 * (the state file: as exact as it was then); the first census that met the memcg dying (not exact: it is dying at least since then).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "census.h"
#include "util.h"

typedef struct Age {
        uint64_t serial;
        uint64_t boot_usec; /* when it died; not exact: not later than that */
        bool exact;
} Age;

typedef struct Ages Ages;

int ages_new(Ages **ret); /* 0, -ENOMEM */
Ages *ages_free(Ages *a);
DEFINE_CLEANUP(Ages, ages_free)

/*
 * Takes one time. An exact one replaces one that is not; of two that are not exact, and of two that are, the earlier one stays.
 * Returns 1 when the entry is new or changed, 0 when not, -EINVAL for serial 0, -ENOMEM.
 */
int ages_put(Ages *a, uint64_t serial, uint64_t boot_usec, bool exact);
/* False: nothing is known of this serial. */
bool ages_get(const Ages *a, uint64_t serial, Age *ret);
size_t ages_count(const Ages *a);
/* Entries in ascending serial, good until the next call that is not const. */
const Age *ages_all(const Ages *a, size_t *ret_n);
/* The time of the one that died first. False: there is none. */
bool ages_oldest(const Ages *a, uint64_t *ret_boot_usec);

/*
 * Brings the entries in line with a sealed census that began at boot_usec:
 * - a dying memcg without an entry gets one, not exact, of boot_usec;
 * - where the census is complete, an entry whose memcg is not dying in it goes, unless it is later than boot_usec (it died while the
 *   census was taken, or after it).
 * *ret_new and *ret_gone: newly allocated arrays of what came and of the serials that went, for whoever keeps a copy; may be NULL.
 * 0, -EINVAL (not sealed), -ENOMEM: nothing has changed then.
 */
int ages_observe(Ages *a, const Census *census, bool complete, uint64_t boot_usec, Age **ret_new, size_t *ret_n_new, uint64_t **ret_gone,
                 size_t *ret_n_gone);

/*
 * The state file: text, a line for each entry; the form is in ages.c. boot_id as in ProbeFacts. Returns 0, or -EIO when the stream failed.
 */
int ages_write(const Ages *a, FILE *f, const char *boot_id);
/*
 * Reads what ages_write() made into the entries there are (as ages_put() does). Returns the number of entries taken; -ESTALE: it is of
 * another boot, nothing was taken; -EBADMSG: it is no such file, or damaged: what stood before the damage was taken. *ret_line: the first line that
 * could not be read, 1 the first; may be NULL. -ENOMEM.
 */
int ages_parse(Ages *a, const char *text, size_t len, const char *boot_id, unsigned *ret_line);
