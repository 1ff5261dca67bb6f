/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* config: what the files of shrinkwatchd say, what is by default, and which line each value is from. Asks neither the kernel nor the daemon. */
#include <stdio.h>

#include "daemon/conf.h"
#include "daemon/json.h"
#include "table.h"
#include "verb.h"

/* ---------------------------------------------------------------------------------------------------------------- text */

static void add_place(Text *t, const Format *format, const char *file, unsigned line) {
        text_add_name(t, format, file, strlen(file));
        if (line > 0)
                text_add(t, ":%u", line);
}

static int cell(void *userdata, size_t row, size_t column, const Format *format, Text *ret) {
        const ConfResult *result = userdata;
        const ConfOrigin *o = result->origins + row;

        switch (column) {
        case 0:
                text_add_string(ret, o->section);
                if (o->pattern) {
                        text_add_string(ret, " ");
                        text_add_name(ret, format, o->pattern, strlen(o->pattern));
                }
                break;
        case 1:
                text_add_string(ret, o->key);
                break;
        case 2:
                text_add_name(ret, format, *o->value ? o->value : "-", *o->value ? strlen(o->value) : 1);
                break;
        default:
                if (o->file)
                        add_place(ret, format, o->file, o->line);
                else
                        text_add_string(ret, "default");
                break;
        }
        return 0;
}

static void add_footer(Text *t, const Format *format, const ConfResult *result, uint64_t memory_bytes) {
        text_add_string(t, result->n_files > 0 ? "Read in this order: " : "There is no file to read.");
        for (size_t i = 0; i < result->n_files; i++) {
                text_add_string(t, i > 0 ? ", " : "");
                text_add_name(t, format, result->files[i], strlen(result->files[i]));
        }
        text_add_string(t, result->n_files > 0 ? ".\n" : "\n");
        text_add_string(t, "Memory, which percentages in [Limits] and [Subtree] are of: ");
        text_add_size_words(t, format, memory_bytes);
        text_add_string(t, ".\n");
}

static int print_text(const Options *options, const ConfResult *result, uint64_t memory_bytes) {
        static const TableColumn columns_[] = {
                { "SECTION", false, TABLE_WEIGHT_TEXT, false },
                { "KEY", false, 0, false },
                { "VALUE", false, TABLE_WEIGHT_TEXT, false },
                { "FROM", false, TABLE_WEIGHT_PATH, false },
        };
        Table table = {
                .columns = columns_,
                .n_columns = ELEMENTSOF(columns_),
                .n_rows = result->n_origins,
                .noheadings = option_given(options, OPTION_NOHEADINGS),
                .cell = cell,
                .userdata = (void *)(uintptr_t)result,
        };
        Format format;
        Text t = {};
        int r;

        format_detect(&format, option_given(options, OPTION_BYTES));
        r = table_print(&table, &format);
        if (r >= 0 && !table.noheadings) {
                add_footer(&t, &format, result, memory_bytes);
                if (t.failed)
                        r = -ENOMEM;
                else {
                        (void)fputc('\n', stdout);
                        text_print_wrapped(text_get(&t), format.width);
                }
        }
        text_done(&t);
        return r;
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static int put_place(json_t *o, const char *file, unsigned line) {
        int r = json_put_bytes(o, "file", file, file ? strlen(file) : 0);

        return r | json_put_known(o, "line", line > 0, line);
}

static json_t *finish(json_t *value, int r) {
        if (r == 0)
                return value;
        json_decref(value);
        return NULL;
}

static json_t *files_array(const ConfResult *result) {
        json_t *files = json_array();
        int r = 0;

        for (size_t i = 0; i < result->n_files; i++) {
                json_t *o = json_object();

                r |= json_put_bytes(o, "file", result->files[i], strlen(result->files[i]));
                r |= json_array_append_new(files, o);
        }
        return finish(files, r);
}

static json_t *settings_array(const ConfResult *result) {
        json_t *settings = json_array();
        int r = 0;

        for (size_t i = 0; i < result->n_origins; i++) {
                const ConfOrigin *c = result->origins + i;
                json_t *o = json_object();

                r |= json_put_text(o, "section", c->section);
                r |= json_put_bytes(o, "pattern", c->pattern, c->pattern ? strlen(c->pattern) : 0);
                r |= json_put_text(o, "key", c->key);
                r |= json_put_bytes(o, "value", c->value, strlen(c->value));
                r |= put_place(o, c->file, c->line);
                r |= json_array_append_new(settings, o);
        }
        return finish(settings, r);
}

static json_t *messages_array(const ConfResult *result) {
        json_t *messages = json_array();
        int r = 0;

        for (size_t i = 0; i < result->n_messages; i++) {
                const ConfMessage *m = result->messages + i;
                json_t *o = json_object();

                r |= put_place(o, m->file, m->line);
                r |= json_put_bytes(o, "text", m->text, strlen(m->text));
                r |= json_array_append_new(messages, o);
        }
        return finish(messages, r);
}

static int print_json(const ConfResult *result, uint64_t memory_bytes) {
        json_t *o = json_object();
        int r = 0;

        r |= json_put_u64(o, "schema", JSON_SCHEMA);
        r |= json_put_known(o, "memory_bytes", memory_bytes > 0, memory_bytes);
        r |= json_put_bool(o, "failed", result->failed);
        r |= json_put(o, "files", files_array(result));
        r |= json_put(o, "settings", settings_array(result));
        r |= json_put(o, "messages", messages_array(result));
        if (r < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        return json_write_value(stdout, o);
}

/* ---------------------------------------------------------------------------------------------------------------- verb */

static void complain(const ConfResult *result) {
        Format format;
        Text t = {};

        format_detect(&format, false);
        for (size_t i = 0; i < result->n_messages; i++) {
                const ConfMessage *m = result->messages + i;

                text_clear(&t);
                add_place(&t, &format, m->file, m->line);
                text_add_string(&t, ": ");
                text_add_name(&t, &format, m->text, strlen(m->text));
                (void)exit_complain(CTL_EXIT_OK, "%s", text_get(&t));
        }
        text_done(&t);
}

ExitCode verb_config(const Options *options) {
        ConfPaths paths = { .root = options->root ? options->root : "", .file = options->file, .memory_bytes = conf_memory_bytes() };
        _cleanup_(conf_freep) ConfResult *result = NULL;
        ExitCode code;
        int r;

        r = conf_load(&result, &paths);
        if (r < 0)
                return exit_out_of_memory();
        r = option_given(options, OPTION_JSON) ? print_json(result, paths.memory_bytes) : print_text(options, result, paths.memory_bytes);
        code = exit_from_output(r);
        complain(result);
        return code == CTL_EXIT_OK && result->failed ? CTL_EXIT_FAILURE : code;
}
