/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every kernel field that our programs touch, on one page.
 *
 * There is no vmlinux.h: the structs below name only what we read, and libbpf relocates each access to where the running kernel has
 * the field (CO-RE). Where kernels differ there is one accessor, newest kernel first, with the commit that made the difference.
 * A flavour's suffix (___pre_v6_7) is stripped by libbpf when it looks for the type.
 *
 * Features are asked for by what BTF says, never by the kernel's version.
 */
#pragma once

#include "record.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

typedef _Bool bool;
#define true 1
#define false 0
#ifndef NULL
#define NULL ((void *)0)
#endif

#define KERNEL_FIELDS _Pragma("clang attribute push (__attribute__((preserve_access_index)), apply_to = record)")
#define KERNEL_FIELDS_END _Pragma("clang attribute pop")

KERNEL_FIELDS

struct list_head {
        struct list_head *next, *prev;
};

typedef struct {
        int counter;
} atomic_t;

typedef struct {
        long counter;
} atomic_long_t;

typedef struct refcount_struct {
        atomic_t refs;
} refcount_t;

struct percpu_ref_data {
        atomic_long_t count;
};

/* The two low bits of percpu_count_ptr: atomic, dead. They are an anonymous enum of percpu-refcount.h since 3.18. */
#define PERCPU_REF_ATOMIC 1UL
#define PERCPU_REF_DEAD 2UL
struct percpu_ref {
        unsigned long percpu_count_ptr;
        struct percpu_ref_data *data;
};

struct kernfs_node {
        const char *name;
        __u64 id;
};

struct cgroup_subsys_state;

enum cgroup_subsys_id {
        memory_cgrp_id = 4,
        CGROUP_SUBSYS_COUNT = 14,
};

struct cgroup;
struct cgroup_subsys;

struct cgroup_subsys_state {
        struct cgroup *cgroup;
        struct cgroup_subsys *ss;
        struct percpu_ref refcnt;
        struct list_head sibling;
        struct list_head children;
        unsigned int flags;
        __u64 serial_nr;
        struct cgroup_subsys_state *parent;
};

struct cgroup_root;

struct cgroup {
        struct cgroup_subsys_state self;
        int level;
        struct kernfs_node *kn;
        unsigned int subtree_ss_mask; /* controllers of its children; u16 in 6.18, u32 in 7.3: read by BTF's size */
        struct cgroup_subsys_state *subsys[CGROUP_SUBSYS_COUNT];
        struct cgroup_root *root;
        struct cgroup *dom_cgrp; /* itself, unless it is threaded */
};

struct cgroup_root {
        unsigned int subsys_mask;
        struct cgroup cgrp;
};

struct css_set {
        struct cgroup_subsys_state *subsys[CGROUP_SUBSYS_COUNT];
        struct cgroup *dfl_cgrp;
};

struct page_counter {
        atomic_long_t usage;
};

/* The id that swap entries carry. Up to 7.0 the type was mem_cgroup_id; libbpf follows the members' names, not their types'. */
struct mem_cgroup_private_id {
        int id;
        refcount_t ref;
};

struct shrinker_info;

struct mem_cgroup_per_node {
        struct shrinker_info *shrinker_info;
};

struct mem_cgroup {
        struct cgroup_subsys_state css;
        struct mem_cgroup_private_id id;
        struct page_counter memory;
        struct page_counter swap;
        int kmemcg_id;
        struct mem_cgroup_per_node *nodeinfo[];
};

/* From 6.7: 307bececcd12 ("mm: shrinker: add a secondary array for shrinker_info::{map, nr_deferred}"). */
struct shrinker_info_unit {
        atomic_long_t nr_deferred[64]; /* 63 of them when patched: its size tells */
        unsigned long map[1];
};
struct shrinker_info {
        int map_nr_max;
        struct shrinker_info_unit *unit[];
};
/* Before: one allocation, counters and then the map behind the struct. */
struct shrinker_info___pre_v6_7 {
        atomic_long_t *nr_deferred;
        unsigned long *map;
};

struct file_system_type {
        const char *name;
};

struct bdi_writeback;

struct backing_dev_info {
        struct list_head bdi_list;
        struct list_head wb_list;
        char dev_name[64];
};

enum wb_state {
        WB_registered,
};

struct address_space {
        unsigned long nrpages;
};

struct inode {
        struct address_space *i_mapping;
        struct bdi_writeback *i_wb;
        struct list_head i_io_list;
};

struct bdi_writeback {
        struct backing_dev_info *bdi;
        unsigned long state;
        struct list_head b_dirty;
        struct list_head b_io;
        struct list_head b_more_io;
        struct list_head b_dirty_time;
        struct list_head bdi_node;
        struct percpu_ref refcnt;
        struct cgroup_subsys_state *memcg_css;
        struct list_head b_attached;
};

struct shrinker {
        void *count_objects;
        void *scan_objects;
        long batch;
        int seeks;
        unsigned int flags;
        void *private_data; /* from 6.7: c42d50aefd17 ("mm: shrinker: add infrastructure for dynamically allocating shrinker") */
        struct list_head list;
        int id;
};

struct xarray {
        unsigned int xa_flags;
        void *xa_head;
};

struct list_lru_node;

struct list_lru {
        struct list_lru_node *node;
        struct list_head list; /* on the ring of memcg-aware ones */
        int shrinker_id;       /* -1: its shrinker is not memcg-aware */
        bool memcg_aware;      /* else it is not on the ring */
        struct xarray xa;      /* kmemcg_id → lists of that memcg; from 5.18: bbca91cca9a9 ("mm: list_lru: replace linear array with xarray") */
};

struct xa_node {
        unsigned char shift;
        void *slots[64];
};

struct super_block {
        unsigned int s_dev;
        struct file_system_type *s_type;
        struct backing_dev_info *s_bdi;
        struct shrinker *s_shrink;
        struct list_lru s_dentry_lru;
};
/* Before 6.7 the shrinker was part of the superblock: 1720f5dd8d3a ("fs: super: dynamically allocate the s_shrink"). */
struct super_block___pre_v6_7 {
        struct shrinker s_shrink;
};

struct vfsmount {
        struct super_block *mnt_sb;
};
struct path {
        struct vfsmount *mnt;
};
struct fs_struct {
        struct path root;
};

struct task_struct {
        struct css_set *cgroups;
        struct fs_struct *fs;
        void *stack;
};

struct kmem_cache {
        unsigned int size;
        unsigned int object_size;
        const char *name;
};

KERNEL_FIELDS_END

/* ---- reading ---- */

/*
 * Reads p->field, p of pointer type; 0 when the memory cannot be read. p is evaluated first: within bpf_core_read() every member
 * access is relocated, those of our own structs too.
 */
#define READ(p, field)                                           \
        ({                                                       \
                __typeof__(p) _p = (p);                          \
                __typeof__(_p->field) _v = 0;                    \
                (void)bpf_core_read(&_v, sizeof(_v), &_p->field); \
                _v;                                              \
        })

/* A field out of a raw copy of a struct: one read of the whole, then fields at relocated offsets. type without "struct". */
#define RAW(buf, type, field) \
        (*(__typeof__(((struct type *)0)->field) *)((buf) + bpf_core_field_offset(struct type, field)))

/* The struct that a list_head lies in. */
#define ENTRY(ptr, type, member) ((struct type *)((__u64)(ptr)-bpf_core_field_offset(struct type, member)))
#define HEAD(ptr, type, member) ((__u64)(ptr) + bpf_core_field_offset(struct type, member))

/* ---- css ---- */

/* One of an array of csses, one per subsystem. The index differs between configs, hence from BTF; the array's place too. */
static __always_inline struct cgroup_subsys_state *memory_of(__u64 subsys) {
        struct cgroup_subsys_state *css = NULL;

        (void)bpf_probe_read_kernel(&css, sizeof(css), (void *)(subsys + 8 * bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)));
        return css;
}

/*
 * The root of the memory css tree: from the task's own css over its hierarchy to the hierarchy's root cgroup. NULL when the controller
 * is disabled: it has a root css all the same, on a hierarchy that does not know it.
 */
static __always_inline struct cgroup_subsys_state *memory_root(struct task_struct *task, __u32 *ret_v2) {
        struct css_set *cset = READ(task, cgroups);
        struct cgroup_subsys_state *css = memory_of((__u64)cset + bpf_core_field_offset(struct css_set, subsys));
        struct cgroup *dfl, *cgrp;
        struct cgroup_root *root;

        if (!css)
                return NULL;
        dfl = READ(cset, dfl_cgrp);
        cgrp = READ(css, cgroup);
        root = READ(cgrp, root);
        *ret_v2 = root == READ(dfl, root);
        if (!(READ(root, subsys_mask) & (1U << bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id))))
                return NULL;
        return memory_of((__u64)root + bpf_core_field_offset(struct cgroup_root, cgrp) + bpf_core_field_offset(struct cgroup, subsys));
}

/*
 * css->flags. The enum has no name, so CO-RE cannot look its values up; user space finds them by their own names in BTF and sets
 * these before the object is loaded.
 */
const volatile __u32 css_online, css_dying, css_released, css_visible;

/*
 * 1 when x is not 0, else 0; without a branch, which the verifier would follow both ways through all that comes after. The barrier
 * keeps clang from seeing what it is and making a branch of it.
 */
static __always_inline __u64 is_set(__u64 x) {
        x |= -x;
        barrier_var(x);
        return x >> 63;
}

static __always_inline __u32 css_state(__u32 flags) {
        return is_set(flags & css_online) * SW_CSS_ONLINE | is_set(flags & css_dying) * SW_CSS_DYING |
               is_set(flags & css_released) * SW_CSS_RELEASED | is_set(flags & css_visible) * SW_CSS_VISIBLE;
}

/*
 * The number of references, true when it is one: the counter works atomically and the switch from per-cpu mode is over. While it is
 * not, the counter carries a bias of 2^63 (PERCPU_COUNT_BIAS).
 */
static __always_inline bool ref_count(__u64 percpu_count_ptr, struct percpu_ref_data *data, __u64 *ret) {
        long count = 0;

        if (!(percpu_count_ptr & PERCPU_REF_ATOMIC) || !data)
                return false;
        if (bpf_core_read(&count, sizeof(count), &data->count.counter) < 0)
                return false;
        if (count < 0 || count > (1L << 62))
                return false;
        *ret = count;
        return true;
}

/* ---- rings: circular lists that are reached from one of their members, without the symbol of their head ---- */

static __always_inline struct super_block *root_sb(void) {
        struct task_struct *task = (struct task_struct *)bpf_get_current_task();
        struct fs_struct *fs = READ(task, fs);
        struct vfsmount *mnt = READ(fs, root.mnt);

        return READ(mnt, mnt_sb);
}

/* The shrinker of a superblock. */
static __always_inline struct shrinker *sb_shrinker(struct super_block *sb) {
        if (bpf_core_field_exists(((struct shrinker *)0)->private_data))
                return READ(sb, s_shrink);
        return (struct shrinker *)((__u64)sb + bpf_core_field_offset(struct super_block___pre_v6_7, s_shrink));
}

/* The superblock of a shrinker that is known to be one's. */
static __always_inline struct super_block *shrinker_sb(struct shrinker *s) {
        if (bpf_core_field_exists(s->private_data))
                return READ(s, private_data);
        return (struct super_block *)((__u64)s - bpf_core_field_offset(struct super_block___pre_v6_7, s_shrink));
}

/* Whether two addresses are so near each other that both are in the kernel image or its modules: a head or a static object. */
static __always_inline bool near(__u64 a, __u64 text) {
        __u64 d = a > text ? a - text : text - a;

        return d < (1ULL << 31);
}

/*
 * Whether a member of the ring of shrinkers is one; else it is the head. From 6.7 every shrinker is allocated, so what lies in the
 * kernel image is the head. Before, shrinkers may be static: there, the functions have to be functions (6.1 has one
 * without scan_objects) and the numbers small.
 */
static __always_inline bool is_shrinker(struct shrinker *s, __u64 text) {
        if (bpf_core_field_exists(s->private_data))
                return !near((__u64)s, text);
        return near((__u64)READ(s, count_objects), text) && (!READ(s, scan_objects) || near((__u64)READ(s, scan_objects), text)) &&
               READ(s, flags) < 256 &&
               (__u32)READ(s, seeks) < 4096 && (__u64)READ(s, batch) < (1U << 30) && READ(s, id) >= -1 && READ(s, id) < (1 << 24);
}

/*
 * Whether a list_head is still on its list: its neighbour points back. One that was taken off does not pass, not even when its memory
 * was freed since: what it points to has been told of another neighbour.
 */
static __always_inline bool on_list(__u64 at) {
        struct list_head *next = READ((struct list_head *)at, next);

        return next && (__u64)READ(next, prev) == at;
}

/*
 * The members of a ring that a pass went by last, so that it can go on when the one it wants next was taken off the ring. One trail an
 * object, in .bss: bpf_loop() hands its callback nothing but the stack.
 */
#define TRAIL 64
#define PRICE_TRAIL 16 /* of a look at one of them, in units of work */

struct trail {
        __u64 passed[TRAIL]; /* list_heads */
        __u64 next;
        __u32 n, looked;
};
static struct trail trail;

static __always_inline void trail_begin(void) {
        __builtin_memset(&trail, 0, sizeof(trail));
}

static __always_inline void trail_remember(__u64 at) {
        trail.passed[trail.n++ & (TRAIL - 1)] = at;
}

static long trail_look(__u32 i, void *ctx) {
        __u64 at = trail.passed[(trail.n - 1 - i) & (TRAIL - 1)];

        trail.looked++;
        if (!at || !on_list(at))
                return 0;
        trail.next = (__u64)READ((struct list_head *)at, next);
        return 1;
}

/* The list_head behind the newest remembered member that is still there; 0 when none is. Takes what it cost off *work. */
static __always_inline __u64 trail_go_on(__s64 *work) {
        trail.next = 0;
        trail.looked = 0;
        bpf_loop(TRAIL, trail_look, NULL, 0);
        *work -= trail.looked * PRICE_TRAIL;
        return trail.next;
}
