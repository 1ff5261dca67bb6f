/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Methods that read the last census. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>

#include "advice.h"
#include "bus-internal.h"

int bus_no_census(sd_bus_error *error) {
        return sd_bus_error_setf(error, BUS_ERROR_NO_CENSUS, "There is no census yet: the first one failed. The journal says why");
}

int bus_read_path(sd_bus_message *m, const char **ret, size_t *ret_len, sd_bus_error *error) {
        const void *p = NULL;
        size_t len = 0;
        int r = sd_bus_message_read_array(m, 'y', &p, &len);

        if (r < 0)
                return r;
        if (len == 0 || len >= PATH_MAX || memchr(p, '\0', len))
                return sd_bus_error_setf(error, SD_BUS_ERROR_INVALID_ARGS, "A path has 1 to %d bytes, and none of them is 0; that of the root is \"/\"", PATH_MAX - 1);
        *ret = p;
        *ret_len = len;
        return 0;
}

/* And a census to look for it in. */
static int read_known_path(const Bus *b, sd_bus_message *m, const char **ret, size_t *ret_len, sd_bus_error *error) {
        int r = bus_read_path(m, ret, ret_len, error);

        return r < 0 || b->snapshot->reading ? r : bus_no_census(error);
}

/* Answers with a message that fn fills. */
static int reply_with(sd_bus_message *m, int (*fn)(sd_bus_message *reply, const Snapshot *s, const void *what), const Snapshot *s, const void *what) {
        sd_bus_message *reply = NULL;
        int r = sd_bus_message_new_method_return(m, &reply);

        if (r >= 0)
                r = fn(reply, s, what);
        if (r >= 0)
                r = sd_bus_send(NULL, reply, NULL);
        sd_bus_message_unref(reply);
        return r;
}

/* ----------------------------------------------------------------------------------------------------------------- one */

static int append_one(sd_bus_message *reply, const Snapshot *s, const void *what) {
        return bus_append_memcg(reply, s, *(const uint32_t *)what);
}

static int no_such_memcg(sd_bus_error *error, uint64_t serial) {
        return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_MEMCG, "The last census has no memory cgroup with serial %" PRIu64, serial);
}

int bus_method_get_memcg(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        uint32_t memcg;
        uint64_t serial;
        int r = sd_bus_message_read_basic(m, 't', &serial);

        if (r < 0)
                return r;
        if (!b->snapshot->reading)
                return bus_no_census(error);
        memcg = census_find(b->snapshot->reading->census, serial);
        return memcg == CENSUS_NONE ? no_such_memcg(error, serial) : reply_with(m, append_one, b->snapshot, &memcg);
}

typedef struct Several {
        const uint32_t *memcgs;
        size_t n;
} Several;

static int append_several(sd_bus_message *reply, const Snapshot *s, const void *what) {
        const Several *several = what;
        int r = sd_bus_message_open_container(reply, 'a', "a{sv}");

        for (size_t i = 0; i < several->n && r >= 0; i++)
                r = bus_append_memcg(reply, s, several->memcgs[i]);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

int bus_method_find_memcgs(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        uint32_t memcgs[BUS_LIST_MAX];
        Several several = { .memcgs = memcgs };
        const Census *c;
        uint64_t id;
        int r = sd_bus_message_read_basic(m, 't', &id);

        if (r < 0)
                return r;
        if (!b->snapshot->reading)
                return bus_no_census(error);
        c = b->snapshot->reading->census;
        for (uint32_t i = 0; i < c->n_memcgs && several.n < BUS_LIST_MAX; i++)
                if ((c->memcgs[i].valid & SW_MEMCG_CGROUP) && c->memcgs[i].cgroup_id == id)
                        memcgs[several.n++] = i;
        return reply_with(m, append_several, b->snapshot, &several);
}

int bus_method_find_by_path(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        _cleanup_(freep) uint32_t *memcgs = NULL;
        Several several = {};
        const char *path = NULL;
        size_t len = 0;
        int r = read_known_path(b, m, &path, &len, error);

        if (r < 0)
                return r;
        r = subtree_find(b->snapshot->reading->census, path, len, &memcgs, &several.n);
        if (r < 0)
                return r;
        /* The live one is not the first: it came last. */
        if (several.n > BUS_LIST_MAX)
                memmove(memcgs, memcgs + several.n - BUS_LIST_MAX, BUS_LIST_MAX * sizeof(*memcgs));
        several.n = several.n > BUS_LIST_MAX ? BUS_LIST_MAX : several.n;
        several.memcgs = memcgs;
        return reply_with(m, append_several, b->snapshot, &several);
}

int bus_method_get_by_pid(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        _cleanup_(freep) char *line = NULL;
        char name[64];
        const char *path = NULL;
        size_t allocated = 0;
        uint32_t memcg, pid;
        FILE *f;
        int r = sd_bus_message_read_basic(m, 'u', &pid);

        if (r < 0)
                return r;
        if (!b->snapshot->reading)
                return bus_no_census(error);
        (void)snprintf(name, sizeof(name), "/proc/%" PRIu32 "/cgroup", pid);
        f = fopen(name, "re");
        if (!f)
                return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_PROCESS, "There is no process %" PRIu32 " that can be looked at", pid);
        /* "0::/path" on v2, "9:memory:/path" on v1, where memory may have company: "9:cpu,memory:/path". */
        while (!path && getline(&line, &allocated, f) > 0) {
                char *controllers = strchr(line, ':'), *rest = controllers ? strchr(controllers + 1, ':') : NULL;

                if (!rest)
                        continue;
                *rest++ = '\0';
                controllers++;
                for (char *word = controllers, *next; word && !path; word = next) {
                        next = strchr(word, ',');
                        if (next)
                                *next++ = '\0';
                        if (strcmp(word, b->snapshot->facts->v2 ? "" : "memory") == 0 && (!b->snapshot->facts->v2 || strncmp(line, "0:", 2) == 0))
                                path = rest;
                }
        }
        (void)fclose(f);
        if (!path)
                return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_MEMCG, "Process %" PRIu32 " is in no cgroup of the memory controller", pid);
        memcg = census_find_path(b->snapshot->reading->census, path, strcspn(path, "\n"));
        if (memcg == CENSUS_NONE)
                return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_MEMCG,
                                         "The cgroup of process %" PRIu32 " is not in the last census: it is younger, or has no memory controller", pid);
        return reply_with(m, append_one, b->snapshot, &memcg);
}

/* ------------------------------------------------------------------------------------------------------------ subtrees */

int bus_append_causes(sd_bus_message *m, const SubtreeSum *s) {
        int r = sd_bus_message_open_container(m, 'a', "{s(tt)}");

        for (PinCause cause = 0; cause < _PIN_CAUSE_MAX && r >= 0; cause++) {
                if (!s->writeback_known && (cause == PIN_WRITEBACK || cause == PIN_UNEXPLAINED))
                        continue;
                r = sd_bus_message_append(m, "{s(tt)}", pin_cause_to_string(cause), s->causes.memcgs[cause], s->causes.bytes[cause]);
        }
        return r < 0 ? r : sd_bus_message_close_container(m);
}

typedef struct SubtreeAnswer {
        SubtreeSum sum;
        const BusSubtree *watched; /* NULL: it is not */
} SubtreeAnswer;

static int append_subtree(sd_bus_message *reply, const Snapshot *s, const void *what) {
        const SubtreeAnswer *a = what;
        const SubtreeSum *sum = &a->sum;
        const Census *c = s->reading->census;
        int r = sd_bus_message_open_container(reply, 'a', "{sv}");

        if (r >= 0 && sum->live != CENSUS_NONE) {
                _cleanup_(freep) char *path = NULL;
                size_t len = 0;

                path = census_path(c, sum->live, &len);
                r = path ? bus_put_path(reply, path, len) : -ENOMEM;
                if (r >= 0)
                        r = bus_put_u64(reply, "serial", c->memcgs[sum->live].serial);
        }
        if (r >= 0)
                r = bus_put_u64(reply, "memcgs", sum->memcgs);
        if (r >= 0)
                r = bus_put_u64(reply, "live", sum->live_memcgs);
        if (r >= 0)
                r = bus_put_u64(reply, "dying", sum->dying);
        if (r >= 0 && !c->options.flat)
                r = bus_put_u64(reply, "units", sum->units);
        if (r >= 0 && !c->options.flat)
                r = bus_put_u64(reply, "units_dying", sum->units_dying);
        if (r >= 0)
                r = bus_put_u64(reply, "overhead_bytes", sum->overhead_bytes);
        if (r >= 0)
                r = bus_put_u64(reply, "overhead_dying_bytes", sum->overhead_dying_bytes);
        if (r >= 0 && sum->oldest_serial > 0) {
                r = bus_put_u64(reply, "oldest_dying_serial", sum->oldest_serial);
                if (r >= 0)
                        r = bus_put_u64(reply, "oldest_dying_since_boottime_usec", sum->oldest_boot_usec);
                if (r >= 0)
                        r = bus_put_bool(reply, "oldest_dying_since_exact", sum->oldest_exact);
        }
        if (r >= 0)
                r = bus_open_entry(reply, "by_cause", "a{s(tt)}");
        if (r >= 0)
                r = bus_append_causes(reply, sum);
        if (r >= 0)
                r = bus_close_entry(reply);
        if (r >= 0 && a->watched && a->watched->values.trend == a->watched->values.trend) /* known */
                r = bus_put_double(reply, "overhead_trend_per_hour", a->watched->values.trend);
        if (r >= 0)
                r = bus_put_u64(reply, "census_boottime_usec", s->boot_usec);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int reply_subtree(sd_bus_message *m, const Bus *b, const SubtreeAnswer *a, const char *what, sd_bus_error *error) {
        if (a->sum.tops == 0)
                return sd_bus_error_setf(error, BUS_ERROR_NO_SUCH_MEMCG, "The last census has no memory cgroup of this %s, live or dying", what);
        return reply_with(m, append_subtree, b->snapshot, a);
}

int bus_method_get_subtree(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;
        SubtreeAnswer a = {};
        const char *path = NULL;
        size_t len = 0;
        int r = read_known_path(b, m, &path, &len, error);

        if (r < 0)
                return r;
        r = subtree_sum_path(b->snapshot->reading, b->snapshot->ages, path, len, &a.sum);
        if (r < 0)
                return r;
        a.watched = bus_subtree_find(b, path, len);
        return reply_subtree(m, b, &a, "path", error);
}

static int get_by_name(sd_bus_message *m, const Bus *b, int (*sum)(const Reading *, const Ages *, const char *, SubtreeSum *), const char *what, sd_bus_error *error) {
        SubtreeAnswer a = {};
        const char *name;
        int r = sd_bus_message_read_basic(m, 's', &name);

        if (r < 0)
                return r;
        if (!b->snapshot->reading)
                return bus_no_census(error);
        r = sum(b->snapshot->reading, b->snapshot->ages, name, &a.sum);
        return r < 0 ? r : reply_subtree(m, b, &a, what, error);
}

int bus_method_get_unit(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return get_by_name(m, userdata, subtree_sum_unit, "unit", error);
}

int bus_method_get_machine(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return get_by_name(m, userdata, subtree_sum_machine, "machine", error);
}

/* ----------------------------------------------------------------------------------------------------------------- why */

/* A finding's advice is that of its cause. */
static const Advice *advice_of(PinCause cause) {
        return cause == PIN_WRITEBACK ? advice_get(FINDING_WRITEBACK) : cause == PIN_SWAP ? advice_get(FINDING_SWAP) : NULL;
}

static int append_advice(sd_bus_message *m, PinCause cause, const Advice *a) {
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        if (r >= 0)
                r = bus_put_string(m, "cause", pin_cause_to_string(cause));
        if (r >= 0)
                r = bus_put_string(m, "means", a->means);
        if (r >= 0)
                r = bus_put_string(m, "safe", a->safe);
        if (r >= 0 && a->costs[0])
                r = bus_put_string(m, "costs", a->costs);
        if (r >= 0 && a->never[0])
                r = bus_put_string(m, "never", a->never);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_why(sd_bus_message *reply, const Snapshot *s, const void *what) {
        uint32_t memcg = *(const uint32_t *)what;
        const Reading *reading = s->reading;
        const Pin *pins = NULL;
        size_t n = 0;
        int r = sd_bus_message_open_container(reply, 'a', "{sv}");

        if (r >= 0)
                r = bus_open_entry(reply, "memcg", "a{sv}");
        if (r >= 0)
                r = bus_append_memcg(reply, s, memcg);
        if (r >= 0)
                r = bus_close_entry(reply);
        if (r >= 0)
                r = bus_open_entry(reply, "advice", "aa{sv}");
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "a{sv}");
        if (r >= 0 && reading->pins && pins_get(reading->pins, memcg, &pins, &n))
                for (size_t i = 0; i < n && r >= 0; i++)
                        if (advice_of(pins[i].cause) && (i == 0 || pins[i].cause != pins[i - 1].cause))
                                r = append_advice(reply, pins[i].cause, advice_of(pins[i].cause));
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = bus_close_entry(reply);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int why(Bus *b, sd_bus_message *m) {
        uint64_t serial;
        uint32_t memcg;
        int r;

        r = sd_bus_message_rewind(m, true);
        if (r >= 0)
                r = sd_bus_message_read_basic(m, 't', &serial);
        if (r < 0)
                return r;
        memcg = census_find(b->snapshot->reading->census, serial);
        if (memcg == CENSUS_NONE)
                return sd_bus_reply_method_errorf(m, BUS_ERROR_NO_SUCH_MEMCG, "The last census has no memory cgroup with serial %" PRIu64, serial);
        if (b->snapshot->reading->census->memcgs[memcg].state != CENSUS_DYING)
                return sd_bus_reply_method_errorf(m, BUS_ERROR_NOT_DYING, "The memory cgroup with serial %" PRIu64 " is not dying: nothing has to hold it", serial);
        return reply_with(m, append_why, b->snapshot, &memcg);
}

int bus_method_why(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;

        return b->snapshot->reading ? bus_access(userdata, m, BUS_NAME ".why", why, error) : bus_no_census(error);
}

/* ---------------------------------------------------------------------------------------------------------------- dump */

/* The memory is the daemon's own, and paths are as long as whoever makes cgroups likes. */
#define DUMP_BYTES_MAX (192ULL << 20)

typedef struct Dump {
        int fd;
        uint64_t left;
} Dump;

static ssize_t write_bounded(void *cookie, const char *buf, size_t size) {
        Dump *d = cookie;
        ssize_t n;

        if (size > d->left) {
                errno = EFBIG;
                return 0;
        }
        n = write(d->fd, buf, size);
        if (n <= 0)
                return 0;
        d->left -= (uint64_t)n;
        return n;
}

static int dump(Bus *b, sd_bus_message *m) {
        _cleanup_(closep) int fd = memfd_create("census.json", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        Dump d = { .fd = fd, .left = DUMP_BYTES_MAX };
        FILE *f;
        int r;

        if (fd < 0)
                return -errno;
        f = fopencookie(&d, "w", (cookie_io_functions_t){ .write = write_bounded });
        if (!f)
                return -ENOMEM;
        r = json_write_reading(f, b->snapshot->facts, b->snapshot->reading, NULL);
        if (fclose(f) != 0 && r >= 0)
                r = -EIO;
        if (r == -EIO && d.left < DUMP_BYTES_MAX / 2)
                return sd_bus_reply_method_errorf(m, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                                  "The document is larger than %llu MiB: \"shrinkwatchctl census --direct --json\" as root has no such limit",
                                                  DUMP_BYTES_MAX >> 20);
        if (r >= 0 && (lseek(fd, 0, SEEK_SET) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0))
                r = -errno;
        return r < 0 ? r : sd_bus_reply_method_return(m, "h", fd);
}

int bus_method_dump(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const Bus *b = userdata;

        return b->snapshot->reading ? bus_access(userdata, m, BUS_NAME ".dump", dump, error) : bus_no_census(error);
}
