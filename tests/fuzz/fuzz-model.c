/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as "--model". */
#include <inttypes.h>

#include "estimate.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *text = malloc(size + 1), again[128];
        EstimateModel m = { 4711, 4712, 4713 }, m2 = {};
        const char *bad = NULL;
        Estimate e = {};
        size_t len = 0;
        int r;

        CHECK(text);
        if (size > 0)
                memcpy(text, data, size);
        text[size] = '\0';

        r = estimate_model_parse(text, &m, &bad, &len);
        if (r == 0) {
                CHECK(!bad && m.memcgs > 0 && m.nodes > 0 && m.ids > 0);
                snprintf(again, sizeof(again), "ids=%" PRIu64 ",nodes=%" PRIu64 ",memcgs=%" PRIu64, m.ids, m.nodes, m.memcgs);
                CHECK(estimate_model_parse(again, &m2, &bad, &len) == 0);
                CHECK(m.memcgs == m2.memcgs && m.nodes == m2.nodes && m.ids == m2.ids);
                r = estimate_model(&m, alloc_size_class, NULL, &e);
                CHECK(r == 0 || r == -ERANGE);
                if (r == 0) {
                        CHECK(e.now.units / m.memcgs / m.nodes >= m.ids / 64);
                        CHECK(e.now.unit_bytes / 1024 == e.now.units);
                        CHECK(e.units_63.units >= e.now.units);
                }
        } else {
                CHECK(r == -EINVAL && bad >= text && bad + len <= text + strlen(text));
                CHECK(m.memcgs == 4711 && m.nodes == 4712 && m.ids == 4713);
        }
        free(text);
        return 0;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char *const pieces[] = { "memcgs=", "nodes=", "ids=", ",", "=", "0", "1", "45000", "18446744073709551615",
                                              "-",       " ",      "x" };
        size_t len = 0;

        if (random_once_in(random, 2)) {
                /* A good one, now and then with a byte changed. */
                len = (size_t)snprintf((char *)buf, size, "memcgs=%" PRIu64 ",nodes=%" PRIu64 ",ids=%" PRIu64,
                                       random_u64(random) >> random_below(random, 64), 1 + random_below(random, 64),
                                       random_u64(random) >> random_below(random, 64));
                if (random_once_in(random, 3))
                        buf[random_below(random, len)] = (uint8_t)random_u64(random);
                return len;
        }
        while (len + 24 < size && !random_once_in(random, 12)) {
                const char *piece = pieces[random_below(random, ELEMENTSOF(pieces))];

                memcpy(buf + len, piece, strlen(piece));
                len += strlen(piece);
        }
        return len;
}
