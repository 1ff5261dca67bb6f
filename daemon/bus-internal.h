/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the room bus share. */
#pragma once

#include <jansson.h>
#include <systemd/sd-bus.h>

#include "bus.h"
#include "escape.h"
#include "json.h"
#include "subtree.h"

#define BUS_NAME "org.shrinkwatch1"
#define BUS_PATH "/org/shrinkwatch1"
#define BUS_PATH_FINDING BUS_PATH "/finding"
#define BUS_PATH_SUBTREE BUS_PATH "/subtree"
#define BUS_IFACE_MANAGER BUS_NAME ".Manager"
#define BUS_IFACE_FINDING BUS_NAME ".Finding"
#define BUS_IFACE_SUBTREE BUS_NAME ".Subtree"

#define BUS_ERROR_NO_SUCH_MEMCG BUS_NAME ".NoSuchMemcg"
#define BUS_ERROR_NO_SUCH_PROCESS BUS_NAME ".NoSuchProcess"
#define BUS_ERROR_NOT_DYING BUS_NAME ".NotDying"
#define BUS_ERROR_NO_CENSUS BUS_NAME ".NoCensus"
#define BUS_ERROR_CENSUS_FAILED BUS_NAME ".CensusFailed"

/* Objects there are at most; how many more there would be is a property. */
#define BUS_FINDINGS_MAX 512U
#define BUS_SUBTREES_MAX 1024U
#define BUS_SUBTREES_PER_USER 64U
#define BUS_LIST_MAX 1000U

/* ------------------------------------------------------------------------------------------------------------- numbers */

/* Property, member: those of org.shrinkwatch1.Manager that are one number of 64 bits and change. UINT64_MAX: not known. */
#define BUS_NUMBERS(N)                                   \
        N(ArrayBytes, array_bytes)                       \
        N(CPUUSec, cpu_usec)                             \
        N(CensusBoottimeUSec, census_boottime_usec)      \
        N(CensusDurationUSec, census_duration_usec)      \
        N(CensusIntervalUSec, census_interval_usec)      \
        N(CensusLongestSliceUSec, longest_slice_usec)    \
        N(CensusRealtimeUSec, census_realtime_usec)      \
        N(Censuses, censuses)                            \
        N(CensusesFailed, censuses_failed)               \
        N(CensusesIncomplete, censuses_incomplete)       \
        N(DyingOldestBoottimeUSec, dying_oldest_usec)    \
        N(EventsCreated, events_created)                 \
        N(EventsLostDeaths, events_lost_deaths)          \
        N(EventsLostRecords, events_lost_records)        \
        N(EventsReleased, events_released)               \
        N(EventsRemoved, events_removed)                 \
        N(Findings, findings)                            \
        N(FindingsWithoutObject, findings_hidden)        \
        N(HostLimitReachedUSec, host_limit_reached_usec) \
        N(Memcgs, memcgs)                                \
        N(MemcgsCreating, memcgs_creating)               \
        N(MemcgsDying, memcgs_dying)                     \
        N(MemcgsLive, memcgs_live)                       \
        N(OverheadBytes, overhead_bytes)                 \
        N(OverheadDyingBytes, overhead_dying_bytes)      \
        N(OverheadLiveBytes, overhead_live_bytes)        \
        N(ShrinkerIDsInUse, ids_in_use)                  \
        N(ShrinkerIDsStranded, ids_stranded)             \
        N(ShrinkerNrMax, ids)                            \
        N(Subtrees, subtrees)                            \
        N(SubtreesWithoutObject, subtrees_hidden)        \
        N(UnitAllocBytes, unit_alloc_bytes)              \
        N(UnitBytes, unit_bytes)                         \
        N(Units, units)                                  \
        N(UnitsDying, units_dying)                       \
        N(UnitsLive, units_live)

typedef struct BusTotals {
#define MEMBER(property, member) uint64_t member;
        BUS_NUMBERS(MEMBER)
#undef MEMBER
        double overhead_trend, dying_trend; /* an hour; NAN */
        int complete, settled;
        const char *allocation;
        uint64_t findings_by_kind[_FINDING_KIND_MAX], finding_bytes_by_kind[_FINDING_KIND_MAX];
        PinSums pinned;
} BusTotals;

/* ------------------------------------------------------------------------------------------------------------- objects */

/* What one census said of a subtree that has an object. */
typedef struct BusSubtreeValues {
        SubtreeSum sum;
        uint64_t serial; /* of the live one; 0: there is none */
        int exists, above;
        double trend;
} BusSubtreeValues;

#define BUS_TREND_SAMPLES 61U

typedef struct BusSubtree BusSubtree;
struct BusSubtree {
        Bus *bus;
        char *path; /* raw, one slash in front, none at the end but of the root */
        size_t len;
        char *object;
        sd_bus_track *clients; /* that watch it; NULL: none ever did */
        bool configured;       /* a pattern of the configuration wants it */
        bool announced;
        BusSubtreeValues values;
        /* A minute apart or more, oldest first. */
        struct {
                uint64_t boot_usec, overhead;
        } samples[BUS_TREND_SAMPLES];
        size_t n_samples;
        BusSubtree *next;
};

typedef struct BusFinding {
        uint64_t id;
        FindingKind kind;
        uint64_t serial;
        /* As they were told. */
        uint64_t value, bytes, units, refs, pin_refs, pin_bytes, since_boot_usec;
} BusFinding;

/* CPU time that answers to a user took. */
typedef struct BusAccount {
        uid_t uid;
        uint64_t spent_usec; /* of what there is at most */
        uint64_t at_usec;    /* CLOCK_MONOTONIC then */
} BusAccount;

typedef struct BusClient BusClient;
typedef struct BusRequest BusRequest;

struct Bus {
        BusTotals totals; /* first: properties are read from here by their offset */
        char *degraded;

        sd_event *event;
        Journal *journal;
        const Probe *probe;
        const Snapshot *snapshot;
        BusHooks hooks;

        sd_bus *bus; /* NULL: there is none at the moment */
        sd_event_source *retry, *post;
        uint64_t retry_usec;
        bool ready;      /* there was a census */
        bool registered; /* objects are there */
        bool asked;      /* for the name, and not refused */
        bool complained;

        BusSubtree *subtrees;
        size_t n_subtrees, subtrees_hidden;
        char **patterns;
        size_t n_patterns;
        BusFinding *findings; /* that have an object, in the order of their ids */
        size_t n_findings;
        bool above[_FINDING_KIND_MAX];

        BusClient *clients;  /* unique names and who they are, the last used first */
        BusAccount accounts[64];
        size_t n_accounts;
        BusRequest *requests; /* that wait for polkit */
        size_t n_requests;
        uid_t serving;          /* whose message is being answered; (uid_t)-1: nobody's */
        uint64_t serving_since; /* CPU time then */
};

/* bus.c */
void bus_complain(Bus *b, const char *format, ...) _printf_(2, 3);

/* bus-append.c: a negative errno of sd-bus, or -ENOMEM. The put functions add an entry to an a{sv}; a NULL string is left out. */
int bus_append_u64(sd_bus_message *m, uint64_t value);
int bus_append_string(sd_bus_message *m, const char *s);
int bus_append_bytes(sd_bus_message *m, const char *s, size_t len);
int bus_open_entry(sd_bus_message *m, const char *key, const char *signature);
int bus_close_entry(sd_bus_message *m);
int bus_put_u64(sd_bus_message *m, const char *key, uint64_t value);
int bus_put_double(sd_bus_message *m, const char *key, double value);
int bus_put_bool(sd_bus_message *m, const char *key, bool value);
int bus_put_string(sd_bus_message *m, const char *key, const char *s);
int bus_put_bytes(sd_bus_message *m, const char *key, const char *s, size_t len);
int bus_put_path(sd_bus_message *m, const char *path, size_t len);
/* An object as a{sv}; what is null is left out. object may be NULL: -ENOMEM. */
int bus_append_object(sd_bus_message *m, json_t *object);
int bus_append_memcg(sd_bus_message *m, const Snapshot *s, uint32_t memcg);

/* bus-access.c */
typedef int (*bus_then_t)(Bus *b, sd_bus_message *m);
/*
 * Goes on with a call once its sender may do this: at once for root, after polkit has said so, or, where there is no polkit, for the group shrinkwatch.
 * then() answers the call, or returns a negative errno, which is answered. 1, or a negative errno with *error set.
 */
int bus_access(Bus *b, sd_bus_message *m, const char *action, bus_then_t then, sd_bus_error *error);
/* The user behind a message, as the bus knows it. */
int bus_sender(Bus *b, sd_bus_message *m, uid_t *ret);
/* Of a client that has been heard lately; else (uid_t)-1. */
uid_t bus_uid_of(Bus *b, const char *name);
int bus_access_begin(Bus *b);
void bus_access_end(Bus *b);

/* bus-manager.c */
int bus_manager_register(Bus *b);
void bus_manager_update(Bus *b);
/* The signal LimitCrossed. */
int bus_emit_crossing(Bus *b, FindingKind kind, const char *path, size_t len, uint64_t value, uint64_t limit, bool above);

/* bus-list.c, bus-query.c: methods that read the last census. */
int bus_method_list(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_get_memcg(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_find_memcgs(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_find_by_path(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_get_subtree(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_get_unit(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_get_machine(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_get_by_pid(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_why(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_dump(sd_bus_message *m, void *userdata, sd_bus_error *error);
/* A path as clients give it: *ret points into the message. */
int bus_read_path(sd_bus_message *m, const char **ret, size_t *ret_len, sd_bus_error *error);
int bus_no_census(sd_bus_error *error);

/* bus-subtree.c */
int bus_subtree_register(Bus *b);
void bus_subtree_update(Bus *b);
void bus_subtree_free_all(Bus *b);
const BusSubtree *bus_subtree_find(const Bus *b, const char *path, size_t len);
int bus_method_watch(sd_bus_message *m, void *userdata, sd_bus_error *error);
int bus_method_unwatch(sd_bus_message *m, void *userdata, sd_bus_error *error);
/* cause → (memcgs, overhead), as a{s(tt)}. */
int bus_append_causes(sd_bus_message *m, const SubtreeSum *s);

/* bus-finding.c */
int bus_finding_register(Bus *b);
void bus_finding_update(Bus *b);

/* bus-log.c */
int bus_log_register(Bus *b);
