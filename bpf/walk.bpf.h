/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of a walk, and one memcg's nodes: how many units its arrays hold. The way from memcg to memcg is walk.bpf.c's.
 *
 * All state is in .bss, not on the stack: the verifier then sees unknown scalars at every entry of step() and needs one pass over
 * each branch, on every kernel from 6.1. The functions that are not static are verified once each, whoever calls them.
 */
#pragma once

#include "kernel.bpf.h"

#define OUT_BYTES (256 * 1024)
#define PATH_LEVELS 1024 /* ancestors that are remembered; a power of two */
#define RING 64         /* siblings that are remembered; a power of two */
#define SEARCH_STRIDE 32 /* of the siblings passed while searching, every so many-th is remembered */
#define CHUNK 64         /* slots read at once */
#define SLOTS_MAX (1U << 20) /* a pointer array longer than this is not one: 67 million ids */
#define STEPS_MAX (1U << 20)

/* Prices in units of work. A slot read is 1; measured, the rest are worth about so many of them. */
#define PRICE_MEMCG 64
#define PRICE_LOOK 24 /* a css looked at but not sent: search, climb, cursor check */
#define PRICE_NODE 24
#define PRICE_BITS 8

struct place {
        __u64 css;
        __u64 serial;
        __u64 parent; /* path: unused; ring: the css whose child this is */
        __u32 level;
        __u32 pad;
};

/* A copy of the css that the walk stands on, and where it goes from there. Pointers are good in the slice that read them. */
struct walk {
        __u64 root, ss;
        __u64 css, parent, serial;
        __u64 next_sibling, first_child;
        __u64 target; /* search: the first serial above this one, among the children of parent */
        __u64 memcg_nodes; /* SLOTS: nodes still to do, bit n: node n */
        __u64 info;        /* SLOTS: the shrinker_info that is being counted */
        __s64 work;        /* left in this slice */
        __u32 level;       /* of css; the depth of the path */
        __s32 look;        /* RESUME: the level looked at; RING: entries still to look at */
        __u32 over;        /* the children of css are done: go to its sibling */
        __u32 mid;         /* in the middle of css's nodes */
        __u64 node_info;   /* what open_node() found: the shrinker_info, 0 if there is none */
        __u32 node_valid;  /* SW_NODE_* */
        __u32 ids, slots;  /* of the node being counted */
        __u32 slot, units, bits, units_used; /* of it so far */
        __u32 ring_at;
        __u32 stride;
        struct place best; /* RING: the newest valid sibling so far */
};

struct sw_control control;
static struct walk w;
static struct place path[PATH_LEVELS];
static struct place ring[RING];
__u8 out[OUT_BYTES] __attribute__((aligned(8)));

/* Scratch: raw copies. The BPF stack is 512 bytes, a css alone takes half of that. */
#define CSS_BYTES 1024
static __u8 raw[CSS_BYTES] __attribute__((aligned(8)));
static __u64 chunk[CHUNK];

static __always_inline __u32 popcount64(__u64 x) {
        x -= (x >> 1) & 0x5555555555555555ULL;
        x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
        return (x * 0x0101010101010101ULL) >> 56;
}

static __always_inline __u32 lowest_bit(__u64 x) {
        return popcount64((x & -x) - 1);
}

static __always_inline void lost(void) {
        control.phase = SW_PHASE_LOST;
}

static __always_inline void send_node(__u32 node, __u32 valid, __u32 array_bytes) {
        struct sw_node *r;
        __u64 at = control.used;

        barrier_var(at);
        if (at > OUT_BYTES - sizeof(*r))
                return; /* cannot be: slots() made sure of the room */
        r = (struct sw_node *)(out + at);
        __builtin_memset(r, 0, sizeof(*r));
        r->serial = w.serial;
        r->node = node;
        r->ids = w.ids;
        r->array_bytes = array_bytes;
        if (valid & SW_NODE_UNITS) {
                r->slots = w.slots;
                r->units = w.units;
        }
        if (valid & SW_NODE_BITS) {
                r->bits = w.bits;
                r->units_used = w.units_used;
        }
        r->head.type = SW_TYPE_NODE;
        r->head.size = sizeof(*r);
        r->head.valid = valid;
        control.used = at + sizeof(*r);
        w.memcg_nodes &= w.memcg_nodes - 1;
        w.info = 0;
}

/*
 * Whether an address lies in vmalloc space, where an array takes whole pages. Without symbols: the css is from slab, hence in the
 * direct map; our own stack is in vmalloc space (VMAP_STACK); both regions are far apart compared with what is used of each.
 */
static __always_inline bool in_vmalloc(__u64 addr, __u64 slab) {
        __u64 stack = (__u64)READ((struct task_struct *)bpf_get_current_task(), stack);
        __u64 to_slab = addr > slab ? addr - slab : slab - addr;
        __u64 to_stack = addr > stack ? addr - stack : stack - addr;

        return !(addr & 4095) && to_stack < to_slab;
}

/* Starts a node: finds its shrinker_info. Sets w.node_info, node_valid, ids and slots; returns the bytes of the array, 0 when there is none. */
__noinline __u32 open_node(__u32 node) {
        struct mem_cgroup_per_node *pn = NULL;
        __u32 bytes = 0;
        __u64 info = 0;

        w.node_info = 0;
        w.node_valid = 0;
        w.ids = 0;
        w.slots = 0;
        (void)bpf_probe_read_kernel(&pn, sizeof(pn),
                                    (void *)(w.css + bpf_core_field_offset(struct mem_cgroup, nodeinfo) + 8ULL * node));
        if (pn)
                info = (__u64)READ(pn, shrinker_info);
        if (!info)
                return 0;
        if (bpf_core_type_exists(struct shrinker_info_unit)) {
                __u32 per_unit = bpf_core_field_size(struct shrinker_info_unit, nr_deferred) / 8;
                __u32 ids = 0;
                __u64 n;

                /* Room for 0 ids is an answer: with cgroup.memory=nokmem no shrinker gets an id. A read that fails is none. */
                if (bpf_core_read(&ids, sizeof(ids), &((struct shrinker_info *)info)->map_nr_max) < 0)
                        return 0;
                n = ((__u64)ids + per_unit - 1) / per_unit;
                if (n > SLOTS_MAX)
                        return 0;
                w.ids = ids;
                w.slots = n;
                w.node_valid = SW_NODE_INFO | SW_NODE_UNITS;
                bytes = bpf_core_field_offset(struct shrinker_info, unit) + 8 * w.slots;
        } else {
                struct shrinker_info___pre_v6_7 *flat = (void *)info;
                __u64 deferred = (__u64)READ(flat, nr_deferred), map = (__u64)READ(flat, map);

                /* One allocation: the struct, 8 bytes a counter, one bit an id. With no ids the map begins where the counters do. */
                if (deferred <= info || map < deferred || map - deferred > 64ULL * SLOTS_MAX)
                        return 0;
                w.ids = (map - deferred) / 8;
                w.node_valid = SW_NODE_INFO;
                bytes = map - info + w.ids / 8;
        }
        /* Up to a page kvmalloc() does not think of vmalloc; small objects may begin a page all the same. No kernel has smaller pages. */
        if (bytes > 4096 && in_vmalloc(info, w.css))
                w.node_valid |= SW_NODE_VMALLOC;
        w.node_info = info;
        return bytes;
}

/* One unit of the chunk: its map. A loop of the verifier's would be explored 64 times over; the callback is looked at once. */
static long count_bits(__u32 i, void *ctx) {
        __u64 unit = chunk[i & (CHUNK - 1)];
        unsigned long map;
        __u32 bits;

        if (!unit)
                return 0;
        map = READ((struct shrinker_info_unit *)unit, map[0]);
        bits = popcount64(map);
        w.bits += bits;
        if (bits)
                w.units_used++;
        w.work -= PRICE_BITS;
        return 0;
}

/* Counts the units of one node, or as many slots of it as a step takes. */
__noinline long slots(void) {
        __u64 info, base;
        __u32 node, bytes, valid, i, n, units = 0;

        if (!w.memcg_nodes) {
                w.mid = 0;
                control.phase = SW_PHASE_NEXT;
                return 0;
        }
        if (control.used > OUT_BYTES - sizeof(struct sw_node)) {
                w.work = 0;
                return 1;
        }
        node = lowest_bit(w.memcg_nodes);
        /* Looked up in every step: between two slices the array may have been replaced by a longer one, and then we begin again. */
        bytes = open_node(node);
        info = w.node_info;
        valid = w.node_valid;
        w.work -= PRICE_NODE;
        if (!info) {
                send_node(node, 0, 0);
                return 0;
        }
        if (info != w.info) {
                w.info = info;
                w.slot = 0;
                w.units = 0;
                w.bits = 0;
                w.units_used = 0;
        }
        if (control.flags & SW_WALK_BITS)
                valid |= valid & SW_NODE_UNITS ? SW_NODE_BITS : 0;
        if (bpf_core_type_exists(struct shrinker_info_unit) && w.slot < w.slots) {
                base = info + bpf_core_field_offset(struct shrinker_info, unit) + 8ULL * w.slot;
                n = w.slots - w.slot;
                barrier_var(n);
                if (n >= CHUNK) {
                        n = CHUNK;
                        if (bpf_probe_read_kernel(chunk, sizeof(chunk), (void *)base) < 0)
                                n = 0;
                } else {
                        __builtin_memset(chunk, 0, sizeof(chunk));
                        if (bpf_probe_read_kernel(chunk, n * 8, (void *)base) < 0)
                                n = 0;
                }
                if (!n) {
                        lost();
                        return 1;
                }
                /* Without branches: the verifier sees one path, and a pointer is never a number with the top bit clear and 0 clear. */
#pragma unroll
                for (i = 0; i < CHUNK; i++) {
                        units += is_set(chunk[i]);
                        barrier_var(units); /* one at a time: 64 loads at once do not fit the stack */
                }
                w.units += units;
                w.slot += n;
                w.work -= n;
                if (valid & SW_NODE_BITS)
                        bpf_loop(n, count_bits, NULL, 0);
                if (units && !control.unit_addr)
                        control.unit_addr = chunk[0];
                if (w.slot < w.slots)
                        return 0;
        }
        if (!(valid & SW_NODE_VMALLOC) && !control.array_addr) {
                control.array_addr = info;
                control.array_struct_bytes = bytes;
        }
        send_node(node, valid, bytes);
        return 0;
}
