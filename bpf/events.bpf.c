// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Life events of memory cgroups: when one was removed, how many came and went, and what they were called.
 *
 * Raw tracepoints, not tp_btf: of their arguments we take the cgroup alone, which is the first of each, and a kernel that has no such
 * tracepoint is told at once by the attach, while libbpf 1.1 goes looking for the prototype in the BTF of all modules, and needs
 * CAP_SYS_ADMIN for that. tp/ would need tracefs.
 *
 * The kernel calls us with interrupts off and, whichever cgroup it is, under one spinlock (TRACE_CGROUP_PATH()), and for mkdir, rmdir
 * and release under cgroup_mutex, too: so a name cannot change while it is read, and there is no loop here.
 *
 * Each tracepoint fires for every hierarchy. A cgroup that has a memory css is in the memory controller's by that.
 */
#include "kernel.bpf.h"

/* Of linux/bpf.h, which wants asm/types.h, and where that is clang does not know when the target is BPF. */
enum {
        BPF_MAP_TYPE_HASH = 1,
        BPF_MAP_TYPE_ARRAY = 2,
        BPF_MAP_TYPE_RINGBUF = 27,

        BPF_F_NO_PREALLOC = 1U << 0,
        BPF_F_MMAPABLE = 1U << 10,

        BPF_ANY = 0,
        BPF_NOEXIST = 1,

        BPF_RB_NO_WAKEUP = 1U << 0,
        BPF_RB_FORCE_WAKEUP = 1U << 1,
        BPF_RB_AVAIL_DATA = 0,
        BPF_RINGBUF_HDR_SZ = 8,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 deaths_max; /* entries that fit into deaths; set before the object is loaded */

/* css->serial_nr → when it died. Not preallocated: the room is for a disaster, and most hosts never need it. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, 1);
        __type(key, __u64);
        __type(value, struct sw_death);
} deaths SEC(".maps");

/* enum sw_counter → number */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE);
        __uint(max_entries, _SW_COUNT_MAX);
        __type(key, __u32);
        __type(value, __u64);
} counts SEC(".maps");

#define RING_STEP (SW_EVENTS_RING_BYTES / 16)

/* struct sw_event, one after the other */
struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, SW_EVENTS_RING_BYTES);
} ring SEC(".maps");

/* Adds one; returns what it is then. */
static __always_inline __u64 count(__u32 counter) {
        __u64 *n = bpf_map_lookup_elem(&counts, &counter);

        return n ? __sync_fetch_and_add(n, 1) + 1 : 0;
}

static __always_inline struct cgroup_subsys_state *memory_css(struct cgroup *cgrp) {
        return memory_of((__u64)cgrp + bpf_core_field_offset(struct cgroup, subsys));
}

/*
 * Sends a record. Whoever waits for the ring is woken once it is a quarter full, with every sixteenth more, and when wake says so; not for
 * each cgroup: a wakeup costs an interrupt, which is more than all else here.
 */
static __always_inline void tell(struct cgroup *cgrp, __u32 kind, __u64 serial, __u64 now, bool wake) {
        struct {
                struct sw_event event;
                char name[SW_NAME_MAX];
        } r = {};
        struct kernfs_node *kn = READ(cgrp, kn);
        __u64 size = sizeof(r.event), flags = BPF_RB_NO_WAKEUP, before, after;
        long n;

        r.event.head.type = SW_TYPE_EVENT;
        if (serial) {
                r.event.serial = serial;
                r.event.head.valid |= SW_EVENT_SERIAL;
        }
        r.event.cgroup_id = READ(kn, id);
        r.event.boot_nsec = now;
        r.event.kind = kind;
        r.event.level = READ(cgrp, level);
        n = bpf_probe_read_kernel_str(r.name, sizeof(r.name), READ(kn, name));
        if (n > 0 && n <= SW_NAME_MAX) {
                r.event.name_len = n - 1;
                r.event.head.valid |= SW_EVENT_NAME;
                size += (n - 1 + 7) & ~7ULL;
        }
        r.event.head.size = size;

        before = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
        after = before + BPF_RINGBUF_HDR_SZ + size;
        if (wake || (after >= SW_EVENTS_RING_BYTES / 4 && after / RING_STEP != before / RING_STEP))
                flags = BPF_RB_FORCE_WAKEUP;
        /* The verifier forgets the bound on n when clang keeps the sum in another register. */
        barrier_var(size);
        if (size > sizeof(r))
                size = sizeof(r);
        if (bpf_ringbuf_output(&ring, &r, size, flags) < 0)
                (void)count(SW_COUNT_LOST_RECORDS);
}

SEC("raw_tp/cgroup_mkdir")
int cgroup_mkdir(__u64 *ctx) {
        struct cgroup *cgrp = (struct cgroup *)ctx[0];
        struct cgroup_subsys_state *css = memory_css(cgrp);

        if (!css)
                return 0;
        (void)count(SW_COUNT_CREATED);
        tell(cgrp, SW_EVENT_CREATED, READ(css, serial_nr), bpf_ktime_get_boot_ns(), false);
        return 0;
}

/*
 * The csses have been killed, and go offline only once cgroup_mutex is free again: the one in subsys[] is the one that dies now. Others that this
 * cgroup had before (its controller was switched off and on) have serials of their own. One case is inexact: a controller that was
 * switched off just before the removal, and whose css did not get to go offline in between, dies with the removal for us.
 */
SEC("raw_tp/cgroup_rmdir")
int cgroup_rmdir(__u64 *ctx) {
        struct cgroup *cgrp = (struct cgroup *)ctx[0];
        struct cgroup_subsys_state *css = memory_css(cgrp);
        struct sw_death death = { .flags = SW_DEATH_EXACT };
        bool wake = false;
        __u64 serial;

        if (!css)
                return 0;
        serial = READ(css, serial_nr);
        death.boot_nsec = bpf_ktime_get_boot_ns();
        (void)count(SW_COUNT_REMOVED);
        if (bpf_map_update_elem(&deaths, &serial, &death, BPF_NOEXIST) == 0) {
                /* When half is taken somebody had better look; and again with every sixteenth more, should it all be in use. */
                __s64 above = count(SW_COUNT_DEATHS) - deaths_max / 2;

                wake = above >= 0 && (__u64)above % (deaths_max / 16 + 1) == 0;
        } else if (bpf_map_update_elem(&deaths, &serial, &death, BPF_ANY) != 0) {
                /*
                 * What user space put there is known better now; or there is no room. Not "< 0": up to 6.3 the call goes to a function that returns int,
                 * and nobody extends its sign (d7ba4cc900bf, "bpf: return long from bpf_map_ops funcs").
                 */
                (void)count(SW_COUNT_LOST_DEATHS);
        }
        tell(cgrp, SW_EVENT_REMOVED, serial, death.boot_nsec, wake);
        return 0;
}

/*
 * The memory css is freed by now: it held the cgroup. Whether there was one is told by what the parent gives to its children, which by
 * then may be something else than it was at the removal; on v1 it never is. A cgroup whose mkdir failed half way is released
 * as well. So this is the one count that need not be exact. No controller of a threaded cgroup is memory.
 */
SEC("raw_tp/cgroup_release")
int cgroup_release(__u64 *ctx) {
        struct cgroup *cgrp = (struct cgroup *)ctx[0], *parent;
        struct cgroup_subsys_state *up = READ(cgrp, self.parent);

        parent = READ(up, cgroup);
        if (!(BPF_CORE_READ_BITFIELD_PROBED(parent, subtree_ss_mask) & (1U << bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id))))
                return 0;
        if (READ(cgrp, dom_cgrp) != cgrp)
                return 0;
        (void)count(SW_COUNT_RELEASED);
        tell(cgrp, SW_EVENT_RELEASED, 0, bpf_ktime_get_boot_ns(), false);
        return 0;
}
