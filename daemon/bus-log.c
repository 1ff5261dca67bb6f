/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* org.freedesktop.LogControl1: "systemctl service-log-level shrinkwatchd debug". */
#include <syslog.h>

#include "bus-internal.h"

static const char *const levels[] = {
        [LOG_EMERG] = "emerg",     [LOG_ALERT] = "alert",   [LOG_CRIT] = "crit", [LOG_ERR] = "err",
        [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice", [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

static int property_get_level(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                              sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const Bus *b = userdata;

        return bus_append_string(reply, levels[journal_level(b->journal)]);
}

/* What is to be set: for root alone. */
static int read_setting(Bus *b, sd_bus_message *m, const char **ret, sd_bus_error *error) {
        uid_t uid;
        int r = bus_sender(b, m, &uid);

        if (r < 0)
                return r;
        if (uid != 0)
                return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED, "What is logged is for root to say");
        return sd_bus_message_read_basic(m, 's', ret);
}

static int property_set_level(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                              sd_bus_message *value, void *userdata, sd_bus_error *error) {
        const char *s = "";
        Bus *b = userdata;
        int r = read_setting(b, value, &s, error);

        if (r < 0)
                return r;
        for (int i = 0; i < (int)ELEMENTSOF(levels); i++)
                if (strcmp(s, levels[i]) == 0) {
                        journal_set_level(b->journal, i);
                        return 0;
                }
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "A level is emerg, alert, crit, err, warning, notice, info or debug");
}

static int property_get_target(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                               sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const Bus *b = userdata;

        return bus_append_string(reply, journal_is_journal(b->journal) ? "journal" : "console");
}

static int property_get_identifier(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                                   sd_bus_message *reply, _unused_ void *userdata, _unused_ sd_bus_error *error) {
        return bus_append_string(reply, "shrinkwatchd");
}

static int property_set_target(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                               sd_bus_message *value, void *userdata, sd_bus_error *error) {
        const char *s = "";
        Bus *b = userdata;
        int r = read_setting(b, value, &s, error);

        if (r < 0)
                return r;
        /* What is in use may be asked for; "auto" is what the daemon chose at its start. */
        if (strcmp(s, "auto") == 0 || strcmp(s, journal_is_journal(b->journal) ? "journal" : "console") == 0)
                return 0;
        return sd_bus_error_setf(error, SD_BUS_ERROR_NOT_SUPPORTED, "Messages go to the journal where there is one, else to standard error: that is decided at the start");
}

static const sd_bus_vtable log_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_WRITABLE_PROPERTY("LogLevel", "s", property_get_level, property_set_level, 0, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_WRITABLE_PROPERTY("LogTarget", "s", property_get_target, property_set_target, 0, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_PROPERTY("SyslogIdentifier", "s", property_get_identifier, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_VTABLE_END,
};

int bus_log_register(Bus *b) {
        return sd_bus_add_object_vtable(b->bus, NULL, "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1", log_vtable, b);
}
