/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The manager: one event loop, and the one place that wires the rooms together. */
#pragma once

#include <stdbool.h>

#include "conf.h"
#include "util.h"

typedef struct ManagerOptions {
        ConfPaths paths;         /* memory_bytes is filled in */
        const char *state_dir;   /* NULL: nothing is kept over a stop */
        bool state_asked;        /* by hand: without it there is no start */
        const char *runtime_dir; /* where the metrics go when the configuration does not say; NULL: nowhere */
        bool once;               /* end after the first census */
} ManagerOptions;

typedef struct Manager Manager;

/*
 * Reads the configuration, loads the programs, reads the state, and gives up all capabilities. options: borrowed, as long as the
 * manager lives. 0, or a negative errno; what was wrong has been told.
 */
int manager_new(Manager **ret, const ManagerOptions *options);
Manager *manager_free(Manager *m);
DEFINE_CLEANUP(Manager, manager_free)
/* Runs until SIGTERM or SIGINT. 0, or a negative errno. */
int manager_run(Manager *m);
