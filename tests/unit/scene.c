/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "scene.h"

#include <stdio.h>

/* Not assert_int_equal(): not all that use this are programs of cmocka. */
static void check(bool good, const char *what) {
        if (good)
                return;
        fprintf(stderr, "scene: %s\n", what);
        abort();
}

static uint64_t alloc_round(uint64_t struct_bytes, _unused_ bool vmalloc, _unused_ void *userdata) {
        return struct_bytes == 520 ? 1000 : 0;
}

void scene_start(Scene *s) {
        *s = (Scene){ .input = { .complete = true } };
        check(findings_new(&s->findings) == 0 && ages_new(&s->ages) == 0, "no memory");
}

static void drop_census(Scene *s) {
        s->pins = pins_free(s->pins);
        s->census = census_free(s->census);
}

void scene_done(Scene *s) {
        check(findings_free(s->findings) == NULL, "findings_free() returns something");
        ages_free(s->ages);
        drop_census(s);
        records_done(&s->walk);
        records_done(&s->evidence);
}

FindingLimit *scene_limit(Scene *s, FindingKind kind, uint64_t on, uint64_t off) {
        s->limits.limit[kind] = (FindingLimit){ .enabled = true, .on = on, .off = off };
        return &s->limits.limit[kind];
}

struct sw_memcg *scene_add(Scene *s, uint64_t serial, uint64_t parent, uint32_t css, const char *name, uint32_t units) {
        size_t at = s->walk.len;
        struct sw_memcg *m;

        m = records_add_memcg(&s->walk, serial, parent, css, name, strlen(name), 1);
        m->refs = 0;
        m->id_refs = 0;
        /* Enough slots for all, and of one length, as on a kernel that allocates on demand. */
        (void)records_add_node(&s->walk, serial, 0, 64 * 4096, 4096, units);
        return (struct sw_memcg *)(s->walk.bytes + at);
}

static int feed_pins(const struct sw_head *record, void *pins) {
        return pins_add(pins, record);
}

int scene_census(Scene *s, uint64_t boot_usec) {
        CensusOptions options = { .unit_struct_bytes = 520, .n_nodes = 1, .alloc = alloc_round };

        drop_census(s);
        s->census = census_of(&s->walk, &options);
        check(pins_new(&s->pins, s->census, SCENE_PAGE) == 0, "pins_new()");
        check(records_feed(&s->evidence, feed_pins, s->pins) == 0, "pins_add()");
        check(pins_seal(s->pins, !s->writeback_unknown) == 0, "pins_seal()");
        records_done(&s->walk);
        records_done(&s->evidence);
        s->input.census = s->census;
        s->input.pins = s->no_pins ? NULL : s->pins;
        s->input.ages = s->ages;
        s->input.boot_usec = boot_usec;
        return findings_update(s->findings, &s->limits, &s->input);
}

char *scene_state(const Findings *f) {
        char *text = NULL;
        size_t len = 0;
        FILE *file = open_memstream(&text, &len);

        check(file != NULL, "open_memstream()");
        check(findings_write(f, file, "boot") == 0, "findings_write()");
        check(fclose(file) == 0 && strlen(text) == len, "fclose()");
        return text;
}
