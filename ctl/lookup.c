/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lookup.h"

#include <inttypes.h>

#include "daemon/escape.h"
#include "text.h"

/* Longer paths are not compared letter by letter for a suggestion, and not after this many steps of comparing. */
#define DISTANCE_BYTES_MAX 512U
#define DISTANCE_STEPS_MAX 100000000ULL

/* "a//b/" → "/a/b". Newly allocated, NULL when memory is out. */
static char *normalise(const char *word) {
        char *path = calloc(1, strlen(word) + 2), *p = path;

        if (!path)
                return NULL;
        while (*word) {
                size_t n = strcspn(word, "/");

                if (n > 0) {
                        *p++ = '/';
                        memcpy(p, word, n);
                        p += n;
                        word += n;
                }
                word += strspn(word, "/");
        }
        if (p == path)
                *p = '/';
        return path;
}

/* Behind the mount point, if that is where the path begins; else NULL. */
static const char *below(const char *path, const char *mount_point) {
        size_t n = mount_point ? strlen(mount_point) : 0;

        while (n > 0 && mount_point[n - 1] == '/')
                n--;
        if (n == 0 || strncmp(path, mount_point, n) != 0 || (path[n] != '/' && path[n] != '\0'))
                return NULL;
        return path[n] ? path + n : "/";
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Turns back what escape_text() made: controls and bytes beyond ASCII. Other escapes are part of the name: systemd writes a "-" as
 * "\x2d". In place.
 */
static void unescape(char *s) {
        char *out = s;

        while (*s) {
                int high = -1, low = -1, byte;

                if (s[0] == '\\' && s[1] == 'x')
                        high = hex_digit(s[2]);
                if (high >= 0)
                        low = hex_digit(s[3]);
                byte = low >= 0 ? high * 16 + low : 0;
                if (byte > 0 && (byte < 0x20 || byte >= 0x7f)) {
                        *out++ = (char)(unsigned char)byte;
                        s += 4;
                } else
                        *out++ = *s++;
        }
        *out = '\0';
}

/* ------------------------------------------------------------------------------------------------------------- nearest */

/*
 * Edit distance of two strings, limit + 1 when it is greater than limit. Only the diagonal band that a distance within the limit
 * can reach is computed. Counts its work in *steps.
 */
static size_t distance(const char *a, size_t na, const char *b, size_t nb, size_t limit, uint64_t *steps) {
        size_t row[DISTANCE_BYTES_MAX + 1];

        while (na > 0 && nb > 0 && *a == *b)
                a++, b++, na--, nb--;
        while (na > 0 && nb > 0 && a[na - 1] == b[nb - 1])
                na--, nb--;
        if (na > DISTANCE_BYTES_MAX || nb > DISTANCE_BYTES_MAX || (na > nb ? na - nb : nb - na) > limit)
                return limit + 1;

        for (size_t j = 0; j <= nb; j++)
                row[j] = j <= limit ? j : limit + 1;
        for (size_t i = 1; i <= na; i++) {
                size_t from = i > limit ? i - limit : 1, to = i + limit < nb ? i + limit : nb, diagonal = row[from - 1], best;

                best = row[from - 1] = from == 1 && i <= limit ? i : limit + 1;
                for (size_t j = from; j <= to; j++) {
                        size_t above = j == i + limit ? limit + 1 : row[j], d = diagonal + (a[i - 1] != b[j - 1]);

                        if (above + 1 < d)
                                d = above + 1;
                        if (row[j - 1] + 1 < d)
                                d = row[j - 1] + 1;
                        diagonal = row[j];
                        row[j] = d;
                        if (d < best)
                                best = d;
                }
                *steps += to >= from ? to - from + 1 : 1;
                if (best > limit)
                        return limit + 1;
        }
        return row[nb] <= limit ? row[nb] : limit + 1;
}

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* The memcg whose printed path is nearest to the one given; *ret_exact: it is the same. 0 or -ENOMEM. */
static int find_nearest(const Census *c, const char *path, uint32_t *ret, bool *ret_exact) {
        size_t len = strlen(path), limit = len / 4 > 3 ? len / 4 : 3;
        const char *base = base_name(path);
        uint32_t nearest = CENSUS_NONE;
        uint64_t steps = 0;

        *ret_exact = false;
        for (uint32_t i = 0; i < c->n_memcgs && limit > 0 && steps < DISTANCE_STEPS_MAX; i++) {
                _cleanup_(freep) char *raw = NULL, *text = NULL;
                size_t raw_len = 0, text_len = 0, d;

                raw = census_path(c, i, &raw_len);
                text = raw ? escape_text(raw, raw_len, ESCAPE_TERMINAL, &text_len) : NULL;
                if (!text)
                        return -ENOMEM;
                if (strcmp(text, path) == 0) {
                        *ret_exact = true;
                        *ret = i;
                        return 0;
                }
                /* The same name in another place is as near as one wrong letter. */
                d = *base && strcmp(base, base_name(text)) == 0 ? 1 : distance(path, len, text, text_len, limit, &steps);
                if (d <= limit && i > 0) {
                        nearest = i;
                        limit = d - 1;
                }
        }
        *ret = nearest;
        return 0;
}

/* -------------------------------------------------------------------------------------------------------------- lookup */

static ExitCode find_serial(const Census *c, const char *digits, uint32_t *ret) {
        uint64_t serial = 0;
        uint32_t i = CENSUS_NONE;

        if (text_parse_u64(digits, 0, UINT64_MAX, &serial) >= 0)
                i = census_find(c, serial);
        if (i == CENSUS_NONE)
                return exit_complain(CTL_EXIT_NOT_FOUND,
                                     "no memory cgroup has the serial %s. The highest is %" PRIu64 "; it may be gone by now", digits,
                                     c->totals.highest_serial);
        *ret = i;
        return CTL_EXIT_OK;
}

static ExitCode not_found(const Census *c, const char *path, uint32_t nearest) {
        Format format = { .utf8 = true };
        Text t = {};
        ExitCode code;

        text_add_string(&t, "there is no memory cgroup '");
        text_add_name(&t, &format, path, strlen(path));
        text_add_string(&t, "'.");
        if (nearest != CENSUS_NONE) {
                _cleanup_(freep) char *near = NULL;
                size_t len = 0;

                near = census_path(c, nearest, &len);
                if (near) {
                        text_add_string(&t, " Did you mean '");
                        text_add_name(&t, &format, near, len);
                        text_add(&t, "' (serial %" PRIu64 ", %s)?", c->memcgs[nearest].serial,
                                 census_state_to_string(c->memcgs[nearest].state));
                }
        } else
                text_add_string(&t, " 'shrinkwatchctl census' lists them all");
        code = exit_complain(CTL_EXIT_NOT_FOUND, "%s", text_get(&t));
        text_done(&t);
        return code;
}

/* The nearest memcg above a path, by its names; the root at last. In place. */
static uint32_t find_above(const Census *c, char *path) {
        uint32_t i = CENSUS_NONE;

        while (i == CENSUS_NONE) {
                char *slash = strrchr(path, '/');

                if (!slash || slash == path)
                        return 0;
                *slash = '\0';
                i = census_find_path(c, path, strlen(path));
        }
        return i;
}

/*
 * A cgroup that the census does not have: on v2 the memory controller can be off for it, and what it uses counts for one above. CTL_EXIT_OK
 * when that is not how it is.
 */
static ExitCode complain_no_controller(const Census *c, const Names *names, const char *path) {
        Format format = { .utf8 = true };
        _cleanup_(freep) char *copy = NULL, *near = NULL;
        Text t = {};
        ExitCode code;
        uint32_t above;
        size_t len = 0;

        if (!names || !names->v2 || names_exists(names, path) != 1)
                return CTL_EXIT_OK;
        copy = strdup(path);
        if (!copy)
                return exit_out_of_memory();
        above = find_above(c, copy);
        near = census_path(c, above, &len);
        if (!near)
                return exit_out_of_memory();

        text_add_string(&t, "the memory controller is off for '");
        text_add_name(&t, &format, path, strlen(path));
        text_add_string(&t, "': it is no memory cgroup of its own. What it takes is part of '");
        text_add_name(&t, &format, near, len);
        text_add(&t, "' (serial %" PRIu64 ", %s)", c->memcgs[above].serial, census_state_to_string(c->memcgs[above].state));
        code = exit_complain(CTL_EXIT_NOT_FOUND, "%s", text_get(&t));
        text_done(&t);
        return code;
}

static uint32_t find_raw(const Census *c, const char *path, const char *mount_point) {
        const char *inner = below(path, mount_point);
        uint32_t i = CENSUS_NONE;

        if (inner)
                i = census_find_path(c, inner, strlen(inner));
        if (i == CENSUS_NONE)
                i = census_find_path(c, path, strlen(path));
        return i;
}

ExitCode lookup_memcg(const Census *c, const char *word, const Names *names, uint32_t *ret) {
        _cleanup_(freep) char *path = NULL, *raw = NULL;
        const char *mount_point = names ? names->mount_point : NULL, *digits = word[0] == '@' ? word + 1 : word, *inner;
        bool exact = false;
        uint32_t i;

        /* A cgroup that is called like a number is written with a slash. */
        if (*digits && strspn(digits, "0123456789") == strlen(digits))
                return find_serial(c, digits, ret);

        path = normalise(word);
        raw = path ? strdup(path) : NULL;
        if (!raw)
                return exit_out_of_memory();
        unescape(raw);

        i = find_raw(c, path, mount_point);
        if (i == CENSUS_NONE)
                i = find_raw(c, raw, mount_point);
        if (i == CENSUS_NONE) {
                inner = below(path, mount_point);
                if (find_nearest(c, inner ? inner : path, &i, &exact) < 0)
                        return exit_out_of_memory();
                if (!exact) {
                        const char *inner_raw = below(raw, mount_point);
                        ExitCode code = complain_no_controller(c, names, inner_raw ? inner_raw : raw);

                        return code != CTL_EXIT_OK ? code : not_found(c, inner ? inner : path, i);
                }
        }
        *ret = i;
        return CTL_EXIT_OK;
}

size_t lookup_namesakes(const Census *c, uint32_t memcg, uint32_t *ret, size_t max) {
        size_t n = 0;

        for (uint32_t i = 0; i < c->n_memcgs; i++) {
                uint32_t a = memcg, b = i;

                /* Names from the leaf up: most differ at once. */
                while (a != CENSUS_NONE && b != CENSUS_NONE && a != b && c->memcgs[a].name_len == c->memcgs[b].name_len &&
                       memcmp(census_name(c, a), census_name(c, b), c->memcgs[a].name_len) == 0) {
                        a = c->memcgs[a].parent;
                        b = c->memcgs[b].parent;
                }
                if (a != b || i == memcg)
                        continue;
                if (n < max)
                        ret[n] = i;
                n++;
        }
        return n;
}
