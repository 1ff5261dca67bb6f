/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a finding says about one memcg: names, references, evidence; and which dying ones are found. */
#include "finding-internal.h"
#include "identity.h"

static PinCause cause_of(FindingKind kind) {
        return kind == FINDING_WRITEBACK ? PIN_WRITEBACK : PIN_SWAP;
}

Evidence evidence_get(const FindingInput *input, uint32_t memcg, FindingKind kind, const Pin **ret, size_t *ret_n) {
        const CensusMemcg *m = &input->census->memcgs[memcg];
        size_t n = 0, first = 0, end;
        const Pin *pins = NULL;

        if (!input->pins || !pins_get(input->pins, memcg, &pins, &n))
                return EVIDENCE_UNKNOWN;
        /* They are ordered by cause. */
        while (first < n && pins[first].cause != cause_of(kind))
                first++;
        end = first;
        while (end < n && pins[end].cause == cause_of(kind))
                end++;
        if (end > first) {
                *ret = pins + first;
                *ret_n = end - first;
                return EVIDENCE_FOUND;
        }
        /* Not seen is not there only where everything was looked at. */
        if (kind == FINDING_WRITEBACK)
                return pins_writeback_known(input->pins) ? EVIDENCE_NONE : EVIDENCE_UNKNOWN;
        return m->valid & SW_MEMCG_ID ? EVIDENCE_NONE : EVIDENCE_UNKNOWN;
}

/*
 * The path; what a hostile user can make long is cut: as many of the first names as fit, which tell whose it is, and the last one.
 */
static char *path_of(const Census *c, uint32_t memcg, size_t *ret_len) {
        static const char gap[] = "/.../";
        const CensusMemcg *m = &c->memcgs[memcg];
        _cleanup_(freep) char *head = NULL;
        uint32_t above = memcg;
        size_t len = 0, head_len = 0;
        char *path;

        for (uint32_t i = memcg; c->memcgs[i].parent != CENSUS_NONE; i = c->memcgs[i].parent)
                len += 1U + c->memcgs[i].name_len;
        if (len <= FINDING_PATH_MAX)
                return census_path(c, memcg, ret_len);

        /* Ends below the root: a name has less than SW_NAME_MAX bytes. */
        while (len + strlen(gap) + m->name_len > FINDING_PATH_MAX) {
                len -= 1U + c->memcgs[above].name_len;
                above = c->memcgs[above].parent;
        }
        head = census_path(c, above, &head_len);
        if (!head)
                return NULL;
        len = head_len + strlen(gap) + m->name_len;
        path = malloc(len + 1);
        if (!path)
                return NULL;
        memcpy(path, head, head_len);
        memcpy(path + head_len, gap, strlen(gap)); /* NOLINT(bugprone-not-null-terminated-result): the name that follows brings the NUL */
        memcpy(path + head_len + strlen(gap), census_name(c, memcg), m->name_len + 1U);
        *ret_len = len;
        return path;
}

/*
 * What somebody made is the topmost dying memcg: a container's scope rather than the service that ran in it. With the numbers taken out of
 * its name, and the live cgroup that it was made in before it, it is the same for all that one creator leaves behind.
 */
static char *creator_of(const Census *c, uint32_t memcg) {
        const CensusMemcg *m = &c->memcgs[memcg];
        uint32_t top = memcg, above = m->state == CENSUS_LIVE ? m->parent : m->nearest_live;
        _cleanup_(freep) char *path = NULL;
        size_t len = 0, name_len;
        char *creator;

        while (c->memcgs[top].parent != above)
                top = c->memcgs[top].parent;
        path = path_of(c, above, &len);
        if (!path)
                return NULL;
        name_len = c->memcgs[top].name_len;
        creator = malloc(len + name_len + 1);
        if (!creator)
                return NULL;
        /* Without the slash in front; the root is nothing else. */
        len--;
        memcpy(creator, path + 1, len);
        if (len > 0)
                creator[len++] = '/';
        (void)identity_pattern(census_name(c, top), name_len, creator + len, name_len + 1);
        return creator;
}

int finding_describe(Finding *f, const Census *c, uint32_t memcg) {
        const CensusMemcg *m = &c->memcgs[memcg];

        f->serial = m->serial;
        f->cgroup_id = m->cgroup_id;
        f->path = path_of(c, memcg, &f->path_len);
        f->creator = f->path ? creator_of(c, memcg) : NULL;
        return f->creator ? 0 : -ENOMEM;
}

static void follow_pins(Finding *f, const Pin *pins, size_t n) {
        f->pin_refs = f->pin_bytes = f->pin_inodes = f->pin_entries = 0;
        f->pin_exact = true;
        for (size_t i = 0; i < n; i++) {
                f->pin_refs = add_sat_u64(f->pin_refs, pins[i].refs);
                f->pin_bytes = add_sat_u64(f->pin_bytes, pins[i].bytes);
                f->pin_inodes = add_sat_u64(f->pin_inodes, pins[i].inodes);
                f->pin_entries = add_sat_u64(f->pin_entries, pins[i].entries);
                f->pin_exact &= pins[i].exact && !pins[i].at_least;
        }
        if (f->kind != FINDING_WRITEBACK)
                return;
        /* One pin for each device. */
        f->n_devices = n;
        memset(f->device, 0, sizeof(f->device));
        memcpy(f->device, pins[0].device, strnlen(pins[0].device, sizeof(f->device) - 1));
}

void finding_follow(Finding *f, const FindingInput *input, uint32_t memcg) {
        const CensusMemcg *m = &input->census->memcgs[memcg];
        const Pin *pins = NULL;
        size_t n = 0;
        Age age;

        f->refs_known = m->valid & SW_MEMCG_REFS;
        f->refs = m->refs;
        if (f->kind == FINDING_SUBTREE)
                return;
        if (ages_get(input->ages, m->serial, &age)) {
                f->since_boot_usec = age.boot_usec;
                f->since_exact = age.exact;
        }
        if (evidence_get(input, memcg, f->kind, &pins, &n) == EVIDENCE_FOUND)
                follow_pins(f, pins, n);
}

void measure_dying(const Plan *p, FindingKind kind, uint32_t memcg, Measure *ret) {
        const CensusMemcg *m = &p->input->census->memcgs[memcg];

        /* Known and whole in an incomplete census too: a memcg's own record is of one moment, or it is not in. */
        *ret = (Measure){
                .limit = p->limits->limit[kind],
                .known = true,
                .value = census_overhead(m),
                .bytes = census_overhead(m),
                .units = m->units,
        };
}

static int plan_dying_one(Plan *p, FindingKind kind, uint32_t memcg) {
        uint64_t serial = p->input->census->memcgs[memcg].serial, now = p->input->boot_usec;
        /* Without a time it is dying since this census. */
        Age age = { .serial = serial, .boot_usec = now };
        const Pin *pins = NULL;
        size_t n = 0;
        Measure m;

        measure_dying(p, kind, memcg, &m);
        if (!m.limit.enabled || m.value < m.limit.on || evidence_get(p->input, memcg, kind, &pins, &n) != EVIDENCE_FOUND)
                return 0;
        (void)ages_get(p->input->ages, serial, &age);
        if ((now > age.boot_usec ? now - age.boot_usec : 0) < m.limit.min_age_usec || entry_find(p->f, kind, serial))
                return 0;
        return plan_raise(p, kind, memcg, &m, age.boot_usec, age.exact);
}

int plan_dying(Plan *p) {
        const Census *c = p->input->census;

        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                int r;

                if (c->memcgs[i].state != CENSUS_DYING || i == 0)
                        continue;
                r = plan_dying_one(p, FINDING_WRITEBACK, i);
                if (r >= 0)
                        r = plan_dying_one(p, FINDING_SWAP, i);
                if (r < 0)
                        return r;
        }
        return 0;
}
