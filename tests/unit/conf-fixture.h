/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A directory tree with configuration files of the test's own. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "check.h"
#include "conf.h"

#define ETC "/etc/shrinkwatch/shrinkwatchd.conf"
#define RUN "/run/shrinkwatch/shrinkwatchd.conf"
#define LOCAL "/usr/local/lib/shrinkwatch/shrinkwatchd.conf"
#define LIB "/usr/lib/shrinkwatch/shrinkwatchd.conf"
#define MEMORY 1000000000ULL /* bytes that percentages are of */

typedef struct Tree {
        char root[64];
} Tree;

static inline void tree_new(Tree *t) {
        (void)snprintf(t->root, sizeof(t->root), "/tmp/shrinkwatch-conf-XXXXXX");
        assert_non_null(mkdtemp(t->root));
}

static inline int tree_remove(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static inline void tree_done(Tree *t) {
        assert_int_equal(nftw(t->root, tree_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The path in the tree, its directories made. */
static inline void tree_path(const Tree *t, const char *name, char ret[512]) {
        (void)snprintf(ret, 512, "%s%s", t->root, name);
        for (char *p = strchr(ret + strlen(t->root) + 1, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                assert_true(mkdir(ret, 0755) == 0 || errno == EEXIST);
                *p = '/';
        }
}

static inline void tree_write(const Tree *t, const char *name, const char *bytes, size_t len) {
        char path[512];
        FILE *f;

        tree_path(t, name, path);
        f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, len, f), len);
        assert_int_equal(fclose(f), 0);
}

static inline void tree_put(const Tree *t, const char *name, const char *text) {
        tree_write(t, name, text, strlen(text));
}

static inline void tree_link(const Tree *t, const char *name, const char *target) {
        char path[512];

        tree_path(t, name, path);
        assert_int_equal(symlink(target, path), 0);
}

static inline void tree_unlink(const Tree *t, const char *name) {
        char path[512];

        tree_path(t, name, path);
        assert_int_equal(remove(path), 0);
}

static inline ConfResult *tree_load(const Tree *t) {
        ConfPaths paths = { .root = t->root, .memory_bytes = MEMORY };
        ConfResult *r = NULL;

        assert_int_equal(conf_load(&r, &paths), 0);
        assert_non_null(r);
        return r;
}

/* One file in /etc, and nothing else. */
static inline ConfResult *load_bytes(const char *bytes, size_t len) {
        ConfResult *r;
        Tree t;

        tree_new(&t);
        tree_write(&t, ETC, bytes, len);
        r = tree_load(&t);
        tree_done(&t);
        return r;
}

static inline ConfResult *load_text(const char *text) {
        return load_bytes(text, strlen(text));
}

/* The origin of a key; of a subtree's with its pattern. */
static inline const ConfOrigin *origin_of(const ConfResult *r, const char *section, const char *pattern, const char *key) {
        for (size_t i = 0; i < r->n_origins; i++) {
                const ConfOrigin *o = r->origins + i;

                if (strcmp(o->section, section) == 0 && strcmp(o->key, key) == 0 && !o->pattern == !pattern &&
                    (!pattern || strcmp(o->pattern, pattern) == 0))
                        return o;
        }
        fail_msg("no origin of %s= in [%s]", key, section);
        return NULL;
}

/* name: of the file in the tree, NULL for the default. */
static inline void assert_origin(const ConfOrigin *o, const char *value, const char *name, unsigned line) {
        assert_string_equal(o->value, value);
        assert_int_equal(o->line, line);
        if (!name)
                assert_null(o->file);
        else {
                assert_non_null(o->file);
                assert_true(strlen(o->file) > strlen(name));
                assert_string_equal(o->file + strlen(o->file) - strlen(name), name);
        }
}

static inline void assert_message(const ConfResult *r, size_t i, const char *name, unsigned line, const char *text) {
        const ConfMessage *m = r->messages + i;

        assert_true(i < r->n_messages);
        assert_string_equal(m->text, text);
        assert_int_equal(m->line, line);
        assert_true(strlen(m->file) > strlen(name));
        assert_string_equal(m->file + strlen(m->file) - strlen(name), name);
}

static inline void assert_quiet(const ConfResult *r) {
        if (r->n_messages > 0)
                fail_msg("%s:%u: %s", r->messages[0].file, r->messages[0].line, r->messages[0].text);
        assert_false(r->failed);
}
