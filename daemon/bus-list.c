/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* List(): filter, sort, page. */
#include <fnmatch.h>
#include <limits.h>

#include "bus-internal.h"
#include "identity.h"

#define PAGE_BYTES_MAX (8ULL << 20)
#define MEMCG_BYTES 1024U
#define NODE_BYTES 192U

typedef struct Filter {
        const char *state, *pattern, *cause, *unit, *machine, *container;
        const char *prefix;
        size_t prefix_len;
        uint64_t least_bytes;
} Filter;

typedef struct Row {
        uint64_t key;    /* most first */
        uint64_t serial; /* and of the same, the older one */
        uint32_t memcg;
} Row;

/* ------------------------------------------------------------------------------------------------------------- reading */

static int read_string(sd_bus_message *m, const char **ret) {
        int r = sd_bus_message_enter_container(m, 'v', "s");

        if (r >= 0)
                r = sd_bus_message_read_basic(m, 's', ret);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_number(sd_bus_message *m, uint64_t *ret) {
        int r = sd_bus_message_enter_container(m, 'v', "t");

        if (r >= 0)
                r = sd_bus_message_read_basic(m, 't', ret);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_prefix(sd_bus_message *m, Filter *f, sd_bus_error *error) {
        int r = sd_bus_message_enter_container(m, 'v', "ay");

        if (r >= 0)
                r = bus_read_path(m, &f->prefix, &f->prefix_len, error);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int read_entry(sd_bus_message *m, const char *key, Filter *f, sd_bus_error *error) {
        const struct {
                const char *key;
                const char **value;
        } strings[] = {
                { "state", &f->state },     { "pattern", &f->pattern }, { "cause", &f->cause }, { "unit", &f->unit },
                { "machine", &f->machine }, { "container", &f->container },
        };

        for (size_t i = 0; i < ELEMENTSOF(strings); i++)
                if (strcmp(key, strings[i].key) == 0)
                        return read_string(m, strings[i].value);
        if (strcmp(key, "min_overhead_bytes") == 0)
                return read_number(m, &f->least_bytes);
        if (strcmp(key, "path_prefix") == 0)
                return read_prefix(m, f, error);
        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS,
                                 "There is no filter \"%s\": there are cause, container, machine, min_overhead_bytes, path_prefix, pattern, state, unit", key);
}

static int read_filter(sd_bus_message *m, Filter *f, sd_bus_error *error) {
        int r = sd_bus_message_enter_container(m, 'a', "{sv}");

        while (r >= 0) {
                const char *key;

                r = sd_bus_message_enter_container(m, 'e', "sv");
                if (r <= 0)
                        break;
                r = sd_bus_message_read_basic(m, 's', &key);
                if (r >= 0)
                        r = read_entry(m, key, f, error);
                if (r == -ENXIO)
                        return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "The filter \"%s\" has a value of another type: see org.shrinkwatch1(5)", key);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* ------------------------------------------------------------------------------------------------------------ matching */

static bool has_cause(const Reading *reading, uint32_t memcg, const char *cause) {
        const Pin *pins;
        size_t n;

        if (!reading->pins || !pins_get(reading->pins, memcg, &pins, &n))
                return false;
        for (size_t i = 0; i < n; i++)
                if (strcmp(pin_cause_to_string(pins[i].cause), cause) == 0)
                        return true;
        return false;
}

static bool is(const IdentityPart *part, const char *wanted) {
        return !wanted || (part->len == strlen(wanted) && memcmp(part->s, wanted, part->len) == 0);
}

/* 1, 0, -ENOMEM. */
static int matches(const Reading *reading, uint32_t memcg, const Filter *f) {
        const CensusMemcg *m = reading->census->memcgs + memcg;
        _cleanup_(freep) char *path = NULL;
        size_t len = 0, n = f->prefix_len;
        Identity id;

        if (f->state && strcmp(census_state_to_string(m->state), f->state) != 0)
                return 0;
        if (census_overhead(m) < f->least_bytes || (f->cause && !has_cause(reading, memcg, f->cause)))
                return 0;
        if (!f->prefix && !f->pattern && !f->unit && !f->machine && !f->container)
                return 1;
        path = census_path(reading->census, memcg, &len);
        if (!path)
                return -ENOMEM;
        while (f->prefix && n > 0 && f->prefix[n - 1] == '/')
                n--;
        if (f->prefix && (len < n || memcmp(path, f->prefix, n) != 0 || (len > n && n > 0 && path[n] != '/')))
                return 0;
        if (f->pattern && fnmatch(f->pattern + strspn(f->pattern, "/"), path + 1, FNM_PATHNAME | FNM_NOESCAPE) != 0)
                return 0;
        identity_parse(path, len, &id);
        return is(&id.unit, f->unit) && is(&id.machine, f->machine) && is(&id.container, f->container);
}

/* ------------------------------------------------------------------------------------------------------------- sorting */

static uint64_t key_none(_unused_ const Snapshot *s, _unused_ uint32_t memcg) {
        return 0;
}

/* In the order of the tree: what comes first has most. */
static uint64_t key_tree(_unused_ const Snapshot *s, uint32_t memcg) {
        return UINT32_MAX - memcg;
}

static uint64_t key_overhead(const Snapshot *s, uint32_t memcg) {
        return census_overhead(s->reading->census->memcgs + memcg);
}

static uint64_t key_subtree(const Snapshot *s, uint32_t memcg) {
        return census_subtree_overhead(s->reading->census->memcgs + memcg);
}

static uint64_t key_age(const Snapshot *s, uint32_t memcg) {
        const CensusMemcg *m = s->reading->census->memcgs + memcg;
        Age age;

        return m->state == CENSUS_DYING && ages_get(s->ages, m->serial, &age) && age.boot_usec < s->boot_usec ? s->boot_usec - age.boot_usec : 0;
}

static uint64_t key_refs(const Snapshot *s, uint32_t memcg) {
        const CensusMemcg *m = s->reading->census->memcgs + memcg;

        return m->valid & SW_MEMCG_REFS ? m->refs : 0;
}

static const struct {
        const char *name;
        uint64_t (*key)(const Snapshot *s, uint32_t memcg);
} sorts[] = {
        { "", key_none },           { "serial", key_none },       { "tree", key_tree }, { "overhead", key_overhead },
        { "subtree", key_subtree }, { "age", key_age }, { "refs", key_refs },
};

static int compare_rows(const void *a, const void *b) {
        const Row *x = a, *y = b;

        if (x->key != y->key)
                return x->key > y->key ? -1 : 1;
        return x->serial < y->serial ? -1 : x->serial > y->serial;
}

/* ---------------------------------------------------------------------------------------------------------------- page */

/* About what a memcg takes of a message: its path is in it as bytes and, escaped, as text. */
static uint64_t message_bytes(const Census *c, uint32_t memcg) {
        uint64_t bytes = MEMCG_BYTES + (uint64_t)c->memcgs[memcg].n_nodes * NODE_BYTES;

        for (uint32_t i = memcg; c->memcgs[i].parent != CENSUS_NONE; i = c->memcgs[i].parent)
                bytes += 5U * (1U + c->memcgs[i].name_len);
        return bytes;
}

static int reply_page(sd_bus_message *m, const Snapshot *s, const Row *rows, size_t n, size_t begin, size_t limit) {
        size_t most = n - begin < limit ? n : begin + limit, end = begin;
        sd_bus_message *reply = NULL;
        uint64_t bytes = 0;
        int r;

        /* Paths are as long as whoever makes cgroups likes; a message is not. */
        while (end < most) {
                bytes += message_bytes(s->reading->census, rows[end].memcg);
                if (bytes > PAGE_BYTES_MAX && end > begin)
                        break;
                end++;
        }

        r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = bus_append_u64(reply, s->boot_usec);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "a{sv}");
        for (size_t i = begin; i < end && r >= 0; i++)
                r = bus_append_memcg(reply, s, rows[i].memcg);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = bus_append_u64(reply, n - end);
        if (r >= 0)
                r = sd_bus_send(NULL, reply, NULL);
        sd_bus_message_unref(reply);
        return r;
}

int bus_method_list(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        const Snapshot *s = b->snapshot;
        _cleanup_(freep) Row *rows = NULL;
        size_t sort = 0, n = 0, begin = 0;
        const char *name;
        Filter f = {};
        const Census *c;
        uint32_t limit;
        uint64_t after;
        int r;

        r = read_filter(m, &f, error);
        if (r >= 0)
                r = sd_bus_message_read(m, "sut", &name, &limit, &after);
        if (r < 0)
                return r;
        if (!s->reading)
                return bus_no_census(error);
        while (sort < ELEMENTSOF(sorts) && strcmp(name, sorts[sort].name) != 0)
                sort++;
        if (sort == ELEMENTSOF(sorts))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "There is no order \"%s\": there are serial, tree, overhead, subtree, age, refs", name);
        if (limit > BUS_LIST_MAX)
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "A page has %u at most; ask for the next one with the serial of the last", BUS_LIST_MAX);

        c = s->reading->census;
        rows = calloc(c->n_memcgs + 1, sizeof(*rows));
        if (!rows)
                return -ENOMEM;
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                r = matches(s->reading, i, &f);
                if (r < 0)
                        return r;
                if (r > 0)
                        rows[n++] = (Row){ .key = sorts[sort].key(s, i), .serial = c->memcgs[i].serial, .memcg = i };
        }
        if (n > 1)
                qsort(rows, n, sizeof(*rows), compare_rows);
        if (after > 0) {
                uint32_t memcg = census_find(c, after);
                const Row last = { .key = memcg == CENSUS_NONE ? 0 : sorts[sort].key(s, memcg), .serial = after };

                /* By serial the page begins behind it, whether it is there or not; else it has to be. */
                if (memcg == CENSUS_NONE && sorts[sort].key != key_none)
                        return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_MEMCG, "The last one of the page before is gone: begin again, or sort by serial");
                while (begin < n && compare_rows(rows + begin, &last) <= 0)
                        begin++;
        }
        return reply_page(m, s, rows, n, begin, limit > 0 ? limit : BUS_LIST_MAX);
}
