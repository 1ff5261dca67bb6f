/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ULL

static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number) {
        (void)signal_number;
        interrupted = 1;
}

static uint64_t now_nsec(void) {
        struct timespec ts;

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

int watch_begin(Watch *ret, uint64_t period_sec) {
        /* No SA_RESTART: a write to a terminal stopped with Ctrl-S has to come back too. */
        struct sigaction action = { .sa_handler = on_signal };

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
