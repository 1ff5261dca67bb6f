/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What goes to NOTIFY_SOCKET, byte by byte and with the descriptors; what comes by LISTEN_FDS; what is left of the capabilities. */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "service.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* ---- the other end of NOTIFY_SOCKET ---- */

static char directory[] = "/tmp/shrinkwatch-service-XXXXXX";
static int notify = -1;

static void listen_at(const char *path, bool abstract) {
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        size_t len = strlen(path);

        assert_true(len + 1 < sizeof(sa.sun_path));
        memcpy(sa.sun_path + abstract, path, len);
        notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(notify >= 0);
        assert_int_equal(bind(notify, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + len)), 0);
}

static int open_socket(_unused_ void **state) {
        char path[sizeof(directory) + 16];

        assert_non_null(mkdtemp(directory));
        (void)snprintf(path, sizeof(path), "%s/notify", directory);
        listen_at(path, false);
        assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
        return 0;
}

static int close_socket(_unused_ void **state) {
        char path[sizeof(directory) + 16];

        notify = safe_close(notify);
        (void)snprintf(path, sizeof(path), "%s/notify", directory);
        (void)unlink(path);
        (void)rmdir(directory);
        memcpy(directory + strlen(directory) - 6, "XXXXXX", 6);
        return unsetenv("NOTIFY_SOCKET");
}

/* The next message. Returns the descriptor that came with it, -1 for none; more than one is a failure. */
static int receive(char *buf, size_t size) {
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * 8)];
        } control = {};
        struct iovec iov = { .iov_base = buf, .iov_len = size - 1 };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(notify, &m, MSG_CMSG_CLOEXEC);
        int fd = -1;

        if (n < 0)
                fail_msg("no message: %s", strerror(errno));
        assert_false(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
        buf[n] = 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                assert_int_equal(fd, -1);
                assert_int_equal(c->cmsg_len, CMSG_LEN(sizeof(int)));
                memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        }
        return fd;
}

static void expect_message(const char *text) {
        char buf[4096];

        assert_int_equal(receive(buf, sizeof(buf)), -1);
        assert_string_equal(buf, text);
}

static void expect_silence(void) {
        char c;

        assert_int_equal(recv(notify, &c, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
}

static bool same_file(int a, int b) {
        struct stat sa, sb;

        assert_int_equal(fstat(a, &sa), 0);
        assert_int_equal(fstat(b, &sb), 0);
        return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* ---- notify ---- */

static void test_states(_unused_ void **state) {
        assert_int_equal(service_ready("Three of 17 dying"), 1);
        expect_message("READY=1\nSTATUS=Three of 17 dying");
        assert_int_equal(service_ready(NULL), 1);
        expect_message("READY=1");
        assert_int_equal(service_status("1.5 GiB"), 1);
        expect_message("STATUS=1.5 GiB");
        assert_int_equal(service_status(""), 1);
        expect_message("STATUS=");
        assert_int_equal(service_stopping("Bye"), 1);
        expect_message("STOPPING=1\nSTATUS=Bye");
        assert_int_equal(service_stopping(NULL), 1);
        expect_message("STOPPING=1");
        assert_int_equal(service_status(NULL), 1);
        expect_message("STATUS=");
        expect_silence();
}

/* A status is one line, whatever is in it: nothing gets to be another assignment. UTF-8 stays what it is. */
static void test_status_is_one_line(_unused_ void **state) {
        char longer[3000], expected[3100];

        assert_int_equal(service_status("a\nMAINPID=1\r\tb\x7f\x01z"), 1);
        expect_message("STATUS=a MAINPID=1  b  z");
        assert_int_equal(service_ready("\n"), 1);
        expect_message("READY=1\nSTATUS= ");
        assert_int_equal(service_status("STATUS=\xc3\xa4 \xe2\x82\xac"), 1);
        expect_message("STATUS=STATUS=\xc3\xa4 \xe2\x82\xac");
        memset(longer, 'x', sizeof(longer) - 1);
        longer[sizeof(longer) - 1] = 0;
        (void)snprintf(expected, sizeof(expected), "STATUS=%s", longer);
        assert_int_equal(service_status(longer), 1);
        expect_message(expected);
}

static uint64_t monotonic_usec(void) {
        struct timespec ts;

        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void test_reloading(_unused_ void **state) {
        uint64_t before = monotonic_usec(), after;
        unsigned long long usec;
        char buf[256], again[256];

        assert_int_equal(service_reloading(), 1);
        after = monotonic_usec();
        assert_int_equal(receive(buf, sizeof(buf)), -1);
        assert_int_equal(sscanf(buf, "RELOADING=1\nMONOTONIC_USEC=%llu", &usec), 1);
        (void)snprintf(again, sizeof(again), "RELOADING=1\nMONOTONIC_USEC=%llu", usec);
        assert_string_equal(buf, again);
        assert_true(usec >= before && usec <= after);
}

static void test_abstract(_unused_ void **state) {
        char name[64];

        notify = safe_close(notify);
        (void)snprintf(name, sizeof(name), "shrinkwatch-service-%d", getpid());
        listen_at(name, true);
        (void)snprintf(name, sizeof(name), "@shrinkwatch-service-%d", getpid());
        assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
        assert_int_equal(service_ready("x"), 1);
        expect_message("READY=1\nSTATUS=x");
        assert_int_equal(service_store(&(EventsFd){ .name = "sw1-ring", .fd = notify }, 1), 1);
        {
                char buf[256];
                int fd = receive(buf, sizeof(buf));

                assert_string_equal(buf, "FDSTORE=1\nFDNAME=sw1-ring\nFDPOLL=0");
                assert_true(fd >= 0 && same_file(fd, notify));
                safe_close(fd);
        }
}

/* Each in a message of its own, with its name; ours stay open. */
static void test_store(_unused_ void **state) {
        const char *names[] = { "sw1-deaths", "sw1-counts", "sw1-x y" };
        EventsFd fds[ELEMENTSOF(names)];
        char buf[256], expected[256];

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                (void)snprintf(fds[i].name, sizeof(fds[i].name), "%s", names[i]);
                fds[i].fd = memfd_create(names[i], MFD_CLOEXEC);
                assert_true(fds[i].fd >= 0);
        }
        assert_int_equal(service_store(fds, ELEMENTSOF(fds)), 1);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int fd = receive(buf, sizeof(buf));

                (void)snprintf(expected, sizeof(expected), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", names[i]);
                assert_string_equal(buf, expected);
                assert_true(fd >= 0);
                for (size_t k = 0; k < ELEMENTSOF(names); k++)
                        assert_int_equal(same_file(fd, fds[k].fd), k == i);
                safe_close(fd);
        }
        expect_silence();
        assert_int_equal(service_store(fds, 0), 1);
        expect_silence();

        /* One that cannot go: none goes. */
        safe_close(fds[1].fd);
        fds[1].fd = -1;
        assert_int_equal(service_store(fds, ELEMENTSOF(fds)), -EINVAL);
        expect_silence();
        safe_close(fds[0].fd);
        safe_close(fds[2].fd);
}

static void test_replace(_unused_ void **state) {
        const EventsFd fds[] = { { "sw2-deaths", notify }, { "sw2-ring", notify } };
        const EventsFd dropped[] = { { "sw1-deaths", -1 }, { "sw2-ring", -1 }, { "sw3-x", -1 } };
        const char *const messages[] = {
                "FDSTOREREMOVE=1\nFDNAME=sw2-ring",            "FDSTORE=1\nFDNAME=sw2-deaths\nFDPOLL=0",
                "FDSTORE=1\nFDNAME=sw2-ring\nFDPOLL=0",        "FDSTOREREMOVE=1\nFDNAME=sw1-deaths",
                "FDSTOREREMOVE=1\nFDNAME=sw3-x",
        };

        assert_int_equal(service_replace(fds, ELEMENTSOF(fds), dropped, ELEMENTSOF(dropped)), 1);
        for (size_t i = 0; i < ELEMENTSOF(messages); i++) {
                char buf[256];
                int fd = receive(buf, sizeof(buf));

                assert_string_equal(buf, messages[i]);
                assert_int_equal(fd >= 0, strncmp(messages[i], "FDSTORE=", 8) == 0);
                safe_close(fd);
        }
        assert_int_equal(service_replace(fds, ELEMENTSOF(fds), NULL, 0), 1);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                char buf[256];

                safe_close(receive(buf, sizeof(buf)));
                assert_string_equal(buf, messages[1 + i]);
        }
        expect_silence();
        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        assert_int_equal(service_replace(fds, ELEMENTSOF(fds), dropped, ELEMENTSOF(dropped)), 0);
        expect_silence();
}

static void test_names(_unused_ void **state) {
        const char *bad[] = { "", "a\nFDSTORE=1", "a:b", "a\x7f", "\xc3\xa4", "a\t" };
        char longest[257];

        assert_int_equal(service_drop("sw2-deaths"), 1);
        expect_message("FDSTOREREMOVE=1\nFDNAME=sw2-deaths");
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                EventsFd fd = { .fd = 0 };

                assert_int_equal(service_drop(bad[i]), -EINVAL);
                (void)snprintf(fd.name, sizeof(fd.name), "%s", bad[i]);
                assert_int_equal(service_store(&fd, 1), -EINVAL);
        }
        memset(longest, 'n', sizeof(longest) - 1);
        longest[256] = 0;
        assert_int_equal(service_drop(longest), -EINVAL);
        expect_silence();
        longest[255] = 0;
        assert_int_equal(service_drop(longest), 1);
        {
                char buf[512];

                assert_int_equal(receive(buf, sizeof(buf)), -1);
                assert_int_equal(strlen(buf), strlen("FDSTOREREMOVE=1\nFDNAME=") + 255);
        }
}

static void test_without_systemd(_unused_ void **state) {
        EventsFd fd = { .name = "sw1-ring", .fd = 0 }, *stored = &fd;
        size_t n = 4711;

        assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
        assert_int_equal(service_ready("x"), 0);
        assert_int_equal(service_status("x"), 0);
        assert_int_equal(service_reloading(), 0);
        assert_int_equal(service_stopping(NULL), 0);
        assert_int_equal(service_drop("sw1-ring"), 0);
        assert_int_equal(service_store(&fd, 1), 0);
        assert_int_equal(service_take_stored(&stored, &n), 0);
        assert_int_equal(n, 0);
        free(stored);
}

/* The other end is gone. */
static void test_socket_gone(_unused_ void **state) {
        EventsFd fd = { .name = "sw1-ring", .fd = 0 };

        notify = safe_close(notify);
        assert_int_equal(service_ready("x"), -ECONNREFUSED);
        assert_int_equal(service_store(&fd, 1), -ECONNREFUSED);
        assert_int_equal(service_drop("x"), -ECONNREFUSED);
}

/* ---- in a child: what a process has from its birth on, and what it gives up for good ---- */

static int in_child(int (*fn)(void)) {
        int status;
        pid_t pid;

        (void)fflush(NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(fn());
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* The line of the child that says no, as its exit code; 0 when all holds. */
#define CHECK(condition)                                                                       \
        do {                                                                                   \
                if (!(condition)) {                                                            \
                        printf("# line %d: %s does not hold\n", __LINE__, #condition);         \
                        (void)fflush(stdout);                                                  \
                        return 1;                                                              \
                }                                                                              \
        } while (0)

/* Descriptors 3.. as systemd passes them: open over execve(). names NULL: without LISTEN_FDNAMES. */
static int pass_fds(unsigned n, const char *names) {
        char text[32];

        for (unsigned i = 0; i < n; i++) {
                int fd = memfd_create("stored", 0);

                CHECK(fd >= 0);
                if (fd != (int)(FIRST_FD + i)) {
                        CHECK(dup2(fd, (int)(FIRST_FD + i)) >= 0);
                        if (fd < FIRST_FD || fd >= (int)(FIRST_FD + n))
                                (void)close(fd);
                }
        }
        (void)snprintf(text, sizeof(text), "%u", n);
        CHECK(setenv("LISTEN_FDS", text, 1) == 0);
        (void)snprintf(text, sizeof(text), "%d", getpid());
        CHECK(setenv("LISTEN_PID", text, 1) == 0);
        CHECK((names ? setenv("LISTEN_FDNAMES", names, 1) : unsetenv("LISTEN_FDNAMES")) == 0);
        return 0;
}

static bool is_open(int fd) {
        return fcntl(fd, F_GETFD) >= 0;
}

static int take_some(void) {
        /* 31 bytes fit, 32 do not. */
        const char *names = "sw1-deaths:sw2-ring:foreign name:0123456789012345678901234567890:01234567890123456789012345678901:sw1-deaths";
        EventsFd *fds;
        size_t n;

        CHECK(pass_fds(6, names) == 0);
        CHECK(service_take_stored(&fds, &n) == 0);
        CHECK(n == 5);
        CHECK(strcmp(fds[0].name, "sw1-deaths") == 0 && fds[0].fd == FIRST_FD);
        CHECK(strcmp(fds[1].name, "sw2-ring") == 0 && fds[1].fd == FIRST_FD + 1);
        CHECK(strcmp(fds[2].name, "foreign name") == 0 && fds[2].fd == FIRST_FD + 2);
        CHECK(strcmp(fds[3].name, "0123456789012345678901234567890") == 0 && fds[3].fd == FIRST_FD + 3);
        CHECK(!is_open(FIRST_FD + 4));
        CHECK(strcmp(fds[4].name, "sw1-deaths") == 0 && fds[4].fd == FIRST_FD + 5);
        for (size_t i = 0; i < n; i++)
                CHECK(fcntl(fds[i].fd, F_GETFD) == FD_CLOEXEC);
        CHECK(!getenv("LISTEN_FDS") && !getenv("LISTEN_PID") && !getenv("LISTEN_FDNAMES"));
        free(fds);
        CHECK(service_take_stored(&fds, &n) == 0);
        CHECK(n == 0);
        free(fds);
        return 0;
}

static int take_without_names(void) {
        EventsFd *fds;
        size_t n;

        CHECK(pass_fds(2, NULL) == 0);
        CHECK(service_take_stored(&fds, &n) == 0);
        CHECK(n == 2 && strcmp(fds[1].name, "unknown") == 0 && fds[1].fd == FIRST_FD + 1);
        free(fds);
        return 0;
}

static int take_wrong(void) {
        EventsFd mine = {}, *fds = &mine;
        size_t n = 4711;

        /* Names that do not go with the descriptors. */
        CHECK(pass_fds(3, "a:b") == 0);
        CHECK(service_take_stored(&fds, &n) == -EINVAL);
        CHECK(fds == &mine && n == 4711);
        CHECK(!getenv("LISTEN_FDS"));
        /* Meant for another process. */
        CHECK(pass_fds(1, "a") == 0);
        CHECK(setenv("LISTEN_PID", "1", 1) == 0);
        CHECK(service_take_stored(&fds, &n) == 0);
        CHECK(n == 0 && is_open(FIRST_FD));
        free(fds);
        return 0;
}

static void test_take_stored(_unused_ void **state) {
        assert_int_equal(in_child(take_some), 0);
        assert_int_equal(in_child(take_without_names), 0);
        assert_int_equal(in_child(take_wrong), 0);
}

static bool none_left(bool bounding_too) {
        FILE *f = fopen("/proc/self/status", "re");
        unsigned long long value;
        unsigned lines = 0, privs = 0;
        char line[256], set[4];
        bool none = true;

        if (!f)
                return false;
        while (fgets(line, sizeof(line), f)) {
                (void)sscanf(line, "NoNewPrivs:\t%u", &privs);
                if (sscanf(line, "Cap%3[A-Za-z]:\t%llx", set, &value) != 2)
                        continue;
                lines++;
                if (value && (bounding_too || strcmp(set, "Bnd") != 0))
                        none = false;
        }
        (void)fclose(f);
        return none && lines == 5 && privs == 1;
}

static int drop_all(void) {
        CHECK(service_drop_capabilities() == 0);
        CHECK(none_left(geteuid() == 0));
        /* Once more: nothing to give up is no error. */
        CHECK(service_drop_capabilities() == 0);
        return 0;
}

/* What is left over execve() of somebody with user id 0. */
static int drop_and_execute(void) {
        CHECK(service_drop_capabilities() == 0);
        (void)execl("/bin/sh", "sh", "-c",
                    "while read -r key value; do case $key in CapPrm:|CapEff:|CapInh:|CapAmb:) "
                    "[ \"$value\" = 0000000000000000 ] || exit 2;; esac; done < /proc/self/status",
                    NULL);
        return 3;
}

/* As systemd starts the service: an ordinary user, two capabilities, ambient too; and a bounding set that it cannot change. */
static int drop_as_user(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = {};
        const uint64_t both = UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON;

        CHECK(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        for (unsigned i = 0; i < 2; i++)
                data[i].effective = data[i].permitted = data[i].inheritable = (uint32_t)(both >> 32 * i);
        CHECK(syscall(SYS_capset, &header, data) == 0);
        CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_BPF, 0, 0) == 0);
        CHECK(!none_left(false));
        CHECK(service_drop_capabilities() == 0);
        CHECK(none_left(false));
        CHECK(prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) == 1);
        return 0;
}

static void test_drop_capabilities(_unused_ void **state) {
        assert_int_equal(in_child(drop_all), 0);
        if (geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) == 1 && prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) == 1) {
                assert_int_equal(in_child(drop_as_user), 0);
                assert_int_equal(in_child(drop_and_execute), 0);
        } else
                print_message("# not root: only tried without capabilities\n");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_states, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_status_is_one_line, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_reloading, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_abstract, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_store, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_replace, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_names, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_without_systemd, open_socket, close_socket),
                cmocka_unit_test_setup_teardown(test_socket_gone, open_socket, close_socket),
                cmocka_unit_test(test_take_stored),
                cmocka_unit_test(test_drop_capabilities),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
