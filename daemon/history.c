/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-file.h"

#define HOUR_USEC 3600000000ULL

/* All in memory; the file is what the next daemon begins with. */
typedef struct Ring {
        HistorySample *samples;
        size_t slots, first, n;
        uint64_t sequence; /* of the newest record in the file */
} Ring;

struct History {
        int fd; /* -1: in memory only */
        Ring rings[_HISTORY_RING_MAX];
};

uint64_t history_boot(const char *boot_id) {
        return history_file_hash(boot_id, strlen(boot_id));
}

static int load_ring(Ring *ring, int fd, HistoryRing which) {
        int r;

        r = history_file_load(fd, which, ring->samples, &ring->first, &ring->sequence);
        if (r < 0)
                return r;
        ring->n = (size_t)r;
        return 0;
}

int history_new(History **ret, int dirfd, char **ret_note) {
        _cleanup_(history_freep) History *h = NULL;
        _cleanup_(freep) char *note = NULL;
        int error = 0, r;

        h = calloc(1, sizeof(*h));
        if (!h)
                return -ENOMEM;
        h->fd = -1;
        for (HistoryRing ring = 0; ring < _HISTORY_RING_MAX; ring++) {
                h->rings[ring].slots = history_file_slots(ring);
                /* As large as a ring can be: an append never needs memory. What is not used yet is not there yet either. */
                h->rings[ring].samples = calloc(h->rings[ring].slots, sizeof(HistorySample));
                if (!h->rings[ring].samples)
                        return -ENOMEM;
        }

        h->fd = history_file_open(dirfd, &note);
        if (h->fd < 0) {
                error = h->fd;
                h->fd = -1;
        }
        if (error == -ENOMEM)
                return error;
        for (HistoryRing ring = 0; h->fd >= 0 && ring < _HISTORY_RING_MAX; ring++) {
                r = load_ring(&h->rings[ring], h->fd, ring);
                if (r < 0)
                        return r;
        }
        if (ret_note)
                *ret_note = TAKE_PTR(note);
        *ret = TAKE_PTR(h);
        return error;
}

History *history_free(History *h) {
        if (!h)
                return NULL;
        h->fd = safe_close(h->fd);
        for (HistoryRing ring = _HISTORY_RING_MAX; ring-- > 0;)
                free(h->rings[ring].samples);
        free(h);
        return NULL;
}

static int append(History *h, HistoryRing which, const HistorySample *sample) {
        Ring *ring = &h->rings[which];

        ring->samples[(ring->first + ring->n) % ring->slots] = *sample;
        if (ring->n < ring->slots)
                ring->n++;
        else
                ring->first = (ring->first + 1) % ring->slots;
        if (h->fd < 0)
                return 0;
        return history_file_write(h->fd, which, ++ring->sequence, sample);
}

int history_append(History *h, const HistorySample *sample) {
        size_t n = h->rings[HISTORY_COARSE].n;
        const HistorySample *last = n > 0 ? history_get(h, HISTORY_COARSE, n - 1) : NULL;
        int r, k = 0;

        r = append(h, HISTORY_FINE, sample);
        if (!last || last->boot != sample->boot || last->boot_usec / HOUR_USEC != sample->boot_usec / HOUR_USEC)
                k = append(h, HISTORY_COARSE, sample);
        return r < 0 ? r : k;
}

size_t history_count(const History *h, HistoryRing ring) {
        return h->rings[ring].n;
}

const HistorySample *history_get(const History *h, HistoryRing ring, size_t i) {
        const Ring *r = &h->rings[ring];

        return i < r->n ? &r->samples[(r->first + i) % r->slots] : NULL;
}

/* Which samples a trend is of. */
typedef struct Span {
        HistoryRing ring;
        uint64_t boot;
        uint64_t begin_usec, end_usec;
} Span;

/* The next sample of the span from *i on, which is left behind it; NULL: no more. */
static const HistorySample *next_sample(const History *h, const Span *span, size_t *i) {
        const HistorySample *s;

        while ((s = history_get(h, span->ring, (*i)++)))
                if (s->boot == span->boot && (s->valid & HISTORY_COMPLETE) && s->boot_usec >= span->begin_usec && s->boot_usec <= span->end_usec)
                        return s;
        return NULL;
}

/*
 * The fine ring reaches back as far as it has samples. The coarse one is better when it has some that are an hour and more older: less is
 * what its own step is.
 */
static HistoryRing choose_ring(const History *h, Span span) {
        const HistorySample *fine, *coarse;
        size_t i = 0, k = 0;

        span.ring = HISTORY_FINE;
        fine = next_sample(h, &span, &i);
        span.ring = HISTORY_COARSE;
        coarse = next_sample(h, &span, &k);
        if (!coarse)
                return HISTORY_FINE;
        return !fine || (coarse->boot_usec < fine->boot_usec && fine->boot_usec - coarse->boot_usec >= HOUR_USEC) ? HISTORY_COARSE : HISTORY_FINE;
}

static uint64_t field_value(const HistorySample *s, HistoryField field) {
        switch (field) {
        case HISTORY_FIELD_OVERHEAD:
                return s->overhead_bytes;
        case HISTORY_FIELD_DYING:
                return s->dying;
        case HISTORY_FIELD_IDS:
                return s->ids;
        }
        return 0;
}

/* a - b: a double holds the difference of neighbours exactly where it would not hold the values. */
static double difference(uint64_t a, uint64_t b) {
        return a >= b ? (double)(a - b) : -(double)(b - a);
}

/* From the first sample on, in hours and units: where a point lies. */
static void point(const HistorySample *s, const HistorySample *origin, HistoryField field, double *ret_x, double *ret_y) {
        *ret_x = difference(s->boot_usec, origin->boot_usec) / (double)HOUR_USEC;
        *ret_y = difference(field_value(s, field), field_value(origin, field));
}

/* Sum of the squares of x and of the products, both from their means; twice through the samples is what keeps it exact. */
static bool slope(const History *h, const Span *span, HistoryField field, size_t n, double *ret) {
        double x, y, sum_x = 0, sum_y = 0, xx = 0, xy = 0;
        const HistorySample *s, *origin = NULL;

        for (size_t i = 0; (s = next_sample(h, span, &i));) {
                if (!origin)
                        origin = s;
                point(s, origin, field, &x, &y);
                sum_x += x;
                sum_y += y;
        }
        for (size_t i = 0; (s = next_sample(h, span, &i));) {
                point(s, origin, field, &x, &y);
                x -= sum_x / (double)n;
                y -= sum_y / (double)n;
                xx += x * x;
                xy += x * y;
        }
        if (xx <= 0)
                return false; /* all of one moment */
        *ret = xy / xx;
        return true;
}

void history_trend(const History *h, HistoryField field, uint64_t boot, uint64_t now_boot_usec, uint64_t window_usec, HistoryTrend *ret) {
        Span span = {
                .boot = boot,
                .begin_usec = now_boot_usec > window_usec ? now_boot_usec - window_usec : 0,
                .end_usec = now_boot_usec,
        };
        uint64_t first_usec = UINT64_MAX, last_usec = 0;
        HistoryTrend trend = {};
        const HistorySample *s;

        span.ring = choose_ring(h, span);
        for (size_t i = 0; (s = next_sample(h, &span, &i));) {
                trend.samples++;
                if (s->boot_usec < first_usec)
                        first_usec = s->boot_usec;
                if (s->boot_usec >= last_usec) {
                        last_usec = s->boot_usec;
                        trend.last_value = field_value(s, field);
                }
        }
        if (trend.samples > 0)
                trend.span_usec = last_usec - first_usec;
        if (trend.samples >= HISTORY_TREND_SAMPLES && trend.span_usec >= window_usec / 4)
                trend.known = slope(h, &span, field, trend.samples, &trend.per_hour);
        *ret = trend;
}

bool history_project(const HistoryTrend *trend, uint64_t value, uint64_t *ret_usec) {
        double usec;

        if (!trend->known)
                return false;
        if (trend->last_value >= value) {
                *ret_usec = 0;
                return true;
        }
        if (!(trend->per_hour > 0))
                return false;
        usec = difference(value, trend->last_value) / trend->per_hour * (double)HOUR_USEC;
        /* Half a million years are never, too. */
        if (!(usec < (double)UINT64_MAX))
                return false;
        *ret_usec = (uint64_t)usec;
        return true;
}
