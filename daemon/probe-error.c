/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Why the kernel refused, in words that help; and libbpf's own words, kept until somebody wants them. */

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "probe-internal.h"

static char log_text[2048];

/* libbpf's warnings: the first of them, which names the cause, is kept for the error text, all go to stderr when SHRINKWATCH_DEBUG is set. */
static int on_libbpf_print(enum libbpf_print_level level, const char *format, va_list ap) {
        if (getenv("SHRINKWATCH_DEBUG")) {
                va_list copy;

                va_copy(copy, ap);
                (void)vfprintf(stderr, format, copy);
                va_end(copy);
        }
        /* The memlock limit plays no part since 5.11, and libbpf complains of it whatever else is the matter. */
        if (level == LIBBPF_WARN && !strstr(format, "bump RLIMIT_MEMLOCK") && !log_text[0])
                (void)vsnprintf(log_text, sizeof(log_text), format, ap);
        return 0;
}

void probe_log_begin(void) {
        log_text[0] = 0;
        (void)libbpf_set_print(on_libbpf_print);
}

const char *probe_log_first(void) {
        char *nl = strchr(log_text, '\n');

        if (nl)
                *nl = 0;
        return log_text;
}

int probe_error_set(ProbeError *e, int error, const char *format, ...) {
        va_list ap;

        if (!e)
                return error;
        e->error = error;
        va_start(ap, format);
        (void)vsnprintf(e->text, sizeof(e->text), format, ap);
        va_end(ap);
        return error;
}

/* linux/capability.h */
#define CAP_BIT_SYS_ADMIN 21
#define CAP_BIT_PERFMON 38
#define CAP_BIT_BPF 39

static int read_effective(uint64_t *ret) {
        FILE *f = fopen("/proc/self/status", "re");
        char line[256];
        int r = -ENOENT;

        if (!f)
                return -errno;
        while (r < 0 && fgets(line, sizeof(line), f))
                if (strncmp(line, "CapEff:", 7) == 0) {
                        *ret = strtoull(line + 7, NULL, 16);
                        r = 0;
                }
        (void)fclose(f);
        return r;
}

/* 1, 0; negative: not known, for want of the file. */
static int locked_down(void) {
        FILE *f = fopen("/sys/kernel/security/lockdown", "re");
        char line[128] = "";
        int is = 0;

        if (!f)
                return -errno;
        if (fgets(line, sizeof(line), f))
                is = strstr(line, "[confidentiality]") != NULL;
        (void)fclose(f);
        return is;
}

/* The inode of the first user namespace is fixed: PROC_USER_INIT_INO of linux/proc_ns.h. */
#define USER_NAMESPACE_INITIAL 0xEFFFFFFDU

static bool in_user_namespace(void) {
        struct stat st;

        return stat("/proc/self/ns/user", &st) == 0 && st.st_ino != USER_NAMESPACE_INITIAL;
}

static uint64_t descriptors_limit(void) {
        struct rlimit files = {};

        return getrlimit(RLIMIT_NOFILE, &files) == 0 ? (uint64_t)files.rlim_cur : UINT64_MAX;
}

/* All objects together take less than this. */
#define DESCRIPTORS_MAX 24

/* libbpf does not always say EMFILE: what failed for want of a descriptor while it tried out the kernel is EINVAL later. */
static bool few_descriptors(void) {
        uint64_t limit = descriptors_limit();
        unsigned n_free = 0;

        for (uint64_t fd = 0; fd < limit && n_free < DESCRIPTORS_MAX; fd++)
                n_free += fcntl((int)fd, F_GETFD) < 0;
        return n_free < DESCRIPTORS_MAX;
}

int probe_error_load(ProbeError *e, int error, const char *object) {
        const char *log = probe_log_first();
        int lockdown = locked_down();
        uint64_t caps = 0;

        if (lockdown > 0)
                return probe_error_set(e, -EPERM,
                                       "the kernel is locked down (confidentiality): BPF programs may not read kernel memory. "
                                       "Boot with lockdown=integrity, or without lockdown, to use this");
        if (error == -EPERM || error == -EACCES) {
                if (read_effective(&caps) == 0) {
                        bool admin = caps & (UINT64_C(1) << CAP_BIT_SYS_ADMIN);
                        bool bpf = admin || caps & (UINT64_C(1) << CAP_BIT_BPF);
                        bool perfmon = admin || caps & (UINT64_C(1) << CAP_BIT_PERFMON);

                        if (!bpf || !perfmon)
                                return probe_error_set(e, -EPERM,
                                                       "missing %s%s%s: needed to read the kernel's memory cgroups through BPF. Run this as root",
                                                       bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "", perfmon ? "" : "CAP_PERFMON");
                }
                if (in_user_namespace())
                        return probe_error_set(e, -EPERM,
                                               "this runs in a user namespace, whose CAP_BPF and CAP_PERFMON do not count: the kernel asks for those of the "
                                               "initial one. Run this on the host itself, outside containers");
                return probe_error_set(e, -EPERM,
                                       "the kernel refused BPF although the capabilities are there: a seccomp filter, a container's restrictions or a "
                                       "security module%s forbid the bpf system call. Run this on the host itself%s%s",
                                       lockdown < 0 ? " (perhaps lockdown=confidentiality: /sys/kernel/security is not mounted)" : "", log[0] ? ". libbpf: " : "", log);
        }
        if (error == -EMFILE || (error == -EINVAL && few_descriptors()))
                return probe_error_set(e, -EMFILE, "%" PRIu64 " open files are all that this process may have, and loading BPF programs takes more: raise the limit "
                                       "(\"ulimit -n 1024\", or LimitNOFILE= in a unit)", descriptors_limit());
        if (error == -ENFILE)
                return probe_error_set(e, error, "too many files are open on this host (fs.file-max): try again");
        if (error == -ENOSYS)
                return probe_error_set(e, -EOPNOTSUPP,
                                       "there is no bpf system call here: the kernel was built without CONFIG_BPF_SYSCALL, or a seccomp filter hides it");
        return probe_error_set(e, error, "cannot load the BPF object \"%s\": %s%s%s. SHRINKWATCH_DEBUG=1 shows the whole log", object, strerror(-error),
                               log[0] ? ". libbpf: " : "", log);
}
