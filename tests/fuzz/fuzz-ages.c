/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as a state file: what was taken is in order, and comes back from a file of its own unchanged. */
#include "ages.h"
#include "fuzz.h"

#define BOOT "d3b07384-d113-4ec6-a1b2-0123456789ab"

static void check_order(const Ages *a) {
        const Age *all;
        size_t n;

        all = ages_all(a, &n);
        CHECK(n == ages_count(a));
        for (size_t i = 0; i < n; i++) {
                Age age;

                CHECK(all[i].serial > (i > 0 ? all[i - 1].serial : 0));
                CHECK(ages_get(a, all[i].serial, &age) && age.boot_usec == all[i].boot_usec && age.exact == all[i].exact);
        }
}

static void check_round_trip(const Ages *a) {
        const Age *before, *after;
        size_t len = 0, n, n_after;
        char *text = NULL;
        Ages *b = NULL;
        FILE *f;

        f = open_memstream(&text, &len);
        CHECK(f && ages_write(a, f, BOOT) == 0 && fclose(f) == 0);
        CHECK(ages_new(&b) == 0);
        CHECK(ages_parse(b, text, len, BOOT, NULL) == (int)ages_count(a));
        before = ages_all(a, &n);
        after = ages_all(b, &n_after);
        CHECK(n == n_after);
        for (size_t i = 0; i < n; i++)
                CHECK(before[i].serial == after[i].serial && before[i].boot_usec == after[i].boot_usec &&
                      before[i].exact == after[i].exact);
        ages_free(b);
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        unsigned line = 0, lines = 1;
        Ages *a = NULL;
        int r;

        for (size_t i = 0; i < size; i++)
                lines += data[i] == '\n';
        CHECK(ages_new(&a) == 0);
        r = ages_parse(a, (const char *)data, size, BOOT, &line);
        CHECK(r >= 0 || r == -EBADMSG || r == -ESTALE);
        CHECK((r == -EBADMSG) == (line > 0));
        CHECK(line <= lines && ages_count(a) < lines);
        CHECK(r < 0 || (size_t)r >= ages_count(a));
        CHECK(r != -ESTALE || ages_count(a) == 0);
        check_order(a);
        check_round_trip(a);
        ages_free(a);
        return 0;
}

static uint64_t number(Random *random) {
        return random_u64(random) >> random_below(random, 64);
}

/* Mostly a good file, with a byte that is another here and there. */
size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        char *text = (char *)buf;
        size_t len, entries = 0;

        if (random_once_in(random, 8))
                return fuzz_noise(random, buf, size);
        len = (size_t)snprintf(text, size, "shrinkwatch-ages 1 %s\n", random_once_in(random, 20) ? "-" : BOOT);
        while (len + 100 < size && !random_once_in(random, 40)) {
                len += (size_t)snprintf(text + len, size - len, "%ju %ju %s%s\n", (uintmax_t)number(random), (uintmax_t)number(random),
                                        random_once_in(random, 2) ? "exact" : "since", random_once_in(random, 10) ? " and more" : "");
                entries++;
        }
        if (len + 30 < size && !random_once_in(random, 10))
                len += (size_t)snprintf(text + len, size - len, "end %zu\n", entries);
        for (size_t i = random_once_in(random, 2) ? random_below(random, 4) : 0; i > 0; i--)
                buf[random_below(random, len)] = random_once_in(random, 2) ? '\n' : (uint8_t)random_u64(random);
        return len;
}
