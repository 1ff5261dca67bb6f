// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Life events of memory cgroups. */
#include "kernel.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
