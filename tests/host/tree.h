/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A tree of cgroups that we make and remove ourselves, with a model of it: what has to be in a census, what may be, and what cannot.
 * Each cgroup ever made has a number, which is in its name.
 */
#pragma once

#include <stdint.h>

#include "daemon/census.h"

#define TREE_NONE UINT32_MAX

typedef struct TreeNode {
        uint64_t id; /* cgroup id */
        uint32_t parent, first_child, next_sibling, previous_sibling, last_child;
        int held;       /* a socket that keeps its memcg, -1 */
        bool there;     /* its directory */
        bool at_start;  /* it was there, or its memcg held, when the walk began */
        uint32_t seen;  /* records of it in this walk */
} TreeNode;

typedef struct Tree {
        TreeNode *nodes;
        size_t n, allocated;
        uint32_t n_there, n_held;
        uint64_t random;
        int fd; /* of node 0, the top */
} Tree;

int tree_begin(Tree *t, const char *name, uint64_t seed);
void tree_end(Tree *t);
uint64_t tree_random(Tree *t, uint64_t below);

/* The new cgroup's number; negative errno. */
int64_t tree_add(Tree *t, uint32_t parent);
/* Removes the cgroup and all below it, bottom-up. */
int tree_remove(Tree *t, uint32_t i);
/* Keeps its memcg alive by a socket. -EOPNOTSUPP where that cannot be done. */
int tree_hold(Tree *t, uint32_t i);
/* Lets go of all that are held and removed. */
void tree_let_go(Tree *t);
uint32_t tree_level(const Tree *t, uint32_t i); /* 0: the top */
void tree_name(uint32_t i, char *buf, size_t size);
/* A cgroup that is there, at random. */
uint32_t tree_pick(Tree *t);
uint32_t tree_find(const Tree *t, uint64_t id);

/* Remembers what exists now. */
void tree_start_walk(Tree *t);
/* Compares a sealed census with the model. Ends the test when something is missing, there twice, invented or in the wrong place. */
void tree_check(Tree *t, const Census *c, const char *what);
