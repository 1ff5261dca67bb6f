/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A reading as JSON: the document of docs/census.schema.json, for the command line and for the daemon. The only place that knows its
 * members. Bytes that are no text (paths, devices) are escaped for people here.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "probe.h"
#include "reading.h"

#define JSON_SCHEMA 1

/* What of a reading goes into the document, and in which order. Totals are always those of the whole census. */
typedef struct JsonSelection {
        const uint32_t *memcgs; /* indices in the census; NULL: all of them in tree order */
        size_t n_memcgs;
        size_t matched;             /* memcgs that the filter let through, before the limit */
        const char *state;          /* filter, "dying", "live", or NULL for none */
        const char *sort;           /* name of the column sorted by, NULL for tree order */
        const char *const *members; /* members of a memcg to keep, NULL for all */
        size_t n_members;
} JsonSelection;

/*
 * Writes the document and a newline, memcg by memcg, so that memory does not grow with the host. selection may be NULL. Returns 0,
 * -ENOMEM, or -EIO when the stream failed (errno is then the stream's). What was written until then is no valid document.
 */
int json_write_reading(FILE *f, const ProbeFacts *facts, const Reading *reading, const JsonSelection *selection);
/* Writes one value and a newline. Takes the reference; a NULL value is -ENOMEM. Same returns. */
int json_write_value(FILE *f, json_t *value);
/*
 * Writes an object and a newline, with one member more, an array of n values, each a line: item() makes them one by one. Takes the
 * reference of the object, which has members. Same returns; NULL from item() is -ENOMEM.
 */
int json_write_list(FILE *f, json_t *object, const char *key, size_t n, json_t *(*item)(size_t i, void *userdata), void *userdata);

/* The members of the document. reading may be NULL for the host: what only a census tells is then null. NULL: memory is out. */
json_t *json_host(const ProbeFacts *facts, const Reading *reading);
json_t *json_totals(const ProbeFacts *facts, const Reading *reading);
json_t *json_memcg(const ProbeFacts *facts, const Reading *reading, uint32_t memcg);
/* Adds path, and path_bytes where that differs. Returns as the setters below. */
int json_put_path(json_t *object, const Census *census, uint32_t memcg);
/* Swap alone, in pages, also where the kernel counts memory and swap together (v1). False when this kernel does not tell. */
bool json_swap_pages(const CensusMemcg *m, uint64_t *ret);

/*
 * Setters, one for each type, so that nothing goes through unchecked arguments. Each returns 0, or -1 when memory is out: or them
 * together. Numbers above INT64_MAX, which only saturated sums reach, are written as INT64_MAX.
 */
int json_put(json_t *object, const char *key, json_t *value); /* takes the reference of value */
int json_put_u64(json_t *object, const char *key, uint64_t value);
int json_put_i64(json_t *object, const char *key, int64_t value);
int json_put_known(json_t *object, const char *key, bool known, uint64_t value); /* null when not known */
int json_put_bool(json_t *object, const char *key, bool value);
int json_put_real(json_t *object, const char *key, double value);
int json_put_null(json_t *object, const char *key);
int json_put_text(json_t *object, const char *key, const char *text);                /* UTF-8; null for NULL */
int json_put_bytes(json_t *object, const char *key, const char *bytes, size_t size); /* escaped; null for NULL */
