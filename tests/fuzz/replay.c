/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The main function of a fuzz target without libFuzzer: FILE... runs these inputs, -n COUNT makes so many. The seed is fixed, printed,
 * and set with SHRINKWATCH_TEST_SEED.
 */
#include <inttypes.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX 4096

static int run_file(const char *name) {
        FILE *f = fopen(name, "rbe");
        uint8_t *data = NULL;
        size_t len = 0, n;

        if (!f) {
                perror(name);
                return EXIT_FAILURE;
        }
        do {
                uint8_t *larger = realloc(data, len + INPUT_MAX);

                CHECK(larger);
                data = larger;
                n = fread(data + len, 1, INPUT_MAX, f);
                len += n;
        } while (n > 0);
        (void)fclose(f);
        (void)LLVMFuzzerTestOneInput(data, len);
        free(data);
        return EXIT_SUCCESS;
}

static int run_generated(uint64_t count) {
        Random random = random_start(20260101);

        for (uint64_t i = 0; i < count; i++) {
                uint8_t buf[INPUT_MAX];
                size_t max = random_once_in(&random, 4) ? INPUT_MAX : 200, len = fuzz_generate(&random, buf, max);
                uint8_t *exact = malloc(len ? len : 1);

                CHECK(exact);
                memcpy(exact, buf, len);
                (void)LLVMFuzzerTestOneInput(exact, len);
                free(exact);
        }
        printf("# %" PRIu64 " inputs\n", count);
        return EXIT_SUCCESS;
}

int main(int argc, char *argv[]) {
        if (argc == 3 && strcmp(argv[1], "-n") == 0)
                return run_generated(strtoull(argv[2], NULL, 10));
        if (argc < 2) {
                fprintf(stderr, "usage: %s -n COUNT | FILE...\n", argv[0]);
                return 2;
        }
        for (int i = 1; i < argc; i++)
                if (run_file(argv[i]) != EXIT_SUCCESS)
                        return EXIT_FAILURE;
        return EXIT_SUCCESS;
}
