/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The manager: one event loop, and the one place that wires the rooms together. */
#pragma once

#include <stdbool.h>

#include "conf.h"
#include "util.h"

typedef struct ManagerOptions {
        ConfPaths paths;
        const char *state_dir;   /* NULL: nothing is kept over a stop */
        bool once;               /* end after the first census */
} ManagerOptions;

typedef struct Manager Manager;

/* Loads the programs, reads the state, gives up capabilities. 0, or a negative errno; what was wrong has been logged. */
int manager_new(Manager **ret, const ManagerOptions *options);
Manager *manager_free(Manager *m);
DEFINE_CLEANUP(Manager, manager_free)
/* Runs until SIGTERM or SIGINT. 0, or a negative errno. */
int manager_run(Manager *m);
