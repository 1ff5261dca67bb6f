/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * org.shrinkwatch1.Subtree: paths that a client watches, or the configuration names, as objects whose properties change with the census. Why
 * not of everything: one object for each memcg would flood the bus.
 */
#include <fnmatch.h>
#include <limits.h>
#include <math.h>

#include "bus-internal.h"

#define SAMPLE_USEC (60 * 1000000ULL)
/* A trend is of the last hour, and of a quarter of one at least. */
#define TREND_LEAST_USEC (15 * SAMPLE_USEC)

/* -------------------------------------------------------------------------------------------------------------- values */

/* From the oldest sample to the newest. */
static double trend_of(const BusSubtree *t) {
        uint64_t usec;

        if (t->n_samples < 2)
                return (double)NAN;
        usec = t->samples[t->n_samples - 1].boot_usec - t->samples[0].boot_usec;
        if (usec < TREND_LEAST_USEC)
                return (double)NAN;
        return ((double)t->samples[t->n_samples - 1].overhead - (double)t->samples[0].overhead) * 3600e6 / (double)usec;
}

static void take_sample(BusSubtree *t, uint64_t boot_usec, uint64_t overhead) {
        if (t->n_samples > 0 && boot_usec < t->samples[t->n_samples - 1].boot_usec + SAMPLE_USEC)
                return;
        if (t->n_samples == BUS_TREND_SAMPLES) {
                memmove(t->samples, t->samples + 1, (BUS_TREND_SAMPLES - 1) * sizeof(t->samples[0]));
                t->n_samples--;
        }
        t->samples[t->n_samples].boot_usec = boot_usec;
        t->samples[t->n_samples++].overhead = overhead;
}

static int read_values(BusSubtree *t, BusSubtreeValues *ret) {
        const Snapshot *s = t->bus->snapshot;
        const Census *c = s->reading->census;
        BusSubtreeValues v = {};
        int r = subtree_sum_path(s->reading, s->ages, t->path, t->len, &v.sum);

        if (r < 0)
                return r;
        v.exists = v.sum.live != CENSUS_NONE;
        v.serial = v.exists ? c->memcgs[v.sum.live].serial : 0;
        v.above = v.exists && findings_find(s->findings, FINDING_SUBTREE, v.serial);
        v.sum.live = 0; /* an index means nothing later */
        take_sample(t, s->boot_usec, v.sum.overhead_bytes);
        v.trend = trend_of(t);
        *ret = v;
        return 0;
}

/* ---------------------------------------------------------------------------------------------------------- properties */

static int property_get_path(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                             sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const BusSubtree *t = userdata;

        return bus_append_bytes(reply, t->path, t->len);
}

static int property_get_path_text(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                                  sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const BusSubtree *t = userdata;
        _cleanup_(freep) char *text = escape_text(t->path, t->len, 0, NULL);

        return text ? bus_append_string(reply, text) : -ENOMEM;
}

static int property_get_causes(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                               sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const BusSubtree *t = userdata;

        return bus_append_causes(reply, &t->values.sum);
}

/* 0 means that there is none; units of a kernel that has none are not known. */
static int property_get_units(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, const char *property,
                              sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const BusSubtree *t = userdata;
        uint64_t units = strcmp(property, "Units") == 0 ? t->values.sum.units : t->values.sum.units_dying;

        return bus_append_u64(reply, t->bus->snapshot->facts->layout == PROBE_LAYOUT_FLAT ? UINT64_MAX : units);
}

static int property_get_oldest(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property,
                               sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {
        const BusSubtree *t = userdata;

        return bus_append_u64(reply, t->values.sum.oldest_serial > 0 ? t->values.sum.oldest_boot_usec : UINT64_MAX);
}

#define CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define SUM(property, member) SD_BUS_PROPERTY(property, "t", NULL, offsetof(BusSubtree, values.sum.member), CHANGES)

static const sd_bus_vtable subtree_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("AboveLimit", "b", NULL, offsetof(BusSubtree, values.above), CHANGES),
        SD_BUS_PROPERTY("ByCause", "a{s(tt)}", property_get_causes, 0, CHANGES),
        SUM("Dying", dying),
        SD_BUS_PROPERTY("Exists", "b", NULL, offsetof(BusSubtree, values.exists), CHANGES),
        SUM("Live", live_memcgs),
        SUM("Memcgs", memcgs),
        SD_BUS_PROPERTY("OldestDyingBoottimeUSec", "t", property_get_oldest, 0, CHANGES),
        SUM("OldestDyingSerial", oldest_serial),
        SUM("OverheadBytes", overhead_bytes),
        SUM("OverheadDyingBytes", overhead_dying_bytes),
        SD_BUS_PROPERTY("OverheadTrendPerHour", "d", NULL, offsetof(BusSubtree, values.trend), CHANGES),
        SD_BUS_PROPERTY("Path", "ay", property_get_path, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("PathText", "s", property_get_path_text, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("Serial", "t", NULL, offsetof(BusSubtree, values.serial), CHANGES),
        SD_BUS_PROPERTY("Units", "t", property_get_units, 0, CHANGES),
        SD_BUS_PROPERTY("UnitsDying", "t", property_get_units, 0, CHANGES),
        SD_BUS_VTABLE_END,
};

/* Properties that differ. */
static void changed_names(const BusSubtreeValues *a, const BusSubtreeValues *b, char **names) {
        const struct {
                const char *name;
                const void *a, *b;
                size_t size;
        } table[] = {
#define MEMBER(property, member) { property, &a->member, &b->member, sizeof(a->member) }
                MEMBER("AboveLimit", above),
                MEMBER("Dying", sum.dying),
                MEMBER("Exists", exists),
                MEMBER("Live", sum.live_memcgs),
                MEMBER("Memcgs", sum.memcgs),
                MEMBER("OldestDyingBoottimeUSec", sum.oldest_boot_usec),
                MEMBER("OldestDyingSerial", sum.oldest_serial),
                MEMBER("OverheadBytes", sum.overhead_bytes),
                MEMBER("OverheadDyingBytes", sum.overhead_dying_bytes),
                MEMBER("OverheadTrendPerHour", trend),
                MEMBER("Serial", serial),
                MEMBER("Units", sum.units),
                MEMBER("UnitsDying", sum.units_dying),
#undef MEMBER
        };
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (memcmp(table[i].a, table[i].b, table[i].size) != 0)
                        names[n++] = (char *)(uintptr_t)table[i].name;
        if (memcmp(&a->sum.causes, &b->sum.causes, sizeof(a->sum.causes)) != 0 || a->sum.writeback_known != b->sum.writeback_known)
                names[n++] = (char *)(uintptr_t)"ByCause";
        names[n] = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- objects */

static BusSubtree *subtree_free(BusSubtree *t) {
        if (!t)
                return NULL;
        sd_bus_track_unref(t->clients);
        free(t->object);
        free(t->path);
        free(t);
        return NULL;
}
DEFINE_CLEANUP(BusSubtree, subtree_free)

/* One slash in front, none doubled, none at the end: newly allocated. */
static char *normalize(const char *path, size_t len, size_t *ret_len) {
        char *s = malloc(len + 2);
        size_t n = 0;

        if (!s)
                return NULL;
        for (size_t i = 0; i < len; i++) {
                if (path[i] == '/')
                        continue;
                if (i == 0 || path[i - 1] == '/')
                        s[n++] = '/';
                s[n++] = path[i];
        }
        if (n == 0)
                s[n++] = '/';
        s[n] = '\0';
        *ret_len = n;
        return s;
}

static BusSubtree *find_exactly(const Bus *b, const char *path, size_t len) {
        for (BusSubtree *t = b->subtrees; t; t = t->next)
                if (t->len == len && memcmp(t->path, path, len) == 0)
                        return t;
        return NULL;
}

const BusSubtree *bus_subtree_find(const Bus *b, const char *path, size_t len) {
        _cleanup_(freep) char *normal = NULL;
        size_t n;

        normal = normalize(path, len, &n);
        return normal ? find_exactly(b, normal, n) : NULL;
}

static void remove_subtree(Bus *b, BusSubtree *t) {
        /* While it can still be found: the signal names the interfaces that it has. */
        if (t->announced)
                (void)sd_bus_emit_object_removed(b->bus, t->object);
        for (BusSubtree **link = &b->subtrees; *link; link = &(*link)->next)
                if (*link == t) {
                        *link = t->next;
                        b->n_subtrees--;
                        break;
                }
        subtree_free(t);
}

static int on_clients_gone(_unused_ sd_bus_track *track, void *userdata) {
        BusSubtree *t = userdata;

        t->clients = sd_bus_track_unref(t->clients);
        if (!t->configured)
                remove_subtree(t->bus, t);
        return 0;
}

static int add_subtree(Bus *b, const char *path, size_t len, BusSubtree **ret) {
        _cleanup_(subtree_freep) BusSubtree *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        t->bus = b;
        t->path = normalize(path, len, &t->len);
        if (!t->path)
                return -ENOMEM;
        r = sd_bus_path_encode(BUS_PATH_SUBTREE, t->path, &t->object);
        if (r >= 0)
                r = read_values(t, &t->values);
        if (r < 0)
                return r;
        t->next = b->subtrees;
        b->subtrees = t;
        b->n_subtrees++;
        *ret = TAKE_PTR(t);
        return 0;
}

static void announce(Bus *b, BusSubtree *t) {
        if (!t->announced)
                (void)sd_bus_emit_object_added(b->bus, t->object);
        t->announced = true;
}

static int find_object(_unused_ sd_bus *bus, const char *path, _unused_ const char *interface, void *userdata, void **ret_found,
                       _unused_ sd_bus_error *error) {
        const Bus *b = userdata;

        for (BusSubtree *t = b->subtrees; t; t = t->next)
                if (strcmp(t->object, path) == 0) {
                        *ret_found = t;
                        return 1;
                }
        return 0;
}

static int enumerate(_unused_ sd_bus *bus, _unused_ const char *prefix, void *userdata, char ***ret_nodes, _unused_ sd_bus_error *error) {
        const Bus *b = userdata;
        char **nodes = calloc(b->n_subtrees + 1, sizeof(*nodes));
        size_t n = 0;

        for (const BusSubtree *t = b->subtrees; t && nodes; t = t->next) {
                nodes[n] = strdup(t->object);
                if (!nodes[n++]) {
                        while (n-- > 0)
                                free(nodes[n]);
                        free(nodes);
                        nodes = NULL;
                }
        }
        if (!nodes)
                return -ENOMEM;
        *ret_nodes = nodes;
        return 1;
}

int bus_subtree_register(Bus *b) {
        int r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_PATH_SUBTREE, BUS_IFACE_SUBTREE, subtree_vtable, find_object, b);

        return r < 0 ? r : sd_bus_add_node_enumerator(b->bus, NULL, BUS_PATH_SUBTREE, enumerate, b);
}

void bus_subtree_free_all(Bus *b) {
        while (b->subtrees) {
                BusSubtree *t = b->subtrees;

                b->subtrees = t->next;
                subtree_free(t);
        }
        b->n_subtrees = b->subtrees_hidden = 0;
}

/* -------------------------------------------------------------------------------------------------------------- update */

static size_t count_slashes(const char *s) {
        size_t n = 0;

        for (; *s; s++)
                n += *s == '/';
        return n;
}

/* Live memcgs that a pattern of the configuration names. With FNM_PATHNAME a pattern has as many names as the paths that it matches. */
static void add_configured(Bus *b) {
        const Census *c = b->snapshot->reading->census;

        b->subtrees_hidden = 0;
        for (size_t k = 0; k < b->n_patterns; k++) {
                size_t level = count_slashes(b->patterns[k]) + 1;

                for (uint32_t i = 1; i < c->n_memcgs; i++) {
                        _cleanup_(freep) char *path = NULL;
                        BusSubtree *t;
                        size_t len = 0;

                        if (c->memcgs[i].state != CENSUS_LIVE || c->memcgs[i].level != level)
                                continue;
                        path = census_path(c, i, &len);
                        if (!path || len >= PATH_MAX || fnmatch(b->patterns[k], path + 1, FNM_PATHNAME | FNM_NOESCAPE) != 0)
                                continue;
                        t = find_exactly(b, path, len);
                        if (!t && b->n_subtrees >= BUS_SUBTREES_MAX) {
                                b->subtrees_hidden++;
                                continue;
                        }
                        if (!t && add_subtree(b, path, len, &t) < 0)
                                continue;
                        t->configured = true;
                        announce(b, t);
                }
        }
}

static bool is_configured(const Bus *b, const BusSubtree *t) {
        for (size_t k = 0; k < b->n_patterns; k++)
                if (fnmatch(b->patterns[k], t->path + 1, FNM_PATHNAME | FNM_NOESCAPE) == 0)
                        return true;
        return false;
}

void bus_subtree_update(Bus *b) {
        BusSubtree *next;

        for (BusSubtree *t = b->subtrees; t; t = next) {
                BusSubtreeValues now;
                char *names[16];

                next = t->next;
                if (read_values(t, &now) < 0)
                        continue;
                /* The configuration wants no more of it than there is. */
                t->configured = t->configured && now.sum.tops > 0 && is_configured(b, t);
                if (!t->configured && !t->clients) {
                        remove_subtree(b, t);
                        continue;
                }
                changed_names(&t->values, &now, names);
                if (t->values.above != now.above) {
                        const Finding *f = findings_find(b->snapshot->findings, FINDING_SUBTREE, now.serial);

                        (void)bus_emit_crossing(b, FINDING_SUBTREE, t->path, t->len, now.sum.overhead_bytes, f ? f->limit : UINT64_MAX, now.above);
                }
                t->values = now;
                if (names[0])
                        (void)sd_bus_emit_properties_changed_strv(b->bus, t->object, BUS_IFACE_SUBTREE, names);
        }
        add_configured(b);
}

/* ------------------------------------------------------------------------------------------------------------- methods */

/* Subtrees that any client of this user watches. */
static size_t count_watched(Bus *b, uid_t uid) {
        size_t n = 0;

        for (BusSubtree *t = b->subtrees; t; t = t->next) {
                bool found = false;

                for (const char *name = sd_bus_track_first(t->clients); name && !found; name = sd_bus_track_next(t->clients))
                        found = bus_uid_of(b, name) == uid;
                n += found;
        }
        return n;
}

static int watch(Bus *b, sd_bus_message *m) {
        BusSubtree *t, *new = NULL;
        _cleanup_(freep) char *normal = NULL;
        sd_bus_error error = SD_BUS_ERROR_NULL;
        const char *path;
        size_t len, n;
        uid_t uid;
        int r;

        r = sd_bus_message_rewind(m, true);
        if (r >= 0)
                r = bus_read_path(m, &path, &len, &error);
        if (r < 0) {
                r = sd_bus_error_is_set(&error) ? sd_bus_reply_method_error(m, &error) : r;
                sd_bus_error_free(&error);
                return r;
        }
        r = bus_sender(b, m, &uid);
        if (r < 0)
                return r;
        normal = normalize(path, len, &n);
        if (!normal)
                return -ENOMEM;
        t = find_exactly(b, normal, n);
        if ((!t || !t->clients || sd_bus_track_contains(t->clients, sd_bus_message_get_sender(m)) == NULL) && count_watched(b, uid) >= BUS_SUBTREES_PER_USER)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "A user watches %u subtrees at most: Unwatch() one", BUS_SUBTREES_PER_USER);
        if (!t) {
                if (b->n_subtrees >= BUS_SUBTREES_MAX)
                        return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED, "There are %u subtrees with an object, which is all there may be", BUS_SUBTREES_MAX);
                r = add_subtree(b, normal, n, &new);
                if (r < 0)
                        return r;
                t = new;
        }
        if (!t->clients) {
                r = sd_bus_track_new(b->bus, &t->clients, on_clients_gone, t);
                if (r >= 0)
                        r = sd_bus_track_set_recursive(t->clients, true);
        }
        if (r >= 0)
                r = sd_bus_track_add_sender(t->clients, m);
        if (r < 0) {
                if (new)
                        remove_subtree(b, new);
                return r;
        }
        announce(b, t);
        return sd_bus_reply_method_return(m, "o", t->object);
}

int bus_method_watch(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;

        return b->snapshot->reading ? bus_access(userdata, m, BUS_NAME ".watch", watch, error) : bus_no_census(error);
}

int bus_method_unwatch(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Bus *b = userdata;
        _cleanup_(freep) char *normal = NULL;
        const char *path = NULL;
        BusSubtree *t;
        size_t len = 0, n;
        int r = bus_read_path(m, &path, &len, error);

        if (r < 0)
                return r;
        normal = normalize(path, len, &n);
        if (!normal)
                return -ENOMEM;
        t = find_exactly(b, normal, n);
        if (!t || !t->clients || !sd_bus_track_contains(t->clients, sd_bus_message_get_sender(m)))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "This client does not watch that path");
        /* Its handler may remove the object: the answer first. */
        r = sd_bus_reply_method_return(m, NULL);
        if (r >= 0)
                r = sd_bus_track_remove_sender(t->clients, m);
        return r;
}
