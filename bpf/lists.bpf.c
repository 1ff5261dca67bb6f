// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lists that memcg-aware list_lrus hold, per memcg: where units on demand would be. A pass of its own, for the estimate.
 *
 * The ring of list_lrus is reached from the root file system's dentry lru. It is under a mutex, not RCU: a member taken off has its
 * pointers poisoned, and every step checks its neighbours. Each list_lru has an xarray from kmemcg_id to lists, whose nodes are RCU
 * protected; one leaf of 64 slots becomes one record.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define OUT_BYTES (64 * 1024)
#define STEPS_MAX (1U << 20)
#define DEPTH_MAX 4     /* levels of an xarray: 64^4 is far above the 65,535 kmemcg ids there can be */
#define XA_LOCK_IRQ 1U  /* XA_FLAGS_LOCK_IRQ: every memcg-aware list_lru's xarray has it, and nothing else of its flags */

#define PRICE_LRU 32
#define PRICE_DESCENT 24
#define PRICE_LEAF 64

struct lists {
        __u64 text;  /* a function of the kernel: our notion of where its image is */
        __u64 start; /* the list_head where the ring began */
        __u64 at;    /* the list_head to look at next */
        __u64 index; /* in the xarray of the list_lru at "at": the next kmemcg_id; only when inside */
        __s64 work;
        __u32 inside, heads;
        __u64 node, shift; /* while descending */
        __u64 mask;        /* of the leaf */
};

struct sw_control control;
__u8 out[OUT_BYTES] __attribute__((aligned(8)));
static struct lists w;
static __u64 slots[64];

/* xa_is_node(): an internal entry that is not one of the small special ones. */
static __always_inline bool is_node(__u64 entry) {
        return (entry & 3) == 2 && entry > 4096;
}

static __always_inline bool send(struct list_lru *lru, __u64 base, __u64 mask) {
        __u64 at = control.used;
        struct sw_lists *r;

        barrier_var(at);
        if (at > OUT_BYTES - sizeof(*r)) {
                w.work = 0;
                return false;
        }
        if (!mask)
                return true;
        r = (struct sw_lists *)(out + at);
        __builtin_memset(r, 0, sizeof(*r));
        r->shrinker_id = READ(lru, shrinker_id);
        r->base = base;
        r->mask = mask;
        r->head.type = SW_TYPE_LISTS;
        r->head.size = sizeof(*r);
        control.used = at + sizeof(*r);
        return true;
}

static __always_inline long leave(void) {
        struct list_head *next;

        w.inside = 0;
        trail_remember(w.at);
        next = READ((struct list_head *)w.at, next);
        w.at = (__u64)next;
        return next ? 0 : -1;
}

/* One level down, towards w.index. */
static long descend(__u32 i, void *ctx) {
        __u64 slot, entry = 0;

        w.shift = READ((struct xa_node *)w.node, shift);
        if (!w.shift)
                return 1;
        slot = (w.index >> (w.shift & 63)) & 63;
        (void)bpf_probe_read_kernel(&entry, sizeof(entry),
                                    (void *)(w.node + bpf_core_field_offset(struct xa_node, slots) + 8 * slot));
        w.node = is_node(entry) ? entry - 2 : 0;
        return !w.node;
}

/* One slot of a leaf. A callback: a loop of the verifier's would fork at every slot. */
static long slot(__u32 i, void *ctx) {
        __u64 entry = slots[i & 63];

        /* A pointer: not empty, and not one of the xarray's own entries, which have a low bit set. */
        if (entry && !(entry & 3))
                w.mask |= 1ULL << (i & 63);
        return 0;
}

/* The next leaf of the xarray at or after w.index; or out of it. */
static __noinline long leaf(void) {
        struct list_lru *lru = ENTRY(w.at, list_lru, list);
        __u64 head = (__u64)READ(lru, xa.xa_head);

        w.work -= PRICE_DESCENT;
        if (!is_node(head)) {
                /* No node: at most one entry, at index 0. */
                if (head && !(head & 3) && !w.index && !send(lru, 0, 1))
                        return 1;
                return leave();
        }
        w.node = head - 2;
        w.shift = READ((struct xa_node *)w.node, shift);
        if (w.shift > 24)
                return -1;
        if (w.index >> ((w.shift + 6) & 63))
                return leave();
        bpf_loop(DEPTH_MAX, descend, NULL, 0);
        if (!w.node) {
                /* Nothing below that slot: on to the next slot of the same level. */
                w.index = ((w.index >> (w.shift & 63)) + 1) << (w.shift & 63);
                return 0;
        }
        if (w.shift)
                return -1;
        w.work -= PRICE_LEAF;
        if (bpf_probe_read_kernel(slots, sizeof(slots), (void *)(w.node + bpf_core_field_offset(struct xa_node, slots))) < 0)
                return -1;
        w.mask = 0;
        bpf_loop(64, slot, NULL, 0);
        if (!send(lru, w.index & ~63ULL, w.mask))
                return 1;
        w.index = (w.index & ~63ULL) + 64;
        return 0;
}

static long step(__u32 i, void *ctx) {
        long r;

        if (w.work <= 0)
                return 1;
        if (w.inside) {
                r = on_list(w.at) ? leaf() : -1;
        } else if (w.at == w.start && trail.n) {
                if (w.heads == 1)
                        control.known |= SW_KNOWN_SHRINKERS;
                control.phase = SW_PHASE_DONE;
                return 1;
        } else {
                struct list_lru *lru = ENTRY(w.at, list_lru, list);
                __u64 node = (__u64)READ(lru, node);

                w.work -= PRICE_LRU;
                r = 0;
                if (!on_list(w.at))
                        r = -1;
                else if (READ(lru, xa.xa_flags) != XA_LOCK_IRQ || !node || near(node, w.text)) {
                        /* Not a list_lru: the head, in the kernel image. (A static list_lru is there, too, but its nodes are not.) */
                        if (near(w.at, w.text)) {
                                /* A second time: where the ring began is not on it any more, and going on could be for ever. */
                                if (w.heads++) {
                                        control.phase = SW_PHASE_LOST;
                                        return 1;
                                }
                                trail_remember(w.at);
                                w.at = (__u64)READ((struct list_head *)w.at, next);
                        } else
                                r = -1;
                } else if (READ(lru, shrinker_id) < 0) {
                        r = leave();
                } else {
                        w.inside = 1;
                        w.index = 0;
                }
        }
        if (r < 0) {
                w.inside = 0;
                w.at = trail_go_on(&w.work);
                if (!w.at) {
                        control.phase = SW_PHASE_LOST;
                        return 1;
                }
                return 0;
        }
        return r;
}

static __always_inline void begin(void) {
        struct super_block *sb = root_sb();
        struct shrinker *s;

        __builtin_memset(&w, 0, sizeof(w));
        trail_begin();
        control.known = 0;
        control.phase = SW_PHASE_NONE;
        if (!sb)
                return;
        s = sb_shrinker(sb);
        if (!s)
                return;
        w.text = (__u64)READ(s, scan_objects);
        w.start = HEAD(sb, super_block, s_dentry_lru) + bpf_core_field_offset(struct list_lru, list);
        w.at = w.start;
        if (!w.text)
                return;
        /*
         * The lru of a superblock's dentries is memcg-aware wherever there is any. With cgroup.memory=nokmem the kernel makes none
         * and puts none on the ring: no memcg has a list, which is all there is to tell.
         */
        if (bpf_core_field_exists(sb->s_dentry_lru.memcg_aware) && !READ(sb, s_dentry_lru.memcg_aware)) {
                control.known = SW_KNOWN_SHRINKERS;
                control.phase = SW_PHASE_DONE;
                return;
        }
        /* It stays there as long as the file system does; that its neighbour does not point back is for a moment, while one is added. */
        control.phase = on_list(w.start) ? SW_PHASE_NEXT : SW_PHASE_LOST;
}

SEC("raw_tp")
int lists(void *ctx) {
        __u64 start = bpf_ktime_get_ns();

        control.used = 0;
        if (control.phase == SW_PHASE_BEGIN)
                begin();
        w.work = control.budget;
        /* step() checks that the member at w.at is on the ring before it uses it, in every slice anew. */
        if (control.phase == SW_PHASE_NEXT)
                bpf_loop(STEPS_MAX, step, NULL, 0);
        control.slice_nsec = bpf_ktime_get_ns() - start;
        return 0;
}
