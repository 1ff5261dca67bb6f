/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What outlives the process: since when memcgs are dying, and which findings were told. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "manager-internal.h"
#include "replace.h"

enum {
        AGES,
        FINDINGS,
        COUNTS,
};

static const struct {
        const char *name;
        const char *loss; /* what is not known without it */
} files[] = {
        [AGES] = { "ages", "Ages that only it knew are at least since now" },
        [FINDINGS] = { "findings", "What was told and stands is told again" },
        [COUNTS] = { "counts", "Events since the last census of the run before are not accounted for" },
};

/* 200,000 dying memcgs take 6 MB. */
#define STATE_BYTES_MAX (256U << 20)
/* Ages are also in the kernel's map, which outlives a crash: a large file is not written with every census. */
#define AGES_MANY 20000
#define AGES_SELDOM_USEC (10ULL * 60 * 1000000)

static void complain_read(Manager *m, unsigned file, int error) {
        (void)journal_log(m->journal, JOURNAL_STATE, NULL, "Cannot read %s/%s: %s. %s", m->options.state_dir, files[file].name,
                          error == -EBADF || error == -ELOOP ? "It is no regular file" : strerror(-error), files[file].loss);
}

/* Once, until it can be written again. */
static void complain_write(Manager *m, unsigned file, int error) {
        if (m->cannot_write & 1U << file)
                return;
        m->cannot_write |= 1U << file;
        (void)journal_log(m->journal, JOURNAL_STATE, NULL,
                          "Cannot write %s/%s: %s. Trying again after the next census; nothing is lost while the daemon runs", m->options.state_dir,
                          files[file].name, strerror(-error));
}

/* The whole file, newly allocated. -ENOENT: there is none. */
static int read_file(int dirfd, const char *name, char **ret, size_t *ret_len) {
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *text = NULL;
        struct stat st;
        size_t len = 0;

        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        if (st.st_size > STATE_BYTES_MAX)
                return -EFBIG;
        text = malloc((size_t)st.st_size + 1);
        if (!text)
                return -ENOMEM;
        while (len < (size_t)st.st_size) {
                ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                len += (size_t)n;
        }
        text[len] = '\0';
        *ret = TAKE_PTR(text);
        *ret_len = len;
        return 0;
}

static int write_ages(FILE *f, const void *userdata) {
        const Manager *m = userdata;

        return ages_write(m->ages, f, probe_facts(m->probe)->boot_id);
}

static int write_findings(FILE *f, const void *userdata) {
        const Manager *m = userdata;

        return findings_write(m->findings, f, probe_facts(m->probe)->boot_id);
}

/* Whether it is written. */
static bool save(Manager *m, unsigned file, ReplaceWrite write) {
        int r = replace_file(m->state_fd, files[file].name, 0640, write, m);

        if (r < 0)
                complain_write(m, file, r);
        else
                m->cannot_write &= ~(1U << file);
        return r >= 0;
}

void manager_save_ages(Manager *m, bool now) {
        uint64_t boot_usec = manager_now(CLOCK_BOOTTIME);

        if (m->state_fd < 0 || !m->ages_changed || probe_facts(m->probe)->boot_id[0] == '\0')
                return;
        if (!now && ages_count(m->ages) > AGES_MANY && boot_usec - m->ages_boot_usec < AGES_SELDOM_USEC)
                return;
        m->ages_changed = !save(m, AGES, write_ages);
        m->ages_boot_usec = boot_usec;
}

void manager_save_findings(Manager *m) {
        if (m->state_fd < 0 || !m->findings_unwritten || probe_facts(m->probe)->boot_id[0] == '\0')
                return;
        m->findings_unwritten = !save(m, FINDINGS, write_findings);
}

static int write_counts(FILE *f, const void *userdata) {
        const Manager *m = userdata;

        return events_counts_write(&m->snapshot.events, f, probe_facts(m->probe)->boot_id);
}

void manager_save_counts(Manager *m) {
        const EventsCounts *now = &m->snapshot.events;

        if (m->state_fd < 0 || !m->snapshot.events_known || memcmp(now, &m->events_written, sizeof(*now)) == 0 ||
            probe_facts(m->probe)->boot_id[0] == '\0')
                return;
        if (save(m, COUNTS, write_counts))
                m->events_written = *now;
}

typedef int (*parse_fn)(Manager *m, const char *text, size_t len, unsigned *ret_line);

static int parse_ages(Manager *m, const char *text, size_t len, unsigned *ret_line) {
        return ages_parse(m->ages, text, len, probe_facts(m->probe)->boot_id, ret_line);
}

static int parse_findings(Manager *m, const char *text, size_t len, unsigned *ret_line) {
        return findings_parse(m->findings, text, len, probe_facts(m->probe)->boot_id, ret_line);
}

/* What the programs counted since then belongs to the first interval; they have to be the same ones. */
static int parse_counts(Manager *m, const char *text, size_t len, unsigned *ret_line) {
        EventsCounts told = {}, now = {};
        int r = events_counts_parse(&told, text, len, probe_facts(m->probe)->boot_id);

        *ret_line = 1;
        if (r < 0 || !m->events || events_origin(m->events) != EVENTS_ADOPTED || events_counts(m->events, &now) < 0)
                return r;
        if (told.created <= now.created && told.removed <= now.removed && told.released <= now.released && told.lost_deaths <= now.lost_deaths &&
            told.lost_records <= now.lost_records)
                m->snapshot.events = told;
        return 0;
}

static void load(Manager *m, unsigned file, parse_fn parse) {
        _cleanup_(freep) char *text = NULL;
        unsigned line = 0;
        size_t len = 0;
        int r;

        r = read_file(m->state_fd, files[file].name, &text, &len);
        /*
         * A power loss leaves an empty one, since nobody waits for the disk: a watcher of stuck writeback must not get stuck in it, and
         * what these files say is of one boot.
         */
        if (r >= 0 && len == 0)
                return;
        if (r >= 0)
                r = parse(m, text, len, &line);
        if (r == -EBADMSG) {
                (void)journal_log(m->journal, JOURNAL_STATE, NULL, "%s/%s is damaged from line %u on: what stands before was taken, the rest is unknown. %s",
                                  m->options.state_dir, files[file].name, line, files[file].loss);
                /* Once is enough. */
                m->ages_changed = m->findings_unwritten = true;
        } else if (r < 0 && r != -ENOENT && r != -ESTALE)
                complain_read(m, file, r);
}

int manager_open_state(Manager *m) {
        const char *dir = m->options.state_dir;

        if (!dir)
                return 0;
        m->state_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (m->state_fd < 0) {
                int error = errno;

                (void)journal_log(m->journal, m->options.state_asked ? JOURNAL_CANNOT_START : JOURNAL_STATE, NULL, "%s%s: %s. %s",
                                  m->options.state_asked ? "Cannot start: nothing can be kept in " : "Nothing can be kept in ", dir, strerror(error),
                                  m->options.state_asked ? "Make that directory, or leave --state= out" :
                                                           "Ages, findings and history last no longer than this process");
                return m->options.state_asked ? -error : 0;
        }
        /* Two that write there would each undo what the other one knows. A file system without locks is no reason not to start. */
        if (flock(m->state_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
                (void)journal_log(m->journal, JOURNAL_CANNOT_START, NULL, "Cannot start: another shrinkwatchd keeps its state in %s. End that one, or give this one another directory by --state=", dir);
                return -EBUSY;
        }
        return 0;
}

void manager_load_state(Manager *m) {
        char *note = NULL;
        int r;

        /* Without a boot id nobody can tell whether what is there is of this boot. */
        if (m->state_fd >= 0 && probe_facts(m->probe)->boot_id[0] != '\0') {
                load(m, AGES, parse_ages);
                load(m, FINDINGS, parse_findings);
                load(m, COUNTS, parse_counts);
        }
        if (!m->conf->conf.history)
                return;
        /* Without a directory it is in memory alone, and the trend is known all the same. */
        r = history_new(&m->history, m->state_fd, &note);
        if (note)
                (void)journal_log(m->journal, JOURNAL_STATE, NULL, "%s", note);
        else if (r < 0 && m->state_fd >= 0)
                (void)journal_log(m->journal, JOURNAL_STATE, NULL, "Cannot keep the history in %s: %s. It is kept in memory until the daemon stops",
                                  m->options.state_dir, strerror(-r));
        free(note);
}
