/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as the findings of the daemon before; then one census on top of them. */
#include <inttypes.h>

#include "finding.h"
#include "fuzz.h"

static char *write_text(const Findings *f, size_t *ret_len) {
        char *text = NULL;
        FILE *file = open_memstream(&text, ret_len);

        CHECK(file);
        CHECK(findings_write(f, file, "boot") == 0);
        CHECK(fclose(file) == 0);
        return text;
}

/* What is promised of whatever stands. */
static void check_standing(const Findings *f) {
        size_t n = findings_count(f), of_kinds = 0;

        for (size_t i = 0; i < n; i++) {
                const Finding *x = findings_get(f, i);

                CHECK(x->id > 0 && (i == 0 || x->id > findings_get(f, i - 1)->id));
                CHECK(findings_find(f, x->kind, x->serial) == x);
                CHECK((x->serial > 0) == finding_kind_is_memcg(x->kind));
                CHECK((x->path != NULL) == (x->serial > 0) && (x->creator != NULL) == (x->serial > 0));
                CHECK(!x->path || (x->path[0] == '/' && strlen(x->path) == x->path_len && x->path_len <= FINDING_PATH_MAX));
                CHECK((x->text != NULL) == (x->kind == FINDING_DEGRADED));
                CHECK(memchr(x->device, '\0', sizeof(x->device)));
        }
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                of_kinds += findings_count_kind(f, kind);
        CHECK(of_kinds == n);
}

/* What was written is read again as it was. */
static void check_again(const Findings *f) {
        size_t len = 0, again_len = 0;
        char *text = write_text(f, &len), *again;
        Findings *g = NULL;

        CHECK(findings_new(&g) == 0);
        CHECK(findings_parse(g, text, len, "boot", NULL) == (int)findings_count(f));
        again = write_text(g, &again_len);
        CHECK(len == again_len && memcmp(text, again, len) == 0);
        free(again);
        free(text);
        findings_free(g);
}

/* A host with nothing on it but the root, a live memcg and a dying one. */
static void check_census(Findings *f, bool complete) {
        FindingLimits limits = {};
        FindingInput input = { .complete = complete, .boot_usec = 1000, .degraded = "no events" };
        CensusOptions options = options_units(1);
        size_t before = findings_count(f), n = 0, raised = 0;
        const FindingChange *changes;
        Records walk = {};
        Census *census;
        Ages *ages = NULL;
        int r;

        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++)
                limits.limit[kind] = (FindingLimit){ .enabled = kind % 2 == 0, .on = 2, .off = 1 };
        records_add_simple(&walk, 1, 0, STATE_LIVE, "", 1, 1);
        records_add_simple(&walk, 2, 1, STATE_LIVE, "a", 1, 1);
        records_add_simple(&walk, 3, 1, STATE_DYING, "b", 1, 1);
        census = census_of(&walk, &options);
        CHECK(ages_new(&ages) == 0);
        input.census = census;
        input.ages = ages;
        r = findings_update(f, &limits, &input);
        changes = findings_changes(f, &n);
        CHECK(r >= 0 && (size_t)r == n);
        for (size_t i = 0; i < n; i++)
                raised += changes[i].raised;
        CHECK(findings_count(f) == before + raised - (n - raised));
        for (size_t i = 0; i < findings_count(f); i++) {
                const Finding *x = findings_get(f, i);

                CHECK(!complete || !finding_kind_is_memcg(x->kind) || x->serial <= 3);
                CHECK(finding_kind_is_memcg(x->kind) || x->kind % 2 == 0);
        }
        CHECK(findings_find(f, FINDING_DEGRADED, 0));
        CHECK(strcmp(findings_find(f, FINDING_DEGRADED, 0)->text, "no events") == 0);
        CHECK(findings_update(f, &limits, &input) == 0);
        check_standing(f);
        census_free(census);
        ages_free(ages);
        records_done(&walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        unsigned line = 0;
        Findings *f = NULL;
        int r;

        CHECK(findings_new(&f) == 0);
        r = findings_parse(f, (const char *)data, size, "boot", &line);
        CHECK(r == -EBADMSG || r == -ESTALE || r >= 0);
        CHECK((r == -EBADMSG) == (line > 0));
        CHECK(r < 0 || (size_t)r == findings_count(f));
        CHECK(r != -ESTALE || findings_count(f) == 0);
        check_standing(f);
        check_again(f);
        check_census(f, size % 2);
        findings_free(f);
        return 0;
}

static size_t put(uint8_t *buf, size_t size, size_t len, const char *s) {
        size_t n = strlen(s);

        if (n > size - len)
                n = size - len;
        memcpy(buf + len, s, n);
        return len + n;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char *const words[] = {
                " value=1",     " value=18446744073709551615", " peak=7",     " off=1",        " own=1",       " nested=1",  " bytes=1000",
                " units=2",     " since-exact=1",              " pin-refs=1", " device=8:0",   " devices=1",   " text=x",    " path=/a\\x20\\xff",
                " creator=a/*", " later=\\",                   " raised=5",   " refs-known=1", " refs=2",      " limit=3",   " since=",
                " path=",       " text=\\x00",                 "  ",          " kind=host",    " value=1 x\n", " serial=\t", "\n",
        };
        size_t len = 0, lines = 0;
        uint64_t id = 0;
        char text[160];

        if (random_once_in(random, 8))
                return fuzz_noise(random, buf, size);
        len = put(buf, size, len, "shrinkwatch findings 1 boot 1000\n");
        while (len + 90 < size && !random_once_in(random, 12)) {
                FindingKind kind = (FindingKind)random_below(random, _FINDING_KIND_MAX);
                bool memcg = finding_kind_is_memcg(kind);

                id += 1 + random_below(random, 5);
                (void)snprintf(text, sizeof(text), "id=%" PRIu64 " kind=%s", id, finding_kind_to_string(kind));
                len = put(buf, size, len, text);
                if (memcg) {
                        (void)snprintf(text, sizeof(text), " serial=%" PRIu64 " path=/p creator=c", 1 + random_below(random, 6));
                        len = put(buf, size, len, text);
                }
                if (kind == FINDING_DEGRADED)
                        len = put(buf, size, len, " text=a\\x20b");
                for (size_t i = random_below(random, 4); i > 0; i--)
                        /* Mostly such as there may be here, once each or not. */
                        len = put(buf, size, len, words[random_below(random, random_once_in(random, 10) ? ELEMENTSOF(words) : 12)]);
                len = put(buf, size, len, "\n");
                lines++;
        }
        (void)snprintf(text, sizeof(text), "end %zu\n", lines);
        len = put(buf, size, len, text);
        if (random_once_in(random, 5))
                buf[random_below(random, len)] = (uint8_t)random_u64(random);
        if (random_once_in(random, 8))
                len = random_below(random, len + 1);
        return len;
}
