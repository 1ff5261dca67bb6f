/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Advice: each kind has its row, in a form that a journal field and a line of a terminal can take, and says what must not be left out. */
#include <ctype.h>
#include <stdio.h>

#include "advice.h"
#include "check.h"

static void assert_sentences(const char *s, bool may_be_empty) {
        size_t len;

        assert_non_null(s);
        len = strlen(s);
        if (may_be_empty && len == 0)
                return;
        assert_true(len > 10 && len < 400);
        assert_true(isupper((unsigned char)s[0]) || strncmp(s, "swapoff ", 8) == 0);
        assert_int_equal(s[len - 1], '.');
        for (size_t i = 0; i < len; i++)
                assert_true(isprint((unsigned char)s[i]) && !(s[i] == ' ' && s[i + 1] == ' '));
}

static void test_rows(_unused_ void **state) {
        static const char *const settings[] = {
                "WritebackOn", "SwapOn", "SubtreeOn", "HostOn", "DyingOn", "DyingGrowthOn", "StrandedIdsOn", "MemcgIdsOn", "DegradedMinAgeSec",
        };

        assert_int_equal(ELEMENTSOF(settings), _FINDING_KIND_MAX);
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                const Advice *a = advice_get(kind);

                assert_non_null(a);
                assert_sentences(a->means, false);
                assert_sentences(a->safe, false);
                assert_sentences(a->costs, true);
                assert_sentences(a->never, true);
                assert_string_equal(a->setting, settings[kind]);
                for (FindingKind other = 0; other < kind; other++) {
                        assert_string_not_equal(a->means, advice_get(other)->means);
                        assert_string_not_equal(a->safe, advice_get(other)->safe);
                }
                /* One sentence. */
                assert_ptr_equal(strchr(a->means, '.'), a->means + strlen(a->means) - 1);
        }
        assert_null(advice_get(_FINDING_KIND_MAX));
}

/* What does harm is nowhere among the remedies; what it could be mistaken for is forbidden. */
static void test_harm(_unused_ void **state) {
        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                const Advice *a = advice_get(kind);

                assert_null(strstr(a->safe, "drop_caches"));
                assert_null(strstr(a->costs, "drop_caches"));
                assert_null(strstr(a->safe, "swapoff"));
                assert_null(strstr(a->safe, "reboot"));
                if (kind == FINDING_WRITEBACK || kind == FINDING_HOST || kind == FINDING_DYING)
                        assert_non_null(strstr(a->never, "2 or 3 to /proc/sys/vm/drop_caches"));
        }
        assert_non_null(strstr(advice_get(FINDING_SWAP)->costs, "swapoff"));
        assert_non_null(strstr(advice_get(FINDING_STRANDED)->costs, "Only a reboot"));
        assert_non_null(strstr(advice_get(FINDING_STRANDED)->never, "unmount"));
}

/* Commands of ours are there: each verb after shrinkwatchctl. */
static void test_commands(_unused_ void **state) {
        static const char command[] = "shrinkwatchctl ";
        static const char *const verbs[] = { "creators", "estimate", "support" };
        size_t n = 0;

        for (FindingKind kind = 0; kind < _FINDING_KIND_MAX; kind++) {
                for (const char *s = advice_get(kind)->safe; (s = strstr(s, command));) {
                        bool known = false;

                        s += strlen(command);
                        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                                known |= strncmp(s, verbs[i], strlen(verbs[i])) == 0 && s[strlen(verbs[i])] == '"';
                        assert_true(known);
                        n++;
                }
        }
        assert_true(n >= 4);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_harm),
                cmocka_unit_test(test_commands),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
