/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* estimate: what units of 63 ids, and units on demand, would take. */
#include <inttypes.h>
#include <stdio.h>

#include "breakdown.h"
#include "daemon/estimate.h"
#include "daemon/json.h"
#include "daemon/sizeclass.h"
#include "source.h"
#include "table.h"
#include "verb.h"

/* The host that is known in public, by its own numbers. */
static const EstimateModel published = { .memcgs = 45000, .nodes = 4, .ids = 52480 };
#define PUBLISHED_GB 145.0

#define LISTS_TRIES 5U
#define PROSE_WIDTH 100U

/* What is printed: the estimate and where it comes from. */
typedef struct Forecast {
        Estimate estimate;
        const EstimateModel *model; /* NULL: this host */
        const ProbeFacts *facts;    /* of this host */
        const Reading *reading;
        Breakdown breakdown;  /* its memcgs: NULL when it was not asked for */
        const char *no_lists; /* why the lists cannot be read, NULL when they can */
        Format format;
} Forecast;

static uint64_t total_bytes(const EstimateVariant *v) {
        return add_sat_u64(v->unit_bytes, v->array_bytes);
}

static uint64_t model_alloc(uint64_t struct_bytes, bool vmalloc, void *userdata) {
        (void)userdata;
        return size_class_bytes(struct_bytes, 4096, vmalloc);
}

/* -------------------------------------------------------------------------------------------------------------- tables */

static const struct {
        const char *name, *json;
} variant_names[] = {
        { "now", "now" },
        { "units of 63 ids", "units_63" },
        { "63 ids, on demand", "on_demand" },
};

/* NULL: not known. */
static const EstimateVariant *variant(const Forecast *f, size_t i) {
        switch (i) {
        case 0:
                return &f->estimate.now;
        case 1:
                return &f->estimate.units_63;
        default:
                return f->estimate.on_demand_known ? &f->estimate.on_demand : NULL;
        }
}

static const TableColumn columns_[] = {
        { "VARIANT", false, 0, false }, { "IDS/UNIT", true, 0, false }, { "STRUCT", true, 0, false },
        { "ALLOC", true, 0, false },    { "UNITS", true, 0, false },    { "UNIT-BYTES", true, 0, false },
        { "ARRAYS", true, 0, false },   { "TOTAL", true, 0, false },    { "SAVED", true, 0, false },
};

static int cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const Forecast *f = userdata;
        const EstimateVariant *v = variant(f, row);
        uint64_t before = total_bytes(&f->estimate.now);

        if (column == 0)
                text_add_string(ret, row == 0 && f->model ? "of 64 ids" : variant_names[row].name);
        else if (!v || (v->ids_per_unit == 0 && column < 6) || (column == 8 && row == 0))
                text_add_string(ret, "-");
        else if (column == 1)
                text_add(ret, "%" PRIu32, v->ids_per_unit);
        else if (column == 2)
                text_add(ret, "%" PRIu64, v->unit_struct_bytes);
        else if (column == 3)
                text_add(ret, "%" PRIu64, v->unit_alloc_bytes);
        else if (column == 4)
                text_add(ret, "%" PRIu64, v->units);
        else if (column == 5)
                text_add_size(ret, format, v->unit_bytes);
        else if (column == 6)
                text_add_size(ret, format, v->array_bytes);
        else if (column == 7)
                text_add_size(ret, format, total_bytes(v));
        else if (total_bytes(v) <= before)
                text_add_percent(ret, before - total_bytes(v), before);
        else {
                text_add_string(ret, "-");
                text_add_percent(ret, total_bytes(v) - before, before);
        }
        return 0;
}

/* --------------------------------------------------------------------------------------------------------- assumptions */

static void add_published(Text *t, const Forecast *f) {
        Estimate e;
        uint64_t bytes;
        double gb, gib;

        if (estimate_model(&published, model_alloc, NULL, &e) < 0)
                return;
        bytes = total_bytes(&e.now);
        gb = (double)bytes / 1e9;
        gib = (double)bytes / (double)(1ULL << 30);
        text_add(t,
                 "Published for a host with 45,000 memory cgroups, 4 nodes and 52,480 ids: %.0f GB. %s gives %.1f GB or %.1f GiB, "
                 "%+.1f %% or %+.1f %%: the published numbers are rounded, and do not say which of the two they count in.\n",
                 PUBLISHED_GB,
                 f->model->memcgs == published.memcgs && f->model->nodes == published.nodes && f->model->ids == published.ids ?
                         "The formula" :
                         "For that host the formula",
                 gb, gib, 100.0 * (gb / PUBLISHED_GB - 1.0), 100.0 * (gib / PUBLISHED_GB - 1.0));
}

static void add_model_assumptions(Text *t, const Forecast *f) {
        text_add_string(t, "For ");
        text_add_count_of(t, f->model->memcgs, "memory cgroup", "memory cgroups");
        text_add_string(t, ", ");
        text_add_count_of(t, f->model->nodes, "possible node", "possible nodes");
        text_add_string(t, " and ");
        text_add_count_of(t, f->model->ids, "shrinker id", "shrinker ids");
        text_add(t,
                 ":\n"
                 "  units = memcgs x nodes x (ids / ids per unit, rounded up); here %" PRIu64 " x %" PRIu64 " x %" PRIu64 "\n"
                 "  total = units x alloc bytes + memcgs x nodes x alloc bytes of the array (24 bytes, 8 for each unit)\n"
                 "Alloc bytes are what the allocator takes: 520 bytes come from the cache of 1024, 512 from that of 512.\n"
                 "What units on demand would take depends on what the cgroups do: only a running host can tell.\n",
                 f->model->memcgs, f->model->nodes,
                 f->estimate.now.ids_per_unit ? (f->model->ids + f->estimate.now.ids_per_unit - 1) / f->estimate.now.ids_per_unit : 0);
        add_published(t, f);
}

/* What is in the number of units on demand for dying memcgs, and how far to trust it. */
static void add_dying(Text *t, const Forecast *f) {
        uint64_t dying = f->reading->census->totals.dying;
        const Estimate *e = &f->estimate;

        if (dying == 0)
                return;
        text_add_string(t, "On demand, ");
        text_add_count_of(t, dying, "dying memory cgroup", "dying memory cgroups");
        if (!e->units_dying_known) {
                text_add_string(t, dying == 1 ? " is" : " are");
                text_add_string(t, " left out: nothing here tells which units they had.\n");
                return;
        }
        text_add_string(t, dying == 1 ? " has " : " have ");
        if (e->units_dying_at_least)
                text_add_string(t, "at least ");
        text_add_count_of(t, e->units_dying, "unit", "units");
        text_add_string(t, e->units_dying_at_least ?
                                   ", those with a bit set: their lists have moved to the parent. The units without a set bit are not counted, so the total may be higher.\n" :
                                   ", which are counted: this kernel allocates on demand.\n");
}

static void add_host_assumptions(Text *t, const Forecast *f) {
        const CensusTotals *totals = &f->reading->census->totals;
        const Estimate *e = &f->estimate;

        text_add_string(t, "For ");
        text_add_count_of(t, totals->memcgs, "memory cgroup", "memory cgroups");
        text_add_string(t, ", ");
        text_add_count_of(t, f->facts->n_possible_nodes, "possible node", "possible nodes");
        text_add_string(t, " and room for ");
        text_add_count_of(t, totals->ids, "shrinker id", "shrinker ids");
        text_add_string(t, ", in bytes that the allocator takes. Assumed is:\n"
                           "  - units of 63 ids: all of them allocated on all nodes, for dying memory cgroups too;\n"
                           "  - on demand: a memory cgroup has a unit where it or one below it holds a list on a list_lru whose id is "
                           "in the unit, on all nodes; the root has all of its units; a dying one keeps those it had.\n");
        if (e->on_demand_known) {
                text_add_string(t, "Lists found: ");
                text_add_count(t, e->lists);
                text_add_string(t, estimate_unaccounted(f->reading->census) ?
                                           ". Accounting of kernel memory is off (cgroup.memory=nokmem): no memory cgroup below the root will hold one.\n" :
                                           ". They are those of this moment: who opens files on more file systems will hold more.\n");
                add_dying(t, f);
        } else {
                text_add_string(t, "On demand is not known");
                if (f->no_lists && f->no_lists[0]) {
                        text_add_string(t, ": ");
                        text_add_name(t, &f->format, f->no_lists, strlen(f->no_lists));
                }
                text_add_string(t, ".\n");
        }
        if (e->bits_known) {
                text_add_string(t, "Bits set now, the lower bound: ");
                text_add_count(t, e->bits);
                text_add_string(t, " in ");
                text_add_count_of(t, e->units_with_bits, "unit", "units");
                text_add_string(t, ".\n");
        }
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static json_t *variant_object(const Forecast *f, size_t i) {
        const EstimateVariant *v = variant(f, i);
        uint64_t before = total_bytes(&f->estimate.now), total;
        bool units;
        json_t *o;
        int r = 0;

        if (!v)
                return json_null();
        units = v->ids_per_unit > 0;
        total = total_bytes(v);
        o = json_object();
        r |= json_put_known(o, "ids_per_unit", units, v->ids_per_unit);
        r |= json_put_known(o, "unit_struct_bytes", units, v->unit_struct_bytes);
        r |= json_put_known(o, "unit_alloc_bytes", units, v->unit_alloc_bytes);
        r |= json_put_known(o, "units", units, v->units);
        r |= json_put_u64(o, "unit_bytes", v->unit_bytes);
        r |= json_put_u64(o, "array_bytes", v->array_bytes);
        r |= json_put_u64(o, "total_bytes", total);
        if (i > 0) {
                r |= json_put_i64(o, "saved_bytes", (int64_t)(before - total));
                r |= before > 0 ? json_put_real(o, "saved_percent", 100.0 * ((double)before - (double)total) / (double)before) :
                                  json_put_null(o, "saved_percent");
        }
        if (v == &f->estimate.on_demand) {
                r |= json_put_known(o, "units_dying", f->estimate.units_dying_known, f->estimate.units_dying);
                r |= f->estimate.units_dying_known ? json_put_bool(o, "units_dying_at_least", f->estimate.units_dying_at_least) :
                                                     json_put_null(o, "units_dying_at_least");
        }
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}

static json_t *model_object(const EstimateModel *m) {
        json_t *o;
        int r = 0;

        if (!m)
                return json_null();
        o = json_object();
        r |= json_put_u64(o, "memcgs", m->memcgs);
        r |= json_put_u64(o, "nodes", m->nodes);
        r |= json_put_u64(o, "ids", m->ids);
        if (r == 0)
                return o;
        json_decref(o);
        return NULL;
}

static int print_json(Forecast *f) {
        const Estimate *e = &f->estimate;
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_put(o, "host", f->facts ? json_host(f->facts, f->reading) : json_null());
        r |= json_put(o, "model", model_object(f->model));
        for (size_t i = 0; i < ELEMENTSOF(variant_names); i++)
                r |= json_put(o, variant_names[i].json, variant_object(f, i));
        r |= json_put_known(o, "lists", e->on_demand_known, e->lists);
        r |= json_put_known(o, "bits", e->bits_known, e->bits);
        r |= json_put_known(o, "units_with_bits", e->bits_known, e->units_with_bits);
        if (r < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        if (f->breakdown.memcgs)
                return json_write_list(stdout, o, "memcgs", f->breakdown.census->n_memcgs, breakdown_memcg, &f->breakdown);
        return json_write_value(stdout, o);
}

/* ---------------------------------------------------------------------------------------------------------------- verb */

static ExitCode print(const Options *options, Forecast *f) {
        Table table = {
                .columns = columns_,
                .n_columns = ELEMENTSOF(columns_),
                .n_rows = ELEMENTSOF(variant_names),
                .cell = cell,
                .userdata = f,
        };
        Text t = {};
        int r;

        format_detect(&f->format, option_given(options, OPTION_BYTES));
        if (option_given(options, OPTION_JSON))
                r = print_json(f);
        else {
                if (f->model)
                        add_model_assumptions(&t, f);
                else
                        add_host_assumptions(&t, f);
                r = t.failed ? -ENOMEM : table_print(&table, &f->format);
                if (r >= 0 && f->breakdown.memcgs) {
                        (void)fputc('\n', stdout);
                        r = breakdown_print(&f->breakdown, &f->format);
                }
                if (r >= 0) {
                        (void)fputc('\n', stdout);
                        text_print_wrapped(text_get(&t),
                                           f->format.terminal && f->format.width < PROSE_WIDTH ? f->format.width : PROSE_WIDTH);
                }
                text_done(&t);
        }
        return exit_from_output(r);
}

static ExitCode estimate_for_model(const Options *options) {
        EstimateModel model = {};
        Forecast f = { .model = &model };
        const char *bad = options->model;
        size_t bad_len = strlen(bad);
        int r;

        r = estimate_model_parse(options->model, &model, &bad, &bad_len);
        if (r >= 0)
                r = estimate_model(&model, model_alloc, NULL, &f.estimate);
        if (r == -ERANGE)
                return exit_complain(CTL_EXIT_USAGE, "the numbers of --model are too large to be multiplied");
        if (r < 0) {
                Format ascii = {};
                Text t = {};

                text_add_name(&t, &ascii, bad, bad_len);
                (void)exit_complain(CTL_EXIT_USAGE, "--model takes memcgs=N,nodes=N,ids=N, each once and above 0; '%s' is wrong",
                                    text_get(&t));
                text_done(&t);
                return CTL_EXIT_USAGE;
        }
        return print(options, &f);
}

static int on_list(const struct sw_head *record, void *userdata) {
        return estimate_lists_add(userdata, record);
}

/* A pass that lost its place is begun again with nothing of what came before. */
static ExitCode read_lists(Probe *probe, const Census *census, EstimateLists **ret) {
        ProbeError error = {};
        int r = -EAGAIN;

        for (unsigned i = 0; i < LISTS_TRIES && r == -EAGAIN; i++) {
                ProbeStats stats = {};

                *ret = estimate_lists_free(*ret);
                r = estimate_lists_new(ret, census);
                if (r < 0)
                        return exit_out_of_memory();
                r = probe_lists(probe, on_list, *ret, &stats, &error);
        }
        if (r < 0) {
                error.error = r;
                return source_failed(&error);
        }
        return CTL_EXIT_OK;
}

static const char *reason_of(const Probe *probe, const char *feature) {
        const ProbeFeature *features;
        size_t n;

        features = probe_features(probe, &n);
        for (size_t i = 0; i < n; i++)
                if (!features[i].available && strcmp(features[i].name, feature) == 0)
                        return features[i].reason;
        return NULL;
}

/* Arrays without room for any id: there never was a unit, and no other size of them would save anything. */
static ExitCode nothing_to_estimate(const Census *census) {
        return exit_complain(CTL_EXIT_NOT_SUPPORTED,
                             "%s (cgroup.memory=nokmem on the kernel's command line): no shrinker has an id, so there is nothing to estimate",
                             estimate_unaccounted(census) ? "accounting of kernel memory is off" :
                                                            "this looks like a kernel without accounting of kernel memory");
}

static void drop_lists(EstimateLists **l) {
        if (*l)
                (void)estimate_lists_free(*l);
}

ExitCode verb_estimate(const Options *options) {
        _cleanup_(drop_probe) Probe *probe = NULL;
        _cleanup_(drop_reading) Reading *reading = NULL;
        _cleanup_(drop_lists) EstimateLists *lists = NULL;
        _cleanup_(freep) EstimateMemcg *memcgs = NULL;
        Forecast f = {};
        ExitCode code;

        if (options->model)
                return estimate_for_model(options);

        code = source_open(&probe);
        if (code == CTL_EXIT_OK)
                code = source_read(probe, READING_BITS | READING_RINGS, &reading);
        if (code != CTL_EXIT_OK)
                return code;

        if (reading->complete && reading->census->totals.ids == 0)
                return nothing_to_estimate(reading->census);
        if (probe_has(probe, "lists")) {
                code = read_lists(probe, reading->census, &lists);
                if (code != CTL_EXIT_OK)
                        return code;
        } else
                f.no_lists = reason_of(probe, "lists");
        if (estimate_host(reading->census, lists, &f.estimate) < 0)
                return exit_out_of_memory();
        if (option_given(options, OPTION_MEMCGS) && estimate_memcgs(reading->census, lists, &memcgs) < 0)
                return exit_out_of_memory();
        f.breakdown = (Breakdown){ reading->census, memcgs };
        f.facts = probe_facts(probe);
        f.reading = reading;
        code = print(options, &f);
        return code == CTL_EXIT_OK ? source_verdict(probe, reading) : code;
}
