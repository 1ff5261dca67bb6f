/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A test double of daemon/probe and daemon/names: hosts that are not here, for tests of the command line. It loads nothing and reads no
 * kernel; the file that $SHRINKWATCH_FAKE_HOST names describes the host, a line for each thing, words separated by blanks:
 *
 *   host KEY=VALUE…           release layout(flat|units-64|units-63) v2 nodes(mask) ids page mount
 *   cg SERIAL PARENT NAME STATE KEY=VALUE…
 *                             STATE live|dying|offline|creating|released; refs memory swap memsw idrefs units(per node) bits kmem short
 *   many N PARENT PREFIX STATE KEY=VALUE…   N of them with serials from where the last one ended
 *   wb SERIAL DEVICE inodes=N pages=N
 *   shrinker ID FSTYPE
 *   lists ID BASE MASK
 *   directory PATH            a cgroup without the memory controller
 *   without FEATURE REASON…   a feature that this kernel lacks
 *   after KEY=VALUE…          what the second look finds: newer live dying creating, added to the walk's
 *   again                     the walk loses its place every time
 *   error ERRNO TEXT…         probe_new() fails
 *
 * Names may hold \xHH. Memcgs come in pre-order, as the walk sends them.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/census.h"
#include "daemon/names.h"
#include "daemon/probe.h"
#include "daemon/sizeclass.h"
#include "daemon/util.h"

#define LINE 4096
#define FAKE_FEATURES 5

typedef struct Buffer {
        uint8_t *bytes;
        size_t len, allocated;
} Buffer;

struct Probe {
        ProbeFacts facts;
        ProbeFeature features[FAKE_FEATURES];
        Buffer walk, rings, lists;
        ProbeSummary summary;
        uint64_t serial;
        uint32_t ids;
        bool lost;
        int rounds;
};

static char mount_point[LINE] = "/sys/fs/cgroup", directory[LINE];
static bool mounted_v2 = true;

static _Noreturn void die(const char *what, const char *line) {
        fprintf(stderr, "fake host: %s: %s\n", what, line);
        exit(99);
}

static void *append(Buffer *b, size_t size) {
        void *p;

        if (grow_array(&b->bytes, &b->allocated, b->len + ALIGN8(size), 1) < 0)
                die("out of memory", "");
        p = b->bytes + b->len;
        memset(p, 0, ALIGN8(size));
        b->len += ALIGN8(size);
        ((struct sw_head *)p)->size = (uint16_t)ALIGN8(size);
        return p;
}

/* The number behind " KEY=" in the line; false when there is none. */
static bool find_number(const char *line, const char *key, uint64_t *ret) {
        char word[64];
        const char *p;

        snprintf(word, sizeof word, " %s=", key);
        p = strstr(line, word);
        if (!p)
                return false;
        *ret = strtoull(p + strlen(word), NULL, 0);
        return true;
}

static uint64_t number(const char *line, const char *key, uint64_t fallback) {
        uint64_t n;
        return find_number(line, key, &n) ? n : fallback;
}

static size_t unescape(const char *s, char *ret) {
        size_t n = 0;

        while (*s) {
                unsigned byte;

                if (s[0] == '\\' && s[1] == 'x' && sscanf(s + 2, "%2x", &byte) == 1) {
                        ret[n++] = (char)byte;
                        s += 4;
                } else
                        ret[n++] = *s++;
        }
        ret[n] = '\0';
        return n;
}

/* ---------------------------------------------------------------------------------------------------------- the walk */

static uint32_t css_state(const char *state, const char *line) {
        if (strcmp(state, "live") == 0)
                return SW_CSS_ONLINE | SW_CSS_VISIBLE;
        if (strcmp(state, "dying") == 0)
                return SW_CSS_ONLINE | SW_CSS_DYING;
        if (strcmp(state, "offline") == 0)
                return SW_CSS_DYING;
        if (strcmp(state, "creating") == 0)
                return 0;
        die("unknown state", line);
}

static uint32_t level_of(const Probe *p, uint64_t serial) {
        for (size_t at = 0; at < p->walk.len;) {
                const struct sw_head *head = (const struct sw_head *)(p->walk.bytes + at);
                const struct sw_memcg *m = (const struct sw_memcg *)head;

                if (head->type == SW_TYPE_MEMCG && m->serial == serial)
                        return m->level;
                at += head->size;
        }
        return 0;
}

static void add_nodes(Probe *p, uint64_t serial, bool creating, const char *line) {
        bool flat = p->facts.layout == PROBE_LAYOUT_FLAT;

        for (uint32_t node = 0; node < SW_NODES_MAX; node++) {
                struct sw_node *n;

                if (!(p->facts.possible_nodes >> node & 1))
                        continue;
                n = append(&p->walk, sizeof *n);
                n->head.type = SW_TYPE_NODE;
                n->serial = serial;
                n->node = node;
                if (creating)
                        continue;
                n->head.valid = SW_NODE_INFO;
                n->ids = (uint32_t)number(line, "ids", p->ids); /* fewer: an expansion has not come to it yet */
                if (flat) {
                        n->array_bytes = 24 + 8 * n->ids + (n->ids + 63) / 64 * 8;
                        continue;
                }
                n->head.valid |= SW_NODE_UNITS | SW_NODE_BITS;
                n->slots = (n->ids + p->facts.ids_per_unit - 1) / p->facts.ids_per_unit;
                n->units = (uint32_t)number(line, "units", n->slots);
                n->bits = (uint32_t)number(line, "bits", 0);
                n->units_used = n->bits > 0 && n->units > 0;
                n->array_bytes = 24 + 8 * n->slots;
        }
}

static void add_memcg(Probe *p, uint64_t serial, uint64_t parent, const char *name, const char *state, const char *line) {
        char raw[LINE];
        size_t len = unescape(strcmp(name, "/") == 0 ? "" : name, raw);
        bool live = strcmp(state, "live") == 0, creating = strcmp(state, "creating") == 0;
        struct sw_memcg *m = append(&p->walk, sizeof *m + len);
        uint64_t value;

        m->head.type = SW_TYPE_MEMCG;
        m->head.valid = SW_MEMCG_NAME | SW_MEMCG_CGROUP | SW_MEMCG_ID;
        m->serial = serial;
        m->parent_serial = parent;
        m->cgroup_id = number(line, "id", serial + 1000);
        m->level = parent ? level_of(p, parent) + 1 : 0;
        m->state = css_state(state, line);
        m->memcg_id = (int32_t)serial;
        m->id_refs = (uint32_t)number(line, "idrefs", live ? 1 : 0);
        if (find_number(line, "kmem", &value)) {
                m->kmemcg_id = (int32_t)value;
                m->head.valid |= SW_MEMCG_KMEM_ID;
        }
        if (find_number(line, "refs", &value)) {
                m->refs = value;
                m->head.valid |= SW_MEMCG_REFS;
        }
        if (find_number(line, "memory", &value)) {
                m->memory_pages = value;
                m->head.valid |= SW_MEMCG_MEMORY;
        }
        if (find_number(line, "swap", &value)) {
                m->swap_pages = value;
                m->head.valid |= SW_MEMCG_SWAP;
        }
        if (find_number(line, "memsw", &value)) {
                m->swap_pages = value;
                m->head.valid |= SW_MEMCG_MEMSW;
        }
        m->nodes = (uint16_t)p->facts.n_possible_nodes;
        m->name_len = (uint16_t)len;
        memcpy(m + 1, raw, len);
        if (number(line, "short", 0))
                return; /* released before its nodes could be read */
        add_nodes(p, serial, creating, line);

        p->serial = serial;
        p->summary.live += live;
        p->summary.creating += creating;
        p->summary.dying += !live && !creating;
        p->summary.digest += census_digest_one(serial, census_state_from_css(css_state(state, line)));
}

/* -------------------------------------------------------------------------------------------------------- the lines */

static void take_host(Probe *p, char *line) {
        char *word, *save = NULL;
        char copy[LINE];

        snprintf(copy, sizeof copy, "%s", line);
        for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
                if (strncmp(word, "release=", 8) == 0)
                        snprintf(p->facts.release, sizeof p->facts.release, "%s", word + 8);
                if (strncmp(word, "mount=", 6) == 0)
                        snprintf(mount_point, sizeof mount_point, "%s", word + 6);
                if (strcmp(word, "layout=flat") == 0)
                        p->facts.layout = PROBE_LAYOUT_FLAT;
                if (strcmp(word, "layout=units-63") == 0)
                        p->facts.layout = PROBE_LAYOUT_UNITS_63;
        }
        p->facts.v2 = mounted_v2 = number(line, "v2", 1);
        p->facts.possible_nodes = number(line, "nodes", 1);
        p->facts.n_possible_nodes = (uint32_t)__builtin_popcountll(p->facts.possible_nodes);
        p->facts.page_bytes = (uint32_t)number(line, "page", 4096);
        p->facts.ids_per_unit = p->facts.layout == PROBE_LAYOUT_FLAT ? 0 : p->facts.layout == PROBE_LAYOUT_UNITS_63 ? 63 : 64;
        p->facts.unit_struct_bytes = p->facts.layout == PROBE_LAYOUT_FLAT ? 0 : p->facts.layout == PROBE_LAYOUT_UNITS_63 ? 512 : 520;
        p->ids = (uint32_t)number(line, "ids", 128);
}

static void take_wb(Probe *p, const char *line, uint64_t serial, const char *device) {
        struct sw_wb *w = append(&p->rings, sizeof *w);

        w->head.type = SW_TYPE_WB;
        w->head.valid = SW_WB_REFS | SW_WB_INODES;
        w->serial = serial;
        w->refs = 1;
        w->inodes = number(line, "inodes", 1);
        w->pages = number(line, "pages", 1);
        w->state = SW_WB_DYING | SW_WB_DIRTY;
        snprintf(w->device, sizeof w->device, "%s", device);
}

static void take_without(Probe *p, const char *feature, const char *reason) {
        for (size_t i = 0; i < FAKE_FEATURES; i++)
                if (strcmp(p->features[i].name, feature) == 0) {
                        p->features[i].available = false;
                        snprintf(p->features[i].reason, sizeof p->features[i].reason, "%s", reason);
                        return;
                }
        die("unknown feature", feature);
}

/* Returns the error that probe_new() is to fail with. */
static int take_line(Probe *p, char *line, ProbeError *ret_error) {
        char verb[32] = "", a[LINE] = "", b[LINE] = "", c[LINE] = "", d[LINE] = "";
        int n = sscanf(line, "%31s %4095s %4095s %4095s %4095s", verb, a, b, c, d);

        if (n <= 0 || verb[0] == '#')
                return 0;
        if (strcmp(verb, "host") == 0)
                take_host(p, line);
        else if (strcmp(verb, "cg") == 0 && n >= 5)
                add_memcg(p, strtoull(a, NULL, 0), strtoull(b, NULL, 0), c, d, line);
        else if (strcmp(verb, "many") == 0 && n >= 5)
                for (uint64_t i = 0, many = strtoull(a, NULL, 0); i < many; i++) {
                        char name[LINE + 32];

                        snprintf(name, sizeof name, "%s%" PRIx64 ".scope", c, i);
                        add_memcg(p, p->serial + 1, strtoull(b, NULL, 0), name, d, line);
                }
        else if (strcmp(verb, "wb") == 0 && n >= 3)
                take_wb(p, line, strtoull(a, NULL, 0), b);
        else if (strcmp(verb, "shrinker") == 0 && n >= 3) {
                struct sw_shrinker *s = append(&p->rings, sizeof *s);

                s->head.type = SW_TYPE_SHRINKER;
                s->head.valid = strcmp(b, "-") == 0 ? 0 : SW_SHRINKER_SB;
                s->id = (uint32_t)strtoul(a, NULL, 0);
                snprintf(s->fstype, sizeof s->fstype, "%s", b);
        } else if (strcmp(verb, "lists") == 0 && n >= 4) {
                struct sw_lists *l = append(&p->lists, sizeof *l);

                l->head.type = SW_TYPE_LISTS;
                l->shrinker_id = (int32_t)strtol(a, NULL, 0);
                l->base = (uint32_t)strtoul(b, NULL, 0);
                l->mask = strtoull(c, NULL, 0);
        } else if (strcmp(verb, "directory") == 0 && n == 2)
                (void)unescape(a, directory);
        else if (strcmp(verb, "without") == 0 && n >= 3)
                take_without(p, a, strstr(line, b));
        else if (strcmp(verb, "after") == 0) {
                p->summary.newer = number(line, "newer", 0);
                p->summary.live += number(line, "live", 0);
                p->summary.dying += number(line, "dying", 0);
                p->summary.creating += number(line, "creating", 0);
                p->summary.digest++;
        } else if (strcmp(verb, "again") == 0)
                p->lost = true;
        else if (strcmp(verb, "error") == 0 && n >= 3) {
                ret_error->error = -(int)strtol(a, NULL, 0);
                snprintf(ret_error->text, sizeof ret_error->text, "%s", strstr(line, b));
        } else
                die("not understood", line);
        return ret_error->error;
}

/* ------------------------------------------------------------------------------------------------------------ probe.h */

const char *probe_layout_to_string(ProbeLayout layout) {
        static const char *const names[] = { "unknown", "flat", "units-64", "units-63" };
        return names[layout];
}

int probe_new(Probe **ret, ProbeError *ret_error) {
        static const char *const names[FAKE_FEATURES] = { "walk", "alloc-size", "shrinkers", "writeback", "lists" };
        const char *path = getenv("SHRINKWATCH_FAKE_HOST");
        FILE *f = path ? fopen(path, "re") : NULL;
        Probe *p = calloc(1, sizeof *p);
        ProbeError error = {};
        char line[LINE];

        if (!f || !p)
                die("cannot read", path ? path : "$SHRINKWATCH_FAKE_HOST");
        p->facts.layout = PROBE_LAYOUT_UNITS_64;
        snprintf(p->facts.boot_id, sizeof p->facts.boot_id, "00000000-1111-2222-3333-444444444444");
        for (size_t i = 0; i < FAKE_FEATURES; i++)
                p->features[i] = (ProbeFeature){ .name = names[i], .available = true, .reason = "a double, nothing real" };
        while (fgets(line, sizeof line, f)) {
                line[strcspn(line, "\n")] = '\0';
                if (take_line(p, line, &error) < 0) {
                        fclose(f);
                        probe_free(p);
                        *ret_error = error;
                        return error.error;
                }
        }
        fclose(f);
        p->summary.highest_serial = p->serial + p->summary.newer;
        p->summary.ids = p->ids;
        *ret = p;
        return 0;
}

Probe *probe_free(Probe *p) {
        if (!p)
                return NULL;
        free(p->walk.bytes);
        free(p->rings.bytes);
        free(p->lists.bytes);
        free(p);
        return NULL;
}

const ProbeFacts *probe_facts(const Probe *p) {
        return &p->facts;
}

const ProbeFeature *probe_features(const Probe *p, size_t *ret_n) {
        *ret_n = FAKE_FEATURES;
        return p->features;
}

bool probe_has(const Probe *p, const char *feature) {
        for (size_t i = 0; i < FAKE_FEATURES; i++)
                if (strcmp(p->features[i].name, feature) == 0)
                        return p->features[i].available;
        return false;
}

static int send(const Buffer *b, probe_record_t fn, void *userdata, ProbeStats *stats) {
        for (size_t at = 0; at < b->len;) {
                const struct sw_head *head = (const struct sw_head *)(b->bytes + at);
                int r = fn(head, userdata);

                if (r < 0)
                        return r;
                stats->records++;
                at += head->size;
        }
        stats->slices++;
        stats->longest_slice_usec = 42;
        return 0;
}

int probe_walk(Probe *p, unsigned flags, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        /* Without being asked for bits the kernel does not send them. */
        for (size_t at = 0; at < p->walk.len; at += ((struct sw_head *)(p->walk.bytes + at))->size) {
                struct sw_head *head = (struct sw_head *)(p->walk.bytes + at);

                if (head->type == SW_TYPE_NODE && !(flags & PROBE_WALK_BITS))
                        head->valid &= ~SW_NODE_BITS;
        }
        if (p->lost) {
                *ret_error = (ProbeError){ -EAGAIN, "the walk lost its place" };
                return -EAGAIN;
        }
        return send(&p->walk, fn, userdata, stats);
}

int probe_summary(Probe *p, uint64_t above, ProbeSummary *ret, ProbeStats *stats, ProbeError *ret_error) {
        (void)above;
        (void)stats;
        (void)ret_error;
        *ret = p->summary;
        /* A second round finds more, so that --watch has something to tell. */
        if (p->rounds++ == 0 && getenv("SHRINKWATCH_FAKE_GROWS")) {
                add_memcg(p, p->serial + 1, 1, "late.scope", "live", "");
                p->summary.highest_serial = p->serial;
        }
        return 0;
}

int probe_rings(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        (void)ret_error;
        stats->shrinkers_known = probe_has(p, "shrinkers");
        stats->writeback_known = probe_has(p, "writeback");
        return send(&p->rings, fn, userdata, stats);
}

int probe_lists(Probe *p, probe_record_t fn, void *userdata, ProbeStats *stats, ProbeError *ret_error) {
        (void)ret_error;
        return send(&p->lists, fn, userdata, stats);
}

uint64_t probe_alloc_bytes(const Probe *p, uint64_t struct_bytes, bool vmalloc) {
        return size_class_bytes(struct_bytes, p->facts.page_bytes, vmalloc);
}

bool probe_unit_cache(const Probe *p, const char **ret_name) {
        if (!probe_has(p, "alloc-size") || p->facts.layout == PROBE_LAYOUT_FLAT)
                return false;
        *ret_name = p->facts.layout == PROBE_LAYOUT_UNITS_63 ? "kmalloc-512" : "kmalloc-1k";
        return true;
}

/* ------------------------------------------------------------------------------------------------------------ names.h */

int names_new(Names **ret) {
        Names *n = calloc(1, sizeof *n);

        if (!n)
                return -ENOMEM;
        n->mount_point = strdup(mount_point);
        n->v2 = mounted_v2;
        *ret = n;
        return 0;
}

Names *names_free(Names *n) {
        if (!n)
                return NULL;
        free(n->mount_point);
        free(n);
        return NULL;
}

int names_exists(const Names *n, const char *path) {
        (void)n;
        return directory[0] && strcmp(path, directory) == 0;
}
