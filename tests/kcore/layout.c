/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "layout.h"

/* Searches a struct, and the anonymous ones in it, for a member. Returns its type id, 0 if there is none. */
static uint32_t btf_member_find(const struct btf *btf, const struct btf_type *t, const char *name, uint32_t *ret_bits) {
        const struct btf_member *m = btf_members(t);

        for (uint32_t i = 0; i < btf_vlen(t); i++, m++) {
                const char *n = btf__name_by_offset(btf, m->name_off);
                uint32_t at = btf_member_bit_offset(t, i), inner, type;

                if (n && strcmp(n, name) == 0) {
                        *ret_bits = at;
                        return m->type;
                }
                if (n && *n)
                        continue;
                const struct btf_type *anonymous = btf__type_by_id(btf, m->type);
                if (!anonymous || !btf_is_composite(anonymous))
                        continue;
                type = btf_member_find(btf, anonymous, name, &inner);
                if (type > 0) {
                        *ret_bits = at + inner;
                        return type;
                }
        }
        return 0;
}

/*
 * "a.b.c" in a struct. Returns the type id of the last member and its byte offset, 0 if the kernel has no such member.
 * The types of the members in between are taken as they come: their names differ between kernels.
 */
static uint32_t btf_path_find(const struct btf *btf, const char *structure, const char *path, uint32_t *ret_offset) {
        uint32_t bits = 0, type;
        char copy[128], *save = NULL;
        int id;

        id = btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT);
        if (id < 0)
                return 0;
        type = (uint32_t) id;
        snprintf(copy, sizeof(copy), "%s", path);
        for (char *member = strtok_r(copy, ".", &save); member; member = strtok_r(NULL, ".", &save)) {
                int resolved = btf__resolve_type(btf, type);
                const struct btf_type *t = resolved < 0 ? NULL : btf__type_by_id(btf, (uint32_t) resolved);
                uint32_t at;

                if (!t || !btf_is_composite(t))
                        return 0;
                type = btf_member_find(btf, t, member, &at);
                if (type == 0)
                        return 0;
                bits += at;
        }
        *ret_offset = bits / 8;
        return type;
}

/* The value of an enumerator, of whichever enum it is in. */
static int btf_enumerator_find(const struct btf *btf, const char *name, uint64_t *ret) {
        for (uint32_t id = 1; id < btf__type_cnt(btf); id++) {
                const struct btf_type *t = btf__type_by_id(btf, id);

                if (btf_is_enum(t)) {
                        const struct btf_enum *e = btf_enum(t);
                        for (uint32_t i = 0; i < btf_vlen(t); i++, e++)
                                if (strcmp(btf__name_by_offset(btf, e->name_off), name) == 0) {
                                        *ret = (uint64_t) (int64_t) e->val;
                                        return 0;
                                }
                } else if (btf_is_enum64(t)) {
                        const struct btf_enum64 *e = btf_enum64(t);
                        for (uint32_t i = 0; i < btf_vlen(t); i++, e++)
                                if (strcmp(btf__name_by_offset(btf, e->name_off), name) == 0) {
                                        *ret = btf_enum64_value(e);
                                        return 0;
                                }
                }
        }
        return -ENOENT;
}

static int layout_read_units(struct layout *l, const struct btf *btf) {
        uint32_t offset, array;
        const struct btf_type *t;
        int id;

        array = btf_path_find(btf, "shrinker_info_unit", "nr_deferred", &offset);
        t = array > 0 ? btf__type_by_id(btf, array) : NULL;
        id = btf__find_by_name_kind(btf, "shrinker_info_unit", BTF_KIND_STRUCT);
        if (!t || !btf_is_array(t) || id < 0 || btf_array(t)->nelems == 0) {
                complain("BTF has shrinker_info.unit but no shrinker_info_unit.nr_deferred[]");
                return -EOPNOTSUPP;
        }
        l->ids_per_unit = btf_array(t)->nelems;
        l->unit_struct_bytes = (uint32_t) btf__resolve_size(btf, (uint32_t) id);
        return 0;
}

int layout_read(struct layout *l, const char *path) {
        struct {
                const char *structure, *member;
                uint32_t *offset;
        } const members[] = {
                { "mem_cgroup", "css", &l->memcg_css },
                { "mem_cgroup", "id.id", &l->memcg_id },
                { "mem_cgroup", "id.ref", &l->memcg_id_refs },
                { "mem_cgroup", "nodeinfo", &l->memcg_nodeinfo },
                { "mem_cgroup_per_node", "shrinker_info", &l->node_info },
                { "cgroup_subsys_state", "cgroup", &l->css_cgroup },
                { "cgroup_subsys_state", "refcnt.percpu_count_ptr", &l->css_count_ptr },
                { "cgroup_subsys_state", "refcnt.data", &l->css_ref_data },
                { "cgroup_subsys_state", "sibling", &l->css_sibling },
                { "cgroup_subsys_state", "children", &l->css_children },
                { "cgroup_subsys_state", "flags", &l->css_flags },
                { "cgroup_subsys_state", "serial_nr", &l->css_serial },
                { "cgroup_subsys_state", "parent", &l->css_parent },
                { "percpu_ref_data", "count", &l->ref_count },
                { "cgroup", "kn", &l->cgroup_kn },
                { "cgroup", "level", &l->cgroup_level },
                { "kernfs_node", "id", &l->kn_id },
                { "kernfs_node", "name", &l->kn_name },
                { "list_head", "next", &l->list_next },
        };
        struct {
                const char *name;
                uint64_t *value;
        } const enumerators[] = {
                { "CSS_ONLINE", &l->flag_online },
                { "CSS_DYING", &l->flag_dying },
                { "CSS_RELEASED", &l->flag_released },
                { "CSS_VISIBLE", &l->flag_visible },
                { "__PERCPU_REF_ATOMIC", &l->ref_atomic },
        };
        struct btf *btf;
        int id, r;

        btf = btf__parse(path, NULL);
        if (!btf) {
                r = -errno;
                complain("%s: cannot read BTF: %s", path, strerror(-r));
                return r;
        }

        r = -EOPNOTSUPP;
        for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
                if (btf_path_find(btf, members[i].structure, members[i].member, members[i].offset) == 0) {
                        complain("BTF has no %s.%s", members[i].structure, members[i].member);
                        goto finish;
                }
        for (size_t i = 0; i < sizeof(enumerators) / sizeof(*enumerators); i++)
                if (btf_enumerator_find(btf, enumerators[i].name, enumerators[i].value) < 0) {
                        complain("BTF has no %s", enumerators[i].name);
                        goto finish;
                }

        id = btf__find_by_name_kind(btf, "shrinker_info", BTF_KIND_STRUCT);
        l->info_struct_bytes = id < 0 ? 0 : (uint32_t) btf__resolve_size(btf, (uint32_t) id);
        if (btf_path_find(btf, "shrinker_info", "unit", &l->info_unit) > 0 &&
            btf_path_find(btf, "shrinker_info", "map_nr_max", &l->info_map_nr_max) > 0)
                r = layout_read_units(l, btf);
        else if (btf_path_find(btf, "shrinker_info", "nr_deferred", &l->info_nr_deferred) > 0 &&
                 btf_path_find(btf, "shrinker_info", "map", &l->info_map) > 0) {
                l->flat = true;
                r = 0;
        } else
                complain("BTF has a shrinker_info of no known layout");

finish:
        btf__free(btf);
        return r;
}
