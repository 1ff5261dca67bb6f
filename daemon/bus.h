/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bus: org.shrinkwatch1 on the system bus, as docs/org.shrinkwatch1.*.xml say it. It tells from the snapshot, once a census, and what
 * did not change is not told. Without a bus the daemon does without; when the bus goes away, it is waited for.
 */
#pragma once

#include <systemd/sd-event.h>

#include "conf.h"
#include "journal.h"
#include "probe.h"
#include "snapshot.h"
#include "util.h"

typedef struct Bus Bus;

/* What clients can ask for that is not in the snapshot. */
typedef struct BusHooks {
        /* Takes a census, which ends with bus_update(). 0, or a negative errno. */
        int (*take_census)(void *userdata);
        /* Complains, in the journal: once about each thing. */
        void (*complain)(const char *text, void *userdata);
        void *userdata;
} BusHooks;

/*
 * Begins to connect; the name is taken with the first bus_update(), so that who finds us finds figures. journal, probe and snapshot are
 * borrowed as long as the bus lives. 0, -ENOMEM; or another negative errno: no event loop.
 */
int bus_new(Bus **ret, sd_event *event, Journal *journal, const Probe *probe, const Snapshot *snapshot, const BusHooks *hooks);
Bus *bus_free(Bus *b);
DEFINE_CLEANUP(Bus, bus_free)

/* Patterns of subtrees that have an object as long as they are there: as in [Subtree]. Copied. 0, -ENOMEM. */
int bus_set_patterns(Bus *b, char *const *patterns, size_t n);
/* The snapshot is another one: changes are told. Nothing of it is kept. */
void bus_update(Bus *b);
