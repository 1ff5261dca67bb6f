/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shrinkwatchd.conf: which files count, what they may be, and lines as inih takes them. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "builder.h"
#include "conf-fixture.h"

#define SEC 1000000ULL

static void assert_interval(const Tree *t, uint64_t sec, const char *name) {
        ConfResult *r = tree_load(t);

        assert_quiet(r);
        assert_int_equal(r->conf.interval_usec, sec * SEC);
        assert_int_equal(origin_of(r, "Census", NULL, "IntervalSec")->line, name ? 2 : 0);
        if (name)
                assert_origin(origin_of(r, "Census", NULL, "IntervalSec"), r->origins[0].value, name, 2);
        conf_free(r);
}

static void put_interval(const Tree *t, const char *name, unsigned sec) {
        char text[64];

        (void)snprintf(text, sizeof(text), "[Census]\nIntervalSec=%u\n", sec);
        tree_put(t, name, text);
}

/* The first of four counts, the others are not read. */
static void test_main_file(_unused_ void **state) {
        Tree t;

        tree_new(&t);
        assert_interval(&t, 60, NULL);
        put_interval(&t, LIB, 4);
        assert_interval(&t, 4, LIB);
        put_interval(&t, LOCAL, 3);
        assert_interval(&t, 3, LOCAL);
        put_interval(&t, RUN, 2);
        assert_interval(&t, 2, RUN);
        put_interval(&t, ETC, 1);
        assert_interval(&t, 1, ETC);
        /* One that is empty, or /dev/null, counts too: nothing is set. */
        tree_put(&t, ETC, "");
        assert_interval(&t, 60, NULL);
        tree_unlink(&t, ETC);
        tree_link(&t, ETC, "/dev/null");
        assert_interval(&t, 60, NULL);
        tree_unlink(&t, ETC);
        assert_interval(&t, 2, RUN);
        tree_done(&t);
}

/* In the order of names, whatever their directory; of a name the first directory. */
static void test_drop_ins(_unused_ void **state) {
        static const char *const read[] = { RUN, LIB ".d/10-a.conf", ETC ".d/20-b.conf", LOCAL ".d/30-c.conf", RUN ".d/B.conf", LIB ".d/a.conf" };
        ConfResult *r;
        Tree t;

        tree_new(&t);
        put_interval(&t, RUN, 1);
        put_interval(&t, LIB, 99);
        put_interval(&t, LIB ".d/10-a.conf", 10);
        put_interval(&t, LIB ".d/20-b.conf", 99);
        put_interval(&t, RUN ".d/20-b.conf", 99);
        put_interval(&t, ETC ".d/20-b.conf", 20);
        put_interval(&t, LOCAL ".d/30-c.conf", 30);
        put_interval(&t, LIB ".d/30-c.conf", 99);
        put_interval(&t, RUN ".d/B.conf", 40);
        put_interval(&t, LIB ".d/a.conf", 50);
        /* No drop-ins: hidden, another suffix, nothing but the suffix. */
        put_interval(&t, ETC ".d/.z.conf", 99);
        put_interval(&t, ETC ".d/z.conf~", 99);
        put_interval(&t, ETC ".d/z.confx", 99);
        put_interval(&t, ETC ".d/.conf", 99);
        put_interval(&t, ETC ".d/zconf", 99);

        r = tree_load(&t);
        assert_quiet(r);
        assert_int_equal(r->n_files, ELEMENTSOF(read));
        for (size_t i = 0; i < ELEMENTSOF(read); i++) {
                assert_true(strncmp(r->files[i], t.root, strlen(t.root)) == 0);
                assert_string_equal(r->files[i] + strlen(t.root), read[i]);
        }
        assert_int_equal(r->conf.interval_usec, 50 * SEC);
        assert_origin(origin_of(r, "Census", NULL, "IntervalSec"), "50", LIB ".d/a.conf", 2);
        conf_free(r);

        /* Empty, and a link to /dev/null, hide the others of their name. */
        tree_put(&t, RUN ".d/a.conf", "");
        assert_interval(&t, 40, RUN ".d/B.conf");
        tree_link(&t, ETC ".d/B.conf", "/dev/null");
        assert_interval(&t, 30, LOCAL ".d/30-c.conf");
        tree_link(&t, ETC ".d/30-c.conf", "../empty");
        tree_put(&t, "/etc/shrinkwatch/empty", "");
        assert_interval(&t, 20, ETC ".d/20-b.conf");
        r = tree_load(&t);
        assert_int_equal(r->n_files, 3);
        conf_free(r);
        /* But a comment does not make a file empty: it counts, and sets nothing. */
        tree_put(&t, ETC ".d/20-b.conf", "#\n");
        assert_interval(&t, 10, LIB ".d/10-a.conf");
        tree_done(&t);
}

/* Each file says what it says; another one's bad value does not take it back. */
static void test_merge(_unused_ void **state) {
        ConfResult *r;
        Tree t;

        tree_new(&t);
        tree_put(&t, ETC, "[Census]\nIntervalSec=1\nCPUShare=2%\n[Metrics]\nTextFile=/a\n");
        tree_put(&t, LIB ".d/1.conf", "[Census]\nIntervalSec=3\nCPUShare=x\n");
        tree_put(&t, RUN ".d/2.conf", "[Census]\nIntervalSec=\n[Metrics]\nTextFile=/b\n");
        r = tree_load(&t);
        assert_int_equal(r->n_messages, 1);
        assert_message(r, 0, LIB ".d/1.conf", 3, "CPUShare=x is not understood: it takes a percentage of one CPU from 0% to 100%. 2% stays in force.");
        assert_origin(origin_of(r, "Census", NULL, "IntervalSec"), "60s", NULL, 0);
        assert_origin(origin_of(r, "Census", NULL, "CPUShare"), "2%", ETC, 3);
        assert_origin(origin_of(r, "Metrics", NULL, "TextFile"), "/b", RUN ".d/2.conf", 4);
        assert_string_equal(r->conf.textfile, "/b");
        assert_int_equal(r->conf.cpu_share_ppm, 20000);
        conf_free(r);
        tree_done(&t);
}

/* A file by its name, alone. */
static void test_one_file(_unused_ void **state) {
        ConfPaths paths = { .memory_bytes = MEMORY };
        char file[512];
        ConfResult *r = NULL;
        Tree t;

        tree_new(&t);
        put_interval(&t, ETC, 1);
        put_interval(&t, ETC ".d/a.conf", 2);
        put_interval(&t, "/other", 3);
        tree_path(&t, "/other", file);
        paths.root = t.root;
        paths.file = file;
        assert_int_equal(conf_load(&r, &paths), 0);
        assert_quiet(r);
        assert_int_equal(r->n_files, 1);
        assert_string_equal(r->files[0], file);
        assert_int_equal(r->conf.interval_usec, 3 * SEC);
        conf_free(r);

        tree_unlink(&t, "/other");
        assert_int_equal(conf_load(&r, &paths), 0);
        assert_true(r->failed);
        assert_int_equal(r->n_messages, 1);
        assert_message(r, 0, "/other", 0, "This cannot be read: No such file or directory. It is left out.");
        assert_int_equal(r->conf.interval_usec, 60 * SEC);
        conf_free(r);

        paths.file = "/dev/null";
        assert_int_equal(conf_load(&r, &paths), 0);
        assert_quiet(r);
        assert_int_equal(r->n_files, 0);
        conf_free(r);
        tree_done(&t);
}

/* --------------------------------------------------------------------------------------------------- what is no file */

/* The thing is left out with one message, and what else there is is in force. */
static void assert_left_out(const Tree *t, const char *name, unsigned line, const char *message) {
        ConfResult *r = tree_load(t);

        assert_true(r->failed);
        assert_int_equal(r->n_messages, 1);
        assert_message(r, 0, name, line, message);
        assert_int_equal(r->conf.interval_usec, 7 * SEC);
        assert_int_equal(r->n_origins > 0, 1);
        conf_free(r);
}

static void test_odd_files(_unused_ void **state) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char path[512], *large = calloc(1, CONF_FILE_BYTES_MAX + 2);
        ConfResult *r;
        Tree t;
        int fd;

        assert_non_null(large);
        tree_new(&t);
        put_interval(&t, RUN ".d/zz.conf", 7);
        tree_path(&t, ETC ".d/a.conf", path);

        assert_int_equal(mkdir(path, 0755), 0);
        assert_left_out(&t, ETC ".d/a.conf", 0, "This is a directory: it is left out.");
        assert_int_equal(rmdir(path), 0);

        assert_int_equal(mkfifo(path, 0644), 0);
        assert_left_out(&t, ETC ".d/a.conf", 0, "This is no regular file: it is left out.");
        assert_int_equal(unlink(path), 0);

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0 && strlen(path) < sizeof(address.sun_path));
        (void)strcpy(address.sun_path, path);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_left_out(&t, ETC ".d/a.conf", 0, "This is no regular file: it is left out.");
        fd = safe_close(fd);
        assert_int_equal(unlink(path), 0);

        tree_link(&t, ETC ".d/a.conf", "/dev/zero");
        assert_left_out(&t, ETC ".d/a.conf", 0, "This is no regular file: it is left out.");
        assert_int_equal(unlink(path), 0);
        tree_link(&t, ETC ".d/a.conf", "nowhere");
        assert_left_out(&t, ETC ".d/a.conf", 0, "This cannot be read: No such file or directory. It is left out.");
        assert_int_equal(unlink(path), 0);
        tree_link(&t, ETC ".d/a.conf", "a.conf");
        assert_left_out(&t, ETC ".d/a.conf", 0, "This cannot be read: Too many levels of symbolic links. It is left out.");
        assert_int_equal(unlink(path), 0);

        tree_write(&t, ETC ".d/a.conf", "[Census]\nCPUShare=1%\n\0\n", 24);
        assert_left_out(&t, ETC ".d/a.conf", 3, "This is no text: there is a NUL byte. The file is left out.");
        r = tree_load(&t);
        assert_int_equal(r->conf.cpu_share_ppm, 5000);
        conf_free(r);

        memset(large, '#', CONF_FILE_BYTES_MAX + 1);
        tree_write(&t, ETC ".d/a.conf", large, CONF_FILE_BYTES_MAX + 1);
        assert_left_out(&t, ETC ".d/a.conf", 0, "This is larger than 1 MiB: it is left out.");
        tree_write(&t, ETC ".d/a.conf", large, CONF_FILE_BYTES_MAX);
        r = tree_load(&t);
        assert_quiet(r);
        assert_int_equal(r->n_files, 2);
        conf_free(r);
        assert_int_equal(unlink(path), 0);

        /* The main file, and the directory of drop-ins. */
        tree_path(&t, ETC "/", path);
        assert_left_out(&t, ETC, 0, "This is a directory: it is left out.");
        assert_int_equal(rmdir(path), 0);
        tree_unlink(&t, ETC ".d");
        tree_put(&t, ETC ".d", "[Census]\nIntervalSec=8\n");
        assert_left_out(&t, ETC ".d", 0, "This cannot be read: Not a directory. It is left out.");
        free(large);
        tree_done(&t);
}

/* As somebody who may not read everything: root may. */
static void assert_denied(Tree *t, const char *name) {
        if (geteuid() == 0)
                assert_int_equal(seteuid(65534), 0);
        assert_left_out(t, name, 0, "This cannot be read: Permission denied. It is left out.");
        if (getuid() == 0)
                assert_int_equal(seteuid(0), 0);
}

static void test_permissions(_unused_ void **state) {
        char path[512];
        Tree t;

        tree_new(&t);
        put_interval(&t, RUN ".d/zz.conf", 7);
        put_interval(&t, ETC, 9);
        assert_int_equal(chmod(t.root, 0755), 0);
        tree_path(&t, ETC, path);
        assert_int_equal(chmod(path, 0), 0);
        assert_denied(&t, ETC);
        assert_int_equal(unlink(path), 0);

        tree_path(&t, ETC ".d/", path);
        assert_int_equal(chmod(path, 0), 0);
        assert_denied(&t, ETC ".d");
        assert_int_equal(chmod(path, 0700), 0);
        tree_done(&t);
}

/* Descriptors are neither kept, nor their want taken for an absent file. */
static void test_descriptors(_unused_ void **state) {
        struct rlimit before, none;
        ConfResult *r;
        Tree t;
        int fd;

        tree_new(&t);
        put_interval(&t, ETC, 9);
        put_interval(&t, ETC ".d/a.conf", 7);
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        conf_free(tree_load(&t));
        assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), fd + 1);
        assert_int_equal(close(fd + 1), 0);
        assert_int_equal(close(fd), 0);

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = before;
        none.rlim_cur = 0;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        r = tree_load(&t);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(r->failed);
        /* Of directories that are not there as well, but not under valgrind. */
        assert_true(r->n_messages == 5 || r->n_messages == 2);
        assert_message(r, 0, ETC ".d", 0, "This cannot be read: Too many open files. It is left out.");
        assert_message(r, r->n_messages - 1, ETC, 0, "This cannot be read: Too many open files. It is left out.");
        assert_int_equal(r->conf.interval_usec, 60 * SEC);
        conf_free(r);
        tree_done(&t);
}

/* --------------------------------------------------------------------------------------------------------------- lines */

/* What means the same, however it is written. */
static void test_lines(_unused_ void **state) {
        static const char *const same[] = {
                "[Census]\nIntervalSec=2min 5s\n",
                "[Census]\nIntervalSec=2min 5s",
                "[Census]\r\nIntervalSec=2min 5s\r\n",
                "\xef\xbb\xbf[Census]\nIntervalSec=2min 5s\n",
                "  [Census]\n\t IntervalSec \t=  2min 5s \t\n",
                "[ Census ]\t\nIntervalSec=2min 5s\n",
                /* An indented line is not the rest of the one before. */
                "[Census]\nCPUShare=0.5%\n  IntervalSec=2min 5s\n",
                "[Census]\nCPUShare=\n  IntervalSec=2min 5s\n",
                "# a\n; b\n\n   # [c]\n[Census] ; d [e]\n;IntervalSec=5\n#IntervalSec=6\nIntervalSec=2min 5s ; 7\n#",
                "[Census]\nIntervalSec=2min 5s\t;x\n",
                "[Census]\nIntervalSec=1\nIntervalSec=2min 5s\n",
                "[Census]\nIntervalSec=1\n[History]\nHistory=yes\n[Census]\nIntervalSec=2min 5s\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(same); i++) {
                ConfResult *r = load_text(same[i]);

                if (r->n_messages > 0)
                        print_error("%s\n", same[i]);
                assert_quiet(r);
                assert_int_equal(r->conf.interval_usec, 125 * SEC);
                assert_int_equal(r->conf.cpu_share_ppm, 5000);
                assert_string_equal(r->origins[0].value, "2min 5s");
                conf_free(r);
        }
}

static void test_line_values(_unused_ void **state) {
        ConfResult *r = load_text("[Metrics]\nTextFile=/a=b;c#d: e\n");

        assert_quiet(r);
        assert_string_equal(r->conf.textfile, "/a=b;c#d: e");
        conf_free(r);
        /* A comment sign of the shell is part of the value, which is then not one. */
        r = load_text("[Events]\nEvents=no # really\n");
        assert_int_equal(r->n_messages, 1);
        assert_true(r->conf.events);
        conf_free(r);
        r = load_text("[Census]\nIntervalSec\n");
        assert_int_equal(r->n_messages, 1);
        assert_message(r, 0, ETC, 2, "This is no assignment, as in \"Key=value\": it is ignored.");
        conf_free(r);
        /* Errors do not end the file, and each is told of with its line. */
        r = load_text("oops\n[Events\nEvents=no\n[Nothing]\noops\n[Census]\noops\nCPUShare=2%\n\noops\n[Events]\nEvents=no\noops");
        assert_int_equal(r->n_messages, 6);
        for (size_t i = 0; i < 6; i++)
                assert_int_equal(r->messages[i].line, ((const unsigned[]){ 1, 2, 4, 7, 10, 13 })[i]);
        assert_false(r->conf.events);
        assert_int_equal(r->conf.cpu_share_ppm, 20000);
        assert_false(r->failed);
        conf_free(r);
}

/* As long as inih's buffer takes; what is longer is told of, never two lines. */
static void test_long_lines(_unused_ void **state) {
        char text[8192], path[5000];
        ConfResult *r;

        memset(path, 'p', sizeof(path));
        path[0] = '/';
        for (size_t len = 180; len < 220; len++) {
                bool fits = strlen("TextFile=") + len <= 198;

                (void)snprintf(text, sizeof(text), "[Metrics]\nTextFile=/first\nTextFile=%.*s\n[Events]\nEvents=no\n", (int)len, path);
                r = load_text(text);
                assert_int_equal(r->n_messages, !fits);
                assert_int_equal(strlen(r->conf.textfile), fits ? len : strlen("/first"));
                assert_false(r->conf.events);
                if (!fits)
                        assert_message(r, 0, ETC, 3, "This line is longer than 198 bytes: it is ignored.");
                conf_free(r);
        }
        /* Below a heading that was complained about nothing more is. */
        (void)snprintf(text, sizeof(text), "[Foo]\n%.*s\n", 500, path);
        r = load_text(text);
        assert_int_equal(r->n_messages, 1);
        assert_int_equal(r->messages[0].line, 1);
        conf_free(r);
        /* Blanks and comments do not count, nor do headings: a pattern is as long as a path may be. */
        (void)snprintf(text, sizeof(text), "[Census]%300s\n%300sIntervalSec=5%300s ; %.*s\n#%.*s\n", "", "", "", 500, path, 500, path);
        r = load_text(text);
        assert_quiet(r);
        assert_int_equal(r->conf.interval_usec, 5 * SEC);
        conf_free(r);
        for (int len = 4090; len < 4100; len++) {
                (void)snprintf(text, sizeof(text), "[Subtree x%.*s]\nMinAgeSec=1\n", len - 1, path);
                r = load_text(text);
                assert_int_equal(r->n_messages, len >= 4096);
                assert_int_equal(r->conf.limits.n_subtrees, len < 4096);
                if (len < 4096)
                        assert_int_equal(strlen(r->conf.limits.subtrees[0].pattern), len);
                else
                        assert_message(r, 0, ETC, 1, "This pattern is longer than any path: what is below it is ignored.");
                conf_free(r);
        }
}

/* Where inih's choices can be made as the program runs, as in Debian's build, they come to the same. */
extern bool ini_allow_multiline __attribute__((weak));
extern bool ini_allow_bom __attribute__((weak));
extern bool ini_allow_inline_comments __attribute__((weak));
extern bool ini_use_stack __attribute__((weak));
extern bool ini_allow_realloc __attribute__((weak));
extern bool ini_stop_on_first_error __attribute__((weak));
extern bool ini_allow_no_value __attribute__((weak));

static void test_builds_of_inih(_unused_ void **state) {
        bool *const choices[] = {
                &ini_allow_multiline, &ini_allow_bom, &ini_allow_inline_comments, &ini_use_stack,
                &ini_allow_realloc, &ini_stop_on_first_error, &ini_allow_no_value,
        };

        for (size_t i = 0; i < ELEMENTSOF(choices); i++)
                if (!choices[i])
                        skip();
        /* Each alone, and all but it. */
        for (unsigned round = 0; round < 2 * ELEMENTSOF(choices); round++) {
                unsigned set = (1U << round / 2) ^ (round % 2 ? ~0U : 0);
                bool before[ELEMENTSOF(choices)];

                for (size_t i = 0; i < ELEMENTSOF(choices); i++) {
                        before[i] = *choices[i];
                        *choices[i] = set >> i & 1;
                }
                test_lines(NULL);
                test_line_values(NULL);
                for (size_t i = 0; i < ELEMENTSOF(choices); i++)
                        *choices[i] = before[i];
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_main_file),
                cmocka_unit_test(test_drop_ins),
                cmocka_unit_test(test_merge),
                cmocka_unit_test(test_one_file),
                cmocka_unit_test(test_odd_files),
                cmocka_unit_test(test_permissions),
                cmocka_unit_test(test_descriptors),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_line_values),
                cmocka_unit_test(test_long_lines),
                cmocka_unit_test(test_builds_of_inih),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
