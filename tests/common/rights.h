/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Least power: an ordinary user with exactly these capabilities. */
#pragma once

#include <linux/capability.h>
#include <stdint.h>

#define NOBODY 65534
#define BIT(cap) (UINT64_C(1) << (cap))
#define BOTH (BIT(CAP_BPF) | BIT(CAP_PERFMON))

/* Effective, permitted and inheritable. 0, or a negative errno. */
int set_capabilities(uint64_t set);
/* Permitted or effective; all bits when they cannot be read. */
uint64_t get_capabilities(void);
/* From root to nobody with exactly this set, for good: the bounding set is emptied of the others, too. 0, or a negative errno. */
int become(uint64_t set);
