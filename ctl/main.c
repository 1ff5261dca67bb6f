/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shrinkwatchctl: how much shrinker memory each memory cgroup holds, whose it is, and what keeps the dying ones. */
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "exit.h"
#include "options.h"
#include "verb.h"
#include "watch.h"

/*
 * A standard descriptor that the caller closed would go to the next file or BPF object that is opened, and what is printed into it.
 * So each is taken: opened the wrong way round, it fails when it is used, as a closed one would.
 */
static void occupy_standard_descriptors(void) {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
                        return;
}

/* Nobody reads stdout any more. Asked of the descriptor, since errno of the write that failed is long gone. */
static bool reader_gone(void) {
        struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

        return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

/*
 * Output that was lost is a failure, but a reader that has seen enough is none: "census | head" ends quietly. A full disk shows only
 * here when all of the output fitted into the buffer.
 */
static ExitCode close_output(ExitCode code) {
        bool failed = ferror(stdout), quiet;
        int error = errno;

        /* A write that failed before has left its errno, if nothing else has failed since; one that failed now, for sure. */
        if (!failed || (error != ENOSPC && error != EDQUOT && error != EFBIG))
                error = 0;
        errno = 0;
        if (fflush(stdout) != 0) {
                failed = true;
                error = errno;
        }
        quiet = error == EPIPE || reader_gone() || watch_interrupted();
        failed |= fclose(stdout) != 0;

        if (!failed || quiet)
                return code;
        return exit_complain(CTL_EXIT_FAILURE, "cannot write the output: %s", strerror(error ? error : EIO));
}

int main(int argc, char *argv[]) {
        Options options = {};
        bool done = false;
        ExitCode code;

        occupy_standard_descriptors();
        (void)setlocale(LC_ALL, "");
        (void)signal(SIGPIPE, SIG_IGN);

        code = options_parse(argc, argv, &options, &done);
        if (code == CTL_EXIT_OK && !done)
                code = options.verb->run(&options);
        code = close_output(code);
        return (int)code;
}
