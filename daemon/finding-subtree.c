/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which subtrees are above a limit: the innermost ones, and those that have a limit of their own. */
#include <fnmatch.h>

#include "finding-internal.h"

/* While the tree is gone through. */
typedef struct Scan {
        Plan *p;
        FindingLimit common;
        uint64_t lowest_on; /* of all limits but the marks */
        uint64_t *covered;  /* index → overhead of the subtrees below it that are above the common limit */
        uint8_t *matters;   /* index → it is marked, was above, or has a finding */
} Scan;

static uint64_t min_u64(uint64_t a, uint64_t b) {
        return a < b ? a : b;
}

/* Of two limits the stricter one, threshold by threshold. */
static void make_stricter(FindingLimit *l, const FindingLimit *other) {
        if (!other->enabled)
                return;
        if (!l->enabled) {
                *l = *other;
                return;
        }
        l->on = min_u64(l->on, other->on);
        l->off = min_u64(l->off, other->off);
        l->min_age_usec = min_u64(l->min_age_usec, other->min_age_usec);
}

/* Both begin with their serial, and are in its order. */
static int compare_serial(const void *key, const void *element) {
        const uint64_t *a = key, *b = element;

        return *a < *b ? -1 : *a > *b;
}
_Static_assert(offsetof(FindingMark, serial) == 0 && offsetof(SubtreeWatch, serial) == 0, "what compare_serial() looks at");

static const FindingMark *find_mark(const FindingInput *input, uint64_t serial) {
        return input->n_marks > 0 ? bsearch(&serial, input->marks, input->n_marks, sizeof(*input->marks), compare_serial) : NULL;
}

/* The limit of its own that a memcg has, not enabled if none. 0, -ENOMEM. */
static int own_limit(const Scan *s, uint32_t memcg, const FindingMark *mark, FindingLimit *ret) {
        const Census *c = s->p->input->census;
        _cleanup_(freep) char *path = NULL;
        FindingLimit own = {};
        size_t len;

        for (size_t i = 0; i < s->p->limits->n_subtrees; i++) {
                const FindingSubtree *t = &s->p->limits->subtrees[i];

                if (!t->overhead.enabled)
                        continue;
                if (!path)
                        path = census_path(c, memcg, &len);
                if (!path)
                        return -ENOMEM;
                /* Anything but 0 is no match: in another locale than C bytes may not make sense. */
                if (fnmatch(t->pattern, path + 1, FNM_PATHNAME | FNM_NOESCAPE) == 0)
                        make_stricter(&own, &t->overhead);
        }
        if (mark) {
                const FindingLimit marked = {
                        .enabled = true,
                        .on = mark->overhead_on,
                        .off = mark->overhead_on - mark->overhead_on / 10,
                        .min_age_usec = s->common.min_age_usec,
                };

                make_stricter(&own, &marked);
        }
        if (own.enabled)
                make_stricter(&own, &s->common);
        *ret = own;
        return 0;
}

static const SubtreeWatch *find_watch(const Findings *f, uint64_t serial) {
        return f->n_watches > 0 ? bsearch(&serial, f->watches, f->n_watches, sizeof(*f->watches), compare_serial) : NULL;
}

static int keep_watch(Plan *p, const SubtreeWatch *w) {
        int r;

        r = grow_array(&p->watches, &p->watches_allocated, p->n_watches + 1, sizeof(*p->watches));
        if (r < 0)
                return r;
        p->watches[p->n_watches++] = *w;
        return 0;
}

/*
 * One live memcg, after all below it. Adds it to the plan's subtrees, and its watch to the watches. *ret_covered: overhead of its subtree
 * that its ancestors need not answer for. 0, -ENOMEM.
 */
static int scan_one(const Scan *s, uint32_t memcg, uint64_t *ret_covered) {
        Plan *p = s->p;
        const FindingInput *input = p->input;
        const CensusMemcg *m = &input->census->memcgs[memcg];
        const SubtreeWatch *before = find_watch(p->f, m->serial);
        const FindingMark *mark = find_mark(input, m->serial);
        uint64_t whole = census_subtree_overhead(m), covered = s->covered[memcg];
        bool fresh = p->f->judged[FINDING_SUBTREE] && p->limits_same;
        Measure common = { .limit = s->common, .known = true, .at_least = !input->complete, .bytes = whole, .units = m->subtree_units };
        Subtree t = { .memcg = memcg, .entry = entry_find(p->f, FINDING_SUBTREE, m->serial) };
        SubtreeWatch after = { .serial = m->serial };
        Measure own = common;
        int r;

        common.value = whole > covered ? whole - covered : 0;
        own.value = whole;
        own.own = true;
        r = own_limit(s, memcg, mark, &own.limit);
        if (r < 0)
                return r;
        if (before)
                after = *before;

        /*
         * Both go on side by side: what is judged by a limit of its own still answers for its overhead before its ancestors when that
         * is above the common one. A low mark on a child must not hide it from them.
         */
        if (t.entry && (!t.entry->own || !own.limit.enabled))
                after.common = watch_seed(&after.common, t.entry);
        if (t.entry)
                after.own = watch_seed(&after.own, t.entry);
        after.common = watch_step(&after.common, &common, fresh, input->boot_usec);
        /* What a mark said before is not kept. */
        after.own = watch_step(&after.own, &own, fresh && !mark, input->boot_usec);

        *ret_covered = after.common.above ? whole : covered;
        t.measure = own.limit.enabled ? own : common;
        t.watch = own.limit.enabled ? after.own : after.common;
        if (after.common.above || after.own.above) {
                r = keep_watch(p, &after);
                if (r < 0)
                        return r;
        }
        if (!t.watch.above && !t.entry)
                return 0;
        r = grow_array(&p->subtrees, &p->subtrees_allocated, p->n_subtrees + 1, sizeof(*p->subtrees));
        if (r < 0)
                return r;
        p->subtrees[p->n_subtrees++] = t;
        return 0;
}

/* Children come after their parents in the census, so from the end on each one's are complete when it is looked at. */
static int scan(const Scan *s) {
        const Census *c = s->p->input->census;

        for (uint32_t i = (uint32_t)c->n_memcgs; i-- > 1;) {
                const CensusMemcg *m = &c->memcgs[i];
                uint64_t covered = s->covered[i];
                int r;

                if (m->state == CENSUS_LIVE && (s->matters[i] || census_subtree_overhead(m) >= s->lowest_on)) {
                        r = scan_one(s, i, &covered);
                        if (r < 0)
                                return r;
                }
                s->covered[m->parent] = add_sat_u64(s->covered[m->parent], covered);
        }
        return 0;
}

static void set_matters(const Scan *s, uint64_t serial) {
        uint32_t i = census_find(s->p->input->census, serial);

        if (i != CENSUS_NONE)
                s->matters[i] = true;
}

/* Looked up once for each that is known, rather than for each memcg there is: mostly these are few. */
static void mark_what_matters(const Scan *s) {
        const Findings *f = s->p->f;

        for (size_t i = 0; i < f->n_watches; i++)
                set_matters(s, f->watches[i].serial);
        for (size_t i = 0; i < s->p->input->n_marks; i++)
                set_matters(s, s->p->input->marks[i].serial);
        for (size_t i = 0; i < f->n_standing; i++)
                if (f->standing[i]->finding.kind == FINDING_SUBTREE)
                        set_matters(s, f->standing[i]->finding.serial);
}

/* Of memcgs that an incomplete census lacks: as many as leave the number bounded by the census. */
static int keep_unseen(Plan *p) {
        const Census *c = p->input->census;

        for (size_t i = 0; i < p->f->n_watches && !p->input->complete && p->n_watches < c->n_memcgs; i++) {
                int r;

                if (census_find(c, p->f->watches[i].serial) != CENSUS_NONE)
                        continue;
                r = keep_watch(p, &p->f->watches[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int raise_subtrees(Plan *p) {
        for (size_t i = 0; i < p->n_subtrees; i++) {
                const Subtree *t = &p->subtrees[i];
                int r;

                if (t->entry || !watch_is_due(&t->watch, &t->measure, p->input->boot_usec))
                        continue;
                r = plan_raise(p, FINDING_SUBTREE, t->memcg, &t->measure, t->watch.since_boot_usec, t->watch.exact);
                if (r < 0)
                        return r;
        }
        return 0;
}

int plan_subtrees(Plan *p) {
        size_t n = p->input->census->n_memcgs;
        _cleanup_(freep) uint64_t *covered = calloc(n, sizeof(*covered));
        _cleanup_(freep) uint8_t *matters = calloc(n, sizeof(*matters));
        Scan s = { .p = p, .common = p->limits->limit[FINDING_SUBTREE], .lowest_on = UINT64_MAX, .covered = covered, .matters = matters };
        int r;

        if (!covered || !matters)
                return -ENOMEM;
        if (s.common.enabled)
                s.lowest_on = s.common.on;
        for (size_t i = 0; i < p->limits->n_subtrees; i++)
                if (p->limits->subtrees[i].overhead.enabled)
                        s.lowest_on = min_u64(s.lowest_on, p->limits->subtrees[i].overhead.on);
        mark_what_matters(&s);
        r = scan(&s);
        if (r >= 0)
                r = keep_unseen(p);
        if (r < 0)
                return r;
        if (p->n_watches > 1)
                qsort(p->watches, p->n_watches, sizeof(*p->watches), compare_serial);

        /* They came from the end on. */
        for (size_t i = 0; i < p->n_subtrees / 2; i++) {
                Subtree t = p->subtrees[i];

                p->subtrees[i] = p->subtrees[p->n_subtrees - 1 - i];
                p->subtrees[p->n_subtrees - 1 - i] = t;
        }
        return raise_subtrees(p);
}

const Subtree *plan_subtree_find(const Plan *p, uint32_t memcg) {
        size_t low = 0, high = p->n_subtrees;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (p->subtrees[middle].memcg < memcg)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < p->n_subtrees && p->subtrees[low].memcg == memcg ? &p->subtrees[low] : NULL;
}
