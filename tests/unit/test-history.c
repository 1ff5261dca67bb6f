/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* History: what is appended is there after a restart, whatever happened to the file; the trend against arithmetic. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The room itself, with memory that can run out. */
static unsigned allocations_left = UINT32_MAX;

static void *scarce_calloc(size_t n, size_t size) {
        if (allocations_left == 0)
                return NULL;
        allocations_left--;
        return calloc(n, size);
}

#define calloc scarce_calloc
#include "../../daemon/history.c"
#include "../../daemon/history-file.c"
#undef calloc

#include "builder.h"
#include "check.h"

#define MINUTE_USEC 60000000ULL
#define BOOT 77

/* A directory of the test's own, the current one while it is there. */
static int dir_setup(void **state) {
        char path[] = "/tmp/test-history-XXXXXX";
        int fd;

        if (!mkdtemp(path))
                return -1;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = strdup(path);
        return fd < 0 || !*state || fchdir(fd) < 0 || close(fd) < 0 ? -1 : 0;
}

static int dir_teardown(void **state) {
        static const char *const names[] = { NAME, NAME_NEW, NAME_BAD, "target" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (unlink(names[i]) < 0)
                        (void)rmdir(names[i]);
        if (chdir("/") < 0 || rmdir(*state) < 0)
                return -1; /* something was left behind */
        free(*state);
        return 0;
}

static bool is_there(const char *name) {
        struct stat st;

        return lstat(name, &st) == 0;
}

/* The file of the current directory. Asserts that there is nothing to remark. */
static History *open_good(void) {
        char *note = (char *)&note;
        History *h = NULL;

        assert_int_equal(history_new(&h, AT_FDCWD, &note), 0);
        assert_null(note);
        assert_false(is_there(NAME_NEW));
        return h;
}

/* Every field says the number. */
static HistorySample sample_of(uint64_t number, uint64_t boot_usec) {
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

static void append_number(History *h, uint64_t number, uint64_t boot_usec) {
        HistorySample s = sample_of(number, boot_usec);

        assert_int_equal(history_append(h, &s), 0);
}

static void assert_number(const History *h, HistoryRing ring, size_t i, uint64_t number) {
        const HistorySample *s = history_get(h, ring, i);
        HistorySample expected;

        assert_non_null(s);
        assert_int_equal(s->time_usec, number);
        expected = sample_of(number, s->boot_usec);
        assert_memory_equal(s, &expected, sizeof(expected));
}

/* The fine ring has these numbers and no others. */
static void assert_fine(const History *h, uint64_t first, uint64_t last) {
        assert_int_equal(history_count(h, HISTORY_FINE), last - first + 1);
        for (uint64_t i = first; i <= last; i++)
                assert_number(h, HISTORY_FINE, i - first, i);
        assert_null(history_get(h, HISTORY_FINE, last - first + 1));
}

static off_t record_at(HistoryRing ring, uint64_t sequence) {
        return ring_offset(ring) + (off_t)(sequence % slots[ring] * sizeof(Record));
}

static void write_at(off_t at, const void *data, size_t len) {
        int fd = open(NAME, O_WRONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, data, len, at), len);
        assert_int_equal(close(fd), 0);
}

static void read_at(off_t at, void *data, size_t len) {
        int fd = open(NAME, O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, data, len, at), len);
        assert_int_equal(close(fd), 0);
}

static void test_made(_unused_ void **state) {
        mode_t mask = umask(0077);
        struct stat st;
        History *h;

        assert_null(history_free(NULL));
        h = open_good();
        (void)umask(mask);
        assert_int_equal(lstat(NAME, &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 07777, 0640);
        assert_int_equal(st.st_size, 4096 + (1440 + 2160) * 1832);
        /* The room is taken, not only promised. */
        assert_true((off_t)st.st_blocks * 512 >= st.st_size);
        for (HistoryRing ring = 0; ring < _HISTORY_RING_MAX; ring++) {
                assert_int_equal(history_count(h, ring), 0);
                assert_null(history_get(h, ring, 0));
        }
        history_free(h);
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 0);
        history_free(h);

        /* Where nobody wants to know. */
        assert_int_equal(history_new(&h, AT_FDCWD, NULL), 0);
        history_free(h);
}

static void test_hours(_unused_ void **state) {
        History *h = open_good();
        HistorySample s;

        append_number(h, 1, HOUR_USEC - 2);
        append_number(h, 2, HOUR_USEC - 1);
        append_number(h, 3, HOUR_USEC);
        append_number(h, 4, 2 * HOUR_USEC - 1);
        append_number(h, 5, 5 * HOUR_USEC + 7);
        s = sample_of(6, 5 * HOUR_USEC + 8);
        s.boot++; /* the same hour of another boot */
        assert_int_equal(history_append(h, &s), 0);
        s.boot_usec++;
        assert_int_equal(history_append(h, &s), 0);
        for (unsigned i = 0; i < 2; i++) {
                assert_int_equal(history_count(h, HISTORY_FINE), 7);
                assert_int_equal(history_count(h, HISTORY_COARSE), 4);
                assert_number(h, HISTORY_COARSE, 0, 1);
                assert_number(h, HISTORY_COARSE, 1, 3);
                assert_number(h, HISTORY_COARSE, 2, 5);
                assert_int_equal(history_get(h, HISTORY_COARSE, 3)->boot, BOOT + 1);
                history_free(h);
                h = open_good();
        }
        /* The next daemon knows which hour there is a sample of. */
        s.boot_usec = 6 * HOUR_USEC - 1;
        assert_int_equal(history_append(h, &s), 0);
        assert_int_equal(history_count(h, HISTORY_COARSE), 4);
        s.boot_usec++;
        assert_int_equal(history_append(h, &s), 0);
        assert_int_equal(history_count(h, HISTORY_COARSE), 5);
        history_free(h);
}

/* Three times around, with restarts at odd places. */
static void test_around(_unused_ void **state) {
        History *h = open_good();
        uint64_t number = 0;

        for (unsigned round = 0; round < 10; round++) {
                uint64_t first;

                for (unsigned i = 0; i < 701; i++) {
                        number++;
                        append_number(h, number, number * HOUR_USEC);
                }
                for (unsigned i = 0; i < 2; i++) {
                        assert_fine(h, number > 1440 ? number - 1439 : 1, number);
                        first = number > 2160 ? number - 2159 : 1;
                        assert_int_equal(history_count(h, HISTORY_COARSE), number - first + 1);
                        assert_number(h, HISTORY_COARSE, 0, first);
                        assert_number(h, HISTORY_COARSE, number - first, number);
                        history_free(h);
                        h = open_good();
                }
        }
        history_free(h);
}

/* Whatever part of the newest record got to disk: it is left out, what is older is there, and the next one takes its place. */
static void test_torn(_unused_ void **state) {
        static const uint8_t zeros[sizeof(Record)];
        Record old, new;
        History *h = open_good();

        for (uint64_t i = 1; i <= 1440 + 5; i++)
                append_number(h, i, i * MINUTE_USEC);
        read_at(record_at(HISTORY_FINE, 1446), &old, sizeof(old));
        append_number(h, 1446, 1446 * MINUTE_USEC);
        history_free(h);
        read_at(record_at(HISTORY_FINE, 1446), &new, sizeof(new));
        assert_int_equal(new.sequence, 1446);
        assert_int_equal(old.sequence, 6);

        for (size_t len = 0; len < sizeof(new); len += len < 200 ? 1 : 97) {
                bool same = memcmp((uint8_t *)&old + len, (uint8_t *)&new + len, sizeof(new) - len) == 0;

                write_at(record_at(HISTORY_FINE, 1446), &old, sizeof(old));
                write_at(record_at(HISTORY_FINE, 1446), &new, len);
                h = open_good();
                assert_fine(h, len == 0 ? 6 : 7, same ? 1446 : 1445);
                history_free(h);
        }
        write_at(record_at(HISTORY_FINE, 1446), zeros, sizeof(zeros));
        h = open_good();
        assert_fine(h, 7, 1445);
        append_number(h, 1446, 1446 * MINUTE_USEC);
        history_free(h);
        h = open_good();
        assert_fine(h, 7, 1446);
        history_free(h);
}

/* A bit of a record is another: that one is missing, in order, and nothing else. */
static void test_flipped(_unused_ void **state) {
        Random random = random_start(1414);
        History *h = open_good();

        for (uint64_t i = 1; i <= 60; i++)
                append_number(h, i, i * MINUTE_USEC);
        history_free(h);
        for (unsigned round = 0; round < 60; round++) {
                uint64_t victim = 1 + random_below(&random, 60);
                off_t at = record_at(HISTORY_FINE, victim) + (off_t)(round < 24 ? round : random_below(&random, sizeof(Record)));
                uint8_t good, bad;

                read_at(at, &good, 1);
                bad = good ^ (uint8_t)(1U << random_below(&random, 8));
                write_at(at, &bad, 1);
                h = open_good();
                assert_int_equal(history_count(h, HISTORY_FINE), 59);
                for (uint64_t i = 1; i < 60; i++)
                        assert_number(h, HISTORY_FINE, i - 1, i < victim ? i : i + 1);
                history_free(h);
                write_at(at, &good, 1);
        }
        h = open_good();
        assert_fine(h, 1, 60);
        history_free(h);
}

/* Good records in places where they do not belong. */
static void test_misplaced(_unused_ void **state) {
        History *h = open_good();
        Record r, stale;

        for (uint64_t i = 1; i <= 10; i++)
                append_number(h, i, i);
        history_free(h);
        read_at(record_at(HISTORY_FINE, 5), &r, sizeof(r));
        write_at(record_at(HISTORY_FINE, 500), &r, sizeof(r)); /* another slot */
        write_at(record_at(HISTORY_COARSE, 5), &r, sizeof(r)); /* the same of another ring */
        r.sequence = SEQUENCE_MAX + 1; /* beyond counting, with all else right */
        r.checksum = history_file_hash(&r.sequence, sizeof(r) - sizeof(r.checksum));
        write_at(record_at(HISTORY_FINE, r.sequence), &r, sizeof(r));
        r.sequence = 11;
        memset(r.sample.subtrees[7].name, 'x', sizeof(r.sample.subtrees[7].name)); /* a name without end */
        r.checksum = history_file_hash(&r.sequence, sizeof(r) - sizeof(r.checksum));
        write_at(record_at(HISTORY_FINE, r.sequence), &r, sizeof(r));
        h = open_good();
        assert_fine(h, 1, 10);
        assert_int_equal(history_count(h, HISTORY_COARSE), 1);

        /* A slot that was not written in its turn holds a record of the round before. */
        read_at(record_at(HISTORY_FINE, 7), &stale, sizeof(stale));
        for (uint64_t i = 11; i <= 1450; i++)
                append_number(h, i, i);
        history_free(h);
        write_at(record_at(HISTORY_FINE, 1447), &stale, sizeof(stale));
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 1439);
        assert_number(h, HISTORY_FINE, 0, 11);
        assert_number(h, HISTORY_FINE, 1435, 1446);
        assert_number(h, HISTORY_FINE, 1436, 1448);
        history_free(h);
}

static void assert_put_aside(const char *why) {
        char *note = NULL;
        History *h = NULL;
        struct stat st, bad;

        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(history_new(&h, AT_FDCWD, &note), 0);
        assert_non_null(note);
        assert_non_null(strstr(note, why));
        assert_non_null(strstr(note, "\"history.bad\""));
        assert_int_equal(note[strlen(note) - 1], '.');
        free(note);
        /* The very file; one that was put aside before gives way. */
        assert_int_equal(stat(NAME_BAD, &bad), 0);
        assert_int_equal(bad.st_ino, st.st_ino);
        assert_int_equal(history_count(h, HISTORY_FINE), 0);
        append_number(h, 1, 1);
        history_free(h);
        h = open_good();
        assert_fine(h, 1, 1);
        history_free(h);
}

static void rewrite_head(const Head *head, bool sum) {
        Head h = *head;

        if (sum)
                h.checksum = history_file_hash(&h, offsetof(Head, checksum));
        write_at(0, &h, sizeof(h));
}

static void test_other_form(_unused_ void **state) {
        const Head good = make_head();
        Head head;
        uint8_t bytes[10];

        history_free(open_good());
        head = good;
        head.version = 2;
        rewrite_head(&head, true);
        assert_put_aside("version 2");
        head = good;
        head.slots[0]++;
        rewrite_head(&head, true);
        assert_put_aside("version 1"); /* not ours, by whoever wrote it */
        head = good;
        head.order = ORDER_SWAPPED;
        rewrite_head(&head, false);
        assert_put_aside("byte order");
        for (size_t i = 0; i < sizeof(head); i++) {
                head = good;
                ((uint8_t *)&head)[i] ^= 1;
                rewrite_head(&head, false);
                assert_put_aside(i < 8 ? "no history file" : "damaged");
        }
        assert_int_equal(truncate(NAME, sizeof(head) - 1), 0);
        assert_put_aside("no history file");
        assert_int_equal(truncate(NAME, 0), 0);
        assert_put_aside("no history file");
        memset(bytes, 0xff, sizeof(bytes));
        write_at(0, bytes, sizeof(bytes));
        assert_put_aside("no history file");
}

/* What was cut off is lost, the rest is there, and so is all the room again. */
static void test_cut_off(_unused_ void **state) {
        History *h = open_good();
        struct stat st;

        for (uint64_t i = 1; i <= 20; i++)
                append_number(h, i, i * HOUR_USEC);
        history_free(h);
        assert_int_equal(truncate(NAME, record_at(HISTORY_FINE, 8) + 100), 0);
        h = open_good();
        assert_fine(h, 1, 7);
        assert_int_equal(history_count(h, HISTORY_COARSE), 0);
        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(st.st_size, file_bytes());
        append_number(h, 8, 21 * HOUR_USEC);
        history_free(h);
        h = open_good();
        assert_fine(h, 1, 8);
        assert_int_equal(history_count(h, HISTORY_COARSE), 1);
        history_free(h);
}

/* The file cannot be had: history is good all the same. */
static void assert_memory_only(int dirfd, int error) {
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

static void limit_file_size(rlim_t bytes) {
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = bytes == RLIM_INFINITY ? limit.rlim_max : bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_no_file(_unused_ void **state) {
        History *h, *none = (History *)&h;
        struct stat st;

        assert_memory_only(-1, -EBADF);
        assert_int_equal(symlink("target", NAME), 0);
        assert_memory_only(AT_FDCWD, -ELOOP);
        assert_false(is_there("target"));
        assert_int_equal(unlink(NAME), 0);
        assert_int_equal(mkdir(NAME, 0700), 0);
        assert_memory_only(AT_FDCWD, -EISDIR);
        assert_int_equal(rmdir(NAME), 0);
        assert_int_equal(mkfifo(NAME, 0600), 0);
        assert_memory_only(AT_FDCWD, -EBADFD);
        assert_int_equal(unlink(NAME), 0);

        /* No room: no half file stays. */
        limit_file_size(1 << 20);
        assert_memory_only(AT_FDCWD, -EFBIG);
        limit_file_size(RLIM_INFINITY);
        assert_false(is_there(NAME));
        assert_false(is_there(NAME_NEW));

        /* Nor is one that a daemon left which died while it made it in the way, nor a link in its place. */
        assert_int_equal(symlink("target", NAME_NEW), 0);
        h = open_good();
        assert_false(is_there("target"));
        append_number(h, 1, 1);
        assert_memory_only(AT_FDCWD, -EAGAIN); /* somebody has it */
        append_number(h, 2, 2);

        /* A write that fails: in memory it is. */
        limit_file_size(0);
        for (uint64_t i = 3; i <= 5; i++) {
                HistorySample s = sample_of(i, i * HOUR_USEC);

                assert_int_equal(history_append(h, &s), -EFBIG);
        }
        limit_file_size(RLIM_INFINITY);
        assert_fine(h, 1, 5);
        append_number(h, 6, 6);
        history_free(h);
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 3);
        assert_number(h, HISTORY_FINE, 1, 2);
        assert_number(h, HISTORY_FINE, 2, 6);
        history_free(h);
        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(st.st_size, file_bytes());

        /* Putting aside that fails leaves what is there. */
        assert_int_equal(truncate(NAME, 10), 0);
        assert_int_equal(mkdir(NAME_BAD, 0700), 0);
        assert_memory_only(AT_FDCWD, -EISDIR);
        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(st.st_size, 10);
        assert_int_equal(truncate(NAME, 0), 0);
        assert_int_equal(unlink(NAME), 0);

        /* Memory runs out: two rings, and twice for what is read. */
        h = open_good();
        history_free(h);
        for (unsigned k = 0; k < 5; k++) {
                allocations_left = k;
                assert_int_equal(history_new(&none, AT_FDCWD, NULL), -ENOMEM);
                assert_ptr_equal(none, &h);
        }
        allocations_left = UINT32_MAX;
        history_free(open_good());
}

/* Killed while it writes: what was appended before is there, in order, up to some number. */
static void test_killed(_unused_ void **state) {
        uint64_t last = 0;

        for (unsigned round = 0; round < 10; round++) {
                int pipes[2], status;
                uint64_t written = 0, n;
                History *h;
                pid_t pid;

                assert_int_equal(pipe(pipes), 0);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        if (history_new(&h, AT_FDCWD, NULL) < 0)
                                _exit(1);
                        for (uint64_t i = last + 1;; i++) {
                                HistorySample s = sample_of(i, i * HOUR_USEC);

                                if (history_append(h, &s) < 0 || write(pipes[1], &i, sizeof(i)) < 0)
                                        _exit(1);
                        }
                }
                assert_int_equal(close(pipes[1]), 0);
                while (written < last + 300)
                        assert_int_equal(read(pipes[0], &written, sizeof(written)), sizeof(written));
                assert_int_equal(kill(pid, SIGKILL), 0);
                while (read(pipes[0], &n, sizeof(n)) == sizeof(n))
                        written = n;
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_true(WIFSIGNALED(status));
                assert_int_equal(close(pipes[0]), 0);

                h = open_good();
                n = history_count(h, HISTORY_FINE);
                last = history_get(h, HISTORY_FINE, n - 1)->time_usec;
                assert_in_range(last, written, written + 1);
                assert_in_range(n, last < 1440 ? last : 1439, 1440);
                assert_fine(h, last - n + 1, last);
                history_free(h);
        }
}

static void test_boot(_unused_ void **state) {
        /* As its authors publish them. */
        assert_true(history_boot("") == 0xcbf29ce484222325);
        assert_true(history_boot("a") == 0xaf63dc4c8601ec8c);
        assert_true(history_boot("foobar") == 0x85944171f73967e8);
        assert_true(history_boot("d3b07384-d113-4ec6-a1b2-0123456789ab") != history_boot("d3b07384-d113-4ec6-a1b2-0123456789ac"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_made, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_hours, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_around, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_torn, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_flipped, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_misplaced, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_other_form, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_cut_off, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_no_file, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_killed, dir_setup, dir_teardown),
                cmocka_unit_test(test_boot),
        };

        /* A limit on the size of files is to be an error, not the end. */
        (void)signal(SIGXFSZ, SIG_IGN);
        return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
