/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sink for entries, and what they are to say. */
#pragma once

#include <stdio.h>

#include "check.h"
#include "journal.h"

/* The last entry that the sink was given, copied into memory that ends with each field. */
typedef struct Got {
        struct iovec fields[64];
        size_t n, entries;
        int answer;
} Got;

static Got got;

static void forget(void) {
        for (size_t i = 0; i < got.n; i++)
                free(got.fields[i].iov_base);
        got.n = 0;
}

static int sink(const struct iovec *fields, int n, void *userdata) {
        assert_ptr_equal(userdata, &got);
        assert_in_range(n, 1, ELEMENTSOF(got.fields));
        forget();
        for (; got.n < (size_t)n; got.n++) {
                struct iovec *copy = got.fields + got.n;

                copy->iov_len = fields[got.n].iov_len;
                copy->iov_base = malloc(copy->iov_len);
                assert_non_null(copy->iov_base);
                memcpy(copy->iov_base, fields[got.n].iov_base, copy->iov_len);
        }
        got.entries++;
        return got.answer;
}

/* The value of a field that is there once. NULL: it is not there. */
static const char *find(const char *name, size_t *ret_len) {
        const char *value = NULL;
        size_t n = strlen(name);

        for (size_t i = 0; i < got.n; i++) {
                const char *s = got.fields[i].iov_base;

                if (got.fields[i].iov_len <= n || memcmp(s, name, n) != 0 || s[n] != '=')
                        continue;
                assert_null(value);
                value = s + n + 1;
                *ret_len = got.fields[i].iov_len - n - 1;
        }
        return value;
}

static void assert_bytes(const char *name, const char *expected, size_t len) {
        size_t n = 0;
        const char *value = find(name, &n);

        if (!value)
                fail_msg("%s is not there", name);
        if (n != len || memcmp(value, expected, n) != 0)
                fail_msg("%s is \"%.*s\", not \"%s\"", name, (int)n, value, expected);
}

static void assert_field(const char *name, const char *expected) {
        assert_bytes(name, expected, strlen(expected));
}

static void assert_no_field(const char *name) {
        size_t n;

        if (find(name, &n))
                fail_msg("%s is there", name);
}

/* These, MESSAGE, MESSAGE_ID, PRIORITY, and nothing else. Names without SHRINKWATCH_ but for the known ones; NULL at the end. */
static void assert_entry(JournalMessage message, int priority, const char *text, const char *const (*fields)[2]) {
        char name[80];
        size_t n = 3;

        assert_field("MESSAGE", text);
        assert_field("MESSAGE_ID", journal_message_id(message));
        (void)snprintf(name, sizeof(name), "%d", priority);
        assert_field("PRIORITY", name);
        for (; (*fields)[0]; fields++, n++) {
                (void)snprintf(name, sizeof(name), "%s%s", strncmp((*fields)[0], "OBJECT_", 7) == 0 ? "" : "SHRINKWATCH_", (*fields)[0]);
                assert_field(name, (*fields)[1]);
        }
        assert_int_equal(got.n, n);
}
