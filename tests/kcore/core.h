/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Kernel memory by address, out of /proc/kcore. Every read is checked against the segments of the file. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segment {
        uint64_t start, end; /* kernel addresses */
        uint64_t offset;     /* of start, in the file */
};

struct kcore {
        int fd;
        struct segment *segments;
        size_t n_segments;
};

/* Reads the program headers. Returns 0, or negative errno after a complaint; kcore_close() in any case. */
int kcore_open(struct kcore *k, const char *path);
void kcore_close(struct kcore *k);

/* Whether a range lies in one segment. */
bool kcore_has(const struct kcore *k, uint64_t address, uint64_t size);

/* Copies kernel memory. Returns 0, -EFAULT if the range is in no segment, or another negative errno. */
int kcore_read(const struct kcore *k, uint64_t address, void *ret, size_t size);
int kcore_read_u32(const struct kcore *k, uint64_t address, uint32_t *ret);
int kcore_read_u64(const struct kcore *k, uint64_t address, uint64_t *ret);

/* Reads a pointer to an object. NULL only where the caller says so; what is no kernel address is -EFAULT. */
int kcore_read_pointer(const struct kcore *k, uint64_t address, bool null_allowed, uint64_t *ret);

/* Reads a string, which may start at any address and end just before the end of a segment. ret is always terminated. */
int kcore_read_string(const struct kcore *k, uint64_t address, char *ret, size_t size);

/* One line on stderr, with the program's name before it. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
