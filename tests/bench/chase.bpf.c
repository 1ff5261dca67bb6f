// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The limit that the walk is held against: the same memory, touched in the plainest way. Every css in pre-order, its counters, its
 * cgroup's node and name, its shrinker arrays slot by slot, and nothing else: no records, no cursor, no checks, one run without an
 * end. A benchmark's program only: it keeps its CPU for as long as it takes.
 */
#include "bpf/kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define STEPS_MAX (1U << 20)
#define CHUNK 64

__u64 memcgs, units, slice_nsec, sum;
__u64 css, over; /* not static: clang would make a bool of one that is only 0 and 1, and BTF would disagree */
static __u64 chunk[CHUNK];

static __always_inline void arrays(__u32 node) {
        struct mem_cgroup_per_node *pn = NULL;
        struct shrinker_info *info;
        __u32 per_unit, ids, slots, at, i;
        __u64 n_units = 0;

        (void)bpf_probe_read_kernel(&pn, sizeof(pn), (void *)(css + bpf_core_field_offset(struct mem_cgroup, nodeinfo) + 8ULL * node));
        info = READ(pn, shrinker_info);
        if (!bpf_core_type_exists(struct shrinker_info_unit)) {
                sum += READ((struct shrinker_info___pre_v6_7 *)info, map) != NULL;
                return;
        }
        per_unit = bpf_core_field_size(struct shrinker_info_unit, nr_deferred) / 8;
        ids = READ(info, map_nr_max);
        slots = (ids + per_unit - 1) / per_unit;
        for (at = 0; at < 16; at++) {
                __u32 n = slots - at * CHUNK;

                if (at * CHUNK >= slots)
                        break;
                if (n > CHUNK)
                        n = CHUNK;
                barrier_var(n);
                if (n > CHUNK)
                        break;
                if (n < CHUNK)
                        __builtin_memset(chunk, 0, sizeof(chunk));
                (void)bpf_probe_read_kernel(chunk, n * 8,
                                            (void *)((__u64)info + bpf_core_field_offset(struct shrinker_info, unit) + 8 * CHUNK * at));
#pragma unroll
                for (i = 0; i < CHUNK; i++) {
                        n_units += is_set(chunk[i]);
                        barrier_var(n_units); /* one at a time: 64 loads at once do not fit the stack */
                }
        }
        units += n_units;
}

static __noinline long look(void) {
        struct cgroup_subsys_state *c = (struct cgroup_subsys_state *)css;
        struct mem_cgroup *memcg = (struct mem_cgroup *)css;
        struct cgroup *cgrp = READ(c, cgroup);
        struct kernfs_node *kn = READ(cgrp, kn);
        __u64 name = 0;

        (void)bpf_probe_read_kernel(&name, sizeof(name), READ(kn, name));
        sum += READ(c, serial_nr) + READ(c, flags) + READ(memcg, id.id) + READ(memcg, memory.usage.counter) + READ(memcg, kmemcg_id) +
               READ(kn, id) + name;
        memcgs++;
        arrays(0);
        return 0;
}

static long step(__u32 i, void *ctx) {
        struct cgroup_subsys_state *c = (struct cgroup_subsys_state *)css;
        __u64 next, parent;

        if (!over) {
                look();
                next = (__u64)READ(c, children.next);
                if (next != HEAD(css, cgroup_subsys_state, children)) {
                        css = (__u64)ENTRY(next, cgroup_subsys_state, sibling);
                        return 0;
                }
        }
        parent = (__u64)READ(c, parent);
        if (!parent)
                return 1;
        next = (__u64)READ(c, sibling.next);
        if (next == HEAD(parent, cgroup_subsys_state, children)) {
                css = parent;
                over = 1;
        } else {
                css = (__u64)ENTRY(next, cgroup_subsys_state, sibling);
                over = 0;
        }
        return 0;
}

SEC("raw_tp")
int chase(void *ctx) {
        __u64 start;
        __u32 v2 = 0;

        memcgs = units = over = 0;
        css = (__u64)memory_root((struct task_struct *)bpf_get_current_task(), &v2);
        if (!css)
                return 0;
        start = bpf_ktime_get_ns();
        bpf_loop(STEPS_MAX, step, NULL, 0);
        slice_nsec = bpf_ktime_get_ns() - start;
        return 0;
}
