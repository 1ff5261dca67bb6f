/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the slab allocator says it gave out: the other opinion about bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Gives back what CPUs keep of caches whose objects take size bytes: slabinfo counts it as given out. */
void slabs_flush(uint64_t size);
/* Active objects over all caches whose objects take size bytes. Compare gains, not totals. 0 or a negative errno. */
int slabs_objects(uint64_t size, uint64_t *ret);
/* The size of the objects of one cache. 0 when there is none of that name. */
uint64_t slabs_size_of(const char *cache);
