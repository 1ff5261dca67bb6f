/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The journal: how an entry gets there. In a mount namespace of its own, with a socket of our own where journald's is, each case runs
 * in a child that has become an ordinary user, as the daemon is one.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "journal.h"

#define SOCKET "/run/systemd/journal/socket"
#define NOBODY 65534
#define SKIPPED 77
#define LARGE 66000 /* a value that is cut */
#define MANY 140    /* of these: more than the 8 MiB that the library asks for its socket, so that it sends a file */

/* The child has no framework: what is wrong goes to its stdout, which is the test's. */
#define CHECK(condition)                                                                \
        do {                                                                            \
                if (!(condition)) {                                                     \
                        printf("# line %d: %s: %m\n", __LINE__, #condition);            \
                        fflush(stdout);                                                 \
                        _exit(EXIT_FAILURE);                                            \
                }                                                                       \
        } while (0)

/* All of it, before the framework begins: what cmocka 1.1.5 says of a test that is skipped is a failure to who reads TAP. */
__attribute__((noreturn)) static void skip_all(const char *why) {
        printf("1..1\nok 1 - journal-send # SKIP %s: %m\n", why);
        fflush(stdout);
        _exit(SKIPPED);
}

/* A /run of our own. Returns the socket; -1: none was wanted. */
static int enter(bool with_socket) {
        struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };
        int fd = -1;

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
                skip_all("no mount namespace of our own");
        if (mount("test", "/run", "tmpfs", 0, "mode=755") < 0)
                skip_all("no /run of our own");
        CHECK(mkdir("/run/systemd", 0755) == 0);
        CHECK(mkdir("/run/systemd/journal", 0755) == 0);
        if (with_socket) {
                fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                CHECK(fd >= 0);
                CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
                CHECK(chmod(SOCKET, 0666) == 0);
        }
        CHECK(setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
        CHECK(unsetenv("JOURNAL_STREAM") == 0);
        return fd;
}

/* What stands on stderr comes out of the pipe that is returned. */
static int pipe_stderr(void) {
        int fds[2];

        CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
        CHECK(dup2(fds[1], STDERR_FILENO) == STDERR_FILENO);
        close(fds[1]);
        return fds[0];
}

static void check_stderr(int fd, const char *expected) {
        char buf[512];
        ssize_t n = read(fd, buf, sizeof(buf) - 1);

        if (n < 0)
                n = 0;
        buf[n] = '\0';
        if (strcmp(buf, expected) != 0)
                printf("# on stderr: \"%s\"\n", buf);
        CHECK(strcmp(buf, expected) == 0);
}

/* One entry: from the datagram, or from the sealed file that came with it. *ret_file: which. */
static char *receive(int fd, size_t *ret_len, bool *ret_file) {
        union {
                struct cmsghdr header;
                char room[CMSG_SPACE(sizeof(int))];
        } control = {};
        static char buf[16 << 20];
        struct iovec iov = { buf, sizeof(buf) };
        struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        struct cmsghdr *c;
        struct stat st;
        ssize_t n;
        int file;

        n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        CHECK(n >= 0);
        c = CMSG_FIRSTHDR(&message);
        *ret_file = c != NULL;
        if (c) {
                CHECK(n == 0 && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)));
                memcpy(&file, CMSG_DATA(c), sizeof(file));
                CHECK(fstat(file, &st) == 0 && st.st_size > 0 && (size_t)st.st_size <= sizeof(buf));
                char *all = malloc((size_t)st.st_size);
                CHECK(all && pread(file, all, (size_t)st.st_size, 0) == st.st_size);
                close(file);
                *ret_len = (size_t)st.st_size;
                return all;
        }
        *ret_len = (size_t)n;
        return memcpy(malloc((size_t)n + 1), buf, (size_t)n);
}

/*
 * The native protocol: "NAME=value\n", or "NAME\n", the length of the value as 64 bits little endian, the value, "\n". Counts the fields of this
 * name and value; the whole entry must be well formed.
 */
static size_t count_fields(const char *data, size_t len, const char *name, const char *value, size_t value_len) {
        size_t found = 0, at = 0;

        while (at < len) {
                const char *line = data + at, *end = memchr(line, '\n', len - at), *equals;
                const char *v;
                size_t name_len, n;

                CHECK(end && end > line);
                equals = memchr(line, '=', (size_t)(end - line));
                if (equals) {
                        name_len = (size_t)(equals - line);
                        v = equals + 1;
                        n = (size_t)(end - v);
                } else {
                        uint64_t size = 0;

                        name_len = (size_t)(end - line);
                        CHECK(len - (size_t)(end + 1 - data) > 8);
                        for (unsigned i = 0; i < 8; i++)
                                size |= (uint64_t)(unsigned char)end[1 + i] << (8 * i);
                        v = end + 9;
                        CHECK(size < len - (size_t)(v - data));
                        n = (size_t)size;
                        CHECK(v[n] == '\n');
                }
                found += name_len == strlen(name) && memcmp(line, name, name_len) == 0 &&
                         (!value || (n == value_len && memcmp(v, value, n) == 0));
                at = (size_t)(v + n + 1 - data);
        }
        return found;
}

static bool has(const char *data, size_t len, const char *name, const char *value) {
        return count_fields(data, len, name, NULL, 0) == 1 && count_fields(data, len, name, value, strlen(value)) == 1;
}

/* ----------------------------------------------------------------------------------------------------------- the cases */

static void run(void (*fn)(void)) {
        pid_t pid = fork();
        int status;

        assert_true(pid >= 0);
        if (pid == 0) {
                fn();
                fflush(stdout);
                _exit(EXIT_SUCCESS);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_SUCCESS);
}

static void child_native(void) {
        static const char path[] = "/a\nPRIORITY=0\xff";
        Finding f = { .id = 3, .kind = FINDING_SUBTREE, .serial = 9, .path = (char *)path, .path_len = sizeof(path) - 1, .bytes = 11 };
        StormEntry entry = { .kind = STORM_RAISED, .finding_kind = f.kind, .finding = &f };
        int fd = enter(true), err = pipe_stderr();
        Snapshot s = {};
        Journal *j;
        char *data;
        bool file;
        size_t n;

        CHECK(journal_new(&j, NULL, NULL) == 0);
        CHECK(journal_tell(j, &s, &entry) == 0);
        data = receive(fd, &n, &file);
        CHECK(!file);
        CHECK(has(data, n, "MESSAGE_ID", journal_message_id(JOURNAL_SUBTREE)));
        CHECK(has(data, n, "PRIORITY", "4"));
        CHECK(has(data, n, "SHRINKWATCH_CGROUP", path));
        CHECK(has(data, n, "SHRINKWATCH_SERIAL", "9"));
        CHECK(has(data, n, "SHRINKWATCH_BYTES", "11"));
        CHECK(count_fields(data, n, "MESSAGE", NULL, 0) == 1);
        /* Where in our source it is sent from is nobody's business. */
        CHECK(count_fields(data, n, "CODE_FILE", NULL, 0) == 0 && count_fields(data, n, "CODE_FUNC", NULL, 0) == 0);
        free(data);
        check_stderr(err, "");
        CHECK(journal_sent(j) == 1 && journal_failed(j) == 0);
        journal_free(j);
}

static void child_large(void) {
        static char field[sizeof("F=") + LARGE];
        const char *fields[MANY + 1] = {};
        int fd = enter(true);
        Journal *j;
        char *data;
        bool file;
        size_t n;

        memset(field, 'y', sizeof(field) - 1);
        memcpy(field, "F=", 2);
        for (size_t i = 0; i < MANY; i++)
                fields[i] = field;
        CHECK(journal_new(&j, NULL, NULL) == 0);
        CHECK(journal_log(j, JOURNAL_STATE, fields, "large") == 0);
        data = receive(fd, &n, &file);
        CHECK(file);
        CHECK(has(data, n, "MESSAGE", "large"));
        CHECK(count_fields(data, n, "F", field + 2, 65536 - 2) == MANY);
        CHECK(count_fields(data, n, "SHRINKWATCH_CUT", "F", 1) == MANY);
        free(data);
        journal_free(j);
}

/* journald ended and left its socket: the line goes to stderr, and is counted. */
static void child_gone(void) {
        int fd = enter(true), err = pipe_stderr();
        Journal *j;

        CHECK(journal_new(&j, NULL, NULL) == 0);
        close(fd);
        CHECK(journal_log(j, JOURNAL_STATE, NULL, "nobody listens") == -ECONNREFUSED);
        check_stderr(err, "nobody listens\n");
        CHECK(journal_failed(j) == 1 && journal_sent(j) == 1);
        journal_free(j);
}

/* journald is there and does not read: the daemon goes on, and says later how much was not told. */
static void child_stalled(void) {
        int fd = enter(true), err = pipe_stderr();
        struct timespec begin, end;
        unsigned failed = 0, n_read = 0;
        bool told = false;
        Journal *j;

        CHECK(journal_new(&j, NULL, NULL) == 0);
        CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
        /* More than any queue takes (net.unix.max_dgram_qlen). */
        while (journal_log(j, JOURNAL_STATE, NULL, "nobody reads") == 0 && journal_sent(j) < 100000)
                ;
        for (; failed < 20; failed++)
                CHECK(journal_log(j, JOURNAL_STATE, NULL, "nobody reads") == -EAGAIN);
        CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
        CHECK(end.tv_sec - begin.tv_sec < 30); /* that it did not wait for ever; 21 waits of half a second would be 10 s */
        CHECK(journal_failed(j) == failed + 1);

        for (; n_read < 100000; n_read++)
                if (recv(fd, (char[1]){ 0 }, 1, MSG_DONTWAIT) < 0)
                        break;
        CHECK(n_read > 0);
        CHECK(journal_log(j, JOURNAL_STATE, NULL, "somebody reads") == 0);
        for (unsigned i = 0; i < 2; i++) {
                bool file;
                size_t n;
                char *data = receive(fd, &n, &file);

                told |= has(data, n, "MESSAGE_ID", journal_message_id(JOURNAL_LOST)) && memmem(data, n, "21 messages did not", 19);
                free(data);
        }
        CHECK(told);
        close(err);
        journal_free(j);
}

static void child_none(void) {
        int err;
        Journal *j;

        (void)enter(false);
        err = pipe_stderr();
        CHECK(journal_new(&j, NULL, NULL) == 0);
        CHECK(journal_log(j, JOURNAL_CONF, NULL, "two\nlines \xff") == 0);
        check_stderr(err, "two\\x0alines \\xff\n");
        CHECK(journal_sent(j) == 1 && journal_failed(j) == 0);
        journal_free(j);
}

/* stderr is a stream to the journal, but the socket is not there: the priority goes along. */
static void child_stream(void) {
        char variable[64];
        struct stat st;
        Journal *j;
        int err;

        (void)enter(false);
        err = pipe_stderr();
        CHECK(fstat(STDERR_FILENO, &st) == 0);
        (void)snprintf(variable, sizeof(variable), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        CHECK(setenv("JOURNAL_STREAM", variable, 1) == 0);
        CHECK(journal_new(&j, NULL, NULL) == 0);
        CHECK(journal_log(j, JOURNAL_CANNOT_START, NULL, "why") == -ENOENT);
        check_stderr(err, "<3>why\n");
        CHECK(journal_failed(j) == 1);
        journal_free(j);

        /* Another's stream, and no stream at all. */
        for (size_t i = 0; i < 5; i++) {
                CHECK(setenv("JOURNAL_STREAM", (const char *const[]){ "1:1", "", ":", "7", "7:x" }[i], 1) == 0);
                CHECK(journal_new(&j, NULL, NULL) == 0);
                CHECK(journal_log(j, JOURNAL_CANNOT_START, NULL, "why") == 0);
                check_stderr(err, "why\n");
                journal_free(j);
        }
}

static void test_native(_unused_ void **state) {
        run(child_native);
}

static void test_large(_unused_ void **state) {
        run(child_large);
}

static void test_gone(_unused_ void **state) {
        run(child_gone);
}

static void test_stalled(_unused_ void **state) {
        run(child_stalled);
}

static void test_none(_unused_ void **state) {
        run(child_none);
}

static void test_stream(_unused_ void **state) {
        run(child_stream);
}

int main(void) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
                (void)enter(true);
                _exit(EXIT_SUCCESS);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                return EXIT_FAILURE;
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
                return EXIT_SUCCESS;

        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_native),
                cmocka_unit_test(test_large),
                cmocka_unit_test(test_gone),
                cmocka_unit_test(test_stalled),
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_stream),
        };

        return cmocka_run_group_tests_name("journal-send", tests, NULL, NULL);
}
