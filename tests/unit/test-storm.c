/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Storms: how much is told of how many findings. The findings are made here, without the room that finds them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The room itself, with memory that can run out. */
static unsigned allocations_left = UINT32_MAX;

static void *scarce_calloc(size_t n, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left--;
        return calloc(n, size);
}

static void *scarce_realloc(void *p, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left--;
        return realloc(p, size);
}

#define calloc scarce_calloc
#define realloc scarce_realloc
#include "../../daemon/storm.c"
#undef calloc
#undef realloc

#include "builder.h"
#include "check.h"

#define CREATORS 10000
#define FINDINGS 20000

/* Those of the real room that storms need, over a table that the tests fill. */
struct Findings {
        Finding *all[FINDINGS];
        size_t n;
        FindingChange changes[FINDINGS];
        size_t n_changes;
        Finding *old[FINDINGS]; /* cleared in this census */
        size_t n_old;
        uint64_t id;
};

const FindingChange *findings_changes(const Findings *f, size_t *ret_n) {
        *ret_n = f->n_changes;
        return f->n_changes > 0 ? f->changes : NULL;
}

size_t findings_count(const Findings *f) {
        return f->n;
}

const Finding *findings_get(const Findings *f, size_t i) {
        return i < f->n ? f->all[i] : NULL;
}

/* All that a test has. */
typedef struct Fixture {
        Findings *findings;
        Storm *storm;
        const StormEntry *entries;
        size_t n;
} Fixture;

static void fixture_start(Fixture *f) {
        *f = (Fixture){ .findings = calloc(1, sizeof(Findings)) };
        assert_non_null(f->findings);
        assert_int_equal(storm_new(&f->storm), 0);
}

static void finding_free(Finding *f) {
        free(f->creator);
        free(f);
}

/* A new census: what was cleared in the last one is no more. */
static void next_census(Fixture *f) {
        for (size_t i = 0; i < f->findings->n_old; i++)
                finding_free(f->findings->old[i]);
        f->findings->n_old = f->findings->n_changes = 0;
}

static void fixture_done(Fixture *f) {
        next_census(f);
        while (f->findings->n > 0)
                finding_free(f->findings->all[--f->findings->n]);
        free(f->findings);
        assert_null(storm_free(f->storm));
}

/* creator NULL: about the host. */
static Finding *raise_one(Fixture *f, FindingKind kind, const char *creator, uint64_t bytes) {
        Findings *t = f->findings;
        Finding *new = calloc(1, sizeof(*new));

        assert_non_null(new);
        assert_true(t->n < FINDINGS && t->n_changes < FINDINGS);
        new->id = ++t->id;
        new->kind = kind;
        new->creator = creator ? strdup(creator) : NULL;
        new->bytes = bytes;
        new->units = 2;
        new->since_boot_usec = 1000000 - t->id;
        t->all[t->n++] = new;
        t->changes[t->n_changes++] = (FindingChange){ .raised = true, .finding = new };
        return new;
}

/* The oldest one of that kind and creator. */
static const Finding *clear_one(Fixture *f, FindingKind kind, const char *creator, FindingEnd end) {
        Findings *t = f->findings;
        size_t i = 0;
        Finding *old;

        while (i < t->n && (t->all[i]->kind != kind || !creator != !t->all[i]->creator || (creator && strcmp(creator, t->all[i]->creator) != 0)))
                i++;
        assert_true(i < t->n);
        old = t->all[i];
        memmove(&t->all[i], &t->all[i + 1], (t->n - i - 1) * sizeof(*t->all));
        t->n--;
        t->old[t->n_old++] = old;
        t->changes[t->n_changes++] = (FindingChange){ .end = end, .finding = old };
        return old;
}

static void update(Fixture *f) {
        int r = storm_update(f->storm, f->findings);

        assert_true(r >= 0);
        f->entries = storm_entries(f->storm, &f->n);
        assert_int_equal(r, f->n);
}

/* So many are raised, so many cleared, of one creator. */
static void census(Fixture *f, unsigned raised, unsigned cleared) {
        next_census(f);
        for (unsigned i = 0; i < cleared; i++)
                clear_one(f, FINDING_SWAP, "c", FINDING_END_GONE);
        for (unsigned i = 0; i < raised; i++)
                raise_one(f, FINDING_SWAP, "c", 100);
        update(f);
}

static void assert_single(const StormEntry *e, const Finding *finding, bool raised, FindingEnd end) {
        assert_int_equal(e->kind, raised ? STORM_RAISED : STORM_CLEARED);
        assert_int_equal(e->finding_kind, finding->kind);
        assert_ptr_equal(e->finding, finding);
        assert_int_equal(e->end, end);
        assert_int_equal(e->raised, raised);
        assert_int_equal(e->cleared, !raised);
        assert_int_equal(e->standing, 0);
        assert_int_equal(e->bytes, 0);
        if (finding->creator)
                assert_string_equal(e->creator, finding->creator);
        else
                assert_null(e->creator);
}

static void assert_group(const StormEntry *e, StormKind kind, FindingKind finding_kind, const char *creator, uint64_t raised, uint64_t cleared,
                         uint64_t standing) {
        assert_int_equal(e->kind, kind);
        assert_int_equal(e->finding_kind, finding_kind);
        assert_string_equal(e->creator, creator);
        assert_int_equal(e->raised, raised);
        assert_int_equal(e->cleared, cleared);
        assert_int_equal(e->standing, standing);
        assert_int_equal(e->units, standing * 2);
        assert_int_equal(e->finding == NULL, kind == STORM_ENDS);
}

/* One entry of the creator "c", and no other. */
static void assert_only(const Fixture *f, StormKind kind, uint64_t raised, uint64_t cleared, uint64_t standing) {
        assert_int_equal(f->n, 1);
        assert_group(&f->entries[0], kind, FINDING_SWAP, "c", raised, cleared, standing);
        assert_int_equal(f->entries[0].bytes, standing * 100);
}

static void test_singles(_unused_ void **state) {
        const Finding *a, *b, *host;
        Fixture f;

        fixture_start(&f);
        update(&f);
        assert_int_equal(f.n, 0);
        a = raise_one(&f, FINDING_SWAP, "a", 10);
        b = raise_one(&f, FINDING_WRITEBACK, "a", 30);
        host = raise_one(&f, FINDING_HOST, NULL, 0);
        update(&f);
        assert_int_equal(f.n, 3);
        assert_single(&f.entries[0], host, true, 0);
        assert_single(&f.entries[1], b, true, 0);
        assert_single(&f.entries[2], a, true, 0);
        next_census(&f);
        update(&f);
        assert_int_equal(f.n, 0);
        assert_ptr_equal(clear_one(&f, FINDING_SWAP, "a", FINDING_END_LIMIT), a);
        assert_ptr_equal(clear_one(&f, FINDING_HOST, NULL, FINDING_END_BELOW), host);
        update(&f);
        assert_int_equal(f.n, 2);
        assert_single(&f.entries[0], host, false, FINDING_END_BELOW);
        assert_single(&f.entries[1], a, false, FINDING_END_LIMIT);
        fixture_done(&f);
}

/* Five are told one by one, also over several censuses; the sixth makes it a storm. */
static void test_begins(_unused_ void **state) {
        const Finding *first;
        Fixture f;

        fixture_start(&f);
        census(&f, 2, 0);
        assert_int_equal(f.n, 2);
        first = f.findings->all[0];
        assert_single(&f.entries[0], first, true, 0);
        census(&f, 3, 0);
        assert_int_equal(f.n, 3);
        next_census(&f);
        raise_one(&f, FINDING_SWAP, "c", 100)->since_boot_usec = 3;
        update(&f);
        assert_only(&f, STORM_BEGINS, 1, 0, 6);
        assert_ptr_equal(f.entries[0].finding, f.findings->all[5]);
        assert_int_equal(f.entries[0].oldest_boot_usec, 3);
        /* Another creator and another kind are other groups. */
        next_census(&f);
        raise_one(&f, FINDING_SWAP, "d", 1);
        raise_one(&f, FINDING_SUBTREE, "c", 2);
        raise_one(&f, FINDING_SWAP, "c", 3);
        update(&f);
        assert_int_equal(f.n, 2);
        assert_int_equal(f.entries[0].finding_kind, FINDING_SUBTREE);
        assert_string_equal(f.entries[1].creator, "d");
        /* Nor does it hold what is about the host, however much of it. */
        next_census(&f);
        for (unsigned i = 0; i < 20; i++)
                raise_one(&f, FINDING_HOST, NULL, i);
        update(&f);
        assert_int_equal(f.n, 20);
        fixture_done(&f);
}

static void test_goes_on_and_ends(_unused_ void **state) {
        Fixture f;

        fixture_start(&f);
        census(&f, 10, 0);
        assert_only(&f, STORM_BEGINS, 10, 0, 10);
        census(&f, 9, 0);
        assert_int_equal(f.n, 0);
        census(&f, 0, 0);
        assert_int_equal(f.n, 0);
        census(&f, 1, 0);
        assert_only(&f, STORM_GOES_ON, 1, 0, 20); /* twice 10 */
        census(&f, 0, 9);
        assert_int_equal(f.n, 0);
        census(&f, 28, 0);
        assert_int_equal(f.n, 0); /* 39: twice 19 would be less, but 20 is what was told */
        census(&f, 30, 29);
        assert_only(&f, STORM_GOES_ON, 30, 29, 40);
        census(&f, 0, 20);
        assert_only(&f, STORM_GOES_ON, 0, 20, 20); /* half of 40 */
        assert_ptr_equal(f.entries[0].finding, f.findings->all[0]); /* none was raised: of those that stand */
        census(&f, 1, 10);
        assert_int_equal(f.n, 0);
        census(&f, 0, 6);
        assert_only(&f, STORM_GOES_ON, 0, 6, 5); /* not fewer than five */
        census(&f, 0, 1);
        assert_only(&f, STORM_ENDS, 0, 1, 4);
        assert_int_equal(f.entries[0].oldest_boot_usec, f.findings->all[3]->since_boot_usec);
        /* Those that stand are told when they are cleared; and so is what comes. */
        census(&f, 0, 1);
        assert_int_equal(f.n, 1);
        assert_int_equal(f.entries[0].kind, STORM_CLEARED);
        census(&f, 2, 0);
        assert_int_equal(f.n, 2);
        assert_int_equal(f.entries[0].kind, STORM_RAISED);
        census(&f, 1, 0);
        assert_only(&f, STORM_BEGINS, 1, 0, 6);
        /* All at once. */
        census(&f, 0, 6);
        assert_only(&f, STORM_ENDS, 0, 6, 0);
        assert_int_equal(f.entries[0].oldest_boot_usec, 0);
        census(&f, 0, 0);
        assert_int_equal(f.n, 0);
        assert_null(f.storm->groups);
        fixture_done(&f);
}

/* The largest of what was raised now, though a larger one stands. */
static void test_largest(_unused_ void **state) {
        const Finding *largest;
        Fixture f;

        fixture_start(&f);
        raise_one(&f, FINDING_SWAP, "c", UINT64_MAX);
        update(&f);
        next_census(&f);
        for (uint64_t i = 0; i < 4; i++)
                raise_one(&f, FINDING_SWAP, "c", 10 * i);
        largest = raise_one(&f, FINDING_SWAP, "c", 31);
        raise_one(&f, FINDING_SWAP, "c", 29);
        update(&f);
        assert_int_equal(f.n, 1);
        assert_group(&f.entries[0], STORM_BEGINS, FINDING_SWAP, "c", 6, 0, 7);
        assert_ptr_equal(f.entries[0].finding, largest);
        assert_int_equal(f.entries[0].bytes, UINT64_MAX); /* no sum wraps */
        fixture_done(&f);
}

/* 10,000 at once from three creators: three entries, and three when all is over. */
static void test_ten_thousand(_unused_ void **state) {
        static const char *const creators[] = { "system.slice/run-r*.scope", "machine.slice/a", "\xff\x80" };
        Fixture f;

        fixture_start(&f);
        for (unsigned i = 0; i < 10000; i++)
                raise_one(&f, FINDING_WRITEBACK, creators[i % 3], 1 + i % 3);
        update(&f);
        assert_int_equal(f.n, 3);
        assert_group(&f.entries[0], STORM_BEGINS, FINDING_WRITEBACK, creators[2], 3333, 0, 3333); /* the largest first */
        assert_group(&f.entries[1], STORM_BEGINS, FINDING_WRITEBACK, creators[1], 3333, 0, 3333);
        assert_group(&f.entries[2], STORM_BEGINS, FINDING_WRITEBACK, creators[0], 3334, 0, 3334);
        assert_int_equal(f.entries[0].bytes, 3333 * 3);
        next_census(&f);
        while (f.findings->n > 0)
                clear_one(&f, FINDING_WRITEBACK, f.findings->all[0]->creator, FINDING_END_GONE);
        update(&f);
        assert_int_equal(f.n, 3);
        /* Nothing stands: all are of one size, and the order is that of their names. */
        assert_group(&f.entries[0], STORM_ENDS, FINDING_WRITEBACK, creators[1], 0, 3333, 0);
        assert_group(&f.entries[1], STORM_ENDS, FINDING_WRITEBACK, creators[0], 0, 3334, 0);
        assert_group(&f.entries[2], STORM_ENDS, FINDING_WRITEBACK, creators[2], 0, 3333, 0);
        fixture_done(&f);
}

/* A thousand a census, ten times: once that it began, then at 2,000, 4,000 and 8,000. */
static void test_trickle(_unused_ void **state) {
        size_t told = 0;
        Fixture f;

        fixture_start(&f);
        for (unsigned i = 1; i <= 10; i++) {
                census(&f, 1000, 0);
                if (i == 1)
                        assert_only(&f, STORM_BEGINS, 1000, 0, 1000);
                else if (i == 2 || i == 4 || i == 8)
                        assert_only(&f, STORM_GOES_ON, 1000, 0, i * 1000);
                else
                        assert_int_equal(f.n, 0);
                told += f.n;
        }
        assert_int_equal(told, 4);
        fixture_done(&f);
}

/* All that a census clears comes again in the same one; half of it in the next. */
static void test_flapping(_unused_ void **state) {
        Fixture f;

        fixture_start(&f);
        census(&f, 100, 0);
        for (unsigned i = 0; i < 20; i++) {
                census(&f, 100, 100);
                assert_int_equal(f.n, 0);
                census(&f, 0, 49);
                assert_int_equal(f.n, 0);
                census(&f, 49, 0);
                assert_int_equal(f.n, 0);
        }
        /* Around the edge of a storm it neither ends nor begins anew between five and five. */
        census(&f, 0, 94);
        assert_only(&f, STORM_GOES_ON, 0, 94, 6);
        for (unsigned i = 0; i < 20; i++) {
                census(&f, 0, 1);
                assert_int_equal(f.n, 0);
                census(&f, 1, 0);
                assert_int_equal(f.n, 0);
        }
        fixture_done(&f);
}

/* Each of another creator: the largest are told, the rest is a number. Storms go before. */
static void test_many_creators(_unused_ void **state) {
        uint64_t raised = 0, cleared = 0;
        char creator[32];
        Fixture f;

        fixture_start(&f);
        census(&f, 4, 0);
        next_census(&f);
        for (unsigned i = 0; i < CREATORS; i++) {
                (void)snprintf(creator, sizeof(creator), "creator-%u", i * 7919 % CREATORS);
                raise_one(&f, FINDING_SUBTREE, creator, 1000 + i);
        }
        for (unsigned i = 0; i < 2; i++)
                clear_one(&f, FINDING_SWAP, "c", FINDING_END_GONE);
        for (unsigned i = 0; i < 6; i++)
                raise_one(&f, FINDING_SWAP, "storm", 1);
        raise_one(&f, FINDING_HOST, NULL, 0);
        update(&f);
        assert_int_equal(f.n, STORM_ENTRIES_MAX + 1);
        assert_int_equal(f.entries[0].finding_kind, FINDING_HOST);
        assert_group(&f.entries[1], STORM_BEGINS, FINDING_SWAP, "storm", 6, 0, 6);
        for (size_t i = 2; i < STORM_ENTRIES_MAX; i++)
                assert_int_equal(f.entries[i].finding->bytes, 1000 + CREATORS - 1 - (i - 2));
        for (size_t i = 0; i < f.n; i++) {
                assert_int_equal(f.entries[i].kind == STORM_MORE, i == STORM_ENTRIES_MAX);
                raised += f.entries[i].raised;
                cleared += f.entries[i].cleared;
        }
        assert_int_equal(raised, CREATORS + 7);
        assert_int_equal(cleared, 2);
        assert_int_equal(f.entries[STORM_ENTRIES_MAX].cleared, 2);
        assert_null(f.entries[STORM_ENTRIES_MAX].finding);
        assert_null(f.entries[STORM_ENTRIES_MAX].creator);
        assert_int_equal(f.entries[STORM_ENTRIES_MAX].finding_kind, _FINDING_KIND_MAX);

        /* Nothing is kept of all those but the one storm. */
        next_census(&f);
        update(&f);
        assert_int_equal(f.n, 0);
        assert_non_null(f.storm->groups);
        assert_null(f.storm->groups->next);

        /* Exactly as many as there is room for: no note. */
        next_census(&f);
        for (unsigned i = 0; i < STORM_ENTRIES_MAX; i++) {
                (void)snprintf(creator, sizeof(creator), "exact-%u", i);
                raise_one(&f, FINDING_SUBTREE, creator, 1);
        }
        update(&f);
        assert_int_equal(f.n, STORM_ENTRIES_MAX);
        assert_int_equal(f.entries[STORM_ENTRIES_MAX - 1].kind, STORM_RAISED);
        next_census(&f);

        /* Storms that there was no room for were told as well: they do not begin again. */
        for (unsigned i = 0; i < 600; i++) {
                (void)snprintf(creator, sizeof(creator), "storm-%u", i / 6);
                raise_one(&f, FINDING_WRITEBACK, creator, 1);
        }
        update(&f);
        assert_int_equal(f.n, STORM_ENTRIES_MAX + 1);
        assert_int_equal(f.entries[STORM_ENTRIES_MAX].raised, (100 - STORM_ENTRIES_MAX) * 6);
        next_census(&f);
        for (unsigned i = 0; i < 100; i++) {
                (void)snprintf(creator, sizeof(creator), "storm-%u", i);
                raise_one(&f, FINDING_WRITEBACK, creator, 1);
        }
        update(&f);
        assert_int_equal(f.n, 0);
        fixture_done(&f);
}

/* After a restart nothing is told again: neither what stands, nor that there is a storm. */
static void test_resume(_unused_ void **state) {
        Fixture f;

        fixture_start(&f);
        census(&f, 5, 0);
        next_census(&f);
        for (unsigned i = 0; i < 50; i++)
                raise_one(&f, FINDING_WRITEBACK, "w", 1);
        raise_one(&f, FINDING_HOST, NULL, 1);
        update(&f);
        assert_int_equal(f.n, 2);

        storm_free(f.storm);
        assert_int_equal(storm_new(&f.storm), 0);
        next_census(&f);
        assert_int_equal(storm_resume(f.storm, f.findings), 0);
        f.entries = storm_entries(f.storm, &f.n);
        assert_int_equal(f.n, 0);
        update(&f);
        assert_int_equal(f.n, 0);
        /* Only the storm is remembered; how many were told is what stood. */
        assert_null(f.storm->groups->next);
        raise_one(&f, FINDING_WRITEBACK, "w", 1);
        update(&f);
        assert_int_equal(f.n, 0);
        next_census(&f);
        for (unsigned i = 0; i < 49; i++)
                raise_one(&f, FINDING_WRITEBACK, "w", 1);
        update(&f);
        assert_int_equal(f.n, 1);
        assert_group(&f.entries[0], STORM_GOES_ON, FINDING_WRITEBACK, "w", 49, 0, 100);
        /* The group with five that stand, told one by one. */
        census(&f, 0, 1);
        assert_int_equal(f.n, 1);
        assert_int_equal(f.entries[0].kind, STORM_CLEARED);
        census(&f, 2, 0);
        assert_only(&f, STORM_BEGINS, 2, 0, 6);

        /* What it was before is no more. */
        next_census(&f);
        while (f.findings->n > 0)
                clear_one(&f, f.findings->all[0]->kind, f.findings->all[0]->creator, FINDING_END_GONE);
        next_census(&f);
        assert_int_equal(storm_resume(f.storm, f.findings), 0);
        assert_null(f.storm->groups);
        census(&f, 6, 0);
        assert_only(&f, STORM_BEGINS, 6, 0, 6);
        fixture_done(&f);
}

/* Memory runs out at every place: nothing is told, and the second attempt tells everything. */
static void test_no_memory(_unused_ void **state) {
        Storm *none = (Storm *)&allocations_left;
        unsigned k = 0;
        Fixture f;
        int r;

        allocations_left = 0;
        assert_int_equal(storm_new(&none), -ENOMEM);
        allocations_left = UINT32_MAX;
        assert_ptr_equal(none, &allocations_left);

        fixture_start(&f);
        for (unsigned i = 0; i < 6; i++) {
                raise_one(&f, FINDING_SWAP, "a", 1);
                raise_one(&f, FINDING_SWAP, "b", 1);
        }
        raise_one(&f, FINDING_SWAP, "c", 1);
        for (;; k++) {
                allocations_left = k;
                r = storm_update(f.storm, f.findings);
                allocations_left = UINT32_MAX;
                f.entries = storm_entries(f.storm, &f.n);
                if (r >= 0)
                        break;
                assert_int_equal(r, -ENOMEM);
                assert_int_equal(f.n, 0);
        }
        assert_int_equal(k, 3); /* the array; of three groups the first, and the third */
        assert_int_equal(f.n, 3);
        assert_group(&f.entries[0], STORM_BEGINS, FINDING_SWAP, "a", 6, 0, 6);
        assert_group(&f.entries[1], STORM_BEGINS, FINDING_SWAP, "b", 6, 0, 6);
        assert_int_equal(f.entries[2].kind, STORM_RAISED);

        storm_free(f.storm);
        assert_int_equal(storm_new(&f.storm), 0);
        for (k = 0, r = -ENOMEM; r < 0; k++) {
                allocations_left = k;
                r = storm_resume(f.storm, f.findings);
                allocations_left = UINT32_MAX;
                assert_true(r == 0 || r == -ENOMEM);
        }
        assert_int_equal(k, 4); /* with three groups' worth of memory it went well */
        next_census(&f);
        update(&f);
        assert_int_equal(f.n, 0);
        fixture_done(&f);
}

static void test_names(_unused_ void **state) {
        assert_null(storm_free(NULL));
        assert_string_equal(storm_kind_to_string(STORM_RAISED), "raised");
        assert_string_equal(storm_kind_to_string(STORM_CLEARED), "cleared");
        assert_string_equal(storm_kind_to_string(STORM_BEGINS), "storm-begins");
        assert_string_equal(storm_kind_to_string(STORM_GOES_ON), "storm-goes-on");
        assert_string_equal(storm_kind_to_string(STORM_ENDS), "storm-ends");
        assert_string_equal(storm_kind_to_string(STORM_MORE), "more");
        assert_null(storm_kind_to_string(STORM_MORE + 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_singles),
                cmocka_unit_test(test_begins),
                cmocka_unit_test(test_goes_on_and_ends),
                cmocka_unit_test(test_largest),
                cmocka_unit_test(test_ten_thousand),
                cmocka_unit_test(test_trickle),
                cmocka_unit_test(test_flapping),
                cmocka_unit_test(test_many_creators),
                cmocka_unit_test(test_resume),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests_name("storm", tests, NULL, NULL);
}
