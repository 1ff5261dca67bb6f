/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "subtree.h"

#include "identity.h"

/* -------------------------------------------------------------------------------------------------------------- sums */

static void add_dying(SubtreeSum *s, const Reading *r, const Ages *ages, uint32_t i) {
        const CensusMemcg *m = r->census->memcgs + i;
        uint64_t overhead = census_overhead(m);
        Age age;

        s->dying++;
        s->units_dying += m->units;
        s->overhead_dying_bytes = add_sat_u64(s->overhead_dying_bytes, overhead);
        if (r->pins)
                pins_sum_one(r->pins, i, &s->causes);
        if (!ages || !ages_get(ages, m->serial, &age))
                return;
        if (s->oldest_serial == 0 || age.boot_usec < s->oldest_boot_usec) {
                s->oldest_serial = m->serial;
                s->oldest_boot_usec = age.boot_usec;
                s->oldest_exact = age.exact;
        }
}

/* A memcg with all below it. */
static void add_top(SubtreeSum *s, const Reading *r, const Ages *ages, uint32_t top) {
        const Census *c = r->census;
        const CensusMemcg *m = c->memcgs + top;

        s->tops++;
        if (m->state == CENSUS_LIVE && s->live == CENSUS_NONE)
                s->live = top;
        s->memcgs += m->subtree_memcgs;
        s->units += m->subtree_units;
        s->overhead_bytes = add_sat_u64(s->overhead_bytes, census_subtree_overhead(m));
        for (uint32_t i = top; i < top + m->subtree_memcgs; i++) {
                if (c->memcgs[i].state == CENSUS_DYING)
                        add_dying(s, r, ages, i);
                s->live_memcgs += c->memcgs[i].state == CENSUS_LIVE;
        }
}

static void begin(SubtreeSum *s, const Reading *r) {
        *s = (SubtreeSum){ .live = CENSUS_NONE, .writeback_known = r->pins && pins_writeback_known(r->pins) };
}

/* -------------------------------------------------------------------------------------------------------------- paths */

typedef struct List {
        uint32_t *memcgs;
        size_t n, allocated;
} List;

static int add_to(List *l, uint32_t i) {
        int r = grow_array(&l->memcgs, &l->allocated, l->n + 1, sizeof(*l->memcgs));

        if (r >= 0)
                l->memcgs[l->n++] = i;
        return r;
}

/* The children of this name: one is live at most, any number dying. */
static int add_children(const Census *c, uint32_t parent, const char *name, size_t len, List *l) {
        uint32_t end = parent + c->memcgs[parent].subtree_memcgs;

        for (uint32_t i = parent + 1; i < end; i += c->memcgs[i].subtree_memcgs) {
                int r;

                if (c->memcgs[i].name_len != len || memcmp(census_name(c, i), name, len) != 0)
                        continue;
                r = add_to(l, i);
                if (r < 0)
                        return r;
        }
        return 0;
}

int subtree_find(const Census *c, const char *path, size_t len, uint32_t **ret, size_t *ret_n) {
        _cleanup_(freep) uint32_t *owned = NULL;
        List now = {};
        int r;

        if (c->n_memcgs == 0) {
                *ret = NULL;
                *ret_n = 0;
                return 0;
        }
        r = add_to(&now, 0);
        while (r >= 0) {
                List next = {};
                size_t n;

                for (; len > 0 && *path == '/'; len--)
                        path++;
                if (len == 0)
                        break;
                for (n = 0; n < len && path[n] != '/'; n++)
                        ;
                for (size_t i = 0; i < now.n && r >= 0; i++)
                        r = add_children(c, now.memcgs[i], path, n, &next);
                free(now.memcgs);
                now = next;
                path += n;
                len -= n;
        }
        owned = now.memcgs;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(owned);
        *ret_n = now.n;
        return 0;
}

int subtree_sum_path(const Reading *reading, const Ages *ages, const char *path, size_t len, SubtreeSum *ret) {
        _cleanup_(freep) uint32_t *memcgs = NULL;
        SubtreeSum s;
        size_t n;
        int r;

        r = subtree_find(reading->census, path, len, &memcgs, &n);
        if (r < 0)
                return r;
        begin(&s, reading);
        for (size_t i = 0; i < n; i++)
                add_top(&s, reading, ages, memcgs[i]);
        *ret = s;
        return 0;
}

/* ---------------------------------------------------------------------------------------------------- units, machines */

/* What a part of the identity of a path is compared with. */
typedef bool (*is_it_t)(const Identity *id, const char *name);

static bool part_is(const IdentityPart *part, const char *name) {
        return part->len == strlen(name) && memcmp(part->s, name, part->len) == 0;
}

static bool is_unit(const Identity *id, const char *name) {
        return part_is(&id->unit, name);
}

static int hex(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* systemd escapes what a unit's name cannot have: "web\x2d1" is the machine "web-1". libvirt's names may stand as they are. */
static bool is_machine(const Identity *id, const char *name) {
        const char *s = id->machine.s, *end = s + id->machine.len;

        if (part_is(&id->machine, name))
                return true;
        for (; s && s < end && *name; name++) {
                char c = *s++;

                if (c == '\\' && end - s >= 3 && s[0] == 'x' && hex(s[1]) >= 0 && hex(s[2]) >= 0) {
                        c = (char)(hex(s[1]) * 16 + hex(s[2]));
                        s += 3;
                }
                if (c != *name)
                        return false;
        }
        return s && s == end && !*name;
}

/* Where a name begins to be that of the whole: the path of what is above says something else. */
static int sum_identity(const Reading *reading, const Ages *ages, const char *name, is_it_t is_it, SubtreeSum *ret) {
        const Census *c = reading->census;
        SubtreeSum s;
        uint32_t i = 1;

        begin(&s, reading);
        while (i < c->n_memcgs && *name) {
                _cleanup_(freep) char *path = NULL;
                size_t len = 0;
                Identity id;

                path = census_path(c, i, &len);
                if (!path)
                        return -ENOMEM;
                identity_parse(path, len, &id);
                if (!is_it(&id, name)) {
                        i++;
                        continue;
                }
                add_top(&s, reading, ages, i);
                i += c->memcgs[i].subtree_memcgs;
        }
        *ret = s;
        return 0;
}

int subtree_sum_unit(const Reading *reading, const Ages *ages, const char *name, SubtreeSum *ret) {
        return sum_identity(reading, ages, name, is_unit, ret);
}

int subtree_sum_machine(const Reading *reading, const Ages *ages, const char *name, SubtreeSum *ret) {
        return sum_identity(reading, ages, name, is_machine, ret);
}
