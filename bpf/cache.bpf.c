// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The slab cache of an address: what the allocator really takes for an object. bpf_get_kmem_cache() is a kfunc from 6.13
 * (a992d7a39791 "mm/bpf: Add bpf_get_kmem_cache() kfunc"), so this object is opened only where BTF has it.
 *
 * size, not object_size: with debugging on, an object takes more than was asked for, and slabinfo counts that as well.
 */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

extern struct kmem_cache *bpf_get_kmem_cache(__u64 addr) __ksym;

__u64 addr; /* asked for */
__u64 size; /* bytes an object of that cache takes; 0: not a slab object */
char name[64];

SEC("syscall")
int cache(void *ctx) {
        struct kmem_cache *s = bpf_get_kmem_cache(addr);

        size = 0;
        name[0] = 0;
        if (!s)
                return 0;
        size = READ(s, size);
        (void)bpf_probe_read_kernel_str(name, sizeof(name), READ(s, name));
        return 0;
}
