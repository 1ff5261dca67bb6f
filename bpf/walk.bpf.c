// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The walk: every memory css of the system, live and dying, in pre-order over the css tree, in slices.
 *
 * A run of this program is one slice: one RCU read-side section with preemption off. It takes no lock and holds no reference. It ends
 * when its work is used up or its buffer is full, and the next run goes on from the cursor. ARCHITECTURE.md ("The walk") argues why
 * that reaches every css exactly once; the short form stands at resume() below.
 *
 * All state is in .bss, not on the stack: the verifier then sees unknown scalars at every entry of step() and needs one pass over
 * each branch, on every kernel from 6.1.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

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

static __always_inline long copy_css(__u64 css) {
        __u32 size = bpf_core_type_size(struct cgroup_subsys_state);

        if (size > CSS_BYTES)
                size = CSS_BYTES;
        return bpf_probe_read_kernel(raw, size, (void *)css);
}

/* Whether the copy in raw is a css on its parent's list that a later slice may rely on. */
static __always_inline bool raw_is(__u64 serial) {
        __u32 s = css_state(RAW(raw, cgroup_subsys_state, flags));

        return RAW(raw, cgroup_subsys_state, serial_nr) == serial && (__u64)RAW(raw, cgroup_subsys_state, ss) == w.ss &&
               !(s & SW_CSS_RELEASED) && (s & (SW_CSS_ONLINE | SW_CSS_DYING));
}

static __always_inline void stand_on(__u64 css) {
        w.css = css;
        w.serial = RAW(raw, cgroup_subsys_state, serial_nr);
        w.parent = (__u64)RAW(raw, cgroup_subsys_state, parent);
        w.next_sibling = (__u64)RAW(raw, cgroup_subsys_state, sibling.next);
        w.first_child = (__u64)RAW(raw, cgroup_subsys_state, children.next);
}

static __always_inline void remember_path(__u32 level) {
        struct place *p = &path[level & (PATH_LEVELS - 1)];

        p->css = w.css;
        p->serial = w.serial;
        p->level = level;
}

static __always_inline void remember_sibling(__u64 css, __u64 serial, __u64 parent) {
        struct place *p = &ring[w.ring_at & (RING - 1)];

        w.ring_at++;
        p->css = css;
        p->serial = serial;
        p->parent = parent;
}

static __always_inline void lost(void) {
        control.phase = SW_PHASE_LOST;
}

/*
 * Most of the time of a walk is spent waiting for memory: a memcg is a dozen cache lines, none of them in the cache, and the longest
 * way to one is four pointers (css → cgroup → kernfs node → name, and css → node info → shrinker_info → array). Taken one after the
 * other they are waited for one after the other; taken level by level, as here, the processor waits for several at once. The first
 * level of the next sibling goes along. Measured with 45,000 memcgs: 62 ms without, 44 ms with. What is read here is read again where
 * it is used, from the cache.
 */
static __always_inline void warm_up(struct cgroup *cgrp) {
        __u64 nodeinfo = bpf_core_field_offset(struct mem_cgroup, nodeinfo), ahead = (__u64)ENTRY(w.next_sibling, cgroup_subsys_state, sibling);
        struct mem_cgroup_per_node *pn = NULL;
        struct shrinker_info *info;
        struct kernfs_node *kn;
        const char *name;
        __u64 line;

        kn = READ(cgrp, kn);
        (void)bpf_probe_read_kernel(&pn, sizeof(pn), (void *)(w.css + nodeinfo));
        (void)bpf_probe_read_kernel(&line, sizeof(line), (void *)ahead);
        (void)bpf_probe_read_kernel(&line, sizeof(line), (void *)(ahead + nodeinfo));
        info = READ(pn, shrinker_info);
        name = READ(kn, name);
        (void)bpf_probe_read_kernel(&line, sizeof(line), info);
        (void)bpf_probe_read_kernel(&line, 1, name);
}

/* Sends the css in raw; w stands on it. False when the buffer is full: nothing was sent. */
static __always_inline bool send_memcg(__u32 state) {
        struct mem_cgroup *memcg = (struct mem_cgroup *)w.css;
        struct cgroup *cgrp = RAW(raw, cgroup_subsys_state, cgroup);
        struct kernfs_node *kn;
        struct sw_memcg *r;
        __u64 at = control.used, count = 0;
        __u32 valid = 0;
        const char *name;
        char *to;
        long n;

        barrier_var(at);
        if (at > OUT_BYTES - sizeof(*r) - SW_NAME_MAX - 8)
                return false;
        r = (struct sw_memcg *)(out + at);
        __builtin_memset(r, 0, sizeof(*r));

        r->serial = w.serial;
        r->state = state;
        if (w.parent)
                r->parent_serial = READ((struct cgroup_subsys_state *)w.parent, serial_nr);

        if (ref_count(RAW(raw, cgroup_subsys_state, refcnt.percpu_count_ptr), RAW(raw, cgroup_subsys_state, refcnt.data), &count)) {
                r->refs = count;
                valid |= SW_MEMCG_REFS;
        }
        warm_up(cgrp);
        r->memcg_id = READ(memcg, id.id);
        r->id_refs = READ(memcg, id.ref.refs.counter);
        valid |= SW_MEMCG_ID;
        r->memory_pages = READ(memcg, memory.usage.counter);
        valid |= SW_MEMCG_MEMORY;
        if (bpf_core_field_exists(memcg->swap)) {
                /* On v1 this place is the memory + swap counter: swap and memsw share a union. */
                r->swap_pages = READ(memcg, swap.usage.counter);
                valid |= control.v2 ? SW_MEMCG_SWAP : SW_MEMCG_MEMSW;
        }
        if (bpf_core_field_exists(memcg->kmemcg_id)) {
                r->kmemcg_id = READ(memcg, kmemcg_id);
                valid |= SW_MEMCG_KMEM_ID;
        }

        to = (char *)(r + 1);
        kn = READ(cgrp, kn);
        if (kn) {
                r->level = READ(cgrp, level);
                r->cgroup_id = READ(kn, id);
                valid |= SW_MEMCG_CGROUP;
                name = READ(kn, name);
                /* kernfs names outlive rmdir: the node goes with the last reference to the cgroup. */
                n = bpf_probe_read_kernel_str(to, SW_NAME_MAX, name);
                if (n > 0 && n <= SW_NAME_MAX) {
                        __u64 len = n - 1, last = len & ~7ULL, keep = (len & 7) * 8;

                        r->name_len = len;
                        valid |= SW_MEMCG_NAME;
                        /* The bytes behind the name, up to the next record, may be an older record's. */
                        barrier_var(last);
                        if (last < SW_NAME_MAX)
                                *(__u64 *)(to + last) &= (1ULL << keep) - 1;
                }
        }

        r->nodes = popcount64(w.memcg_nodes);
        r->head.type = SW_TYPE_MEMCG;
        r->head.size = sizeof(*r) + ((r->name_len + 7) & ~7U);
        r->head.valid = valid;
        control.used = at + r->head.size;
        return true;
}

/*
 * Goes to css, which this slice reached through a list it may trust. "after": the serial of the sibling before it; serials ascend in
 * every list of children, so one that does not is memory we have no business in.
 */
__noinline long visit(__u64 css, __u64 parent, __u32 level, __u64 after) {
        __u32 state, flags;
        __u64 serial;

        w.work -= PRICE_MEMCG;
        if (copy_css(css) < 0) {
                lost();
                return 1;
        }
        serial = RAW(raw, cgroup_subsys_state, serial_nr);
        if ((__u64)RAW(raw, cgroup_subsys_state, ss) != w.ss || (__u64)RAW(raw, cgroup_subsys_state, parent) != parent || serial <= after) {
                lost();
                return 1;
        }
        flags = RAW(raw, cgroup_subsys_state, flags);
        state = css_state(flags);

        if (!(control.flags & SW_WALK_SUMMARY)) {
                __u64 old[5] = { w.css, w.parent, w.serial, w.next_sibling, w.first_child };

                stand_on(css);
                w.memcg_nodes = control.possible_nodes;
                if (!send_memcg(state)) {
                        /* Stay where we were; the next slice comes here again. */
                        w.css = old[0];
                        w.parent = old[1];
                        w.serial = old[2];
                        w.next_sibling = old[3];
                        w.first_child = old[4];
                        w.work = 0;
                        return 1;
                }
                w.mid = 1;
                w.info = 0;
                w.slot = 0;
                control.phase = SW_PHASE_SLOTS;
        } else {
                stand_on(css);
                control.phase = SW_PHASE_NEXT;
        }

        w.level = level;
        w.over = 0;
        remember_path(level);
        if (parent)
                remember_sibling(css, serial, parent);

        if (serial > control.highest_serial)
                control.highest_serial = serial;
        if (serial > control.above)
                control.newer++;
        if (state & SW_CSS_DYING) {
                control.dying++;
                control.digest += sw_digest(serial, 1);
        } else if (state & SW_CSS_ONLINE) {
                control.live++;
                control.digest += sw_digest(serial, 0);
        } else {
                control.creating++;
                control.digest += sw_digest(serial, 2);
        }
        return 0;
}

/* Pre-order: the first child; without one, or when they are done, the next sibling; without one, the parent's. */
__noinline long next(void) {
        __u64 head;

        if (!w.over) {
                if (w.first_child != HEAD(w.css, cgroup_subsys_state, children))
                        return visit((__u64)ENTRY(w.first_child, cgroup_subsys_state, sibling), w.css, w.level + 1, 0);
                w.over = 1;
        }
        if (!w.parent) {
                control.phase = SW_PHASE_DONE;
                return 1;
        }
        head = HEAD(w.parent, cgroup_subsys_state, children);
        if (w.next_sibling != head)
                return visit((__u64)ENTRY(w.next_sibling, cgroup_subsys_state, sibling), w.parent, w.level, w.serial);

        /* Up. A child that was on its parent's list in this section keeps the parent on its own list throughout. */
        w.work -= PRICE_LOOK;
        if (!w.level || copy_css(w.parent) < 0 || (__u64)RAW(raw, cgroup_subsys_state, ss) != w.ss) {
                lost();
                return 1;
        }
        stand_on(w.parent);
        w.level--;
        remember_path(w.level);
        return 0;
}

/*
 * A new slice: nothing read before may be trusted. Of the path from the root to the css we stood on, the deepest one that is still on
 * its parent's list is where we go on; the root always is. A css is released only when it has no children left, so what was below the
 * ones that are gone is gone, too, and what comes next are the children of that deepest one with a serial above the one we had
 * followed.
 */
__noinline long resume(void) {
        struct place *p = &path[w.look & (PATH_LEVELS - 1)];

        w.work -= PRICE_LOOK;
        if (w.look < 0 || p->level != (__u32)w.look) {
                /* All of the last 1024 levels are gone at once, or the root is not where it was. */
                lost();
                return 1;
        }
        if (copy_css(p->css) < 0 || !raw_is(p->serial)) {
                w.target = p->serial;
                w.mid = 0;
                w.look--;
                return 0;
        }
        stand_on(p->css);
        if ((__u32)w.look == w.level) {
                control.phase = w.mid ? SW_PHASE_SLOTS : SW_PHASE_NEXT;
                return 0;
        }
        /* The child we had followed is gone: find the first one after it. Perhaps a sibling we remember is near. */
        w.level = w.look;
        w.look = RING;
        w.best.css = 0;
        w.best.serial = 0;
        control.phase = SW_PHASE_RING;
        return 0;
}

static __always_inline long search_ring(void) {
        struct place *p;

        w.look--;
        p = &ring[w.look & (RING - 1)];
        if (p->parent == w.css && p->serial > w.best.serial && p->serial <= w.target) {
                w.work -= PRICE_LOOK;
                if (copy_css(p->css) == 0 && raw_is(p->serial) && (__u64)RAW(raw, cgroup_subsys_state, parent) == w.css) {
                        w.best.css = (__u64)RAW(raw, cgroup_subsys_state, sibling.next);
                        w.best.serial = p->serial;
                }
        }
        if (w.look > 0)
                return 0;
        /* From the best one we remember, else from the first child. w.best.css: the next list_head to look at. */
        if (!w.best.css)
                w.best.css = w.first_child;
        w.stride = 0;
        control.phase = SW_PHASE_SEARCH;
        return 0;
}

/*
 * One sibling of the search. Every so many-th is remembered, so that a search that outlasts its slice goes on near where it was: the
 * ring spans RING * SEARCH_STRIDE siblings, and when even these are all gone, so much shorter has the list become.
 */
__noinline long search(void) {
        __u64 css, serial;

        if (w.best.css == HEAD(w.css, cgroup_subsys_state, children)) {
                w.over = 1;
                remember_path(w.level);
                control.phase = SW_PHASE_NEXT;
                return 0;
        }
        css = (__u64)ENTRY(w.best.css, cgroup_subsys_state, sibling);
        w.work -= PRICE_LOOK;
        if (copy_css(css) < 0 || (__u64)RAW(raw, cgroup_subsys_state, ss) != w.ss ||
            (__u64)RAW(raw, cgroup_subsys_state, parent) != w.css) {
                lost();
                return 1;
        }
        serial = RAW(raw, cgroup_subsys_state, serial_nr);
        if (serial > w.target)
                return visit(css, w.css, w.level + 1, w.target);
        if (serial <= w.best.serial) {
                lost();
                return 1;
        }
        w.best.serial = serial;
        w.best.css = (__u64)RAW(raw, cgroup_subsys_state, sibling.next);
        if (!(w.stride++ % SEARCH_STRIDE))
                remember_sibling(css, serial, w.css);
        return 0;
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

                w.ids = READ((struct shrinker_info *)info, map_nr_max);
                w.slots = (w.ids + per_unit - 1) / per_unit;
                if (!w.ids || w.slots > SLOTS_MAX) {
                        w.ids = 0;
                        w.slots = 0;
                        return 0;
                }
                w.node_valid = SW_NODE_INFO | SW_NODE_UNITS;
                bytes = bpf_core_field_offset(struct shrinker_info, unit) + 8 * w.slots;
        } else {
                struct shrinker_info___pre_v6_7 *flat = (void *)info;
                __u64 deferred = (__u64)READ(flat, nr_deferred), map = (__u64)READ(flat, map);

                /* One allocation: the struct, 8 bytes a counter, one bit an id. */
                if (deferred <= info || map <= deferred || map - deferred > 64ULL * SLOTS_MAX)
                        return 0;
                w.ids = (map - deferred) / 8;
                w.node_valid = SW_NODE_INFO;
                bytes = map - info + w.ids / 8;
        }
        if (in_vmalloc(info, w.css))
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

static long step(__u32 i, void *ctx) {
        if (w.work <= 0)
                return 1;
        switch (control.phase) {
        case SW_PHASE_SLOTS:
                return slots() != 0;
        case SW_PHASE_NEXT:
                return next() != 0;
        case SW_PHASE_RESUME:
                return resume() != 0;
        case SW_PHASE_RING:
                return search_ring() != 0;
        case SW_PHASE_SEARCH:
                return search() != 0;
        default:
                return 1;
        }
}

/* Climbs from the caller's css to the root. */
static long climb(__u32 i, void *ctx) {
        struct cgroup_subsys_state *parent = READ((struct cgroup_subsys_state *)w.css, parent);

        if (!parent)
                return 1;
        w.css = (__u64)parent;
        return 0;
}

static __always_inline void begin(void) {
        struct cgroup_subsys_state *css;
        struct cgroup_root *root;
        struct cgroup *cgrp;
        __u32 mask;

        control.live = control.dying = control.creating = control.newer = 0;
        control.digest = control.highest_serial = 0;
        control.unit_addr = control.array_addr = control.array_struct_bytes = 0;
        control.root_ids = 0;
        __builtin_memset(&w, 0, sizeof(w));
        w.work = control.budget;
        /* The rings may keep what an earlier pass remembered: a css that is still valid is a good place to search from. */

        css = memory_root((struct task_struct *)bpf_get_current_task(), &control.v2);
        if (!css) {
                control.phase = SW_PHASE_NONE;
                return;
        }
        w.css = (__u64)css;
        bpf_loop(STEPS_MAX, climb, NULL, 0);
        /* A disabled controller has a root css all the same, on a hierarchy that does not know it. */
        cgrp = READ((struct cgroup_subsys_state *)w.css, cgroup);
        root = READ(cgrp, root);
        mask = READ(root, subsys_mask);
        if (!(mask & (1U << bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)))) {
                control.phase = SW_PHASE_NONE;
                return;
        }
        w.root = w.css;
        w.ss = (__u64)READ((struct cgroup_subsys_state *)w.root, ss);
        (void)open_node(lowest_bit(control.possible_nodes));
        control.root_ids = w.ids;
        (void)visit(w.root, 0, 0, 0);
}

SEC("raw_tp")
int walk(void *ctx) {
        __u64 start = bpf_ktime_get_ns();

        control.used = 0;
        w.work = control.budget;
        if (control.phase == SW_PHASE_BEGIN) {
                begin();
        } else if (control.phase < SW_PHASE_DONE) {
                /* path[w.level] is the css we stand on. What is gone stays gone, so a resume that took a whole slice goes on. */
                if (control.phase == SW_PHASE_RING || control.phase == SW_PHASE_SEARCH)
                        w.level++;
                if (control.phase != SW_PHASE_RESUME)
                        w.look = w.level;
                control.phase = SW_PHASE_RESUME;
        }
        bpf_loop(STEPS_MAX, step, NULL, 0);
        control.slice_nsec = bpf_ktime_get_ns() - start;
        return 0;
}
