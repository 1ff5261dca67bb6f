/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the parts of the manager share. */
#pragma once

#include <systemd/sd-event.h>

#include "bus.h"
#include "events.h"
#include "history.h"
#include "journal.h"
#include "manager.h"
#include "names.h"
#include "rates.h"
#include "service.h"
#include "snapshot.h"
#include "storm.h"

struct Manager {
        ManagerOptions options;
        ConfResult *conf;
        uint64_t memory_bytes; /* MemTotal */

        sd_event *event;
        sd_event_source *timer, *ring;

        Probe *probe;
        Events *events;      /* NULL: this kernel or the configuration has none */
        char *events_reason; /* why there are none; NULL: there are, or nobody wants them */
        Names *names;        /* NULL: no mount point is known, so no attributes are read */

        Ages *ages;
        Findings *findings;
        Storm *storm;
        Rates *rates;
        History *history;
        Journal *journal;
        Bus *bus; /* NULL: nobody wants it */
        FindingMark *marks; /* attributes of cgroups, in ascending serial */
        size_t n_marks;
        uint64_t marks_highest; /* serials up to this one were asked */

        int state_fd;              /* the state directory; -1: there is none */
        bool ages_changed;         /* since they were last written */
        uint64_t ages_boot_usec;   /* when that was */
        bool findings_unwritten;   /* changed since they were last written */
        unsigned cannot_write;     /* bits of the state files that cannot be written: told, and not been well since */

        Reading *reading; /* of the last good census */
        Snapshot snapshot;
        EventsCounts events_before; /* at the last census */
        EventsCounts events_written;  /* in the state file */
        uint64_t records_lost_before; /* when this daemon began to listen */
        uint64_t lost_since_usec;     /* CLOCK_BOOTTIME of the first census after which ages are missing for want of room; 0: none are */
        char *degraded;
        unsigned failed_in_row;

        uint64_t census_cpu_usec;  /* what the last one cost */
        uint64_t census_boot_usec; /* when the last one ended */
        bool rushed;               /* a census ahead of its time is on its way */
        bool metrics_failed;       /* the last time: told once */
};

/* Clocks. */
uint64_t manager_now(clockid_t id);

/* manager-census.c: one census with all that follows from it. 0, or a negative errno: memory is out or the kernel said no; the daemon goes on. */
int manager_take_census(Manager *m);
/* The kernel's map of deaths → ages. 0, or a negative errno. */
int manager_collect_deaths(Manager *m);
/* Empties the ring. */
void manager_drain_events(Manager *m);
/* The headline figures, for systemctl status. buf: of any size. */
void manager_format_status(const Manager *m, char *buf, size_t size);

/* manager-state.c: what outlives the process. Problems are told once. */
/* The directory, for this process alone. 0, also when there is none; a negative errno: no start, and why was told. */
int manager_open_state(Manager *m);
void manager_load_state(Manager *m);
void manager_save_ages(Manager *m, bool now);
void manager_save_findings(Manager *m);
void manager_save_counts(Manager *m);

/* manager-marks.c: the extended attributes of cgroups. */
void manager_read_marks(Manager *m);

/* manager-tell.c: what the journal hears of the daemon itself. */
void manager_tell_start(Manager *m);
void manager_tell_rates(Manager *m, size_t most);
