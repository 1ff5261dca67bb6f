/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The journal: ids, priorities, and how spans and sizes are written. */
#include <syslog.h>

#include "check.h"
#include "journal.h"

#define SECOND 1000000ULL
#define MINUTE (60 * SECOND)

static void test_ids(_unused_ void **state) {
        for (JournalMessage i = 0; i < _JOURNAL_MESSAGE_MAX; i++) {
                const char *id = journal_message_id(i);

                assert_non_null(id);
                assert_int_equal(strlen(id), 32);
                assert_int_equal(strspn(id, "0123456789abcdef"), 32);
                for (JournalMessage k = 0; k < i; k++)
                        assert_string_not_equal(id, journal_message_id(k));
                assert_in_range(journal_priority(i, true), LOG_ERR, LOG_INFO);
                /* Whoever filters for warnings does not hear that something is over. */
                assert_in_range(journal_priority(i, false), LOG_NOTICE, LOG_INFO);
        }
        assert_null(journal_message_id(_JOURNAL_MESSAGE_MAX));
        assert_int_equal(journal_priority(JOURNAL_CANNOT_START, true), LOG_ERR);
        assert_int_equal(journal_priority(JOURNAL_STOPPED, true), LOG_INFO);
}

static void test_formats(_unused_ void **state) {
        static const struct {
                uint64_t n;
                const char *span, *bytes;
        } table[] = {
                { 0, "0", "0B" },
                { 1, "1us", "1B" },
                { 999, "999us", "999B" },
                { 1023, "1ms", "1023B" },
                { 1024, "1ms", "1.0K" },
                { 1536, "1ms", "1.5K" },
                { 999999, "999ms", "976.5K" },
                { SECOND, "1s", "976.5K" },
                { 59 * SECOND + 999999, "59s", "57.2M" },
                { MINUTE, "1min", "57.2M" },
                { 5 * MINUTE + 3 * SECOND + 7, "5min 3s", "288.9M" },
                { 60 * MINUTE + 59 * SECOND, "1h", "3.4G" },
                { 1503238553, "25min 3s", "1.3G" },
                { 1503238554, "25min 3s", "1.4G" },
                { 26 * 60 * MINUTE, "1d 2h", "87.1G" },
                { 24 * 60 * MINUTE + 59 * MINUTE, "1d", "83.7G" },
                { 15 * 24 * 60 * MINUTE, "2w 1d", "1.1T" },
                { 45 * 24 * 60 * MINUTE, "1month 2w", "3.5T" },
                { 400 * 24 * 60 * MINUTE, "1y 1month", "31.4T" },
                { UINT64_MAX - 1, "584542y", "15.9E" },
                { UINT64_MAX, "infinity", "15.9E" },
        };
        char buf[64], small[5];

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                assert_ptr_equal(journal_format_span(buf, sizeof(buf), table[i].n), buf);
                assert_string_equal(buf, table[i].span);
                assert_ptr_equal(journal_format_bytes(buf, sizeof(buf), table[i].n), buf);
                assert_string_equal(buf, table[i].bytes);
        }
        memset(small, 'x', sizeof(small));
        (void)journal_format_span(small, 4, 5 * MINUTE + 3 * SECOND);
        assert_memory_equal(small, "5mi\0x", 5);
        (void)journal_format_bytes(small, 3, 1536);
        assert_memory_equal(small, "1.\0\0x", 5);
        (void)journal_format_span(small, 0, 1);
        assert_memory_equal(small, "1.\0\0x", 5);
        assert_null(journal_format_bytes(NULL, 0, 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_formats),
        };

        return cmocka_run_group_tests_name("journal-format", tests, NULL, NULL);
}
