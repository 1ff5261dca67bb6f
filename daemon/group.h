/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Dying memcgs grouped by who makes them: the nearest live ancestor, and what the names have in common. Pure. */
#pragma once

#include "reading.h"

typedef struct Group {
        uint32_t ancestor; /* index of the nearest live ancestor */
        /*
         * Raw bytes, NUL-terminated. The pattern of the topmost dying memcg's name, which is what somebody made; for one below it, its
         * own follows: "docker-*.scope", "docker-*.scope/init.scope", and from three levels on "docker-*.scope/.../worker-*".
         */
        const char *pattern; /* owned by the Groups */
        size_t pattern_len;
        uint64_t memcgs;
        uint64_t units, unit_bytes, array_bytes;
        uint64_t causes[_PIN_CAUSE_MAX]; /* memcgs that have such a pin */
        uint64_t unpinned;               /* memcgs with nothing that holds them: about to go */
        bool pins_known;
} Group;

typedef struct Groups {
        Group *groups; /* most overhead first */
        size_t n_groups;
        char *names;
} Groups;

/* 0 or -ENOMEM. */
int groups_new(Groups **ret, const Reading *reading);
Groups *groups_free(Groups *g);

static inline void groups_freep(Groups **g) {
        if (*g)
                (void)groups_free(*g);
}
