/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One census and what belongs to it, all from the same few milliseconds. */

#include <stdio.h>
#include <time.h>

#include "reading.h"
#include "util.h"

/*
 * How often a pass that lost its place is begun again. It loses it when the memcg it stood on and all that it remembers near it are
 * gone between two slices; three times in a row has not been seen.
 */
#define TRIES_WALK 5
#define TRIES_RINGS 2

#define FSTYPE_NONE "other" /* shrinkers that are no superblock's */

static uint64_t clock_usec(clockid_t id) {
        struct timespec ts = {};

        (void)clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int on_walk_record(const struct sw_head *record, void *userdata) {
        return census_add(userdata, record);
}

static uint64_t alloc_bytes(uint64_t struct_bytes, bool vmalloc, void *userdata) {
        return probe_alloc_bytes(userdata, struct_bytes, vmalloc);
}

static int take_census(Reading *r, Probe *probe, unsigned flags, ProbeError *ret_error) {
        const ProbeFacts *facts = probe_facts(probe);
        const CensusOptions options = {
                .flat = facts->layout == PROBE_LAYOUT_FLAT,
                .unit_struct_bytes = facts->unit_struct_bytes,
                .n_nodes = facts->n_possible_nodes,
                .alloc = alloc_bytes,
                .alloc_userdata = probe,
        };
        int k;

        for (unsigned i = 0; i < TRIES_WALK; i++) {
                r->census = census_free(r->census);
                k = census_new(&r->census, &options);
                if (k < 0) {
                        *ret_error = (ProbeError){ k, "out of memory" };
                        return k;
                }
                k = probe_walk(probe, flags & READING_BITS ? PROBE_WALK_BITS : 0, on_walk_record, r->census, &r->walk, ret_error);
                if (k != -EAGAIN)
                        break;
                r->walk.restarts++;
        }
        if (k < 0)
                return k;
        k = census_seal(r->census);
        if (k < 0) {
                ret_error->error = k;
                (void)snprintf(ret_error->text, sizeof(ret_error->text), "%s",
                               k == -EBADMSG ? "the records of the walk do not form a tree; please report this with the kernel's release" :
                                               strerror(-k));
        }
        return k;
}

/*
 * Settled: a second, light look over the same csses right after the walk finds the same highest serial, the same shrinker_nr_max and
 * the same numbers of live, dying and creating memcgs; and, because numbers can be equal by chance, the same digest over every
 * (serial, state); and all arrays are of one length. What the walk saw is then what there was at its end, and nothing was made or removed behind its back.
 */
static int look_again(Reading *r, Probe *probe, ProbeError *ret_error) {
        const CensusTotals *t = &r->census->totals;
        const CensusMemcg *root = &r->census->memcgs[0];
        ProbeSummary s = {};
        uint64_t count, ids = 0;
        int k = -EAGAIN;

        for (unsigned i = 0; i < TRIES_WALK && k == -EAGAIN; i++)
                k = probe_summary(probe, t->highest_serial, &s, &r->walk, ret_error);
        if (k == -EAGAIN) {
                /* Too much is going on for a second look; the census itself stands. */
                r->settled = false;
                return 0;
        }
        if (k < 0)
                return k;

        if (root->n_nodes > 0)
                ids = r->census->nodes[root->first_node].ids;
        count = s.live + s.dying + s.creating;
        r->added = s.newer;
        r->gone = t->memcgs + s.newer > count ? t->memcgs + s.newer - count : 0;
        /* While shrinker_nr_max rises, the kernel replaces the arrays one memcg after the other, the root's first. */
        r->settled = t->dropped == 0 && t->uneven == 0 && s.highest_serial == t->highest_serial && s.ids == ids && s.live == t->live &&
                     s.dying == t->dying && s.creating == t->creating && s.digest == t->digest;
        return 0;
}

/*
 * Complete: the walk came to its end, so every memcg that existed throughout is in; and each of them but those that are being made told
 * all of its arrays. A live or dying memcg has one on every possible node: one that could not be read is not an empty one.
 */
static bool all_arrays_read(const Census *c) {
        for (size_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = &c->memcgs[i];

                if (m->state == CENSUS_CREATING)
                        continue;
                for (uint32_t k = 0; k < m->n_nodes; k++)
                        if (!(c->nodes[m->first_node + k].valid & SW_NODE_INFO))
                                return false;
        }
        return true;
}

typedef struct Rings {
        Reading *reading;
        size_t fstypes_allocated;
        uint64_t ids;  /* above 0 */
        uint32_t last; /* the highest id */
        uint32_t zeros; /* superblocks that show id 0 */
        char zero[SW_FSTYPE_MAX + 1]; /* the type of the first of them */
} Rings;

static int count_fstype(Rings *rings, const char *name) {
        Reading *r = rings->reading;
        int k;

        for (size_t i = 0; i < r->n_fstypes; i++)
                if (strncmp(r->fstypes[i].name, name, SW_FSTYPE_MAX) == 0) {
                        r->fstypes[i].ids++;
                        return 0;
                }
        k = grow_array(&r->fstypes, &rings->fstypes_allocated, r->n_fstypes + 1, sizeof(*r->fstypes));
        if (k < 0)
                return k;
        r->fstypes[r->n_fstypes] = (ReadingFstype){ .ids = 1 };
        (void)snprintf(r->fstypes[r->n_fstypes].name, sizeof(r->fstypes[0].name), "%.*s", SW_FSTYPE_MAX, name);
        r->n_fstypes++;
        return 0;
}

static int on_ring_record(const struct sw_head *record, void *userdata) {
        Rings *rings = userdata;

        if (record->type == SW_TYPE_SHRINKER) {
                const struct sw_shrinker *s = (const struct sw_shrinker *)record;

                if (record->size != sizeof(*s))
                        return -EBADMSG;
                /* Without accounting of kernel memory no superblock's shrinker gets an id, and all of them may show 0: see id_zero(). */
                if (s->id == 0) {
                        if (rings->zeros++ == 0)
                                (void)snprintf(rings->zero, sizeof(rings->zero), "%.*s", SW_FSTYPE_MAX, s->fstype);
                        return 0;
                }
                rings->ids++;
                if (s->id > 0 && (uint32_t)s->id > rings->last)
                        rings->last = (uint32_t)s->id;
                return count_fstype(rings, record->valid & SW_SHRINKER_SB ? s->fstype : FSTYPE_NONE);
        }
        return pins_add(rings->reading->pins, record);
}

/*
 * Whose id 0 is: an id is one shrinker's, so where several superblocks show 0 it is none of theirs, but what their memory was zeroed
 * with.
 */
static int id_zero(Rings *rings) {
        return count_fstype(rings, rings->zeros == 1 && rings->zero[0] ? rings->zero : FSTYPE_NONE);
}

static int compare_fstype(const void *a, const void *b) {
        const ReadingFstype *x = a, *y = b;

        if (x->ids != y->ids)
                return x->ids < y->ids ? 1 : -1;
        return strcmp(x->name, y->name);
}

static int look_at_rings(Reading *r, Probe *probe, ProbeError *ret_error) {
        ProbeStats stats = {};
        int k = -EOPNOTSUPP;

        for (unsigned i = 0; i < TRIES_RINGS; i++) {
                Rings rings = { .reading = r };

                free(r->fstypes);
                r->fstypes = NULL;
                r->n_fstypes = 0;
                r->pins = pins_free(r->pins);
                k = pins_new(&r->pins, r->census, probe_facts(probe)->page_bytes);
                if (k < 0)
                        break;
                if (!probe_has(probe, "shrinkers"))
                        break;
                stats = (ProbeStats){};
                k = probe_rings(probe, on_ring_record, &rings, &stats, ret_error);
                r->walk.slices += stats.slices;
                if (stats.longest_slice_usec > r->walk.longest_slice_usec)
                        r->walk.longest_slice_usec = stats.longest_slice_usec;
                if (k >= 0 && stats.shrinkers_known) {
                        /*
                         * Id 0 is in use wherever there are ids: the first memcg-aware shrinker of a boot has it. With
                         * cgroup.memory=nokmem arrays may have room for none; that none is in use is known then, not unknown.
                         */
                        bool any = r->census->totals.ids > 0 || rings.ids > 0;

                        r->ids_in_use_known = true;
                        r->ids_in_use = rings.ids + any;
                        census_set_ids_end(r->census, any ? rings.last + 1 : 0);
                        if (any)
                                k = id_zero(&rings);
                        break;
                }
                if (k < 0 && k != -EAGAIN)
                        break;
        }
        if (k < 0 && k != -EAGAIN && k != -EOPNOTSUPP) {
                if (ret_error->error != k)
                        *ret_error = (ProbeError){ k, "out of memory" };
                return k;
        }
        if (!r->ids_in_use_known) {
                /* The ring did not close: half a list of file systems would look like a whole one. */
                free(r->fstypes);
                r->fstypes = NULL;
                r->n_fstypes = 0;
        }
        if (r->n_fstypes > 0)
                qsort(r->fstypes, r->n_fstypes, sizeof(*r->fstypes), compare_fstype);
        k = pins_seal(r->pins, stats.writeback_known);
        if (k < 0)
                *ret_error = (ProbeError){ k, "out of memory" };
        return k;
}

int reading_new(Reading **ret, Probe *probe, unsigned flags, ProbeError *ret_error) {
        uint64_t start = clock_usec(CLOCK_MONOTONIC);
        ProbeError e = {};
        Reading *r;
        int k;

        if (!ret_error)
                ret_error = &e;
        r = calloc(1, sizeof(*r));
        if (!r) {
                *ret_error = (ProbeError){ -ENOMEM, "out of memory" };
                return -ENOMEM;
        }
        r->time_usec = clock_usec(CLOCK_REALTIME);
        k = take_census(r, probe, flags, ret_error);
        if (k >= 0)
                k = look_again(r, probe, ret_error);
        if (k >= 0 && flags & READING_RINGS)
                k = look_at_rings(r, probe, ret_error);
        if (k < 0) {
                reading_free(r);
                return k;
        }
        r->complete = all_arrays_read(r->census);
        r->duration_usec = clock_usec(CLOCK_MONOTONIC) - start;
        *ret = r;
        return 0;
}

Reading *reading_free(Reading *r) {
        if (!r)
                return NULL;
        free(r->fstypes);
        pins_free(r->pins);
        census_free(r->census);
        free(r);
        return NULL;
}
