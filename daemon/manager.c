/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "manager.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "manager-internal.h"

#define USEC_PER_SEC 1000000ULL
#define PPM 1000000ULL
/* A ring that fills up asks for a census; no more often than this. */
#define RUSH_USEC (5 * USEC_PER_SEC)
#define TIMER_ACCURACY_USEC (USEC_PER_SEC / 4)
#define STATUS_BYTES 512
/* Who asks for a census gets the last one when it is no older. */
#define CENSUS_YOUNG_USEC USEC_PER_SEC
#define RATES_TOLD 10

uint64_t manager_now(clockid_t id) {
        struct timespec ts = {};

        (void)clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * USEC_PER_SEC + (uint64_t)ts.tv_nsec / 1000;
}

/* ------------------------------------------------------------------------------------------------------- configuration */

static void tell_conf(Manager *m, const ConfResult *conf) {
        for (size_t i = 0; i < conf->n_messages; i++) {
                const ConfMessage *c = conf->messages + i;

                if (c->line > 0)
                        (void)journal_log(m->journal, JOURNAL_CONF, NULL, "%s:%u: %s", c->file, c->line, c->text);
                else
                        (void)journal_log(m->journal, JOURNAL_CONF, NULL, "%s: %s", c->file, c->text);
        }
}

/*
 * How long after the last census the next one comes: the interval, or as long as it takes for the cost of the last one to be no more
 * than its share of one CPU.
 */
static uint64_t interval(const Manager *m) {
        uint64_t usec = m->conf->conf.interval_usec, share = m->conf->conf.cpu_share_ppm;

        if (share > 0) {
                uint64_t least = mul_sat_u64(m->census_cpu_usec, PPM) / share;

                if (least > usec)
                        usec = least;
        }
        return usec;
}

static int arm(Manager *m, uint64_t at_boot_usec) {
        int r = sd_event_source_set_time(m->timer, at_boot_usec);

        if (r >= 0)
                r = sd_event_source_set_enabled(m->timer, SD_EVENT_ONESHOT);
        return r;
}

/* What the configuration says beyond limits. */
static void apply_conf(Manager *m) {
        const FindingLimit *host = &m->conf->conf.limits.limit[FINDING_HOST];
        _cleanup_(freep) char *text = strdup(m->conf->conf.watch ? m->conf->conf.watch : "");
        _cleanup_(freep) char **patterns = NULL;
        char *save = NULL;
        size_t n = 0;

        m->snapshot.host_limit_bytes = host->enabled ? host->on : UINT64_MAX;
        if (!m->bus || !text)
                return;
        /* One needs a byte, and a blank before the next. */
        patterns = calloc(strlen(text) / 2 + 1, sizeof(*patterns));
        if (!patterns)
                return;
        for (char *word = strtok_r(text, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
                word += strspn(word, "/");
                if (*word)
                        patterns[n++] = word;
        }
        (void)bus_set_patterns(m->bus, patterns, n);
}

static void reload(Manager *m) {
        _cleanup_(conf_freep) ConfResult *conf = NULL;
        char status[STATUS_BYTES];
        ConfPaths paths = m->options.paths;
        bool events_changed;
        int r;

        (void)service_reloading();
        paths.memory_bytes = m->memory_bytes;
        /* A typing error must not put a limit back to its default on a host that has a better one in force. */
        paths.strict = true;
        r = conf_load(&conf, &paths);
        if (r < 0)
                (void)journal_log(m->journal, JOURNAL_RELOAD_REFUSED, NULL, "The new configuration cannot be read: %s. The one that was in force stays, whole",
                                  strerror(-r));
        else if (conf->failed) {
                tell_conf(m, conf);
                (void)journal_log(m->journal, JOURNAL_RELOAD_REFUSED, NULL,
                                  "The new configuration has %zu mistake%s, told before this: nothing of it is taken, the one that was in force stays, whole",
                                  conf->n_messages, PLURAL(conf->n_messages));
        } else {
                events_changed = conf->conf.events != m->conf->conf.events || conf->conf.max_deaths != m->conf->conf.max_deaths;
                (void)journal_log(m->journal, JOURNAL_RELOADED, NULL, "The configuration was read anew from %zu file%s%s", conf->n_files, PLURAL(conf->n_files),
                                  events_changed ? ". Events= and DeathsMax= take effect with the next start" : "");
                conf_free(m->conf);
                m->conf = TAKE_PTR(conf);
                apply_conf(m);
        }
        manager_format_status(m, status, sizeof(status));
        (void)service_ready(status);
        /* One ahead of its time that is put off by this is asked for again by the next record. */
        m->rushed = false;
        (void)arm(m, m->census_boot_usec + interval(m));
}

/* ---------------------------------------------------------------------------------------------------------- event loop */

/* One census, and what it cost. */
static int take_census(Manager *m, char status[static STATUS_BYTES]) {
        uint64_t cpu = manager_now(CLOCK_PROCESS_CPUTIME_ID);
        int r = manager_take_census(m);

        m->census_cpu_usec = manager_now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        m->census_boot_usec = manager_now(CLOCK_BOOTTIME);
        m->snapshot.interval_usec = interval(m);
        manager_format_status(m, status, STATUS_BYTES);
        if (m->bus)
                bus_update(m->bus);
        return r;
}

/* For the bus: as on_timer(). */
static int take_census_now(void *userdata) {
        Manager *m = userdata;
        char status[STATUS_BYTES];
        int r;

        /* One that is as young as this is as good. */
        if (m->reading && m->failed_in_row == 0 && manager_now(CLOCK_BOOTTIME) - m->census_boot_usec < CENSUS_YOUNG_USEC)
                return 0;
        m->rushed = false;
        r = take_census(m, status);
        (void)service_status(status);
        (void)arm(m, m->census_boot_usec + m->snapshot.interval_usec);
        return r;
}

static void on_bus_complaint(const char *text, void *userdata) {
        Manager *m = userdata;

        (void)journal_log(m->journal, JOURNAL_BUS, NULL, "%s", text);
}

static int new_bus(Manager *m) {
        const BusHooks hooks = { .take_census = take_census_now, .complain = on_bus_complaint, .userdata = m };

        if (!m->conf->conf.bus || m->options.once)
                return 0;
        return bus_new(&m->bus, m->event, m->journal, m->probe, &m->snapshot, &hooks);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        char status[STATUS_BYTES];
        int r;

        (void)source;
        (void)usec;
        /* Should anything below go wrong, there is a next time all the same. */
        r = arm(m, manager_now(CLOCK_BOOTTIME) + m->conf->conf.interval_usec);
        if (r < 0)
                return r;

        m->rushed = false;
        (void)take_census(m, status); /* a failure is told, and counted; there is a next time */
        (void)service_status(status);
        return arm(m, m->census_boot_usec + m->snapshot.interval_usec);
}

/* The ring or the map of deaths fills up: a census empties both, as soon as that is affordable. */
static int on_ring(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        Manager *m = userdata;
        uint64_t now = manager_now(CLOCK_BOOTTIME), at, share = m->conf->conf.cpu_share_ppm;

        (void)source;
        (void)fd;
        (void)revents;
        manager_drain_events(m);
        if (m->rushed)
                return 0;
        at = m->census_boot_usec + RUSH_USEC;
        if (share > 0 && m->census_boot_usec + mul_sat_u64(m->census_cpu_usec, PPM) / share > at)
                at = m->census_boot_usec + mul_sat_u64(m->census_cpu_usec, PPM) / share;
        if (at >= m->census_boot_usec + interval(m))
                return 0; /* the next one is not later */
        m->rushed = true;
        return arm(m, at > now ? at : now);
}

static int on_stop(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        Manager *m = userdata;

        (void)source;
        (void)si;
        (void)service_stopping("Stopping");
        return sd_event_exit(m->event, 0);
}

static int on_reload(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        (void)source;
        (void)si;
        reload(userdata);
        return 0;
}

/* SIGUSR1: who makes and removes memory cgroups, since the last census and since the start. */
static int on_tell_rates(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
        Manager *m = userdata;

        (void)source;
        (void)si;
        manager_drain_events(m);
        manager_tell_rates(m, RATES_TOLD);
        return 0;
}

static int add_signal(Manager *m, int signal, sd_event_signal_handler_t handler) {
        return sd_event_add_signal(m->event, NULL, signal, handler, m);
}

static int new_loop(Manager *m) {
        sigset_t set;
        int r;

        /* Blocked before anything may send one, or the first would end us. */
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGHUP);
        (void)sigaddset(&set, SIGUSR1);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        r = sd_event_default(&m->event);
        if (r >= 0)
                r = sd_event_set_watchdog(m->event, true);
        if (r >= 0)
                r = add_signal(m, SIGTERM, on_stop);
        if (r >= 0)
                r = add_signal(m, SIGINT, on_stop);
        if (r >= 0)
                r = add_signal(m, SIGHUP, on_reload);
        if (r >= 0)
                r = add_signal(m, SIGUSR1, on_tell_rates);
        if (r >= 0)
                r = sd_event_add_time(m->event, &m->timer, CLOCK_BOOTTIME, 0, TIMER_ACCURACY_USEC, on_timer, m);
        return r;
}

/* -------------------------------------------------------------------------------------------------------------- events */

static void close_stored(EventsFd *stored, size_t n) {
        for (size_t i = 0; i < n; i++)
                stored[i].fd = safe_close(stored[i].fd);
}

/* The programs that see memory cgroups come and go; the daemon does without where it has to. */
static int new_events(Manager *m) {
        _cleanup_(freep) EventsFd *stored = NULL;
        const EventsFd *fds, *dropped;
        ProbeError error = {};
        size_t n_stored = 0, n, n_dropped;
        int r;

        r = service_take_stored(&stored, &n_stored);
        if (r < 0)
                n_stored = 0;
        if (!m->conf->conf.events) {
                /* What an earlier start left in the store would go on counting for nobody. */
                for (size_t i = 0; i < n_stored; i++)
                        (void)service_drop(stored[i].name);
                close_stored(stored, n_stored);
                return 0;
        }
        r = events_new(&m->events, (uint32_t)(m->conf->conf.max_deaths > UINT32_MAX ? UINT32_MAX : m->conf->conf.max_deaths), stored, n_stored, &error);
        close_stored(stored, n_stored);
        if (r < 0) {
                m->events_reason = strdup(error.text[0] ? error.text : strerror(-r));
                return m->events_reason ? 0 : -ENOMEM;
        }
        fds = events_fds(m->events, &n);
        dropped = events_dropped(m->events, &n_dropped);
        if (events_origin(m->events) != EVENTS_ADOPTED || n_dropped > 0)
                (void)service_replace(fds, n, dropped, n_dropped);
        /* What waits in an adopted ring is read now: it is not to ask for a census more. */
        manager_drain_events(m);
        return sd_event_add_io(m->event, &m->ring, events_fd(m->events), EPOLLIN, on_ring, m);
}

/* --------------------------------------------------------------------------------------------------------- life of it */

static int new_rooms(Manager *m) {
        int r = ages_new(&m->ages);

        if (r >= 0)
                r = findings_new(&m->findings);
        if (r >= 0)
                r = storm_new(&m->storm);
        if (r >= 0)
                r = rates_new(&m->rates);
        return r;
}

static void fill_snapshot(Manager *m) {
        m->snapshot.facts = probe_facts(m->probe);
        m->snapshot.ages = m->ages;
        m->snapshot.findings = m->findings;
        m->snapshot.history = m->history;
        m->snapshot.rates = m->rates;
        m->snapshot.memory_bytes = m->memory_bytes;
        m->snapshot.started_usec = manager_now(CLOCK_REALTIME);
}

int manager_new(Manager **ret, const ManagerOptions *options) {
        _cleanup_(manager_freep) Manager *m = NULL;
        ProbeError error = {};
        ConfPaths paths = options->paths;
        int r;

        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        m->state_fd = -1;
        m->events_written.created = UINT64_MAX; /* as no counters are */
        m->options = *options;
        m->memory_bytes = conf_memory_bytes();
        paths.memory_bytes = m->memory_bytes;

        r = journal_new(&m->journal, NULL, NULL);
        if (r >= 0)
                r = conf_load(&m->conf, &paths);
        if (r < 0)
                return r;
        tell_conf(m, m->conf);
        if (paths.file && m->conf->failed) {
                (void)journal_log(m->journal, JOURNAL_CANNOT_START, NULL, "Cannot start: %s was asked for and cannot be used, as told before this", paths.file);
                return -EINVAL;
        }
        r = manager_open_state(m);
        if (r < 0)
                return r;
        r = new_loop(m);
        if (r < 0) {
                (void)journal_log(m->journal, JOURNAL_CANNOT_START, NULL, "Cannot make an event loop: %s", strerror(-r));
                return r;
        }
        r = new_rooms(m);
        if (r < 0)
                return r;

        r = probe_new(&m->probe, &error);
        if (r < 0) {
                (void)journal_log(m->journal, JOURNAL_CANNOT_START, NULL, "Cannot start: %s", error.text[0] ? error.text : strerror(-r));
                return r;
        }
        r = new_events(m);
        if (r < 0)
                return r;
        if (names_new(&m->names) < 0)
                m->names = NULL;

        /* All is loaded. From here on there is nothing left that a capability is needed for. */
        r = service_drop_capabilities();
        if (r < 0) {
                (void)journal_log(m->journal, JOURNAL_CANNOT_START, NULL, "Cannot give up capabilities: %s", strerror(-r));
                return r;
        }

        /* What adopted programs counted before is not of the first interval, but for what a state file says of it. */
        if (m->events)
                (void)events_counts(m->events, &m->snapshot.events);
        m->records_lost_before = m->snapshot.events.lost_records;
        manager_load_state(m);
        r = storm_resume(m->storm, m->findings);
        if (r < 0)
                return r;
        fill_snapshot(m);
        r = new_bus(m);
        if (r < 0)
                return r;
        apply_conf(m);
        *ret = TAKE_PTR(m);
        return 0;
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;
        bus_free(m->bus);
        reading_free(m->reading);
        free(m->degraded);
        free(m->marks);
        history_free(m->history);
        m->state_fd = safe_close(m->state_fd);
        rates_free(m->rates);
        storm_free(m->storm);
        findings_free(m->findings);
        ages_free(m->ages);
        names_free(m->names);
        sd_event_source_disable_unref(m->ring);
        events_free(m->events);
        free(m->events_reason);
        probe_free(m->probe);
        sd_event_source_disable_unref(m->timer);
        sd_event_unref(m->event);
        conf_free(m->conf);
        journal_free(m->journal);
        free(m);
        return NULL;
}

int manager_run(Manager *m) {
        char status[STATUS_BYTES];
        int r;

        manager_tell_start(m);
        /* The first census before we say that we are ready: who waits for us finds figures. */
        r = take_census(m, status);
        if (r >= 0)
                (void)journal_log(m->journal, JOURNAL_FIRST_CENSUS, NULL, "First census: %s", status);
        (void)service_ready(status);
        if (m->options.once)
                return r;

        r = arm(m, m->census_boot_usec + m->snapshot.interval_usec);
        if (r >= 0)
                r = sd_event_loop(m->event);

        /* What came since the last census, and is only in the kernel: the store keeps it over a restart, the files over a stop. */
        (void)manager_collect_deaths(m);
        manager_save_ages(m, true);
        manager_save_findings(m);
        (void)journal_log(m->journal, JOURNAL_STOPPED, NULL, "Stopped after %" PRIu64 " census%s", m->snapshot.censuses,
                          m->snapshot.censuses == 1 ? "" : "es");
        return r;
}
