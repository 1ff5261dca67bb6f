/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes → text that is fit to be shown, and base64. */
#include "escape.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
        const char *raw = (const char *)data;
        size_t len = 0;
        char *text;

        for (unsigned flags = 0; flags <= ESCAPE_TERMINAL; flags++) {
                bool needed = escape_needed(raw, size, flags);

                text = escape_text(raw, size, flags, &len);
                CHECK(text && text[len] == '\0' && strlen(text) == len);
                CHECK(!escape_needed(text, len, flags));
                /* Each byte stays or becomes four. */
                CHECK(len >= size && len <= 4 * size && (len - size) % 3 == 0);
                CHECK(needed == (len != size));
                CHECK(needed || size == 0 || memcmp(text, data, size) == 0);
                free(text);
        }
        text = base64_encode(data, size, &len);
        CHECK(text && strlen(text) == len && len == (size + 2) / 3 * 4 && strspn(text, base64) == len);
        free(text);
        return 0;
}

size_t fuzz_generate(Random *random, uint8_t *buf, size_t size) {
        static const char *const pieces[] = { "\xc2\x80",         "\xe2\x80\xae", "\xf0\x9f\xa6\x80", "\xed\xa0\x80",
                                              "\xf4\x90\x80\x80", "\\x2d",        "\xef\xbb\xbf",     "\xe2\x80" };
        size_t len = 0;

        if (random_once_in(random, 3))
                return fuzz_noise(random, buf, size);
        while (len + 8 < size && !random_once_in(random, 40)) {
                const char *piece = pieces[random_below(random, ELEMENTSOF(pieces))];

                if (random_once_in(random, 2)) {
                        buf[len++] = (uint8_t)random_u64(random);
                        continue;
                }
                memcpy(buf + len, piece, strlen(piece));
                len += strlen(piece);
        }
        return len;
}
