/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pins.h"

/* One SW_TYPE_WB record, until sealed. */
typedef struct Evidence {
        uint32_t memcg;
        uint32_t device; /* offset in devices */
        uint64_t inodes;
        uint64_t pages;
        bool complete; /* inodes and pages are */
} Evidence;

struct Pins {
        const Census *census;
        uint32_t page_bytes;
        bool sealed;
        bool writeback_known;

        Evidence *evidence;
        size_t n_evidence, evidence_allocated;
        char *devices; /* NUL-terminated names, one behind the other */
        size_t devices_bytes, devices_allocated;

        Pin *pins;
        size_t n_pins, pins_allocated;
        uint32_t *first; /* memcg index → its first pin; one more at the end */
};

const char *pin_cause_to_string(PinCause cause) {
        static const char *const names[] = {
                [PIN_WRITEBACK] = "writeback",
                [PIN_SWAP] = "swap",
                [PIN_CHILD] = "child",
                [PIN_UNEXPLAINED] = "unexplained",
        };

        return (size_t)cause < ELEMENTSOF(names) ? names[cause] : NULL;
}

int pins_new(Pins **ret, const Census *census, uint32_t page_bytes) {
        Pins *p;

        if (!census->sealed)
                return -EINVAL;

        p = calloc(1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        p->census = census;
        p->page_bytes = page_bytes;
        *ret = p;
        return 0;
}

Pins *pins_free(Pins *p) {
        if (!p)
                return NULL;
        free(p->first);
        free(p->pins);
        free(p->devices);
        free(p->evidence);
        free(p);
        return NULL;
}

/* Keeps a device name. The rings give all structures of one device in a row, so the last name is mostly this one. */
static int add_device(Pins *p, const char *device, size_t len, uint32_t *ret) {
        int r;

        if (p->n_evidence > 0) {
                uint32_t last = p->evidence[p->n_evidence - 1].device;

                if (strcmp(p->devices + last, device) == 0) {
                        *ret = last;
                        return 0;
                }
        }
        if (p->devices_bytes > UINT32_MAX - SW_DEVICE_MAX)
                return -ENOMEM;
        r = grow_array(&p->devices, &p->devices_allocated, p->devices_bytes + len + 1, 1);
        if (r < 0)
                return r;
        memcpy(p->devices + p->devices_bytes, device, len + 1);
        *ret = (uint32_t)p->devices_bytes;
        p->devices_bytes += len + 1;
        return 0;
}

int pins_add(Pins *p, const struct sw_head *record) {
        const struct sw_wb *wb = (const struct sw_wb *)record;
        uint32_t memcg, device = 0;
        size_t len;
        int r;

        if (p->sealed)
                return -EINVAL;
        if (record->type != SW_TYPE_WB)
                return 0;
        if (record->size != sizeof(*wb))
                return -EBADMSG;
        len = strnlen(wb->device, sizeof(wb->device));
        if (len == sizeof(wb->device))
                return -EBADMSG;

        memcg = census_find(p->census, wb->serial);
        if (memcg == CENSUS_NONE || p->census->memcgs[memcg].state != CENSUS_DYING)
                return 0;

        r = grow_array(&p->evidence, &p->evidence_allocated, p->n_evidence + 1, sizeof(*p->evidence));
        if (r < 0)
                return r;
        r = add_device(p, wb->device, len, &device);
        if (r < 0)
                return r;
        p->evidence[p->n_evidence++] = (Evidence){
                .memcg = memcg,
                .device = device,
                .inodes = wb->inodes,
                .pages = wb->pages,
                .complete = record->valid & SW_WB_INODES,
        };
        return 0;
}

static int compare_evidence(const void *a, const void *b, void *userdata) {
        const Evidence *x = a, *y = b;
        const char *devices = userdata;

        if (x->memcg != y->memcg)
                return x->memcg < y->memcg ? -1 : 1;
        return x->device == y->device ? 0 : strcmp(devices + x->device, devices + y->device);
}

static int add_pin(Pins *p, const Pin *pin) {
        int r;

        if (p->n_pins >= UINT32_MAX)
                return -ENOMEM;
        r = grow_array(&p->pins, &p->pins_allocated, p->n_pins + 1, sizeof(*p->pins));
        if (r < 0)
                return r;
        p->pins[p->n_pins++] = *pin;
        return 0;
}

/* From evidence *at on: one pin for each device of this memcg. Leaves *at behind its evidence. */
static int add_writeback(Pins *p, uint32_t memcg, size_t *at) {
        int r;

        while (*at < p->n_evidence && p->evidence[*at].memcg == memcg) {
                const Evidence *first = &p->evidence[*at];
                Pin pin = {
                        .cause = PIN_WRITEBACK,
                        .exact = p->writeback_known,
                        .has_bytes = true,
                        .at_least = !p->writeback_known,
                        .device = p->devices + first->device,
                };

                /* A memcg has several on one device when its blkcg changed: the old one waits on the bdi's list like this one. */
                for (; *at < p->n_evidence && compare_evidence(first, &p->evidence[*at], p->devices) == 0; (*at)++) {
                        const Evidence *e = &p->evidence[*at];

                        pin.refs++;
                        pin.inodes = add_sat_u64(pin.inodes, e->inodes);
                        pin.bytes = add_sat_u64(pin.bytes, mul_sat_u64(e->pages, p->page_bytes));
                        pin.at_least |= !e->complete;
                }
                r = add_pin(p, &pin);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* All references to the private id together hold one to the css. */
static int add_swap(Pins *p, const CensusMemcg *m) {
        Pin pin = {
                .cause = PIN_SWAP,
                .exact = true,
                .has_bytes = true,
                .refs = 1,
                .device = "",
        };

        if (!(m->valid & SW_MEMCG_ID))
                return 0;
        pin.entries = m->id_refs;
        /*
         * Until css_offline has run, the id has a reference of its own, which is no swap entry; ONLINE is cleared just after it was
         * dropped (offline_css() in kernel/cgroup/cgroup.c). So for a moment this is one too few: a lower bound.
         */
        if (!m->offline && pin.entries > 0) {
                pin.entries--;
                pin.at_least = true;
        }
        if (pin.entries == 0)
                return 0;
        pin.bytes = mul_sat_u64(pin.entries, p->page_bytes);
        return add_pin(p, &pin);
}

static int add_children(Pins *p, const CensusMemcg *m) {
        const Pin pin = {
                .cause = PIN_CHILD,
                .exact = true,
                .refs = m->n_children,
                .device = "",
        };

        return m->n_children > 0 ? add_pin(p, &pin) : 0;
}

static uint64_t sum_named(const Pin *pins, size_t n) {
        uint64_t named = 0;

        for (size_t i = 0; i < n; i++)
                if (pins[i].cause != PIN_UNEXPLAINED)
                        named = add_sat_u64(named, pins[i].refs);
        return named;
}

static int add_rest(Pins *p, const CensusMemcg *m, size_t first) {
        /* Without any pin there is no array yet, and nothing may be added to NULL, not even nothing. */
        uint64_t named = p->n_pins > first ? sum_named(p->pins + first, p->n_pins - first) : 0;
        const Pin rest = {
                .cause = PIN_UNEXPLAINED,
                /* With part of the writeback structures unseen, some of the rest may be theirs. */
                .exact = p->writeback_known,
                .refs = m->refs - named,
                .device = "",
        };

        if (!(m->valid & SW_MEMCG_REFS) || named == m->refs)
                return 0;
        if (named < m->refs)
                return add_pin(p, &rest);

        /* More reasons than references: the count and the reasons are of different moments, and something went in between. */
        for (size_t i = first; i < p->n_pins; i++)
                p->pins[i].exact = false;
        return 0;
}

static int add_pins_of(Pins *p, uint32_t memcg, size_t *evidence) {
        const CensusMemcg *m = &p->census->memcgs[memcg];
        size_t first = p->n_pins;
        int r;

        if (m->state != CENSUS_DYING)
                return 0;
        r = add_writeback(p, memcg, evidence);
        if (r < 0)
                return r;
        r = add_swap(p, m);
        if (r < 0)
                return r;
        r = add_children(p, m);
        if (r < 0)
                return r;
        return add_rest(p, m, first);
}

int pins_seal(Pins *p, bool writeback_known) {
        _cleanup_(freep) uint32_t *first = NULL;
        size_t n = p->census->n_memcgs, evidence = 0;
        int r;

        if (p->sealed)
                return -EINVAL;
        first = calloc(n + 1, sizeof(*first));
        if (!first)
                return -ENOMEM;
        if (p->n_evidence > 0)
                qsort_r(p->evidence, p->n_evidence, sizeof(*p->evidence), compare_evidence, p->devices);

        p->writeback_known = writeback_known;
        p->n_pins = 0;
        for (uint32_t i = 0; i < n; i++) {
                first[i] = (uint32_t)p->n_pins;
                r = add_pins_of(p, i, &evidence);
                if (r < 0)
                        return r;
        }
        first[n] = (uint32_t)p->n_pins;

        p->first = TAKE_PTR(first);
        free(p->evidence);
        p->evidence = NULL;
        p->n_evidence = p->evidence_allocated = 0;
        p->sealed = true;
        return 0;
}

bool pins_get(const Pins *p, uint32_t memcg, const Pin **ret, size_t *ret_n) {
        if (!p->sealed || memcg >= p->census->n_memcgs || p->census->memcgs[memcg].state != CENSUS_DYING) {
                *ret = NULL;
                *ret_n = 0;
                return false;
        }
        *ret_n = p->first[memcg + 1] - p->first[memcg];
        *ret = *ret_n > 0 ? p->pins + p->first[memcg] : NULL;
        return true;
}

bool pins_explained(const Pins *p, uint32_t memcg, uint64_t *ret) {
        const CensusMemcg *m;
        const Pin *pins;
        uint64_t named;
        size_t n;

        if (!pins_get(p, memcg, &pins, &n))
                return false;
        m = &p->census->memcgs[memcg];
        named = sum_named(pins, n);
        *ret = (m->valid & SW_MEMCG_REFS) && named > m->refs ? m->refs : named;
        return true;
}

bool pins_writeback_known(const Pins *p) {
        return p->sealed && p->writeback_known;
}

/* ---------------------------------------------------------------------------------------------------------------- sums */

void pins_sum_one(const Pins *p, uint32_t memcg, PinSums *sums) {
        bool seen[_PIN_CAUSE_MAX] = {};
        const Pin *pins;
        size_t n;

        if (!pins_get(p, memcg, &pins, &n))
                return;
        for (size_t i = 0; i < n; i++) {
                PinCause cause = pins[i].cause;

                /* One of writeback for each device. */
                if (seen[cause])
                        continue;
                seen[cause] = true;
                sums->memcgs[cause]++;
                sums->bytes[cause] = add_sat_u64(sums->bytes[cause], census_overhead(p->census->memcgs + memcg));
        }
}

void pins_sum(const Pins *p, PinSums *ret) {
        *ret = (PinSums){};
        for (uint32_t i = 0; i < p->census->n_memcgs; i++)
                if (p->census->memcgs[i].state == CENSUS_DYING)
                        pins_sum_one(p, i, ret);
}

bool pins_sum_known(const Pins *p, PinCause cause) {
        return pins_writeback_known(p) || (cause != PIN_WRITEBACK && cause != PIN_UNEXPLAINED);
}
