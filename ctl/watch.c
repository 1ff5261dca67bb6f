/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL

static volatile sig_atomic_t interrupted;
static int sink = -1; /* /dev/null */

/*
 * Whoever stopped the terminal with Ctrl-S, or does not empty the pipe, still wants Ctrl-C to end the program. The write that waits comes
 * back with EINTR, and stdio would only begin the next one: from here on output goes nowhere.
 */
static void on_signal(int signal_number) {
        int saved = errno;

        (void)signal_number;
        interrupted = 1;
        (void)dup2(sink, STDOUT_FILENO);
        errno = saved;
}

static uint64_t now_nsec(void) {
        struct timespec ts;

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int watch_begin(Watch *ret, uint64_t period_sec) {
        /* No SA_RESTART, so that a write comes back. A second Ctrl-C ends the program at once. */
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

        if (sink < 0)
                sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (sink < 0)
                return -errno;
        if (sigaction(SIGINT, &action, NULL) < 0 || sigaction(SIGTERM, &action, NULL) < 0)
                return -errno;
        *ret = (Watch){ .period_sec = period_sec, .next_nsec = now_nsec() };
        return 0;
}

bool watch_wait(Watch *w) {
        uint64_t period = w->period_sec * NSEC_PER_SEC, now = now_nsec();
        sigset_t block, before;

        w->next_nsec += period;
        if (w->next_nsec <= now)
                w->next_nsec = now + period;

        /* Blocked but inside ppoll(): a signal between the look at the flag and the wait is not slept over. */
        (void)sigemptyset(&block);
        (void)sigaddset(&block, SIGINT);
        (void)sigaddset(&block, SIGTERM);
        (void)sigprocmask(SIG_BLOCK, &block, &before);
        while (!interrupted && now < w->next_nsec) {
                uint64_t left = w->next_nsec - now;
                struct timespec ts = { .tv_sec = (time_t)(left / NSEC_PER_SEC), .tv_nsec = (long)(left % NSEC_PER_SEC) };

                if (ppoll(NULL, 0, &ts, &before) < 0 && errno != EINTR)
                        break;
                now = now_nsec();
        }
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        return !interrupted;
}

bool watch_interrupted(void) {
        return interrupted;
}
