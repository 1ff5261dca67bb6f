/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A change of findings as an entry: the sentence for people, the fields for programs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "advice.h"
#include "escape.h"
#include "identity.h"
#include "journal-internal.h"

/* Bytes of a name in a sentence; the field has all of it. */
#define NAME_TEXT_MAX 512U

/* Less an hour than this is no growth. */
#define HOST_GROWTH_MIN (1ULL << 20)

/* What is told of all findings of a kind alike. */
static const struct {
        JournalMessage message;
        const char *cause;   /* of a pin; NULL: it is not about one */
        const char *subject; /* before the path, or alone where it is about the host */
        const char *group;   /* of several: "12 dying memory cgroups of ..." */
        const char *below;   /* FINDING_END_BELOW */
} kinds[_FINDING_KIND_MAX] = {
        [FINDING_WRITEBACK] = { JOURNAL_WRITEBACK, "writeback", "Dying memory cgroup", "dying memory cgroups pinned by writeback",
                                "writeback pins it no longer, or it holds less than the limit" },
        [FINDING_SWAP] = { JOURNAL_SWAP, "swap", "Dying memory cgroup", "dying memory cgroups pinned by swap entries",
                           "swap entries pin it no longer, or it holds less than the limit" },
        [FINDING_SUBTREE] = { JOURNAL_SUBTREE, NULL, "Memory cgroup", "memory cgroups with too much shrinker memory below them",
                              "its shrinker memory is below the limit" },
        [FINDING_HOST] = { JOURNAL_HOST, NULL, "Shrinker memory of this host", "", "it is below the limit" },
        [FINDING_DYING] = { JOURNAL_DYING, NULL, "Number of dying memory cgroups", "", "it is below the limit" },
        [FINDING_DYING_GROWTH] = { JOURNAL_DYING_GROWTH, NULL, "Growth of the number of dying memory cgroups", "", "it is below the limit" },
        [FINDING_STRANDED] = { JOURNAL_STRANDED, NULL, "Shrinker ids that nobody uses", "", "there are fewer than the limit" },
        [FINDING_MEMCG_IDS] = { JOURNAL_MEMCG_IDS, NULL, "Private ids of memory cgroups in use", "", "there are fewer than the limit" },
        [FINDING_DEGRADED] = { JOURNAL_DEGRADED, NULL, "shrinkwatchd sees less than it should", "", "it sees everything again" },
};

/* A few sentences, put together; NULL once memory is out. */
typedef struct Sentence {
        char *text;
        bool failed;
} Sentence;

_printf_(2, 3) static void say(Sentence *s, const char *format, ...) {
        char *more = NULL, *longer;
        size_t len = s->text ? strlen(s->text) : 0;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&more, format, ap);
        va_end(ap);
        longer = n < 0 ? NULL : realloc(s->text, len + (size_t)n + 1);
        if (longer) {
                memcpy(longer + len, more, (size_t)n + 1);
                s->text = longer;
        } else
                s->failed = true;
        if (n >= 0)
                free(more);
}

/* A name for people, and not longer than they read. */
static void say_name(Sentence *s, const char *name, size_t len) {
        _cleanup_(freep) char *text = NULL;
        size_t n;

        if (!name || len == 0) {
                say(s, "(unknown)");
                return;
        }
        /* An escaped byte takes four: enough to fill the room, and no more work than that for a path of any length. */
        text = escape_text(name, len < 2 * NAME_TEXT_MAX ? len : 2 * NAME_TEXT_MAX, ESCAPE_TERMINAL, &n);
        if (!text) {
                s->failed = true;
                return;
        }
        if (n > NAME_TEXT_MAX) {
                n = NAME_TEXT_MAX;
                while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
                        n--; /* not within a character */
                text[n] = '\0';
                say(s, "%s\xe2\x80\xa6", text);
        } else
                say(s, "%s", text);
}

static uint64_t usec_since(uint64_t now, uint64_t then) {
        return now > then ? now - then : 0;
}

/* ------------------------------------------------------------------------------------------------------- the sentence */

static void say_pin(Sentence *s, const Finding *f) {
        char bytes[32];

        if (f->kind == FINDING_WRITEBACK) {
                say(s, "writeback");
                if (f->device[0] != '\0') {
                        say(s, " on ");
                        say_name(s, f->device, strnlen(f->device, sizeof(f->device)));
                }
                if (f->n_devices > 1)
                        say(s, " and %zu more", f->n_devices - 1);
        } else
                say(s, "%" PRIu64 " swap entries (%s)", f->pin_entries, journal_format_bytes(bytes, sizeof(bytes), f->pin_bytes));
}

static void say_raised(Sentence *s, const Snapshot *snapshot, const Finding *f) {
        char bytes[32], value[32], limit[32], age[64];

        (void)journal_format_bytes(bytes, sizeof(bytes), f->bytes);
        (void)journal_format_bytes(value, sizeof(value), f->value);
        (void)journal_format_bytes(limit, sizeof(limit), f->limit);
        (void)journal_format_span(age, sizeof(age), usec_since(snapshot->boot_usec, f->since_boot_usec));

        if (f->kind != FINDING_DYING && f->kind != FINDING_DYING_GROWTH && f->kind != FINDING_STRANDED && f->kind != FINDING_MEMCG_IDS)
                say(s, "%s ", kinds[f->kind].subject);
        if (finding_kind_is_memcg(f->kind))
                say_name(s, f->path, f->path_len);

        switch (f->kind) {
        case FINDING_WRITEBACK:
        case FINDING_SWAP:
                say(s, " is pinned by ");
                say_pin(s, f);
                say(s, " for %s%s, holding %s of shrinker memory", f->since_exact ? "" : "at least ", age, bytes);
                break;
        case FINDING_SUBTREE:
                say(s, " and those below it take %s of shrinker memory, which is charged to none of them; the limit is %s", value, limit);
                break;
        case FINDING_HOST:
                say(s, "takes %s", value);
                if (snapshot->memory_bytes >= 1000) {
                        uint64_t tenths = f->value / (snapshot->memory_bytes / 1000); /* of a percent */

                        say(s, ", %" PRIu64 ".%" PRIu64 "%% of its memory", tenths / 10, tenths % 10);
                }
                say(s, "; the limit is %s", limit);
                if (snapshot->overhead_trend.known && snapshot->overhead_trend.per_hour >= (double)HOST_GROWTH_MIN) {
                        uint64_t usec;

                        say(s, ". It grows by %s an hour", journal_format_bytes(bytes, sizeof(bytes), (uint64_t)snapshot->overhead_trend.per_hour));
                        if (history_project(&snapshot->overhead_trend, snapshot->memory_bytes / 2, &usec) && usec > 0)
                                say(s, ": half of the memory in %s", journal_format_span(age, sizeof(age), usec));
                }
                break;
        case FINDING_DYING:
                say(s, "%" PRIu64 " memory cgroups are dying and not gone; the limit is %" PRIu64, f->value, f->limit);
                break;
        case FINDING_DYING_GROWTH:
                say(s, "Dying memory cgroups become %" PRIu64 " more an hour; the limit is %" PRIu64, f->value, f->limit);
                break;
        case FINDING_STRANDED:
                say(s, "%" PRIu64 " shrinker ids are paid for by every memory cgroup and used by nobody; the limit is %" PRIu64, f->value, f->limit);
                break;
        case FINDING_MEMCG_IDS:
                say(s, "%" PRIu64 " of 65535 private ids of memory cgroups are in use, without a free one none can be made; the limit is %" PRIu64,
                    f->value, f->limit);
                break;
        case FINDING_DEGRADED:
                say(s, "(%s)", f->text ? f->text : "unknown why");
                break;
        case _FINDING_KIND_MAX:
                break;
        }
}

static void say_cleared(Sentence *s, const Snapshot *snapshot, const StormEntry *entry) {
        const Finding *f = entry->finding;
        char stood[64];

        say(s, "Over: %s", kinds[f->kind].subject);
        if (finding_kind_is_memcg(f->kind)) {
                say(s, " ");
                say_name(s, f->path, f->path_len);
        }
        say(s, ": ");
        switch (entry->end) {
        case FINDING_END_BELOW:
                say(s, "%s", kinds[f->kind].below);
                break;
        case FINDING_END_GONE:
                say(s, "it is gone, its memory is free");
                break;
        case FINDING_END_LIMIT:
                say(s, "another limit is in force, or none");
                break;
        case FINDING_END_REMOVED:
                say(s, "the cgroup was removed; it is dying, and its memory counts for those above it");
                break;
        }
        say(s, ". It stood for %s",
            journal_format_span(stood, sizeof(stood), usec_since(snapshot->boot_usec, f->raised_boot_usec)));
}

static void say_group(Sentence *s, const Snapshot *snapshot, const StormEntry *entry) {
        char bytes[32], age[64];

        say(s, "%s: %" PRIu64 " %s, made by ",
            entry->kind == STORM_BEGINS  ? "Storm" :
            entry->kind == STORM_GOES_ON ? "Storm goes on" :
                                           "Storm is over",
            entry->standing, kinds[entry->finding_kind].group);
        say_name(s, entry->creator, entry->creator ? strlen(entry->creator) : 0);
        if (entry->standing > 0)
                say(s, ", hold %s of shrinker memory, the oldest for at least %s", journal_format_bytes(bytes, sizeof(bytes), entry->bytes),
                    journal_format_span(age, sizeof(age), usec_since(snapshot->boot_usec, entry->oldest_boot_usec)));
        say(s, " (in this census %" PRIu64 " more, %" PRIu64 " less)", entry->raised, entry->cleared);
        if (entry->kind == STORM_BEGINS)
                say(s, ". They are told together from here on");
}

static char *sentence_of(const Snapshot *snapshot, const StormEntry *entry) {
        Sentence s = {};

        switch (entry->kind) {
        case STORM_RAISED:
                say_raised(&s, snapshot, entry->finding);
                break;
        case STORM_CLEARED:
                say_cleared(&s, snapshot, entry);
                break;
        case STORM_BEGINS:
        case STORM_GOES_ON:
        case STORM_ENDS:
                say_group(&s, snapshot, entry);
                break;
        case STORM_MORE:
                say(&s, "Not told one by one, beyond %d entries of one census: %" PRIu64 " findings raised, %" PRIu64 " cleared",
                    STORM_ENTRIES_MAX, entry->raised, entry->cleared);
                break;
        }
        if (s.failed) {
                free(s.text);
                return NULL;
        }
        return s.text;
}

/* ---------------------------------------------------------------------------------------------------------- the fields */

static void put_text(JournalEntry *e, const char *name, const char *value) {
        if (value && value[0] != '\0')
                journal_entry_put(e, name, value, strlen(value));
}

static void put_part(JournalEntry *e, const char *name, const IdentityPart *part) {
        if (part->len > 0)
                journal_entry_put(e, name, part->s, part->len);
}

static void put_u64(JournalEntry *e, const char *name, uint64_t value) {
        journal_entry_putf(e, name, "%" PRIu64, value);
}

static void put_bool(JournalEntry *e, const char *name, bool value) {
        put_text(e, name, value ? "yes" : "no");
}

static void put_advice(JournalEntry *e, FindingKind kind) {
        const Advice *a = advice_get(kind);
        Sentence s = {};

        if (!a)
                return;
        say(&s, "Safe: %s", a->safe);
        if (a->costs && a->costs[0] != '\0')
                say(&s, " At a cost: %s", a->costs);
        if (a->never && a->never[0] != '\0')
                say(&s, " Not safe: %s", a->never);
        if (s.failed)
                e->error = -ENOMEM;
        else
                put_text(e, "SHRINKWATCH_ADVICE", s.text);
        free(s.text);
}

/* Characters of unit names; a backslash begins an escape. systemd.unit(5). */
static bool unit_name_is_valid(const IdentityPart *unit) {
        static const char valid[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@";
        static const char *const suffixes[] = { ".service", ".scope", ".socket", ".mount", ".swap", ".slice" };

        if (unit->len > 255 || unit->s[0] == '@')
                return false;
        for (size_t i = 0; i < unit->len; i++)
                if (unit->s[i] == '\0' || !strchr(valid, unit->s[i]))
                        return false;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                size_t n = strlen(suffixes[i]);

                if (unit->len > n && memcmp(unit->s + unit->len - n, suffixes[i], n) == 0)
                        return true;
        }
        return false;
}

/*
 * The unit of this host's systemd: what follows the slices, which only systemd makes, or the slice that the path leads to. What is
 * below that unit was named by whoever it is delegated to.
 */
static void put_unit(JournalEntry *e, const char *path, size_t len) {
        static const char slice[] = ".slice";
        size_t begin = 0, end = 0;
        Identity id;

        while (end < len) {
                begin = end;
                while (begin < len && path[begin] == '/')
                        begin++;
                end = begin;
                while (end < len && path[end] != '/')
                        end++;
                if (end - begin < sizeof(slice) || memcmp(path + end - (sizeof(slice) - 1), slice, sizeof(slice) - 1) != 0)
                        break;
        }
        identity_parse(path, end, &id);
        /* A cgroup that is no unit: the slice around it is another's. */
        if (id.unit.len == 0 || id.unit.s + id.unit.len != path + end || !unit_name_is_valid(&id.unit))
                return;
        put_part(e, "OBJECT_SYSTEMD_UNIT", &id.unit);
}

static void put_memcg(JournalEntry *e, const Finding *f) {
        if (f->path)
                journal_entry_put(e, "SHRINKWATCH_CGROUP", f->path, f->path_len);
        put_u64(e, "SHRINKWATCH_SERIAL", f->serial);
        put_u64(e, "SHRINKWATCH_CGROUP_ID", f->cgroup_id);
}

static void put_identity(JournalEntry *e, const Finding *f) {
        Identity id;

        if (!f->path)
                return;
        identity_parse(f->path, f->path_len, &id);
        put_part(e, "SHRINKWATCH_CONTAINER_ID", &id.container);
        put_text(e, "SHRINKWATCH_ENGINE", id.engine);
        put_text(e, "SHRINKWATCH_POD_UID", id.pod_uid);
        put_part(e, "SHRINKWATCH_MACHINE", &id.machine);
        put_unit(e, f->path, f->path_len);
}

static void put_pin(JournalEntry *e, const Finding *f) {
        put_u64(e, "SHRINKWATCH_PIN_REFS", f->pin_refs);
        put_u64(e, "SHRINKWATCH_PIN_BYTES", f->pin_bytes);
        put_bool(e, "SHRINKWATCH_PIN_EXACT", f->pin_exact);
        if (f->device[0] != '\0')
                journal_entry_put(e, "SHRINKWATCH_DEVICE", f->device, strnlen(f->device, sizeof(f->device)));
}

static void put_overhead(JournalEntry *e, const Snapshot *snapshot, uint64_t bytes, uint64_t units) {
        put_u64(e, "SHRINKWATCH_BYTES", bytes);
        if (!snapshot->facts || snapshot->facts->layout != PROBE_LAYOUT_FLAT)
                put_u64(e, "SHRINKWATCH_UNITS", units);
}

/* One finding, raised or cleared. */
static void put_finding(JournalEntry *e, const Snapshot *snapshot, const StormEntry *entry) {
        const Finding *f = entry->finding;

        put_u64(e, "SHRINKWATCH_FINDING", f->id);
        if (entry->kind == STORM_CLEARED)
                put_text(e, "SHRINKWATCH_END", finding_end_to_string(entry->end));
        if (finding_kind_is_memcg(f->kind)) {
                put_memcg(e, f);
                put_identity(e, f);
                put_text(e, "SHRINKWATCH_CREATOR", f->creator);
                if (f->refs_known)
                        put_u64(e, "SHRINKWATCH_REFS", f->refs);
        }
        if (kinds[f->kind].cause)
                put_pin(e, f);
        /* The watcher's own state takes no memory. */
        if (f->kind != FINDING_DEGRADED) {
                put_overhead(e, snapshot, f->bytes, f->units);
                put_u64(e, "SHRINKWATCH_VALUE", f->value);
                put_u64(e, "SHRINKWATCH_LIMIT", f->limit);
        }
        if (f->kind == FINDING_HOST && snapshot->overhead_trend.known)
                journal_entry_putf(e, "SHRINKWATCH_GROWTH_BYTES", "%" PRId64, clamp_i64(snapshot->overhead_trend.per_hour));
        put_u64(e, "SHRINKWATCH_AGE_USEC", usec_since(snapshot->boot_usec, f->since_boot_usec));
        put_bool(e, "SHRINKWATCH_AGE_EXACT", f->since_exact);
        if (entry->kind == STORM_RAISED)
                put_advice(e, f->kind);
}

static void put_group(JournalEntry *e, const Snapshot *snapshot, const StormEntry *entry) {
        if (entry->finding && finding_kind_is_memcg(entry->finding->kind))
                put_memcg(e, entry->finding);
        put_text(e, "SHRINKWATCH_CREATOR", entry->creator);
        put_u64(e, "SHRINKWATCH_STANDING", entry->standing);
        put_overhead(e, snapshot, entry->bytes, entry->units);
        if (entry->standing > 0)
                put_u64(e, "SHRINKWATCH_AGE_USEC", usec_since(snapshot->boot_usec, entry->oldest_boot_usec));
        if (entry->kind != STORM_ENDS)
                put_advice(e, entry->finding_kind);
}

int journal_tell(Journal *j, const Snapshot *snapshot, const StormEntry *entry) {
        bool one = entry->kind == STORM_RAISED || entry->kind == STORM_CLEARED;
        JournalMessage message = entry->kind == STORM_RAISED  ? kinds[entry->finding_kind].message :
                                 entry->kind == STORM_CLEARED ? JOURNAL_CLEARED :
                                 entry->kind == STORM_MORE    ? JOURNAL_MORE :
                                                                JOURNAL_STORM;
        _cleanup_(freep) char *text = sentence_of(snapshot, entry);
        JournalEntry e = {};
        int r;

        put_text(&e, "SHRINKWATCH_CHANGE", storm_kind_to_string(entry->kind));
        if (entry->kind != STORM_MORE) {
                put_text(&e, "SHRINKWATCH_KIND", finding_kind_to_string(entry->finding_kind));
                put_text(&e, "SHRINKWATCH_CAUSE", kinds[entry->finding_kind].cause);
        }
        if (one)
                put_finding(&e, snapshot, entry);
        else {
                if (entry->kind != STORM_MORE)
                        put_group(&e, snapshot, entry);
                put_u64(&e, "SHRINKWATCH_RAISED", entry->raised);
                put_u64(&e, "SHRINKWATCH_CLEARED", entry->cleared);
        }
        r = journal_send(j, message, entry->kind != STORM_CLEARED && entry->kind != STORM_ENDS, &e, text);
        journal_entry_done(&e);
        return r;
}
