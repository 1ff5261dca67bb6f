/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Extended attributes of cgroups: user.shrinkwatch.overhead, a size as in shrinkwatchd.conf. Only those of cgroups that root owns count: who has a cgroup
 * delegated can set any attribute there, and the watched must not give the watcher work. An attribute makes a limit stricter, never looser (see finding.h),
 * so what is read wrong can cost an entry in the journal, but hides nothing.
 */
#include <linux/limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "manager-internal.h"

#define ATTRIBUTE "user.shrinkwatch.overhead"
#define VALUE_MAX 64
/* All cgroups are asked once in so many censuses, new ones with the next. */
#define FULL_EVERY 10

/* 1: there is one, in *ret; 0: none that counts. buf: for the path. */
static int read_mark(const Manager *m, uint32_t i, char *buf, size_t size, uint64_t *ret) {
        const Census *c = m->reading->census;
        _cleanup_(freep) char *path = NULL;
        char value[VALUE_MAX + 1];
        struct stat st;
        uint64_t bytes;
        ssize_t n;
        size_t len;
        int r;

        path = census_path(c, i, &len);
        if (!path)
                return -ENOMEM;
        r = snprintf(buf, size, "%s%s", m->names->mount_point, path);
        if (r < 0 || (size_t)r >= size)
                return 0; /* deeper than a path can say */
        n = getxattr(buf, ATTRIBUTE, value, VALUE_MAX);
        if (n <= 0)
                return 0;
        /*
         * Is it this very cgroup? The mount may show another part of the tree (a cgroup namespace), and a directory may have been made anew
         * since the census: the inode number is the cgroup's id.
         */
        if (stat(buf, &st) < 0 || st.st_uid != 0 || !(c->memcgs[i].valid & SW_MEMCG_CGROUP) || st.st_ino != c->memcgs[i].cgroup_id)
                return 0;
        value[n] = '\0';
        if (strlen(value) != (size_t)n || conf_parse_bytes(value, m->memory_bytes, &bytes) < 0 || bytes == 0)
                return 0;
        *ret = bytes;
        return 1;
}

void manager_read_marks(Manager *m) {
        const Census *c = m->reading->census;
        _cleanup_(freep) FindingMark *marks = NULL;
        bool full = m->snapshot.censuses % FULL_EVERY == 0;
        size_t n = 0, allocated = 0, old = 0;
        char buf[PATH_MAX];

        if (!m->conf->conf.marks || !m->names) {
                free(TAKE_PTR(m->marks));
                m->n_marks = 0;
                return;
        }

        /* In ascending serial, as the old marks are: each old one is met on the way, or its cgroup is gone. */
        for (size_t k = 0; k < c->n_memcgs; k++) {
                uint32_t i = c->by_serial[k];
                const CensusMemcg *memcg = c->memcgs + i;
                uint64_t bytes = 0;
                int r = 0;

                while (old < m->n_marks && m->marks[old].serial < memcg->serial)
                        old++;
                if (memcg->state != CENSUS_LIVE || memcg->parent == CENSUS_NONE)
                        continue;
                if (full || memcg->serial > m->marks_highest) {
                        r = read_mark(m, i, buf, sizeof(buf), &bytes);
                } else if (old < m->n_marks && m->marks[old].serial == memcg->serial) {
                        bytes = m->marks[old].overhead_on;
                        r = 1;
                }
                if (r > 0)
                        r = grow_array(&marks, &allocated, n + 1, sizeof(*marks));
                if (r < 0)
                        return; /* memory is out: those of the last time stay */
                if (bytes > 0 && marks)
                        marks[n++] = (FindingMark){ .serial = memcg->serial, .overhead_on = bytes };
        }
        free(m->marks);
        m->marks = TAKE_PTR(marks);
        m->n_marks = n;
        m->marks_highest = c->totals.highest_serial;
}
