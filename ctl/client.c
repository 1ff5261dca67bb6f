/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client.h"

#include <math.h>
#include <stdio.h>

#include "daemon/escape.h"

ExitCode client_open(sd_bus **ret) {
        int r = sd_bus_open_system(ret);

        if (r >= 0)
                return CTL_EXIT_OK;
        return exit_complain(CTL_EXIT_FAILURE, "cannot reach the system bus: %s. Where there is none, --direct reads the kernel itself", strerror(-r));
}

ExitCode client_failed(int r, const sd_bus_error *error) {
        if (sd_bus_error_has_name(error, SD_BUS_ERROR_SERVICE_UNKNOWN) || sd_bus_error_has_name(error, SD_BUS_ERROR_NAME_HAS_NO_OWNER))
                return exit_complain(CTL_EXIT_FAILURE, "shrinkwatchd does not run: 'systemctl enable --now shrinkwatchd', or --direct, which reads the kernel itself");
        if (sd_bus_error_has_name(error, SD_BUS_ERROR_ACCESS_DENIED) || sd_bus_error_has_name(error, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED))
                return exit_complain(CTL_EXIT_NOT_PERMITTED, "%s", error->message ? error->message : error->name);
        if (sd_bus_error_has_name(error, CLIENT_NAME ".NoSuchMemcg"))
                return exit_complain(CTL_EXIT_NOT_FOUND, "%s", error->message ? error->message : error->name);
        return exit_complain(CTL_EXIT_FAILURE, "shrinkwatchd: %s", error && error->message ? error->message : strerror(-r));
}

/* -------------------------------------------------------------------------------------------------------------- values */

static json_t *read_bytes(sd_bus_message *m) {
        _cleanup_(freep) char *text = NULL;
        const void *bytes = NULL;
        size_t len = 0;

        if (sd_bus_message_read_array(m, 'y', &bytes, &len) < 0)
                return NULL;
        text = escape_text(len > 0 ? bytes : "", len, 0, NULL);
        return text ? json_string(text) : NULL;
}

/* Entries {kv}, k a string. */
static json_t *read_dictionary(sd_bus_message *m, const char *contents) {
        json_t *object = json_object();
        char entry[256];
        int r;

        (void)snprintf(entry, sizeof(entry), "%.*s", (int)strlen(contents) - 2, contents + 1);
        r = sd_bus_message_enter_container(m, 'a', contents);
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', entry)) > 0) {
                const char *key = NULL;
                char type;

                r = sd_bus_message_peek_type(m, &type, NULL);
                if (r >= 0)
                        r = type == 's' || type == 'o' ? sd_bus_message_read_basic(m, type, &key) : -EBADMSG;
                if (r >= 0 && json_object_set_new(object, key, client_read(m)) < 0)
                        r = -ENOMEM;
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        if (r >= 0 && sd_bus_message_exit_container(m) >= 0)
                return object;
        json_decref(object);
        return NULL;
}

static json_t *read_list(sd_bus_message *m, char type, const char *contents) {
        json_t *array = json_array();
        int r = sd_bus_message_enter_container(m, type, contents);

        while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0)
                if (json_array_append_new(array, client_read(m)) < 0)
                        r = -ENOMEM;
        if (r >= 0 && sd_bus_message_exit_container(m) >= 0)
                return array;
        json_decref(array);
        return NULL;
}

static json_t *read_variant(sd_bus_message *m, const char *contents) {
        json_t *value;

        if (sd_bus_message_enter_container(m, 'v', contents) < 0)
                return NULL;
        value = client_read(m);
        if (value && sd_bus_message_exit_container(m) >= 0)
                return value;
        json_decref(value);
        return NULL;
}

static json_t *read_number(sd_bus_message *m, char type) {
        union {
                uint8_t y;
                int b;
                uint32_t u;
                int64_t x;
                uint64_t t;
                double d;
                const char *s;
        } v = {};

        if (sd_bus_message_read_basic(m, type, &v) < 0)
                return NULL;
        switch (type) {
        case 'y':
                return json_integer(v.y);
        case 'b':
                return json_boolean(v.b);
        case 'u':
                return json_integer(v.u);
        case 'x':
                return json_integer(v.x);
        case 't':
                return v.t == UINT64_MAX ? json_null() : json_integer(v.t > INT64_MAX ? INT64_MAX : (int64_t)v.t);
        case 'd':
                return isfinite(v.d) ? json_real(v.d) : json_null();
        case 's':
        case 'o':
        case 'g':
                return json_string(v.s);
        default:
                return json_null();
        }
}

json_t *client_read(sd_bus_message *m) {
        const char *contents = NULL;
        char type;

        if (sd_bus_message_peek_type(m, &type, &contents) <= 0)
                return NULL;
        switch (type) {
        case 'a':
                return strcmp(contents, "y") == 0 ? read_bytes(m) : contents[0] == '{' ? read_dictionary(m, contents) : read_list(m, 'a', contents);
        case 'r':
                return read_list(m, 'r', contents);
        case 'v':
                return read_variant(m, contents);
        default:
                return read_number(m, type);
        }
}

/* --------------------------------------------------------------------------------------------------------------- calls */

static ExitCode call_for_value(sd_bus *bus, const char *path, const char *interface, const char *method, const char *argument, json_t **ret) {
        sd_bus_error error = SD_BUS_ERROR_NULL;
        sd_bus_message *reply = NULL;
        ExitCode code;
        int r;

        r = argument ? sd_bus_call_method(bus, CLIENT_NAME, path, interface, method, &error, &reply, "s", argument) :
                       sd_bus_call_method(bus, CLIENT_NAME, path, interface, method, &error, &reply, NULL);
        if (r < 0)
                code = client_failed(r, &error);
        else {
                *ret = client_read(reply);
                code = *ret ? CTL_EXIT_OK : exit_complain(CTL_EXIT_FAILURE, "shrinkwatchd gave an answer that is not understood");
        }
        sd_bus_message_unref(reply);
        sd_bus_error_free(&error);
        return code;
}

ExitCode client_get_all(sd_bus *bus, const char *path, const char *interface, json_t **ret) {
        return call_for_value(bus, path, "org.freedesktop.DBus.Properties", "GetAll", interface, ret);
}

ExitCode client_get_objects(sd_bus *bus, json_t **ret) {
        return call_for_value(bus, CLIENT_PATH, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", NULL, ret);
}

bool client_get_u64(const json_t *object, const char *key, uint64_t *ret) {
        const json_t *value = json_object_get(object, key);

        if (!json_is_integer(value))
                return false;
        *ret = (uint64_t)json_integer_value(value);
        return true;
}

bool client_get_real(const json_t *object, const char *key, double *ret) {
        const json_t *value = json_object_get(object, key);

        if (!json_is_real(value))
                return false;
        *ret = json_real_value(value);
        return true;
}

const char *client_get_string(const json_t *object, const char *key) {
        const char *s = json_string_value(json_object_get(object, key));

        return s ? s : "";
}
