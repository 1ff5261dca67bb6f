/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cgroups.h"
#include "daemon/names.h"
#include "supervise.h"

static Names *names;
static int mount_fd = -1, own_fd = -1;
static char own[64];
static bool switched_root_on;

bool cgroups_v2(void) {
        return names->v2;
}

int cgroups_fd(void) {
        return own_fd;
}

const char *cgroups_mount(void) {
        return names->mount_point;
}

uint64_t cgroups_id(void) {
        return cgroup_id_fd(own_fd);
}

static int open_dir(int parent, const char *name) {
        int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/*
 * A machine has at most 65,535 memcgs that are not offline. Removed ones become that in a queue: when many were removed just now, mkdir
 * fails for a while (EBUSY or ENOSPC, as the kernel has it).
 */
int cgroup_mkdir(int parent, const char *name) {
        for (unsigned i = 0;; i++) {
                if (mkdirat(parent, name, 0755) == 0)
                        return 0;
                if ((errno != EBUSY && errno != ENOSPC) || i >= 400)
                        return -errno;
                (void)usleep(50000);
        }
}

int cgroup_make(int parent, const char *name) {
        int r = cgroup_mkdir(parent, name);

        return r < 0 ? r : open_dir(parent, name);
}

int cgroup_write(int cgroup, const char *file, const char *text) {
        int fd = openat(cgroup, file, O_WRONLY | O_CLOEXEC), r = 0;

        if (fd < 0)
                return -errno;
        if (write(fd, text, strlen(text)) < 0)
                r = -errno;
        safe_close(fd);
        return r;
}

int cgroup_switch_memory(int cgroup, bool on) {
        int r = 0;

        /* A process that has just ended in it may count as inside for a moment. */
        for (unsigned i = 0; names->v2 && i < 300; i++) {
                r = cgroup_write(cgroup, "cgroup.subtree_control", on ? "+memory" : "-memory");
                if (r != -EBUSY)
                        break;
                (void)usleep(10000);
        }
        return r;
}

uint64_t cgroup_id(int parent, const char *name) {
        struct stat st;

        return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

uint64_t cgroup_id_fd(int cgroup) {
        struct stat st;

        return fstat(cgroup, &st) < 0 ? 0 : st.st_ino;
}

int cgroup_remove(int parent, const char *name) {
        for (unsigned i = 0;; i++) {
                if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
                        return 0;
                if (errno != EBUSY || i >= 300)
                        return -errno;
                (void)usleep(10000);
        }
}

static void kill_members(int cgroup) {
        int fd = openat(cgroup, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
        int pid;

        if (!f) {
                safe_close(fd);
                return;
        }
        while (fscanf(f, "%d", &pid) == 1)
                if (pid > 1 && pid != getpid())
                        (void)kill(pid, SIGKILL);
        (void)fclose(f);
}

/*
 * Down to the first leaf, remove it, up one level, again: two descriptors at a time, however deep the tree is. What cannot be removed
 * ends the work.
 */
int cgroup_remove_tree(int parent, const char *name) {
        int fd = open_dir(parent, name), r = 0, depth = 0;

        if (fd == -ENOENT)
                return 0;
        if (fd < 0)
                return fd;
        for (;;) {
                struct dirent *de;
                char child[256];
                int up, dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                DIR *d = dup_fd < 0 ? NULL : fdopendir(dup_fd);
                bool descended = false;

                if (!d) {
                        safe_close(dup_fd);
                        r = -EIO;
                        break;
                }
                while (!descended && (de = readdir(d))) {
                        int next;

                        if (de->d_type != DT_DIR || strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
                                continue;
                        (void)snprintf(child, sizeof(child), "%s", de->d_name);
                        /* A leaf goes at once: wide directories would be read again and again otherwise. */
                        if (unlinkat(fd, child, AT_REMOVEDIR) == 0)
                                continue;
                        next = open_dir(fd, child);
                        if (next == -ENOENT)
                                continue;
                        if (next < 0) {
                                r = next;
                                break;
                        }
                        safe_close(fd);
                        fd = next;
                        depth++;
                        descended = true;
                }
                (void)closedir(d);
                if (r < 0)
                        break;
                if (descended)
                        continue;

                kill_members(fd);
                if (depth == 0) {
                        r = cgroup_remove(parent, name);
                        break;
                }
                /* Its name is not remembered: from above, it is the first directory that opens to the same inode. */
                up = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (up < 0) {
                        r = -errno;
                        break;
                }
                {
                        uint64_t id = cgroup_id_fd(fd);
                        int copy = dup(up);
                        DIR *above = copy < 0 ? NULL : fdopendir(copy);

                        r = -ENOENT;
                        while (above && r == -ENOENT && (de = readdir(above)))
                                if (de->d_type == DT_DIR && de->d_ino == id)
                                        r = cgroup_remove(up, de->d_name);
                        if (above)
                                (void)closedir(above);
                        else
                                safe_close(copy);
                }
                safe_close(fd);
                fd = up;
                depth--;
                if (r < 0)
                        break;
                (void)lseek(fd, 0, SEEK_SET);
        }
        safe_close(fd);
        return r;
}

int cgroup_enter(int cgroup) {
        return cgroup_write(cgroup, "cgroup.procs", "0");
}

int cgroup_run(int cgroup, int (*fn)(void *), void *userdata) {
        int status;
        pid_t pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                if (cgroup_enter(cgroup) < 0)
                        _exit(127);
                _exit(fn(userdata) & 127);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

int cgroup_read_key(int cgroup, const char *file, const char *key, uint64_t *ret) {
        int fd = openat(cgroup, file, O_RDONLY | O_CLOEXEC), r = -ENOENT;
        unsigned long long value;
        char line[256], word[128];
        FILE *f;

        if (fd < 0)
                return -errno;
        f = fdopen(fd, "r");
        if (!f) {
                safe_close(fd);
                return -EIO;
        }
        while (r < 0 && fgets(line, sizeof(line), f))
                if (sscanf(line, "%127s %llu", word, &value) == 2 && strcmp(word, key) == 0) {
                        *ret = value;
                        r = 0;
                }
        (void)fclose(f);
        return r;
}

int cgroups_kernel_count(uint64_t *ret) {
        FILE *f = fopen("/proc/cgroups", "re");
        unsigned hierarchy, enabled;
        unsigned long long n;
        char line[256], word[128];
        int r = -ENOENT;

        if (names->v2)
                return -EOPNOTSUPP; /* there the line counts cgroups without memory, too */
        if (!f)
                return -errno;
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%127s %u %llu %u", word, &hierarchy, &n, &enabled) == 4 && strcmp(word, "memory") == 0) {
                        *ret = n;
                        r = 0;
                }
        (void)fclose(f);
        return r;
}

int cgroups_count_directories(int cgroup, uint64_t *ret) {
        int fd = openat(cgroup, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *de;
        uint64_t n = 1;

        if (!d) {
                safe_close(fd);
                return -EIO;
        }
        while ((de = readdir(d))) {
                uint64_t below = 0;
                int child;

                if (de->d_type != DT_DIR || strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
                        continue;
                child = open_dir(dirfd(d), de->d_name);
                if (child < 0)
                        continue;
                (void)cgroups_count_directories(child, &below);
                safe_close(child);
                n += below;
        }
        (void)closedir(d);
        *ret = n;
        return 0;
}

/* Directories of runs whose process is gone. */
static void remove_leftovers(void) {
        int fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *de;

        if (!d) {
                safe_close(fd);
                return;
        }
        while ((de = readdir(d))) {
                size_t n = strlen(OWN_PREFIX);
                char *end;
                long pid;

                if (strncmp(de->d_name, OWN_PREFIX, n) != 0)
                        continue;
                pid = strtol(de->d_name + n, &end, 10);
                if (*end || pid <= 1 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
                        continue;
                note("removing what a killed run left: %s", de->d_name);
                (void)cgroup_remove_tree(mount_fd, de->d_name);
        }
        (void)closedir(d);
}

static bool has_memory(int fd) {
        char text[512];
        ssize_t n;
        int f = openat(fd, "cgroup.subtree_control", O_RDONLY | O_CLOEXEC);

        if (f < 0)
                return false;
        n = read(f, text, sizeof(text) - 1);
        safe_close(f);
        text[n < 0 ? 0 : n] = 0;
        return strstr(text, "memory");
}

int cgroups_open(const char *name) {
        int r;

        r = names_new(&names);
        if (r < 0)
                return r;
        mount_fd = open(names->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mount_fd < 0)
                return -errno;
        remove_leftovers();
        if (names->v2 && !has_memory(mount_fd)) {
                r = cgroup_switch_memory(mount_fd, true);
                if (r < 0)
                        return r;
                switched_root_on = true;
        }
        (void)snprintf(own, sizeof(own), "%s", name);
        own_fd = cgroup_make(mount_fd, own);
        if (own_fd < 0)
                return own_fd;
        return cgroup_switch_memory(own_fd, true);
}

void cgroups_close(void) {
        if (own_fd >= 0) {
                int r = cgroup_remove_tree(mount_fd, own);

                if (r < 0)
                        note("%s/%s could not be removed: %s", names->mount_point, own, strerror(-r));
        }
        own_fd = safe_close(own_fd);
        if (switched_root_on)
                (void)cgroup_switch_memory(mount_fd, false);
        mount_fd = safe_close(mount_fd);
        names = names_free(names);
}
