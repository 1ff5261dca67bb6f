/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <stdio.h>

#include "tests/common/cgroups.h"
#include "tests/common/look.h"
#include "tests/common/supervise.h"
#include "tree.h"

uint64_t tree_random(Tree *t, uint64_t below) {
        /* xorshift64*: a fixed seed gives the same tree and the same removals */
        t->random ^= t->random >> 12;
        t->random ^= t->random << 25;
        t->random ^= t->random >> 27;
        return below ? (t->random * UINT64_C(0x2545f4914f6cdd1d) >> 20) % below : 0;
}

void tree_name(uint32_t i, char *buf, size_t size) {
        (void)snprintf(buf, size, "n%u", i);
}

static int node_new(Tree *t, uint32_t parent, uint64_t id) {
        TreeNode *n;
        int r = grow_array(&t->nodes, &t->allocated, t->n + 1, sizeof(*t->nodes));

        if (r < 0)
                return r;
        n = t->nodes + t->n;
        *n = (TreeNode){ .id = id, .parent = parent, .first_child = TREE_NONE, .last_child = TREE_NONE, .next_sibling = TREE_NONE, .previous_sibling = TREE_NONE, .held = -1, .there = true };
        if (parent != TREE_NONE) {
                TreeNode *p = t->nodes + parent;

                n->previous_sibling = p->last_child;
                if (p->last_child != TREE_NONE)
                        t->nodes[p->last_child].next_sibling = (uint32_t)t->n;
                else
                        p->first_child = (uint32_t)t->n;
                p->last_child = (uint32_t)t->n;
        }
        t->n++;
        t->n_there++;
        return 0;
}

int tree_begin(Tree *t, const char *name, uint64_t seed) {
        int r;

        *t = (Tree){ .random = seed * 2 + 1, .fd = cgroup_make(cgroups_fd(), name) };
        if (t->fd < 0)
                return t->fd;
        r = cgroup_switch_memory(t->fd, true);
        return r < 0 ? r : node_new(t, TREE_NONE, cgroup_id_fd(t->fd));
}

void tree_end(Tree *t) {
        for (size_t i = 0; i < t->n; i++)
                t->nodes[i].held = safe_close(t->nodes[i].held);
        free(t->nodes);
        t->fd = safe_close(t->fd);
        *t = (Tree){ .fd = -1 };
}

static int node_open(const Tree *t, uint32_t i) {
        char name[16];
        int up, fd;

        if (i == 0)
                return dup(t->fd);
        up = node_open(t, t->nodes[i].parent);
        if (up < 0)
                return up;
        tree_name(i, name, sizeof(name));
        fd = openat(up, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                fd = -errno;
        safe_close(up);
        return fd;
}

int64_t tree_add(Tree *t, uint32_t parent) {
        _cleanup_(closep) int up = node_open(t, parent), fd = -1;
        char name[16];
        int r;

        if (up < 0)
                return up;
        tree_name((uint32_t)t->n, name, sizeof(name));
        fd = cgroup_make(up, name);
        if (fd < 0)
                return fd;
        /* At once, while it is empty: a cgroup with processes cannot any more. */
        r = cgroup_switch_memory(fd, true);
        if (r >= 0)
                r = node_new(t, parent, cgroup_id_fd(fd));
        return r < 0 ? r : (int64_t)t->n - 1;
}

static int remove_below(Tree *t, uint32_t i, int up) {
        TreeNode *n = t->nodes + i;
        char name[16];
        int r = 0;

        if (!n->there)
                return 0;
        tree_name(i, name, sizeof(name));
        if (n->first_child != TREE_NONE) {
                _cleanup_(closep) int fd = openat(up, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if (fd < 0)
                        return -errno;
                for (uint32_t c = n->first_child; c != TREE_NONE && r >= 0; c = t->nodes[c].next_sibling)
                        r = remove_below(t, c, fd);
        }
        if (r >= 0)
                r = cgroup_remove(up, name);
        if (r < 0)
                return r;
        n->there = false;
        t->n_there--;
        /* Out of the list of those that are there; it keeps its own way on, for who is going through the list. */
        if (n->previous_sibling != TREE_NONE)
                t->nodes[n->previous_sibling].next_sibling = n->next_sibling;
        else
                t->nodes[n->parent].first_child = n->next_sibling;
        if (n->next_sibling != TREE_NONE)
                t->nodes[n->next_sibling].previous_sibling = n->previous_sibling;
        else
                t->nodes[n->parent].last_child = n->previous_sibling;
        return 0;
}

int tree_remove(Tree *t, uint32_t i) {
        _cleanup_(closep) int up = -1;

        if (i == 0 || !t->nodes[i].there)
                return 0;
        up = node_open(t, t->nodes[i].parent);
        return up < 0 ? up : remove_below(t, i, up);
}

int tree_hold(Tree *t, uint32_t i) {
        _cleanup_(closep) int fd = -1;
        int r;

        if (t->nodes[i].held >= 0)
                return 0;
        fd = node_open(t, i);
        if (fd < 0)
                return fd;
        /* On v2, processes live in leaves: no memory for children, for a moment. */
        r = t->nodes[i].first_child != TREE_NONE ? -EBUSY : cgroup_switch_memory(fd, false);
        if (r < 0)
                return r;
        r = hold_by_socket(fd);
        if (r < 0)
                return r;
        if (cgroup_switch_memory(fd, true) < 0) {
                safe_close(r);
                return -EIO;
        }
        t->nodes[i].held = r;
        t->n_held++;
        return 0;
}

void tree_let_go(Tree *t) {
        for (size_t i = 0; i < t->n; i++)
                if (t->nodes[i].held >= 0 && !t->nodes[i].there) {
                        t->nodes[i].held = safe_close(t->nodes[i].held);
                        t->n_held--;
                }
}

uint32_t tree_level(const Tree *t, uint32_t i) {
        uint32_t level = 0;

        for (; i != 0; i = t->nodes[i].parent)
                level++;
        return level;
}

uint32_t tree_pick(Tree *t) {
        /* The younger half of all ever made is mostly there. */
        for (unsigned k = 0; k < 64; k++) {
                uint32_t i = (uint32_t)tree_random(t, t->n);

                if (t->nodes[i].there)
                        return i;
        }
        return 0;
}

uint32_t tree_find(const Tree *t, uint64_t id) {
        /* Ids ascend with time. */
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (t->nodes[mid].id == id)
                        return (uint32_t)mid;
                if (t->nodes[mid].id < id)
                        low = mid + 1;
                else
                        high = mid;
        }
        for (size_t i = 0; i < t->n; i++) /* or not: they wrap once in 2^32 */
                if (t->nodes[i].id == id)
                        return (uint32_t)i;
        return TREE_NONE;
}

/* Those that exist: there, held, or above one that exists. Sets at_start with start, else counts what must have been seen. */
static void mark(const Tree *t, bool *exists) {
        for (size_t i = 0; i < t->n; i++)
                exists[i] = t->nodes[i].there || t->nodes[i].held >= 0;
        for (size_t i = t->n; i-- > 1;) /* parents have smaller numbers */
                if (exists[i])
                        exists[t->nodes[i].parent] = true;
}

void tree_start_walk(Tree *t) {
        bool *exists = calloc(t->n, sizeof(*exists));

        if (!exists)
                fail_test("out of memory");
        mark(t, exists);
        for (size_t i = 0; i < t->n; i++) {
                t->nodes[i].at_start = exists[i];
                t->nodes[i].seen = 0;
        }
        free(exists);
}

void tree_check(Tree *t, const Census *c, const char *what) {
        bool *exists = calloc(t->n, sizeof(*exists));
        uint32_t top = look_find(c, t->nodes[0].id, CENSUS_LIVE);
        uint32_t level;

        if (!exists)
                fail_test("out of memory");
        if (top == CENSUS_NONE)
                fail_test("%s: the top of the tree is missing", what);
        mark(t, exists);
        level = c->memcgs[top].level;
        for (uint32_t k = top; k < top + c->memcgs[top].subtree_memcgs; k++) {
                const CensusMemcg *m = c->memcgs + k;
                uint32_t i = tree_find(t, m->cgroup_id);
                char name[16];

                if (i == TREE_NONE)
                        fail_test("%s: invented: serial %llu, id %llu, \"%s\"", what, (unsigned long long)m->serial, (unsigned long long)m->cgroup_id,
                                  census_name(c, k));
                t->nodes[i].seen++;
                if (i == 0)
                        continue;
                tree_name(i, name, sizeof(name));
                if (strcmp(name, census_name(c, k)) != 0)
                        fail_test("%s: %s has the name \"%s\"", what, name, census_name(c, k));
                if (c->memcgs[m->parent].cgroup_id != t->nodes[t->nodes[i].parent].id)
                        fail_test("%s: %s is below the wrong parent", what, name);
                if (m->level != level + tree_level(t, i))
                        fail_test("%s: %s is at level %u, not %u", what, name, m->level, level + tree_level(t, i));
                if (t->nodes[i].there && t->nodes[i].at_start && m->state != CENSUS_LIVE)
                        fail_test("%s: %s is there all the time, and %s", what, name, census_state_to_string(m->state));
        }
        for (uint32_t i = 0; i < t->n; i++) {
                const TreeNode *n = t->nodes + i;

                if (n->seen > 1)
                        fail_test("%s: n%u is there %u times", what, i, n->seen);
                if (n->at_start && exists[i] && n->seen != 1)
                        fail_test("%s: missed: n%u at level %u, %s%s", what, i, tree_level(t, i), n->there ? "live" : "removed", n->held >= 0 ? ", held" : "");
        }
        free(exists);
}
