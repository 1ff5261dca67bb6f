/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "text.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "daemon/escape.h"

/* -------------------------------------------------------------------------------------------------------------- format */

void format_measure(Format *format) {
        struct winsize size;
        const char *columns = getenv("COLUMNS");
        uint64_t n;

        format->width = 80;
        format->lines = 24;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) >= 0) {
                if (size.ws_col > 0)
                        format->width = size.ws_col;
                if (size.ws_row > 0)
                        format->lines = size.ws_row;
        } else if (columns && text_parse_u64(columns, 1, 10000, &n) >= 0)
                format->width = (unsigned)n;
}

void format_detect(Format *ret, bool bytes) {
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

        *ret = (Format){
                .bytes = bytes,
                .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0,
                .terminal = isatty(STDOUT_FILENO),
        };
        if (!ret->terminal)
                return;
        ret->redraws = term && term[0] && strcmp(term, "dumb") != 0;
        ret->colour = !(no_color && no_color[0]) && ret->redraws;
        format_measure(ret);
}

/* -------------------------------------------------------------------------------------------------------------- string */

void text_done(Text *t) {
        free(t->s);
        *t = (Text){};
}

void text_clear(Text *t) {
        t->len = 0;
        if (t->s)
                t->s[0] = '\0';
}

const char *text_get(const Text *t) {
        return t->s ? t->s : "";
}

static void add_bytes(Text *t, const char *s, size_t len) {
        if (t->failed)
                return;
        if (grow_array(&t->s, &t->allocated, t->len + len + 1, 1) < 0 || !t->s) {
                t->failed = true;
                return;
        }
        if (len > 0)
                memcpy(t->s + t->len, s, len);
        t->len += len;
        t->s[t->len] = '\0';
}

void text_add_string(Text *t, const char *s) {
        add_bytes(t, s, strlen(s));
}

void text_add(Text *t, const char *format, ...) {
        _cleanup_(freep) char *s = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&s, format, ap);
        va_end(ap);
        if (n < 0) {
                s = NULL;
                t->failed = true;
                return;
        }
        add_bytes(t, s, (size_t)n);
}

void text_add_name(Text *t, const Format *format, const char *bytes, size_t len) {
        _cleanup_(freep) char *s = escape_text(bytes, len, ESCAPE_TERMINAL, NULL);

        if (!s) {
                t->failed = true;
                return;
        }
        if (format->utf8) {
                text_add_string(t, s);
                return;
        }
        for (const char *p = s; *p; p++)
                if ((unsigned char)*p < 0x80)
                        add_bytes(t, p, 1);
                else
                        text_add(t, "\\x%02x", (unsigned char)*p);
}

/* ------------------------------------------------------------------------------------------------------------- numbers */

/* Three digits at most before the unit: 1023.9 of one is 1.0 of the next. */
static void add_scaled(Text *t, uint64_t bytes, const char *const names[]) {
        static const unsigned last = 6; /* exbi: more does not fit in 64 bits */
        double value = (double)bytes;
        unsigned i = 0;

        while (i < last && value >= (i == 0 ? 1024.0 : 1023.95)) {
                value /= 1024.0;
                i++;
        }
        if (i == 0)
                text_add(t, "%" PRIu64 "%s", bytes, names[0]);
        else
                text_add(t, "%.1f%s", value, names[i]);
}

void text_add_size(Text *t, const Format *format, uint64_t bytes) {
        static const char *const names[] = { "B", "K", "M", "G", "T", "P", "E" };

        if (format->bytes)
                text_add(t, "%" PRIu64, bytes);
        else
                add_scaled(t, bytes, names);
}

void text_add_size_words(Text *t, const Format *format, uint64_t bytes) {
        static const char *const names[] = { " bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };

        if (format->bytes || bytes == 1)
                text_add(t, "%" PRIu64 " %s", bytes, bytes == 1 ? "byte" : "bytes");
        else
                add_scaled(t, bytes, names);
}

void text_add_size_delta(Text *t, const Format *format, int64_t bytes) {
        text_add_string(t, bytes > 0 ? "+" : bytes < 0 ? "-" : "");
        text_add_size(t, format, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes);
}

void text_add_count(Text *t, uint64_t n) {
        char digits[24];
        int len = snprintf(digits, sizeof digits, "%" PRIu64, n);

        for (int i = 0; i < len; i++) {
                if (i > 0 && (len - i) % 3 == 0)
                        add_bytes(t, ",", 1);
                add_bytes(t, digits + i, 1);
        }
}

void text_add_count_of(Text *t, uint64_t n, const char *one, const char *many) {
        text_add_count(t, n);
        text_add(t, " %s", n == 1 ? one : many);
}

void text_add_percent(Text *t, uint64_t part, uint64_t whole) {
        double percent = whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;

        if (part > 0 && percent < 1.0)
                text_add_string(t, "<1 %");
        else if (part < whole && percent > 99.0)
                text_add_string(t, ">99 %");
        else
                text_add(t, "%.0f %%", percent);
}

/* --------------------------------------------------------------------------------------------------------------- width */

/* Bytes and columns of the character at s. What is no character of the locale counts as one byte, one column. */
static size_t next_character(const char *s, mbstate_t *state, size_t *ret_width) {
        wchar_t wc;
        size_t n = mbrtowc(&wc, s, MB_CUR_MAX, state);
        int width;

        *ret_width = 1;
        if (n == (size_t)-1 || n == (size_t)-2) {
                *state = (mbstate_t){};
                return 1;
        }
        if (n == 0)
                return 1;
        width = wcwidth(wc);
        if (width >= 0)
                *ret_width = (size_t)width;
        return n;
}

size_t text_width(const char *s) {
        mbstate_t state = {};
        size_t width = 0, w;

        while (*s) {
                s += next_character(s, &state, &w);
                width += w;
        }
        return width;
}

void text_add_shortened(Text *t, const Format *format, const char *s, size_t width, bool path) {
        const char *gap = format->utf8 ? "…" : "...";
        size_t gap_width = format->utf8 ? 1 : 3, total = text_width(s), head, skip, seen = 0, w;
        mbstate_t state = {};
        const char *tail;

        if (total <= width || width <= gap_width) {
                text_add_string(t, s);
                return;
        }

        /* The end of a path gets two thirds. */
        head = path ? (width - gap_width) / 3 : width - gap_width;
        skip = total - (width - gap_width - head);
        for (tail = s; *tail && seen < skip;) {
                size_t n = next_character(tail, &state, &w);

                if (seen + w <= head)
                        add_bytes(t, tail, n);
                seen += w;
                tail += n;
        }
        text_add_string(t, gap);
        text_add_string(t, tail);
}

void text_add_wrapped(Text *t, const char *s, size_t width) {
        size_t column = 0, indent = 0;

        while (*s) {
                size_t blanks = strspn(s, " "), n = strcspn(s + blanks, " \n"), w;
                char *word = strndup(s + blanks, n);

                w = word ? text_width(word) : n;
                free(word);
                if (column == 0)
                        indent = blanks + (n == 1 && s[blanks] == '-' ? 2 : 0);
                if (column > indent && n > 0 && column + blanks + w > width) {
                        text_add(t, "\n%*s", (int)indent, "");
                        column = indent;
                        s += blanks;
                        blanks = 0;
                }
                add_bytes(t, s, blanks + n);
                column += blanks + w;
                s += blanks + n;
                if (*s == '\n') {
                        add_bytes(t, "\n", 1);
                        column = 0;
                        s++;
                }
        }
}

void text_print_wrapped(const char *s, size_t width) {
        Text t = {};

        if (width > 0)
                text_add_wrapped(&t, s, width);
        /* Sentences too long for the line are better than none. */
        (void)fputs(width > 0 && !t.failed ? text_get(&t) : s, stdout);
        text_done(&t);
}

/* ------------------------------------------------------------------------------------------------------------- parsing */

int text_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        uint64_t n = 0;

        if (!*s)
                return -EINVAL;
        for (const char *p = s; *p; p++)
                if (*p < '0' || *p > '9')
                        return -EINVAL;
        for (; *s; s++)
                if (__builtin_mul_overflow(n, 10U, &n) || __builtin_add_overflow(n, (unsigned)(*s - '0'), &n))
                        return -ERANGE;
        if (n < min || n > max)
                return -ERANGE;
        *ret = n;
        return 0;
}
