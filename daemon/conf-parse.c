/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Values as systemd writes them. By hand, since strtod() and strcasecmp() go by the locale. */
#include "conf-internal.h"

#define BLANKS " \t\r\n"

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static char lower(char c) {
        return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool conf_equal_nocase(const char *a, const char *b) {
        for (; *a && lower(*a) == lower(*b); a++, b++)
                ;
        return lower(*a) == lower(*b);
}

static const char *skip_blanks(const char *s) {
        return s + strspn(s, BLANKS);
}

bool conf_is_infinity(const char *s) {
        static const char word[] = "infinity";

        s = skip_blanks(s);
        return strncmp(s, word, sizeof(word) - 1) == 0 && !*skip_blanks(s + sizeof(word) - 1);
}

/* A number as it is written: 12, 12.5, .5. */
typedef struct Number {
        uint64_t whole;
        uint64_t fraction, scale; /* fraction / scale, scale a power of ten */
        bool point;
        unsigned digits; /* behind the point */
} Number;

/* At least one digit, before the point or behind it. *s: behind it. */
static int read_number(const char **s, Number *ret) {
        Number n = { .scale = 1 };
        const char *p = *s;
        bool any = is_digit(*p);

        if (*p == '-')
                return is_digit(p[1]) ? -ERANGE : -EINVAL;
        for (; is_digit(*p); p++)
                if (__builtin_mul_overflow(n.whole, 10U, &n.whole) || __builtin_add_overflow(n.whole, (unsigned)(*p - '0'), &n.whole))
                        return -ERANGE;
        if (*p == '.') {
                n.point = true;
                for (p++; is_digit(*p); p++, n.digits++)
                        /* Digits beyond the eighteenth are less than one of any unit there is. */
                        if (n.digits < 18) {
                                n.fraction = n.fraction * 10 + (unsigned)(*p - '0');
                                n.scale *= 10;
                        }
        }
        if (!any && n.digits == 0)
                return -EINVAL;
        *s = p;
        *ret = n;
        return 0;
}

/* Adds so many of a unit, rounded down, to *sum. -ERANGE: above max. */
static int add_units(uint64_t *sum, const Number *n, uint64_t unit, uint64_t max) {
        unsigned __int128 total = (unsigned __int128)n->whole * unit + (unsigned __int128)n->fraction * unit / n->scale + *sum;

        if (total > max)
                return -ERANGE;
        *sum = (uint64_t)total;
        return 0;
}

/* ----------------------------------------------------------------------------------------------------------- time spans */

#define USEC_MSEC 1000ULL
#define USEC_SEC (1000 * USEC_MSEC)
#define USEC_MIN (60 * USEC_SEC)
#define USEC_HOUR (60 * USEC_MIN)
#define USEC_DAY (24 * USEC_HOUR)
#define USEC_WEEK (7 * USEC_DAY)
#define USEC_MONTH (2629800 * USEC_SEC) /* a twelfth of a year */
#define USEC_YEAR (31557600 * USEC_SEC) /* 365.25 days */

static const struct {
        const char *name;
        uint64_t usec;
} span_units[] = {
        { "us", 1 },          { "usec", 1 },           { "µs", 1 },             { "μs", 1 },              { "ms", USEC_MSEC },
        { "msec", USEC_MSEC }, { "s", USEC_SEC },       { "sec", USEC_SEC },     { "second", USEC_SEC },   { "seconds", USEC_SEC },
        { "m", USEC_MIN },     { "min", USEC_MIN },     { "minute", USEC_MIN },  { "minutes", USEC_MIN },  { "h", USEC_HOUR },
        { "hr", USEC_HOUR },   { "hour", USEC_HOUR },   { "hours", USEC_HOUR },  { "d", USEC_DAY },        { "day", USEC_DAY },
        { "days", USEC_DAY },  { "w", USEC_WEEK },      { "week", USEC_WEEK },   { "weeks", USEC_WEEK },   { "M", USEC_MONTH },
        { "month", USEC_MONTH }, { "months", USEC_MONTH }, { "y", USEC_YEAR },   { "year", USEC_YEAR },    { "years", USEC_YEAR },
};

int conf_parse_span(const char *s, uint64_t *ret_usec) {
        uint64_t sum = 0;

        if (conf_is_infinity(s)) {
                *ret_usec = UINT64_MAX;
                return 0;
        }
        s = skip_blanks(s);
        do {
                uint64_t unit = 0;
                Number n;
                size_t len;
                int r;

                r = read_number(&s, &n);
                if (r < 0)
                        return r;
                if (n.point && n.digits == 0)
                        return -EINVAL;
                /* A number is of seconds when nothing, or a blank and another number, comes behind it. */
                len = strspn(s, BLANKS);
                if (!s[len] || (len > 0 && (is_digit(s[len]) || s[len] == '.')))
                        unit = USEC_SEC;
                s += len;
                if (unit == 0) {
                        len = strcspn(s, BLANKS ".0123456789");
                        for (size_t i = 0; i < ELEMENTSOF(span_units) && unit == 0; i++)
                                if (strncmp(span_units[i].name, s, len) == 0 && !span_units[i].name[len])
                                        unit = span_units[i].usec;
                        if (unit == 0)
                                return -EINVAL;
                        s = skip_blanks(s + len);
                }
                r = add_units(&sum, &n, unit, UINT64_MAX - 1);
                if (r < 0)
                        return r;
        } while (*s);
        *ret_usec = sum;
        return 0;
}

/* --------------------------------------------------------------------------------------------------------------- shares */

int conf_parse_share(const char *s, uint64_t *ret_ppm) {
        static const struct {
                const char *suffix;
                uint64_t ppm;
                unsigned digits; /* behind the point that are whole millionths */
        } suffixes[] = { { "%", 10000, 4 }, { "‰", 1000, 3 }, { "‱", 100, 2 } };
        uint64_t ppm = 0;
        Number n;
        int r;

        s = skip_blanks(s);
        r = read_number(&s, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++) {
                size_t len = strlen(suffixes[i].suffix);

                if (strncmp(s, suffixes[i].suffix, len) != 0 || *skip_blanks(s + len))
                        continue;
                if (n.digits > suffixes[i].digits || (n.point && n.digits == 0))
                        return -EINVAL;
                r = add_units(&ppm, &n, suffixes[i].ppm, 1000000);
                if (r < 0)
                        return r;
                *ret_ppm = ppm;
                return 0;
        }
        return -EINVAL;
}

/* ---------------------------------------------------------------------------------------------------------------- sizes */

static int parse_size(const char *s, uint64_t *ret) {
        static const char units[] = "EPTGMKB";
        const char *from = units; /* each part is of a smaller unit than the one before */
        uint64_t sum = 0;

        s = skip_blanks(s);
        do {
                const char *unit;
                Number n;
                int r;

                if (!*from)
                        return -EINVAL;
                r = read_number(&s, &n);
                if (r < 0)
                        return r;
                s = skip_blanks(s);
                if (*s) {
                        unit = strchr(from, *s);
                        s = skip_blanks(s + 1);
                } else
                        unit = units + sizeof(units) - 2; /* bytes */
                if (!unit)
                        return -EINVAL;
                r = add_units(&sum, &n, 1ULL << 10 * (units + sizeof(units) - 2 - unit), INT64_MAX);
                if (r < 0)
                        return r;
                from = unit + 1;
        } while (*s);
        *ret = sum;
        return 0;
}

int conf_parse_bytes(const char *s, uint64_t memory_bytes, uint64_t *ret) {
        uint64_t ppm = 0;
        int r;

        if (conf_is_infinity(s)) {
                *ret = UINT64_MAX;
                return 0;
        }
        if (!strstr(s, "%") && !strstr(s, "‰") && !strstr(s, "‱"))
                return parse_size(s, ret);
        r = conf_parse_share(s, &ppm);
        if (r < 0)
                return r;
        *ret = (uint64_t)((unsigned __int128)memory_bytes * ppm / 1000000);
        return 0;
}

/* -------------------------------------------------------------------------------------------------------------- others */

int conf_parse_bool(const char *s, bool *ret) {
        static const char *const words[] = { "no", "yes", "0", "1", "n", "y", "false", "true", "f", "t", "off", "on" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (conf_equal_nocase(s, words[i])) {
                        *ret = i % 2;
                        return 0;
                }
        return -EINVAL;
}

int conf_parse_count(const char *s, uint64_t *ret) {
        Number n;
        int r;

        r = read_number(&s, &n);
        if (r < 0)
                return r;
        if (n.point || *s)
                return -EINVAL;
        *ret = n.whole;
        return 0;
}
