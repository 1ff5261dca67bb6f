/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The counters over a restart: which of them a census has accounted for. The counters themselves go on in the kernel, so what they gained while
 * nobody was there is found by the difference. One line:
 *
 *     shrinkwatch-counts 1 BOOT-ID CREATED REMOVED RELEASED LOST-DEATHS LOST-RECORDS
 */
#include <inttypes.h>
#include <stdio.h>

#include "events.h"

#define FORM "shrinkwatch-counts 1 "

int events_counts_write(const EventsCounts *c, FILE *f, const char *boot_id) {
        int n = fprintf(f, FORM "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", boot_id, c->created, c->removed, c->released,
                        c->lost_deaths, c->lost_records);

        return n < 0 ? -EIO : 0;
}

/* Digits alone, a blank in front. */
static bool take_number(const char **p, const char *end, uint64_t *ret) {
        uint64_t n = 0;
        const char *s = *p;

        if (s == end || *s++ != ' ' || s == end || *s < '0' || *s > '9')
                return false;
        for (; s < end && *s >= '0' && *s <= '9'; s++)
                if (__builtin_mul_overflow(n, 10U, &n) || __builtin_add_overflow(n, (unsigned)(*s - '0'), &n))
                        return false;
        *ret = n;
        *p = s;
        return true;
}

int events_counts_parse(EventsCounts *ret, const char *text, size_t len, const char *boot_id) {
        const char *p = text, *end = text + len;
        size_t boot_len = strlen(boot_id);
        EventsCounts c = {};

        if (len < strlen(FORM) || memcmp(p, FORM, strlen(FORM)) != 0)
                return -EBADMSG;
        p += strlen(FORM);
        if ((size_t)(end - p) < boot_len || memcmp(p, boot_id, boot_len) != 0)
                return -ESTALE;
        p += boot_len;
        if (!take_number(&p, end, &c.created) || !take_number(&p, end, &c.removed) || !take_number(&p, end, &c.released) ||
            !take_number(&p, end, &c.lost_deaths) || !take_number(&p, end, &c.lost_records) || end - p != 1 || *p != '\n')
                return -EBADMSG;
        *ret = c;
        return 0;
}
