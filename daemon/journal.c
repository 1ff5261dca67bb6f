/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way of an entry: to the journal, or to stderr. */
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>

/* All entries are sent from one place of this file: CODE_FILE= and the like would tell nothing. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "escape.h"
#include "journal-internal.h"

#define SOCKET "/run/systemd/journal/socket"
/* How long a reader that is behind is waited for. */
#define PATIENCE_MSEC 500

struct Journal {
        journal_sink_t sink; /* NULL: stderr */
        void *userdata;
        bool level_prefix; /* stderr is a stream to the journal, which reads "<4>" as a priority */
        bool echo;         /* somebody looks at stderr */
        int level;         /* the lowest priority that is sent */
        uint64_t sent, failed;
        uint64_t lost; /* since the last entry that got through */
        int probe;     /* connected to the journal's socket, and never written to: it tells whether there is room. -1: not yet */
        bool stalled;  /* there was none the last time */
};

/* --------------------------------------------------------------------------------------------------------------- where */

/* systemd sets JOURNAL_STREAM= to device and inode of the stream; whoever redirects stderr inherits the variable, not the stream. */
static bool stderr_is_stream(void) {
        const char *s = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;
        char *end;

        if (!s || fstat(STDERR_FILENO, &st) < 0)
                return false;
        dev = strtoull(s, &end, 10);
        if (end == s || *end != ':')
                return false;
        s = end + 1;
        ino = strtoull(s, &end, 10);
        return end != s && *end == '\0' && st.st_dev == dev && st.st_ino == ino;
}

static int connect_probe(void) {
        static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = SOCKET };
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                fd = safe_close(fd);
        return fd;
}

/*
 * sd_journal_sendv() waits for as long as journald does not read, and a watcher must go on meanwhile. A connected datagram socket polls
 * writable while its peer's queue has room: that is asked first, with some patience, once for a row of entries.
 */
static bool has_room(Journal *j) {
        for (unsigned attempt = 0; attempt < 2; attempt++) {
                struct pollfd p = { .events = POLLOUT };

                if (j->probe < 0)
                        j->probe = connect_probe();
                p.fd = j->probe;
                if (p.fd < 0)
                        return true; /* sending says what is wrong */
                if (poll(&p, 1, j->stalled ? 0 : PATIENCE_MSEC) < 0)
                        return true;
                if (p.revents & POLLOUT && !(p.revents & (POLLERR | POLLHUP)))
                        return true;
                if (!(p.revents & (POLLERR | POLLHUP)))
                        return false;
                /* Another journald made another socket. */
                j->probe = safe_close(j->probe);
        }
        return true;
}

static int send_native(const struct iovec *fields, int n, void *userdata) {
        Journal *j = userdata;

        /* sd_journal_sendv() takes a socket that is not there for a success: the entry would be lost without a word. */
        if (access(SOCKET, F_OK) < 0)
                return -errno;
        j->stalled = !has_room(j);
        return j->stalled ? -EAGAIN : sd_journal_sendv(fields, n);
}

/* One write, so that lines of others do not come between. */
static void write_line(const Journal *j, int priority, const char *text) {
        char prefix[16] = "";
        struct iovec parts[] = {
                { prefix, 0 },
                { (char *)text, strlen(text) },
                { (char *)"\n", 1 },
        };

        if (j->level_prefix)
                parts[0].iov_len = (size_t)snprintf(prefix, sizeof(prefix), "<%i>", priority);
        /* Nobody is left to be told when this fails. */
        if (writev(STDERR_FILENO, parts, ELEMENTSOF(parts)) < 0)
                return;
}

int journal_new(Journal **ret, journal_sink_t sink, void *userdata) {
        Journal *j = calloc(1, sizeof(*j));

        if (!j)
                return -ENOMEM;
        j->level = LOG_DEBUG;
        j->level_prefix = stderr_is_stream();
        j->sink = sink;
        j->userdata = userdata;
        j->probe = -1;
        if (!sink && (j->level_prefix || access(SOCKET, F_OK) >= 0)) {
                j->sink = send_native;
                j->userdata = j;
                j->echo = isatty(STDERR_FILENO);
        }
        *ret = j;
        return 0;
}

Journal *journal_free(Journal *j) {
        if (!j)
                return NULL;
        safe_close(j->probe);
        free(j);
        return NULL;
}

/* -------------------------------------------------------------------------------------------------------------- fields */

void journal_entry_done(JournalEntry *e) {
        for (size_t i = 0; i < e->n; i++)
                free(e->fields[i].iov_base);
        free(e->fields);
        *e = (JournalEntry){};
}

void journal_entry_put(JournalEntry *e, const char *name, const void *value, size_t len) {
        size_t name_len = strlen(name), room = JOURNAL_FIELD_MAX - name_len - 1;
        bool cut = len > room;
        char *field;

        if (cut)
                len = room;
        field = malloc(name_len + 1 + len);
        if (!field || grow_array(&e->fields, &e->allocated, e->n + 1, sizeof(*e->fields)) < 0) {
                free(field);
                e->error = -ENOMEM;
                return;
        }
        memcpy(field, name, name_len);
        field[name_len] = '=';
        if (len > 0)
                memcpy(field + name_len + 1, value, len);
        e->fields[e->n++] = (struct iovec){ field, name_len + 1 + len };
        if (cut)
                journal_entry_put(e, "SHRINKWATCH_CUT", name, name_len);
}

void journal_entry_putf(JournalEntry *e, const char *name, const char *format, ...) {
        _cleanup_(freep) char *value = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&value, format, ap);
        va_end(ap);
        if (n < 0) {
                value = NULL;
                e->error = -ENOMEM;
                return;
        }
        journal_entry_put(e, name, value, (size_t)n);
}

/* ------------------------------------------------------------------------------------------------------------- sending */

/* That there was more to tell. It comes back here once at most: nothing is lost any more then, or it is lost as well. */
static void tell_lost(Journal *j) {
        uint64_t lost = j->lost;

        j->lost = 0;
        if (journal_log(j, JOURNAL_LOST, NULL, "%" PRIu64 " message%s did not get to the journal: nobody read there, or there was no memory. What stands is in "
                        "the status and in the metrics", lost, PLURAL(lost)) < 0)
                j->lost = lost;
}

int journal_send(Journal *j, JournalMessage message, bool raised, JournalEntry *e, const char *text) {
        _cleanup_(freep) char *line = NULL;
        int priority = journal_priority(message, raised), r = -ENOMEM;
        const char *id = journal_message_id(message);

        if (priority > j->level)
                return 0;
        line = text ? escape_text(text, strlen(text), ESCAPE_TERMINAL, NULL) : NULL;
        if (line) {
                journal_entry_put(e, "MESSAGE", line, strlen(line));
                if (id)
                        journal_entry_put(e, "MESSAGE_ID", id, strlen(id));
                journal_entry_putf(e, "PRIORITY", "%i", priority);
                r = e->error;
        }

        j->sent++;
        if (r >= 0 && j->sink)
                r = j->sink(e->fields, (int)e->n, j->userdata);
        if (r < 0) {
                j->failed++;
                j->lost++;
        }
        /* Where stderr is a stream to the same journald, it would wait there. */
        if ((r < 0 && !(r == -EAGAIN && j->level_prefix)) || !j->sink || j->echo)
                write_line(j, priority, line ? line : "Out of memory: there is something to tell, and no room for it");
        if (r >= 0 && j->lost > 0)
                tell_lost(j);
        return r < 0 ? r : 0;
}

int journal_log(Journal *j, JournalMessage message, const char *const *fields, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        JournalEntry e = {};
        va_list ap;
        int r;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        for (; fields && *fields; fields++) {
                const char *equals = strchr(*fields, '=');
                char name[64 + 1]; /* the journal takes no longer one */
                size_t len = equals ? (size_t)(equals - *fields) : 0;

                if (len == 0 || len >= sizeof(name))
                        continue;
                memcpy(name, *fields, len);
                name[len] = '\0';
                journal_entry_put(&e, name, equals + 1, strlen(equals + 1));
        }
        r = journal_send(j, message, true, &e, text);
        journal_entry_done(&e);
        return r;
}

void journal_set_level(Journal *j, int level) {
        j->level = level;
}

int journal_level(const Journal *j) {
        return j->level;
}

bool journal_is_journal(const Journal *j) {
        return j->sink;
}

uint64_t journal_sent(const Journal *j) {
        return j->sent;
}

uint64_t journal_failed(const Journal *j) {
        return j->failed;
}

/* ---------------------------------------------------------------------------------------------------------- for people */

char *journal_format_span(char *buf, size_t size, uint64_t usec) {
        static const struct {
                const char *name;
                uint64_t usec;
        } units[] = {
                /* A year of 365.25 days and a twelfth of it, as systemd has them. */
                { "y", 31557600000000ULL }, { "month", 2629800000000ULL }, { "w", 604800000000ULL }, { "d", 86400000000ULL },
                { "h", 3600000000ULL },     { "min", 60000000ULL },        { "s", 1000000ULL },      { "ms", 1000ULL },
                { "us", 1ULL },
        };
        size_t i = 0;
        uint64_t more;

        if (usec == UINT64_MAX || usec == 0) {
                (void)snprintf(buf, size, "%s", usec == 0 ? "0" : "infinity");
                return buf;
        }
        while (usec < units[i].usec)
                i++;
        /* The next unit too, down to seconds: more is noise. */
        more = units[i].usec > 1000000 ? usec % units[i].usec / units[i + 1].usec : 0;
        if (more > 0)
                (void)snprintf(buf, size, "%" PRIu64 "%s %" PRIu64 "%s", usec / units[i].usec, units[i].name, more, units[i + 1].name);
        else
                (void)snprintf(buf, size, "%" PRIu64 "%s", usec / units[i].usec, units[i].name);
        return buf;
}

char *journal_format_bytes(char *buf, size_t size, uint64_t bytes) {
        static const char units[] = "BKMGTPE";
        unsigned i = 0;

        while (i < sizeof(units) - 2 && bytes >> (10 * (i + 1)) > 0)
                i++;
        if (i == 0)
                (void)snprintf(buf, size, "%" PRIu64 "B", bytes);
        else {
                uint64_t unit = 1ULL << (10 * i);

                (void)snprintf(buf, size, "%" PRIu64 ".%" PRIu64 "%c", bytes / unit, bytes % unit * 10 / unit, units[i]);
        }
        return buf;
}
