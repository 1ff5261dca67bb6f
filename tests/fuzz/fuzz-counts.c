/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes as the file of counters: what is taken comes back the same from a file of its own; what is not leaves the counters alone. */
#include "events.h"
#include "fuzz.h"

#define BOOT_HEAD "d3b07384-d113-4ec6-"
#define BOOT BOOT_HEAD "a1b2-0123456789ab"

static void check_one(const char *text, size_t len) {
        EventsCounts counts = { .created = 4711 }, again = {};
        char *copy = NULL;
        size_t size = 0;
        FILE *f;
        int r;

        r = events_counts_parse(&counts, text, len, BOOT);
        CHECK(r == 0 || r == -ESTALE || r == -EBADMSG);
        if (r < 0) {
                CHECK(counts.created == 4711 && counts.removed == 0);
                return;
        }
        f = open_memstream(&copy, &size);
        CHECK(f && events_counts_write(&counts, f, BOOT) == 0 && fclose(f) == 0);
        CHECK(events_counts_parse(&again, copy, size, BOOT) == 0 && memcmp(&counts, &again, sizeof(counts)) == 0);
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char good[] = "shrinkwatch-counts 1 " BOOT " 18446744073709551615 2 3 4 5\n";
        _cleanup_(freep) char *text = malloc(size + sizeof(good));

        CHECK(text);
        /* As they are, then behind a good beginning, then over a good line. */
        memcpy(text, data, size);
        check_one(text, size);
        memcpy(text, good, strlen(good));
        for (size_t begin = 0; begin < strlen(good); begin += 7) {
                memcpy(text, good, strlen(good));
                memcpy(text + begin, data, size);
                check_one(text, begin + size > strlen(good) ? begin + size : strlen(good));
        }
        check_one(good, strlen(good));
        return 0;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char pieces[][24] = { " ", "\n", "0", "18446744073709551615", "18446744073709551616", "-1", "+1", "shrinkwatch-counts 1 ", BOOT_HEAD, " 7 7" };
        size_t len = 0;

        if (random_once_in(random, 4))
                return fuzz_noise(random, buf, size < 64 ? size : 64);
        while (len < 64 && !random_once_in(random, 6)) {
                const char *piece = pieces[random_below(random, ELEMENTSOF(pieces))];

                if (len + strlen(piece) > size)
                        break;
                memcpy(buf + len, piece, strlen(piece));
                len += strlen(piece);
        }
        return len;
}
