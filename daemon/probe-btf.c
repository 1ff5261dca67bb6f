/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What BTF says about the running kernel. Never its version. */

#include <bpf/btf.h>
#include <stdio.h>

#include "probe-internal.h"

const char *probe_layout_to_string(ProbeLayout layout) {
        static const char *const names[] = {
                [PROBE_LAYOUT_UNKNOWN] = "unknown",
                [PROBE_LAYOUT_FLAT] = "flat",
                [PROBE_LAYOUT_UNITS_64] = "units-64",
                [PROBE_LAYOUT_UNITS_63] = "units-63",
        };

        return (size_t)layout < ELEMENTSOF(names) ? names[layout] : "unknown";
}

static const struct btf_member *find_member(const struct btf *btf, const struct btf_type *t, const char *name) {
        const struct btf_member *m = btf_members(t);

        for (unsigned i = 0; i < btf_vlen(t); i++) {
                const char *n = btf__name_by_offset(btf, m[i].name_off);

                if (n && strcmp(n, name) == 0)
                        return m + i;
        }
        return NULL;
}

static const struct btf_type *find_struct(const struct btf *btf, const char *name) {
        int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

        return id < 0 ? NULL : btf__type_by_id(btf, (unsigned)id);
}

static bool struct_has(const struct btf *btf, const char *name, const char *member) {
        const struct btf_type *t = find_struct(btf, name);

        return t && find_member(btf, t, member);
}

/* The value of an enumerator in an enum without a name: CO-RE looks enums up by name and cannot find it. */
static int find_enumerators(const struct btf *btf, ProbeBtf *ret) {
        const struct {
                const char *name;
                uint32_t *value;
        } wanted[] = {
                { "CSS_ONLINE", &ret->css_online },
                { "CSS_DYING", &ret->css_dying },
                { "CSS_RELEASED", &ret->css_released },
                { "CSS_VISIBLE", &ret->css_visible },
        };
        unsigned n = btf__type_cnt(btf);

        for (unsigned id = 1; id < n; id++) {
                const struct btf_type *t = btf__type_by_id(btf, id);
                const struct btf_enum *e;
                unsigned found = 0;

                if (!t || btf_kind(t) != BTF_KIND_ENUM)
                        continue;
                e = btf_enum(t);
                for (unsigned i = 0; i < btf_vlen(t); i++) {
                        const char *name = btf__name_by_offset(btf, e[i].name_off);

                        /* Nearly every enum ends here: the names have a prefix of their own. */
                        if (!name || strncmp(name, "CSS_", 4) != 0)
                                break;
                        for (size_t k = 0; k < ELEMENTSOF(wanted); k++)
                                if (strcmp(name, wanted[k].name) == 0) {
                                        *wanted[k].value = (uint32_t)e[i].val;
                                        found++;
                                }
                }
                if (found == ELEMENTSOF(wanted))
                        return 0;
        }
        return -ENOENT;
}

static int find_layout(const struct btf *btf, ProbeBtf *ret, ProbeError *ret_error) {
        const struct btf_type *unit = find_struct(btf, "shrinker_info_unit"), *info = find_struct(btf, "shrinker_info");
        const struct btf_member *m;
        int64_t size;

        if (!info)
                return probe_error_set(
                        ret_error, -EOPNOTSUPP,
                        "this kernel has no struct shrinker_info: it was built without CONFIG_MEMCG, or is older than 5.0, and there is nothing to count");
        if (!unit) {
                if (!find_member(btf, info, "nr_deferred") || !find_member(btf, info, "map"))
                        return probe_error_set(ret_error, -EOPNOTSUPP,
                                               "unknown layout: struct shrinker_info has neither units nor counters and a map; "
                                               "please report the kernel's release and `bpftool btf dump file " PROBE_BTF_PATH
                                               "` of that struct");
                ret->layout = PROBE_LAYOUT_FLAT;
                return 0;
        }
        m = find_member(btf, unit, "nr_deferred");
        if (!m || !find_member(btf, unit, "map") || !find_member(btf, info, "unit") || !find_member(btf, info, "map_nr_max"))
                return probe_error_set(ret_error, -EOPNOTSUPP,
                                       "unknown layout: struct shrinker_info_unit or shrinker_info lacks a member we read; please report the kernel's release");
        size = btf__resolve_size(btf, m->type);
        ret->unit_struct_bytes = unit->size;
        ret->ids_per_unit = size > 0 ? (uint32_t)(size / 8) : 0;
        if (ret->ids_per_unit == 64)
                ret->layout = PROBE_LAYOUT_UNITS_64;
        else if (ret->ids_per_unit == 63)
                ret->layout = PROBE_LAYOUT_UNITS_63;
        else
                return probe_error_set(ret_error, -EOPNOTSUPP,
                                       "unknown layout: a shrinker_info_unit of this kernel covers %u ids; 64 and 63 are known. Please report the kernel's release",
                                       ret->ids_per_unit);
        return 0;
}

int probe_btf_read(const char *path, ProbeBtf *ret, ProbeError *ret_error) {
        ProbeBtf b = {};
        struct btf *btf;
        int r;

        btf = btf__parse(path, NULL);
        if (!btf) {
                int e = errno;

                if (e == ENOENT)
                        return probe_error_set(ret_error, -ENOENT,
                                               "%s is not there: the kernel was built without CONFIG_DEBUG_INFO_BTF, or /sys is not mounted", path);
                return probe_error_set(ret_error, e > 0 ? -e : -EIO, "cannot read the kernel's type information (%s): %s", path,
                                       strerror(e > 0 ? e : EIO));
        }
        r = find_layout(btf, &b, ret_error);
        if (r >= 0 && find_enumerators(btf, &b) < 0)
                r = probe_error_set(ret_error, -EOPNOTSUPP,
                                    "the kernel's type information does not tell the states of a cgroup (CSS_ONLINE, CSS_DYING, ...); please report the kernel's release");
        if (r >= 0) {
                b.has_get_kmem_cache = btf__find_by_name_kind(btf, "bpf_get_kmem_cache", BTF_KIND_FUNC) > 0;
                b.has_list_lru_xarray = struct_has(btf, "list_lru", "xa");
                b.has_cgroup_writeback = struct_has(btf, "bdi_writeback", "memcg_css");
                *ret = b;
        }
        btf__free(btf);
        return r;
}

int probe_parse_nodes(const char *text, uint64_t *ret) {
        uint64_t nodes = 0;
        const char *p = text;

        for (;;) {
                unsigned long first, last;
                char *end;

                if (*p < '0' || *p > '9')
                        return -EINVAL;
                errno = 0;
                first = last = strtoul(p, &end, 10);
                p = end;
                if (*p == '-') {
                        p++;
                        if (*p < '0' || *p > '9')
                                return -EINVAL;
                        last = strtoul(p, &end, 10);
                        p = end;
                }
                if (errno || last < first)
                        return -EINVAL;
                if (last >= SW_NODES_MAX)
                        return -ERANGE;
                for (unsigned long n = first; n <= last; n++)
                        nodes |= UINT64_C(1) << n;
                if (*p == ',') {
                        p++;
                        continue;
                }
                if (*p && *p != '\n')
                        return -EINVAL;
                *ret = nodes;
                return 0;
        }
}
