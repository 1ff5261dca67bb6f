/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A history file of any bytes, and a good one with bytes that are others. The first byte decides: odd, the rest is the file; even, the
 * rest is a script of changes to a file that history made. Whatever is read back was written, in that order; and history goes on.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "history.h"

#define GOOD_SAMPLES 60
#define HOUR_USEC 3600000000ULL
#define BLOCK 4096

static int dir = -1;
static char dir_path[64];
static uint8_t *good;
static size_t good_bytes;

static void remove_files(void) {
        (void)unlinkat(dir, "history", 0);
        (void)unlinkat(dir, "history.bad", 0);
}

static void remove_dir(void) {
        free(good);
        remove_files();
        (void)rmdir(dir_path);
}

/* Number and content belong together: a sample is one that was written when all of it is what its number says. */
static HistorySample sample_of(uint64_t number) {
        HistorySample s = { .time_usec = number, .boot_usec = number * HOUR_USEC / 2, .boot = 1, .valid = HISTORY_COMPLETE };
        uint64_t *end = (uint64_t *)&s.creators;

        for (uint64_t *field = &s.memcgs; field < end; field++)
                *field = number * 0x9e3779b97f4a7c15;
        for (size_t i = 0; i < HISTORY_TOP; i++) {
                (void)snprintf(s.creators[i].name, sizeof(s.creators[i].name), "%zu/%ju", i, (uintmax_t)number);
                s.subtrees[i].memcgs = number;
        }
        return s;
}

static void append(History *h, uint64_t number) {
        HistorySample s = sample_of(number);

        CHECK(history_append(h, &s) == 0);
}

static void keep_good(void) {
        int fd = openat(dir, "history", O_RDONLY | O_CLOEXEC);
        struct stat st;

        CHECK(fd >= 0 && fstat(fd, &st) == 0);
        good_bytes = (size_t)st.st_size;
        good = malloc(good_bytes);
        CHECK(good && read(fd, good, good_bytes) == st.st_size && close(fd) == 0);
}

/* In memory, where there is such a place: it is the bytes that matter here, not the disk. */
static void make_dir(void) {
        static const char *const places[] = { "/dev/shm", "/tmp" };
        History *h = NULL;

        for (size_t i = 0; i < ELEMENTSOF(places) && dir < 0; i++) {
                (void)snprintf(dir_path, sizeof(dir_path), "%s/fuzz-history-XXXXXX", places[i]);
                if (mkdtemp(dir_path))
                        dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        CHECK(dir >= 0);
        CHECK(atexit(remove_dir) == 0);
        CHECK(history_new(&h, dir, NULL) == 0);
        for (uint64_t i = 1; i <= GOOD_SAMPLES; i++)
                append(h, i);
        history_free(h);
        keep_good();
}

static size_t check_ring(const History *h, HistoryRing ring) {
        size_t n = history_count(h, ring);
        uint64_t before = 0;

        for (size_t i = 0; i < n; i++) {
                const HistorySample *s = history_get(h, ring, i);
                HistorySample expected;

                CHECK(s && s->time_usec > before && s->time_usec <= GOOD_SAMPLES);
                before = s->time_usec;
                expected = sample_of(before);
                CHECK(memcmp(s, &expected, sizeof(expected)) == 0);
        }
        CHECK(!history_get(h, ring, n));
        return n;
}

/* Returns how many samples there are. */
static size_t check_file(void) {
        const uint64_t number = GOOD_SAMPLES + 1;
        const HistorySample *last;
        char *note = NULL;
        History *h = NULL;
        HistoryTrend t;
        size_t n, after;

        CHECK(history_new(&h, dir, &note) == 0);
        n = check_ring(h, HISTORY_FINE) + check_ring(h, HISTORY_COARSE);
        CHECK(!note || n == 0);
        for (HistoryField field = 0; field <= HISTORY_FIELD_IDS; field++)
                history_trend(h, field, 1, number * HOUR_USEC / 2, UINT64_MAX, &t);
        append(h, number);
        after = history_count(h, HISTORY_FINE);
        free(note);
        history_free(h);

        /* It goes on: the next daemon finds the same, and what was added. */
        CHECK(history_new(&h, dir, &note) == 0 && !note);
        CHECK(history_count(h, HISTORY_FINE) == after);
        last = history_get(h, HISTORY_FINE, after - 1);
        CHECK(last && last->time_usec == number);
        history_free(h);
        return n;
}

static void write_file(const uint8_t *data, size_t size) {
        static const uint8_t zeros[BLOCK];
        int fd = openat(dir, "history", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
        /* Nearly all of a good file is zeros. */
        for (size_t at = 0, n; at < size; at += n) {
                n = size - at < BLOCK ? size - at : BLOCK;
                if (memcmp(data + at, zeros, n) != 0)
                        CHECK(pwrite(fd, data + at, n, (off_t)at) == (ssize_t)n);
        }
        CHECK(close(fd) == 0);
}

/* Where a change goes: into the head, the fine ring or the coarse one, which begins at three fifths of what comes after the head. */
static size_t place(const uint8_t *change) {
        size_t at = (size_t)change[1] << 8 | change[2], coarse = BLOCK + (good_bytes - BLOCK) / 5 * 2;

        switch (change[0] % 8) {
        case 0:
                return at % 64;
        case 1:
        case 2:
                return coarse + at;
        default:
                return BLOCK + at * 2;
        }
}

/* Four bytes each: where, and what is xored in. */
static size_t check_changed(const uint8_t *data, size_t size) {
        size_t n;

        for (size_t i = 0; i + 4 <= size; i += 4)
                good[place(data + i)] ^= data[i + 3];
        write_file(good, good_bytes);
        for (size_t i = 0; i + 4 <= size; i += 4)
                good[place(data + i)] ^= data[i + 3];
        n = check_file();
        /* Each change harms one record at most, unless it is the head that it harms. */
        for (size_t i = 0; i + 4 <= size; i += 4)
                if (data[i] % 8 == 0)
                        return n;
        CHECK(n + size / 4 >= GOOD_SAMPLES + GOOD_SAMPLES / 2);
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (dir < 0)
                make_dir();
        remove_files();
        if (size == 0 || data[0] & 1) {
                write_file(size ? data + 1 : data, size ? size - 1 : 0);
                CHECK(check_file() == 0);
        } else
                (void)check_changed(data + 1, size - 1);
        return 0;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        size_t len = 1;

        if (random_once_in(random, 8))
                return fuzz_noise(random, buf, size);
        buf[0] = 0;
        while (len + 4 <= size && !random_once_in(random, 8)) {
                for (size_t i = 0; i < 4; i++)
                        buf[len + i] = (uint8_t)random_u64(random);
                /* Mostly not the head: then nothing else would be looked at. */
                if (buf[len] % 8 == 0 && !random_once_in(random, 16))
                        buf[len]++;
                len += 4;
        }
        return len;
}
