/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exit codes: promised in the manual, so never renumbered. */
#pragma once

#include "daemon/util.h"

typedef enum ExitCode {
        CTL_EXIT_OK = 0,
        CTL_EXIT_FAILURE = 1,
        CTL_EXIT_USAGE = 2,
        CTL_EXIT_NOT_FOUND = 3,
        CTL_EXIT_NOT_PERMITTED = 4,
        CTL_EXIT_NOT_SUPPORTED = 5,
        CTL_EXIT_INCOMPLETE = 6,
} ExitCode;

typedef struct ExitMeaning {
        ExitCode code;
        const char *meaning;
} ExitMeaning;

extern const ExitMeaning exit_meanings[];
extern const size_t n_exit_meanings;

/* A negative errno of the probe → the code that tells its kind. */
ExitCode exit_from_errno(int error);

/* One line on stderr, behind the program's name. Returns code, so that a failure is one statement. */
ExitCode exit_complain(ExitCode code, const char *format, ...) _printf_(2, 3);
ExitCode exit_out_of_memory(void);
/*
 * What became of the output, 0 or a negative errno → a code, after complaining. -EIO is CTL_EXIT_OK here: that the stream failed is told,
 * or not told, once at the end, when it is closed.
 */
ExitCode exit_from_output(int r);
