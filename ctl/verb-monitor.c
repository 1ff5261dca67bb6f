/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* monitor: what is found, and what is over, as it happens. watch: one subtree, a line for each change. Both until Ctrl-C. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "client.h"
#include "daemon/json.h"
#include "daemon/names.h"
#include "verb.h"
#include "text.h"
#include "watch.h"

/* How long a wait for messages is at most: Ctrl-C between the look and the wait is noticed then. */
#define WAIT_USEC 500000

typedef struct Monitor {
        sd_bus *bus;
        Format format;
        bool json;
        const char *object; /* watch: of the subtree */
        bool heading;
        ExitCode code;
} Monitor;

static void add_clock(Text *t) {
        time_t now = time(NULL);
        struct tm tm = {};
        char text[32] = "";

        if (localtime_r(&now, &tm))
                (void)strftime(text, sizeof(text), "%H:%M:%S", &tm);
        text_add_string(t, text);
}

static void print_line(Text *t) {
        (void)printf("%s\n", text_get(t));
        (void)fflush(stdout);
        text_done(t);
}

static void print_json_line(Monitor *mon, json_t *o) {
        mon->code = exit_from_output(json_write_value(stdout, o));
        (void)fflush(stdout);
}

/* Other clients of the bus can send what they like: only the owner of the name is listened to, by the match. What is not as it should be is left out. */
static bool read_all(sd_bus_message *m, json_t **values, size_t n) {
        for (size_t i = 0; i < n; i++) {
                values[i] = client_read(m);
                if (!values[i]) {
                        while (i-- > 0)
                                json_decref(values[i]);
                        return false;
                }
        }
        return true;
}

/* ------------------------------------------------------------------------------------------------------------- monitor */

static bool kind_counts_bytes(const char *kind) {
        return strcmp(kind, "writeback") == 0 || strcmp(kind, "swap") == 0 || strcmp(kind, "subtree") == 0 || strcmp(kind, "host") == 0;
}

static void add_value(Text *t, const Format *f, const char *kind, uint64_t value) {
        if (kind_counts_bytes(kind))
                text_add_size_words(t, f, value);
        else
                text_add_count(t, value);
}

static void add_finding(Text *t, const Format *f, const json_t *finding) {
        const char *path = client_get_string(finding, "PathText"), *kind = client_get_string(finding, "Kind"), *text = client_get_string(finding, "Text");
        uint64_t value = 0, limit = 0;

        text_add_string(t, kind);
        text_add_string(t, " ");
        text_add_name(t, f, *path ? path : "this host", strlen(*path ? path : "this host"));
        if (*text) {
                text_add_string(t, ": ");
                text_add_name(t, f, text, strlen(text));
        } else if (client_get_u64(finding, "Value", &value) && client_get_u64(finding, "Limit", &limit)) {
                text_add_string(t, ": ");
                add_value(t, f, kind, value);
                text_add_string(t, ", the limit is ");
                add_value(t, f, kind, limit);
        }
}

static int on_finding(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        bool raised = strcmp(sd_bus_message_get_member(m), "FindingRaised") == 0;
        json_t *v[3] = {}, *finding;
        Monitor *mon = userdata;
        Text t = {};

        if (!read_all(m, v, raised ? 2 : 3))
                return 0;
        finding = v[raised ? 1 : 2];
        if (mon->json) {
                json_t *o = json_object();

                (void)json_put_text(o, "signal", raised ? "FindingRaised" : "FindingCleared");
                (void)json_object_set(o, "finding", finding);
                if (!raised)
                        (void)json_object_set(o, "end", v[1]);
                print_json_line(mon, o);
        } else {
                add_clock(&t);
                text_add_string(&t, raised ? " raised " : " over   ");
                add_finding(&t, &mon->format, finding);
                if (!raised) {
                        text_add_string(&t, " (");
                        text_add_string(&t, json_is_string(v[1]) ? json_string_value(v[1]) : "");
                        text_add_string(&t, ")");
                }
                print_line(&t);
        }
        for (size_t i = 0; i < ELEMENTSOF(v); i++)
                json_decref(v[i]);
        return 0;
}

static int on_limit(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        Monitor *mon = userdata;
        json_t *v[5] = {};
        Text t = {};

        if (!read_all(m, v, ELEMENTSOF(v)))
                return 0;
        if (mon->json) {
                static const char *const names[] = { "kind", "path", "value", "limit", "above" };
                json_t *o = json_object();

                (void)json_put_text(o, "signal", "LimitCrossed");
                for (size_t i = 0; i < ELEMENTSOF(v); i++)
                        (void)json_object_set(o, names[i], v[i]);
                print_json_line(mon, o);
        } else if (json_is_string(v[0]) && json_is_string(v[1])) {
                const char *kind = json_string_value(v[0]), *path = json_string_value(v[1]);

                add_clock(&t);
                text_add_string(&t, json_is_true(v[4]) ? " above  " : " below  ");
                text_add_string(&t, kind);
                text_add_string(&t, " ");
                text_add_name(&t, &mon->format, *path ? path : "this host", strlen(*path ? path : "this host"));
                text_add_string(&t, ": ");
                add_value(&t, &mon->format, kind, (uint64_t)json_integer_value(v[2]));
                if (json_is_integer(v[3])) {
                        text_add_string(&t, ", the limit is ");
                        add_value(&t, &mon->format, kind, (uint64_t)json_integer_value(v[3]));
                }
                print_line(&t);
        }
        for (size_t i = 0; i < ELEMENTSOF(v); i++)
                json_decref(v[i]);
        return 0;
}

/* --------------------------------------------------------------------------------------------------------------- watch */

static void print_subtree(Monitor *mon) {
        static const char *const counts[] = { "Memcgs", "Live", "Dying", "Units" };
        json_t *properties = NULL;
        uint64_t n;
        Text t = {};

        mon->code = client_get_all(mon->bus, mon->object, CLIENT_SUBTREE, &properties);
        if (mon->code != CTL_EXIT_OK)
                return;
        if (mon->json) {
                print_json_line(mon, properties);
                return;
        }
        if (!mon->heading)
                (void)puts("TIME      MEMCGS     LIVE    DYING    UNITS  OVERHEAD     DYING");
        mon->heading = true;
        add_clock(&t);
        for (size_t i = 0; i < ELEMENTSOF(counts); i++)
                if (client_get_u64(properties, counts[i], &n))
                        text_add(&t, " %8" PRIu64, n);
                else
                        text_add(&t, " %8s", "-");
        for (unsigned i = 0; i < 2; i++) {
                Text size = {};

                if (client_get_u64(properties, i == 0 ? "OverheadBytes" : "OverheadDyingBytes", &n))
                        text_add_size(&size, &mon->format, n);
                text_add(&t, " %9s", text_get(&size));
                text_done(&size);
        }
        json_decref(properties);
        print_line(&t);
}

static int on_subtree(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        const char *interface = "";
        Monitor *mon = userdata;

        if (sd_bus_message_read_basic(m, 's', &interface) >= 0 && strcmp(interface, CLIENT_SUBTREE) == 0)
                print_subtree(mon);
        return 0;
}

/* ----------------------------------------------------------------------------------------------------------------- both */

/* The daemon ended: what it is watched for it does not know when it is back. */
static int on_owner(sd_bus_message *m, void *userdata, _unused_ sd_bus_error *error) {
        const char *name, *old, *new;
        Monitor *mon = userdata;

        if (sd_bus_message_read(m, "sss", &name, &old, &new) >= 0 && strcmp(name, CLIENT_NAME) == 0 && !*new)
                mon->code = exit_complain(CTL_EXIT_FAILURE, "shrinkwatchd has ended");
        return 0;
}

static int match(Monitor *mon, const char *path, const char *interface, const char *member, sd_bus_message_handler_t fn) {
        return sd_bus_match_signal(mon->bus, NULL, CLIENT_NAME, path, interface, member, fn, mon);
}

static ExitCode begin(Monitor *mon, const Options *options) {
        ExitCode code;
        Watch w;
        int r;

        format_detect(&mon->format, option_given(options, OPTION_BYTES));
        mon->json = option_given(options, OPTION_JSON);
        r = watch_begin(&w, 1);
        if (r < 0)
                return exit_complain(CTL_EXIT_FAILURE, "cannot wait for signals: %s", strerror(-r));
        code = client_open(&mon->bus);
        if (code != CTL_EXIT_OK)
                return code;
        r = sd_bus_match_signal(mon->bus, NULL, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", on_owner, mon);
        return r < 0 ? client_failed(r, NULL) : CTL_EXIT_OK;
}

static ExitCode loop(Monitor *mon) {
        while (mon->code == CTL_EXIT_OK && !watch_interrupted() && !ferror(stdout)) {
                int r = sd_bus_process(mon->bus, NULL);

                if (r == 0)
                        r = sd_bus_wait(mon->bus, WAIT_USEC);
                if (r < 0 && r != -EINTR)
                        return exit_complain(CTL_EXIT_FAILURE, "the bus is gone: %s", strerror(-r));
        }
        return mon->code;
}

ExitCode verb_monitor(const Options *options) {
        json_t *properties = NULL;
        Monitor mon = {};
        ExitCode code = begin(&mon, options);
        int r = 0;

        if (code == CTL_EXIT_OK) {
                r = match(&mon, CLIENT_PATH, CLIENT_MANAGER, "FindingRaised", on_finding);
                if (r >= 0)
                        r = match(&mon, CLIENT_PATH, CLIENT_MANAGER, "FindingCleared", on_finding);
                if (r >= 0)
                        r = match(&mon, CLIENT_PATH, CLIENT_MANAGER, "LimitCrossed", on_limit);
                if (r < 0)
                        code = client_failed(r, NULL);
        }
        /* Whether it is there at all; it is started where it can be. */
        if (code == CTL_EXIT_OK)
                code = client_get_all(mon.bus, CLIENT_PATH, CLIENT_MANAGER, &properties);
        json_decref(properties);
        if (code == CTL_EXIT_OK)
                code = loop(&mon);
        sd_bus_flush_close_unref(mon.bus);
        return code;
}

/* A path below the mount point is one below the root of the hierarchy. */
static const char *strip_mount(const char *path) {
        Names *names = NULL;
        size_t n;

        if (names_new(&names) < 0)
                return path;
        n = strlen(names->mount_point);
        if (strncmp(path, names->mount_point, n) == 0 && (path[n] == '/' || path[n] == '\0'))
                path = path[n] ? path + n : "/";
        names_free(names);
        return path;
}

static ExitCode watch_path(Monitor *mon, const char *path, sd_bus_message **ret_reply) {
        sd_bus_error error = SD_BUS_ERROR_NULL;
        sd_bus_message *m = NULL;
        ExitCode code = CTL_EXIT_OK;
        int r;

        r = sd_bus_message_new_method_call(mon->bus, &m, CLIENT_NAME, CLIENT_PATH, CLIENT_MANAGER, "Watch");
        if (r >= 0)
                r = sd_bus_message_append_array(m, 'y', path, strlen(path));
        if (r >= 0)
                r = sd_bus_message_set_allow_interactive_authorization(m, true);
        if (r >= 0)
                r = sd_bus_call(mon->bus, m, 0, &error, ret_reply);
        if (r >= 0)
                r = sd_bus_message_read_basic(*ret_reply, 'o', &mon->object);
        if (r < 0)
                code = client_failed(r, &error);
        sd_bus_error_free(&error);
        sd_bus_message_unref(m);
        return code;
}

ExitCode verb_watch(const Options *options) {
        sd_bus_message *reply = NULL;
        Monitor mon = {};
        ExitCode code = begin(&mon, options);

        if (code == CTL_EXIT_OK)
                code = watch_path(&mon, strip_mount(options->argument), &reply);
        if (code == CTL_EXIT_OK) {
                int r = match(&mon, mon.object, "org.freedesktop.DBus.Properties", "PropertiesChanged", on_subtree);

                if (r < 0)
                        code = client_failed(r, NULL);
        }
        if (code == CTL_EXIT_OK) {
                print_subtree(&mon);
                code = loop(&mon);
        }
        sd_bus_message_unref(reply);
        sd_bus_flush_close_unref(mon.bus);
        return code;
}
