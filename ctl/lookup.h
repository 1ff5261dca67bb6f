/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a person wrote → the memcg that is meant. */
#pragma once

#include "daemon/census.h"
#include "daemon/names.h"
#include "exit.h"

/*
 * word: a serial ("412", "@412") or a path, below the root of the hierarchy or below its mount point, raw or as it is printed with
 * escapes. names may be NULL. CTL_EXIT_OK with the index in *ret, or CTL_EXIT_NOT_FOUND after complaining: of a cgroup without the memory
 * controller, or with the nearest path if there is one that is near.
 */
ExitCode lookup_memcg(const Census *c, const char *word, const Names *names, uint32_t *ret);

/*
 * Other memcgs with the path of this one: at most max indices in *ret, their full number returned.
 */
size_t lookup_namesakes(const Census *c, uint32_t memcg, uint32_t *ret, size_t max);
