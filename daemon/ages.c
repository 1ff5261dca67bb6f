/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ages.h"

struct Ages {
        Age *ages; /* in ascending serial */
        size_t n, allocated;
};

int ages_new(Ages **ret) {
        Ages *a = calloc(1, sizeof(*a));

        if (!a)
                return -ENOMEM;
        *ret = a;
        return 0;
}

Ages *ages_free(Ages *a) {
        if (!a)
                return NULL;
        free(a->ages);
        free(a);
        return NULL;
}

/* The position of the first entry that is not below the serial. */
static size_t find(const Ages *a, uint64_t serial) {
        size_t low = 0, high = a->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (a->ages[middle].serial < serial)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

int ages_put(Ages *a, uint64_t serial, uint64_t boot_usec, bool exact) {
        size_t at;
        int r;

        if (serial == 0)
                return -EINVAL;
        at = find(a, serial);
        if (at < a->n && a->ages[at].serial == serial) {
                Age *old = &a->ages[at];

                if (old->exact > exact || (old->exact == exact && old->boot_usec <= boot_usec))
                        return 0;
                *old = (Age){ serial, boot_usec, exact };
                return 1;
        }
        r = grow_array(&a->ages, &a->allocated, a->n + 1, sizeof(*a->ages));
        if (r < 0)
                return r;
        memmove(a->ages + at + 1, a->ages + at, (a->n - at) * sizeof(*a->ages));
        a->ages[at] = (Age){ serial, boot_usec, exact };
        a->n++;
        return 1;
}

bool ages_get(const Ages *a, uint64_t serial, Age *ret) {
        size_t at = find(a, serial);

        if (at == a->n || a->ages[at].serial != serial)
                return false;
        *ret = a->ages[at];
        return true;
}
