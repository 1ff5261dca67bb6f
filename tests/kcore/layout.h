/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How this kernel keeps memory cgroups and shrinker info: offsets, sizes and flags, all from its BTF. */

#include <stdbool.h>
#include <stdint.h>

/* Everything taken from BTF. Offsets in bytes from the start of the struct named first. */
struct layout {
        bool flat;            /* nr_deferred and map arrays, no units (up to 6.6) */
        uint32_t ids_per_unit;
        uint32_t unit_struct_bytes;
        uint32_t info_struct_bytes;

        uint32_t memcg_css, memcg_id, memcg_id_refs, memcg_nodeinfo;
        uint32_t node_info;                           /* mem_cgroup_per_node.shrinker_info */
        uint32_t info_map_nr_max, info_unit;          /* units */
        uint32_t info_nr_deferred, info_map;          /* flat */
        uint32_t css_cgroup, css_count_ptr, css_ref_data, css_sibling, css_children, css_flags, css_serial, css_parent;
        uint32_t ref_count;                           /* percpu_ref_data.count */
        uint32_t cgroup_kn, cgroup_level;
        uint32_t kn_id, kn_name;
        uint32_t list_next;

        uint64_t flag_online, flag_dying, flag_released, flag_visible;
        uint64_t ref_atomic;
};

/* Fills the layout. Returns 0, or negative errno after a complaint that names what BTF lacks. */
int layout_read(struct layout *l, const char *path);
