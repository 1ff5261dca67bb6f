/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Loading: what the files say is collected as text, key by key, and at the end made into a configuration, in one place.
 *
 * The only user of inih. How inih was compiled is up to the distribution: whether it tells line numbers, goes on after an error, takes a line
 * with a blank in front for the rest of the one before, knows comments behind a value. Debian's does not tell lines, and returns that of the
 * first error only; cuts headings to 49 bytes, and splits what is longer than its buffer into two. So it gets the file through a
 * reader that counts lines, keeps headings to itself, and hands on nothing but what may be an assignment and fits.
 */
#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sysinfo.h>

#include "conf-internal.h"
#include "escape.h"

#define BLANKS " \t\r\v\f"
#define SUBTREE "Subtree"
/* Of what a message quotes. */
#define SHOWN_BYTES_MAX 80U

typedef enum Place {
        PLACE_OUTSIDE, /* before the first heading */
        PLACE_SECTION,
        PLACE_SUBTREE,
        PLACE_IGNORED, /* below a heading that was complained about */
} Place;

/* One file on its way through inih. */
typedef struct Parser {
        ConfLoader *loader;
        const char *file;
        const char *at, *end;
        unsigned line;
        bool pending;      /* inih has a line and has not told of an assignment in it yet */
        Place place;
        char section[16];  /* PLACE_SECTION */
        size_t subtree;    /* PLACE_SUBTREE: its index */
} Parser;

uint64_t conf_memory_bytes(void) {
        struct sysinfo info;

        return sysinfo(&info) < 0 ? 0 : mul_sat_u64(info.totalram, info.mem_unit);
}

/* ------------------------------------------------------------------------------------------------------------ messages */

char *conf_shown(const char *s) {
        size_t len = strlen(s), n = len < SHOWN_BYTES_MAX ? len : SHOWN_BYTES_MAX;
        _cleanup_(freep) char *text = NULL;
        char *whole = NULL;

        /* Not in the middle of a character. */
        while (n < len && n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80 && SHOWN_BYTES_MAX - n < 4)
                n--;
        text = escape_text(s, n, ESCAPE_TERMINAL, NULL);
        if (!text || asprintf(&whole, "%s%s", text, n < len ? "…" : "") < 0)
                return NULL;
        return whole;
}

/* Takes the text. */
static void add_message(ConfLoader *l, const char *file, unsigned order, unsigned line, char *text) {
        ConfResult *result = l->result;
        ConfMessage m = { .file = strdup(file), .line = line, .text = text };
        size_t n = result->n_messages + 1;

        if (!m.file || !m.text || grow_array(&result->messages, &l->messages_allocated, n, sizeof(*result->messages)) < 0 ||
            grow_array(&l->orders, &l->orders_allocated, n, sizeof(*l->orders)) < 0) {
                free(m.text);
                free(m.file);
                l->out_of_memory = true;
                return;
        }
        l->orders[n - 1] = order;
        result->messages[n - 1] = m;
        result->n_messages = n;
}

void conf_complain(ConfLoader *l, const char *file, unsigned order, unsigned line, const char *format, ...) {
        char *text = NULL;
        va_list ap;

        if (l->result->n_messages >= CONF_MESSAGES_MAX - 1) {
                l->n_dropped++;
                return;
        }
        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        add_message(l, file, order, line, text);
}

/* The last message, in the place that was kept free for it. */
static void complain_dropped(ConfLoader *l) {
        char *text = NULL;

        if (l->n_dropped == 0)
                return;
        if (asprintf(&text, "What else is wrong, here or in files after this one, is not listed: %zu messages more.", l->n_dropped) < 0)
                text = NULL;
        add_message(l, l->result->messages[l->result->n_messages - 1].file, l->order, 0, text);
}

#define COMPLAIN(p, ...) conf_complain((p)->loader, (p)->file, (p)->loader->order, (p)->line, __VA_ARGS__)

/* ------------------------------------------------------------------------------------------------------------ headings */

/* [Subtree PATTERN]; patterns are those of paths without a slash in front. */
static void enter_subtree(Parser *p, char *pattern) {
        ConfLoader *l = p->loader;
        size_t len;

        pattern += strspn(pattern, "/");
        len = strlen(pattern);
        while (len > 0 && pattern[len - 1] == '/')
                pattern[--len] = '\0';
        if (len >= PATH_MAX) {
                COMPLAIN(p, "This pattern is longer than any path: what is below it is ignored.");
                return;
        }
        if (len == 0) {
                COMPLAIN(p, "[Subtree] names no cgroup: what is below it is ignored. Write the pattern of a path, as in [Subtree machine.slice/*].");
                return;
        }
        p->place = PLACE_SUBTREE;
        for (p->subtree = 0; p->subtree < l->n_subtrees; p->subtree++)
                if (strcmp(l->subtrees[p->subtree].pattern, pattern) == 0)
                        return;
        if (l->n_subtrees >= CONF_SUBTREES_MAX) {
                p->place = PLACE_IGNORED;
                COMPLAIN(p, "There are more than %u patterns in [Subtree] headings: what is below this one is ignored.", CONF_SUBTREES_MAX);
                return;
        }
        pattern = strdup(pattern);
        if (!pattern || grow_array(&l->subtrees, &l->subtrees_allocated, l->n_subtrees + 1, sizeof(*l->subtrees)) < 0) {
                free(pattern);
                p->place = PLACE_IGNORED;
                l->out_of_memory = true;
                return;
        }
        l->subtrees[l->n_subtrees++] = (ConfSubtree){ .pattern = pattern };
}

static void trim(char *s) {
        size_t len = strlen(s);

        while (len > 0 && strchr(BLANKS, s[len - 1]))
                s[--len] = '\0';
}

/* text: the line from its "[" on, without blanks or a comment at its end. */
static void enter_section(Parser *p, char *text) {
        _cleanup_(freep) char *quoted = conf_shown(text);
        size_t len = strlen(text), word;
        char *name = text + 1 + strspn(text + 1, BLANKS);

        p->place = PLACE_IGNORED;
        if (!quoted) {
                p->loader->out_of_memory = true;
                return;
        }
        /* The last bracket ends it: a pattern has some of its own. */
        if (len < 2 || text[len - 1] != ']') {
                COMPLAIN(p, "\"%s\" does not end with \"]\": what is below it is ignored.", quoted);
                return;
        }
        text[len - 1] = '\0';
        trim(name);
        word = strcspn(name, BLANKS);
        if (word == strlen(SUBTREE) && strncmp(name, SUBTREE, word) == 0) {
                enter_subtree(p, name + word + strspn(name + word, BLANKS));
                return;
        }
        if (!conf_section_known(name)) {
                const char *nearest = conf_section_nearest(name);

                COMPLAIN(p, "There is no section %s: what is below it is ignored.%s%s%s", quoted, nearest ? " Is [" : "", nearest ? nearest : "",
                         nearest ? "] meant?" : "");
                return;
        }
        p->place = PLACE_SECTION;
        (void)snprintf(p->section, sizeof(p->section), "%s", name);
}

/* --------------------------------------------------------------------------------------------------------- assignments */

static void unknown_key(Parser *p, const char *section, const char *name) {
        _cleanup_(freep) char *quoted = conf_shown(name);
        const ConfKey *nearest = conf_key_nearest(section, name);

        if (!quoted)
                p->loader->out_of_memory = true;
        else if (!nearest)
                COMPLAIN(p, "There is no key %s= in [%s]: it is ignored.", quoted, section);
        else if (strcmp(nearest->section, section) != 0)
                COMPLAIN(p, "There is no key %s= in [%s]: it is ignored. %s= belongs in [%s].", quoted, section, nearest->key, nearest->section);
        else
                COMPLAIN(p, "There is no key %s= in [%s]: it is ignored. Is %s= meant?", quoted, section, nearest->key);
}

/* s: what is in force of this key. */
static void bad_value(Parser *p, const ConfKey *k, const ConfSetting *s, const char *value, int error) {
        _cleanup_(freep) char *quoted = conf_shown(value), *kept = conf_shown(s->value ? s->value : k->value);
        const char *before = s->value ? "" : *k->value ? "The default, " : "The default", *after = s->value || !*k->value ? "" : ",";

        if (!quoted || !kept)
                p->loader->out_of_memory = true;
        else if (p->loader->strict)
                COMPLAIN(p, "%s=%s is %s: it takes %s.", k->key, quoted, error == -ERANGE ? "out of range" : "not understood", k->takes);
        else
                COMPLAIN(p, "%s=%s is %s: it takes %s. %s%s%s stays in force.", k->key, quoted,
                         error == -ERANGE ? "out of range" : "not understood", k->takes, before, kept, after);
}

static void assign(Parser *p, const char *name, const char *value) {
        ConfLoader *l = p->loader;
        const char *section = p->place == PLACE_SUBTREE ? SUBTREE : p->section;
        uint64_t number;
        const ConfKey *k;
        char *copy = NULL;
        ConfSetting *s;
        int i, r;

        if (p->place == PLACE_IGNORED)
                return;
        if (p->place == PLACE_OUTSIDE) {
                _cleanup_(freep) char *quoted = conf_shown(name);

                if (quoted)
                        COMPLAIN(p, "%s= stands before the first [section]: it is ignored.", quoted);
                l->out_of_memory |= !quoted;
                return;
        }
        i = conf_key_find(section, name);
        if (i < 0) {
                unknown_key(p, section, name);
                return;
        }
        k = l->keys + i;
        s = p->place == PLACE_SUBTREE ? l->subtrees[p->subtree].settings + ((size_t)i - l->first_subtree_key) : l->settings + i;
        if (*value) {
                r = conf_key_parse(k, value, l->memory_bytes, &number);
                if (r < 0) {
                        bad_value(p, k, s, value, r);
                        return;
                }
                copy = strdup(value);
                l->out_of_memory |= !copy;
        }
        free(s->value);
        *s = (ConfSetting){ .value = copy, .file = p->file, .order = l->order, .line = p->line };
}

/* ---------------------------------------------------------------------------------------------------------------- inih */

#if INI_HANDLER_LINENO
static int on_assignment(void *userdata, _unused_ const char *section, const char *name, const char *value, _unused_ int lineno) {
#else
static int on_assignment(void *userdata, _unused_ const char *section, const char *name, const char *value) {
#endif
        Parser *p = userdata;

        /* No name: a section, in some builds; no value: a line without "=", in some. The first there is none of, the second is no assignment. */
        if (name && value && p->pending) {
                p->pending = false;
                assign(p, name, value);
        }
        return 1; /* inih takes 0 for an error */
}

/* The line that inih had: if it has told of no assignment by now, there was none. */
static void finish_line(Parser *p) {
        if (p->pending && p->place != PLACE_IGNORED)
                COMPLAIN(p, "This is no assignment, as in \"Key=value\": it is ignored.");
        p->pending = false;
}

/* The next line without blanks at its ends and without a comment, or nothing of it when that is all there is; NULL: memory is out. */
static char *next_line(Parser *p) {
        size_t left = (size_t)(p->end - p->at), len;
        const char *newline = memchr(p->at, '\n', left), *at = p->at;
        char *line;

        len = newline ? (size_t)(newline - at) : left;
        p->at += newline ? len + 1 : len;
        p->line++;
        for (; len > 0 && strchr(BLANKS, *at); len--)
                at++;
        line = strndup(at, len);
        if (!line)
                return NULL;
        if (line[0] == '#' || line[0] == ';')
                line[0] = '\0';
        for (char *s = line; (s = strchr(s, ';')) != NULL; s++)
                if (strchr(BLANKS, s[-1])) {
                        *s = '\0';
                        break;
                }
        trim(line);
        return line;
}

/* inih's fgets(): what may be an assignment; NULL: no more. */
static char *on_read(char *buf, int size, void *userdata) {
        Parser *p = userdata;

        finish_line(p);
        while (p->at < p->end && !p->loader->out_of_memory) {
                _cleanup_(freep) char *line = next_line(p);

                if (!line)
                        p->loader->out_of_memory = true;
                else if (line[0] == '[')
                        enter_section(p, line);
                else if (line[0] && strlen(line) + sizeof("\n") > (size_t)size) {
                        if (p->place != PLACE_IGNORED)
                                COMPLAIN(p, "This line is longer than %d bytes: it is ignored.", size - (int)sizeof("\n"));
                } else if (line[0]) {
                        p->pending = true;
                        (void)snprintf(buf, (size_t)size, "%s\n", line);
                        return buf;
                }
        }
        return NULL;
}

/* -------------------------------------------------------------------------------------------------------------- files */

static const char *describe_error(int error) {
        switch (error) {
        case -EISDIR:
                return "is a directory";
        case -ENODEV:
                return "is no regular file";
        case -EFBIG:
                return "is larger than 1 MiB";
        default:
                return NULL;
        }
}

static void unreadable(ConfLoader *l, const char *file, int error) {
        const char *what = describe_error(error);

        l->result->failed = true;
        if (what)
                conf_complain(l, file, l->order, 0, "This %s: it is left out.", what);
        else
                conf_complain(l, file, l->order, 0, "This cannot be read: %s. It is left out.", strerror(-error));
}

static void on_bad_directory(void *userdata, const char *path, int error) {
        unreadable(userdata, path, error);
}

static unsigned count_lines(const char *s, const char *end) {
        unsigned n = 1;

        for (; s < end; s++)
                n += *s == '\n';
        return n;
}

static void parse(ConfLoader *l, const char *file, const char *text, size_t len) {
        Parser p = { .loader = l, .file = file, .at = text, .end = text + len };
        const char *nul = memchr(text, '\0', len);
        int r;

        if (nul) {
                l->result->failed = true;
                conf_complain(l, file, l->order, count_lines(text, nul), "This is no text: there is a NUL byte. The file is left out.");
                return;
        }
        if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
                p.at += 3;
        do
                r = ini_parse_stream(on_read, &p, on_assignment, &p);
        while (r > 0 && p.at < p.end && !l->out_of_memory); /* it stopped at an error, as some builds do */
        finish_line(&p);
        if (r < 0)
                l->out_of_memory = true;
}

/* missing_is_error: it was asked for by name. */
static void load_file(ConfLoader *l, const char *path, bool missing_is_error) {
        _cleanup_(freep) char *text = NULL;
        ConfResult *result = l->result;
        size_t len = 0;
        char *file;
        int r;

        l->order++;
        r = conf_files_read(path, &text, &len);
        if (r == -ENOMEM)
                l->out_of_memory = true;
        else if (r < 0 && (r != -ENOENT || missing_is_error || conf_files_dangling(path)))
                unreadable(l, path, r);
        if (r != 0)
                return;

        file = strdup(path);
        if (!file || grow_array(&result->files, &l->files_allocated, result->n_files + 1, sizeof(*result->files)) < 0) {
                free(file);
                l->out_of_memory = true;
                return;
        }
        result->files[result->n_files++] = file;
        parse(l, file, text, len);
}

static void load_files(ConfLoader *l, const ConfPaths *paths) {
        char **files = NULL;
        size_t n = 0;

        if (paths->file) {
                load_file(l, paths->file, true);
                return;
        }
        if (conf_files_find(paths->root ? paths->root : "", on_bad_directory, l, &files, &n) < 0) {
                l->out_of_memory = true;
                return;
        }
        for (size_t i = 0; i < n; i++)
                load_file(l, files[i], false);
        (void)conf_files_free(files, n);
}

int conf_load(ConfResult **ret, const ConfPaths *paths) {
        _cleanup_(conf_freep) ConfResult *result = calloc(1, sizeof(*result));
        ConfLoader l = { .result = result, .memory_bytes = paths->memory_bytes, .strict = paths->strict, .first_subtree_key = conf_keys_subtree() };

        if (!result)
                return -ENOMEM;
        l.keys = conf_keys(&l.n_keys);
        l.settings = calloc(l.first_subtree_key, sizeof(*l.settings));
        if (l.settings) {
                load_files(&l, paths);
                conf_settle(&l);
                complain_dropped(&l);
                result->failed |= l.strict && result->n_messages > 0;
        } else
                l.out_of_memory = true;
        conf_loader_done(&l);
        if (l.out_of_memory)
                return -ENOMEM;
        *ret = TAKE_PTR(result);
        return 0;
}
