/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What systemd and we tell each other: readiness, status, watchdog, reload, the file descriptor store. Without systemd all of it does nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "events.h"
#include "util.h"

/*
 * Descriptors that the store gave us, with names, newly allocated; the environment is cleared of them. One whose name is longer than any of
 * ours is closed. 0, or a negative errno.
 */
int service_take_stored(EventsFd **ret, size_t *ret_n);
/*
 * Here and below: 1: sent; 0: no systemd; a negative errno, -EINVAL for a name that systemd would not take. The store keeps copies
 * (FDPOLL=0, one message each), and drops all that have the name.
 */
int service_store(const EventsFd *fds, size_t n);
int service_drop(const char *name);
/*
 * Both, in the order that loses least when we are killed in between: first what is dropped and shares a name with one of fds (the store
 * drops by name, so it would take ours along), then fds go there, then the others are dropped.
 */
int service_replace(const EventsFd *fds, size_t n, const EventsFd *dropped, size_t n_dropped);

/* status may be NULL; control characters in it become blanks. */
int service_ready(const char *status);
int service_status(const char *status);
/* RELOADING=1 with MONOTONIC_USEC; to be followed by service_ready(). */
int service_reloading(void);
int service_stopping(const char *status);

/*
 * Gives up every capability of this thread for good: effective, permitted, inheritable, ambient; the bounding set as far as allowed (that
 * takes CAP_SETPCAP). execve() gives none back. 0, or a negative errno; -EPERM: some are still there.
 */
int service_drop_capabilities(void);
