/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Metrics: the snapshot as a file for node_exporter's textfile collector (Prometheus text format 0.0.4). */
#pragma once

#include <stdio.h>

#include "snapshot.h"

/* Writes all series. What is not known has no sample. 0, or -EIO. */
int metrics_format(FILE *f, const Snapshot *snapshot);
/*
 * Replaces the file at once: whoever reads sees the old or the new one, whole. Mode 0644 whatever the umask. A temporary file beside it (".NAME.tmp", which no
 * collector reads) is removed on failure. 0, or a negative errno.
 */
int metrics_write(const char *path, const Snapshot *snapshot);
