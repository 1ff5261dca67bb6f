/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* conf_load() when memory runs out, at each of its allocations in turn: -ENOMEM, nothing lost, nothing given. Linked with --wrap. */
#include "conf-fixture.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
int __real_vasprintf(char **ret, const char *format, va_list ap);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);
int __wrap_vasprintf(char **ret, const char *format, va_list ap);
int __wrap_asprintf(char **ret, const char *format, ...);

static long left = -1; /* allocations until one fails; negative: none does */

static bool fails(void) {
        return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size) {
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
        return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
        return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s) {
        return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n) {
        return fails() ? NULL : __real_strndup(s, n);
}

int __wrap_vasprintf(char **ret, const char *format, va_list ap) {
        return fails() ? -1 : __real_vasprintf(ret, format, ap);
}

int __wrap_asprintf(char **ret, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = __wrap_vasprintf(ret, format, ap);
        va_end(ap);
        return r;
}

static void test_memory(_unused_ void **state) {
        ConfPaths paths = { .memory_bytes = MEMORY };
        ConfResult *const untouched = (ConfResult *)(uintptr_t)&paths;
        ConfResult *r;
        long n = 0;
        Tree t;
        int error;

        tree_new(&t);
        tree_put(&t, ETC, "CPUShare=1\n[Census]\nIntervalSec=1\nIntervalSec=x\nIntervalSec=2\nFoo=1\nInterval=3\nyes\n[Limits]\nDyingOn=1\nDyingOff=2\n"
                          "[Nothing]\nFoo=\n[Metrics]\nTextFile=/a\n[Subtree a]\nOverheadOn=1\nOverheadOff=3\n[Subtree]\n[Subtree b]\n[\n");
        tree_put(&t, LIB ".d/a.conf", "[Subtree a]\nMinAgeSec=5\n");
        tree_put(&t, LIB ".d/b.conf/c", "");
        paths.root = t.root;
        do {
                r = untouched;
                left = n++;
                error = conf_load(&r, &paths);
                if (error < 0) {
                        assert_int_equal(error, -ENOMEM);
                        assert_ptr_equal(r, untouched);
                }
        } while (error < 0);
        assert_true(left >= 0); /* not one too many */
        left = -1;
        assert_true(n > 100);
        assert_int_equal(r->n_messages, 11);
        assert_int_equal(r->conf.limits.n_subtrees, 2);
        conf_free(r);
        tree_done(&t);
}

int main(void) {
        static const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
