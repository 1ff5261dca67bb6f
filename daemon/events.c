/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Loading, adopting, reading. What is in the store is judged by its name and by what the kernel says of it, and by nothing else. */
#include "events.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "probe-internal.h"

#include "bpf/events.skel.h"

#define DEATHS_DEFAULT 262144U
#define COUNTS_BYTES (_SW_COUNT_MAX * sizeof(uint64_t)) /* the kernel maps whole pages */
#define CHUNK 512 /* entries of the map that are read at a time */

/* The descriptors that make a set. Each is in the store as "sw<version>-<name>". */
enum {
        PART_DEATHS,
        PART_COUNTS,
        PART_RING,
        PART_MKDIR,
        PART_RMDIR,
        PART_RELEASE,
        _PART_MAX,
};

static const struct {
        const char *name;
        const char *tracepoint; /* of a link; NULL: it is a map */
} part_table[_PART_MAX] = {
        [PART_DEATHS] = { .name = "deaths" },
        [PART_COUNTS] = { .name = "counts" },
        [PART_RING] = { .name = "ring" },
        [PART_MKDIR] = { .name = "mkdir", .tracepoint = "cgroup_mkdir" },
        [PART_RMDIR] = { .name = "rmdir", .tracepoint = "cgroup_rmdir" },
        [PART_RELEASE] = { .name = "release", .tracepoint = "cgroup_release" },
};

struct Events {
        EventsOrigin origin;
        uint32_t max_deaths;
        EventsFd parts[_PART_MAX];
        EventsFd *dropped; /* names alone */
        size_t n_dropped;
        uint64_t *counts; /* shared with the programs */
        struct ring_buffer *ring;

        events_record_t fn; /* while the ring is drained */
        void *userdata;
        int n_records;
};

const char *events_origin_to_string(EventsOrigin origin) {
        static const char *const names[] = {
                [EVENTS_FRESH] = "fresh",
                [EVENTS_ADOPTED] = "adopted",
                [EVENTS_DRAINED] = "drained",
                [EVENTS_DISCARDED] = "discarded",
        };

        return (size_t)origin < ELEMENTSOF(names) ? names[origin] : NULL;
}

/* ---- what is in the store ---- */

/* "sw1-deaths" → 1, PART_DEATHS; _PART_MAX for a part that is not of this version. False: not ours. */
static bool parse_name(const char *name, uint32_t *ret_version, unsigned *ret_part) {
        unsigned part = 0;
        uint64_t version = 0;
        const char *p = name;

        if (strncmp(p, "sw", 2) != 0)
                return false;
        p += 2;
        if (*p < '1' || *p > '9')
                return false;
        for (; *p >= '0' && *p <= '9'; p++) {
                version = version * 10 + (uint64_t)(*p - '0');
                if (version > UINT32_MAX)
                        return false;
        }
        if (*p++ != '-')
                return false;
        while (part < _PART_MAX && strcmp(p, part_table[part].name) != 0)
                part++;
        *ret_version = (uint32_t)version;
        *ret_part = part;
        return true;
}

static void make_name(char *buf, size_t size, unsigned part) {
        (void)snprintf(buf, size, "sw%u-%s", (unsigned)SW_EVENTS_VERSION, part_table[part].name);
}

/* max_entries 0: any number. */
static bool is_map(int fd, uint32_t type, uint32_t key_bytes, uint32_t value_bytes, uint32_t flags, uint32_t max_entries) {
        struct bpf_map_info info = {};
        __u32 len = sizeof(info);
        uint64_t key;

        if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
                return false;
        if (info.type != type || info.key_size != key_bytes || info.value_size != value_bytes || info.map_flags != flags)
                return false;
        if (key_bytes > sizeof(key) || (max_entries && info.max_entries != max_entries))
                return false;
        /* A link and a program answer the question above, too, with bytes of their own kind. This one is answered by maps alone. */
        return bpf_map_get_next_key(fd, NULL, &key) != -EINVAL;
}

static bool is_link(int fd, const char *tracepoint) {
        struct bpf_link_info info = {};
        __u32 len = sizeof(info);
        char name[64] = "";

        info.raw_tracepoint.tp_name = (uintptr_t)name;
        info.raw_tracepoint.tp_name_len = sizeof(name);
        if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
                return false;
        /* Nothing else fills in the name. */
        return info.type == BPF_LINK_TYPE_RAW_TRACEPOINT && strcmp(name, tracepoint) == 0;
}

static bool is_part(int fd, unsigned part, uint32_t max_deaths) {
        switch (part) {
        case PART_DEATHS:
                return is_map(fd, BPF_MAP_TYPE_HASH, sizeof(uint64_t), sizeof(struct sw_death), BPF_F_NO_PREALLOC, max_deaths);
        case PART_COUNTS:
                return is_map(fd, BPF_MAP_TYPE_ARRAY, sizeof(uint32_t), sizeof(uint64_t), BPF_F_MMAPABLE, _SW_COUNT_MAX);
        case PART_RING:
                return is_map(fd, BPF_MAP_TYPE_RINGBUF, 0, 0, 0, SW_EVENTS_RING_BYTES);
        default:
                return is_link(fd, part_table[part].tracepoint);
        }
}

/* ---- the map of deaths ---- */

/* Version 1, as it was and stays. */
typedef struct DeathV1 {
        uint64_t boot_nsec;
        uint32_t flags; /* 1: exact */
        uint32_t pad;
} DeathV1;

static void read_own(const void *value, struct sw_death *ret) {
        memcpy(ret, value, sizeof(*ret));
}

static void read_v1(const void *value, struct sw_death *ret) {
        DeathV1 v1;

        memcpy(&v1, value, sizeof(v1));
        *ret = (struct sw_death){ .boot_nsec = v1.boot_nsec, .flags = v1.flags & 1 ? SW_DEATH_EXACT : 0 };
}

#define VALUE_BYTES_MAX 32
_Static_assert(sizeof(struct sw_death) <= VALUE_BYTES_MAX && sizeof(DeathV1) <= VALUE_BYTES_MAX, "a chunk of values");

/* Versions whose deaths we can read. A change of struct sw_death adds a row. */
typedef struct Layout {
        uint32_t version;
        uint32_t value_bytes;
        void (*read)(const void *value, struct sw_death *ret);
} Layout;

static const Layout layouts[] = {
        { SW_EVENTS_VERSION, sizeof(struct sw_death), read_own },
        { 1, sizeof(DeathV1), read_v1 },
};

static const Layout *find_layout(uint32_t version) {
        for (size_t i = 0; i < ELEMENTSOF(layouts); i++)
                if (layouts[i].version == version)
                        return layouts + i;
        return NULL;
}

typedef int (*death_t)(uint64_t serial, const struct sw_death *death, void *userdata);

/*
 * Each entry that is there throughout, once: the kernel goes bucket by bucket, and does not lose its place when entries are deleted, as it
 * does with GET_NEXT_KEY.
 */
static int for_each_death(int fd, const Layout *layout, death_t fn, void *userdata) {
        uint64_t keys[CHUNK];
        uint8_t values[CHUNK * VALUE_BYTES_MAX];
        uint32_t position;
        bool first = true;

        for (;;) {
                __u32 n = CHUNK;
                int r = bpf_map_lookup_batch(fd, first ? NULL : &position, &position, keys, values, &n, NULL);

                if (r < 0 && r != -ENOENT) /* the end: the last ones come with it */
                        return r;
                for (__u32 i = 0; i < n; i++) {
                        struct sw_death death;
                        int k;

                        layout->read(values + (size_t)i * layout->value_bytes, &death);
                        k = fn(keys[i], &death, userdata);
                        if (k < 0)
                                return k;
                }
                if (r < 0)
                        return 0;
                first = false;
        }
}

/* 1: put; 0: there is one already, which stays. */
static int put_death(Events *e, uint64_t serial, const struct sw_death *death) {
        int r = bpf_map_update_elem(e->parts[PART_DEATHS].fd, &serial, death, BPF_NOEXIST);

        if (r == -EEXIST)
                return 0;
        if (r < 0)
                return r;
        (void)__atomic_fetch_add(&e->counts[SW_COUNT_DEATHS], 1, __ATOMIC_RELAXED);
        return 1;
}

static int take_over(uint64_t serial, const struct sw_death *death, void *userdata) {
        Events *e = userdata;
        int r = put_death(e, serial, death);

        if (r == -E2BIG) {
                (void)__atomic_fetch_add(&e->counts[SW_COUNT_LOST_DEATHS], 1, __ATOMIC_RELAXED);
                return 0;
        }
        return r;
}

/* ---- the set ---- */

static void close_set(Events *e) {
        ring_buffer__free(e->ring);
        e->ring = NULL;
        if (e->counts)
                (void)munmap(e->counts, COUNTS_BYTES);
        e->counts = NULL;
        for (unsigned i = _PART_MAX; i-- > 0;)
                e->parts[i].fd = safe_close(e->parts[i].fd);
}

static int on_sample(void *userdata, void *data, size_t size) {
        const struct sw_event *event = data;
        Events *e = userdata;

        /* The programs are ours, of this version; a record that is none of theirs is not worth a crash. */
        if (size < sizeof(*event) || event->head.type != SW_TYPE_EVENT || event->head.size != size || event->name_len > size - sizeof(*event))
                return 0;
        e->n_records++;
        e->fn(event, e->userdata);
        return 0;
}

/* Maps what is shared with the programs. Needs no capability. */
static int open_set(Events *e) {
        void *p = mmap(NULL, COUNTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, e->parts[PART_COUNTS].fd, 0);

        if (p == MAP_FAILED)
                return -errno;
        e->counts = p;
        e->ring = ring_buffer__new(e->parts[PART_RING].fd, on_sample, e, NULL);
        if (!e->ring)
                return errno > 0 ? -errno : -EIO;
        return 0;
}

/*
 * Takes the set of our own version out of what is stored, if it is there whole. A name that comes twice could be of two sets, and the store drops
 * by name: then it is not.
 */
static bool adopt(Events *e, EventsFd *stored, size_t n_stored) {
        EventsFd *found[_PART_MAX] = {};

        for (size_t i = 0; i < n_stored; i++) {
                uint32_t version;
                unsigned part;

                if (!parse_name(stored[i].name, &version, &part) || version != SW_EVENTS_VERSION || part == _PART_MAX)
                        continue;
                if (found[part] || !is_part(stored[i].fd, part, e->max_deaths))
                        return false;
                found[part] = stored + i;
        }
        for (unsigned part = 0; part < _PART_MAX; part++)
                if (!found[part])
                        return false;

        for (unsigned part = 0; part < _PART_MAX; part++)
                e->parts[part].fd = found[part]->fd;
        if (open_set(e) < 0) {
                /* Still the caller's. */
                for (unsigned part = 0; part < _PART_MAX; part++)
                        e->parts[part].fd = -1;
                close_set(e);
                return false;
        }
        for (unsigned part = 0; part < _PART_MAX; part++)
                found[part]->fd = -1;
        return true;
}

static int load(Events *e, ProbeError *ret_error) {
        LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = PROBE_BTF_PATH);
        struct events_bpf *skel;
        int r;

        probe_log_begin();
        skel = events_bpf__open_opts(&opts);
        if (!skel)
                return probe_error_load(ret_error, errno > 0 ? -errno : -EIO, "events");
        skel->rodata->deaths_max = e->max_deaths;
        r = bpf_map__set_max_entries(skel->maps.deaths, e->max_deaths);
        if (r >= 0)
                r = events_bpf__load(skel);
        if (r < 0) {
                r = probe_error_load(ret_error, r, "events");
                goto finish;
        }
        r = events_bpf__attach(skel);
        if (r == -ENOENT) {
                r = probe_error_set(ret_error, -EOPNOTSUPP, "this kernel does not have the tracepoints cgroup_mkdir, cgroup_rmdir and cgroup_release");
                goto finish;
        }
        if (r < 0) {
                r = probe_error_load(ret_error, r, "events");
                goto finish;
        }

        {
                const int fds[_PART_MAX] = {
                        [PART_DEATHS] = bpf_map__fd(skel->maps.deaths),
                        [PART_COUNTS] = bpf_map__fd(skel->maps.counts),
                        [PART_RING] = bpf_map__fd(skel->maps.ring),
                        [PART_MKDIR] = bpf_link__fd(skel->links.cgroup_mkdir),
                        [PART_RMDIR] = bpf_link__fd(skel->links.cgroup_rmdir),
                        [PART_RELEASE] = bpf_link__fd(skel->links.cgroup_release),
                };

                /* The object itself is done with: the links keep the programs, and these the maps. */
                for (unsigned part = 0; part < _PART_MAX; part++) {
                        e->parts[part].fd = fcntl(fds[part], F_DUPFD_CLOEXEC, 3);
                        if (e->parts[part].fd < 0) {
                                r = probe_error_set(ret_error, -errno, "cannot keep the life events: %s", strerror(errno));
                                goto finish;
                        }
                }
        }
        r = open_set(e);
        if (r < 0)
                r = probe_error_set(ret_error, r, "cannot map the life events: %s", strerror(-r));
finish:
        events_bpf__destroy(skel);
        return r;
}

/*
 * What was not adopted: deaths that can be read are taken over, all names are to be dropped. To be called when the programs are attached:
 * what dies meanwhile is seen by them. True when a map was read.
 */
static bool drain_stored(Events *e, const EventsFd *stored, size_t n_stored) {
        bool drained = false;

        for (size_t i = 0; i < n_stored; i++) {
                const Layout *layout;
                uint32_t version;
                unsigned part;
                size_t k = 0;

                if (stored[i].fd < 0 || !parse_name(stored[i].name, &version, &part))
                        continue;
                while (k < e->n_dropped && strcmp(e->dropped[k].name, stored[i].name) != 0)
                        k++;
                if (k == e->n_dropped) {
                        memcpy(e->dropped[k].name, stored[i].name, sizeof(stored[i].name));
                        e->dropped[k].fd = -1;
                        e->n_dropped++;
                }
                layout = find_layout(version);
                if (part != PART_DEATHS || !layout ||
                    !is_map(stored[i].fd, BPF_MAP_TYPE_HASH, sizeof(uint64_t), layout->value_bytes, BPF_F_NO_PREALLOC, 0))
                        continue;
                if (for_each_death(stored[i].fd, layout, take_over, e) >= 0)
                        drained = true;
        }
        return drained;
}

static void close_stored(EventsFd *stored, size_t n_stored) {
        for (size_t i = 0; i < n_stored; i++) {
                uint32_t version;
                unsigned part;

                if (parse_name(stored[i].name, &version, &part))
                        stored[i].fd = safe_close(stored[i].fd);
        }
}

int events_new(Events **ret, uint32_t max_deaths, EventsFd *stored, size_t n_stored, ProbeError *ret_error) {
        bool adopted, drained;
        Events *e;
        int r;

        e = calloc(1, sizeof(*e));
        if (e && n_stored > 0)
                e->dropped = calloc(n_stored, sizeof(*e->dropped));
        if (!e || (n_stored > 0 && !e->dropped)) {
                free(e);
                close_stored(stored, n_stored);
                return probe_error_set(ret_error, -ENOMEM, "out of memory");
        }
        e->max_deaths = max_deaths ? max_deaths : DEATHS_DEFAULT;
        for (unsigned part = 0; part < _PART_MAX; part++) {
                make_name(e->parts[part].name, sizeof(e->parts[part].name), part);
                e->parts[part].fd = -1;
        }

        adopted = adopt(e, stored, n_stored);
        if (!adopted) {
                r = load(e, ret_error);
                if (r < 0) {
                        close_stored(stored, n_stored);
                        events_free(e);
                        return r;
                }
        }
        drained = drain_stored(e, stored, n_stored);
        close_stored(stored, n_stored);
        e->origin = adopted ? EVENTS_ADOPTED : drained ? EVENTS_DRAINED : e->n_dropped > 0 ? EVENTS_DISCARDED : EVENTS_FRESH;
        *ret = e;
        return 0;
}

Events *events_free(Events *e) {
        if (!e)
                return NULL;
        close_set(e);
        free(e->dropped);
        free(e);
        return NULL;
}

/* ---- what it knows ---- */

EventsOrigin events_origin(const Events *e) {
        return e->origin;
}

const EventsFd *events_fds(const Events *e, size_t *ret_n) {
        *ret_n = ELEMENTSOF(e->parts);
        return e->parts;
}

const EventsFd *events_dropped(const Events *e, size_t *ret_n) {
        *ret_n = e->n_dropped;
        return e->dropped;
}

int events_fd(const Events *e) {
        return e->parts[PART_RING].fd;
}

int events_drain(Events *e, events_record_t fn, void *userdata) {
        int r;

        e->fn = fn;
        e->userdata = userdata;
        e->n_records = 0;
        r = ring_buffer__consume(e->ring);
        return r < 0 ? r : e->n_records;
}

static uint64_t read_count(const Events *e, enum sw_counter counter) {
        return __atomic_load_n(&e->counts[counter], __ATOMIC_RELAXED);
}

int events_counts(const Events *e, EventsCounts *ret) {
        *ret = (EventsCounts){
                .created = read_count(e, SW_COUNT_CREATED),
                .removed = read_count(e, SW_COUNT_REMOVED),
                .released = read_count(e, SW_COUNT_RELEASED),
                .lost_deaths = read_count(e, SW_COUNT_LOST_DEATHS),
                .lost_records = read_count(e, SW_COUNT_LOST_RECORDS),
        };
        return 0;
}

typedef struct Deaths {
        EventsDeath *deaths;
        size_t n, allocated;
} Deaths;

static int add_death(uint64_t serial, const struct sw_death *death, void *userdata) {
        Deaths *d = userdata;
        int r = grow_array(&d->deaths, &d->allocated, d->n + 1, sizeof(*d->deaths));

        if (r < 0)
                return r;
        d->deaths[d->n++] = (EventsDeath){
                .serial = serial,
                .boot_usec = death->boot_nsec / 1000,
                .exact = death->flags & SW_DEATH_EXACT,
        };
        return 0;
}

int events_deaths(const Events *e, EventsDeath **ret, size_t *ret_n) {
        Deaths d = {};
        int r = for_each_death(e->parts[PART_DEATHS].fd, layouts, add_death, &d);

        if (r < 0) {
                free(d.deaths);
                return r;
        }
        *ret = d.deaths;
        *ret_n = d.n;
        return 0;
}

int events_put(Events *e, uint64_t serial, uint64_t boot_usec) {
        const struct sw_death death = { .boot_nsec = mul_sat_u64(boot_usec, 1000) };
        int r = put_death(e, serial, &death);

        return r < 0 ? r : 0;
}

int events_forget(Events *e, const uint64_t *serials, size_t n) {
        for (size_t i = 0; i < n; i++) {
                int r = bpf_map_delete_elem(e->parts[PART_DEATHS].fd, serials + i);

                if (r == 0)
                        (void)__atomic_fetch_sub(&e->counts[SW_COUNT_DEATHS], 1, __ATOMIC_RELAXED);
                else if (r != -ENOENT)
                        return r;
        }
        return 0;
}

uint32_t events_max_deaths(const Events *e) {
        return e->max_deaths;
}
