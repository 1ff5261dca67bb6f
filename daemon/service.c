/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sd_notify(3) and friends say 0 without systemd, positive when sent: so do we. */
#include "service.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define NAME_MAX_STORE 255

int service_take_stored(EventsFd **ret, size_t *ret_n) {
        char **names = NULL;
        EventsFd *fds = NULL;
        size_t n = 0;
        int k, r = 0;

        /* Sets FD_CLOEXEC, and clears the environment also when it fails. */
        k = sd_listen_fds_with_names(1, &names);
        if (k < 0)
                return k;
        if (k > 0) {
                fds = calloc((size_t)k, sizeof(*fds));
                if (!fds)
                        r = -ENOMEM;
        }
        for (int i = 0; i < k; i++) {
                int fd = SD_LISTEN_FDS_START + i;

                /* A name that does not fit is not one that we gave: who would drop it by half its name? */
                if (r < 0 || strlen(names[i]) >= sizeof(fds[n].name)) {
                        safe_close(fd);
                } else {
                        (void)snprintf(fds[n].name, sizeof(fds[n].name), "%s", names[i]);
                        fds[n++].fd = fd;
                }
                free(names[i]);
        }
        free(names);
        if (r < 0)
                return r;
        *ret = fds;
        *ret_n = n;
        return 0;
}

/* What systemd takes for the name of a descriptor; a line break in it would begin another assignment. */
static bool name_is_valid(const char *name) {
        size_t n = strlen(name);

        if (n == 0 || n > NAME_MAX_STORE)
                return false;
        for (size_t i = 0; i < n; i++)
                if (name[i] < ' ' || name[i] >= 127 || name[i] == ':')
                        return false;
        return true;
}

int service_store(const EventsFd *fds, size_t n) {
        int r = 1;

        for (size_t i = 0; i < n; i++)
                if (fds[i].fd < 0 || !name_is_valid(fds[i].name))
                        return -EINVAL;
        /* One message each: all descriptors of a message get the same name. */
        for (size_t i = 0; i < n && r > 0; i++) {
                char text[NAME_MAX_STORE + 64];
                int fd = fds[i].fd;

                /* FDPOLL=0: systemd drops what polls EPOLLERR, and most maps do. */
                (void)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s\nFDPOLL=0", fds[i].name);
                r = sd_pid_notify_with_fds(0, 0, text, &fd, 1);
        }
        return r > 0 ? 1 : r;
}

int service_drop(const char *name) {
        char text[NAME_MAX_STORE + 64];
        int r;

        if (!name_is_valid(name))
                return -EINVAL;
        (void)snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
        r = sd_notify(0, text);
        return r > 0 ? 1 : r;
}

int service_replace(const EventsFd *fds, size_t n, const EventsFd *dropped, size_t n_dropped) {
        /* Those that share a name, the store, the others: a daemon that is killed in between leaves the times of death in one place or both. */
        for (unsigned after = 0; after < 2; after++) {
                for (size_t i = 0; i < n_dropped; i++) {
                        bool shared = false;
                        int r;

                        for (size_t k = 0; k < n && !shared; k++)
                                shared = strcmp(dropped[i].name, fds[k].name) == 0;
                        if (shared == (bool)after)
                                continue;
                        r = service_drop(dropped[i].name);
                        if (r <= 0)
                                return r;
                }
                if (!after) {
                        int r = service_store(fds, n);

                        if (r <= 0)
                                return r;
                }
        }
        return 1;
}

/* assignments, and the status if there is one. */
static int tell(const char *assignments, const char *status) {
        char *text;
        int r;

        if (asprintf(&text, "%s%s%s%s", assignments, assignments[0] && status ? "\n" : "", status ? "STATUS=" : "", status ? status : "") < 0)
                return -ENOMEM;
        /* The status is one line: a line break in it would begin another assignment. */
        if (status)
                for (char *p = text + strlen(text) - strlen(status); *p; p++)
                        if ((unsigned char)*p < ' ' || *p == 127)
                                *p = ' ';
        r = sd_notify(0, text);
        free(text);
        return r > 0 ? 1 : r;
}

int service_ready(const char *status) {
        return tell("READY=1", status);
}

int service_status(const char *status) {
        return tell("", status ? status : "");
}

int service_reloading(void) {
        char text[64];
        struct timespec ts = {};

        if (clock_gettime(CLOCK_MONOTONIC, &ts) < 0)
                return -errno;
        /* Without the time, systemd cannot tell the READY=1 that ends the reload from an older one, and waits until its timeout. */
        (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000);
        return tell(text, NULL);
}

int service_stopping(const char *status) {
        return tell("STOPPING=1", status);
}

/* ---- capabilities ---- */

static int verify_no_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

        if (syscall(SYS_capget, &header, data) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(data); i++)
                if (data[i].effective || data[i].permitted || data[i].inheritable)
                        return -EPERM;
        return 0;
}

int service_drop_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        /* First, since it takes CAP_SETPCAP. A service with a bounding set of two others does not have that one, and nothing to gain by it. */
        for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
                        if (errno != EPERM)
                                return -errno;
                        break;
                }
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        if (syscall(SYS_capset, &header, none) < 0)
                return -errno;
        /* A user of id 0 would get them back by execve(). */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return verify_no_capabilities();
}
