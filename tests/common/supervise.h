/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frame of a host test program. The tests run in a child, in a mount namespace of their own; the parent waits, and whatever becomes
 * of the child (a failed assertion, a crash, a signal to either, the time being up) ends what the tests started and removes what
 * they made. What a killed parent left behind, the next run removes.
 */
#pragma once

#include <stdbool.h>

#include "daemon/util.h"

/* Everything we make has this prefix, followed by the process id of the parent. */
#define OWN_PREFIX "shrinkwatch-test-"

typedef struct Supervised {
        const char *name;   /* of the program, for messages */
        unsigned limit_sec; /* after this the child is killed and the test has failed */
        int (*run)(void);   /* the tests: a cmocka group, its result */
        bool without_memory; /* also where there is no memory hierarchy: no cgroups are prepared */
} Supervised;

/* The whole of main(). Prints TAP; without root, one skipped point. Returns the exit code. */
int supervise(const Supervised *s);

/* A directory of our own, seen by others as an empty one: mounts in it are ours alone. */
const char *own_scratch(void);
/* OWN_PREFIX and the process id. */
const char *own_name(void);

/* SHRINKWATCH_TEST_SLOW is set: an emulated machine. Tests do half, and have three times as long for it. */
bool own_slow(void);

/* A line of TAP diagnostics. */
_printf_(1, 2) void note(const char *format, ...);
/* Ends the running test as skipped, with the reason in the TAP line: cmocka has none to give. */
_printf_(1, 2) _Noreturn void skip_test(const char *format, ...);
/* Ends the running test as failed. */
_printf_(1, 2) _Noreturn void fail_test(const char *format, ...);
