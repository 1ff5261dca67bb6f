/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The connection: made, lost, made again. Each one begins with nothing: who watched has to say so again, as the bus that knew the clients is gone. */
#include <stdarg.h>
#include <stdio.h>

#include "bus-internal.h"

#define USEC_PER_SEC 1000000ULL
/* Between two attempts: twice as long each time. */
#define RETRY_FIRST_USEC USEC_PER_SEC
#define RETRY_LAST_USEC (60 * USEC_PER_SEC)

void bus_complain(Bus *b, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;

        if (b->complained)
                return;
        b->complained = true;
        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        if (text)
                b->hooks.complain(text, b->hooks.userdata);
}

static void disconnect(Bus *b) {
        bus_access_end(b);
        bus_subtree_free_all(b);
        free(b->findings);
        b->findings = NULL;
        b->n_findings = 0;
        b->registered = b->asked = false;
        if (b->bus)
                (void)sd_bus_flush(b->bus);
        b->bus = sd_bus_close_unref(b->bus);
}

static void retry(Bus *b) {
        uint64_t usec = b->retry_usec;

        b->retry_usec = usec < RETRY_LAST_USEC / 2 ? usec * 2 : RETRY_LAST_USEC;
        if (sd_event_source_set_time_relative(b->retry, usec) >= 0)
                (void)sd_event_source_set_enabled(b->retry, SD_EVENT_ONESHOT);
}

static int on_name(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error) {
        const sd_bus_error *error = sd_bus_message_get_error(m);
        Bus *b = userdata;

        b->asked = !error;
        if (error)
                bus_complain(b, "The name " BUS_NAME " cannot be had on the bus: %s. Trying again after each census. Is the policy of the bus for it installed, and "
                                "was the bus reloaded since its user was made?", error->message ? error->message : error->name);
        else {
                b->retry_usec = RETRY_FIRST_USEC;
                b->complained = false;
        }
        return 0;
}

/* Objects first: who finds the name finds them. */
static void become_known(Bus *b) {
        int r = 0;

        if (!b->bus || !b->ready)
                return;
        if (!b->registered) {
                b->registered = true;
                r = bus_manager_register(b);
                if (r >= 0)
                        r = bus_finding_register(b);
                if (r >= 0)
                        r = bus_subtree_register(b);
                if (r >= 0)
                        r = bus_log_register(b);
        }
        if (r >= 0 && !b->asked) {
                b->asked = true;
                r = sd_bus_request_name_async(b->bus, NULL, BUS_NAME, 0, on_name, b);
        }
        if (r < 0)
                bus_complain(b, "Cannot be on the bus: %s", strerror(-r));
}

static int on_disconnected(_unused_ sd_bus_message *m, void *userdata, _unused_ sd_bus_error *ret_error) {
        Bus *b = userdata;

        /* Not from within one of its own callbacks: by the timer. */
        b->complained = false;
        b->retry_usec = RETRY_FIRST_USEC;
        (void)sd_event_source_set_time_relative(b->retry, 0);
        (void)sd_event_source_set_enabled(b->retry, SD_EVENT_ONESHOT);
        return 0;
}

static int connect_bus(Bus *b) {
        int r = sd_bus_open_system_with_description(&b->bus, "shrinkwatchd");

        if (r >= 0)
                r = sd_bus_set_exit_on_disconnect(b->bus, false);
        if (r >= 0)
                r = sd_bus_match_signal(b->bus, NULL, "org.freedesktop.DBus.Local", "/org/freedesktop/DBus/Local", "org.freedesktop.DBus.Local", "Disconnected",
                                        on_disconnected, b);
        if (r >= 0)
                r = bus_access_begin(b);
        if (r >= 0)
                r = sd_bus_attach_event(b->bus, b->event, SD_EVENT_PRIORITY_NORMAL);
        if (r < 0) {
                disconnect(b);
                return r;
        }
        become_known(b);
        if (b->ready)
                bus_update(b);
        return 0;
}

static int on_retry(_unused_ sd_event_source *source, _unused_ uint64_t usec, void *userdata) {
        Bus *b = userdata;

        disconnect(b);
        retry(b);
        if (connect_bus(b) >= 0)
                (void)sd_event_source_set_enabled(b->retry, SD_EVENT_OFF);
        return 0;
}

int bus_new(Bus **ret, sd_event *event, Journal *journal, const Probe *probe, const Snapshot *snapshot, const BusHooks *hooks) {
        _cleanup_(bus_freep) Bus *b = calloc(1, sizeof(*b));
        int r;

        if (!b)
                return -ENOMEM;
        b->event = sd_event_ref(event);
        b->journal = journal;
        b->probe = probe;
        b->snapshot = snapshot;
        b->hooks = *hooks;
        b->serving = (uid_t)-1;
        b->retry_usec = RETRY_FIRST_USEC;
        r = sd_event_add_time_relative(event, &b->retry, CLOCK_MONOTONIC, 0, USEC_PER_SEC / 4, on_retry, b);
        if (r < 0)
                return r;
        (void)sd_event_source_set_enabled(b->retry, SD_EVENT_OFF);
        if (connect_bus(b) < 0)
                retry(b);
        *ret = TAKE_PTR(b);
        return 0;
}

static void free_patterns(Bus *b) {
        for (size_t i = 0; i < b->n_patterns; i++)
                free(b->patterns[i]);
        free(b->patterns);
        b->patterns = NULL;
        b->n_patterns = 0;
}

Bus *bus_free(Bus *b) {
        if (!b)
                return NULL;
        disconnect(b);
        free_patterns(b);
        sd_event_source_disable_unref(b->retry);
        sd_event_unref(b->event);
        free(b->degraded);
        free(b);
        return NULL;
}

int bus_set_patterns(Bus *b, char *const *patterns, size_t n) {
        char **copy = calloc(n + 1, sizeof(*copy));

        for (size_t i = 0; copy && i < n; i++) {
                copy[i] = strdup(patterns[i]);
                if (copy[i])
                        continue;
                while (i-- > 0)
                        free(copy[i]);
                free(copy);
                copy = NULL;
        }
        if (!copy)
                return -ENOMEM;
        free_patterns(b);
        b->patterns = copy;
        b->n_patterns = n;
        return 0;
}

void bus_update(Bus *b) {
        b->ready |= b->snapshot->reading != NULL;
        if (!b->bus || !b->ready)
                return;
        become_known(b);
        bus_subtree_update(b);
        bus_finding_update(b);
        bus_manager_update(b);
}
