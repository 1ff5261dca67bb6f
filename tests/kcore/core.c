/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

/* Lowest kernel address; user space ends far below on every 64-bit machine. */
#define KERNEL_START UINT64_C(0xff00000000000000)

void complain(const char *format, ...) {
        va_list ap;

        fputs("kcore-census: ", stderr);
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputc('\n', stderr);
}

int kcore_open(struct kcore *k, const char *path) {
        Elf64_Ehdr header;
        Elf64_Phdr *phdrs = NULL;
        int r;

        k->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (k->fd < 0) {
                r = -errno;
                complain("%s: %s", path, strerror(-r));
                return r;
        }

        if (pread(k->fd, &header, sizeof(header), 0) != (ssize_t) sizeof(header) ||
            memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
            header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) {
                complain("%s is not a 64-bit ELF core", path);
                return -EINVAL;
        }

        phdrs = calloc(header.e_phnum, sizeof(*phdrs));
        k->segments = calloc(header.e_phnum, sizeof(*k->segments));
        if (!phdrs || !k->segments) {
                free(phdrs);
                return -ENOMEM;
        }

        size_t size = header.e_phnum * sizeof(*phdrs);
        if (pread(k->fd, phdrs, size, (off_t) header.e_phoff) != (ssize_t) size) {
                complain("%s: cannot read the program headers", path);
                free(phdrs);
                return -EIO;
        }
        for (size_t i = 0; i < header.e_phnum; i++)
                if (phdrs[i].p_type == PT_LOAD && phdrs[i].p_filesz > 0)
                        k->segments[k->n_segments++] = (struct segment) {
                                .start = phdrs[i].p_vaddr,
                                .end = phdrs[i].p_vaddr + phdrs[i].p_filesz,
                                .offset = phdrs[i].p_offset,
                        };
        free(phdrs);
        return 0;
}

void kcore_close(struct kcore *k) {
        free(k->segments);
        if (k->fd >= 0)
                close(k->fd);
}

static const struct segment *kcore_find(const struct kcore *k, uint64_t address) {
        for (size_t i = 0; i < k->n_segments; i++)
                if (address >= k->segments[i].start && address < k->segments[i].end)
                        return k->segments + i;
        return NULL;
}

bool kcore_has(const struct kcore *k, uint64_t address, uint64_t size) {
        const struct segment *s = kcore_find(k, address);

        return s && size <= s->end - address;
}

int kcore_read(const struct kcore *k, uint64_t address, void *ret, size_t size) {
        const struct segment *s = kcore_find(k, address);

        if (!s || size > s->end - address)
                return -EFAULT;
        ssize_t n = pread(k->fd, ret, size, (off_t) (address - s->start + s->offset));
        if (n < 0)
                return -errno;
        return n == (ssize_t) size ? 0 : -EIO;
}

int kcore_read_u32(const struct kcore *k, uint64_t address, uint32_t *ret) {
        return kcore_read(k, address, ret, sizeof(*ret));
}

int kcore_read_u64(const struct kcore *k, uint64_t address, uint64_t *ret) {
        return kcore_read(k, address, ret, sizeof(*ret));
}

int kcore_read_pointer(const struct kcore *k, uint64_t address, bool null_allowed, uint64_t *ret) {
        uint64_t p;
        int r;

        r = kcore_read_u64(k, address, &p);
        if (r < 0)
                return r;
        if (p == 0 ? !null_allowed : (p < KERNEL_START || p % sizeof(void *) != 0 || !kcore_find(k, p)))
                return -EFAULT;
        *ret = p;
        return 0;
}

int kcore_read_string(const struct kcore *k, uint64_t address, char *ret, size_t size) {
        const struct segment *s = kcore_find(k, address);
        int r;

        if (!s)
                return -EFAULT;
        if (size - 1 > s->end - address)
                size = s->end - address + 1;
        r = kcore_read(k, address, ret, size - 1);
        if (r < 0)
                return r;
        ret[size - 1] = 0;
        return 0;
}
