/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * That nothing stays behind: the frame of the host tests ended by a signal, by a crash, by time, by a failure, killed itself. Each time
 * there are cgroups three deep with a process inside, and a mount.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/names.h"
#include "tests/common/cgroups.h"
#include "tests/common/mounts.h"
#include "tests/common/supervise.h"

static enum { WAIT, ABORT, FAIL, GOOD } what;
static unsigned n_points, n_failed;

static void point(bool good, const char *name) {
        printf("%s %u - %s\n", good ? "ok" : "not ok", ++n_points, name);
        n_failed += !good;
}

static int sleeper(void) {
        int fd = cgroup_make(cgroups_fd(), "a"), deep;

        if (fd < 0 || cgroup_switch_memory(fd, true) < 0)
                return 1;
        deep = cgroup_make(fd, "b");
        if (deep < 0 || cgroup_make(fd, "c") < 0 || mounts_make(3) < 0)
                return 1;
        if (fork() == 0) {
                (void)setsid(); /* out of the process group, too */
                (void)cgroup_enter(deep);
                for (;;)
                        (void)pause();
        }
        (void)usleep(100000);
        puts("# ready");
        switch (what) {
        case ABORT:
                abort();
        case FAIL:
                return 1;
        case GOOD:
                return 0;
        default:
                for (;;)
                        (void)pause();
        }
}

/* Runs the frame in a child; signal: sent to it once the tests are there. Returns its wait status, its pid in *ret_pid. */
static int frame(int number, unsigned limit_sec, pid_t *ret_pid) {
        int out[2], status = -1;
        char line[256];
        pid_t pid;
        FILE *f;

        (void)fflush(stdout);
        if (pipe(out) < 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                (void)dup2(out[1], STDOUT_FILENO);
                (void)close(out[0]);
                (void)close(out[1]);
                exit(supervise(&(Supervised){ .name = "frame", .limit_sec = limit_sec, .run = sleeper }));
        }
        (void)close(out[1]);
        f = fdopen(out[0], "r");
        while (f && fgets(line, sizeof(line), f))
                if (strcmp(line, "# ready\n") == 0 && number)
                        (void)kill(pid, number);
        if (f)
                (void)fclose(f);
        (void)waitpid(pid, &status, 0);
        *ret_pid = pid;
        return status;
}

static bool left(pid_t pid) {
        char path[256];
        struct stat st;
        Names *n = NULL;
        bool is;

        if (names_new(&n) < 0)
                return true;
        (void)snprintf(path, sizeof(path), "%s/" OWN_PREFIX "%d", n->mount_point, (int)pid);
        is = stat(path, &st) == 0;
        (void)snprintf(path, sizeof(path), "/tmp/" OWN_PREFIX "%d", (int)pid);
        is = is || stat(path, &st) == 0;
        names_free(n);
        return is;
}

static bool failed(int status) {
        return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

int main(void) {
        pid_t pid, killed;
        int status;

        if (geteuid() != 0) {
                puts("1..1\nok 1 - host-cleanup # SKIP needs root");
                return 0;
        }
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        /* What a killed frame leaves is ours to wait for. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        puts("1..8");
        status = frame(SIGTERM, 60, &pid);
        point(failed(status) && !left(pid), "SIGTERM: the run has failed, nothing is left");
        status = frame(SIGINT, 60, &pid);
        point(failed(status) && !left(pid), "SIGINT: the run has failed, nothing is left");
        status = frame(0, 2, &pid);
        point(failed(status) && !left(pid), "the time is up: the run has failed, nothing is left");
        what = ABORT;
        status = frame(0, 60, &pid);
        point(failed(status) && !left(pid), "a crash: the run has failed, nothing is left");
        what = FAIL;
        status = frame(0, 60, &pid);
        point(failed(status) && !left(pid), "a failure: the run has failed, nothing is left");
        what = WAIT;
        status = frame(SIGKILL, 60, &killed);
        point(WIFSIGNALED(status), "SIGKILL: the run is gone");
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        what = GOOD;
        status = frame(0, 60, &pid);
        point(WIFEXITED(status) && WEXITSTATUS(status) == 0 && !left(pid), "a good end: nothing is left");
        point(!left(killed), "the next run removes what the killed one left");
        return n_failed ? 1 : 0;
}
