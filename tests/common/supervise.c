/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <setjmp.h>
#include <cmocka.h>

#include "cgroups.h"
#include "supervise.h"

static char name[64], scratch[128];

const char *own_scratch(void) {
        return scratch;
}

const char *own_name(void) {
        return name;
}

bool own_slow(void) {
        return getenv("SHRINKWATCH_TEST_SLOW");
}

/* One write(2) a line: helpers of a test share the pipe. */
static void say(const char *prefix, const char *format, va_list ap) {
        char line[1024];
        int n, k;

        n = snprintf(line, sizeof(line), "%s", prefix);
        k = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
        n = k < 0 ? n : n + k;
        if (n > (int)sizeof(line) - 2)
                n = (int)sizeof(line) - 2;
        for (int i = 0; i < n; i++)
                if (line[i] == '\n')
                        line[i] = ' ';
        line[n++] = '\n';
        (void)fflush(stdout);
        while (write(STDOUT_FILENO, line, (size_t)n) < 0 && errno == EINTR)
                ;
}

void note(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        say("# ", format, ap);
        va_end(ap);
}

#define SKIP_LINE "# skip: "

void skip_test(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        say(SKIP_LINE, format, ap);
        va_end(ap);
        skip();
        abort();
}

void fail_test(const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        say("# failed: ", format, ap);
        va_end(ap);
        fail();
        abort();
}

/*
 * cmocka 1.1.5 says "not ok N # SKIP name", which is a failure to who reads TAP, later ones "ok N # SKIP name": both become
 * "ok N - name # SKIP reason".
 */
static void pass_on(const char *line, char *reason, size_t size) {
        const char *p = line;
        unsigned number;
        char test[256];

        if (strncmp(line, SKIP_LINE, strlen(SKIP_LINE)) == 0) {
                (void)snprintf(reason, size, "%s", line + strlen(SKIP_LINE));
                return;
        }
        if (strncmp(p, "not ", 4) == 0)
                p += 4;
        if (sscanf(p, "ok %u # SKIP %255s", &number, test) == 2 || sscanf(p, "ok %u - %255s # SKIP", &number, test) == 3) {
                printf("ok %u - %s # SKIP %s\n", number, test, reason[0] ? reason : "no reason given");
                reason[0] = 0;
                return;
        }
        puts(line);
}

typedef struct Lines {
        char text[4096];
        size_t used;
        char reason[1024];
} Lines;

/* False at the end of the pipe. */
static bool drain(int fd, Lines *l) {
        ssize_t n = read(fd, l->text + l->used, sizeof(l->text) - l->used - 1);

        if (n < 0)
                return errno == EINTR || errno == EAGAIN;
        if (n == 0)
                return false;
        l->used += (size_t)n;
        l->text[l->used] = 0;
        for (char *nl; (nl = strchr(l->text, '\n'));) {
                *nl = 0;
                pass_on(l->text, l->reason, sizeof(l->reason));
                l->used -= (size_t)(nl + 1 - l->text);
                memmove(l->text, nl + 1, l->used + 1);
        }
        if (l->used >= sizeof(l->text) - 1) {
                /* A line without end: not one of ours. */
                puts(l->text);
                l->used = 0;
        }
        (void)fflush(stdout);
        return true;
}

static int child_main(const Supervised *s, pid_t parent, int out) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                return 1;
        (void)setpgid(0, 0);
        if (dup2(out, STDOUT_FILENO) < 0)
                return 1;
        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                printf("Bail out! no mount namespace of our own: %s\n", strerror(errno));
                return 1;
        }
        return s->run();
}

/* Kills every process whose parent we are: orphans of the child become ours. */
static void kill_children(void) {
        DIR *d = opendir("/proc");
        struct dirent *de;

        while (d && (de = readdir(d))) {
                char path[64], text[512], *p;
                int fd, parent;
                ssize_t n;

                if (de->d_name[0] < '0' || de->d_name[0] > '9' || strlen(de->d_name) > 10)
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/%.10s/stat", de->d_name);
                fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        continue;
                n = read(fd, text, sizeof(text) - 1);
                safe_close(fd);
                text[n < 0 ? 0 : n] = 0;
                p = strrchr(text, ')'); /* behind the name, which may be anything: state, parent */
                if (p && sscanf(p + 1, " %*c %d", &parent) == 1 && parent == getpid())
                        (void)kill(atoi(de->d_name), SIGKILL);
        }
        if (d)
                (void)closedir(d);
}

/* Ends the child, its process group, and what left that. */
static void end_all(pid_t child) {
        for (unsigned i = 0; i < 500; i++) {
                pid_t pid;

                (void)kill(-child, SIGKILL);
                kill_children();
                while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
                        ;
                if (pid < 0 && errno == ECHILD)
                        return;
                (void)usleep(10000);
        }
}

/* Empty directories of runs whose process is gone. */
static void remove_old_scratch(void) {
        DIR *d = opendir("/tmp");
        struct dirent *de;

        while (d && (de = readdir(d))) {
                size_t n = strlen(OWN_PREFIX);

                if (strncmp(de->d_name, OWN_PREFIX, n) == 0 && kill(atoi(de->d_name + n), 0) < 0 && errno == ESRCH)
                        (void)unlinkat(dirfd(d), de->d_name, AT_REMOVEDIR);
        }
        if (d)
                (void)closedir(d);
}

int supervise(const Supervised *s) {
        struct timespec now, end;
        pid_t parent = getpid(), child;
        int out[2], signals, status = 0, r;
        bool more = true, dead = false;
        const char *why = NULL;
        Lines lines = {};
        sigset_t set;

        (void)setvbuf(stdout, NULL, _IOLBF, 0);
        if (geteuid() != 0) {
                printf("1..1\nok 1 - %s # SKIP needs root: it makes cgroups and mounts and loads BPF\n", s->name);
                return 0;
        }
        (void)snprintf(name, sizeof(name), OWN_PREFIX "%d", (int)parent);
        (void)snprintf(scratch, sizeof(scratch), "/tmp/%s", name);
        (void)setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);

        (void)sigemptyset(&set);
        for (size_t i = 0; i < 4; i++)
                (void)sigaddset(&set, (const int[]){ SIGTERM, SIGINT, SIGHUP, SIGQUIT }[i]);
        (void)sigaddset(&set, SIGCHLD);
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals < 0 || pipe(out) < 0) {
                printf("Bail out! %s\n", strerror(errno));
                return 1;
        }

        r = s->without_memory ? 0 : cgroups_open(name);
        if (r < 0) {
                printf("Bail out! no cgroup of our own: %s\n", strerror(-r));
                cgroups_close();
                return 1;
        }
        remove_old_scratch();
        if (mkdir(scratch, 0700) < 0 && errno != EEXIST) {
                printf("Bail out! %s: %s\n", scratch, strerror(errno));
                cgroups_close();
                return 1;
        }

        child = fork();
        if (child == 0) {
                (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
                (void)close(out[0]);
                (void)close(signals);
                r = child_main(s, parent, out[1]);
                exit(r);
        }
        (void)close(out[1]);
        if (child > 0)
                (void)setpgid(child, child);
        else
                why = "fork failed";

        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += own_slow() ? 3 * s->limit_sec : s->limit_sec;
        while (!why && !dead) {
                struct pollfd fds[] = { { .fd = more ? out[0] : -1, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
                struct signalfd_siginfo si;

                (void)poll(fds, 2, 1000);
                if (more && fds[0].revents)
                        more = drain(out[0], &lines);
                while (read(signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
                        if (si.ssi_signo != SIGCHLD)
                                why = "a signal asked for the end";
                if (waitpid(child, &status, WNOHANG) == child)
                        dead = true;
                (void)clock_gettime(CLOCK_MONOTONIC, &now);
                if (now.tv_sec >= end.tv_sec)
                        why = "the time was up";
        }
        if (child > 0)
                end_all(child);
        while (more && poll(&(struct pollfd){ .fd = out[0], .events = POLLIN }, 1, 0) > 0)
                more = drain(out[0], &lines);
        (void)close(out[0]);
        (void)close(signals);

        if (!why && WIFSIGNALED(status))
                why = strsignal(WTERMSIG(status));
        if (why)
                printf("Bail out! %s: %s\n", s->name, why);
        if (!s->without_memory)
                cgroups_close();
        (void)rmdir(scratch);
        return why || WEXITSTATUS(status) ? 1 : 0;
}
