/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the room conf share. */
#pragma once

#include "conf.h"

/* As strcasecmp() in the C locale; "infinity" alone. */
bool conf_equal_nocase(const char *a, const char *b);
bool conf_is_infinity(const char *s);

/* ---------------------------------------------------------------------------------------------------------- conf-table */

/* Where the keys of a subtree begin in conf_keys(). */
size_t conf_keys_subtree(void);
/* Index in conf_keys(), or -ENOENT. */
int conf_key_find(const char *section, const char *key);
int conf_key_find_offset(size_t offset);
/* The key of this section that this was perhaps meant to be, or of the sections' names; NULL: nothing is near. */
const ConfKey *conf_key_nearest(const char *section, const char *key);
const char *conf_section_nearest(const char *name);
bool conf_section_known(const char *name);
/*
 * A value by what the key takes: bool as 0 and 1, nothing for a path. 0, -EINVAL, -ERANGE.
 */
int conf_key_parse(const ConfKey *k, const char *value, uint64_t memory_bytes, uint64_t *ret);

/* ---------------------------------------------------------------------------------------------------------- conf-files */

/* Told of each directory that cannot be listed. */
typedef void (*conf_files_error_t)(void *userdata, const char *path, int error);

/*
 * The files to read, in their order: newly allocated paths. Those that are empty, and hide others, are among them. 0, -ENOMEM.
 */
int conf_files_find(const char *root, conf_files_error_t on_error, void *userdata, char ***ret, size_t *ret_n);
char **conf_files_free(char **files, size_t n);
/*
 * The bytes of a file, newly allocated, a NUL behind them. Does not wait for what is no file. 0; 1: /dev/null or empty, *ret is NULL;
 * -ENOENT: it is gone; -EISDIR, -ENODEV (a FIFO, a device), -EFBIG, -ENOMEM, or what opening and reading gave: -EACCES, -ELOOP, …
 */
int conf_files_read(const char *path, char **ret, size_t *ret_len);
/* Whether something of this name is there all the same: a link to nothing. */
bool conf_files_dangling(const char *path);

/* ---------------------------------------------------------------------------------------------------------------- conf */

#define CONF_SUBTREE_KEYS 3U

/* What was set last; value NULL: nothing, the default is in force. */
typedef struct ConfSetting {
        char *value;
        const char *file; /* one of the result's */
        unsigned order, line;
} ConfSetting;

typedef struct ConfSubtree {
        char *pattern;
        ConfSetting settings[CONF_SUBTREE_KEYS];
} ConfSubtree;

typedef struct ConfLoader {
        ConfResult *result;
        uint64_t memory_bytes;
        bool strict; /* messages do not say what is used instead: nothing will be */
        const ConfKey *keys;
        size_t n_keys, first_subtree_key;
        ConfSetting *settings; /* of each key before first_subtree_key */
        ConfSubtree *subtrees;
        size_t n_subtrees, subtrees_allocated;
        size_t files_allocated, messages_allocated, orders_allocated;
        unsigned *orders; /* of each message: the place of its file among the files */
        size_t n_dropped; /* messages beyond CONF_MESSAGES_MAX */
        unsigned order;
        bool out_of_memory; /* stays set: looked at once, at the end */
} ConfLoader;

/* Bytes of a file as they can be shown, cut where they are long: newly allocated, NULL when memory is out. */
char *conf_shown(const char *s);
/* A message. line 0: the whole file. order: the place of the file among the files. */
void conf_complain(ConfLoader *l, const char *file, unsigned order, unsigned line, const char *format, ...) _printf_(5, 6);

/* --------------------------------------------------------------------------------------------------------- conf-settle */

/* Makes the configuration of the result, and its origins, from what was collected. */
void conf_settle(ConfLoader *l);
void conf_loader_done(ConfLoader *l);
