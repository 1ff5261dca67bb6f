/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Life events of memory cgroups: made, removed, released. Part of the room of the probe: it uses libbpf.
 *
 * The kernel's side (bpf/events.bpf.c) writes the time of each removal into a map of its own, which is the truth: serial → when. It counts in
 * a second map, and sends a record with the name through a ring, which only wakes us and feeds rates by creator: what does not fit
 * there is counted as lost. The links and maps outlive the daemon in systemd's file descriptor store; events_new() takes them back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bpf/record.h"
#include "probe.h"
#include "util.h"

typedef struct Events Events;

/* A descriptor with the name it has in the store: "sw1-deaths", 1 being SW_EVENTS_VERSION. */
typedef struct EventsFd {
        char name[32];
        int fd;
} EventsFd;

typedef struct EventsCounts {
        uint64_t created, removed, released; /* memory cgroups, since the programs were attached; released nearly: see bpf/events.bpf.c */
        uint64_t lost_deaths;                /* removals whose time found no room in the map */
        uint64_t lost_records;               /* records that found no room in the ring */
} EventsCounts;

/*
 * A state file of the counters that were accounted for. parse: 0; -ESTALE: of another boot; -EBADMSG: damaged, or no such file; *ret is
 * untouched then. write: 0, -EIO.
 */
int events_counts_write(const EventsCounts *c, FILE *f, const char *boot_id);
int events_counts_parse(EventsCounts *ret, const char *text, size_t len, const char *boot_id);

typedef struct EventsDeath {
        uint64_t serial;
        uint64_t boot_usec;
        bool exact; /* seen as it happened; else put there by events_put(): not later than that */
} EventsDeath;

typedef enum EventsOrigin {
        EVENTS_FRESH,     /* loaded and attached now */
        EVENTS_ADOPTED,   /* all of it came from the store and went on meanwhile */
        EVENTS_DRAINED,   /* the store had another version, another room or a part of a set, whose deaths we can read: loaded, then taken over */
        EVENTS_DISCARDED, /* the store had something of ours that we cannot read: loaded anew */
} EventsOrigin;

/* "fresh", "adopted", "drained", "discarded" */
const char *events_origin_to_string(EventsOrigin origin);

/*
 * Takes over what the store had, or loads and attaches (CAP_BPF and CAP_PERFMON; nothing later needs them). stored: descriptors with
 * the names that the store gave; names that are not ours are left alone. All others are owned by the callee from here on, also when it fails, and
 * are set to -1 in the array.
 * max_deaths: room of the map; 0: the default.
 * Returns 0, or a negative errno with *ret_error filled: the daemon goes on without events then.
 */
int events_new(Events **ret, uint32_t max_deaths, EventsFd *stored, size_t n_stored, ProbeError *ret_error);
/* Closes ours; what the store holds stays attached. */
Events *events_free(Events *e);
DEFINE_CLEANUP(Events, events_free)

EventsOrigin events_origin(const Events *e);
/*
 * What the store is to hold, and the names (fd is -1) that it is to drop; the two can share names: see service_replace(). Owned by e.
 */
const EventsFd *events_fds(const Events *e, size_t *ret_n);
const EventsFd *events_dropped(const Events *e, size_t *ret_n);

/*
 * Whoever waits for it to be readable is woken when the ring is a quarter full, or the map half, and with every sixteenth more: then drain,
 * and have a census soon.
 */
int events_fd(const Events *e);
typedef void (*events_record_t)(const struct sw_event *event, void *userdata);
/* Takes all records out of the ring. Returns their number, or a negative errno. */
int events_drain(Events *e, events_record_t fn, void *userdata);

/* 0, or a negative errno. */
int events_counts(const Events *e, EventsCounts *ret);
/* All entries of the map, in no order, newly allocated. 0, or a negative errno. */
int events_deaths(const Events *e, EventsDeath **ret, size_t *ret_n);
/* Puts a time that is not exact where there is none. 0 also where one is; -E2BIG: no room. */
int events_put(Events *e, uint64_t serial, uint64_t boot_usec);
/*
 * Removes entries; serials without one are no error. Absence from a census means gone only up to its highest serial when it began: what
 * is above may have been made, and may have died, since.
 */
int events_forget(Events *e, const uint64_t *serials, size_t n);
uint32_t events_max_deaths(const Events *e);
