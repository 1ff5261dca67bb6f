/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The daemon, asked over the bus: org.shrinkwatch1. Values come as JSON, which is printed as it is, or looked at by name. */
#pragma once

#include <jansson.h>
#include <systemd/sd-bus.h>

#include "exit.h"

#define CLIENT_NAME "org.shrinkwatch1"
#define CLIENT_PATH "/org/shrinkwatch1"
#define CLIENT_MANAGER CLIENT_NAME ".Manager"
#define CLIENT_FINDING CLIENT_NAME ".Finding"
#define CLIENT_SUBTREE CLIENT_NAME ".Subtree"

/* A connection to the system bus. CTL_EXIT_OK, or another code after complaining. */
ExitCode client_open(sd_bus **ret);

/* r and error: of a call that failed. Complains, with what to do about it. */
ExitCode client_failed(int r, const sd_bus_error *error);

/*
 * The next value of a message, whole. Numbers that mean "not known" (the highest of 64 bits, NaN) and descriptors are null, ay is text for people, a
 * dictionary an object, every other array and struct an array. NULL: memory is out, or the message is not what it says.
 */
json_t *client_read(sd_bus_message *m);

/* All properties of an object; new reference. */
ExitCode client_get_all(sd_bus *bus, const char *path, const char *interface, json_t **ret);
/* GetManagedObjects(): path → interface → property → value; new reference. */
ExitCode client_get_objects(sd_bus *bus, json_t **ret);

/* Members of an object. False: there is no such one, or it is null. */
bool client_get_u64(const json_t *object, const char *key, uint64_t *ret);
bool client_get_real(const json_t *object, const char *key, double *ret);
/* Never NULL. */
const char *client_get_string(const json_t *object, const char *key);
