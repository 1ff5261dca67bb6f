/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fuzz targets: bytes in, no crash, and what must hold for every input holds. Each is built twice: with replay.c as a plain program
 * that makes a fixed number of inputs from a seed, everywhere and in every run of the tests; and with libFuzzer (clang), by hand:
 *
 *     CC=clang meson setup build-fuzz && ninja -C build-fuzz tests/fuzz/libfuzzer-walk && build-fuzz/tests/fuzz/libfuzzer-walk
 *
 * An input that libFuzzer found goes through the plain program as well: fuzz-walk FILE...
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "builder.h"

/* Like assert(), but in every build: the programs are nothing without it. */
#define CHECK(expression)                                                                        \
        do {                                                                                     \
                if (!(expression)) {                                                             \
                        fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #expression); \
                        abort();                                                                 \
                }                                                                                \
        } while (0)

/* libFuzzer's name for the target. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Fills buf with an input that is more likely to get somewhere than noise. Returns its length, at most size. */
size_t fuzz_generate(Random *random, uint8_t *buf, size_t size);

/* For the generators: noise that has long stretches of few values, since what is interesting is what repeats. */
static inline size_t fuzz_noise(Random *random, uint8_t *buf, size_t size) {
        size_t len = random_below(random, size + 1);
        uint64_t mask = random_once_in(random, 2) ? 255 : random_u64(random);

        for (size_t i = 0; i < len; i++)
                buf[i] = (uint8_t)(random_u64(random) & mask);
        return len;
}
