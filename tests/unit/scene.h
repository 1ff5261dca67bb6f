/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A host whose overhead is in round figures, for the tests of findings: 1,000 bytes a unit and nothing for the arrays. */
#pragma once

#include "builder.h"
#include "finding.h"

#define SCENE_PAGE 4096
#define SECOND UINT64_C(1000000)

typedef struct Scene {
        Findings *findings;
        FindingLimits limits; /* all disabled at first */
        FindingInput input;   /* what the next census tells, beside what is built below; complete */
        Ages *ages;
        bool no_pins;            /* input.pins is NULL */
        bool writeback_unknown;  /* as pins_seal() has it */
        Records walk, evidence;  /* of the next census */
        Census *census;          /* of the last one */
        Pins *pins;
} Scene;

void scene_start(Scene *s);
void scene_done(Scene *s);
/* on and off; enabled, without a minimal age. */
FindingLimit *scene_limit(Scene *s, FindingKind kind, uint64_t on, uint64_t off);
/* A memcg of the next census, in pre-order; 0 references to it and to its id; the root is serial 1. */
struct sw_memcg *scene_add(Scene *s, uint64_t serial, uint64_t parent, uint32_t css, const char *name, uint32_t units);
/* Takes the census. Returns the number of changes, or the error. */
int scene_census(Scene *s, uint64_t boot_usec);
/* What findings_write() writes for the boot "boot"; to be freed. */
char *scene_state(const Findings *f);
