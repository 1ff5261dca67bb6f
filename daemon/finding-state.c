/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The findings over a restart, as text:
 *
 *     shrinkwatch findings 1 BOOT_ID NEXT_ID
 *     id=7 kind=writeback serial=412 … path=/system.slice/a\x20b.service …
 *     end 1
 *
 * One line for each finding, in ascending order of ids that are below NEXT_ID: words with one space between them, each once. Of strings
 * the bytes that are not printable ASCII, the space and the backslash are \x and two hexadecimal digits. A word that is missing is 0,
 * false or no string, and one that is not known is ignored: it is of a later version. The last line counts the others, so that a file
 * which was cut off is noticed.
 */
#include <inttypes.h>

#include "finding-internal.h"

static const char magic[] = "shrinkwatch findings 1 ";

/* Ids are counted up from here: far from where they would wrap. */
#define ID_MAX (UINT64_MAX / 2)

typedef enum FieldType {
        FIELD_NUMBER, /* uint64_t */
        FIELD_SIZE,   /* size_t */
        FIELD_BOOL,
        FIELD_KIND,
        FIELD_STRING, /* char *, newly allocated */
        FIELD_DEVICE, /* char [], of finding.device */
} FieldType;

typedef struct Field {
        const char *name;
        FieldType type;
        size_t offset; /* in an Entry */
} Field;

#define FIELD(name, type, member) { name, type, offsetof(Entry, member) }

static const Field fields[] = {
        FIELD("id", FIELD_NUMBER, finding.id),
        FIELD("kind", FIELD_KIND, finding.kind),
        FIELD("serial", FIELD_NUMBER, finding.serial),
        FIELD("cgroup-id", FIELD_NUMBER, finding.cgroup_id),
        FIELD("path", FIELD_STRING, finding.path),
        FIELD("creator", FIELD_STRING, finding.creator),
        FIELD("value", FIELD_NUMBER, finding.value),
        FIELD("limit", FIELD_NUMBER, finding.limit),
        FIELD("off", FIELD_NUMBER, off),
        FIELD("peak", FIELD_NUMBER, peak),
        FIELD("own", FIELD_BOOL, own),
        FIELD("nested", FIELD_BOOL, nested),
        FIELD("bytes", FIELD_NUMBER, finding.bytes),
        FIELD("units", FIELD_NUMBER, finding.units),
        FIELD("raised", FIELD_NUMBER, finding.raised_boot_usec),
        FIELD("since", FIELD_NUMBER, finding.since_boot_usec),
        FIELD("since-exact", FIELD_BOOL, finding.since_exact),
        FIELD("refs-known", FIELD_BOOL, finding.refs_known),
        FIELD("refs", FIELD_NUMBER, finding.refs),
        FIELD("pin-refs", FIELD_NUMBER, finding.pin_refs),
        FIELD("pin-bytes", FIELD_NUMBER, finding.pin_bytes),
        FIELD("pin-inodes", FIELD_NUMBER, finding.pin_inodes),
        FIELD("pin-entries", FIELD_NUMBER, finding.pin_entries),
        FIELD("pin-exact", FIELD_BOOL, finding.pin_exact),
        FIELD("device", FIELD_DEVICE, finding.device),
        FIELD("devices", FIELD_SIZE, finding.n_devices),
        FIELD("text", FIELD_STRING, finding.text),
};

static const void *field_of(const Field *field, const Entry *e) {
        return (const char *)e + field->offset;
}

static void write_string(FILE *file, const char *s) {
        for (; *s; s++) {
                if (*s > ' ' && *s <= '~' && *s != '\\')
                        (void)putc(*s, file);
                else
                        (void)fprintf(file, "\\x%02x", (unsigned)(uint8_t)*s);
        }
}

static void write_field(FILE *file, const Field *field, const Entry *e) {
        const void *value = field_of(field, e);

        switch (field->type) {
        case FIELD_NUMBER:
                (void)fprintf(file, "%s=%" PRIu64, field->name, *(const uint64_t *)value);
                break;
        case FIELD_SIZE:
                (void)fprintf(file, "%s=%zu", field->name, *(const size_t *)value);
                break;
        case FIELD_BOOL:
                (void)fprintf(file, "%s=%d", field->name, *(const bool *)value);
                break;
        case FIELD_KIND:
                (void)fprintf(file, "%s=%s", field->name, finding_kind_to_string(*(const FindingKind *)value));
                break;
        case FIELD_STRING:
        case FIELD_DEVICE:
                (void)fprintf(file, "%s=", field->name);
                write_string(file, field->type == FIELD_DEVICE ? value : *(char *const *)value);
                break;
        }
}

static bool field_is_there(const Field *field, const Entry *e) {
        return field->type != FIELD_STRING || *(char *const *)field_of(field, e);
}

int findings_write(const Findings *f, FILE *file, const char *boot_id) {
        (void)fprintf(file, "%s%s %" PRIu64 "\n", magic, boot_id, f->next_id);
        for (size_t i = 0; i < f->n_standing; i++) {
                for (size_t k = 0; k < ELEMENTSOF(fields); k++) {
                        if (!field_is_there(&fields[k], f->standing[i]))
                                continue;
                        if (k > 0)
                                (void)putc(' ', file);
                        write_field(file, &fields[k], f->standing[i]);
                }
                (void)putc('\n', file);
        }
        (void)fprintf(file, "end %zu\n", f->n_standing);
        return ferror(file) ? -EIO : 0;
}

/* A part of the text. */
typedef struct Span {
        const char *s;
        size_t len;
} Span;

/* Takes off what stands before the first such byte, and the byte. False: there is none, and nothing is taken. */
static bool take_until(Span *from, char end, Span *ret) {
        const char *at = from->len > 0 ? memchr(from->s, end, from->len) : NULL;

        if (!at)
                return false;
        *ret = (Span){ from->s, (size_t)(at - from->s) };
        from->len -= ret->len + 1;
        from->s = at + 1;
        return true;
}

static bool span_is(Span span, const char *s) {
        return span.len == strlen(s) && memcmp(span.s, s, span.len) == 0;
}

/* As it is written, and nothing else: digits, no zero in front. */
static bool parse_number(Span span, uint64_t *ret) {
        uint64_t n = 0;

        if (span.len == 0 || (span.len > 1 && span.s[0] == '0'))
                return false;
        for (size_t i = 0; i < span.len; i++) {
                if (span.s[i] < '0' || span.s[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
                    __builtin_add_overflow(n, (uint64_t)(span.s[i] - '0'), &n))
                        return false;
        }
        *ret = n;
        return true;
}

static int hex_digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes write_string(). 0, -EBADMSG, -ENOMEM. */
static int parse_string(Span span, char **ret) {
        _cleanup_(freep) char *s = malloc(span.len + 1);
        size_t len = 0;

        if (!s)
                return -ENOMEM;
        for (size_t i = 0; i < span.len; i++) {
                int high, low;

                if (span.s[i] <= ' ' || span.s[i] > '~')
                        return -EBADMSG;
                if (span.s[i] != '\\') {
                        s[len++] = span.s[i];
                        continue;
                }
                if (span.len - i < 4 || span.s[i + 1] != 'x')
                        return -EBADMSG;
                high = hex_digit(span.s[i + 2]);
                low = hex_digit(span.s[i + 3]);
                if (high < 0 || low < 0 || (high == 0 && low == 0))
                        return -EBADMSG;
                s[len++] = (char)(high << 4 | low);
                i += 3;
        }
        s[len] = '\0';
        *ret = TAKE_PTR(s);
        return 0;
}

static int parse_kind(Span span, FindingKind *ret) {
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                if (!span_is(span, finding_kind_to_string(kind)))
                        continue;
                *ret = kind;
                return 0;
        }
        return -EBADMSG;
}

static int parse_field(const Field *field, Span span, Entry *e) {
        void *value = (char *)e + field->offset;
        _cleanup_(freep) char *s = NULL;
        uint64_t n = 0;
        int r;

        switch (field->type) {
        case FIELD_NUMBER:
                return parse_number(span, value) ? 0 : -EBADMSG;
        case FIELD_SIZE:
                if (!parse_number(span, &n) || n > SIZE_MAX)
                        return -EBADMSG;
                *(size_t *)value = n;
                return 0;
        case FIELD_BOOL:
                if (!parse_number(span, &n) || n > 1)
                        return -EBADMSG;
                *(bool *)value = n;
                return 0;
        case FIELD_KIND:
                return parse_kind(span, value);
        case FIELD_STRING:
        case FIELD_DEVICE:
                r = parse_string(span, &s);
                if (r < 0)
                        return r;
                if (field->type == FIELD_STRING) {
                        *(char **)value = TAKE_PTR(s);
                        return 0;
                }
                if (strlen(s) >= sizeof(e->finding.device))
                        return -EBADMSG;
                memcpy(value, s, strlen(s) + 1);
                return 0;
        }
        return -EBADMSG;
}

/* What the rest of the code takes for granted. */
static bool is_sound(const Finding *f, uint64_t after_id, uint64_t next_id) {
        if (f->kind == _FINDING_KIND_MAX || f->id <= after_id || f->id >= next_id)
                return false;
        if ((f->kind == FINDING_DEGRADED) != (f->text != NULL))
                return false;
        if (!finding_kind_is_memcg(f->kind))
                return f->serial == 0 && !f->path && !f->creator;
        return f->serial > 0 && f->path && f->creator && f->path[0] == '/' && strlen(f->path) <= FINDING_PATH_MAX;
}

/* What was read. */
typedef struct Load {
        uint64_t next_id;
        Entry **entries;
        size_t n, allocated;
} Load;

/* One finding, after those that were read. 0, -EBADMSG, -ENOMEM. */
static int parse_line(Span line, const Load *l, Entry **ret) {
        _cleanup_(entry_freep) Entry *e = calloc(1, sizeof(*e));
        bool seen[ELEMENTSOF(fields)] = {};

        if (!e)
                return -ENOMEM;
        e->finding.kind = _FINDING_KIND_MAX;
        for (bool more = true; more;) {
                Span word, name;
                int r;

                more = take_until(&line, ' ', &word);
                if (!more)
                        word = line;
                if (!take_until(&word, '=', &name))
                        return -EBADMSG;
                for (size_t i = 0; i < ELEMENTSOF(fields); i++) {
                        if (!span_is(name, fields[i].name))
                                continue;
                        if (seen[i])
                                return -EBADMSG;
                        seen[i] = true;
                        r = parse_field(&fields[i], word, e);
                        if (r < 0)
                                return r;
                }
        }
        if (!is_sound(&e->finding, l->n > 0 ? l->entries[l->n - 1]->finding.id : 0, l->next_id))
                return -EBADMSG;
        e->finding.path_len = e->finding.path ? strlen(e->finding.path) : 0;
        *ret = TAKE_PTR(e);
        return 0;
}

static void load_done(Load *l) {
        for (size_t i = 0; i < l->n; i++)
                entry_free(l->entries[i]);
        free(l->entries);
}

/* The first line. 0, -EBADMSG, -ESTALE. */
static int parse_head(Span head, const char *boot_id, uint64_t *ret_next_id) {
        uint64_t next_id;
        Span boot;

        if (head.len < strlen(magic) || memcmp(head.s, magic, strlen(magic)) != 0)
                return -EBADMSG;
        head.s += strlen(magic);
        head.len -= strlen(magic);
        if (!take_until(&head, ' ', &boot) || !parse_number(head, &next_id) || next_id == 0 || next_id > ID_MAX)
                return -EBADMSG;
        if (!span_is(boot, boot_id))
                return -ESTALE;
        *ret_next_id = next_id;
        return 0;
}

/* All lines. 0; -EBADMSG with *line the one, what stood before is in the Load; -ESTALE; -ENOMEM. */
static int parse_text(Span text, const char *boot_id, Load *l, unsigned *line) {
        uint64_t count;
        Span s;
        int r;

        *line = 1;
        if (!take_until(&text, '\n', &s))
                return -EBADMSG;
        r = parse_head(s, boot_id, &l->next_id);
        if (r < 0)
                return r;
        for (;;) {
                (*line)++;
                if (!take_until(&text, '\n', &s))
                        return -EBADMSG;
                if (s.len > 4 && memcmp(s.s, "end ", 4) == 0)
                        break;
                r = grow_array(&l->entries, &l->allocated, l->n + 1, sizeof(*l->entries));
                if (r < 0)
                        return r;
                r = parse_line(s, l, &l->entries[l->n]);
                if (r < 0)
                        return r;
                l->n++;
        }
        if (!parse_number((Span){ s.s + 4, s.len - 4 }, &count) || count != l->n)
                return -EBADMSG;
        if (text.len > 0) {
                (*line)++;
                return -EBADMSG;
        }
        return 0;
}

/* Of one key the one that stood first in the file, which has the lower address in entries. */
static int compare_keys_stable(const void *a, const void *b) {
        Entry *const *x = *(Entry **const *)a, *const *y = *(Entry **const *)b;
        int r = entry_compare(x, y);

        return r != 0 ? r : x < y ? -1 : x > y;
}

/* Frees and leaves NULL where an entry is one too many. 0, -ENOMEM. */
static int drop_doubles(const Findings *f, Load *l) {
        _cleanup_(freep) Entry ***order = calloc(l->n + 1, sizeof(*order));

        if (!order)
                return -ENOMEM;
        for (size_t i = 0; i < l->n; i++)
                order[i] = &l->entries[i];
        if (l->n > 1)
                qsort(order, l->n, sizeof(*order), compare_keys_stable);
        for (size_t i = l->n; i-- > 0;)
                if ((i > 0 && entry_compare(order[i - 1], order[i]) == 0) ||
                    entry_find(f, (*order[i])->finding.kind, (*order[i])->finding.serial))
                        *order[i] = entry_free(*order[i]);
        return 0;
}

/* Appends what was read. Returns how many that are, or -ENOMEM. */
static int take_over(Findings *f, Load *l) {
        _cleanup_(freep) Entry **standing = calloc(f->n_standing + l->n + 1, sizeof(*standing));
        _cleanup_(freep) Entry **by_key = calloc(f->n_standing + l->n + 1, sizeof(*by_key));
        size_t n = f->n_standing;
        int r;

        if (!standing || !by_key)
                return -ENOMEM;
        r = drop_doubles(f, l);
        if (r < 0)
                return r;
        if (n > 0)
                memcpy(standing, f->standing, n * sizeof(*standing));
        for (size_t i = 0; i < l->n; i++) {
                Entry *e = TAKE_PTR(l->entries[i]);

                if (!e)
                        continue;
                /* Its own id, which journals know it by, unless that is taken. */
                if (e->finding.id < f->next_id)
                        e->finding.id = f->next_id;
                f->next_id = e->finding.id + 1;
                standing[n++] = e;
        }
        if (f->next_id < l->next_id)
                f->next_id = l->next_id;
        if (n > 0)
                memcpy(by_key, standing, n * sizeof(*by_key));
        if (n > 1)
                qsort(by_key, n, sizeof(*by_key), entry_compare);
        r = (int)(n - f->n_standing);
        free(f->standing);
        free(f->by_key);
        f->standing = TAKE_PTR(standing);
        f->by_key = TAKE_PTR(by_key);
        f->n_standing = n;
        findings_sum_up(f);
        return r;
}

int findings_parse(Findings *f, const char *text, size_t len, const char *boot_id, unsigned *ret_line) {
        _cleanup_(load_done) Load l = {};
        unsigned line = 0;
        int r, taken;

        r = parse_text((Span){ text, len }, boot_id, &l, &line);
        if (r < 0 && r != -EBADMSG)
                return r;
        taken = take_over(f, &l);
        if (taken < 0)
                return taken;
        if (r < 0 && ret_line)
                *ret_line = line;
        return r < 0 ? r : taken;
}
