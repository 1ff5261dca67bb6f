// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two rings: the shrinkers (ids in use, and by which file system type), and the backing devices with their writeback structures (which
 * dying memcgs writeback pins). No symbol is needed: the caller's root file system has a superblock, that has a shrinker, that is on
 * the ring of all shrinkers; their superblocks have backing devices, and any registered one is on the ring of all of these.
 *
 * A ring is done when it comes back to where it began, with exactly one head in it; otherwise the answer is "unknown". Both rings are
 * RCU lists from 6.7; before, the one of the shrinkers is under a semaphore, and a member can be freed while we look at it. So every
 * slice ends within its bound, every member is checked, and a slice goes on at the newest member it remembers that is still there.
 * Members are only ever added beside the head (at the tail; list_lrus at the front): what lies between that member and the last one
 * sent is gone. Should the head lie between them, it is met twice, and the ring does not count.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define OUT_BYTES (64 * 1024)
#define STEPS_MAX (1U << 20)
#define INODES_MAX 1024 /* looked at for one writeback structure; beyond, what is told is a lower bound */
#define LISTS 5

#define PRICE_SHRINKER 48
#define PRICE_WB 48
#define PRICE_INODE 24
#define PRICE_BDI 16

enum stage {
        STAGE_SHRINKERS,
        STAGE_BDIS,
        STAGE_WBS,
};

struct rings {
        __u64 count_objects, scan_objects; /* of superblock shrinkers: how one is told; also our notion of where the kernel image is */
        __u64 start;                       /* the list_head where the ring of this stage began */
        __u64 at;                          /* the list_head to look at next */
        __u64 bdi;                         /* WBS: whose; before: the first registered one that was met */
        __u64 bdi_at;                      /* WBS: its list_head */
        __u64 wb, inode_head, inode_at;    /* the inodes of one wb */
        __u64 inodes, pages;
        __s64 work;
        __u32 stage, heads, begun, list, whole, left;
};

struct sw_control control;
__u8 out[OUT_BYTES] __attribute__((aligned(8)));
static struct rings w;

/* Goes on behind the newest remembered member that is still there. */
static __always_inline bool go_on(void) {
        w.at = trail_go_on(&w.work);
        return w.at;
}

static __always_inline void enter(__u32 stage, __u64 start) {
        w.stage = stage;
        w.start = start;
        w.heads = 0;
        w.begun = 0;
        trail_begin();
}

/*
 * Past the head a second time: where the ring began is no longer on it (unmounted, unregistered), or the head was met again on the way
 * back to a remembered member. The answer could only be "unknown"; going on could be for ever.
 */
static __always_inline long lost(void) {
        control.phase = SW_PHASE_LOST;
        return 1;
}

/* One member of the ring of shrinkers, or its head. */
static __noinline long shrinker(void) {
        struct shrinker *s = ENTRY(w.at, shrinker, list);
        __u64 count = (__u64)READ(s, count_objects), scan = (__u64)READ(s, scan_objects), at = control.used;
        struct list_head *next = READ((struct list_head *)w.at, next);
        struct sw_shrinker *r;
        struct super_block *sb = NULL;
        int id;

        w.work -= PRICE_SHRINKER;
        barrier_var(at);
        if (at > OUT_BYTES - sizeof(*r)) {
                w.work = 0;
                return 1;
        }
        if (!next)
                return -1;
        if (!is_shrinker(s, w.scan_objects)) {
                /* The head lies in the kernel image; anything else is memory we have no business in. */
                if (!near(w.at, w.scan_objects))
                        return -1;
                if (w.heads++)
                        return lost();
                trail_remember(w.at);
                w.at = (__u64)next;
                return 0;
        }
        id = READ(s, id);
        if (scan == w.scan_objects && count == w.count_objects)
                sb = shrinker_sb(s);
        if (sb && !w.bdi) {
                __u64 bdi = (__u64)READ(sb, s_bdi);
                __u64 head = HEAD(bdi, backing_dev_info, bdi_list);

                /* Registered: on the ring. The one of file systems without a device is not, its list_head points to itself or nowhere. */
                if (bdi && (__u64)READ((struct list_head *)head, next) != head && on_list(head))
                        w.bdi = bdi;
        }
        /* Id 0 is somebody's, too; shrinkers without an id show it as well, but a superblock's always has one. */
        if (id > 0 || (sb && id == 0)) {
                r = (struct sw_shrinker *)(out + at);
                __builtin_memset(r, 0, sizeof(*r));
                r->id = id;
                if (sb) {
                        struct file_system_type *type = READ(sb, s_type);
                        const char *name = READ(type, name);

                        r->dev = READ(sb, s_dev);
                        if (bpf_probe_read_kernel_str(r->fstype, sizeof(r->fstype), name) > 0)
                                r->head.valid = SW_SHRINKER_SB;
                }
                r->head.type = SW_TYPE_SHRINKER;
                r->head.size = sizeof(*r);
                control.used = at + sizeof(*r);
        }
        w.begun = 1;
        trail_remember(w.at);
        w.at = (__u64)next;
        return 0;
}

static __always_inline void shrinkers_done(void) {
        if (w.heads == 1)
                control.known |= SW_KNOWN_SHRINKERS;
        /* Without a registered backing device, nothing leads to those that file systems do not use. */
        if (!w.bdi || !bpf_core_field_exists(((struct bdi_writeback *)0)->memcg_css)) {
                control.phase = SW_PHASE_DONE;
                return;
        }
        enter(STAGE_BDIS, HEAD(w.bdi, backing_dev_info, bdi_list));
        w.at = w.start;
}

static __noinline long bdi(void) {
        w.work -= PRICE_BDI;
        if (near(w.at, w.scan_objects)) {
                if (w.heads++)
                        return lost();
                w.at = (__u64)READ((struct list_head *)w.at, next);
                return w.at ? 0 : -1;
        }
        if (!on_list(w.at))
                return -1;
        w.begun = 1;
        w.bdi = (__u64)ENTRY(w.at, backing_dev_info, bdi_list);
        w.bdi_at = w.at;
        trail_begin();
        trail_remember(HEAD(w.bdi, backing_dev_info, wb_list));
        w.at = (__u64)READ((struct backing_dev_info *)w.bdi, wb_list.next);
        w.stage = STAGE_WBS;
        return w.at ? 0 : -1;
}

/* One inode of one of the wb's lists. The lists are under a spinlock: an inode may move while we look, then the count is not whole. */
static long inode(__u32 i, void *ctx) {
        struct inode *in;
        struct address_space *mapping;

        if (w.inode_at == w.inode_head)
                return 1;
        in = ENTRY(w.inode_at, inode, i_io_list);
        w.work -= PRICE_INODE;
        if ((__u64)READ(in, i_wb) != w.wb || !w.left) {
                w.whole = 0;
                return 1;
        }
        w.left--;
        mapping = READ(in, i_mapping);
        w.pages += READ(mapping, nrpages);
        w.inodes++;
        w.inode_at = (__u64)READ((struct list_head *)w.inode_at, next);
        return 0;
}

static long inode_list(__u32 i, void *ctx) {
        __u64 wb = w.wb;

        switch (i) {
        case 0:
                w.inode_head = HEAD(wb, bdi_writeback, b_dirty);
                break;
        case 1:
                w.inode_head = HEAD(wb, bdi_writeback, b_io);
                break;
        case 2:
                w.inode_head = HEAD(wb, bdi_writeback, b_more_io);
                break;
        case 3:
                w.inode_head = HEAD(wb, bdi_writeback, b_dirty_time);
                break;
        default:
                if (!bpf_core_field_exists(((struct bdi_writeback *)0)->b_attached)) {
                        w.whole = 0;
                        return 1;
                }
                w.inode_head = HEAD(wb, bdi_writeback, b_attached);
        }
        w.inode_at = (__u64)READ((struct list_head *)w.inode_head, next);
        bpf_loop(INODES_MAX + 1, inode, NULL, 0);
        if (i == LISTS - 2)
                w.list = w.inodes; /* the dirty ones: all but those that are merely attached */
        return 0;
}

static __noinline long wb(void) {
        struct bdi_writeback *wb = ENTRY(w.at, bdi_writeback, bdi_node);
        struct cgroup_subsys_state *css = READ(wb, memcg_css);
        struct list_head *next = READ((struct list_head *)w.at, next);
        __u64 at = control.used, refs = 0;
        struct sw_wb *r;

        w.work -= PRICE_WB;
        barrier_var(at);
        if (at > OUT_BYTES - sizeof(*r)) {
                w.work = 0;
                return 1;
        }
        if (!next || (__u64)READ(wb, bdi) != w.bdi)
                return -1;
        if (css && READ(css, parent) && (css_state(READ(css, flags)) & SW_CSS_DYING)) {
                w.wb = (__u64)wb;
                w.inodes = w.pages = 0;
                w.whole = 1;
                w.left = INODES_MAX;
                w.list = 0;
                bpf_loop(LISTS, inode_list, NULL, 0);

                r = (struct sw_wb *)(out + at);
                __builtin_memset(r, 0, sizeof(*r));
                r->serial = READ(css, serial_nr);
                r->inodes = w.inodes;
                r->pages = w.pages;
                if (w.whole)
                        r->head.valid |= SW_WB_INODES;
                if (ref_count(READ(wb, refcnt.percpu_count_ptr), READ(wb, refcnt.data), &refs)) {
                        r->refs = refs;
                        r->head.valid |= SW_WB_REFS;
                }
                if (READ(wb, refcnt.percpu_count_ptr) & PERCPU_REF_DEAD)
                        r->state |= SW_WB_DYING;
                if (w.list)
                        r->state |= SW_WB_DIRTY;
                (void)bpf_probe_read_kernel_str(r->device, sizeof(r->device),
                                                (void *)HEAD(w.bdi, backing_dev_info, dev_name));
                r->head.type = SW_TYPE_WB;
                r->head.size = sizeof(*r);
                control.used = at + sizeof(*r);
        }
        trail_remember(w.at);
        w.at = (__u64)next;
        return 0;
}

static long step(__u32 i, void *ctx) {
        long r;

        if (w.work <= 0)
                return 1;
        switch (w.stage) {
        case STAGE_SHRINKERS:
                if (w.at == w.start && w.begun) {
                        shrinkers_done();
                        return control.phase == SW_PHASE_DONE;
                }
                r = shrinker();
                break;
        case STAGE_BDIS:
                if (w.at == w.start && w.begun) {
                        if (w.heads == 1)
                                control.known |= SW_KNOWN_WRITEBACK;
                        control.phase = SW_PHASE_DONE;
                        return 1;
                }
                r = bdi();
                break;
        case STAGE_WBS:
                if (w.at == HEAD(w.bdi, backing_dev_info, wb_list)) {
                        if (!on_list(w.bdi_at)) {
                                control.phase = SW_PHASE_LOST;
                                return 1;
                        }
                        w.at = (__u64)READ((struct list_head *)w.bdi_at, next);
                        w.stage = STAGE_BDIS;
                        return 0;
                }
                r = wb();
                break;
        default:
                return 1;
        }
        if (r < 0) {
                /* That member went away under us. */
                if (w.stage == STAGE_BDIS || !go_on())
                        control.phase = SW_PHASE_LOST;
                return control.phase == SW_PHASE_LOST;
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
        w.count_objects = (__u64)READ(s, count_objects);
        w.scan_objects = (__u64)READ(s, scan_objects);
        if (!w.scan_objects || !near(w.count_objects, w.scan_objects))
                return;
        enter(STAGE_SHRINKERS, HEAD(s, shrinker, list));
        w.at = w.start;
        control.phase = SW_PHASE_NEXT;
}

SEC("raw_tp")
int rings(void *ctx) {
        __u64 start = bpf_ktime_get_ns();

        control.used = 0;
        if (control.phase == SW_PHASE_BEGIN) {
                begin();
                w.work = control.budget;
        } else if (control.phase == SW_PHASE_NEXT) {
                w.work = control.budget;
                /* The bdi's list of wbs is safe to read as long as the bdi is on its ring. */
                if (w.stage == STAGE_WBS && !on_list(w.bdi_at))
                        control.phase = SW_PHASE_LOST;
                else if (w.stage == STAGE_BDIS) {
                        if (!near(w.at, w.scan_objects) && !on_list(w.at))
                                control.phase = SW_PHASE_LOST;
                } else if (!go_on())
                        control.phase = SW_PHASE_LOST;
        }
        if (control.phase == SW_PHASE_NEXT)
                bpf_loop(STEPS_MAX, step, NULL, 0);
        control.slice_nsec = bpf_ktime_get_ns() - start;
        return 0;
}
