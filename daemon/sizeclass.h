/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The size-class rule: what the allocator takes for an object, where the kernel cannot name the cache. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Struct bytes → alloc bytes. Up to two pages a kmalloc class: powers of two from 8, and 96 and 192 (include/linux/slab.h,
 * kmalloc_index(), KMALLOC_MAX_CACHE_SIZE); above, a power of two of pages, as the page allocator has nothing else. vmalloc: whole
 * pages, as many as it takes. page_bytes: a power of two. 0 bytes take 0; what does not fit 64 bits is UINT64_MAX.
 */
uint64_t size_class_bytes(uint64_t struct_bytes, uint32_t page_bytes, bool vmalloc);
