/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* support: what this kernel can and cannot give, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "daemon/json.h"
#include "source.h"
#include "table.h"
#include "verb.h"

/* By number, since the kernel's header may be older than the kernel. */
static const struct {
        unsigned bit;
        const char *name;
} capabilities[] = {
        { 39, "CAP_BPF" },
        { 38, "CAP_PERFMON" },
        { 21, "CAP_SYS_ADMIN" },
};

typedef struct Answers {
        const ProbeFacts *facts;
        const ProbeFeature *features;
        size_t n_features;
        const Reading *reading;
        const char *cache; /* that units come from, NULL when the kernel did not name it */
        bool effective_known;
        uint64_t effective; /* capabilities of this process */
        const char *error;  /* why there is no census, and perhaps not even a probe: NULL when there is one */
} Answers;

static bool read_effective(uint64_t *ret) {
        FILE *f = fopen("/proc/self/status", "re");
        char line[256];
        bool found = false;

        if (!f)
                return false;
        while (!found && fgets(line, sizeof line, f))
                found = sscanf(line, "CapEff: %" SCNx64, ret) == 1;
        (void)fclose(f);
        return found;
}

static bool has_capability(const Answers *a, size_t i) {
        return a->effective >> capabilities[i].bit & 1;
}

/* --------------------------------------------------------------------------------------------------------------- facts */

static void label(Text *t, const char *name) {
        text_add(t, "%12s: ", name);
}

/* "4 (0-2,5)" */
static void add_nodes(Text *t, uint64_t nodes) {
        bool first = true;

        text_add(t, "%d possible (", __builtin_popcountll(nodes));
        for (unsigned n = 0; n < SW_NODES_MAX; n++) {
                unsigned last = n;

                if (!(nodes >> n & 1))
                        continue;
                while (last + 1 < SW_NODES_MAX && (nodes >> (last + 1) & 1))
                        last++;
                text_add(t, "%s%u", first ? "" : ",", n);
                if (last > n)
                        text_add(t, "-%u", last);
                n = last;
                first = false;
        }
        text_add_string(t, ")");
}

static void add_facts(Text *t, const Answers *a) {
        const ProbeFacts *facts = a->facts;

        label(t, "Kernel");
        text_add(t, "%s\n", facts->release);
        label(t, "Hierarchy");
        text_add(t, "%s\n", facts->v2 ? "v2" : "v1");
        label(t, "Nodes");
        add_nodes(t, facts->possible_nodes);
        text_add_string(t, "\n");
        label(t, "Layout");
        text_add_string(t, probe_layout_to_string(facts->layout));
        if (facts->ids_per_unit > 0) {
                text_add(t, ", %" PRIu32 " ids a unit\n", facts->ids_per_unit);
                label(t, "Unit");
                text_add(t, "%" PRIu32 " bytes", facts->unit_struct_bytes);
                if (a->reading)
                        text_add(t, ", takes %" PRIu64, a->reading->census->unit_alloc_bytes);
                if (a->cache)
                        text_add(t, " from %s", a->cache);
        }
        text_add_string(t, "\n");
        label(t, "Allocation");
        text_add(t, "%s\n", a->reading ? census_allocation_to_string(a->reading->census->allocation) : "unknown");
}

static void add_capabilities(Text *t, const Answers *a) {
        label(t, "Capabilities");
        if (!a->effective_known)
                text_add_string(t, "not known");
        for (size_t i = 0; a->effective_known && i < ELEMENTSOF(capabilities); i++)
                text_add(t, "%s%s %s", i > 0 ? ", " : "", capabilities[i].name, has_capability(a, i) ? "yes" : "no");
        text_add_string(t, "\n");
}

/* --------------------------------------------------------------------------------------------------------------- table */

static int cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const Answers *a = userdata;
        const ProbeFeature *f = a->features + row;

        if (column == 0)
                text_add_string(ret, f->name);
        else if (column == 1)
                text_add_string(ret, f->available ? "yes" : "no");
        else
                text_add_name(ret, format, f->reason[0] ? f->reason : "-", f->reason[0] ? strlen(f->reason) : 1);
        return 0;
}

static const char *colour(void *userdata, size_t row, size_t column) {
        const Answers *a = userdata;

        return column == 1 ? (a->features[row].available ? "green" : "red") : NULL;
}

static int print_text(const Options *options, const Answers *a) {
        static const TableColumn columns_[] = { { "FEATURE", false, 0, false }, { "HERE", false, 0, false }, { "REASON", false, 0, true } };
        Table table = {
                .columns = columns_,
                .n_columns = ELEMENTSOF(columns_),
                .n_rows = a->n_features,
                .noheadings = option_given(options, OPTION_NOHEADINGS),
                .cell = cell,
                .colour = colour,
                .userdata = (void *)(uintptr_t)a,
        };
        Format format;
        Text t = {};
        int r;

        format_detect(&format, false);
        if (!table.noheadings) {
                add_facts(&t, a);
                add_capabilities(&t, a);
                text_add_string(&t, "\n");
        }
        r = t.failed ? -ENOMEM : 0;
        if (r >= 0) {
                (void)fputs(text_get(&t), stdout);
                r = table_print(&table, &format);
        }
        text_done(&t);
        return r;
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static json_t *capabilities_object(const Answers *a) {
        json_t *o;
        int r = 0;

        if (!a->effective_known)
                return json_null();
        o = json_object();
        for (size_t i = 0; i < ELEMENTSOF(capabilities); i++)
                r |= json_put_bool(o, capabilities[i].name, has_capability(a, i));
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}

static json_t *nodes_array(uint64_t nodes) {
        json_t *array = json_array();
        int r = 0;

        for (unsigned n = 0; n < SW_NODES_MAX; n++)
                if (nodes >> n & 1)
                        r |= json_array_append_new(array, json_integer(n));
        if (r == 0)
                return array;
        json_decref(array);
        return NULL;
}

static json_t *features_array(const Answers *a) {
        json_t *features = json_array();
        int r = 0;

        for (size_t i = 0; i < a->n_features; i++) {
                const ProbeFeature *f = a->features + i;
                json_t *feature = json_object();

                r |= json_put_text(feature, "name", f->name);
                r |= json_put_bool(feature, "available", f->available);
                r |= json_put_bytes(feature, "reason", f->reason[0] ? f->reason : NULL, strlen(f->reason));
                r |= json_array_append_new(features, feature);
        }
        if (r == 0)
                return features;
        json_decref(features);
        return NULL;
}

/* What can be said of the host when the kernel gives nothing at all. */
static json_t *bare_host(void) {
        struct utsname u;
        json_t *o;

        if (uname(&u) < 0)
                return json_null();
        o = json_object();
        if (json_put_bytes(o, "kernel", u.release, strlen(u.release)) == 0)
                return o;
        json_decref(o);
        return NULL;
}

static int print_json(const Answers *a) {
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_put(o, "host", a->facts ? json_host(a->facts, a->reading) : bare_host());
        r |= json_put(o, "nodes", a->facts ? nodes_array(a->facts->possible_nodes) : json_null());
        r |= json_put_text(o, "unit_cache", a->cache);
        r |= json_put(o, "features", a->features ? features_array(a) : json_null());
        r |= json_put(o, "capabilities", capabilities_object(a));
        r |= json_put_bytes(o, "error", a->error, a->error ? strlen(a->error) : 0);
        if (r < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        return json_write_value(stdout, o);
}

/* ---------------------------------------------------------------------------------------------------------------- verb */

/* The kernel gives nothing at all: what can be said without it may still help whoever reads the report. */
static void print_without_probe(const Answers *a) {
        struct utsname u;
        Text t = {};

        if (uname(&u) >= 0) {
                label(&t, "Kernel");
                text_add(&t, "%s\n", u.release);
        }
        add_capabilities(&t, a);
        (void)fputs(text_get(&t), stdout);
        text_done(&t);
}

ExitCode verb_support(const Options *options) {
        _cleanup_(drop_probe) Probe *probe = NULL;
        _cleanup_(drop_reading) Reading *reading = NULL;
        Answers a = {};
        ProbeError error = {};
        bool json = option_given(options, OPTION_JSON);
        ExitCode code;
        int r;

        a.effective_known = read_effective(&a.effective);
        r = probe_new(&probe, &error);
        if (r < 0) {
                error.error = r;
                a.error = error.text[0] ? error.text : strerror(-r);
                if (!json)
                        print_without_probe(&a);
                code = json ? exit_from_output(print_json(&a)) : CTL_EXIT_OK;
                return code == CTL_EXIT_OK ? source_failed(&error) : code;
        }

        a.facts = probe_facts(probe);
        a.features = probe_features(probe, &a.n_features);
        /* Allocation and cache show in a census only; without one they are unknown, which is an answer too. */
        r = reading_new(&reading, probe, READING_RINGS, &error);
        if (r >= 0) {
                a.reading = reading;
                if (!probe_unit_cache(probe, &a.cache))
                        a.cache = NULL;
        } else
                a.error = error.text[0] ? error.text : strerror(-r);

        r = json ? print_json(&a) : print_text(options, &a);
        code = exit_from_output(r);
        if (code != CTL_EXIT_OK || a.reading)
                return code;
        if (!error.error)
                error.error = -EIO;
        return source_failed(&error);
}
