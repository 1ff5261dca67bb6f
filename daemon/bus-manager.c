/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* org.shrinkwatch1.Manager: the host. */
#include <math.h>

#include "bus-internal.h"
#include "config.h"

/* ---------------------------------------------------------------------------------------------------------- properties */

#define PROPERTY(name, fn)                                                                                                             \
        static int name(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, _unused_ const char *property, \
                        sd_bus_message *reply, void *userdata, _unused_ sd_bus_error *error) {                                         \
                return fn(reply, userdata);                                                                                            \
        }

static int append_version(sd_bus_message *reply, _unused_ const Bus *b) {
        return bus_append_string(reply, PACKAGE_VERSION);
}

static int append_release(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, b->snapshot->facts->release);
}

static int append_boot_id(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, b->snapshot->facts->boot_id);
}

static int append_layout(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, probe_layout_to_string(b->snapshot->facts->layout));
}

static int append_hierarchy(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, b->snapshot->facts->v2 ? "v2" : "v1");
}

static int append_nodes(sd_bus_message *reply, const Bus *b) {
        return sd_bus_message_append_basic(reply, 'u', &b->snapshot->facts->n_possible_nodes);
}

static int append_ids_per_unit(sd_bus_message *reply, const Bus *b) {
        return bus_append_u64(reply, b->snapshot->facts->ids_per_unit > 0 ? b->snapshot->facts->ids_per_unit : UINT64_MAX);
}

static int append_unit_struct(sd_bus_message *reply, const Bus *b) {
        return bus_append_u64(reply, b->snapshot->facts->unit_struct_bytes > 0 ? b->snapshot->facts->unit_struct_bytes : UINT64_MAX);
}

static int append_memory(sd_bus_message *reply, const Bus *b) {
        return bus_append_u64(reply, b->snapshot->memory_bytes > 0 ? b->snapshot->memory_bytes : UINT64_MAX);
}

static int append_allocation(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, b->totals.allocation);
}

static int append_degraded(sd_bus_message *reply, const Bus *b) {
        return bus_append_string(reply, b->degraded ? b->degraded : "");
}

static int append_features(sd_bus_message *reply, const Bus *b) {
        const ProbeFeature *features;
        size_t n;
        int r;

        features = probe_features(b->probe, &n);
        r = sd_bus_message_open_container(reply, 'a', "(sbs)");
        for (size_t i = 0; i < n && r >= 0; i++)
                r = sd_bus_message_append(reply, "(sbs)", features[i].name, (int)features[i].available, features[i].reason);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

/* What is not known is left out. */
static int append_counts(sd_bus_message *reply, const uint64_t *values, size_t n, const char *(*name)(size_t i)) {
        int r = sd_bus_message_open_container(reply, 'a', "{st}");

        for (size_t i = 0; i < n && r >= 0; i++)
                if (values[i] != UINT64_MAX)
                        r = sd_bus_message_append(reply, "{st}", name(i), values[i]);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static const char *kind_name(size_t i) {
        return finding_kind_to_string((FindingKind)i);
}

static const char *cause_name(size_t i) {
        return pin_cause_to_string((PinCause)i);
}

static int append_findings(sd_bus_message *reply, const Bus *b) {
        return append_counts(reply, b->totals.findings_by_kind, _FINDING_KIND_MAX, kind_name);
}

static int append_finding_bytes(sd_bus_message *reply, const Bus *b) {
        return append_counts(reply, b->totals.finding_bytes_by_kind, _FINDING_KIND_MAX, kind_name);
}

static int append_pinned(sd_bus_message *reply, const Bus *b) {
        return append_counts(reply, b->totals.pinned.memcgs, _PIN_CAUSE_MAX, cause_name);
}

static int append_pinned_bytes(sd_bus_message *reply, const Bus *b) {
        return append_counts(reply, b->totals.pinned.bytes, _PIN_CAUSE_MAX, cause_name);
}

PROPERTY(property_get_allocation, append_allocation)
PROPERTY(property_get_boot_id, append_boot_id)
PROPERTY(property_get_degraded, append_degraded)
PROPERTY(property_get_features, append_features)
PROPERTY(property_get_finding_bytes, append_finding_bytes)
PROPERTY(property_get_findings, append_findings)
PROPERTY(property_get_hierarchy, append_hierarchy)
PROPERTY(property_get_ids_per_unit, append_ids_per_unit)
PROPERTY(property_get_layout, append_layout)
PROPERTY(property_get_memory, append_memory)
PROPERTY(property_get_nodes, append_nodes)
PROPERTY(property_get_pinned, append_pinned)
PROPERTY(property_get_pinned_bytes, append_pinned_bytes)
PROPERTY(property_get_release, append_release)
PROPERTY(property_get_unit_struct, append_unit_struct)
PROPERTY(property_get_version, append_version)

/* -------------------------------------------------------------------------------------------------------------- census */

static int take_census(Bus *b, sd_bus_message *m) {
        int r = b->hooks.take_census(b->hooks.userdata);

        if (r < 0)
                return sd_bus_reply_method_errorf(m, BUS_ERROR_CENSUS_FAILED, "The census failed: %s. The next one is taken when it is due", strerror(-r));
        return sd_bus_reply_method_return(m, "t", b->totals.census_boottime_usec);
}

static int method_take_census(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        return bus_access(userdata, m, BUS_NAME ".take-census", take_census, error);
}

/* ---------------------------------------------------------------------------------------------------------------- table */

#define CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
#define CONSTANT SD_BUS_VTABLE_PROPERTY_CONST
#define NUMBER(property, member) SD_BUS_PROPERTY(#property, "t", NULL, offsetof(Bus, totals.member), CHANGES),
#define OPEN SD_BUS_VTABLE_UNPRIVILEGED /* who may do what is not sd-bus's to say, see bus-access.c */

static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
        /* clang-format off */
        BUS_NUMBERS(NUMBER)
        /* clang-format on */
        SD_BUS_PROPERTY("Allocation", "s", property_get_allocation, 0, CHANGES),
        SD_BUS_PROPERTY("BootID", "s", property_get_boot_id, 0, CONSTANT),
        SD_BUS_PROPERTY("CensusComplete", "b", NULL, offsetof(Bus, totals.complete), CHANGES),
        SD_BUS_PROPERTY("CensusSettled", "b", NULL, offsetof(Bus, totals.settled), CHANGES),
        SD_BUS_PROPERTY("Degraded", "s", property_get_degraded, 0, CHANGES),
        SD_BUS_PROPERTY("DyingTrendPerHour", "d", NULL, offsetof(Bus, totals.dying_trend), CHANGES),
        SD_BUS_PROPERTY("Features", "a(sbs)", property_get_features, 0, CONSTANT),
        SD_BUS_PROPERTY("FindingBytesByKind", "a{st}", property_get_finding_bytes, 0, CHANGES),
        SD_BUS_PROPERTY("FindingsByKind", "a{st}", property_get_findings, 0, CHANGES),
        SD_BUS_PROPERTY("Hierarchy", "s", property_get_hierarchy, 0, CONSTANT),
        SD_BUS_PROPERTY("IDsPerUnit", "t", property_get_ids_per_unit, 0, CONSTANT),
        SD_BUS_PROPERTY("KernelRelease", "s", property_get_release, 0, CONSTANT),
        SD_BUS_PROPERTY("Layout", "s", property_get_layout, 0, CONSTANT),
        SD_BUS_PROPERTY("MemoryBytes", "t", property_get_memory, 0, CONSTANT),
        SD_BUS_PROPERTY("OverheadTrendPerHour", "d", NULL, offsetof(Bus, totals.overhead_trend), CHANGES),
        SD_BUS_PROPERTY("PinnedMemcgs", "a{st}", property_get_pinned, 0, CHANGES),
        SD_BUS_PROPERTY("PinnedOverheadBytes", "a{st}", property_get_pinned_bytes, 0, CHANGES),
        SD_BUS_PROPERTY("PossibleNodes", "u", property_get_nodes, 0, CONSTANT),
        SD_BUS_PROPERTY("UnitStructBytes", "t", property_get_unit_struct, 0, CONSTANT),
        SD_BUS_PROPERTY("Version", "s", property_get_version, 0, CONSTANT),

        SD_BUS_METHOD_WITH_ARGS("DumpByFileDescriptor", SD_BUS_NO_ARGS, SD_BUS_ARGS("h", json), bus_method_dump, OPEN),
        SD_BUS_METHOD_WITH_ARGS("FindByPath", SD_BUS_ARGS("ay", path), SD_BUS_ARGS("aa{sv}", memcgs), bus_method_find_by_path, OPEN),
        SD_BUS_METHOD_WITH_ARGS("FindMemcgs", SD_BUS_ARGS("t", id), SD_BUS_ARGS("aa{sv}", memcgs), bus_method_find_memcgs, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetByPid", SD_BUS_ARGS("u", pid), SD_BUS_ARGS("a{sv}", memcg), bus_method_get_by_pid, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetMachine", SD_BUS_ARGS("s", name), SD_BUS_ARGS("a{sv}", subtree), bus_method_get_machine, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetMemcg", SD_BUS_ARGS("t", serial), SD_BUS_ARGS("a{sv}", memcg), bus_method_get_memcg, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetSubtree", SD_BUS_ARGS("ay", path), SD_BUS_ARGS("a{sv}", subtree), bus_method_get_subtree, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetUnit", SD_BUS_ARGS("s", name), SD_BUS_ARGS("a{sv}", subtree), bus_method_get_unit, OPEN),
        SD_BUS_METHOD_WITH_ARGS("List", SD_BUS_ARGS("a{sv}", filter, "s", sort, "u", limit, "t", after), SD_BUS_ARGS("t", boottime_usec, "aa{sv}", memcgs, "t", remaining),
               bus_method_list, OPEN),
        SD_BUS_METHOD_WITH_ARGS("TakeCensus", SD_BUS_NO_ARGS, SD_BUS_ARGS("t", boottime_usec), method_take_census, OPEN),
        SD_BUS_METHOD_WITH_ARGS("Unwatch", SD_BUS_ARGS("ay", path), SD_BUS_NO_RESULT, bus_method_unwatch, OPEN),
        SD_BUS_METHOD_WITH_ARGS("Watch", SD_BUS_ARGS("ay", path), SD_BUS_ARGS("o", subtree), bus_method_watch, OPEN),
        SD_BUS_METHOD_WITH_ARGS("Why", SD_BUS_ARGS("t", serial), SD_BUS_ARGS("a{sv}", why), bus_method_why, OPEN),

        SD_BUS_SIGNAL_WITH_ARGS("FindingCleared", SD_BUS_ARGS("o", finding, "s", end, "a{sv}", properties), 0),
        SD_BUS_SIGNAL_WITH_ARGS("FindingRaised", SD_BUS_ARGS("o", finding, "a{sv}", properties), 0),
        SD_BUS_SIGNAL_WITH_ARGS("LimitCrossed", SD_BUS_ARGS("s", kind, "ay", path, "t", value, "t", limit, "b", above), 0),
        SD_BUS_VTABLE_END,
};

int bus_manager_register(Bus *b) {
        int r = sd_bus_add_object_manager(b->bus, NULL, BUS_PATH);

        return r < 0 ? r : sd_bus_add_object_vtable(b->bus, NULL, BUS_PATH, BUS_IFACE_MANAGER, manager_vtable, b);
}

/* -------------------------------------------------------------------------------------------------------------- update */

static void fill_totals(const Bus *b, BusTotals *ret) {
        const Snapshot *s = b->snapshot;
        const Reading *reading = s->reading;
        const Census *c = reading->census;
        const CensusTotals *t = &c->totals;
        bool flat = c->options.flat;
        BusTotals v = {
                .array_bytes = t->array_bytes,
                .cpu_usec = s->cpu_usec,
                .census_boottime_usec = s->boot_usec,
                .census_duration_usec = reading->duration_usec,
                .census_interval_usec = s->interval_usec,
                .longest_slice_usec = reading->walk.longest_slice_usec,
                .census_realtime_usec = s->time_usec,
                .censuses = s->censuses,
                .censuses_failed = s->censuses_failed,
                .censuses_incomplete = s->censuses_incomplete,
                .dying_oldest_usec = UINT64_MAX,
                .events_created = s->events_known ? s->events.created : UINT64_MAX,
                .events_lost_deaths = s->events_known ? s->events.lost_deaths : UINT64_MAX,
                .events_lost_records = s->events_known ? s->events.lost_records : UINT64_MAX,
                .events_released = s->events_known ? s->events.released : UINT64_MAX,
                .events_removed = s->events_known ? s->events.removed : UINT64_MAX,
                .findings = findings_count(s->findings),
                .findings_hidden = findings_count(s->findings) - b->n_findings,
                .host_limit_reached_usec = UINT64_MAX,
                .memcgs = t->memcgs,
                .memcgs_creating = t->creating,
                .memcgs_dying = t->dying,
                .memcgs_live = t->live,
                .overhead_bytes = add_sat_u64(t->unit_bytes, t->array_bytes),
                .overhead_dying_bytes = t->overhead_dying_bytes,
                .overhead_live_bytes = t->overhead_live_bytes,
                .ids_in_use = reading->ids_in_use_known ? reading->ids_in_use : UINT64_MAX,
                .ids_stranded = !reading->ids_in_use_known ? UINT64_MAX : t->ids > reading->ids_in_use ? t->ids - reading->ids_in_use : 0,
                .ids = t->ids,
                .subtrees = b->n_subtrees,
                .subtrees_hidden = b->subtrees_hidden,
                .unit_alloc_bytes = flat ? UINT64_MAX : c->unit_alloc_bytes,
                .unit_bytes = flat ? UINT64_MAX : t->unit_bytes,
                .units = flat ? UINT64_MAX : t->units,
                .units_dying = flat ? UINT64_MAX : t->units_dying,
                .units_live = flat ? UINT64_MAX : t->units_live,
                .overhead_trend = s->overhead_trend.known ? s->overhead_trend.per_hour : (double)NAN,
                .dying_trend = s->dying_trend.known ? s->dying_trend.per_hour : (double)NAN,
                .complete = reading->complete,
                .settled = reading->settled,
                .allocation = census_allocation_to_string(c->allocation),
        };

        if (s->host_limit_bytes < UINT64_MAX && !history_project(&s->overhead_trend, s->host_limit_bytes, &v.host_limit_reached_usec))
                v.host_limit_reached_usec = UINT64_MAX;
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                v.findings_by_kind[kind] = findings_count_kind(s->findings, kind);
                v.finding_bytes_by_kind[kind] = findings_sum_bytes(s->findings, kind);
        }
        (void)ages_oldest(s->ages, &v.dying_oldest_usec);
        if (reading->pins)
                pins_sum(reading->pins, &v.pinned);
        for (PinCause cause = 0; cause < _PIN_CAUSE_MAX; cause++)
                if (!reading->pins || !pins_sum_known(reading->pins, cause))
                        v.pinned.memcgs[cause] = v.pinned.bytes[cause] = UINT64_MAX;
        *ret = v;
}

static bool rates_differ(double a, double b) {
        return isnan(a) != isnan(b) || a < b || a > b;
}

/* Names of what differs. */
static void changed_names(const BusTotals *a, const BusTotals *b, char **names) {
        size_t n = 0;

#define COMPARE(property, member)                                     \
        if (memcmp(&a->member, &b->member, sizeof(a->member)) != 0)   \
                names[n++] = (char *)(uintptr_t)#property;
        BUS_NUMBERS(COMPARE)
        COMPARE(Allocation, allocation)
        COMPARE(CensusComplete, complete)
        COMPARE(CensusSettled, settled)
        COMPARE(FindingBytesByKind, finding_bytes_by_kind)
        COMPARE(FindingsByKind, findings_by_kind)
        COMPARE(PinnedMemcgs, pinned.memcgs)
        COMPARE(PinnedOverheadBytes, pinned.bytes)
#undef COMPARE
        if (rates_differ(a->dying_trend, b->dying_trend))
                names[n++] = (char *)(uintptr_t)"DyingTrendPerHour";
        if (rates_differ(a->overhead_trend, b->overhead_trend))
                names[n++] = (char *)(uintptr_t)"OverheadTrendPerHour";
        names[n] = NULL;
}

/* A limit of the host that a value went past, whatever the minimal age of a finding says. */
static void tell_crossings(Bus *b) {
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                uint64_t value, limit;
                bool above;

                if (finding_kind_is_memcg(kind) || !findings_above(b->snapshot->findings, kind, &above, &value, &limit) || above == b->above[kind])
                        continue;
                b->above[kind] = above;
                (void)bus_emit_crossing(b, kind, NULL, 0, value, limit, above);
        }
}

void bus_manager_update(Bus *b) {
        char *names[64];
        BusTotals now;
        const char *degraded = b->snapshot->degraded;
        bool other = (degraded == NULL) != (b->degraded == NULL) || (degraded && strcmp(degraded, b->degraded) != 0);
        size_t n = 0;

        fill_totals(b, &now);
        changed_names(&b->totals, &now, names);
        b->totals = now;
        if (other) {
                free(b->degraded);
                b->degraded = degraded ? strdup(degraded) : NULL;
                while (names[n])
                        n++;
                names[n++] = (char *)(uintptr_t)"Degraded";
                names[n] = NULL;
        }
        if (names[0])
                (void)sd_bus_emit_properties_changed_strv(b->bus, BUS_PATH, BUS_IFACE_MANAGER, names);
        tell_crossings(b);
}

int bus_emit_crossing(Bus *b, FindingKind kind, const char *path, size_t len, uint64_t value, uint64_t limit, bool above) {
        sd_bus_message *m = NULL;
        int r = sd_bus_message_new_signal(b->bus, &m, BUS_PATH, BUS_IFACE_MANAGER, "LimitCrossed");

        if (r >= 0)
                r = bus_append_string(m, finding_kind_to_string(kind));
        if (r >= 0)
                r = bus_append_bytes(m, path, len);
        if (r >= 0)
                r = sd_bus_message_append(m, "ttb", value, limit, (int)above);
        if (r >= 0)
                r = sd_bus_send(b->bus, m, NULL);
        sd_bus_message_unref(m);
        return r;
}
