/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From what the files say to what is in force, and where that comes from. */
#include "conf-internal.h"

/* A value in force, with its text and its place: that of a file, or the default. */
typedef struct Value {
        uint64_t number;
        const char *text;
        const ConfSetting *setting; /* NULL: the default */
} Value;

static Value resolve(const ConfLoader *l, const ConfKey *k, const ConfSetting *s) {
        Value v = { .text = s->value ? s->value : k->value, .setting = s->value ? s : NULL };

        /* What a file says was tried as it was read. A default can fail only where it is a part of memory, and memory is not known. */
        if (*v.text && conf_key_parse(k, v.text, l->memory_bytes, &v.number) < 0)
                v = (Value){ .number = UINT64_MAX, .text = "infinity" };
        return v;
}

static void add_origin(ConfLoader *l, const ConfKey *k, const char *pattern, const Value *v) {
        ConfResult *result = l->result;
        ConfOrigin *o = result->origins + result->n_origins;

        *o = (ConfOrigin){
                .section = k->section,
                .pattern = pattern,
                .key = k->key,
                .value = strdup(v->text),
                .file = v->setting ? v->setting->file : NULL,
                .line = v->setting ? v->setting->line : 0,
        };
        l->out_of_memory |= !o->value;
        result->n_origins++;
}

/* Off above On would raise and clear in turn. set: the line that says so, NULL where nobody did. */
static void settle_off(ConfLoader *l, const ConfKey *on_key, const Value *on, const ConfKey *off_key, Value *off, const ConfSetting *set) {
        if (off->number <= on->number)
                return;
        if (set) {
                _cleanup_(freep) char *high = conf_shown(off->text), *low = conf_shown(on->text);

                if (high && low && l->strict)
                        conf_complain(l, set->file, set->order, set->line, "%s=%s is above %s=%s.", off_key->key, high, on_key->key, low);
                else if (high && low)
                        conf_complain(l, set->file, set->order, set->line, "%s=%s is above %s=%s: %s is used for both.", off_key->key, high,
                                      on_key->key, low, low);
                else
                        l->out_of_memory = true;
        }
        *off = *on;
}

static void set_limit(FindingLimit *limit, const Value *on, const Value *off, const Value *age) {
        *limit = (FindingLimit){
                .enabled = on->number != UINT64_MAX && age->number != UINT64_MAX,
                .on = on->number,
                .off = off->number,
                .min_age_usec = age->number,
        };
}

static void store(ConfLoader *l, const ConfKey *k, const Value *v) {
        void *member = (char *)&l->result->conf + k->offset;

        switch (k->type) {
        case CONF_BOOL:
                *(bool *)member = v->number;
                break;
        case CONF_PATH:
        case CONF_PATTERNS:
                if (!*v->text)
                        break;
                *(char **)member = strdup(v->text);
                l->out_of_memory |= !*(char **)member;
                break;
        default:
                *(uint64_t *)member = v->number;
                break;
        }
}

/* A value in the array of all; where there is no such key, as for the number of a limit that has none, 1. */
static const Value *value_at(const Value *values, size_t offset) {
        static const Value one = { .number = 1, .text = "1" };
        int i = conf_key_find_offset(offset);

        return i < 0 ? &one : values + i;
}

static void settle_limits(ConfLoader *l, Value *values) {
        for (size_t kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                size_t limit = offsetof(Conf, limits.limit) + kind * sizeof(FindingLimit);
                int on = conf_key_find_offset(limit + offsetof(FindingLimit, on));
                int off = conf_key_find_offset(limit + offsetof(FindingLimit, off));

                if (on >= 0 && off >= 0)
                        settle_off(l, l->keys + on, values + on, l->keys + off, values + off, values[off].setting);
                set_limit(&l->result->conf.limits.limit[kind], value_at(values, limit + offsetof(FindingLimit, on)),
                          value_at(values, limit + offsetof(FindingLimit, off)), value_at(values, limit + offsetof(FindingLimit, min_age_usec)));
        }
}

/* What the section does not set is the common limit's, place and all. */
static void settle_subtree(ConfLoader *l, const ConfSubtree *subtree, const Value *values) {
        const Value *common[CONF_SUBTREE_KEYS] = {
                value_at(values, offsetof(Conf, limits.limit[FINDING_SUBTREE].on)),
                value_at(values, offsetof(Conf, limits.limit[FINDING_SUBTREE].off)),
                value_at(values, offsetof(Conf, limits.limit[FINDING_SUBTREE].min_age_usec)),
        };
        const ConfKey *k = l->keys + l->first_subtree_key;
        FindingLimits *limits = &l->result->conf.limits;
        FindingSubtree *s = limits->subtrees + limits->n_subtrees;
        Value v[CONF_SUBTREE_KEYS];

        s->pattern = strdup(subtree->pattern);
        if (!s->pattern) {
                l->out_of_memory = true;
                return;
        }
        limits->n_subtrees++;
        for (size_t i = 0; i < CONF_SUBTREE_KEYS; i++)
                v[i] = subtree->settings[i].value ? resolve(l, k + i, subtree->settings + i) : *common[i];
        settle_off(l, k, &v[0], k + 1, &v[1], subtree->settings[1].value ? subtree->settings + 1 : NULL);
        set_limit(&s->overhead, &v[0], &v[1], &v[2]);
        for (size_t i = 0; i < CONF_SUBTREE_KEYS; i++)
                add_origin(l, k + i, s->pattern, v + i);
}

/* Messages about what two lines say together stand where the line does. There are few of them: each is moved up from the end. */
static void sort_messages(ConfLoader *l, size_t from) {
        ConfMessage *messages = l->result->messages;

        for (size_t i = from; i < l->result->n_messages; i++) {
                ConfMessage m = messages[i];
                unsigned order = l->orders[i];
                size_t j = i;

                for (; j > 0 && (l->orders[j - 1] > order || (l->orders[j - 1] == order && messages[j - 1].line > m.line)); j--) {
                        messages[j] = messages[j - 1];
                        l->orders[j] = l->orders[j - 1];
                }
                messages[j] = m;
                l->orders[j] = order;
        }
}

void conf_settle(ConfLoader *l) {
        size_t n_messages = l->result->n_messages;
        ConfResult *result = l->result;
        _cleanup_(freep) Value *values = calloc(l->first_subtree_key, sizeof(*values));

        result->origins = calloc(l->first_subtree_key + l->n_subtrees * CONF_SUBTREE_KEYS, sizeof(*result->origins));
        result->conf.limits.subtrees = calloc(l->n_subtrees + 1, sizeof(*result->conf.limits.subtrees));
        if (!values || !result->origins || !result->conf.limits.subtrees) {
                l->out_of_memory = true;
                return;
        }
        for (size_t i = 0; i < l->first_subtree_key; i++) {
                values[i] = resolve(l, l->keys + i, l->settings + i);
                store(l, l->keys + i, values + i);
        }
        settle_limits(l, values);
        for (size_t i = 0; i < l->first_subtree_key; i++)
                add_origin(l, l->keys + i, NULL, values + i);
        for (size_t i = 0; i < l->n_subtrees; i++)
                settle_subtree(l, l->subtrees + i, values);
        sort_messages(l, n_messages);
}

void conf_loader_done(ConfLoader *l) {
        for (size_t i = 0; l->settings && i < l->first_subtree_key; i++)
                free(l->settings[i].value);
        for (size_t i = 0; i < l->n_subtrees; i++) {
                for (size_t j = 0; j < CONF_SUBTREE_KEYS; j++)
                        free(l->subtrees[i].settings[j].value);
                free(l->subtrees[i].pattern);
        }
        free(l->settings);
        free(l->subtrees);
        free(l->orders);
}

ConfResult *conf_free(ConfResult *r) {
        if (!r)
                return NULL;
        (void)conf_files_free(r->files, r->n_files);
        for (size_t i = 0; i < r->n_origins; i++)
                free(r->origins[i].value);
        free(r->origins);
        for (size_t i = 0; i < r->n_messages; i++) {
                free(r->messages[i].file);
                free(r->messages[i].text);
        }
        free(r->messages);
        for (size_t i = 0; i < r->conf.limits.n_subtrees; i++)
                free(r->conf.limits.subtrees[i].pattern);
        free(r->conf.limits.subtrees);
        free(r->conf.watch);
        free(r->conf.textfile);
        free(r);
        return NULL;
}
