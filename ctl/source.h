/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a verb gets its census from: this kernel, with failures told to a person and turned into exit codes. */
#pragma once

#include "daemon/probe.h"
#include "daemon/reading.h"
#include "exit.h"

static inline void drop_probe(Probe **p) {
        if (*p)
                (void)probe_free(*p);
}

static inline void drop_reading(Reading **r) {
        if (*r)
                (void)reading_free(*r);
}

/* CTL_EXIT_OK with *ret filled, another code after complaining. */
ExitCode source_open(Probe **ret);
/* As reading_new(); notes about an unsettled census go to stderr. */
ExitCode source_read(Probe *probe, unsigned flags, Reading **ret);
/* A failed pass → its code, after complaining. */
ExitCode source_failed(const ProbeError *error);

/* The code of a census that was printed: CTL_EXIT_INCOMPLETE, with what is missing on stderr, or CTL_EXIT_OK. */
ExitCode source_verdict(const Probe *probe, const Reading *reading);
