/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Metrics: the snapshot as a file for node_exporter's textfile collector (Prometheus text format 0.0.4). */
#pragma once

#include <stdio.h>

#include "snapshot.h"

/* Writes all series. What is not known has no sample. facts, reading, ages and findings may be NULL. 0, or -EIO. */
int metrics_format(FILE *f, const Snapshot *snapshot);
/*
 * Replaces the file at once: whoever reads sees the old or the new one, whole. Mode 0644 whatever the umask. A link at this path is replaced, not followed. A
 * temporary file beside it (".NAME.tmp", which no collector reads) is removed on failure, and the old file stays. 0, or a negative errno; -EINVAL: the path
 * has no name at its end.
 */
int metrics_write(const char *path, const Snapshot *snapshot);
