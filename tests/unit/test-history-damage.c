/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* History files that are torn, damaged, cut off, or none: what is good is there, in order, and nothing else. */
#include "history-dir.h"

/* Whatever part of the newest record got to disk: it is left out, what is older is there, and the next one takes its place. */
static void test_torn(_unused_ void **state) {
        static const uint8_t zeros[sizeof(Record)];
        Record old, new;
        History *h = open_good();

        for (uint64_t i = 1; i <= 1440 + 5; i++)
                append_number(h, i, i * MINUTE_USEC);
        read_at(record_at(HISTORY_FINE, 1446), &old, sizeof(old));
        append_number(h, 1446, 1446 * MINUTE_USEC);
        history_free(h);
        read_at(record_at(HISTORY_FINE, 1446), &new, sizeof(new));
        assert_int_equal(new.sequence, 1446);
        assert_int_equal(old.sequence, 6);

        for (size_t len = 0; len < sizeof(new); len += len < 200 ? 1 : 97) {
                bool same = memcmp((uint8_t *)&old + len, (uint8_t *)&new + len, sizeof(new) - len) == 0;

                write_at(record_at(HISTORY_FINE, 1446), &old, sizeof(old));
                write_at(record_at(HISTORY_FINE, 1446), &new, len);
                h = open_good();
                assert_fine(h, len == 0 ? 6 : 7, same ? 1446 : 1445);
                history_free(h);
        }
        write_at(record_at(HISTORY_FINE, 1446), zeros, sizeof(zeros));
        h = open_good();
        assert_fine(h, 7, 1445);
        append_number(h, 1446, 1446 * MINUTE_USEC);
        history_free(h);
        h = open_good();
        assert_fine(h, 7, 1446);
        history_free(h);
}

/* A bit of a record is another: that one is missing, in order, and nothing else. */
static void test_flipped(_unused_ void **state) {
        Random random = random_start(1414);
        History *h = open_good();

        for (uint64_t i = 1; i <= 60; i++)
                append_number(h, i, i * MINUTE_USEC);
        history_free(h);
        for (unsigned round = 0; round < 60; round++) {
                uint64_t victim = 1 + random_below(&random, 60);
                off_t at = record_at(HISTORY_FINE, victim) + (off_t)(round < 24 ? round : random_below(&random, sizeof(Record)));
                uint8_t good, bad;

                read_at(at, &good, 1);
                bad = good ^ (uint8_t)(1U << random_below(&random, 8));
                write_at(at, &bad, 1);
                h = open_good();
                assert_int_equal(history_count(h, HISTORY_FINE), 59);
                for (uint64_t i = 1; i < 60; i++)
                        assert_number(h, HISTORY_FINE, i - 1, i < victim ? i : i + 1);
                history_free(h);
                write_at(at, &good, 1);
        }
        h = open_good();
        assert_fine(h, 1, 60);
        history_free(h);
}

/* Good records in places where they do not belong. */
static void test_misplaced(_unused_ void **state) {
        History *h = open_good();
        Record r, stale;

        for (uint64_t i = 1; i <= 10; i++)
                append_number(h, i, i);
        history_free(h);
        read_at(record_at(HISTORY_FINE, 5), &r, sizeof(r));
        write_at(record_at(HISTORY_FINE, 500), &r, sizeof(r)); /* another slot */
        write_at(record_at(HISTORY_COARSE, 5), &r, sizeof(r)); /* the same of another ring */
        r.sequence = SEQUENCE_MAX + 1;                         /* beyond counting, with all else right */
        r.checksum = history_file_hash(&r.sequence, sizeof(r) - sizeof(r.checksum));
        write_at(record_at(HISTORY_FINE, r.sequence), &r, sizeof(r));
        r.sequence = 11;
        memset(r.sample.subtrees[7].name, 'x', sizeof(r.sample.subtrees[7].name)); /* a name without end */
        r.checksum = history_file_hash(&r.sequence, sizeof(r) - sizeof(r.checksum));
        write_at(record_at(HISTORY_FINE, r.sequence), &r, sizeof(r));
        h = open_good();
        assert_fine(h, 1, 10);
        assert_int_equal(history_count(h, HISTORY_COARSE), 1);

        /* A slot that was not written in its turn holds a record of the round before. */
        read_at(record_at(HISTORY_FINE, 7), &stale, sizeof(stale));
        for (uint64_t i = 11; i <= 1450; i++)
                append_number(h, i, i);
        history_free(h);
        write_at(record_at(HISTORY_FINE, 1447), &stale, sizeof(stale));
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 1439);
        assert_number(h, HISTORY_FINE, 0, 11);
        assert_number(h, HISTORY_FINE, 1435, 1446);
        assert_number(h, HISTORY_FINE, 1436, 1448);
        history_free(h);
}

static void assert_put_aside(const char *why) {
        char *note = NULL;
        History *h = NULL;
        struct stat st, bad;

        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(history_new(&h, AT_FDCWD, &note), 0);
        assert_non_null(note);
        assert_non_null(strstr(note, why));
        assert_non_null(strstr(note, "\"history.bad\""));
        assert_int_equal(note[strlen(note) - 1], '.');
        free(note);
        /* The very file; one that was put aside before gives way. */
        assert_int_equal(stat(NAME_BAD, &bad), 0);
        assert_int_equal(bad.st_ino, st.st_ino);
        assert_int_equal(history_count(h, HISTORY_FINE), 0);
        append_number(h, 1, 1);
        history_free(h);
        h = open_good();
        assert_fine(h, 1, 1);
        history_free(h);
}

static void rewrite_head(const Head *head, bool sum) {
        Head h = *head;

        if (sum)
                h.checksum = history_file_hash(&h, offsetof(Head, checksum));
        write_at(0, &h, sizeof(h));
}

static void test_other_form(_unused_ void **state) {
        const Head good = make_head();
        Head head;
        uint8_t bytes[10];

        history_free(open_good());
        head = good;
        head.version = 2;
        rewrite_head(&head, true);
        assert_put_aside("version 2");
        head = good;
        head.slots[0]++;
        rewrite_head(&head, true);
        assert_put_aside("version 1"); /* not ours, by whoever wrote it */
        head = good;
        head.order = ORDER_SWAPPED;
        rewrite_head(&head, false);
        assert_put_aside("byte order");
        for (size_t i = 0; i < sizeof(head); i++) {
                head = good;
                ((uint8_t *)&head)[i] ^= 1;
                rewrite_head(&head, false);
                assert_put_aside(i < 8 ? "no history file" : "damaged");
        }
        assert_int_equal(truncate(NAME, sizeof(head) - 1), 0);
        assert_put_aside("no history file");
        assert_int_equal(truncate(NAME, 0), 0);
        assert_put_aside("no history file");
        memset(bytes, 0xff, sizeof(bytes));
        write_at(0, bytes, sizeof(bytes));
        assert_put_aside("no history file");
}

/* The disk gives no more than an error for some of it: the records there are missing, and nothing else. */
static void test_bad_place(_unused_ void **state) {
        History *h = open_good();

        for (uint64_t i = 1; i <= 200; i++)
                append_number(h, i, i * MINUTE_USEC);
        history_free(h);
        bad_begin = record_at(HISTORY_FINE, 70) + 5;
        bad_end = record_at(HISTORY_FINE, 74) + 6;
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 195);
        assert_number(h, HISTORY_FINE, 68, 69);
        assert_number(h, HISTORY_FINE, 69, 75);
        assert_number(h, HISTORY_FINE, 194, 200);
        assert_int_equal(history_count(h, HISTORY_COARSE), 4);
        history_free(h);
        /* All of a ring. */
        bad_begin = HEAD_BYTES;
        bad_end = ring_offset(HISTORY_COARSE);
        h = open_good();
        assert_int_equal(history_count(h, HISTORY_FINE), 0);
        assert_int_equal(history_count(h, HISTORY_COARSE), 4);
        history_free(h);
        bad_end = bad_begin = 0;
        h = open_good();
        assert_fine(h, 1, 200);
        history_free(h);
        /* The head: there is no telling whether it is a history. */
        bad_end = 1;
        assert_memory_only(AT_FDCWD, -EIO);
        bad_end = 0;
}

/* What was cut off is lost, the rest is there, and so is all the room again. */
static void test_cut_off(_unused_ void **state) {
        History *h = open_good();
        struct stat st;

        for (uint64_t i = 1; i <= 20; i++)
                append_number(h, i, i * HOUR_USEC);
        history_free(h);
        assert_int_equal(truncate(NAME, record_at(HISTORY_FINE, 8) + 100), 0);
        h = open_good();
        assert_fine(h, 1, 7);
        assert_int_equal(history_count(h, HISTORY_COARSE), 0);
        assert_int_equal(stat(NAME, &st), 0);
        assert_int_equal(st.st_size, file_bytes());
        append_number(h, 8, 21 * HOUR_USEC);
        history_free(h);
        h = open_good();
        assert_fine(h, 1, 8);
        assert_int_equal(history_count(h, HISTORY_COARSE), 1);
        history_free(h);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_torn, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_flipped, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_misplaced, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_other_form, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_bad_place, dir_setup, dir_teardown),
                cmocka_unit_test_setup_teardown(test_cut_off, dir_setup, dir_teardown),
        };

        return cmocka_run_group_tests_name("history-damage", tests, NULL, NULL);
}
