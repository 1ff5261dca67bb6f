/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "group.h"

#include "identity.h"
#include "util.h"

/* One dying memcg on its way into a group. */
typedef struct Member {
        const char *names; /* of the Groups: what pattern is an offset in */
        size_t pattern, pattern_len;
        uint32_t ancestor, memcg;
} Member;

Groups *groups_free(Groups *g) {
        if (!g)
                return NULL;
        free(g->names);
        free(g->groups);
        free(g);
        return NULL;
}

static int compare_members(const void *x, const void *y) {
        const Member *a = x, *b = y;
        int r;

        if (a->ancestor != b->ancestor)
                return a->ancestor < b->ancestor ? -1 : 1;
        r = strcmp(a->names + a->pattern, b->names + b->pattern);
        if (r != 0)
                return r;
        return a->memcg < b->memcg ? -1 : a->memcg > b->memcg;
}

static int compare_groups(const void *x, const void *y) {
        const Group *a = x, *b = y;
        uint64_t oa = a->unit_bytes + a->array_bytes, ob = b->unit_bytes + b->array_bytes;

        if (oa != ob)
                return oa > ob ? -1 : 1;
        if (a->memcgs != b->memcgs)
                return a->memcgs > b->memcgs ? -1 : 1;
        if (a->ancestor != b->ancestor)
                return a->ancestor < b->ancestor ? -1 : 1;
        return strcmp(a->pattern, b->pattern);
}

/* The topmost dying memcg above each dying one, itself included: parents come first, so one pass does. */
static uint32_t *find_tops(const Census *c) {
        uint32_t *tops = calloc(c->n_memcgs ? c->n_memcgs : 1, sizeof *tops);

        if (!tops)
                return NULL;
        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = c->memcgs + i;

                tops[i] = m->parent == CENSUS_NONE || m->parent == m->nearest_live ? i : tops[m->parent];
        }
        return tops;
}

typedef struct Arena {
        char *s;
        size_t len, allocated;
} Arena;

static int arena_add(Arena *a, const char *s, size_t len) {
        int r = grow_array(&a->s, &a->allocated, a->len + len + 1, 1);

        if (r < 0)
                return r;
        memcpy(a->s + a->len, s, len);
        a->len += len;
        a->s[a->len] = '\0';
        return 0;
}

static int arena_add_pattern(Arena *a, const Census *c, uint32_t memcg) {
        const CensusMemcg *m = c->memcgs + memcg;
        int r = grow_array(&a->s, &a->allocated, a->len + m->name_len + 1U, 1);

        if (r < 0)
                return r;
        a->len += identity_pattern(census_name(c, memcg), m->name_len, a->s + a->len, m->name_len + 1U);
        a->s[a->len] = '\0';
        return 0;
}

static int collect(const Census *c, const uint32_t *tops, Arena *names, Member *members) {
        size_t n = 0;

        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                const CensusMemcg *m = c->memcgs + i;
                size_t start = names->len;
                int r;

                if (m->state != CENSUS_DYING)
                        continue;
                r = arena_add_pattern(names, c, tops[i]);
                if (r >= 0 && tops[i] != i && m->parent != tops[i])
                        r = arena_add(names, "/...", 4);
                if (r >= 0 && tops[i] != i)
                        r = arena_add(names, "/", 1);
                if (r >= 0 && tops[i] != i)
                        r = arena_add_pattern(names, c, i);
                if (r < 0)
                        return r;
                members[n++] = (Member){ .pattern = start, .pattern_len = names->len - start, .ancestor = m->nearest_live, .memcg = i };
                names->len++; /* the NUL ends this pattern */
        }
        return 0;
}

static void group_add(Group *g, const Reading *reading, uint32_t memcg) {
        const CensusMemcg *m = reading->census->memcgs + memcg;
        bool seen[_PIN_CAUSE_MAX] = {};
        const Pin *pins = NULL;
        size_t n = 0;

        g->memcgs++;
        g->units = add_sat_u64(g->units, m->units);
        g->unit_bytes = add_sat_u64(g->unit_bytes, m->unit_bytes);
        g->array_bytes = add_sat_u64(g->array_bytes, m->array_bytes);

        if (!reading->pins || !pins_get(reading->pins, memcg, &pins, &n))
                return;
        g->pins_known = true;
        if (n == 0)
                g->unpinned++;
        for (size_t i = 0; i < n; i++) {
                if (!seen[pins[i].cause])
                        g->causes[pins[i].cause]++;
                seen[pins[i].cause] = true; /* several of one cause, one per device, are one memcg */
        }
}

int groups_new(Groups **ret, const Reading *reading) {
        const Census *c = reading->census;
        size_t n_dying = c->totals.dying;
        _cleanup_(groups_freep) Groups *g = NULL;
        _cleanup_(freep) Member *members = NULL;
        _cleanup_(freep) uint32_t *tops = NULL;
        Arena names = {};
        int r;

        g = calloc(1, sizeof *g);
        members = calloc(n_dying + 1, sizeof *members);
        tops = find_tops(c);
        if (!g || !members || !tops)
                return -ENOMEM;

        r = arena_add(&names, "", 0);
        if (r >= 0)
                r = collect(c, tops, &names, members);
        g->names = names.s;
        if (r < 0 || !g->names)
                return -ENOMEM;

        for (size_t i = 0; i < n_dying; i++)
                members[i].names = g->names;
        if (n_dying > 1)
                qsort(members, n_dying, sizeof *members, compare_members);

        g->groups = calloc(n_dying + 1, sizeof *g->groups);
        if (!g->groups)
                return -ENOMEM;
        for (size_t i = 0; i < n_dying; i++) {
                const Member *m = members + i;
                Group *last = g->n_groups > 0 ? g->groups + g->n_groups - 1 : NULL;

                if (!last || last->ancestor != m->ancestor || strcmp(last->pattern, g->names + m->pattern) != 0) {
                        last = g->groups + g->n_groups++;
                        *last = (Group){ .ancestor = m->ancestor, .pattern = g->names + m->pattern, .pattern_len = m->pattern_len };
                }
                group_add(last, reading, m->memcg);
        }
        if (g->n_groups > 1)
                qsort(g->groups, g->n_groups, sizeof *g->groups, compare_groups);

        *ret = TAKE_PTR(g);
        return 0;
}
