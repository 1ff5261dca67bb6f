/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sizeclass.h"

/* The smallest power of two that holds n, at least min; UINT64_MAX when there is none. */
static uint64_t round_up_power(uint64_t n, uint64_t min) {
        uint64_t p = min;

        while (p < n) {
                if (p > UINT64_MAX / 2)
                        return UINT64_MAX;
                p *= 2;
        }
        return p;
}

uint64_t size_class_bytes(uint64_t struct_bytes, uint32_t page_bytes, bool vmalloc) {
        if (struct_bytes == 0)
                return 0;

        if (vmalloc) {
                uint64_t rest = struct_bytes % page_bytes, gap = rest ? page_bytes - rest : 0;

                return struct_bytes > UINT64_MAX - gap ? UINT64_MAX : struct_bytes + gap;
        }

        /* The two classes between the powers; there are no others. */
        if (struct_bytes > 64 && struct_bytes <= 96)
                return 96;
        if (struct_bytes > 128 && struct_bytes <= 192)
                return 192;

        /* Two pages is the largest class, and a power of two: past it the same rule counts pages, nothing smaller than it comes out. */
        return round_up_power(struct_bytes, 8);
}
