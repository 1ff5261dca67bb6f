/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "selection.h"

typedef struct Key {
        bool known;
        uint64_t number;
        char *text; /* instead of a number */
        uint64_t subtree_bytes;
        uint32_t memcg;
} Key;

void selection_done(Selection *s) {
        free(s->memcgs);
        *s = (Selection){};
}

static int compare_keys(const void *x, const void *y) {
        const Key *a = x, *b = y;

        if (a->known != b->known)
                return a->known ? -1 : 1;
        if (a->known && a->text) {
                int r = strcmp(a->text, b->text);

                if (r != 0)
                        return r;
        } else if (a->known && a->number != b->number)
                return a->number > b->number ? -1 : 1;
        /* Where units are allocated eagerly each memcg has as many as the next; what is below it tells them apart. */
        if (a->subtree_bytes != b->subtree_bytes)
                return a->subtree_bytes > b->subtree_bytes ? -1 : 1;
        return a->memcg < b->memcg ? -1 : a->memcg > b->memcg;
}

static int make_key(const Column *sort, Row *row, const Format *format, Text *text, Key *ret) {
        int r;

        *ret = (Key){
                .memcg = row->memcg,
                .subtree_bytes = census_subtree_overhead(&row->reading->census->memcgs[row->memcg]),
        };
        if (sort->value) {
                ret->known = sort->value(row, &ret->number);
                /* Signed numbers in the order of unsigned ones. */
                if (sort->type == COLUMN_DELTA)
                        ret->number ^= 1ULL << 63;
                return 0;
        }

        text_clear(text);
        r = sort->string(row, format, text);
        if (r < 0)
                return r;
        if (text->len == 0)
                return text->failed ? -ENOMEM : 0;
        ret->text = strdup(text_get(text));
        ret->known = true;
        return ret->text ? 0 : -ENOMEM;
}

static int sort_memcgs(Selection *s, const Row *template, const Column *sort) {
        Format format = { .utf8 = true };
        Key *keys = calloc(s->n_memcgs + 1, sizeof *keys);
        Row row = *template;
        Text text = {};
        int r = keys ? 0 : -ENOMEM;

        for (size_t i = 0; r >= 0 && i < s->n_memcgs; i++) {
                row.memcg = s->memcgs[i];
                r = make_key(sort, &row, &format, &text, keys + i);
                row_done(&row);
        }
        if (r >= 0 && s->n_memcgs > 1) {
                qsort(keys, s->n_memcgs, sizeof *keys, compare_keys);
                for (size_t i = 0; i < s->n_memcgs; i++)
                        s->memcgs[i] = keys[i].memcg;
        }

        for (size_t i = 0; keys && i < s->n_memcgs; i++)
                free(keys[i].text);
        free(keys);
        text_done(&text);
        return r;
}

int selection_make(Selection *ret, const Row *row, int state, const Column *sort, size_t limit) {
        const Census *c = row->reading->census;
        Selection s = { .memcgs = calloc(c->n_memcgs + 1, sizeof *s.memcgs) };
        int r = 0;

        if (!s.memcgs)
                return -ENOMEM;
        for (size_t i = 0; i < c->n_memcgs; i++)
                if (state < 0 || (int)c->memcgs[i].state == state)
                        s.memcgs[s.n_memcgs++] = (uint32_t)i;
        s.matched = s.n_memcgs;

        if (sort)
                r = sort_memcgs(&s, row, sort);
        if (r < 0) {
                selection_done(&s);
                return r;
        }
        if (limit > 0 && s.n_memcgs > limit)
                s.n_memcgs = limit;
        *ret = s;
        return 0;
}
