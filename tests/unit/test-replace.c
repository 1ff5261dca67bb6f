/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A file is always whole: what stays and what is left over when a new one cannot be written. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "replace.h"
#include "util.h"

static char directory[] = "/tmp/shrinkwatch-replace-XXXXXX";
static int dirfd_ = -1;

static int open_directory(_unused_ void **state) {
        strcpy(directory + sizeof(directory) - sizeof("XXXXXX"), "XXXXXX");
        if (!mkdtemp(directory))
                return -1;
        dirfd_ = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dirfd_ < 0 ? -1 : 0;
}

static int close_directory(_unused_ void **state) {
        (void)unlinkat(dirfd_, "file", 0);
        (void)unlinkat(dirfd_, ".file.tmp", 0);
        dirfd_ = safe_close(dirfd_);
        return rmdir(directory); /* nothing else is there */
}

static int write_text(FILE *f, const void *userdata) {
        return fputs(userdata, f) < 0 ? -EIO : 0;
}

/* Half of it is out when it fails. */
static int write_fails(FILE *f, const void *userdata) {
        (void)fputs("half", f);
        (void)fflush(f);
        return *(const int *)userdata;
}

static int write_full(FILE *f, _unused_ const void *userdata) {
        (void)f;
        errno = ENOSPC;
        return -EIO;
}

static void assert_file(const char *wanted, mode_t mode) {
        char buf[64] = {};
        struct stat st;
        int fd = openat(dirfd_, "file", O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, mode);
        assert_int_equal(read(fd, buf, sizeof(buf) - 1), strlen(wanted));
        assert_string_equal(buf, wanted);
        safe_close(fd);
        assert_int_equal(faccessat(dirfd_, ".file.tmp", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_replaces(_unused_ void **state) {
        mode_t before = umask(077);

        assert_int_equal(replace_file(dirfd_, "file", 0644, write_text, "one"), 0);
        assert_file("one", 0644);
        assert_int_equal(replace_file(dirfd_, "file", 0640, write_text, ""), 0);
        assert_file("", 0640);
        (void)umask(before);
}

static void test_failure_leaves_the_old_one(_unused_ void **state) {
        int error = -EDOM;

        assert_int_equal(replace_file(dirfd_, "file", 0644, write_text, "old"), 0);
        assert_int_equal(replace_file(dirfd_, "file", 0644, write_fails, &error), -EDOM);
        assert_file("old", 0644);
        assert_int_equal(replace_file(dirfd_, "file", 0644, write_full, NULL), -ENOSPC);
        assert_file("old", 0644);
}

/* Left behind by a crash, or put there by somebody else: it is not written through. */
static void test_leftover(_unused_ void **state) {
        char target[sizeof(directory) + sizeof("/other")];
        struct stat st;

        (void)snprintf(target, sizeof(target), "%s/other", directory);
        assert_int_equal(symlinkat(target, dirfd_, ".file.tmp"), 0);
        assert_int_equal(replace_file(dirfd_, "file", 0644, write_text, "new"), 0);
        assert_file("new", 0644);
        assert_int_equal(fstatat(dirfd_, "other", &st, 0), -1);
        assert_int_equal(mkdirat(dirfd_, ".file.tmp", 0700), 0);
        assert_int_equal(replace_file(dirfd_, "file", 0644, write_text, "newer"), -EISDIR);
        assert_int_equal(unlinkat(dirfd_, ".file.tmp", AT_REMOVEDIR), 0);
        assert_file("new", 0644);
}

static void test_a_directory_in_its_place(_unused_ void **state) {
        assert_int_equal(mkdirat(dirfd_, "file", 0700), 0);
        assert_int_equal(replace_file(dirfd_, "file", 0644, write_text, "x"), -EISDIR);
        assert_int_equal(unlinkat(dirfd_, "file", AT_REMOVEDIR), 0);
        assert_int_equal(faccessat(dirfd_, ".file.tmp", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_replaces, open_directory, close_directory),
                cmocka_unit_test_setup_teardown(test_failure_leaves_the_old_one, open_directory, close_directory),
                cmocka_unit_test_setup_teardown(test_leftover, open_directory, close_directory),
                cmocka_unit_test_setup_teardown(test_a_directory_in_its_place, open_directory, close_directory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
