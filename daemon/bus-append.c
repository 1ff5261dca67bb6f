/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Values into messages: one typed function around each variadic call, and the documents of json as dictionaries. */
#include "bus-internal.h"

int bus_append_u64(sd_bus_message *m, uint64_t value) {
        return sd_bus_message_append_basic(m, 't', &value);
}

int bus_append_string(sd_bus_message *m, const char *s) {
        return sd_bus_message_append_basic(m, 's', s);
}

int bus_append_bytes(sd_bus_message *m, const char *s, size_t len) {
        return sd_bus_message_append_array(m, 'y', s, len);
}

/* Opens an entry of a{sv}. To be followed by the value and bus_close_entry(). */
int bus_open_entry(sd_bus_message *m, const char *key, const char *signature) {
        int r = sd_bus_message_open_container(m, 'e', "sv");

        if (r >= 0)
                r = bus_append_string(m, key);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', signature);
        return r;
}

int bus_close_entry(sd_bus_message *m) {
        int r = sd_bus_message_close_container(m);

        return r < 0 ? r : sd_bus_message_close_container(m);
}

int bus_put_u64(sd_bus_message *m, const char *key, uint64_t value) {
        int r = bus_open_entry(m, key, "t");

        if (r >= 0)
                r = bus_append_u64(m, value);
        return r < 0 ? r : bus_close_entry(m);
}

int bus_put_double(sd_bus_message *m, const char *key, double value) {
        int r = bus_open_entry(m, key, "d");

        if (r >= 0)
                r = sd_bus_message_append_basic(m, 'd', &value);
        return r < 0 ? r : bus_close_entry(m);
}

int bus_put_bool(sd_bus_message *m, const char *key, bool value) {
        int r = bus_open_entry(m, key, "b"), b = value;

        if (r >= 0)
                r = sd_bus_message_append_basic(m, 'b', &b);
        return r < 0 ? r : bus_close_entry(m);
}

int bus_put_string(sd_bus_message *m, const char *key, const char *s) {
        int r;

        if (!s)
                return 0;
        r = bus_open_entry(m, key, "s");
        if (r >= 0)
                r = bus_append_string(m, s);
        return r < 0 ? r : bus_close_entry(m);
}

int bus_put_bytes(sd_bus_message *m, const char *key, const char *s, size_t len) {
        int r = bus_open_entry(m, key, "ay");

        if (r >= 0)
                r = bus_append_bytes(m, s, len);
        return r < 0 ? r : bus_close_entry(m);
}

/* Bytes for programs under one name, text for people under another. */
int bus_put_path(sd_bus_message *m, const char *path, size_t len) {
        _cleanup_(freep) char *text = escape_text(path, len, 0, NULL);
        int r = text ? 0 : -ENOMEM;

        if (r >= 0)
                r = bus_put_string(m, "path", text);
        return r < 0 ? r : bus_put_bytes(m, "path_bytes", path, len);
}

/* ---------------------------------------------------------------------------------------------------------------- json */

static int append_members(sd_bus_message *m, json_t *object);

/* An array of objects: that is all there is in our documents. */
static int append_array(sd_bus_message *m, json_t *array) {
        size_t n = json_array_size(array);
        int r;

        r = sd_bus_message_open_container(m, 'a', "a{sv}");
        for (size_t i = 0; i < n && r >= 0; i++)
                r = bus_append_object(m, json_array_get(array, i));
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int put_member(sd_bus_message *m, const char *key, json_t *value) {
        int r;

        switch (json_typeof(value)) {
        case JSON_INTEGER:
                return bus_put_u64(m, key, (uint64_t)json_integer_value(value));
        case JSON_TRUE:
        case JSON_FALSE:
                return bus_put_bool(m, key, json_is_true(value));
        case JSON_STRING:
                /* Ours are text; the raw bytes of a path come apart. */
                return strcmp(key, "path_bytes") == 0 ? 0 : bus_put_string(m, key, json_string_value(value));
        case JSON_REAL:
                return bus_put_double(m, key, json_real_value(value));
        case JSON_OBJECT:
                r = bus_open_entry(m, key, "a{sv}");
                if (r >= 0)
                        r = bus_append_object(m, value);
                return r < 0 ? r : bus_close_entry(m);
        case JSON_ARRAY:
                r = bus_open_entry(m, key, "aa{sv}");
                if (r >= 0)
                        r = append_array(m, value);
                return r < 0 ? r : bus_close_entry(m);
        default:
                return 0; /* null: not known, and so not there */
        }
}

static int append_members(sd_bus_message *m, json_t *object) {
        const char *key;
        json_t *value;

        json_object_foreach (object, key, value) {
                int r = put_member(m, key, value);

                if (r < 0)
                        return r;
        }
        return 0;
}

int bus_append_object(sd_bus_message *m, json_t *object) {
        int r;

        if (!object)
                return -ENOMEM;
        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = append_members(m, object);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* What the census says of one memcg, what the ages say of its death, and whose it is by the pattern of its name. */
int bus_append_memcg(sd_bus_message *m, const Snapshot *s, uint32_t memcg) {
        const Census *c = s->reading->census;
        json_t *object = json_memcg(s->facts, s->reading, memcg);
        _cleanup_(freep) char *path = NULL;
        size_t len = 0;
        Age age;
        int r;

        path = census_path(c, memcg, &len);
        r = object && path ? sd_bus_message_open_container(m, 'a', "{sv}") : -ENOMEM;
        if (r >= 0)
                r = append_members(m, object);
        if (r >= 0)
                r = bus_put_bytes(m, "path_bytes", path, len);
        if (r >= 0)
                r = bus_put_u64(m, "overhead_bytes", census_overhead(c->memcgs + memcg));
        if (r >= 0 && c->memcgs[memcg].state == CENSUS_DYING && ages_get(s->ages, c->memcgs[memcg].serial, &age)) {
                r = bus_put_u64(m, "dying_since_boottime_usec", age.boot_usec);
                if (r >= 0)
                        r = bus_put_bool(m, "dying_since_exact", age.exact);
        }
        json_decref(object);
        return r < 0 ? r : sd_bus_message_close_container(m);
}
