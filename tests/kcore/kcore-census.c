/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * kcore-census: every memory cgroup and its shrinker info, read from /proc/kcore.
 *
 * The second opinion on shrinkwatch's census: no BPF, no code or header shared with it, other ways to the same facts.
 * Where things are comes from three places: the address of root_mem_cgroup from /proc/kallsyms, offsets in structs from
 * the kernel's BTF, and file offsets from the ELF program headers of /proc/kcore. Kernels are told apart by what their
 * BTF has, never by their version. Root only; for machines that hold still: the tree is read without any lock, and if it
 * changed under the walk the whole is read again, a few times.
 *
 * With cgroup_disable=memory the root is still there, with room for no ids: that is what is printed then.
 *
 * Output: one JSON object a line, one per memory cgroup in preorder, then one with the totals.
 *
 *   {"serial":31,"parent_serial":1,"id":63,"name":"a","level":1,"online":false,"dying":true,"released":false,
 *    "visible":false,"refs":1,"memcg_id":12,"memcg_id_refs":0,
 *    "nodes":[{"node":0,"map_nr_max":128,"slots":2,"units":2}, ...]}
 *   {"totals":{...}}
 *
 * refs and memcg_id_refs are null while the counter is per cpu or unknown. A node without shrinker info (a memcg in the
 * making) has nulls. Up to 6.6 ("flat") a node has ids and bytes instead of units: {"node":0,"ids":128,"bytes":1056}.
 * Bytes of a name outside printable ASCII are written as \u00XX.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "layout.h"

#define MEMCGS_MAX (4U << 20) /* more than any machine has: a walk that gets here goes in circles */
#define SLOTS_MAX (1U << 20)
#define NODES_MAX 1024
#define LEVELS_MAX 4096
#define TRIES 5

/* The bit that percpu_ref keeps in its atomic counter until it has left per-cpu mode: the count is not valid before. */
#define PERCPU_COUNT_BIAS (UINT64_C(1) << 63)

struct totals {
        uint64_t memcgs, live, dying, creating;
        uint64_t units, units_live, units_dying, slots;
        uint64_t flat_bytes, flat_ids;
        uint64_t infos_missing;
        uint64_t map_nr_max; /* of the root: what shrinker_nr_max was when it was last expanded */
};

struct census {
        struct kcore *kcore;
        const struct layout *layout;
        const uint32_t *nodes;
        size_t n_nodes;
        uint64_t *slots; /* a node's pointer array, SLOTS_MAX long */
        struct totals totals;
        FILE *out;
        uint64_t serial;   /* of the memcg that is being read, and what of it, for complaints */
        const char *where;
};

/* The address of a symbol of the kernel proper. Returns 0, or negative errno after a complaint. */
static int kallsyms_find(const char *path, const char *symbol, uint64_t *ret) {
        char line[512], name[256];
        uint64_t address;
        char type;
        FILE *f;
        int r = -ENOENT;

        f = fopen(path, "re");
        if (!f) {
                r = -errno;
                complain("%s: %s", path, strerror(-r));
                return r;
        }
        while (fgets(line, sizeof(line), f))
                /* A tab after the name would introduce the module. */
                if (!strchr(line, '\t') && sscanf(line, "%" SCNx64 " %c %255s", &address, &type, name) == 3 &&
                    strcmp(name, symbol) == 0) {
                        r = 0;
                        break;
                }
        fclose(f);
        if (r < 0)
                complain("%s has no %s: a kernel without KALLSYMS_ALL or memory cgroups", path, symbol);
        else if (address == 0) {
                complain("%s hides addresses: root with CAP_SYSLOG is needed (kernel.kptr_restrict)", path);
                r = -EPERM;
        } else
                *ret = address;
        return r;
}

/* A list like "0-3,8" → its numbers. Returns how many, or negative errno after a complaint. */
static int nodes_read(const char *path, uint32_t *ret, size_t max) {
        char text[4096];
        size_t n = 0;
        FILE *f;

        f = fopen(path, "re");
        if (!f || !fgets(text, sizeof(text), f)) {
                int r = f ? -EIO : -errno;
                complain("%s: %s", path, strerror(-r));
                if (f)
                        fclose(f);
                return r;
        }
        fclose(f);
        for (char *p = text; *p && *p != '\n';) {
                unsigned long first = strtoul(p, &p, 10), last = first;
                if (*p == '-')
                        last = strtoul(p + 1, &p, 10);
                if (*p == ',')
                        p++;
                else if (*p && *p != '\n')
                        goto bad;
                for (; first <= last; first++) {
                        if (n >= max || first >= NODES_MAX)
                                goto bad;
                        ret[n++] = (uint32_t) first;
                }
        }
        if (n > 0)
                return (int) n;
bad:
        complain("%s: not a list of nodes", path);
        return -EINVAL;
}


/* What one memcg looks like; written out before its nodes. */
struct memcg {
        uint64_t css;
        uint64_t serial, parent_serial;
        uint32_t flags;
        bool dying, online;
};

/*
 * In all functions that walk: 0 is success, -EAGAIN says that what was read does not fit together, since the tree changed
 * meanwhile or a pointer led astray; any other negative errno is final.
 */

static const char *boolean(bool b) {
        return b ? "true" : "false";
}

static void print_name(FILE *out, const char *name) {
        for (const unsigned char *p = (const unsigned char *) name; *p; p++)
                if (*p < 0x20 || *p >= 0x7f || *p == '"' || *p == '\\')
                        fprintf(out, "\\u%04x", *p);
                else
                        fputc(*p, out);
}

/* Units of one memcg on one node. */
static int census_node_units(struct census *c, const struct memcg *m, uint32_t node, uint64_t info) {
        const struct layout *l = c->layout;
        uint64_t slots, units = 0;
        uint32_t ids;
        int r;

        r = kcore_read_u32(c->kcore, info + l->info_map_nr_max, &ids);
        if (r < 0)
                return r;
        slots = (ids + l->ids_per_unit - 1) / l->ids_per_unit;
        if (slots > SLOTS_MAX)
                return -EAGAIN;
        r = kcore_read(c->kcore, info + l->info_unit, c->slots, slots * sizeof(*c->slots));
        if (r < 0)
                return r;
        for (uint64_t i = 0; i < slots; i++) {
                if (c->slots[i] == 0)
                        continue;
                if (!kcore_has(c->kcore, c->slots[i], l->unit_struct_bytes))
                        return -EAGAIN;
                units++;
        }

        fprintf(c->out, "{\"node\":%" PRIu32 ",\"map_nr_max\":%" PRIu32 ",\"slots\":%" PRIu64 ",\"units\":%" PRIu64 "}",
                node, ids, slots, units);
        c->totals.slots += slots;
        c->totals.units += units;
        if (m->dying)
                c->totals.units_dying += units;
        else if (m->online)
                c->totals.units_live += units;
        if (m->parent_serial == 0 && ids > c->totals.map_nr_max)
                c->totals.map_nr_max = ids;
        return 0;
}

/* Up to 6.6: one allocation of a header, a counter per id, and a bit per id. */
static int census_node_flat(struct census *c, const struct memcg *m, uint32_t node, uint64_t info) {
        const struct layout *l = c->layout;
        uint64_t deferred, map, ids, bytes;
        int r;

        r = kcore_read_pointer(c->kcore, info + l->info_nr_deferred, false, &deferred);
        if (r < 0)
                return r;
        r = kcore_read_pointer(c->kcore, info + l->info_map, false, &map);
        if (r < 0)
                return r;
        if (deferred != info + l->info_struct_bytes || map < deferred || (map - deferred) % 512 != 0 ||
            map - deferred > SLOTS_MAX * sizeof(uint64_t))
                return -EAGAIN;
        ids = (map - deferred) / sizeof(uint64_t); /* a multiple of 64: the map comes in longs */
        bytes = l->info_struct_bytes + ids * sizeof(uint64_t) + ids / 8;
        if (!kcore_has(c->kcore, info, bytes))
                return -EAGAIN;

        fprintf(c->out, "{\"node\":%" PRIu32 ",\"ids\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", node, ids, bytes);
        c->totals.flat_ids += ids;
        c->totals.flat_bytes += bytes;
        if (m->parent_serial == 0 && ids > c->totals.map_nr_max)
                c->totals.map_nr_max = ids;
        return 0;
}

static int census_nodes(struct census *c, const struct memcg *m) {
        const struct layout *l = c->layout;
        uint64_t per_node, info;
        int r;

        for (size_t i = 0; i < c->n_nodes; i++) {
                if (i > 0)
                        fputc(',', c->out);
                r = kcore_read_pointer(c->kcore, m->css - l->memcg_css + l->memcg_nodeinfo + c->nodes[i] * sizeof(void *),
                                       false, &per_node);
                if (r < 0)
                        return r;
                r = kcore_read_pointer(c->kcore, per_node + l->node_info, true, &info);
                if (r < 0)
                        return r;
                if (info == 0) {
                        c->totals.infos_missing++;
                        fprintf(c->out, "{\"node\":%" PRIu32 ",\"%s\":null,\"%s\":null}", c->nodes[i],
                                l->flat ? "ids" : "slots", l->flat ? "bytes" : "units");
                        continue;
                }
                r = l->flat ? census_node_flat(c, m, c->nodes[i], info) : census_node_units(c, m, c->nodes[i], info);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The reference count, where there is one number for it. Returns 1 with it, 0 while it is per cpu. */
static int census_refs(struct census *c, uint64_t css, uint64_t *ret) {
        const struct layout *l = c->layout;
        uint64_t mode, data, count;
        int r;

        r = kcore_read_u64(c->kcore, css + l->css_count_ptr, &mode);
        if (r < 0)
                return r;
        if (!(mode & l->ref_atomic))
                return 0;
        r = kcore_read_pointer(c->kcore, css + l->css_ref_data, true, &data);
        if (r < 0 || data == 0)
                return r;
        r = kcore_read_u64(c->kcore, data + l->ref_count, &count);
        if (r < 0)
                return r;
        if (count & PERCPU_COUNT_BIAS)
                return 0;
        *ret = count;
        return 1;
}

/* Reads one memcg and writes its line. parent: its css, 0 for the root. */
static int census_memcg(struct census *c, uint64_t css, uint64_t parent, uint64_t parent_serial, uint64_t *ret_serial) {
        const struct layout *l = c->layout;
        const struct kcore *k = c->kcore;
        struct memcg m = { .css = css, .parent_serial = parent_serial };
        uint64_t read_parent, cgroup, kn, id, name, refs = 0;
        uint32_t level, memcg_id, memcg_id_refs;
        char text[256]; /* NAME_MAX and the end */
        int r;

        c->where = "css, cgroup or kernfs node";
        c->serial = parent_serial;
        if ((r = kcore_read_u64(k, css + l->css_serial, &m.serial)) < 0 ||
            (r = kcore_read_u32(k, css + l->css_flags, &m.flags)) < 0 ||
            (r = kcore_read_pointer(k, css + l->css_parent, true, &read_parent)) < 0 ||
            (r = kcore_read_pointer(k, css + l->css_cgroup, false, &cgroup)) < 0 ||
            (r = kcore_read_u32(k, cgroup + l->cgroup_level, &level)) < 0 ||
            (r = kcore_read_pointer(k, cgroup + l->cgroup_kn, false, &kn)) < 0 ||
            (r = kcore_read_u64(k, kn + l->kn_id, &id)) < 0 ||
            (r = kcore_read_u64(k, kn + l->kn_name, &name)) < 0 ||
            (r = kcore_read_string(k, name, text, sizeof(text))) < 0 ||
            (r = kcore_read_u32(k, css - l->memcg_css + l->memcg_id, &memcg_id)) < 0 ||
            (r = kcore_read_u32(k, css - l->memcg_css + l->memcg_id_refs, &memcg_id_refs)) < 0)
                return r;
        c->where = "parent";
        c->serial = m.serial;
        if (read_parent != parent)
                return -EAGAIN;
        m.online = m.flags & l->flag_online;
        m.dying = m.flags & l->flag_dying;

        fprintf(c->out, "{\"serial\":%" PRIu64 ",\"parent_serial\":", m.serial);
        if (parent != 0)
                fprintf(c->out, "%" PRIu64, parent_serial);
        else
                fputs("null", c->out);
        fprintf(c->out, ",\"id\":%" PRIu64 ",\"name\":\"", id);
        print_name(c->out, text);
        fprintf(c->out, "\",\"level\":%" PRIu32 ",\"online\":%s,\"dying\":%s,\"released\":%s,\"visible\":%s,\"refs\":",
                level, boolean(m.online), boolean(m.dying), boolean(m.flags & l->flag_released),
                boolean(m.flags & l->flag_visible));
        c->where = "reference count";
        r = census_refs(c, css, &refs);
        if (r < 0)
                return r;
        if (r > 0)
                fprintf(c->out, "%" PRIu64, refs);
        else
                fputs("null", c->out);
        fprintf(c->out, ",\"memcg_id\":%" PRIu32 ",\"memcg_id_refs\":%" PRIu32 ",\"nodes\":[", memcg_id, memcg_id_refs);
        c->where = "shrinker info";
        r = census_nodes(c, &m);
        if (r < 0)
                return r;
        fputs("]}\n", c->out);
        c->where = "children";

        c->totals.memcgs++;
        if (m.dying)
                c->totals.dying++;
        else if (m.online)
                c->totals.live++;
        else
                c->totals.creating++;
        *ret_serial = m.serial;
        return 0;
}

/* One level of the path from the root to where the walk is. */
struct level {
        uint64_t css, serial;
        uint64_t last_serial; /* of the child visited last: children are in ascending order */
};

/* The whole tree in preorder. */
static int census_walk(struct census *c, uint64_t root) {
        const struct layout *l = c->layout;
        struct level *path;
        size_t depth = 0;
        uint64_t next;
        int r;

        path = calloc(LEVELS_MAX, sizeof(*path));
        if (!path)
                return -ENOMEM;

        path[0].css = root;
        r = census_memcg(c, root, 0, 0, &path[0].serial);
        if (r < 0)
                goto finish;
        r = kcore_read_pointer(c->kcore, root + l->css_children + l->list_next, false, &next);
        while (r >= 0) {
                struct level *at = path + depth;

                if (next == at->css + l->css_children) { /* all children seen: on to the next sibling */
                        if (depth == 0)
                                break;
                        depth--;
                        r = kcore_read_pointer(c->kcore, at->css + l->css_sibling + l->list_next, false, &next);
                        continue;
                }
                if (depth + 1 >= LEVELS_MAX || c->totals.memcgs >= MEMCGS_MAX) {
                        r = -E2BIG;
                        break;
                }
                struct level *child = path + ++depth;
                *child = (struct level) { .css = next - l->css_sibling };
                r = census_memcg(c, child->css, at->css, at->serial, &child->serial);
                if (r >= 0 && child->serial <= at->last_serial)
                        r = -EAGAIN;
                if (r < 0)
                        break;
                at->last_serial = child->serial;
                r = kcore_read_pointer(c->kcore, child->css + l->css_children + l->list_next, false, &next);
        }
finish:
        free(path);
        return r < 0 ? r : 0;
}

static void census_print_totals(const struct census *c) {
        const struct totals *t = &c->totals;

        fprintf(c->out,
                "{\"totals\":{\"layout\":\"%s\",\"possible_nodes\":%zu,\"map_nr_max\":%" PRIu64 ",\"memcgs\":%" PRIu64
                ",\"live\":%" PRIu64 ",\"dying\":%" PRIu64 ",\"creating\":%" PRIu64 ",\"infos_missing\":%" PRIu64,
                c->layout->flat ? "flat" : "units", c->n_nodes, t->map_nr_max, t->memcgs, t->live, t->dying, t->creating,
                t->infos_missing);
        if (c->layout->flat)
                fprintf(c->out, ",\"ids\":%" PRIu64 ",\"bytes\":%" PRIu64, t->flat_ids, t->flat_bytes);
        else
                fprintf(c->out,
                        ",\"ids_per_unit\":%" PRIu32 ",\"unit_struct_bytes\":%" PRIu32 ",\"slots\":%" PRIu64
                        ",\"units\":%" PRIu64 ",\"units_live\":%" PRIu64 ",\"units_dying\":%" PRIu64,
                        c->layout->ids_per_unit, c->layout->unit_struct_bytes, t->slots, t->units, t->units_live,
                        t->units_dying);
        fputs("}}\n", c->out);
}

/* Tries until the tree holds still. Output is kept back until it is known to be good. */
static int census_run(struct census *c, uint64_t root) {
        int r = 0;

        for (unsigned try = 0; try < TRIES; try++) {
                char *text = NULL;
                size_t size = 0;

                c->totals = (struct totals) {};
                c->out = open_memstream(&text, &size);
                if (!c->out)
                        return -errno;
                r = census_walk(c, root);
                if (r >= 0)
                        census_print_totals(c);
                if (fclose(c->out) != 0 && r >= 0)
                        r = -errno;
                if (r >= 0 && fwrite(text, 1, size, stdout) != size)
                        r = -EIO;
                free(text);
                if (r != -EAGAIN && r != -EFAULT)
                        break;
        }
        return r;
}

int main(int argc, char *argv[]) {
        static const struct option options[] = {
                { "kcore", required_argument, NULL, 'k' }, { "btf", required_argument, NULL, 'b' },
                { "kallsyms", required_argument, NULL, 's' }, { "possible", required_argument, NULL, 'p' },
                { "help", no_argument, NULL, 'h' }, {},
        };
        const char *core_path = "/proc/kcore", *btf_path = "/sys/kernel/btf/vmlinux", *symbols_path = "/proc/kallsyms",
                   *nodes_path = "/sys/devices/system/node/possible";
        static uint32_t nodes[NODES_MAX];
        struct kcore kcore = { .fd = -1 };
        struct layout layout = {};
        struct census census = { .kcore = &kcore, .layout = &layout, .nodes = nodes };
        uint64_t symbol = 0, root;
        int o, n, r;

        while ((o = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (o) {
                case 'k':
                        core_path = optarg;
                        break;
                case 'b':
                        btf_path = optarg;
                        break;
                case 's':
                        symbols_path = optarg;
                        break;
                case 'p':
                        nodes_path = optarg;
                        break;
                default:
                        fprintf(o == 'h' ? stdout : stderr,
                                "usage: %s [--kcore FILE] [--btf FILE] [--kallsyms FILE] [--possible FILE]\n", argv[0]);
                        return o == 'h' ? EXIT_SUCCESS : EXIT_FAILURE;
                }

        r = layout_read(&layout, btf_path);
        if (r < 0)
                goto finish;
        n = nodes_read(nodes_path, nodes, NODES_MAX);
        if (n < 0) {
                r = n;
                goto finish;
        }
        census.n_nodes = (size_t) n;
        r = kallsyms_find(symbols_path, "root_mem_cgroup", &symbol);
        if (r < 0)
                goto finish;
        r = kcore_open(&kcore, core_path);
        if (r < 0)
                goto finish;
        r = kcore_read_pointer(&kcore, symbol, true, &root);
        if (r < 0) {
                complain("root_mem_cgroup at %#" PRIx64 " leads nowhere: %s", symbol, strerror(-r));
                goto finish;
        }
        if (root == 0) {
                complain("there is no root memory cgroup");
                r = -ENODEV;
                goto finish;
        }
        census.slots = calloc(SLOTS_MAX, sizeof(*census.slots));
        if (!census.slots) {
                r = -ENOMEM;
                complain("out of memory");
                goto finish;
        }
        r = census_run(&census, root + layout.memcg_css);
        if (r == -EAGAIN || r == -EFAULT)
                complain("the tree of memory cgroups did not hold still, or BTF and kernel do not match: "
                         "%s at serial %" PRIu64, census.where, census.serial);
        else if (r < 0)
                complain("the walk failed: %s", strerror(-r));
finish:
        free(census.slots);
        kcore_close(&kcore);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
