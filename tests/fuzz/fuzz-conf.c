/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a configuration file: there is a whole configuration, and what it says of itself, written out, is the same one. */
#include <sys/mman.h>

#include "conf.h"
#include "escape.h"
#include "fuzz.h"

#define MEMORY 3000000019ULL

static ConfResult *load(const void *bytes, size_t size) {
        ConfPaths paths = { .memory_bytes = MEMORY };
        ConfResult *r = NULL;
        char path[64];
        int fd = memfd_create("conf", MFD_CLOEXEC);

        CHECK(fd >= 0);
        CHECK(write(fd, bytes, size) == (ssize_t)size);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        paths.file = path;
        CHECK(conf_load(&r, &paths) == 0);
        CHECK(r);
        CHECK(close(fd) == 0);
        return r;
}

static void check_limit(const FindingLimit *l) {
        CHECK(l->on > 0 && l->off > 0 && l->off <= l->on);
        CHECK(l->enabled == (l->on != UINT64_MAX && l->min_age_usec != UINT64_MAX));
}

static void check_conf(const Conf *c) {
        CHECK(c->interval_usec >= 1000000 && c->interval_usec <= 86400000000);
        CHECK(c->cpu_share_ppm <= 1000000);
        CHECK(c->max_deaths >= 1024 && c->max_deaths <= 16777216);
        CHECK(c->trend_usec >= 600000000 && c->trend_usec <= 7776000000000);
        CHECK(!c->textfile || c->textfile[0] == '/');
        for (size_t i = 0; i < _FINDING_KIND_MAX; i++)
                check_limit(c->limits.limit + i);
        CHECK(c->limits.n_subtrees <= CONF_SUBTREES_MAX);
        for (size_t i = 0; i < c->limits.n_subtrees; i++) {
                const char *pattern = c->limits.subtrees[i].pattern;

                check_limit(&c->limits.subtrees[i].overhead);
                CHECK(pattern[0] && pattern[0] != '/' && pattern[strlen(pattern) - 1] != '/');
                for (size_t j = 0; j < i; j++)
                        CHECK(strcmp(pattern, c->limits.subtrees[j].pattern) != 0);
        }
}

static void check_messages(const ConfResult *r, unsigned lines) {
        CHECK(r->n_messages <= CONF_MESSAGES_MAX);
        for (size_t i = 0; i < r->n_messages; i++) {
                const ConfMessage *m = r->messages + i;

                CHECK(strlen(m->text) > 10 && strchr(".?", m->text[strlen(m->text) - 1]));
                CHECK(!escape_needed(m->text, strlen(m->text), ESCAPE_TERMINAL));
                CHECK(m->line <= lines);
                CHECK(m->line > 0 || r->failed || i == CONF_MESSAGES_MAX - 1);
                CHECK(i == 0 || m->line == 0 || m->line >= r->messages[i - 1].line);
        }
}

static void check_origins(const ConfResult *r, unsigned lines) {
        size_t n;
        const ConfKey *keys = conf_keys(&n);

        CHECK(r->n_origins == n - 3 + 3 * r->conf.limits.n_subtrees);
        for (size_t i = 0; i < r->n_origins; i++) {
                const ConfOrigin *o = r->origins + i;
                const ConfKey *k = keys + (i < n ? i : n - 3 + (i - n) % 3);

                CHECK(strcmp(o->key, k->key) == 0 && strcmp(o->section, k->section) == 0);
                CHECK((o->pattern != NULL) == (i >= n - 3));
                CHECK((o->file == NULL) == (o->line == 0));
                CHECK(o->line <= lines);
                /* An Off= that was above has the value of On=, which may be the default. */
                if (!o->file)
                        CHECK(i >= n - 3 || strstr(k->key, "Off") || strcmp(o->value, k->value) == 0);
                else
                        CHECK(o->value[0] && o->file == r->files[0]);
        }
}

/* By fields: what is between them is anything. */
static bool same_limit(const FindingLimit *a, const FindingLimit *b) {
        return a->enabled == b->enabled && a->on == b->on && a->off == b->off && a->min_age_usec == b->min_age_usec;
}

static bool same_conf(const Conf *a, const Conf *b) {
        if (a->limits.n_subtrees != b->limits.n_subtrees || !a->textfile != !b->textfile || (a->textfile && strcmp(a->textfile, b->textfile) != 0))
                return false;
        for (size_t i = 0; i < a->limits.n_subtrees; i++) {
                const FindingSubtree *s = a->limits.subtrees + i, *t = b->limits.subtrees + i;

                if (strcmp(s->pattern, t->pattern) != 0 || !same_limit(&s->overhead, &t->overhead))
                        return false;
        }
        for (size_t i = 0; i < _FINDING_KIND_MAX; i++)
                if (!same_limit(a->limits.limit + i, b->limits.limit + i))
                        return false;
        return a->interval_usec == b->interval_usec && a->cpu_share_ppm == b->cpu_share_ppm && a->events == b->events &&
               a->max_deaths == b->max_deaths && a->marks == b->marks && a->history == b->history && a->trend_usec == b->trend_usec;
}

static void check_again(const ConfResult *r) {
        ConfResult *again;
        char *text = NULL;
        size_t len = 0;
        FILE *f = open_memstream(&text, &len);

        CHECK(f);
        for (size_t i = 0; i < r->n_origins; i++) {
                const ConfOrigin *o = r->origins + i;

                /* The slash is left out of a pattern; one that begins with a blank needs it. */
                CHECK(fprintf(f, "[%s%s%s]\n%s=%s\n", o->section, o->pattern ? " /" : "", o->pattern ? o->pattern : "", o->key, o->value) > 0);
        }
        CHECK(fclose(f) == 0);
        again = load(text, len);
        CHECK(again->n_messages == 0);
        CHECK(same_conf(&r->conf, &again->conf));
        CHECK(!conf_free(again));
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ConfResult *r = load(data, size);
        unsigned lines = 1;

        for (size_t i = 0; i < size; i++)
                lines += data[i] == '\n';
        CHECK(r->failed == (size > CONF_FILE_BYTES_MAX || (size > 0 && memchr(data, '\0', size))));
        CHECK(r->n_files == (size > 0 && size <= CONF_FILE_BYTES_MAX));
        check_conf(&r->conf);
        check_messages(r, lines);
        check_origins(r, lines);
        check_again(r);
        CHECK(!conf_free(r));
        return 0;
}

static size_t put(uint8_t *buf, size_t len, const char *piece) {
        memcpy(buf + len, piece, strlen(piece));
        return len + strlen(piece);
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char *const pieces[] = {
                "[Census]\n", "[Events]\n", "[Limits]\n", "[Metrics]\n", "[History]\n", "[Subtree a/*]\n", "[Subtree ", "]\n", "[", "a[0-9]", "/", "\\",
                " ; ", "#", ";", "\n", "\n", "\r\n", " ", "\t", "=", ":", "\"", "\xef\xbb\xbf", "\xff", "\x1b[1m", "\xe2\x80\xae", "\v", "\f", "nothing\n",
        };
        static const char *const values[] = {
                "1", "0", "2G", "1.5G", "1G 3K", "10%", "0.0001%", "100%", "5‰", "infinity", "", "yes", "off", "5min", "1h 30min", "0.5s", "1024", "20000",
                "99999999999999999999", "18446744073709551615", "18446744073709551614us", "8E", "7E", "-1", "/a/b", "/a/../b", "x", "1d", "1w",
        };
        size_t len = 0, n;
        const ConfKey *keys = conf_keys(&n);

        if (random_once_in(random, 8))
                return fuzz_noise(random, buf, size);
        while (len + 100 < size && !random_once_in(random, 60)) {
                if (random_once_in(random, 3)) {
                        len = put(buf, len, pieces[random_below(random, ELEMENTSOF(pieces))]);
                        continue;
                }
                /* Keys of the section before it more often than not: the table has them together. */
                const ConfKey *k = keys + random_below(random, n);

                if (!random_once_in(random, 4)) {
                        len = put(buf, len, "[");
                        len = put(buf, len, k->section);
                        len = put(buf, len, strcmp(k->section, "Subtree") != 0 ? "]\n" : random_once_in(random, 2) ? " a/*]\n" : " b]\n");
                }
                len = put(buf, len, k->key);
                len = put(buf, len, "=");
                len = put(buf, len, *k->value && random_once_in(random, 8) ? k->value : values[random_below(random, ELEMENTSOF(values))]);
                len = put(buf, len, "\n");
                if (random_once_in(random, 30))
                        buf[random_below(random, len)] = (uint8_t)random_u64(random);
        }
        return len;
}
