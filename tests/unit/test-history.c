/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* History: what is appended is there after a restart, and it goes on without a file. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "history-dir.h"

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
                /* The last is of the hour of the one before: it fails in the fine ring alone. */
                HistorySample s = sample_of(i, (i < 5 ? i : 4) * HOUR_USEC);

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
        /* And for the reason why it is put aside. */
        assert_int_equal(truncate(NAME, 10), 0);
        allocations_left = 3;
        assert_int_equal(history_new(&none, AT_FDCWD, NULL), -ENOMEM);
        assert_ptr_equal(none, &h);
        allocations_left = UINT32_MAX;
        assert_int_equal(unlink(NAME), 0);
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
                cmocka_unit_test_setup_teardown(test_no_file, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_killed, dir_setup, dir_teardown),
                cmocka_unit_test(test_boot),
        };

        /* A limit on the size of files is to be an error, not the end. */
        (void)signal(SIGXFSZ, SIG_IGN);
        return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
