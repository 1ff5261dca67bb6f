/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Advice: one table, from what was found to what can be done about it. For the journal, the catalog's text and the command line. */
#pragma once

#include "finding.h"

typedef struct Advice {
        const char *means;   /* one sentence: what the finding says */
        const char *safe;    /* what is safe to do */
        const char *costs;   /* what helps and costs something; "" when there is nothing */
        const char *never;   /* what not to do; "" when there is nothing */
        const char *setting; /* the key in [Limits] of shrinkwatchd.conf that governs it */
} Advice;

/* Never NULL for a kind; NULL for what is none. Whole sentences in one line. */
const Advice *advice_get(FindingKind kind);
