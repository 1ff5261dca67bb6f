/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The size classes against a list of them, written out as slabinfo shows them. */
#include "check.h"
#include "sizeclass.h"
#include "util.h"

static uint64_t naive(uint64_t bytes, uint32_t page, bool vmalloc) {
        static const uint64_t classes[] = { 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192 };
        uint64_t pages = 1;

        if (vmalloc)
                return (bytes + page - 1) / page * page;
        for (size_t i = 0; i < ELEMENTSOF(classes) && classes[i] <= 2ULL * page; i++)
                if (bytes <= classes[i])
                        return classes[i];
        while (pages * page < bytes)
                pages *= 2;
        return pages * page;
}

static void test_every_size(_unused_ void **state) {
        for (uint64_t bytes = 1; bytes <= 70000; bytes++) {
                assert_int_equal(size_class_bytes(bytes, 4096, false), naive(bytes, 4096, false));
                assert_int_equal(size_class_bytes(bytes, 4096, true), naive(bytes, 4096, true));
        }
}

static void test_known(_unused_ void **state) {
        assert_int_equal(size_class_bytes(520, 4096, false), 1024);
        assert_int_equal(size_class_bytes(512, 4096, false), 512);
        assert_int_equal(size_class_bytes(24 + 8 * 126, 4096, false), 2048);
        assert_int_equal(size_class_bytes(8193, 4096, false), 16384);
        assert_int_equal(size_class_bytes(16385, 4096, false), 32768);
        assert_int_equal(size_class_bytes(16385, 4096, true), 20480);
        assert_int_equal(size_class_bytes(1, 4096, true), 4096);
        assert_int_equal(size_class_bytes(0, 4096, false), 0);
        assert_int_equal(size_class_bytes(0, 4096, true), 0);
        /* Pages of 64 KiB: the classes go up to 128 KiB. */
        assert_int_equal(size_class_bytes(9000, 65536, false), 16384);
        assert_int_equal(size_class_bytes(131073, 65536, false), 262144);
        assert_int_equal(size_class_bytes(131073, 65536, true), 196608);
}

static void test_ends(_unused_ void **state) {
        assert_int_equal(size_class_bytes(1ULL << 63, 4096, false), 1ULL << 63);
        assert_int_equal(size_class_bytes((1ULL << 63) + 1, 4096, false), UINT64_MAX);
        assert_int_equal(size_class_bytes(UINT64_MAX, 4096, false), UINT64_MAX);
        assert_int_equal(size_class_bytes(UINT64_MAX, 4096, true), UINT64_MAX);
        assert_int_equal(size_class_bytes(UINT64_MAX - 4095, 4096, true), UINT64_MAX - 4095);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_size),
                cmocka_unit_test(test_known),
                cmocka_unit_test(test_ends),
        };

        return cmocka_run_group_tests_name("sizeclass", tests, NULL, NULL);
}
