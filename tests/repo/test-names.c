/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The libcgroup adapter on this host: the mount point against /proc/self/mounts, v2 against the file system's type there, and silence
 * on stdout and stderr, also when libcgroup cannot read /proc/cgroups and when no memory hierarchy is mounted.
 */
#include <fcntl.h>
#include <libcgroup.h>
#include <mntent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/names.h"
#include "daemon/util.h"

static unsigned n_points, n_failed;

_printf_(2, 3) static void point(bool good, const char *format, ...) {
        va_list ap;

        printf("%s %u - ", good ? "ok" : "not ok", ++n_points);
        va_start(ap, format);
        vprintf(format, ap);
        va_end(ap);
        putchar('\n');
        n_failed += !good;
}

static void skip(const char *name, const char *reason) {
        printf("ok %u - %s # SKIP %s\n", ++n_points, name, reason);
}

static bool has_word(const char *list, const char *word) {
        size_t len = strlen(word);

        for (const char *p = list; (p = strstr(p, word)); p += len)
                if ((p == list || p[-1] == ',') && (p[len] == '\0' || p[len] == ','))
                        return true;
        return false;
}

/* The other opinion: the first v1 mount with the memory controller, else the v2 mount that has it. 1 v1, 2 v2, 0 none. */
static int mounted(char *path, size_t size) {
        struct mntent *m;
        int found = 0;
        FILE *f = setmntent("/proc/self/mounts", "r");

        if (!f)
                return 0;
        while (found != 1 && (m = getmntent(f))) {
                bool v2 = strcmp(m->mnt_type, "cgroup2") == 0;

                if (!(v2 && found == 0) && !(strcmp(m->mnt_type, "cgroup") == 0 && has_word(m->mnt_opts, "memory")))
                        continue;
                if (v2) {
                        char controllers[4096 + 32], text[512] = "";
                        FILE *c;

                        snprintf(controllers, sizeof(controllers), "%s/cgroup.controllers", m->mnt_dir);
                        c = fopen(controllers, "r");
                        if (!c)
                                continue;
                        if (!fgets(text, sizeof(text), c))
                                text[0] = '\0';
                        fclose(c);
                        if (!strstr(text, "memory"))
                                continue;
                }
                snprintf(path, size, "%s", m->mnt_dir);
                found = v2 ? 2 : 1;
        }
        endmntent(f);
        return found;
}

/* Runs fn in a child with stdout and stderr in a file. Returns the child's exit code, -1 when it died; *ret_bytes: what it wrote. */
static int silent(int (*fn)(void), off_t *ret_bytes) {
        FILE *out = tmpfile();
        struct stat st;
        int status;
        pid_t pid;

        if (!out)
                return -1;
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                int r;

                dup2(fileno(out), STDOUT_FILENO);
                dup2(fileno(out), STDERR_FILENO);
                r = fn();
                fflush(stdout); /* libcgroup prints through stdio */
                _exit(r);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || fstat(fileno(out), &st) < 0) {
                fclose(out);
                return -1;
        }
        fclose(out);
        *ret_bytes = st.st_size;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_names(void) {
        Names *n = NULL;
        int r = names_new(&n);

        names_free(n);
        return r < 0 ? -r : 0;
}

static int private_mounts(void) {
        return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

enum { CHILD_NO_NAMESPACE = 200 };

static int child_no_proc_cgroups(void) {
        if (private_mounts() < 0 || mount("tmpfs", "/proc", "tmpfs", 0, NULL) < 0)
                return CHILD_NO_NAMESPACE;
        return child_names();
}

static int child_no_hierarchy(void) {
        if (private_mounts() < 0)
                return CHILD_NO_NAMESPACE;
        /* umount2() until nothing is left: hierarchies lie over and below each other. */
        while (umount2("/sys/fs/cgroup", MNT_DETACH) == 0)
                ;
        return child_names();
}

/* The control: the same library without our logger does write, or the silence would prove nothing. */
static int child_without_logger(void) {
        if (private_mounts() < 0 || mount("tmpfs", "/proc", "tmpfs", 0, NULL) < 0)
                return CHILD_NO_NAMESPACE;
        (void)cgroup_init();
        return 0;
}

static void check_control(void) {
        const char *name = "libcgroup without our logger writes";
        off_t bytes = 0;
        int r = silent(child_without_logger, &bytes);

        if (r == CHILD_NO_NAMESPACE)
                skip(name, "no mount namespace of our own: not root, or in a chroot");
        else
                point(r == 0 && bytes > 0, "%s: %lld bytes", name, (long long)bytes);
}

static void check_silence(const char *name, int (*fn)(void), int expected) {
        off_t bytes = 0;
        int r = silent(fn, &bytes);

        if (r == CHILD_NO_NAMESPACE) {
                skip(name, "no mount namespace of our own: not root, or in a chroot");
                return;
        }
        point(r == expected && bytes == 0, "%s: error %d, %lld bytes written", name, r, (long long)bytes);
}

int main(void) {
        _cleanup_(freep) char *deep = NULL;
        char path[4096];
        int version = mounted(path, sizeof(path)), r;
        Names *n = NULL;

        if (version == 0) {
                puts("1..0 # SKIP no memory hierarchy is mounted here");
                return 0;
        }

        check_control(); /* first: a logger once set stays */

        r = names_new(&n);
        point(r == 0, "names_new(): %d", r);
        if (r == 0) {
                point(strcmp(n->mount_point, path) == 0, "the mount point is %s", n->mount_point);
                point(n->v2 == (version == 2), "it is v%d", n->v2 ? 2 : 1);
                point(names_exists(n, "/") == 1, "the root exists");
                point(names_exists(n, "/no-such-cgroup/below") == 0, "what is not there does not");
                point(names_exists(n, "/..") == 0, "there is no way out of the hierarchy");
                point(names_exists(n, "/cgroup.procs") == 0, "a file is no cgroup");
                deep = calloc(1, 20001);
                if (deep) {
                        for (size_t i = 0; i < 20000; i++)
                                deep[i] = i % 2 ? 'a' : '/';
                        point(names_exists(n, deep) == 0, "a path longer than PATH_MAX is looked up");
                }
                names_free(n);
        }
        check_silence("nothing is written", child_names, 0);
        check_silence("nothing is written when /proc/cgroups cannot be read", child_no_proc_cgroups, ENOENT);
        check_silence("nothing is written when no hierarchy is mounted", child_no_hierarchy, ENOENT);
        printf("1..%u\n", n_points);
        return n_failed > 0;
}
