/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "exit.h"

#include <stdarg.h>
#include <stdio.h>

const ExitMeaning exit_meanings[] = {
        { CTL_EXIT_OK, "Success." },
        { CTL_EXIT_FAILURE, "Something failed: no memory, output not written, a file of configuration not read." },
        { CTL_EXIT_USAGE, "The command line was not understood." },
        { CTL_EXIT_NOT_FOUND, "No such memory cgroup." },
        { CTL_EXIT_NOT_PERMITTED, "Not permitted: a capability is missing, or the kernel refuses BPF." },
        { CTL_EXIT_NOT_SUPPORTED, "Not on this kernel: no BTF, memory controller, known layout, or shrinker ids." },
        { CTL_EXIT_INCOMPLETE, "The census is not complete." },
};
const size_t n_exit_meanings = ELEMENTSOF(exit_meanings);

ExitCode exit_from_errno(int error) {
        switch (error) {
        case -EPERM:
        case -EACCES:
                return CTL_EXIT_NOT_PERMITTED;
        case -ENOENT:
        case -EOPNOTSUPP:
                return CTL_EXIT_NOT_SUPPORTED;
        case -EAGAIN: /* cgroups came and went faster than they could be read */
                return CTL_EXIT_INCOMPLETE;
        default:
                return CTL_EXIT_FAILURE;
        }
}

ExitCode exit_complain(ExitCode code, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;

        (void)fflush(stdout); /* what was printed comes before the complaint, also when both go to one file */
        (void)fprintf(stderr, "shrinkwatchctl: %s\n", text ? text : "out of memory");
        return code;
}

ExitCode exit_out_of_memory(void) {
        return exit_complain(CTL_EXIT_FAILURE, "out of memory");
}

ExitCode exit_from_output(int r) {
        if (r >= 0 || r == -EIO)
                return CTL_EXIT_OK;
        if (r == -ENOMEM)
                return exit_out_of_memory();
        return exit_complain(CTL_EXIT_FAILURE, "cannot make the output: %s", strerror(-r));
}
