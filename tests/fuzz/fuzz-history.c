/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        (void)data;
        (void)size;
        return 0;
}

size_t fuzz_generate(Random *r, uint8_t *buf, size_t size) {
        (void)r;
        (void)buf;
        (void)size;
        return 0;
}
