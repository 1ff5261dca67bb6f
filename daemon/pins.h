/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pins: why a dying memcg is still here. Pure: evidence in, causes out that add up to the references.
 *
 * Cheap evidence comes with every census: cgroup writeback structures (struct sw_wb), the references of the swap id, the children.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "census.h"

typedef enum PinCause {
        PIN_WRITEBACK,
        PIN_SWAP,
        PIN_CHILD,
        PIN_UNEXPLAINED,
        _PIN_CAUSE_MAX,
} PinCause;

const char *pin_cause_to_string(PinCause cause); /* "writeback", "swap", "child", "unexplained" */

typedef struct Pin {
        PinCause cause;
        bool exact; /* refs is the exact number of references of this cause */
        bool has_bytes;
        bool at_least;      /* bytes, inodes and entries are lower bounds */
        uint64_t refs;      /* as the evidence says: the sum over the pins can exceed the memcg's refs */
        uint64_t bytes;     /* writeback: page cache of the inodes attached; swap: entries × page size */
        uint64_t inodes;    /* writeback */
        uint64_t entries;   /* swap */
        const char *device; /* writeback: raw bytes as the kernel has them, NUL-terminated, owned by the Pins; else "" */
} Pin;

typedef struct Pins Pins;

/* Collects evidence beside a sealed census, which it borrows. page_bytes: of the kernel. 0, -EINVAL (not sealed), -ENOMEM. */
int pins_new(Pins **ret, const Census *census, uint32_t page_bytes);
Pins *pins_free(Pins *p);
DEFINE_CLEANUP(Pins, pins_free)
/*
 * Takes a SW_TYPE_WB record; others are ignored, and so are those of memcgs that are not dying or not in the census. Two records are
 * two references: a pass that begins again needs new Pins. 0, -EBADMSG, -EINVAL (sealed), -ENOMEM.
 */
int pins_add(Pins *p, const struct sw_head *record);
/*
 * Sorts the evidence. writeback_known: the pass that found the SW_TYPE_WB records was complete. When it was not, what was found is
 * still given, as not exact. 0, -EINVAL (sealed), -ENOMEM.
 */
int pins_seal(Pins *p, bool writeback_known);

/*
 * The pins of one dying memcg, ordered by cause, several of one cause possible (one per device, in the order of their names). Live and
 * creating ones have none collected: returns false and *ret_n is 0. True with *ret_n 0: looked and found none.
 *
 * A last pin PIN_UNEXPLAINED carries what is left of the references, when they are known and something is left. When the named pins
 * exceed the references (evidence of different moments), there is none, and no pin of that memcg is exact.
 */
bool pins_get(const Pins *p, uint32_t memcg, const Pin **ret, size_t *ret_n);
/* References that named pins account for, capped at refs where these are known; false when not collected. */
bool pins_explained(const Pins *p, uint32_t memcg, uint64_t *ret);
bool pins_writeback_known(const Pins *p);

/* Dying memcgs that a pin of a cause holds, maybe beside others, and their overhead: by PinCause. */
typedef struct PinSums {
        uint64_t memcgs[_PIN_CAUSE_MAX], bytes[_PIN_CAUSE_MAX];
} PinSums;

/* Adds one memcg, which is in once for each of its causes; one that is not dying adds nothing. */
void pins_sum_one(const Pins *p, uint32_t memcg, PinSums *sums);
/* Of all memcgs. */
void pins_sum(const Pins *p, PinSums *ret);
/* Half the devices are not known, and what they pin looks unexplained: then nothing can be said of these two. */
bool pins_sum_known(const Pins *p, PinCause cause);
