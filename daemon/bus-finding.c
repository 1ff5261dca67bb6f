/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * org.shrinkwatch1.Finding: findings that stand, as objects. Not all of a storm: there are BUS_FINDINGS_MAX of them at most, those that were raised
 * first, and FindingsWithoutObject says how many more stand. So a census makes a bounded number of signals.
 */
#include <inttypes.h>
#include <stdio.h>

#include "advice.h"
#include "bus-internal.h"
#include "identity.h"

#define OBJECT_BYTES 64

static void format_object(char buf[static OBJECT_BYTES], uint64_t id) {
        (void)snprintf(buf, OBJECT_BYTES, BUS_PATH_FINDING "/%" PRIu64, id);
}

/* ---------------------------------------------------------------------------------------------------------- properties */

static const char *cause_of(const Finding *f) {
        return f->kind == FINDING_WRITEBACK ? "writeback" : f->kind == FINDING_SWAP ? "swap" : "";
}

static int append_part(sd_bus_message *m, const Finding *f, size_t offset) {
        _cleanup_(freep) char *text = NULL;
        const IdentityPart *part;
        Identity id = {};

        if (f->path)
                identity_parse(f->path, f->path_len, &id);
        part = (const IdentityPart *)(const void *)((const char *)&id + offset);
        text = escape_text(part->s ? part->s : "", part->len, 0, NULL);
        return text ? bus_append_string(m, text) : -ENOMEM;
}

static int append_escaped(sd_bus_message *m, const char *s, size_t len) {
        _cleanup_(freep) char *text = escape_text(s ? s : "", len, 0, NULL);

        return text ? bus_append_string(m, text) : -ENOMEM;
}

typedef struct Property {
        const char *name, *signature;
        int (*append)(sd_bus_message *m, const Finding *f);
} Property;

#define STRING(fn, expression)                                   \
        static int fn(sd_bus_message *m, const Finding *f) {     \
                return bus_append_string(m, expression);         \
        }
#define NUMBER(fn, expression)                                   \
        static int fn(sd_bus_message *m, const Finding *f) {     \
                return bus_append_u64(m, expression);            \
        }
#define PART(fn, member)                                         \
        static int fn(sd_bus_message *m, const Finding *f) {     \
                return append_part(m, f, offsetof(Identity, member)); \
        }

STRING(append_kind, finding_kind_to_string(f->kind))
STRING(append_cause, cause_of(f))
STRING(append_means, advice_get(f->kind)->means)
STRING(append_safe, advice_get(f->kind)->safe)
STRING(append_costs, advice_get(f->kind)->costs)
STRING(append_never, advice_get(f->kind)->never)
STRING(append_setting, advice_get(f->kind)->setting)
STRING(append_text, f->text ? f->text : "")
NUMBER(append_id, f->id)
NUMBER(append_serial, f->serial)
NUMBER(append_value, f->value)
NUMBER(append_limit, f->limit)
NUMBER(append_bytes, f->bytes)
NUMBER(append_units, f->units)
NUMBER(append_raised, f->raised_boot_usec)
NUMBER(append_since, f->since_boot_usec)
NUMBER(append_refs, f->refs_known ? f->refs : UINT64_MAX)
NUMBER(append_pin_refs, cause_of(f)[0] ? f->pin_refs : UINT64_MAX)
NUMBER(append_pin_bytes, cause_of(f)[0] ? f->pin_bytes : UINT64_MAX)
PART(append_unit, unit)
PART(append_slice, slice)
PART(append_machine, machine)
PART(append_container, container)

static int append_since_exact(sd_bus_message *m, const Finding *f) {
        int exact = f->since_exact;

        return sd_bus_message_append_basic(m, 'b', &exact);
}

static int append_path(sd_bus_message *m, const Finding *f) {
        return bus_append_bytes(m, f->path, f->path ? f->path_len : 0);
}

static int append_path_text(sd_bus_message *m, const Finding *f) {
        return append_escaped(m, f->path, f->path ? f->path_len : 0);
}

static int append_creator(sd_bus_message *m, const Finding *f) {
        return append_escaped(m, f->creator, f->creator ? strlen(f->creator) : 0);
}

static int append_device(sd_bus_message *m, const Finding *f) {
        return append_escaped(m, f->device, strnlen(f->device, sizeof(f->device)));
}

/* In the order of the vtable. */
static const Property properties[] = {
        { "Bytes", "t", append_bytes },
        { "Cause", "s", append_cause },
        { "Container", "s", append_container },
        { "Costs", "s", append_costs },
        { "Creator", "s", append_creator },
        { "Device", "s", append_device },
        { "ID", "t", append_id },
        { "Kind", "s", append_kind },
        { "Limit", "t", append_limit },
        { "Machine", "s", append_machine },
        { "Means", "s", append_means },
        { "Never", "s", append_never },
        { "Path", "ay", append_path },
        { "PathText", "s", append_path_text },
        { "PinBytes", "t", append_pin_bytes },
        { "PinRefs", "t", append_pin_refs },
        { "RaisedBoottimeUSec", "t", append_raised },
        { "Refs", "t", append_refs },
        { "Safe", "s", append_safe },
        { "Serial", "t", append_serial },
        { "Setting", "s", append_setting },
        { "SinceBoottimeUSec", "t", append_since },
        { "SinceExact", "b", append_since_exact },
        { "Slice", "s", append_slice },
        { "Text", "s", append_text },
        { "Unit", "s", append_unit },
        { "Units", "t", append_units },
        { "Value", "t", append_value },
};

static int property_get(_unused_ sd_bus *bus, _unused_ const char *path, _unused_ const char *interface, const char *property, sd_bus_message *reply,
                        void *userdata, _unused_ sd_bus_error *error) {
        const Finding *f = userdata;

        for (size_t i = 0; i < ELEMENTSOF(properties); i++)
                if (strcmp(properties[i].name, property) == 0)
                        return properties[i].append(reply, f);
        return -ENOENT;
}

#define CONSTANT(name, signature) SD_BUS_PROPERTY(name, signature, property_get, 0, SD_BUS_VTABLE_PROPERTY_CONST)
#define CHANGES(name, signature) SD_BUS_PROPERTY(name, signature, property_get, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE)

static const sd_bus_vtable finding_vtable[] = {
        SD_BUS_VTABLE_START(0),
        CHANGES("Bytes", "t"),
        CONSTANT("Cause", "s"),
        CONSTANT("Container", "s"),
        CONSTANT("Costs", "s"),
        CONSTANT("Creator", "s"),
        CHANGES("Device", "s"),
        CONSTANT("ID", "t"),
        CONSTANT("Kind", "s"),
        CONSTANT("Limit", "t"),
        CONSTANT("Machine", "s"),
        CONSTANT("Means", "s"),
        CONSTANT("Never", "s"),
        CONSTANT("Path", "ay"),
        CONSTANT("PathText", "s"),
        CHANGES("PinBytes", "t"),
        CHANGES("PinRefs", "t"),
        CONSTANT("RaisedBoottimeUSec", "t"),
        CHANGES("Refs", "t"),
        CONSTANT("Safe", "s"),
        CONSTANT("Serial", "t"),
        CONSTANT("Setting", "s"),
        CHANGES("SinceBoottimeUSec", "t"),
        CHANGES("SinceExact", "b"),
        CONSTANT("Slice", "s"),
        CHANGES("Text", "s"),
        CONSTANT("Unit", "s"),
        CHANGES("Units", "t"),
        CHANGES("Value", "t"),
        SD_BUS_VTABLE_END,
};

/* ------------------------------------------------------------------------------------------------------------- objects */

static const Finding *get_finding(const Bus *b, const BusFinding *o) {
        const Finding *f = findings_find(b->snapshot->findings, o->kind, o->serial);

        return f && f->id == o->id ? f : NULL;
}

static int find_object(_unused_ sd_bus *bus, const char *path, _unused_ const char *interface, void *userdata, void **ret_found,
                       _unused_ sd_bus_error *error) {
        const Bus *b = userdata;
        char object[OBJECT_BYTES];

        for (size_t i = 0; i < b->n_findings; i++) {
                const Finding *f;

                format_object(object, b->findings[i].id);
                if (strcmp(object, path) != 0)
                        continue;
                f = get_finding(b, b->findings + i);
                *ret_found = (void *)(uintptr_t)f;
                return f != NULL;
        }
        return 0;
}

static int enumerate(_unused_ sd_bus *bus, _unused_ const char *prefix, void *userdata, char ***ret_nodes, _unused_ sd_bus_error *error) {
        const Bus *b = userdata;
        char **nodes = calloc(b->n_findings + 1, sizeof(*nodes));
        size_t n = 0;

        for (; nodes && n < b->n_findings; n++) {
                char object[OBJECT_BYTES];

                format_object(object, b->findings[n].id);
                nodes[n] = strdup(object);
                if (nodes[n])
                        continue;
                while (n-- > 0)
                        free(nodes[n]);
                free(nodes);
                return -ENOMEM;
        }
        if (!nodes)
                return -ENOMEM;
        *ret_nodes = nodes;
        return 1;
}

int bus_finding_register(Bus *b) {
        int r = sd_bus_add_fallback_vtable(b->bus, NULL, BUS_PATH_FINDING, BUS_IFACE_FINDING, finding_vtable, find_object, b);

        return r < 0 ? r : sd_bus_add_node_enumerator(b->bus, NULL, BUS_PATH_FINDING, enumerate, b);
}

/* -------------------------------------------------------------------------------------------------------------- update */

static int append_properties(sd_bus_message *m, const Finding *f) {
        int r = sd_bus_message_open_container(m, 'a', "{sv}");

        for (size_t i = 0; i < ELEMENTSOF(properties) && r >= 0; i++) {
                r = bus_open_entry(m, properties[i].name, properties[i].signature);
                if (r >= 0)
                        r = properties[i].append(m, f);
                if (r >= 0)
                        r = bus_close_entry(m);
        }
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* end: NULL: it was raised. */
static void emit_change(Bus *b, const Finding *f, const char *end) {
        sd_bus_message *m = NULL;
        char object[OBJECT_BYTES];
        int r;

        format_object(object, f->id);
        r = sd_bus_message_new_signal(b->bus, &m, BUS_PATH, BUS_IFACE_MANAGER, end ? "FindingCleared" : "FindingRaised");
        if (r >= 0)
                r = sd_bus_message_append_basic(m, 'o', object);
        if (r >= 0 && end)
                r = bus_append_string(m, end);
        if (r >= 0)
                r = append_properties(m, f);
        if (r >= 0)
                (void)sd_bus_send(b->bus, m, NULL);
        sd_bus_message_unref(m);
}

static BusFinding describe(const Finding *f) {
        return (BusFinding){
                .id = f->id, .kind = f->kind, .serial = f->serial, .value = f->value, .bytes = f->bytes, .units = f->units, .refs = f->refs,
                .pin_refs = f->pin_refs, .pin_bytes = f->pin_bytes, .since_boot_usec = f->since_boot_usec,
        };
}

static void emit_properties(Bus *b, BusFinding *old, const Finding *f) {
        const BusFinding now = describe(f);
        char object[OBJECT_BYTES];
        char *names[8];
        size_t n = 0;

        format_object(object, f->id);
#define COMPARE(property, member)             \
        if (old->member != now.member)        \
                names[n++] = (char *)(uintptr_t)property;
        COMPARE("Value", value)
        COMPARE("Bytes", bytes)
        COMPARE("Units", units)
        COMPARE("Refs", refs)
        COMPARE("PinRefs", pin_refs)
        COMPARE("PinBytes", pin_bytes)
        COMPARE("SinceBoottimeUSec", since_boot_usec)
#undef COMPARE
        names[n] = NULL;
        *old = now;
        if (n > 0)
                (void)sd_bus_emit_properties_changed_strv(b->bus, object, BUS_IFACE_FINDING, names);
}

static const FindingChange *find_change(const Findings *findings, uint64_t id) {
        const FindingChange *changes;
        size_t n;

        changes = findings_changes(findings, &n);
        for (size_t i = 0; i < n; i++)
                if (changes[i].finding->id == id)
                        return changes + i;
        return NULL;
}

/* Those that have an object and are over. */
static void drop_gone(Bus *b) {
        size_t kept = 0;

        for (size_t i = 0; i < b->n_findings; i++) {
                const Finding *f = get_finding(b, b->findings + i);
                const FindingChange *change;
                char object[OBJECT_BYTES];

                if (f) {
                        b->findings[kept++] = b->findings[i];
                        continue;
                }
                change = find_change(b->snapshot->findings, b->findings[i].id);
                if (change)
                        emit_change(b, change->finding, finding_end_to_string(change->end));
                format_object(object, b->findings[i].id);
                /* The object is not found any more, which this signal does not mind: its interfaces are those of the vtable. */
                (void)sd_bus_emit_interfaces_removed(b->bus, object, BUS_IFACE_FINDING, NULL);
        }
        b->n_findings = kept;
}

void bus_finding_update(Bus *b) {
        const Findings *findings = b->snapshot->findings;
        size_t n = findings_count(findings), known;

        if (!b->findings) {
                b->findings = calloc(BUS_FINDINGS_MAX, sizeof(*b->findings));
                if (!b->findings)
                        return;
        }
        drop_gone(b);
        for (size_t i = 0; i < b->n_findings; i++) {
                const Finding *f = get_finding(b, b->findings + i);

                if (f)
                        emit_properties(b, b->findings + i, f);
        }
        /* Both are in the order of their ids, and what has an object is what was raised first; where others went, those after them get one. */
        known = 0;
        for (size_t i = 0; i < n && b->n_findings < BUS_FINDINGS_MAX; i++) {
                const Finding *f = findings_get(findings, i);
                char object[OBJECT_BYTES];

                if (known < b->n_findings && b->findings[known].id == f->id) {
                        known++;
                        continue;
                }
                memmove(b->findings + known + 1, b->findings + known, (b->n_findings - known) * sizeof(*b->findings));
                b->findings[known++] = describe(f);
                b->n_findings++;
                format_object(object, f->id);
                (void)sd_bus_emit_object_added(b->bus, object);
                emit_change(b, f, NULL);
        }
}
