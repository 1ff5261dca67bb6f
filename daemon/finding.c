/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "finding-internal.h"

static const char *const kind_names[_FINDING_KIND_MAX] = {
        [FINDING_WRITEBACK] = "writeback",
        [FINDING_SWAP] = "swap",
        [FINDING_SUBTREE] = "subtree",
        [FINDING_HOST] = "host",
        [FINDING_DYING] = "dying",
        [FINDING_DYING_GROWTH] = "dying-growth",
        [FINDING_STRANDED] = "stranded-ids",
        [FINDING_MEMCG_IDS] = "memcg-ids",
        [FINDING_DEGRADED] = "degraded",
};

const char *finding_kind_to_string(FindingKind kind) {
        return (size_t)kind < ELEMENTSOF(kind_names) ? kind_names[kind] : NULL;
}

int finding_kind_from_string(const char *s) {
        for (size_t i = 0; i < ELEMENTSOF(kind_names); i++)
                if (strcmp(s, kind_names[i]) == 0)
                        return (int)i;
        return -EINVAL;
}

bool finding_kind_is_memcg(FindingKind kind) {
        return kind == FINDING_WRITEBACK || kind == FINDING_SWAP || kind == FINDING_SUBTREE;
}

const char *finding_end_to_string(FindingEnd end) {
        static const char *const names[] = {
                [FINDING_END_BELOW] = "below",
                [FINDING_END_GONE] = "gone",
                [FINDING_END_LIMIT] = "limit",
                [FINDING_END_REMOVED] = "removed",
        };

        return (size_t)end < ELEMENTSOF(names) ? names[end] : NULL;
}

Entry *entry_free(Entry *e) {
        if (!e)
                return NULL;
        free(e->finding.text);
        free(e->finding.creator);
        free(e->finding.path);
        free(e);
        return NULL;
}

int findings_new(Findings **ret) {
        Findings *f = calloc(1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        f->next_id = 1;
        *ret = f;
        return 0;
}

static void drop_changes(Findings *f) {
        for (size_t i = 0; i < f->n_ended; i++)
                entry_free(f->ended[i]);
        free(f->ended);
        free(f->changes);
        f->ended = NULL;
        f->changes = NULL;
        f->n_ended = f->n_changes = 0;
}

Findings *findings_free(Findings *f) {
        if (!f)
                return NULL;
        drop_changes(f);
        free(f->watches);
        for (size_t i = 0; i < f->n_standing; i++)
                entry_free(f->standing[i]);
        free(f->by_key);
        free(f->standing);
        free(f);
        return NULL;
}

const FindingChange *findings_changes(const Findings *f, size_t *ret_n) {
        *ret_n = f->n_changes;
        return f->changes;
}

size_t findings_count(const Findings *f) {
        return f->n_standing;
}

const Finding *findings_get(const Findings *f, size_t i) {
        return i < f->n_standing ? &f->standing[i]->finding : NULL;
}

static int compare_key(FindingKind kind, uint64_t serial, const Finding *f) {
        if (kind != f->kind)
                return kind < f->kind ? -1 : 1;
        return serial < f->serial ? -1 : serial > f->serial;
}

int entry_compare(const void *a, const void *b) {
        const Finding *x = &(*(Entry *const *)a)->finding, *y = &(*(Entry *const *)b)->finding;

        return compare_key(x->kind, x->serial, y);
}

Entry *entry_find(const Findings *f, FindingKind kind, uint64_t serial) {
        size_t low = 0, high = f->n_standing;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                int r = compare_key(kind, serial, &f->by_key[middle]->finding);

                if (r == 0)
                        return f->by_key[middle];
                if (r < 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        return NULL;
}

const Finding *findings_find(const Findings *f, FindingKind kind, uint64_t serial) {
        const Entry *e = entry_find(f, kind, serial);

        return e ? &e->finding : NULL;
}

bool findings_above(const Findings *f, FindingKind kind, bool *ret_above, uint64_t *ret_value, uint64_t *ret_limit) {
        const Measure *m = &f->host_measure[kind];

        if (finding_kind_is_memcg(kind) || kind == FINDING_DEGRADED || !m->known || !m->limit.enabled)
                return false;
        *ret_above = f->host[kind].above;
        *ret_value = m->value;
        *ret_limit = m->limit.on;
        return true;
}

size_t findings_count_kind(const Findings *f, FindingKind kind) {
        return (size_t)kind < _FINDING_KIND_MAX ? f->count[kind] : 0;
}

uint64_t findings_sum_bytes(const Findings *f, FindingKind kind) {
        return (size_t)kind < _FINDING_KIND_MAX ? f->sum_bytes[kind] : 0;
}

void findings_sum_up(Findings *f) {
        memset(f->count, 0, sizeof(f->count));
        memset(f->sum_bytes, 0, sizeof(f->sum_bytes));
        for (size_t i = 0; i < f->n_standing; i++) {
                const Entry *e = f->standing[i];
                FindingKind kind = e->finding.kind;

                f->count[kind]++;
                if (!e->nested)
                        f->sum_bytes[kind] = add_sat_u64(f->sum_bytes[kind], e->finding.bytes);
        }
}

Watch watch_seed(const Watch *w, const Entry *e) {
        Watch seeded = *w;

        if (!w->above)
                seeded = (Watch){ .above = true, .exact = e->finding.since_exact, .since_boot_usec = e->finding.since_boot_usec };
        /* What has been reached since it was raised counts for a limit that is higher now. */
        if (seeded.on < e->peak)
                seeded.on = e->peak;
        return seeded;
}

Watch watch_step(const Watch *before, const Measure *m, bool fresh, uint64_t boot_usec) {
        const FindingLimit *l = &m->limit;

        if (!l->enabled)
                return (Watch){};
        if (!m->known)
                return *before;
        if (before->above && (m->at_least || (l->on <= before->on && m->value >= l->off)))
                return (Watch){
                        .above = true,
                        .exact = before->exact && l->on >= before->on, /* a lower limit may have been reached earlier */
                        .since_boot_usec = before->since_boot_usec,
                        .on = l->on < before->on ? l->on : before->on,
                };
        if (m->value >= l->on)
                return (Watch){ .above = true, .exact = fresh, .since_boot_usec = boot_usec, .on = l->on };
        return (Watch){};
}

bool watch_is_due(const Watch *w, const Measure *m, uint64_t boot_usec) {
        return w->above && m->known && m->value >= m->limit.on && boot_usec >= w->since_boot_usec &&
               boot_usec - w->since_boot_usec >= m->limit.min_age_usec;
}

/* Private ids: a dying memcg keeps its own as long as swap entries carry it, and then has 0. */
static bool count_memcg_ids(const Census *c, uint64_t *ret, bool *ret_all) {
        uint64_t n = 0, known = 0;

        for (size_t i = 0; i < c->n_memcgs; i++) {
                if (!(c->memcgs[i].valid & SW_MEMCG_ID))
                        continue;
                known++;
                n += c->memcgs[i].memcg_id > 0;
        }
        *ret = n;
        *ret_all = known == c->n_memcgs;
        return known > 0;
}

static void measure_host(const Plan *p, FindingKind kind, Measure *ret) {
        const FindingInput *input = p->input;
        const Census *c = input->census;
        const CensusTotals *t = &c->totals;
        Measure m = {
                .limit = p->limits->limit[kind],
                .known = true,
                .at_least = !input->complete,
                .bytes = census_subtree_overhead(&c->memcgs[0]),
                .units = t->units,
        };
        bool all;

        switch (kind) {
        case FINDING_HOST:
                m.value = m.bytes;
                break;
        case FINDING_DYING:
        case FINDING_DYING_GROWTH:
                m.value = t->dying;
                m.bytes = t->overhead_dying_bytes;
                m.units = t->units_dying;
                if (kind == FINDING_DYING)
                        break;
                m.known = input->growth_known;
                m.at_least = false;
                m.value = input->growth_per_hour > 0 ? (uint64_t)input->growth_per_hour : 0;
                break;
        case FINDING_STRANDED:
                m.known = input->ids_in_use_known;
                m.value = t->ids > input->ids_in_use ? t->ids - input->ids_in_use : 0;
                break;
        case FINDING_MEMCG_IDS:
                m.known = count_memcg_ids(c, &m.value, &all);
                m.at_least |= !all;
                break;
        case FINDING_DEGRADED:
                m.at_least = false;
                m.value = input->degraded ? 1 : 0;
                m.limit.on = m.limit.off = 1;
                break;
        default:
                m.known = false;
        }
        *ret = m;
}

int plan_raise(Plan *p, FindingKind kind, uint32_t memcg, const Measure *m, uint64_t since_boot_usec, bool since_exact) {
        _cleanup_(entry_freep) Entry *e = calloc(1, sizeof(*e));
        Finding *f;
        int r;

        if (!e)
                return -ENOMEM;
        f = &e->finding;
        *f = (Finding){
                .kind = kind,
                .value = m->value,
                .limit = m->limit.on,
                .bytes = m->bytes,
                .units = m->units,
                .raised_boot_usec = p->input->boot_usec,
                .since_boot_usec = since_boot_usec,
                .since_exact = since_exact,
        };
        e->off = m->limit.off;
        e->peak = m->value;
        e->own = m->own;
        if (memcg != CENSUS_NONE) {
                r = finding_describe(f, p->input->census, memcg);
                if (r < 0)
                        return r;
                finding_follow(f, p->input, memcg);
        }
        if (kind == FINDING_DEGRADED) {
                f->text = strdup(p->input->degraded);
                if (!f->text)
                        return -ENOMEM;
        }
        r = grow_array(&p->raised, &p->raised_allocated, p->n_raised + 1, sizeof(*p->raised));
        if (r < 0)
                return r;
        p->raised[p->n_raised++] = TAKE_PTR(e);
        return 0;
}

static int plan_host(Plan *p) {
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                bool fresh = p->f->judged[kind] && p->limits_same;
                const Entry *e = entry_find(p->f, kind, 0);
                Watch *w = &p->host_watch[kind];
                Measure *m = &p->host[kind];
                int r;

                if (finding_kind_is_memcg(kind))
                        continue;
                measure_host(p, kind, m);
                *w = e ? watch_seed(&p->f->host[kind], e) : p->f->host[kind];
                *w = watch_step(w, m, fresh, p->input->boot_usec);
                if (e) {
                        if (kind != FINDING_DEGRADED || !p->input->degraded || strcmp(e->finding.text, p->input->degraded) == 0)
                                continue;
                        p->text = strdup(p->input->degraded);
                        if (!p->text)
                                return -ENOMEM;
                        continue;
                }
                if (!watch_is_due(w, m, p->input->boot_usec))
                        continue;
                r = plan_raise(p, kind, CENSUS_NONE, m, w->since_boot_usec, w->exact);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Room for whatever commit() may have to keep: after this nothing fails. */
static int plan_room(Plan *p) {
        size_t before = p->f->n_standing, most = before + p->n_raised;

        p->standing = calloc(most + 1, sizeof(*p->standing));
        p->by_key = calloc(most + 1, sizeof(*p->by_key));
        p->ended = calloc(before + 1, sizeof(*p->ended));
        p->changes = calloc(most + 1, sizeof(*p->changes));
        return p->standing && p->by_key && p->ended && p->changes ? 0 : -ENOMEM;
}

static void plan_done(Plan *p) {
        free(p->text);
        free(p->changes);
        free(p->ended);
        free(p->by_key);
        free(p->standing);
        for (size_t i = 0; i < p->n_raised; i++)
                entry_free(p->raised[i]);
        free(p->raised);
        free(p->watches);
        free(p->subtrees);
}

static void follow_value(Entry *e, const Measure *m) {
        Finding *f = &e->finding;

        if (!m->known)
                return;
        if (!m->at_least || m->value > f->value)
                f->value = m->value;
        if (!m->at_least || m->bytes > f->bytes)
                f->bytes = m->bytes;
        if (!m->at_least || m->units > f->units)
                f->units = m->units;
        if (f->value > e->peak)
                e->peak = f->value;
}

/* above: that the value has reached `on` and is not below `off`; see watch_step(). */
static bool value_stands(Entry *e, const Measure *m, bool above, FindingEnd *ret_end) {
        if (!m->limit.enabled) {
                *ret_end = FINDING_END_LIMIT;
                return false;
        }
        if (!m->known || m->at_least)
                return true;
        if (above) {
                e->off = m->limit.off;
                e->own = m->own;
                return true;
        }
        /* By the limit of before it would stand: then it is the limit that ends it. */
        *ret_end = e->own != m->own || m->value >= e->off ? FINDING_END_LIMIT : FINDING_END_BELOW;
        return false;
}

static bool memcg_stands(const Plan *p, Entry *e, FindingEnd *ret_end) {
        const Census *c = p->input->census;
        FindingKind kind = e->finding.kind;
        const Pin *pins = NULL;
        uint32_t memcg;
        size_t n = 0;
        Measure m;

        memcg = census_find(c, e->finding.serial);
        if (memcg == CENSUS_NONE) {
                *ret_end = FINDING_END_GONE;
                return !p->input->complete;
        }
        if (kind == FINDING_SUBTREE) {
                const Subtree *t = plan_subtree_find(p, memcg);

                *ret_end = FINDING_END_REMOVED;
                if (!t) /* no longer live: plan_subtrees() has those that have a finding */
                        return false;
                follow_value(e, &t->measure);
                finding_follow(&e->finding, p->input, memcg);
                return value_stands(e, &t->measure, t->watch.above, ret_end);
        }
        *ret_end = FINDING_END_BELOW;
        if (c->memcgs[memcg].state != CENSUS_DYING)
                return false;
        measure_dying(p, kind, memcg, &m);
        follow_value(e, &m);
        finding_follow(&e->finding, p->input, memcg);
        return value_stands(e, &m, m.value >= m.limit.off && e->peak >= m.limit.on, ret_end) &&
               evidence_get(p->input, memcg, kind, &pins, &n) != EVIDENCE_NONE;
}

static bool host_stands(Plan *p, Entry *e, FindingEnd *ret_end) {
        const Measure *m = &p->host[e->finding.kind];

        follow_value(e, m);
        if (e->finding.kind == FINDING_DEGRADED && p->text) {
                free(e->finding.text);
                e->finding.text = TAKE_PTR(p->text);
        }
        return value_stands(e, m, p->host_watch[e->finding.kind].above, ret_end);
}

/* Subtrees come in pre-order, so those inside another one come before its end. */
static void find_nested(const Plan *p, const Findings *f) {
        const Census *c = p->input->census;
        uint64_t end = 0;

        for (size_t i = 0; i < p->n_subtrees; i++) {
                uint32_t memcg = p->subtrees[i].memcg;
                Entry *e = entry_find(f, FINDING_SUBTREE, c->memcgs[memcg].serial);

                if (!e)
                        continue;
                e->nested = memcg < end;
                if (!e->nested)
                        end = (uint64_t)memcg + c->memcgs[memcg].subtree_memcgs;
        }
}

static uint64_t mix(uint64_t digest, uint64_t value) {
        /* FNV-1a with words for bytes: enough to tell one configuration from the next. */
        return (digest ^ value) * 0x100000001b3;
}

static uint64_t mix_limit(uint64_t digest, const FindingLimit *l) {
        return mix(mix(mix(digest, l->enabled), l->on), l->off);
}

/* Without marks: they come and go with cgroups. */
static uint64_t digest_limits(const FindingLimits *limits) {
        uint64_t digest = 0xcbf29ce484222325;

        for (size_t i = 0; i < ELEMENTSOF(limits->limit); i++)
                digest = mix_limit(digest, &limits->limit[i]);
        for (size_t i = 0; i < limits->n_subtrees; i++) {
                for (const char *s = limits->subtrees[i].pattern; *s; s++)
                        digest = mix(digest, (uint8_t)*s);
                digest = mix_limit(digest, &limits->subtrees[i].overhead);
        }
        return digest;
}

/* Takes over from the plan. Cannot fail. */
static void commit(Findings *f, Plan *p) {
        size_t n = 0;

        for (size_t i = 0; i < f->n_standing; i++) {
                Entry *e = f->standing[i];
                FindingEnd end = FINDING_END_BELOW;
                bool stands = finding_kind_is_memcg(e->finding.kind) ? memcg_stands(p, e, &end) : host_stands(p, e, &end);

                if (stands) {
                        p->standing[n++] = e;
                        continue;
                }
                p->changes[f->n_changes++] = (FindingChange){ .end = end, .finding = &e->finding };
                p->ended[f->n_ended++] = e;
        }
        for (size_t i = 0; i < p->n_raised; i++) {
                Entry *e = p->raised[i];

                e->finding.id = f->next_id++;
                p->standing[n++] = e;
                p->changes[f->n_changes++] = (FindingChange){ .raised = true, .finding = &e->finding };
        }
        p->n_raised = 0;

        if (n > 0)
                memcpy(p->by_key, p->standing, n * sizeof(*p->by_key));
        if (n > 1)
                qsort(p->by_key, n, sizeof(*p->by_key), entry_compare);
        free(f->standing);
        free(f->by_key);
        free(f->watches);
        f->standing = TAKE_PTR(p->standing);
        f->by_key = TAKE_PTR(p->by_key);
        f->n_standing = n;
        f->ended = TAKE_PTR(p->ended);
        f->changes = TAKE_PTR(p->changes);
        f->watches = TAKE_PTR(p->watches);
        f->n_watches = p->n_watches;
        find_nested(p, f);
        findings_sum_up(f);
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                f->host[kind] = p->host_watch[kind];
                f->host_measure[kind] = p->host[kind];
                f->judged[kind] = finding_kind_is_memcg(kind) ? p->input->complete : p->host[kind].known && !p->host[kind].at_least;
        }
        f->limits_digest = digest_limits(p->limits);
}

int findings_update(Findings *f, const FindingLimits *limits, const FindingInput *input) {
        _cleanup_(plan_done) Plan p = { .f = f, .limits = limits, .input = input };
        int r;

        drop_changes(f);
        if (!input->census->sealed)
                return -EINVAL;
        p.limits_same = f->limits_digest == digest_limits(limits);
        r = plan_dying(&p);
        if (r >= 0)
                r = plan_subtrees(&p);
        if (r >= 0)
                r = plan_host(&p);
        if (r >= 0)
                r = plan_room(&p);
        if (r < 0)
                return r;
        commit(f, &p);
        return (int)f->n_changes;
}
