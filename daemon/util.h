/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Small things every room needs: cleanup, ownership, arithmetic that cannot wrap. Static inline, nothing but libc. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((__cleanup__(f)))
#define _printf_(a, b) __attribute__((__format__(__printf__, a, b)))
#define _unused_ __attribute__((__unused__))

/* For messages: "1 file", "2 files". */
#define PLURAL(n) ((n) == 1 ? "" : "s")

#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define ALIGN8(n) (((n) + 7U) & ~7UL)

/* Hands ownership out of a variable and leaves NULL behind. */
#define TAKE_PTR(p)                     \
        ({                              \
                __typeof__(p) *_p = &(p); \
                __typeof__(p) _v = *_p; \
                *_p = NULL;             \
                _v;                     \
        })

#define DEFINE_CLEANUP(type, func)                     \
        static inline void func##p(type **p) {         \
                if (*p)                                \
                        (void)func(*p);                \
        }

static inline void freep(void *p) {
        free(*(void **)p);
}

/* Closes a descriptor without touching errno; returns -1 so that it can be assigned back. */
static inline int safe_close(int fd) {
        if (fd >= 0) {
                int saved = errno;
                (void)close(fd);
                errno = saved;
        }
        return -1;
}

static inline void closep(int *fd) {
        *fd = safe_close(*fd);
}

/* Sums of bytes and units stop at the top instead of wrapping: a wrong small number is worse than "more than can be said". */
static inline uint64_t add_sat_u64(uint64_t a, uint64_t b) {
        uint64_t r;
        return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

static inline uint64_t mul_sat_u64(uint64_t a, uint64_t b) {
        uint64_t r;
        return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

/* Towards zero, and no further than there is. */
static inline int64_t clamp_i64(double d) {
        return d >= 9e18 ? INT64_MAX : d <= -9e18 ? INT64_MIN : (int64_t)d;
}

/*
 * Makes room for need elements of size bytes, growing by half. Returns 0, or -ENOMEM and leaves the array as it was.
 * *p: the array; *allocated: elements it has room for.
 */
static inline int grow_array(void *p, size_t *allocated, size_t need, size_t size) {
        void **array = p;
        size_t n, bytes;
        void *q;

        if (need <= *allocated)
                return 0;
        n = *allocated + *allocated / 2;
        if (n < need)
                n = need;
        if (n < 16)
                n = 16;
        if (__builtin_mul_overflow(n, size, &bytes))
                return -ENOMEM;
        q = realloc(*array, bytes);
        if (!q)
                return -ENOMEM;
        *array = q;
        *allocated = n;
        return 0;
}
