/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "identity.h"

#include "util.h"

/* What stands between prefix and suffix of a name. */
typedef enum Middle {
        MIDDLE_ANY,            /* anything, not nothing */
        MIDDLE_HEX64,          /* a container id */
        MIDDLE_HEX,            /* hexadecimal digits */
        MIDDLE_DECIMAL,        /* decimal digits */
        MIDDLE_POD_DASH,       /* a pod's UID as cgroupfs has it: a UUID, or 32 hexadecimal digits for a static pod */
        MIDDLE_POD_UNDER,      /* as systemd has it, where a dash would begin another slice */
        MIDDLE_NUMBER_DASH,    /* 3-web: a number, a dash, then what the fact is */
        MIDDLE_NUMBER_ESCAPED, /* the same with the dash escaped: \x2d */
        MIDDLE_PID_INVOCATION, /* 12-i34 */
        MIDDLE_CONNECTION,     /* 7-10.0.0.1:22-10.0.0.9:5140, 7-1234-0: instance of a service for one connection */
        MIDDLE_RANDOM6,        /* what mkstemp() and the like fill in */
        MIDDLE_RANDOM8,
        MIDDLE_RANDOM10,
} Middle;

/* What the creator pattern of such a name is. */
typedef enum Pattern {
        PATTERN_NONE,   /* this row does not say */
        PATTERN_MIDDLE, /* what varies in the middle becomes "*" */
        PATTERN_DIGITS, /* all numbers in the middle do */
        PATTERN_CHOSEN, /* a name that somebody chose: only what nobody would choose varies */
        PATTERN_SCOPE,  /* a name that a program made up for a unit */
        PATTERN_PLAIN,  /* a cgroup that is not systemd's */
} Pattern;

enum {
        GIVES_UNIT = 1U << 0,
        GIVES_SLICE = 1U << 1,
        GIVES_MACHINE = 1U << 2,
        GIVES_CONTAINER = 1U << 3,
        GIVES_POD = 1U << 4,
};

typedef struct Row {
        const char *under; /* name of the cgroup above; NULL: any */
        const char *prefix;
        const char *suffix;
        const char *engine;
        Middle middle;
        unsigned gives;
        Pattern pattern;
        bool under_pod; /* the cgroup above is a pod's */
        bool inside;    /* the prefix need not begin the name, only a word of it */
} Row;

/* clang-format off */
#define CONTAINER_ID(p, s, e) \
        { .prefix = (p), .middle = MIDDLE_HEX64, .suffix = (s), .gives = GIVES_CONTAINER, .pattern = PATTERN_MIDDLE, .engine = (e) }
#define POD_SLICE(p) \
        { .inside = true, .prefix = (p), .middle = MIDDLE_POD_UNDER, .suffix = ".slice", .gives = GIVES_POD, .pattern = PATTERN_MIDDLE }
#define LXC(u, p, pat) \
        { .under = (u), .prefix = (p), .middle = MIDDLE_ANY, .gives = GIVES_CONTAINER, .pattern = (pat), .engine = "lxc" }
#define MACHINE(p, m, s, pat, e) \
        { .prefix = (p), .middle = (m), .suffix = (s), .gives = GIVES_MACHINE, .pattern = (pat), .engine = (e) }

/*
 * For each fact the first row that matches a name wins, for the pattern the first that has one. Rows with "under" come without a
 * pattern: that is told from the name alone.
 */
static const Row table[] = {
        /* docker: systemd and cgroupfs driver */
        CONTAINER_ID("docker-", ".scope", "docker"),
        { .under = "docker", .middle = MIDDLE_HEX64, .gives = GIVES_CONTAINER, .engine = "docker" },

        /* podman: systemd and cgroupfs driver, the monitor, and the payload inside a unit with --cgroups=split */
        CONTAINER_ID("libpod-conmon-", ".scope", "podman"),
        CONTAINER_ID("libpod-conmon-", NULL, "podman"),
        CONTAINER_ID("libpod-payload-", NULL, "podman"),
        CONTAINER_ID("libpod-", ".scope", "podman"),
        CONTAINER_ID("libpod-", NULL, "podman"),

        /* containerd: the CRI plugin, nerdctl */
        CONTAINER_ID("cri-containerd-", ".scope", "containerd"),
        CONTAINER_ID("nerdctl-", ".scope", "containerd"),

        /* CRI-O: systemd and cgroupfs driver, and the monitor */
        CONTAINER_ID("crio-conmon-", ".scope", "cri-o"),
        CONTAINER_ID("crio-conmon-", NULL, "cri-o"),
        CONTAINER_ID("crio-", ".scope", "cri-o"),
        CONTAINER_ID("crio-", NULL, "cri-o"),

        /* A bare id in a pod is containerd's with the cgroupfs driver (or, rarely now, that of docker behind cri-dockerd: same look). */
        { .under_pod = true, .middle = MIDDLE_HEX64, .gives = GIVES_CONTAINER, .engine = "containerd" },

        /* Kubernetes pods, cgroupfs driver; "kubepods" alone is the guaranteed class */
        { .under = "kubepods", .prefix = "pod", .middle = MIDDLE_POD_DASH, .gives = GIVES_POD },
        { .under = "burstable", .prefix = "pod", .middle = MIDDLE_POD_DASH, .gives = GIVES_POD },
        { .under = "besteffort", .prefix = "pod", .middle = MIDDLE_POD_DASH, .gives = GIVES_POD },
        { .prefix = "pod", .middle = MIDDLE_POD_DASH, .pattern = PATTERN_MIDDLE },
        /* systemd driver; with a cgroup root of its own, its name comes first ("kubelet-kubepods-...") */
        POD_SLICE("kubepods-pod"),
        POD_SLICE("kubepods-burstable-pod"),
        POD_SLICE("kubepods-besteffort-pod"),

        /* LXC: from 4.0, 3.x, before */
        LXC(NULL, "lxc.payload.", PATTERN_CHOSEN),
        LXC(NULL, "lxc.monitor.", PATTERN_CHOSEN),
        LXC("lxc.payload", NULL, PATTERN_NONE),
        LXC("lxc.monitor", NULL, PATTERN_NONE),
        LXC("lxc", NULL, PATTERN_NONE),

        /* libvirt: through machined, and by itself */
        MACHINE("machine-qemu\\x2d", MIDDLE_NUMBER_ESCAPED, ".scope", PATTERN_MIDDLE, "libvirt"),
        MACHINE("machine-lxc\\x2d", MIDDLE_NUMBER_ESCAPED, ".scope", PATTERN_MIDDLE, "libvirt"),
        MACHINE("qemu-", MIDDLE_NUMBER_DASH, ".libvirt-qemu", PATTERN_MIDDLE, "libvirt"),
        MACHINE("lxc-", MIDDLE_NUMBER_DASH, ".libvirt-lxc", PATTERN_MIDDLE, "libvirt"),
        MACHINE(NULL, MIDDLE_ANY, ".libvirt-qemu", PATTERN_CHOSEN, "libvirt"),
        MACHINE(NULL, MIDDLE_ANY, ".libvirt-lxc", PATTERN_CHOSEN, "libvirt"),

        /* nspawn: by hand, from the template unit */
        MACHINE("machine-", MIDDLE_ANY, ".scope", PATTERN_CHOSEN, "nspawn"),
        MACHINE("systemd-nspawn@", MIDDLE_ANY, ".service", PATTERN_CHOSEN, "nspawn"),

        /* systemd-run: a random id, the number of its bus connection, its PID and invocation */
        { .prefix = "run-r", .middle = MIDDLE_HEX, .suffix = ".scope", .pattern = PATTERN_MIDDLE },
        { .prefix = "run-r", .middle = MIDDLE_HEX, .suffix = ".service", .pattern = PATTERN_MIDDLE },
        { .prefix = "run-u", .middle = MIDDLE_DECIMAL, .suffix = ".scope", .pattern = PATTERN_MIDDLE },
        { .prefix = "run-u", .middle = MIDDLE_DECIMAL, .suffix = ".service", .pattern = PATTERN_MIDDLE },
        { .prefix = "run-p", .middle = MIDDLE_PID_INVOCATION, .suffix = ".scope", .pattern = PATTERN_DIGITS },
        { .prefix = "run-p", .middle = MIDDLE_PID_INVOCATION, .suffix = ".service", .pattern = PATTERN_DIGITS },
        /* logind: "c" for sessions that the audit system did not number */
        { .prefix = "session-c", .middle = MIDDLE_DECIMAL, .suffix = ".scope", .pattern = PATTERN_MIDDLE },
        /* services that the bus broker and socket units start, one for each activation or connection */
        { .prefix = "dbus-:", .middle = MIDDLE_ANY, .suffix = ".service", .pattern = PATTERN_DIGITS },
        { .inside = true, .prefix = "@", .middle = MIDDLE_CONNECTION, .suffix = ".service", .pattern = PATTERN_MIDDLE },
        /* runc's mounts below /run/docker and /run/containerd, mktemp, Python's tempfile */
        { .inside = true, .prefix = "-runc.", .middle = MIDDLE_RANDOM6, .suffix = ".mount", .pattern = PATTERN_MIDDLE },
        { .prefix = "tmp.", .middle = MIDDLE_RANDOM10, .pattern = PATTERN_MIDDLE },
        { .prefix = "tmp", .middle = MIDDLE_RANDOM8, .pattern = PATTERN_MIDDLE },

        /* every other unit */
        { .middle = MIDDLE_ANY, .suffix = ".scope", .gives = GIVES_UNIT, .pattern = PATTERN_SCOPE },
        { .middle = MIDDLE_ANY, .suffix = ".service", .gives = GIVES_UNIT, .pattern = PATTERN_CHOSEN },
        { .middle = MIDDLE_ANY, .suffix = ".socket", .gives = GIVES_UNIT, .pattern = PATTERN_CHOSEN },
        { .middle = MIDDLE_ANY, .suffix = ".mount", .gives = GIVES_UNIT, .pattern = PATTERN_CHOSEN },
        { .middle = MIDDLE_ANY, .suffix = ".swap", .gives = GIVES_UNIT, .pattern = PATTERN_CHOSEN },
        { .middle = MIDDLE_ANY, .suffix = ".slice", .gives = GIVES_UNIT | GIVES_SLICE, .pattern = PATTERN_CHOSEN },

        { .middle = MIDDLE_ANY, .pattern = PATTERN_PLAIN },
};
/* clang-format on */

/* By hand: the locale has no say in this. */
static bool is_decimal(char c) {
        return c >= '0' && c <= '9';
}

static bool is_hex(char c) {
        return is_decimal(c) || (c >= 'a' && c <= 'f');
}

static bool is_alnum(char c) {
        return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Length of the run of such bytes that s begins with. */
static size_t run(const char *s, size_t len, bool (*is)(char)) {
        size_t n = 0;

        while (n < len && is(s[n]))
                n++;
        return n;
}

static bool begins_with(const char *s, size_t len, const char *with) {
        size_t n = strlen(with);

        return len >= n && memcmp(s, with, n) == 0;
}

static bool ends_with(const char *s, size_t len, const char *with) {
        size_t n = strlen(with);

        return len >= n && memcmp(s + len - n, with, n) == 0;
}

/* Length of a UUID with this separator at the beginning of s, 0 if there is none. */
static size_t match_uuid(const char *s, size_t len, const char *separator) {
        static const size_t groups[] = { 8, 4, 4, 4, 12 };
        size_t at = 0;

        for (size_t i = 0; i < ELEMENTSOF(groups); i++) {
                if (i > 0) {
                        if (!begins_with(s + at, len - at, separator))
                                return 0;
                        at += strlen(separator);
                }
                if (len - at < groups[i] || run(s + at, groups[i], is_hex) < groups[i])
                        return 0;
                at += groups[i];
        }
        return at < len && is_alnum(s[at]) ? 0 : at;
}

/* A number, the separator, and something after it. Returns where that begins, 0 if it is not so. */
static size_t match_number(const char *s, size_t len, const char *separator) {
        size_t n = run(s, len, is_decimal), at = n + strlen(separator);

        return n > 0 && begins_with(s + n, len - n, separator) && at < len ? at : 0;
}

static bool is_random(const char *s, size_t len, size_t want) {
        return len == want && run(s, len, is_alnum) == len;
}

/* Python's: letters in lower case, digits, "_". With a digit, so that it is no word. */
static bool is_python_random(const char *s, size_t len) {
        bool digit = false;

        if (len != 8)
                return false;
        for (size_t i = 0; i < len; i++) {
                if (!is_decimal(s[i]) && !(s[i] >= 'a' && s[i] <= 'z') && s[i] != '_')
                        return false;
                digit |= is_decimal(s[i]);
        }
        return digit;
}

/* A number, then two addresses or numbers: no service template is given such names by a person. */
static bool is_connection(const char *s, size_t len) {
        size_t dashes = 0, n = run(s, len, is_decimal);

        if (n == 0 || n == len || s[n] != '-')
                return false;
        for (size_t i = 0; i < len; i++) {
                if (!is_hex(s[i]) && !strchr(".:[]-", s[i]))
                        return false;
                if (s[i] == '\0')
                        return false;
                dashes += s[i] == '-';
        }
        return dashes >= 2;
}

/* Whether this is such a middle. *ret_fact: where in it the fact begins. *ret_varying: how many bytes at its beginning vary. */
static bool match_middle(Middle middle, const char *s, size_t len, size_t *ret_fact, size_t *ret_varying) {
        size_t at, hex = run(s, len, is_hex), decimal = run(s, len, is_decimal);

        *ret_fact = 0;
        *ret_varying = len;
        if (len == 0)
                return false;

        switch (middle) {
        case MIDDLE_ANY:
                return true;
        case MIDDLE_HEX64:
                return len == 64 && hex == 64;
        case MIDDLE_HEX:
                return hex == len;
        case MIDDLE_DECIMAL:
                return decimal == len;
        case MIDDLE_POD_DASH:
                return match_uuid(s, len, "-") == len || (len == 32 && hex == 32);
        case MIDDLE_POD_UNDER:
                return match_uuid(s, len, "_") == len || (len == 32 && hex == 32);
        case MIDDLE_NUMBER_DASH:
        case MIDDLE_NUMBER_ESCAPED:
                *ret_fact = match_number(s, len, middle == MIDDLE_NUMBER_DASH ? "-" : "\\x2d");
                *ret_varying = decimal;
                return *ret_fact > 0;
        case MIDDLE_PID_INVOCATION:
                at = match_number(s, len, "-i");
                return at > 0 && run(s + at, len - at, is_decimal) == len - at;
        case MIDDLE_CONNECTION:
                return is_connection(s, len);
        case MIDDLE_RANDOM6:
                return is_random(s, len, 6);
        case MIDDLE_RANDOM8:
                return is_python_random(s, len);
        case MIDDLE_RANDOM10:
                return is_random(s, len, 10);
        }
        return false;
}

/* Where a row found what in a name. */
typedef struct Match {
        size_t middle, middle_len; /* all between prefix and suffix */
        size_t fact;               /* where the fact begins, which goes on to the end of the middle */
        size_t varying;            /* bytes from the beginning of the middle that vary */
} Match;

static bool match_at(const Row *row, const char *name, size_t end, size_t middle, Match *ret) {
        Match m = { .middle = middle, .middle_len = end - middle };

        if (!match_middle(row->middle, name + middle, m.middle_len, &m.fact, &m.varying))
                return false;
        m.fact += middle;
        *ret = m;
        return true;
}

static bool match_name(const Row *row, const char *name, size_t len, Match *ret) {
        const char *prefix = row->prefix ?: "", *suffix = row->suffix ?: "";
        size_t prefix_len = strlen(prefix), end;

        if (!ends_with(name, len, suffix))
                return false;
        end = len - strlen(suffix);
        if (!row->inside)
                return begins_with(name, end, prefix) && match_at(row, name, end, prefix_len, ret);

        for (size_t i = 0; i + prefix_len <= end; i++) {
                /* A prefix that begins with a letter must begin a part of a slice's name. */
                if (i > 0 && name[i - 1] != '-' && is_alnum(prefix[0]))
                        continue;
                if (begins_with(name + i, end - i, prefix) && match_at(row, name, end, i + prefix_len, ret))
                        return true;
        }
        return false;
}

/* The characters of systemd's unit names (unit_name_is_valid() there), so that what only looks like one at its end is none. */
static bool is_unit_name(const char *s, size_t len) {
        if (len == 0 || len > 255 || s[0] == '.' || s[0] == '@')
                return false;
        for (size_t i = 0; i < len; i++)
                if (!is_alnum(s[i]) && (s[i] == '\0' || !strchr(":-_.\\@", s[i])))
                        return false;
        return true;
}

static IdentityPart unescape_unit(const char *name, size_t len) {
        return name[0] == '_' ? (IdentityPart){ name + 1, len - 1 } : (IdentityPart){ name, len };
}

/* Takes the facts that a row gives about a name. Returns the ones taken. */
static unsigned take(const Row *row, unsigned gives, const char *name, size_t len, const Match *m, Identity *id) {
        IdentityPart fact = { name + m->fact, m->middle + m->middle_len - m->fact };

        if (gives & GIVES_UNIT) {
                IdentityPart unit = unescape_unit(name, len);

                /* More than the suffix has to be left: "_.slice" is not the escaped form of anything. */
                if (!is_unit_name(unit.s, unit.len))
                        return 0;
                id->unit = unit;
                if (gives & GIVES_SLICE)
                        id->slice = unit;
        }
        if (gives & GIVES_MACHINE)
                id->machine = fact;
        if (gives & GIVES_CONTAINER)
                id->container = fact;
        if (gives & GIVES_POD) {
                /* 32 or 36 bytes: the middle was matched. */
                memcpy(id->pod_uid, fact.s, fact.len);
                id->pod_uid[fact.len] = '\0';
                for (size_t i = 0; i < fact.len; i++)
                        if (id->pod_uid[i] == '_')
                                id->pod_uid[i] = '-';
        }
        if (row->engine)
                id->engine = row->engine;
        return gives;
}

void identity_parse(const char *path, size_t len, Identity *ret) {
        IdentityPart above = { .s = "" };
        unsigned given_above = 0;
        Identity id = {};

        for (size_t at = 0, n; at < len; at += n + 1) {
                const char *name = path + at, *slash = memchr(name, '/', len - at);
                unsigned given = 0;
                Match m;

                n = slash ? (size_t)(slash - name) : len - at;
                if (n == 0)
                        continue;
                for (size_t i = 0; i < ELEMENTSOF(table) && n <= 255; i++) {
                        const Row *row = &table[i];

                        if (!row->gives || (row->gives & given))
                                continue;
                        if (row->under && !(above.len == strlen(row->under) && begins_with(above.s, above.len, row->under)))
                                continue;
                        if (row->under_pod && !(given_above & GIVES_POD))
                                continue;
                        if (match_name(row, name, n, &m))
                                given |= take(row, row->gives, name, n, &m, &id);
                }
                above = (IdentityPart){ name, n };
                given_above = given;
        }
        *ret = id;
}

/* A string under construction; never longer than what it was made from, since "*" replaces one byte or more. */
typedef struct Buffer {
        char *s;
        size_t len;
} Buffer;

static void put(Buffer *b, const char *s, size_t len) {
        memcpy(b->s + b->len, s, len);
        b->len += len;
}

static void put_star(Buffer *b) {
        b->s[b->len++] = '*';
}

/* All of it, with numbers as "*". */
static void put_digits(Buffer *b, const char *s, size_t len) {
        for (size_t i = 0, n; i < len; i += n) {
                n = run(s + i, len - i, is_decimal);
                if (n > 0) {
                        put_star(b);
                } else {
                        n = 1;
                        put(b, s + i, 1);
                }
        }
}

/* Whether a word is an id rather than a word. strict: a word of a name that somebody chose. */
static bool is_id(const char *s, size_t len, bool strict) {
        size_t changes = 0;

        if (run(s, len, is_hex) != len)
                return false;
        for (size_t i = 1; i < len; i++)
                changes += is_decimal(s[i]) != is_decimal(s[i - 1]);
        return (len >= 12 && changes >= 1) || (!strict && len >= 8 && changes >= 2);
}

/* A word is a run of letters and digits; before and after are the bytes around it, NUL at the ends of the name. */
static void put_word(Buffer *b, const char *s, size_t len, Pattern pattern, char before, char after) {
        size_t trailing = 0;

        if (is_id(s, len, pattern == PATTERN_CHOSEN)) {
                put_star(b);
                return;
        }
        if (pattern == PATTERN_CHOSEN) {
                put(b, s, len);
                return;
        }
        if (pattern == PATTERN_PLAIN) {
                put_digits(b, s, len);
                return;
        }

        while (trailing < len && is_decimal(s[len - 1 - trailing]))
                trailing++;
        /* A number of its own; but not part of a version: "app-python3.11-4711.scope". */
        if (trailing < len ? trailing >= 6 : before != '.' && after != '.') {
                put(b, s, len - trailing);
                put_star(b);
                return;
        }
        put(b, s, len);
}

/* Length of a UUID, with any of the separators that it is written with in names; 0 if there is none. */
static size_t match_any_uuid(const char *s, size_t len) {
        static const char *const separators[] = { "-", "_", "\\x2d" };
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(separators) && n == 0; i++)
                n = match_uuid(s, len, separators[i]);
        return n;
}

/* \x2d and the like: what systemd writes for a byte that a unit name cannot have. No part of a word. */
static bool is_escape(const char *s, size_t len) {
        return len >= 4 && s[0] == '\\' && s[1] == 'x' && is_hex(s[2]) && is_hex(s[3]);
}

static void put_words(Buffer *b, const char *s, size_t len, Pattern pattern) {
        for (size_t i = 0, n; i < len; i += n) {
                size_t word = run(s + i, len - i, is_alnum);

                /* A UUID can begin inside a run of letters and digits: "pod1f2e...-...". Then the word ends before it. */
                for (n = 0; n < word; n++)
                        if (match_any_uuid(s + i + n, len - i - n) > 0)
                                break;
                if (word > 0 && n == 0) {
                        n = match_any_uuid(s + i, len - i);
                        if (ends_with(s, i, "uuid-"))
                                put(b, s + i, n);
                        else
                                put_star(b);
                } else if (word > 0) {
                        put_word(b, s + i, n, pattern, i > 0 ? s[i - 1] : '\0', i + n < len ? s[i + n] : '\0');
                } else {
                        n = is_escape(s + i, len - i) ? 4 : 1;
                        put(b, s + i, n);
                }
        }
}

size_t identity_pattern(const char *name, size_t len, char *buf, size_t size) {
        Buffer b = { .s = buf };
        const Row *row = NULL;
        size_t end;
        Match m = {};

        if (size <= len) {
                if (size > 0)
                        buf[0] = '\0';
                return 0;
        }
        for (size_t i = 0; i < ELEMENTSOF(table) && !row; i++)
                if (table[i].pattern != PATTERN_NONE && match_name(&table[i], name, len, &m))
                        row = &table[i];

        end = m.middle + m.middle_len;
        if (row && row->pattern == PATTERN_MIDDLE) {
                /* What comes before a prefix inside the name can vary as well: the id of the container in the mounts of runc. */
                put_words(&b, name, m.middle, PATTERN_CHOSEN);
                put_star(&b);
                put(&b, name + m.middle + m.varying, m.middle_len - m.varying);
                put(&b, name + end, len - end);
        } else if (row && row->pattern == PATTERN_DIGITS) {
                put(&b, name, m.middle);
                put_digits(&b, name + m.middle, m.middle_len);
                put(&b, name + end, len - end);
        } else if (row) {
                const size_t suffix = row->suffix ? strlen(row->suffix) : 0;

                put_words(&b, name, len - suffix, row->pattern);
                put(&b, name + len - suffix, suffix);
        }
        b.s[b.len] = '\0';
        return b.len;
}
