/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes that cross the kernel boundary.
 *
 * Each BPF program fills a buffer with records, one behind the other; user space reads them after the slice. Every record begins
 * with a struct sw_head, its size is a multiple of eight, and it is zeroed before it is filled. This file is the only description
 * of these bytes: the BPF objects and the daemon both include it, both assert the sizes, and a test compares the structs in the
 * objects' BTF with the ones the C compiler laid out.
 *
 * Unknown is not zero: a field that a kernel may not give has a bit in head.valid, and its value means nothing without it.
 */
#pragma once

#ifdef __BPF__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
/* bpf_helper_defs.h names these */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
#else
#include <linux/types.h>
#endif

/* Names of kernfs nodes are at most NAME_MAX bytes; one more for the NUL that is not sent, rounded to eight. */
#define SW_NAME_MAX 256
#define SW_NODES_MAX 64
#define SW_FSTYPE_MAX 32
#define SW_DEVICE_MAX 64

enum sw_type {
        SW_TYPE_NONE = 0,
        SW_TYPE_MEMCG = 1,    /* struct sw_memcg */
        SW_TYPE_NODE = 2,     /* struct sw_node */
        SW_TYPE_SHRINKER = 3, /* struct sw_shrinker */
        SW_TYPE_WB = 4,       /* struct sw_wb */
        SW_TYPE_LISTS = 5,    /* struct sw_lists */
        SW_TYPE_EVENT = 6,    /* struct sw_event */
};

struct sw_head {
        __u16 type; /* enum sw_type */
        __u16 size; /* bytes of the whole record, this head included; a multiple of 8 */
        __u32 valid;
};

/* State of a memcg's css. Our own bits: the kernel's CSS_* values are read by CO-RE and translated. */
enum {
        SW_CSS_ONLINE = 1U << 0,
        SW_CSS_DYING = 1U << 1,
        SW_CSS_RELEASED = 1U << 2, /* seen inside one RCU section only */
        SW_CSS_VISIBLE = 1U << 3,
};

/* head.valid of a struct sw_memcg */
enum {
        SW_MEMCG_REFS = 1U << 0,    /* refs: the counter is atomic and not in the middle of the switch */
        SW_MEMCG_ID = 1U << 1,      /* memcg_id, id_refs */
        SW_MEMCG_MEMORY = 1U << 2,  /* memory_pages */
        SW_MEMCG_SWAP = 1U << 3,    /* swap_pages is swap alone (v2) */
        SW_MEMCG_MEMSW = 1U << 4,   /* swap_pages is memory + swap (v1) */
        SW_MEMCG_KMEM_ID = 1U << 5, /* kmemcg_id */
        SW_MEMCG_NAME = 1U << 6,    /* the name could be read */
        SW_MEMCG_CGROUP = 1U << 7,  /* cgroup_id, level */
};

/*
 * One memory css. The walk sends it in pre-order: a parent before its children, children in ascending serial. All fields are of one
 * RCU section. It is followed by "nodes" records of struct sw_node with the same serial, possibly in a later slice when the arrays
 * are long; when fewer follow, the memcg was released in between and is to be dropped.
 */
struct sw_memcg {
        struct sw_head head;
        __u64 serial;        /* css->serial_nr, unique until reboot */
        __u64 parent_serial; /* 0 for the root: serials begin at 1 */
        __u64 cgroup_id;     /* kernfs node id; a dying and a live css of one cgroup share it */
        __u64 refs;          /* references to the css, once it counts atomically */
        __u64 memory_pages;  /* charged pages, children included */
        __u64 swap_pages;
        __s32 memcg_id;  /* the private id that swap entries carry */
        __u32 id_refs;   /* references to that id: swap entries, plus one while the memcg is online */
        __s32 kmemcg_id; /* the index in the list_lrus' arrays */
        __u32 level;     /* of the cgroup, 0 for the root */
        __u32 state;     /* SW_CSS_* */
        __u16 nodes;     /* records of struct sw_node that follow */
        __u16 name_len;  /* bytes of the name, no NUL; the name is right behind this struct, padded with zeros to eight */
};

/* head.valid of a struct sw_node */
enum {
        SW_NODE_INFO = 1U << 0,    /* there is a shrinker_info: ids, array_bytes; missing only while a memcg is being made */
        SW_NODE_UNITS = 1U << 1,   /* slots, units: a kernel that has units */
        SW_NODE_BITS = 1U << 2,    /* bits: was asked for */
        SW_NODE_VMALLOC = 1U << 3, /* the array lies in vmalloc space, so it takes whole pages, not a slab object */
};

struct sw_node {
        struct sw_head head;
        __u64 serial;
        __u32 node;
        __u32 ids;         /* map_nr_max: shrinker ids that the array has room for; 0 when no shrinker gets one (cgroup.memory=nokmem) */
        __u32 slots;       /* entries of the pointer array */
        __u32 units;       /* entries that hold a unit */
        __u32 bits;        /* bits set in the maps of the units: (memcg, node, shrinker) triples with something to scan */
        __u32 array_bytes; /* sizeof shrinker_info with all its array; on flat kernels with counters and map */
        __u32 units_used;  /* units with at least one bit set; valid with SW_NODE_BITS */
        __u32 pad;
};

/* head.valid of a struct sw_shrinker */
enum {
        SW_SHRINKER_SB = 1U << 0, /* a superblock's: fstype, dev */
};

/* One registered shrinker with an id above 0, or a superblock's with id 0. */
struct sw_shrinker {
        struct sw_head head;
        __u32 id;
        __u32 dev; /* s_dev in the kernel's encoding: major << 20 | minor */
        char fstype[SW_FSTYPE_MAX];
};

/* head.valid of a struct sw_wb */
enum {
        SW_WB_REFS = 1U << 0,   /* refs */
        SW_WB_INODES = 1U << 1, /* inodes, pages are complete; without it they are lower bounds */
};

/* state of a struct sw_wb */
enum {
        SW_WB_DYING = 1U << 0, /* its memcg or blkcg went offline */
        SW_WB_DIRTY = 1U << 1, /* it has dirty inodes (b_dirty, b_io, b_more_io, b_dirty_time) */
};

/* One cgroup writeback structure (bdi_writeback) of a dying memcg. It holds one reference to the memcg's css. */
struct sw_wb {
        struct sw_head head;
        __u64 serial;  /* of the memcg it belongs to */
        __u64 refs;    /* references to the wb itself */
        __u64 inodes;  /* attached to it */
        __u64 pages;   /* of page cache in these inodes */
        __u32 state;   /* SW_WB_DYING ... */
        __u32 pad;
        char device[SW_DEVICE_MAX]; /* the bdi's name: "major:minor", or what the file system chose */
};

/* The lists that one list_lru holds for up to 64 memcgs. */
struct sw_lists {
        struct sw_head head;
        __s32 shrinker_id;
        __u32 base; /* kmemcg_id of bit 0 of the mask */
        __u64 mask; /* bit n: a list for kmemcg_id base + n is there */
};

/*
 * Life events. Their maps and links outlive the daemon in systemd's file descriptor store, and a newer daemon meets them: a change of
 * anything from here to the next rule raises the version, which is in the names they have there.
 */
#ifndef SW_EVENTS_VERSION /* tests build another one */
#define SW_EVENTS_VERSION 1
#endif

#define SW_EVENTS_RING_BYTES (256 * 1024)

enum sw_event_kind {
        SW_EVENT_CREATED = 0,  /* the cgroup's directory was made, with the memory controller */
        SW_EVENT_REMOVED = 1,  /* its directory was removed: the memcg is dying */
        SW_EVENT_RELEASED = 2, /* the last reference is gone: the cgroup is freed, its memcg was just before */
};

/*
 * Indices of the counters: array, enum sw_counter → number. The first three are enum sw_event_kind. Not per CPU: the kernel runs all
 * life events under one spinlock. The array is mapped into user space, which takes what it deletes off SW_COUNT_DEATHS.
 */
enum sw_counter {
        SW_COUNT_CREATED = 0,
        SW_COUNT_REMOVED = 1,
        SW_COUNT_RELEASED = 2,
        SW_COUNT_LOST_DEATHS = 3,  /* removals whose time found no room */
        SW_COUNT_LOST_RECORDS = 4, /* records that found no room in the ring */
        SW_COUNT_DEATHS = 5,       /* times that are in the map now */
        _SW_COUNT_MAX,
};

/* flags of a struct sw_death */
enum {
        SW_DEATH_EXACT = 1U << 0, /* written by the program at the removal; else by user space: not later than that */
};

/* hash: css->serial_nr of the memory css → this */
struct sw_death {
        __u64 boot_nsec; /* CLOCK_BOOTTIME */
        __u32 flags;
        __u32 pad;
};

/* head.valid of a struct sw_event */
enum {
        SW_EVENT_SERIAL = 1U << 0, /* serial: a release comes when the css is gone */
        SW_EVENT_NAME = 1U << 1,
};

/* One record of the ring. The name is that of the last component, right behind the struct, padded with zeros to eight. */
struct sw_event {
        struct sw_head head;
        __u64 serial;    /* of the memory css */
        __u64 cgroup_id; /* kernfs node id */
        __u64 boot_nsec; /* CLOCK_BOOTTIME */
        __u32 kind;      /* enum sw_event_kind */
        __u16 name_len;
        __u16 level;
};
/* ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * What user space asks of a slice, and what the slice says. One struct for every pass; it lies in the object's .bss, beside the buffer
 * that the records go to, and both are mapped into user space: nothing but BPF_PROG_TEST_RUN is called between two slices.
 */
enum sw_phase {
        SW_PHASE_BEGIN = 0, /* set by user space: forget the cursor */
        SW_PHASE_RESUME,
        SW_PHASE_RING,
        SW_PHASE_SEARCH,
        SW_PHASE_NEXT,
        SW_PHASE_SLOTS,
        SW_PHASE_DONE,
        SW_PHASE_LOST, /* no cursor left that is valid, or memory that makes no sense: begin again */
        SW_PHASE_NONE, /* the memory controller is disabled, or what the pass starts from is not there */
};

/* flags */
enum {
        SW_WALK_SUMMARY = 1U << 0, /* count and digest only, send no records */
        SW_WALK_BITS = 1U << 1,    /* read the maps of the units */
};

struct sw_control {
        /* from user space */
        __u64 possible_nodes; /* bit n: node n */
        __u64 above;          /* count serials above this one */
        __s64 budget;         /* work of one slice, see bpf/walk.bpf.c */
        __u32 flags;
        /* from the kernel */
        __u32 phase;      /* enum sw_phase; also from user space */
        __u32 used;       /* bytes of records in the buffer */
        __u32 v2;         /* the memory controller is on the v2 hierarchy */
        __u64 slice_nsec; /* how long the slice ran */
        __u64 live, dying, creating, newer, digest, highest_serial; /* of the pass so far */
        __u64 unit_addr;  /* of a unit, and of an array, for the program that asks for their cache; 0: none seen */
        __u64 array_addr;
        __u64 array_struct_bytes; /* of the array at array_addr */
        __u32 root_ids;           /* map_nr_max of the root on the first possible node */
        __u32 known;              /* SW_KNOWN_*: what the pass over the rings found whole */
};

enum {
        SW_KNOWN_SHRINKERS = 1U << 0, /* the ring of shrinkers closed, with one head in it */
        SW_KNOWN_WRITEBACK = 1U << 1, /* so did the ring of backing devices */
};

/* The same mix on both sides, so that two passes can be compared whatever their order: add the values up, wrapping. */
static inline __attribute__((unused)) __u64 sw_digest(__u64 serial, __u32 state) {
        __u64 x = serial * 4 + state;

        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9ULL;
        x ^= x >> 27;
        x *= 0x94d049bb133111ebULL;
        x ^= x >> 31;
        return x;
}

_Static_assert(sizeof(struct sw_head) == 8, "record layout");
_Static_assert(sizeof(struct sw_memcg) == 80, "record layout");
_Static_assert(sizeof(struct sw_node) == 48, "record layout");
_Static_assert(sizeof(struct sw_shrinker) == 48, "record layout");
_Static_assert(sizeof(struct sw_wb) == 48 + SW_DEVICE_MAX, "record layout");
_Static_assert(sizeof(struct sw_lists) == 24, "record layout");
_Static_assert(sizeof(struct sw_death) == 16, "record layout");
_Static_assert(sizeof(struct sw_event) == 40, "record layout");
