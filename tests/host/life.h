/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Cgroups whose lives a test has written down itself, to compare with what the events say. What fails ends the running test. */
#pragma once

#include "daemon/events.h"

typedef struct Life {
        char name[256];
        uint64_t id;
        uint64_t serial;                             /* by a census */
        uint32_t level;                              /* too */
        uint64_t made_before, made_after;            /* CLOCK_BOOTTIME, usec */
        uint64_t removed_before, removed_after;
        /* by the records of the ring */
        unsigned created, removed, released;
        uint64_t created_serial, removed_serial;
        uint64_t created_usec, removed_usec;
} Life;

typedef struct Lives {
        Life *lives;
        size_t n;
        Events *events;
        uint64_t records; /* whoever's they are */
} Lives;

uint64_t boot_usec(void);

void life_make(Life *l, int parent, const char *name);
/* Serial and level of each from one census, which must find them all live. */
void life_look(Life *lives, size_t n);
void life_remove(Life *l, int parent);
/* "ev0", "ev1", ... made, looked at and removed below our own cgroup. */
void lives_pass(Life *lives, size_t n);

/* Fails when a record breaks the contract of bpf/record.h. userdata: a Lives. */
void life_record(const struct sw_event *event, void *userdata);
/* Drains the ring, again and again, until each has been released. False after 30 s. */
bool lives_released(Lives *l);

/* NULL: there is none. */
const EventsDeath *find_death(const EventsDeath *deaths, size_t n, uint64_t serial);
/* Each has an exact time, which lies in its removal. */
void expect_deaths(const Events *e, const Life *lives, size_t n);
void expect_no_death(const Events *e, const Life *lives, size_t n);

Events *fresh_events(uint32_t max_deaths);
EventsCounts counts_of(const Events *e);
