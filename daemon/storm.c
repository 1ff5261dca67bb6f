/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Only storms have to be remembered: whether a group is to become one follows from the findings that stand. So what is kept between two
 * censuses is small, and a group that is over is forgotten with the next one.
 */
#include "storm.h"

#include <search.h>

typedef struct Group Group;
struct Group {
        FindingKind kind;
        char *creator;
        bool storm;
        uint64_t told; /* how many stood when it was last told */

        /* Of this census. */
        bool touched; /* something changed */
        bool singly;  /* its changes are told one by one */
        const Finding *largest_raised, *largest;
        StormEntry entry; /* the sums */

        Group *next;
};

struct Storm {
        void *tree; /* of groups, by kind and creator: names that outsiders choose cannot make it slow, as they could a hash table */
        Group *groups;
        StormEntry *entries;
        size_t n_entries, allocated;
};

const char *storm_kind_to_string(StormKind kind) {
        static const char *const names[] = {
                [STORM_RAISED] = "raised",         [STORM_CLEARED] = "cleared", [STORM_BEGINS] = "storm-begins",
                [STORM_GOES_ON] = "storm-goes-on", [STORM_ENDS] = "storm-ends", [STORM_MORE] = "more",
        };

        return (size_t)kind < ELEMENTSOF(names) ? names[kind] : NULL;
}

int storm_new(Storm **ret) {
        Storm *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        *ret = s;
        return 0;
}

static int compare_groups(const void *a, const void *b) {
        const Group *x = a, *y = b;

        if (x->kind != y->kind)
                return x->kind < y->kind ? -1 : 1;
        return strcmp(x->creator, y->creator);
}

static Group *group_free(Group *g) {
        if (!g)
                return NULL;
        free(g->creator);
        free(g);
        return NULL;
}
DEFINE_CLEANUP(Group, group_free)

/* Forgets all groups but the storms, or those too. What they were in the last census is no more. */
static void forget(Storm *s, bool storms_too) {
        Group **link = &s->groups;

        s->n_entries = 0;
        while (*link) {
                Group *g = *link;

                if (!g->storm || storms_too) {
                        (void)tdelete(g, &s->tree, compare_groups);
                        *link = g->next;
                        group_free(g);
                        continue;
                }
                g->touched = g->singly = false;
                g->largest_raised = g->largest = NULL;
                g->entry = (StormEntry){};
                link = &g->next;
        }
}

Storm *storm_free(Storm *s) {
        if (!s)
                return NULL;
        forget(s, true);
        free(s->entries);
        free(s);
        return NULL;
}

/* NULL: there is none; also for a finding about the host. */
static Group *find_group(const Storm *s, const Finding *f) {
        const Group key = { .kind = f->kind, .creator = f->creator };
        void *node = f->creator ? tfind(&key, &s->tree, compare_groups) : NULL;

        return node ? *(Group **)node : NULL;
}

static int find_or_add_group(Storm *s, const Finding *f, Group **ret) {
        _cleanup_(group_freep) Group *g = NULL;
        Group *old;

        old = find_group(s, f);
        if (old) {
                *ret = old;
                return 0;
        }
        g = calloc(1, sizeof(*g));
        if (!g)
                return -ENOMEM;
        g->kind = f->kind;
        g->creator = strdup(f->creator);
        if (!g->creator || !tsearch(g, &s->tree, compare_groups))
                return -ENOMEM;
        g->next = s->groups;
        s->groups = g;
        *ret = TAKE_PTR(g);
        return 0;
}

static const Finding *larger(const Finding *a, const Finding *b) {
        return !a || b->bytes > a->bytes ? b : a;
}

static int add_changes(Storm *s, const FindingChange *changes, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const Finding *f = changes[i].finding;
                Group *g;
                int r;

                if (!f->creator)
                        continue;
                r = find_or_add_group(s, f, &g);
                if (r < 0)
                        return r;
                g->touched = true;
                if (changes[i].raised) {
                        g->entry.raised++;
                        g->largest_raised = larger(g->largest_raised, f);
                } else
                        g->entry.cleared++;
        }
        return 0;
}

static void add_standing(Storm *s, const Findings *findings) {
        for (size_t i = 0, n = findings_count(findings); i < n; i++) {
                const Finding *f = findings_get(findings, i);
                Group *g = find_group(s, f);

                if (!g)
                        continue;
                if (g->entry.standing == 0 || f->since_boot_usec < g->entry.oldest_boot_usec)
                        g->entry.oldest_boot_usec = f->since_boot_usec;
                g->entry.standing++;
                g->entry.bytes = add_sat_u64(g->entry.bytes, f->bytes);
                g->entry.units = add_sat_u64(g->entry.units, f->units);
                g->largest = larger(g->largest, f);
        }
}

/* What becomes of the group. True: it is told as one. */
static bool judge_group(Group *g) {
        StormEntry *e = &g->entry;

        g->singly = !g->storm && e->standing <= STORM_SINGLE;
        if (g->singly)
                return false;
        if (!g->storm)
                e->kind = STORM_BEGINS;
        else if (e->standing < STORM_SINGLE)
                e->kind = STORM_ENDS;
        else if (e->standing / 2 >= g->told || e->standing <= g->told / 2)
                e->kind = STORM_GOES_ON;
        else
                return false;
        g->storm = e->kind != STORM_ENDS;
        g->told = e->standing;
        e->finding_kind = g->kind;
        e->creator = g->creator;
        if (g->storm)
                e->finding = g->largest_raised ? g->largest_raised : g->largest;
        return true;
}

/* What is about the host, groups, single findings. */
static int entry_rank(const StormEntry *e) {
        if (!e->creator)
                return 0;
        return e->kind <= STORM_CLEARED ? 2 : 1;
}

/* By rank, the largest first: it is the last ones that may be left out. */
static int compare_entries(const void *a, const void *b) {
        const StormEntry *x = a, *y = b;
        int rank = entry_rank(x);
        uint64_t x_bytes, y_bytes;

        if (rank != entry_rank(y))
                return rank < entry_rank(y) ? -1 : 1;
        x_bytes = rank == 1 ? x->bytes : x->finding->bytes;
        y_bytes = rank == 1 ? y->bytes : y->finding->bytes;
        if (x_bytes != y_bytes)
                return x_bytes > y_bytes ? -1 : 1;
        if (rank != 1)
                return x->finding->id < y->finding->id ? -1 : x->finding->id > y->finding->id;
        if (x->finding_kind != y->finding_kind)
                return x->finding_kind < y->finding_kind ? -1 : 1;
        return strcmp(x->creator, y->creator);
}

static void fold_rest(Storm *s) {
        StormEntry more = { .kind = STORM_MORE, .finding_kind = _FINDING_KIND_MAX };

        if (s->n_entries <= STORM_ENTRIES_MAX)
                return;
        for (size_t i = STORM_ENTRIES_MAX; i < s->n_entries; i++) {
                more.raised += s->entries[i].raised;
                more.cleared += s->entries[i].cleared;
        }
        s->entries[STORM_ENTRIES_MAX] = more;
        s->n_entries = STORM_ENTRIES_MAX + 1;
}

int storm_update(Storm *s, const Findings *findings) {
        const FindingChange *changes;
        size_t n;
        int r;

        forget(s, false);
        changes = findings_changes(findings, &n);
        if (n == 0)
                return 0;
        /* Memory first: when it is out, no group is another than it was. Behind each entry there is a change at least. */
        r = grow_array(&s->entries, &s->allocated, n, sizeof(*s->entries));
        if (r < 0)
                return r;
        r = add_changes(s, changes, n);
        if (r < 0)
                return r;

        add_standing(s, findings);
        for (Group *g = s->groups; g; g = g->next)
                if (g->touched && judge_group(g))
                        s->entries[s->n_entries++] = g->entry;
        for (size_t i = 0; i < n; i++) {
                const Finding *f = changes[i].finding;
                const Group *g = find_group(s, f);

                if (g && !g->singly)
                        continue;
                s->entries[s->n_entries++] = (StormEntry){
                        .kind = changes[i].raised ? STORM_RAISED : STORM_CLEARED,
                        .finding_kind = f->kind,
                        .finding = f,
                        .end = changes[i].end,
                        .creator = f->creator,
                        .raised = changes[i].raised,
                        .cleared = !changes[i].raised,
                };
        }
        if (s->n_entries > 0)
                qsort(s->entries, s->n_entries, sizeof(*s->entries), compare_entries);
        fold_rest(s);
        return (int)s->n_entries;
}

const StormEntry *storm_entries(const Storm *s, size_t *ret_n) {
        *ret_n = s->n_entries;
        return s->entries;
}

int storm_resume(Storm *s, const Findings *findings) {
        forget(s, true);
        for (size_t i = 0, n = findings_count(findings); i < n; i++) {
                const Finding *f = findings_get(findings, i);
                Group *g;
                int r;

                if (!f->creator)
                        continue;
                r = find_or_add_group(s, f, &g);
                if (r < 0) {
                        forget(s, true);
                        return r;
                }
                g->told++;
        }
        for (Group *g = s->groups; g; g = g->next)
                g->storm = g->told > STORM_SINGLE;
        forget(s, false);
        return 0;
}
