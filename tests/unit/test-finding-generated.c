/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Generated worlds: cgroups come, die and go, pins and limits change, censuses are cut short, daemons start anew. After each census the
 * findings are compared with those of a second implementation, which is slow and knows neither trees in pre-order nor tables by key: it
 * has one place for each kind and serial, and looks at all memcgs for each question.
 */
#include "check.h"
#include "scene.h"

#define SERIALS 64
#define STEPS 150
#define MINUTE (60 * SECOND)

typedef struct Memcg {
        bool exists, seen; /* seen: it is in this census */
        uint64_t parent;
        uint32_t css, units, id_refs, writebacks;
        bool has_mark;
        uint64_t mark;
        Age age; /* serial 0: nobody knows */
} Memcg;

/* What the second implementation remembers of one value: of the whole subtree and of its own part apart. */
typedef struct Above {
        bool above, exact;
        uint64_t since, reached;
} Above;

typedef struct Place {
        bool stands, own;
        uint64_t id, limit, off, peak, value, bytes, since;
        bool exact;
        Above common, whole; /* host kinds: common alone */
} Place;

typedef struct World {
        Scene s;
        Random random;
        Memcg memcgs[SERIALS]; /* by serial; the root is 1 */
        uint64_t next_serial, now, next_id;
        Place places[_FINDING_KIND_MAX][SERIALS];
        bool judged[_FINDING_KIND_MAX];
        FindingLimits before;
        FindingSubtree pattern;
        FindingLimit pattern_before;
        FindingMark marks[SERIALS];
        /* expected of this census */
        size_t n_raised, n_cleared;
        FindingEnd ends[_FINDING_KIND_MAX][SERIALS];
        bool cleared[_FINDING_KIND_MAX][SERIALS], raised[_FINDING_KIND_MAX][SERIALS];
} World;

static bool once_in(World *w, uint64_t n) {
        return random_once_in(&w->random, n);
}

static uint64_t below(World *w, uint64_t n) {
        return random_below(&w->random, n);
}

static bool is_in(const World *w, uint64_t i, uint64_t top) {
        for (; i != 0; i = w->memcgs[i].parent)
                if (i == top)
                        return true;
        return false;
}

static bool has_child(const World *w, uint64_t parent, bool live) {
        for (uint64_t i = 1; i < SERIALS; i++)
                if (w->memcgs[i].exists && w->memcgs[i].parent == parent && (!live || w->memcgs[i].css == STATE_LIVE))
                        return true;
        return false;
}

static void change_memcg(World *w, uint64_t serial) {
        Memcg *m = &w->memcgs[serial];

        if (once_in(w, 4))
                m->units = (uint32_t)below(w, 7);
        if (once_in(w, 6)) {
                m->has_mark = once_in(w, 2);
                m->mark = below(w, 13) * 1000;
        }
        if (m->css == STATE_CREATING && once_in(w, 2))
                m->css = STATE_LIVE;
        if (serial == 1)
                return;
        if (m->css == STATE_LIVE && once_in(w, 6) && !has_child(w, serial, true)) {
                m->css = STATE_DYING;
                if (once_in(w, 3)) {
                        m->age = (Age){ serial, w->now - below(w, MINUTE), once_in(w, 2) };
                        assert_int_equal(ages_put(w->s.ages, serial, m->age.boot_usec, m->age.exact), 1);
                }
        }
        if (m->css == STATE_DYING) {
                if (once_in(w, 3))
                        m->writebacks = (uint32_t)below(w, 3);
                if (once_in(w, 3))
                        m->id_refs = (uint32_t)below(w, 3);
        }
        if (m->css != STATE_LIVE && once_in(w, 8) && !has_child(w, serial, false))
                *m = (Memcg){};
}

static void change_limit(World *w, FindingLimit *l) {
        l->enabled = !once_in(w, 6);
        l->on = below(w, 14) * 1000;
        l->off = l->on - below(w, l->on / 1000 + 1) * 1000;
        l->min_age_usec = once_in(w, 2) ? 0 : below(w, 4) * MINUTE;
}

static void change_world(World *w) {
        w->now += below(w, 2 * MINUTE);
        for (uint64_t i = 1; i < SERIALS; i++)
                if (w->memcgs[i].exists)
                        change_memcg(w, i);
        if (w->next_serial < SERIALS && once_in(w, 2)) {
                uint64_t parent = below(w, w->next_serial);

                while (!w->memcgs[parent].exists || w->memcgs[parent].css != STATE_LIVE)
                        parent = below(w, w->next_serial);
                w->memcgs[w->next_serial++] = (Memcg){
                        .exists = true, .parent = parent, .css = once_in(w, 4) ? STATE_CREATING : STATE_LIVE, .units = (uint32_t)below(w, 5)
                };
        }
        if (once_in(w, 15))
                change_limit(w, &w->s.limits.limit[below(w, _FINDING_KIND_MAX)]);
        if (once_in(w, 15))
                change_limit(w, &w->pattern.overhead);
        w->s.no_pins = once_in(w, 10);
        w->s.writeback_unknown = once_in(w, 5);
        w->s.input.complete = !once_in(w, 5);
        w->s.input.ids_in_use_known = !once_in(w, 4);
        w->s.input.ids_in_use = 64 * 4096 - below(w, 14000);
        w->s.input.growth_known = !once_in(w, 4);
        w->s.input.growth_per_hour = (int64_t)below(w, 20000) - 5000;
        w->s.input.degraded = once_in(w, 3) ? "something" : once_in(w, 2) ? "another thing" : NULL;
}

/* Every other name is one that the pattern matches, directly below the root. */
static void add_records(World *w, uint64_t serial) {
        const Memcg *m = &w->memcgs[serial];
        struct sw_memcg *r = scene_add(&w->s, serial, m->parent, m->css, serial == 1 ? "" : serial % 2 ? "odd" : "even", m->units);

        r->id_refs = m->css == STATE_DYING ? m->id_refs : 1;
        for (uint32_t i = 0; i < m->writebacks; i++)
                records_add_wb(&w->s.evidence, serial, i ? "8:0" : "7:0", 1, 1);
        for (uint64_t i = serial + 1; i < SERIALS; i++)
                if (w->memcgs[i].seen && w->memcgs[i].parent == serial)
                        add_records(w, i);
}

static void take_census(World *w) {
        size_t n = 0;
        int r;

        for (uint64_t i = 1; i < SERIALS; i++) {
                Memcg *m = &w->memcgs[i];

                /* What an incomplete census lacks, it lacks with all below. */
                m->seen = m->exists && (i == 1 || w->memcgs[m->parent].seen) && (w->s.input.complete || i == 1 || !once_in(w, 4));
                if (m->exists && m->has_mark)
                        w->marks[n++] = (FindingMark){ i, m->mark };
        }
        w->s.input.marks = w->marks;
        w->s.input.n_marks = n;
        add_records(w, 1);
        r = scene_census(&w->s, w->now);
        assert_true(r >= 0);
}

/* The second implementation. */

static uint64_t whole(const World *w, uint64_t top) {
        uint64_t units = 0;

        for (uint64_t i = 1; i < SERIALS; i++)
                if (w->memcgs[i].seen && is_in(w, i, top))
                        units += w->memcgs[i].units;
        return units * 1000;
}

/* Overhead below top that subtrees which are above the common limit answer for; those have been looked at before. */
static uint64_t answered(const World *w, uint64_t top) {
        uint64_t sum = 0;

        for (uint64_t i = 2; i < SERIALS; i++) {
                uint64_t above = w->memcgs[i].parent;

                if (!w->memcgs[i].seen || i == top || !is_in(w, i, top) || !w->places[FINDING_SUBTREE][i].common.above)
                        continue;
                while (above != top && !w->places[FINDING_SUBTREE][above].common.above)
                        above = w->memcgs[above].parent;
                if (above == top)
                        sum += whole(w, i);
        }
        return sum;
}

static FindingLimit stricter(FindingLimit a, FindingLimit b) {
        if (!a.enabled || !b.enabled)
                return a.enabled ? a : b;
        return (FindingLimit){
                .enabled = true,
                .on = a.on < b.on ? a.on : b.on,
                .off = a.off < b.off ? a.off : b.off,
                .min_age_usec = a.min_age_usec < b.min_age_usec ? a.min_age_usec : b.min_age_usec,
        };
}

static bool limits_same(const World *w) {
        const FindingLimit *a = &w->pattern.overhead, *b = &w->pattern_before;
        bool same = a->enabled == b->enabled && a->on == b->on && a->off == b->off;

        for (size_t i = 0; i < _FINDING_KIND_MAX; i++) {
                a = &w->s.limits.limit[i];
                b = &w->before.limit[i];
                same &= a->enabled == b->enabled && a->on == b->on && a->off == b->off;
        }
        return same;
}

static void go_on(const World *w, Above *a, const Place *seed, const FindingLimit *l, uint64_t value, bool at_least, bool fresh) {
        if (seed && !a->above)
                *a = (Above){ true, seed->exact, seed->since, 0 };
        if (seed && a->reached < seed->peak)
                a->reached = seed->peak;
        if (!l->enabled) {
                a->above = false;
        } else if (a->above && (at_least || (value >= l->off && a->reached >= l->on))) {
                a->exact &= l->on >= a->reached;
                a->reached = l->on < a->reached ? l->on : a->reached;
        } else {
                *a = (Above){ value >= l->on, fresh, w->now, l->on };
        }
        if (!a->above)
                *a = (Above){};
}

static void expect_raise(World *w, FindingKind kind, uint64_t serial, uint64_t limit, uint64_t off, uint64_t value) {
        Place *p = &w->places[kind][serial];

        p->stands = w->raised[kind][serial] = true;
        p->limit = limit;
        p->off = off;
        p->peak = p->value = value;
        p->own = false;
        w->n_raised++;
}

static void expect_clear(World *w, FindingKind kind, uint64_t serial, FindingEnd end) {
        w->places[kind][serial].stands = false;
        w->cleared[kind][serial] = true;
        w->ends[kind][serial] = end;
        w->n_cleared++;
}

/* A value against a limit that is known to be in force: whether what stands goes. */
static bool judge(World *w, FindingKind kind, uint64_t serial, const FindingLimit *l, uint64_t value, bool at_least, bool own, uint64_t reached) {
        Place *p = &w->places[kind][serial];

        if (!at_least || value > p->value)
                p->value = value;
        if (p->value > p->peak)
                p->peak = p->value;
        if (!l->enabled) {
                expect_clear(w, kind, serial, FINDING_END_LIMIT);
                return false;
        }
        if (at_least)
                return true;
        if (value < l->off || (p->peak < l->on && reached < l->on)) {
                expect_clear(w, kind, serial, own != p->own || value >= p->off ? FINDING_END_LIMIT : FINDING_END_BELOW);
                return false;
        }
        p->off = l->off;
        p->own = own;
        return true;
}

static void expect_dying(World *w, FindingKind kind, uint64_t serial) {
        const FindingLimit *l = &w->s.limits.limit[kind];
        const Memcg *m = &w->memcgs[serial];
        Place *p = &w->places[kind][serial];
        bool has = !w->s.no_pins && (kind == FINDING_SWAP ? m->id_refs : m->writebacks) > 0;
        bool knows = !w->s.no_pins && (kind == FINDING_SWAP || !w->s.writeback_unknown);
        uint64_t value = m->units * 1000;

        if (p->stands && !m->seen) {
                if (w->s.input.complete)
                        expect_clear(w, kind, serial, FINDING_END_GONE);
        } else if (p->stands) {
                if (judge(w, kind, serial, l, value, false, false, 0) && knows && !has)
                        expect_clear(w, kind, serial, FINDING_END_BELOW);
        } else if (m->seen && m->css == STATE_DYING && has && l->enabled && value >= l->on) {
                Age age = m->age.serial ? m->age : (Age){ serial, w->now, false };

                if (w->now - age.boot_usec < l->min_age_usec)
                        return;
                p->since = age.boot_usec;
                p->exact = age.exact;
                expect_raise(w, kind, serial, l->on, l->off, value);
        }
}

static void expect_subtree(World *w, uint64_t serial) {
        const FindingLimit *common = &w->s.limits.limit[FINDING_SUBTREE];
        Memcg *m = &w->memcgs[serial];
        Place *p = &w->places[FINDING_SUBTREE][serial];
        bool fresh = w->judged[FINDING_SUBTREE] && limits_same(w), at_least = !w->s.input.complete, own;
        uint64_t all = whole(w, serial), part = all - answered(w, serial);
        FindingLimit mine = {};

        if (!m->seen || m->css != STATE_LIVE) {
                if (p->stands && (m->seen || w->s.input.complete))
                        expect_clear(w, FINDING_SUBTREE, serial, m->seen ? FINDING_END_REMOVED : FINDING_END_GONE);
                if (m->seen || w->s.input.complete)
                        p->common = p->whole = (Above){};
                return;
        }
        if (m->parent == 1 && serial % 2 == 0)
                mine = w->pattern.overhead;
        if (m->has_mark)
                mine = stricter(mine, (FindingLimit){ true, m->mark, m->mark - m->mark / 10, common->min_age_usec });
        own = mine.enabled;
        if (own)
                mine = stricter(mine, *common);

        go_on(w, &p->common, p->stands && (!p->own || !own) ? p : NULL, common, part, at_least, fresh);
        go_on(w, &p->whole, p->stands ? p : NULL, &mine, all, at_least, fresh && !m->has_mark);
        if (p->stands) {
                bool stays = judge(w, FINDING_SUBTREE, serial, own ? &mine : common, own ? all : part, at_least, own,
                                   own ? p->whole.reached : p->common.reached);

                assert_int_equal(stays, own ? p->whole.above : p->common.above);
        } else {
                const Above *a = own ? &p->whole : &p->common;
                const FindingLimit *l = own ? &mine : common;

                if (!a->above || (own ? all : part) < l->on || w->now - a->since < l->min_age_usec)
                        return;
                p->since = a->since;
                p->exact = a->exact;
                expect_raise(w, FINDING_SUBTREE, serial, l->on, l->off, own ? all : part);
                p->own = own;
        }
}

/* An incomplete census keeps the times of those that it lacks, as many as it has memcgs, lowest serials first. */
static void expect_forgotten(World *w) {
        size_t room = 0;

        for (uint64_t i = 1; i < SERIALS; i++) {
                const Place *p = &w->places[FINDING_SUBTREE][i];

                room += w->memcgs[i].seen;
                room -= w->memcgs[i].seen && (p->common.above || p->whole.above);
        }
        for (uint64_t i = 1; i < SERIALS; i++) {
                Place *p = &w->places[FINDING_SUBTREE][i];

                if (w->memcgs[i].seen || !(p->common.above || p->whole.above))
                        continue;
                if (room > 0)
                        room--;
                else
                        p->common = p->whole = (Above){};
        }
}

static void expect_host(World *w, FindingKind kind) {
        FindingLimit l = w->s.limits.limit[kind];
        Place *p = &w->places[kind][0];
        bool at_least = !w->s.input.complete, known = true, fresh = w->judged[kind] && limits_same(w);
        uint64_t value = 0;

        for (uint64_t i = 1; i < SERIALS; i++) {
                if (!w->memcgs[i].seen)
                        continue;
                if (kind == FINDING_HOST)
                        value += w->memcgs[i].units * 1000;
                if (kind == FINDING_DYING)
                        value += w->memcgs[i].css == STATE_DYING;
                if (kind == FINDING_MEMCG_IDS)
                        value++;
        }
        if (kind == FINDING_STRANDED) {
                known = w->s.input.ids_in_use_known;
                value = 64 * 4096 - w->s.input.ids_in_use;
        }
        if (kind == FINDING_DYING_GROWTH) {
                known = w->s.input.growth_known;
                value = w->s.input.growth_per_hour < 0 ? 0 : (uint64_t)w->s.input.growth_per_hour;
                at_least = false;
        }
        if (kind == FINDING_DEGRADED) {
                value = w->s.input.degraded != NULL;
                l.on = l.off = 1;
                at_least = false;
        }
        w->judged[kind] = known && !at_least;
        if (!known && l.enabled) {
                if (p->stands) /* keeps what it can tell */
                        go_on(w, &p->common, p, &l, p->peak, true, false);
                return;
        }
        go_on(w, &p->common, p->stands ? p : NULL, &l, value, at_least, fresh);
        if (p->stands) {
                bool stays = judge(w, kind, 0, &l, value, at_least, false, p->common.reached);

                assert_int_equal(stays, p->common.above);
        } else if (p->common.above && value >= l.on && w->now - p->common.since >= l.min_age_usec) {
                p->since = p->common.since;
                p->exact = p->common.exact;
                expect_raise(w, kind, 0, l.on, l.off, value);
        }
}

static void expect(World *w) {
        w->n_raised = w->n_cleared = 0;
        memset(w->raised, 0, sizeof(w->raised));
        memset(w->cleared, 0, sizeof(w->cleared));
        for (uint64_t i = 2; i < SERIALS; i++) {
                expect_dying(w, FINDING_WRITEBACK, i);
                expect_dying(w, FINDING_SWAP, i);
        }
        /* Children have higher serials than their parents. */
        for (uint64_t i = SERIALS - 1; i > 1; i--)
                expect_subtree(w, i);
        if (!w->s.input.complete)
                expect_forgotten(w);
        w->judged[FINDING_SUBTREE] = w->s.input.complete;
        for (FindingKind kind = FINDING_HOST; kind < _FINDING_KIND_MAX; kind++)
                expect_host(w, kind);
        w->before = w->s.limits;
        w->pattern_before = w->pattern.overhead;
}

static void check_evidence(const World *w, const Finding *f) {
        const Memcg *m = &w->memcgs[f->serial];

        assert_true(f->value >= f->limit);
        assert_true(f->since_boot_usec <= w->now);
        assert_int_equal(f->raised_boot_usec, w->now);
        if (f->kind == FINDING_WRITEBACK) {
                assert_int_equal(f->pin_refs, m->writebacks);
                assert_int_equal(f->n_devices, m->writebacks);
                assert_string_equal(f->device, "7:0");
        } else if (f->kind == FINDING_SWAP) {
                assert_int_equal(f->pin_entries, m->id_refs);
        }
        assert_int_equal(f->path != NULL, finding_kind_is_memcg(f->kind));
        assert_int_equal(f->text != NULL, f->kind == FINDING_DEGRADED);
}

static void check_changes(World *w) {
        const FindingChange *changes;
        uint64_t last_id = 0;
        size_t n;

        changes = findings_changes(w->s.findings, &n);
        assert_int_equal(n, w->n_raised + w->n_cleared);
        for (size_t i = 0; i < n; i++) {
                const Finding *f = changes[i].finding;
                Place *p = &w->places[f->kind][f->serial];

                assert_int_equal(changes[i].raised, i >= w->n_cleared);
                if (i == w->n_cleared)
                        last_id = 0;
                assert_true(f->id > last_id);
                last_id = f->id;
                if (changes[i].raised) {
                        assert_true(w->raised[f->kind][f->serial]);
                        assert_int_equal(f->id, w->next_id++);
                        p->id = f->id;
                        check_evidence(w, f);
                } else {
                        assert_true(w->cleared[f->kind][f->serial]);
                        assert_int_equal(changes[i].end, w->ends[f->kind][f->serial]);
                        assert_int_equal(f->id, p->id);
                }
        }
}

/* Each serial of the union once, as far as it was seen. */
static uint64_t sum_subtrees(const World *w) {
        uint64_t sum = 0;

        for (uint64_t i = 1; i < SERIALS; i++)
                for (uint64_t k = i; w->memcgs[i].seen && k != 0; k = w->memcgs[k].parent)
                        if (w->places[FINDING_SUBTREE][k].stands) {
                                sum += w->memcgs[i].units * 1000;
                                break;
                        }
        return sum;
}

static void check_standing(const World *w) {
        size_t n = 0;

        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                size_t of_kind = 0;

                for (uint64_t serial = 0; serial < SERIALS; serial++) {
                        const Finding *f = findings_find(w->s.findings, kind, serial);
                        const Place *p = &w->places[kind][serial];

                        assert_int_equal(f != NULL, p->stands);
                        if (!f)
                                continue;
                        of_kind++;
                        assert_int_equal(f->id, p->id);
                        assert_int_equal(f->limit, p->limit);
                        assert_int_equal(f->value, p->value);
                        if (kind >= FINDING_SUBTREE) {
                                assert_int_equal(f->since_boot_usec, p->since);
                                assert_int_equal(f->since_exact, p->exact);
                        }
                }
                assert_int_equal(findings_count_kind(w->s.findings, kind), of_kind);
                n += of_kind;
        }
        assert_int_equal(findings_count(w->s.findings), n);
        for (size_t i = 0; i < n; i++) {
                const Finding *f = findings_get(w->s.findings, i);

                assert_true(i == 0 || f->id > findings_get(w->s.findings, i - 1)->id);
                assert_ptr_equal(findings_find(w->s.findings, f->kind, f->serial), f);
        }
        if (w->s.input.complete)
                assert_int_equal(findings_sum_bytes(w->s.findings, FINDING_SUBTREE), sum_subtrees(w));
}

/* Another daemon of the same boot: what stands stands on, what waits for its age begins anew. */
static void start_anew(World *w) {
        char *text = scene_state(w->s.findings), *again;
        size_t n = findings_count(w->s.findings);

        findings_free(w->s.findings);
        assert_int_equal(findings_new(&w->s.findings), 0);
        assert_int_equal(findings_parse(w->s.findings, text, strlen(text), "boot", NULL), n);
        again = scene_state(w->s.findings);
        assert_string_equal(text, again);
        free(again);
        free(text);
        memset(w->judged, 0, sizeof(w->judged));
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                for (uint64_t serial = 0; serial < SERIALS; serial++)
                        w->places[kind][serial].common = w->places[kind][serial].whole = (Above){};
}

static void live(Random *random, size_t *raised, size_t *cleared) {
        char pattern[] = "even";
        World *w = calloc(1, sizeof(*w));

        assert_non_null(w);
        scene_start(&w->s);
        w->random = *random;
        w->now = 3600 * SECOND;
        w->next_id = 1;
        w->memcgs[1] = (Memcg){ .exists = true, .css = STATE_LIVE };
        w->next_serial = 2;
        w->pattern.pattern = pattern;
        w->s.limits.subtrees = &w->pattern;
        w->s.limits.n_subtrees = 1;
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                change_limit(w, &w->s.limits.limit[kind]);
        for (size_t step = 0; step < STEPS; step++) {
                change_world(w);
                take_census(w);
                expect(w);
                check_changes(w);
                check_standing(w);
                *raised += w->n_raised;
                *cleared += w->n_cleared;
                if (once_in(w, 30))
                        start_anew(w);
        }
        *random = w->random;
        scene_done(&w->s);
        free(w);
}

static void test_generated(_unused_ void **state) {
        Random random = random_start(2718);
        size_t raised = 0, cleared = 0;

        for (size_t round = 0; round < 40; round++)
                live(&random, &raised, &cleared);
        printf("# %zu raised, %zu cleared\n", raised, cleared);
        assert_true(raised > 1000 && cleared > 1000);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_generated) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
