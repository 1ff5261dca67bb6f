/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "rates.h"

#include "identity.h"

#define NAME_MAX_BYTES (SW_NAME_MAX + 1)

struct Rates {
        Rate *rates[RATES_PATTERNS_MAX]; /* in the order of their patterns, as compare() has it */
        size_t n;
        Rate others;
};

static Rate *rate_free(Rate *r) {
        if (!r)
                return NULL;
        free(r->pattern);
        free(r);
        return NULL;
}

int rates_new(Rates **ret) {
        Rates *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        *ret = r;
        return 0;
}

Rates *rates_free(Rates *r) {
        if (!r)
                return NULL;
        for (size_t i = 0; i < r->n; i++)
                rate_free(r->rates[i]);
        free(r);
        return NULL;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len) {
        int k = memcmp(a, b, a_len < b_len ? a_len : b_len);

        if (k != 0)
                return k;
        return a_len < b_len ? -1 : a_len > b_len;
}

/* The first that is not before this pattern: where it is, or belongs. */
static size_t find(const Rates *r, const char *pattern, size_t len) {
        size_t low = 0, high = r->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (compare(r->rates[middle]->pattern, r->rates[middle]->pattern_len, pattern, len) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Takes the one out that was quiet longest, and of these the one with the fewest events; one that is active now stays. */
static bool make_room(Rates *r) {
        size_t victim = SIZE_MAX;
        Rate *gone;

        for (size_t i = 0; i < r->n; i++) {
                const Rate *a = r->rates[i], *b = victim == SIZE_MAX ? NULL : r->rates[victim];

                if (a->quiet_ticks == 0)
                        continue;
                if (!b || a->quiet_ticks > b->quiet_ticks ||
                    (a->quiet_ticks == b->quiet_ticks && a->total[SW_EVENT_CREATED] + a->total[SW_EVENT_REMOVED] < b->total[SW_EVENT_CREATED] + b->total[SW_EVENT_REMOVED]))
                        victim = i;
        }
        if (victim == SIZE_MAX)
                return false;
        gone = r->rates[victim];
        for (size_t k = 0; k < ELEMENTSOF(gone->total); k++)
                r->others.total[k] += gone->total[k];
        memmove(r->rates + victim, r->rates + victim + 1, (r->n - victim - 1) * sizeof(r->rates[0]));
        r->n--;
        rate_free(gone);
        return true;
}

static void count(Rate *rate, uint32_t kind) {
        rate->total[kind]++;
        rate->now[kind]++;
        rate->quiet_ticks = 0;
}

int rates_add(Rates *r, uint32_t kind, const char *name, size_t len) {
        char pattern[NAME_MAX_BYTES];
        Rate *rate;
        size_t at;

        if (kind >= ELEMENTSOF(r->others.total))
                return -EINVAL;
        if (!name || len == 0 || len >= sizeof(pattern)) {
                count(&r->others, kind);
                return 0;
        }
        len = identity_pattern(name, len, pattern, sizeof(pattern));

        at = find(r, pattern, len);
        if (at < r->n && compare(r->rates[at]->pattern, r->rates[at]->pattern_len, pattern, len) == 0) {
                count(r->rates[at], kind);
                return 0;
        }
        if (r->n == RATES_PATTERNS_MAX) {
                if (!make_room(r)) {
                        count(&r->others, kind);
                        return 0;
                }
                at = find(r, pattern, len);
        }

        rate = calloc(1, sizeof(*rate));
        if (rate)
                rate->pattern = malloc(len + 1);
        if (!rate || !rate->pattern) {
                rate_free(rate);
                count(&r->others, kind);
                return -ENOMEM;
        }
        memcpy(rate->pattern, pattern, len + 1);
        rate->pattern_len = len;
        count(rate, kind);
        memmove(r->rates + at + 1, r->rates + at, (r->n - at) * sizeof(r->rates[0]));
        r->rates[at] = rate;
        r->n++;
        return 0;
}

static void tick(Rate *rate) {
        memset(rate->now, 0, sizeof(rate->now));
        rate->quiet_ticks++;
}

void rates_tick(Rates *r) {
        for (size_t i = 0; i < r->n; i++)
                tick(r->rates[i]);
        tick(&r->others);
}

static uint64_t events_now(const Rate *r) {
        return r->now[SW_EVENT_CREATED] + r->now[SW_EVENT_REMOVED] + r->now[SW_EVENT_RELEASED];
}

static int compare_rates(const void *x, const void *y) {
        const Rate *a = *(const Rate *const *)x, *b = *(const Rate *const *)y;
        uint64_t na = events_now(a), nb = events_now(b);

        if (na != nb)
                return na > nb ? -1 : 1;
        return compare(a->pattern, a->pattern_len, b->pattern, b->pattern_len);
}

int rates_list(const Rates *r, const Rate ***ret, size_t *ret_n) {
        const Rate **list = calloc(r->n + 1, sizeof(*list));

        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < r->n; i++)
                list[i] = r->rates[i];
        if (r->n > 1)
                qsort(list, r->n, sizeof(*list), compare_rates);
        *ret = list;
        *ret_n = r->n;
        return 0;
}

const Rate *rates_others(const Rates *r) {
        return &r->others;
}
