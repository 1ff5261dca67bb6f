/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The form of the state file: lines of words, one blank between two, each line ended by a newline. 412 died at that time, 415 not later
 * than that:
 *
 *     shrinkwatch-ages 1 d3b07384-d113-4ec6-a1b2-0123456789ab
 *     412 8812345678 exact
 *     415 9000000000 since
 *     end 2
 *
 * The first line has the number of the form and the boot id ("-": it was not known), the last one the number of entries: without it the
 * file was cut off. A later daemon may put more words at the end of any line, and the ones before it ignore them, so that a downgrade
 * loses nothing. What cannot be said that way needs another number, which older daemons take for no file of theirs.
 */
#include "ages.h"

#include <inttypes.h>
#include <limits.h>

#define FORM_NAME "shrinkwatch-ages"
#define FORM_NUMBER 1
#define BOOT_ID_UNKNOWN "-"

/* Entries that wait to be merged: many enough that moving all the others is rare, few enough that moving these is nothing. */
#define LATE_MAX 1024

/* What comes in ascending serial goes behind the others at once; what does not waits in a short array of its own, in that order too. */
struct Ages {
        Age *all;
        size_t n, allocated; /* allocated is at least n + n_late: a merge needs no memory */
        Age late[LATE_MAX];
        size_t n_late;
};

int ages_new(Ages **ret) {
        Ages *a = calloc(1, sizeof(*a));

        if (!a)
                return -ENOMEM;
        *ret = a;
        return 0;
}

Ages *ages_free(Ages *a) {
        if (!a)
                return NULL;
        free(a->all);
        free(a);
        return NULL;
}

/* Where the serial is, or would be. */
static size_t find(const Age *ages, size_t n, uint64_t serial) {
        size_t low = 0;

        while (low < n) {
                size_t middle = low + (n - low) / 2;

                if (ages[middle].serial < serial)
                        low = middle + 1;
                else
                        n = middle;
        }
        return low;
}

static Age *get(const Ages *a, uint64_t serial) {
        size_t i = find(a->all, a->n, serial), k;

        if (i < a->n && a->all[i].serial == serial)
                return &a->all[i];
        k = find(a->late, a->n_late, serial);
        return k < a->n_late && a->late[k].serial == serial ? (Age *)&a->late[k] : NULL;
}

/* Merges more entries, of other serials and in ascending order, into all[], which has room for them: from the end on, where it is free. */
static void merge(Ages *a, const Age *more, size_t n_more) {
        size_t from = a->n, to = a->n + n_more;

        a->n = to;
        while (n_more > 0) {
                if (from > 0 && a->all[from - 1].serial > more[n_more - 1].serial)
                        a->all[--to] = a->all[--from];
                else
                        a->all[--to] = more[--n_more];
        }
}

static void merge_late(Ages *a) {
        merge(a, a->late, a->n_late);
        a->n_late = 0;
}

static int append(Ages *a, const Age *age) {
        size_t i;
        int r;

        r = grow_array(&a->all, &a->allocated, a->n + a->n_late + 1, sizeof(*a->all));
        if (r < 0)
                return r;
        if (a->n_late == LATE_MAX)
                merge_late(a);
        if (a->n == 0 || a->all[a->n - 1].serial < age->serial) {
                a->all[a->n++] = *age;
                return 0;
        }
        i = find(a->late, a->n_late, age->serial);
        memmove(&a->late[i + 1], &a->late[i], (a->n_late - i) * sizeof(*a->late));
        a->late[i] = *age;
        a->n_late++;
        return 0;
}

int ages_put(Ages *a, uint64_t serial, uint64_t boot_usec, bool exact) {
        const Age age = { .serial = serial, .boot_usec = boot_usec, .exact = exact };
        Age *old;
        int r;

        if (serial == 0)
                return -EINVAL;
        old = get(a, serial);
        if (!old) {
                r = append(a, &age);
                return r < 0 ? r : 1;
        }
        if (old->exact != exact ? !exact : boot_usec >= old->boot_usec)
                return 0;
        *old = age;
        return 1;
}

bool ages_get(const Ages *a, uint64_t serial, Age *ret) {
        const Age *age = get(a, serial);

        if (!age)
                return false;
        *ret = *age;
        return true;
}

size_t ages_count(const Ages *a) {
        return a->n + a->n_late;
}

const Age *ages_all(const Ages *a, size_t *ret_n) {
        /* Where an entry waits is no part of what is known. The object is never const itself: ages_new() alone makes it. */
        merge_late((Ages *)a);
        *ret_n = a->n;
        return a->all;
}

bool ages_oldest(const Ages *a, uint64_t *ret_boot_usec) {
        uint64_t usec = UINT64_MAX;
        const Age *all;
        size_t n;

        all = ages_all(a, &n);
        for (size_t i = 0; i < n; i++)
                if (all[i].boot_usec < usec)
                        usec = all[i].boot_usec;
        if (n > 0)
                *ret_boot_usec = usec;
        return n > 0;
}

/* What a census changes. */
typedef struct Difference {
        Age *come;
        size_t n_come, come_allocated;
        uint64_t *gone;
        size_t n_gone, gone_allocated;
} Difference;

static void difference_done(Difference *d) {
        free(d->come);
        free(d->gone);
}

static int add_come(Difference *d, uint64_t serial, uint64_t boot_usec) {
        int r = grow_array(&d->come, &d->come_allocated, d->n_come + 1, sizeof(*d->come));

        if (r < 0)
                return r;
        d->come[d->n_come++] = (Age){ .serial = serial, .boot_usec = boot_usec };
        return 0;
}

static int add_gone(Difference *d, uint64_t serial) {
        int r = grow_array(&d->gone, &d->gone_allocated, d->n_gone + 1, sizeof(*d->gone));

        if (r < 0)
                return r;
        d->gone[d->n_gone++] = serial;
        return 0;
}

/* Both sides are in ascending serial, so one way through them finds everything. */
static int compare(const Ages *a, const Census *c, bool complete, uint64_t boot_usec, Difference *d) {
        size_t i = 0, k = 0;

        while (i < a->n || k < c->n_memcgs) {
                const CensusMemcg *m = k < c->n_memcgs ? &c->memcgs[c->by_serial[k]] : NULL;
                int r = 0;

                if (m && m->state != CENSUS_DYING) {
                        k++;
                        continue;
                }
                if (!m || (i < a->n && a->all[i].serial < m->serial)) {
                        if (complete && a->all[i].boot_usec <= boot_usec)
                                r = add_gone(d, a->all[i].serial);
                        i++;
                } else {
                        if (i < a->n && a->all[i].serial == m->serial)
                                i++;
                        else
                                r = add_come(d, m->serial, boot_usec);
                        k++;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

static void drop(Ages *a, const uint64_t *gone, size_t n_gone) {
        size_t to = 0;

        for (size_t from = 0, g = 0; from < a->n; from++) {
                if (g < n_gone && a->all[from].serial == gone[g])
                        g++;
                else
                        a->all[to++] = a->all[from];
        }
        a->n = to;
}

int ages_observe(Ages *a, const Census *census, bool complete, uint64_t boot_usec, Age **ret_new, size_t *ret_n_new, uint64_t **ret_gone,
                 size_t *ret_n_gone) {
        _cleanup_(difference_done) Difference d = {};
        int r;

        if (!census->sealed)
                return -EINVAL;
        merge_late(a);
        r = compare(a, census, complete, boot_usec, &d);
        if (r < 0)
                return r;
        r = grow_array(&a->all, &a->allocated, a->n + d.n_come, sizeof(*a->all));
        if (r < 0)
                return r;

        if (d.n_gone > 0)
                drop(a, d.gone, d.n_gone);
        merge(a, d.come, d.n_come);
        if (ret_n_new)
                *ret_n_new = d.n_come;
        if (ret_n_gone)
                *ret_n_gone = d.n_gone;
        if (ret_new)
                *ret_new = TAKE_PTR(d.come);
        if (ret_gone)
                *ret_gone = TAKE_PTR(d.gone);
        return 0;
}

int ages_write(const Ages *a, FILE *f, const char *boot_id) {
        const Age *ages;
        size_t n;

        ages = ages_all(a, &n);
        fprintf(f, "%s %d %s\n", FORM_NAME, FORM_NUMBER, boot_id[0] ? boot_id : BOOT_ID_UNKNOWN);
        for (size_t i = 0; i < n; i++)
                fprintf(f, "%" PRIu64 " %" PRIu64 " %s\n", ages[i].serial, ages[i].boot_usec, ages[i].exact ? "exact" : "since");
        fprintf(f, "end %zu\n", n);
        /* Without flushing, a disk that is full would not be seen here. */
        return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}

/* What is left of a line, or of the text. */
typedef struct Words {
        const char *s;
        size_t len;
} Words;

static bool word_is(Words w, const char *text) {
        return w.len == strlen(text) && memcmp(w.s, text, w.len) == 0;
}

/* Cuts off what stands before the first such byte, and the byte. False: there is none, and w is as it was. */
static bool cut(Words *w, char at, Words *ret) {
        const char *end = w->len > 0 ? memchr(w->s, at, w->len) : NULL;

        if (!end)
                return false;
        *ret = (Words){ w->s, (size_t)(end - w->s) };
        w->len -= ret->len + 1;
        w->s = end + 1;
        return true;
}

/* The next word of a line; an empty one behind the last. */
static Words next_word(Words *line) {
        Words word;

        if (cut(line, ' ', &word))
                return word;
        word = *line;
        line->s += line->len;
        line->len = 0;
        return word;
}

/* Digits and nothing else. */
static bool next_number(Words *line, uint64_t *ret) {
        Words word = next_word(line);
        uint64_t n = 0;

        for (size_t i = 0; i < word.len; i++) {
                unsigned digit = (unsigned char)word.s[i] - (unsigned)'0';

                if (digit > 9 || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
                        return false;
        }
        *ret = n;
        return word.len > 0;
}

/* 0, -EBADMSG, -ESTALE */
static int parse_head(Words line, const char *boot_id) {
        uint64_t number;
        Words boot;

        if (!word_is(next_word(&line), FORM_NAME) || !next_number(&line, &number) || number != FORM_NUMBER)
                return -EBADMSG;
        boot = next_word(&line);
        if (boot.len == 0)
                return -EBADMSG;
        /* An id that is not known never is that of the file, which would say "-": another boot's times would be taken for ours. */
        return word_is(boot, boot_id) ? 0 : -ESTALE;
}

/* 0, -EBADMSG, -ENOMEM */
static int parse_entry(Ages *a, Words line) {
        uint64_t serial, boot_usec;
        bool exact;
        Words how;
        int r;

        if (!next_number(&line, &serial) || serial == 0 || !next_number(&line, &boot_usec))
                return -EBADMSG;
        how = next_word(&line);
        exact = word_is(how, "exact");
        if (!exact && !word_is(how, "since"))
                return -EBADMSG;
        r = ages_put(a, serial, boot_usec, exact);
        return r < 0 ? r : 0;
}

int ages_parse(Ages *a, const char *text, size_t len, const char *boot_id, unsigned *ret_line) {
        Words rest = { text, len }, line;
        unsigned number = 1;
        uint64_t entries = 0, end = 0;
        bool ended = false;
        int r;

        r = cut(&rest, '\n', &line) ? parse_head(line, boot_id) : -EBADMSG;
        while (r == 0 && !ended) {
                Words words;

                number++;
                if (!cut(&rest, '\n', &line)) {
                        r = -EBADMSG;
                        break;
                }
                words = line;
                if (!word_is(next_word(&words), "end")) {
                        r = parse_entry(a, line);
                        entries += r == 0;
                        continue;
                }
                ended = true;
                if (!next_number(&words, &end) || end != entries)
                        r = -EBADMSG;
        }
        if (r == 0 && rest.len > 0) {
                number++;
                r = -EBADMSG;
        }
        if (r == -EBADMSG && ret_line)
                *ret_line = number;
        if (r < 0)
                return r;
        return entries > INT_MAX ? INT_MAX : (int)entries;
}
