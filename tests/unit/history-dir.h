/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the tests of the history share: a directory with a history in it, and the room itself, whose insides they look at. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The room itself, with memory that can run out, and a disk that can have a bad place. */
static unsigned allocations_left = UINT32_MAX;

static inline void *scarce_calloc(size_t n, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left--;
        return calloc(n, size);
}

static off_t bad_begin, bad_end;

static inline ssize_t fragile_pread(int fd, void *data, size_t len, off_t at) {
        if (at >= bad_begin && at < bad_end) {
                errno = EIO;
                return -1;
        }
        if (at < bad_begin && at + (off_t)len > bad_begin)
                len = (size_t)(bad_begin - at);
        return pread(fd, data, len, at);
}

#define calloc scarce_calloc
#define asprintf(...) (allocations_left == 0 ? -1 : asprintf(__VA_ARGS__))
#define pread fragile_pread
#include "../../daemon/history-file.c"
#include "../../daemon/history.c"
#undef calloc
#undef asprintf
#undef pread

#include "builder.h"
#include "check.h"

#define MINUTE_USEC 60000000ULL
#define BOOT 77

/* A directory of the test's own, the current one while it is there. */
static inline int dir_setup(void **state) {
        char path[] = "/tmp/test-history-XXXXXX";
        int fd;

        if (!mkdtemp(path))
                return -1;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = strdup(path);
        return fd < 0 || !*state || fchdir(fd) < 0 || close(fd) < 0 ? -1 : 0;
}

static inline int dir_teardown(void **state) {
        static const char *const names[] = { NAME, NAME_NEW, NAME_BAD, "target" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (unlink(names[i]) < 0)
                        (void)rmdir(names[i]);
        if (chdir("/") < 0 || rmdir(*state) < 0)
                return -1; /* something was left behind */
        free(*state);
        return 0;
}

static inline bool is_there(const char *name) {
        struct stat st;

        return lstat(name, &st) == 0;
}

/* The file of the current directory. Asserts that there is nothing to remark. */
static inline History *open_good(void) {
        char *note = (char *)&note;
        History *h = NULL;

        assert_int_equal(history_new(&h, AT_FDCWD, &note), 0);
        assert_null(note);
        assert_false(is_there(NAME_NEW));
        return h;
}

/* Every field says the number. */
static inline HistorySample sample_of(uint64_t number, uint64_t boot_usec) {
        HistorySample s = { .boot_usec = boot_usec, .boot = BOOT, .valid = HISTORY_COMPLETE };

        s.time_usec = number;
        s.overhead_bytes = number * 10;
        s.dying = number * 100;
        s.ids = number * 1000;
        s.findings = number;
        for (size_t i = 0; i < HISTORY_TOP; i++) {
                (void)snprintf(s.creators[i].name, sizeof(s.creators[i].name), "creator-%zu-%ju", i, (uintmax_t)number);
                s.subtrees[i].bytes = number + i;
        }
        return s;
}

static inline void append_number(History *h, uint64_t number, uint64_t boot_usec) {
        HistorySample s = sample_of(number, boot_usec);

        assert_int_equal(history_append(h, &s), 0);
}

static inline void assert_number(const History *h, HistoryRing ring, size_t i, uint64_t number) {
        const HistorySample *s = history_get(h, ring, i);
        HistorySample expected;

        assert_non_null(s);
        assert_int_equal(s->time_usec, number);
        expected = sample_of(number, s->boot_usec);
        assert_memory_equal(s, &expected, sizeof(expected));
}

/* The fine ring has these numbers and no others. */
static inline void assert_fine(const History *h, uint64_t first, uint64_t last) {
        assert_int_equal(history_count(h, HISTORY_FINE), last - first + 1);
        for (uint64_t i = first; i <= last; i++)
                assert_number(h, HISTORY_FINE, i - first, i);
        assert_null(history_get(h, HISTORY_FINE, last - first + 1));
}

static inline off_t record_at(HistoryRing ring, uint64_t sequence) {
        return ring_offset(ring) + (off_t)(sequence % slots[ring] * sizeof(Record));
}

static inline void write_at(off_t at, const void *data, size_t len) {
        int fd = open(NAME, O_WRONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, data, len, at), len);
        assert_int_equal(close(fd), 0);
}

static inline void read_at(off_t at, void *data, size_t len) {
        int fd = open(NAME, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, data, len, at), len);
        assert_int_equal(close(fd), 0);
}

/* The file cannot be had: history is good all the same. */
static inline void assert_memory_only(int dirfd, int error) {
        char *note = (char *)&note;
        History *h = NULL;

        assert_int_equal(history_new(&h, dirfd, &note), error);
        assert_null(note);
        assert_non_null(h);
        for (uint64_t i = 1; i <= 1500; i++)
                append_number(h, i, i * MINUTE_USEC);
        assert_fine(h, 61, 1500);
        assert_int_equal(history_count(h, HISTORY_COARSE), 26);
        history_free(h);
}
