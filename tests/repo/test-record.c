/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The structs of bpf/record.h as the BPF compiler laid them out (the BTF of the objects given) and as the C compiler did: name, size
 * and members, one by one. Arguments: BPF objects.
 */
#include <bpf/btf.h>
#include <stdarg.h>
#include <stdio.h>

#include "bpf/record.h"
#include "daemon/util.h"

typedef struct Field {
        const char *record; /* the struct */
        const char *name;
        size_t record_bytes;
        size_t offset;
        size_t bytes;
} Field;

static const Field fields[] = {
#define SW_FIELD(record, name) { #record, #name, sizeof(struct record), offsetof(struct record, name), sizeof(((struct record *)0)->name) },
#include "record-fields.h"
#undef SW_FIELD
};

static bool seen[ELEMENTSOF(fields)];
static unsigned n_points, n_failed;

_printf_(2, 3) static void point(bool good, const char *format, ...) {
        va_list ap;

        printf("%s %u - ", good ? "ok" : "not ok", ++n_points);
        va_start(ap, format);
        vprintf(format, ap);
        va_end(ap);
        putchar('\n');
        n_failed += !good;
}

static size_t find_field(const Field *table, size_t n, const char *record, const char *name) {
        size_t i;

        for (i = 0; i < n; i++)
                if (strcmp(table[i].record, record) == 0 && strcmp(table[i].name, name) == 0)
                        break;
        return i;
}

/* Differences between one struct in BTF and the table. Says what they are unless quiet. */
static unsigned compare(const struct btf *btf, const struct btf_type *t, const Field *table, size_t n, bool quiet) {
        const char *record = btf__name_by_offset(btf, t->name_off);
        const struct btf_member *m = btf_members(t);
        unsigned members = 0, bad = 0;

        for (size_t i = 0; i < n; i++)
                members += strcmp(table[i].record, record) == 0;
        if (members != btf_vlen(t)) {
                if (!quiet)
                        printf("# struct %s: %u members here, %u in BTF\n", record, members, btf_vlen(t));
                bad++;
        }
        for (unsigned i = 0; i < btf_vlen(t); i++, m++) {
                const char *name = btf__name_by_offset(btf, m->name_off);
                size_t f = find_field(table, n, record, name);
                size_t offset = btf_member_bit_offset(t, i) / 8;
                __s64 bytes = btf__resolve_size(btf, m->type);

                if (f < n && !quiet)
                        seen[f] = true;
                if (f < n && table[f].offset == offset && bytes >= 0 && table[f].bytes == (size_t)bytes && table[f].record_bytes == t->size)
                        continue;
                if (!quiet)
                        printf("# struct %s: member %s at %zu, %lld bytes of %u in BTF differs\n", record, name, offset, bytes, t->size);
                bad++;
        }
        return bad;
}

/* A table with one thing wrong must differ from the BTF: otherwise the comparison proves nothing. */
static void check_comparison(const struct btf *btf, const struct btf_type *t) {
        const char *record = btf__name_by_offset(btf, t->name_off);
        Field table[ELEMENTSOF(fields)];
        size_t i = 0;

        while (i < ELEMENTSOF(fields) && strcmp(fields[i].record, record) != 0)
                i++;
        if (i == ELEMENTSOF(fields)) {
                point(false, "struct %s is not in record.h", record);
                return;
        }
        for (unsigned wrong = 0; wrong < 4; wrong++) {
                memcpy(table, fields, sizeof(fields));
                switch (wrong) {
                case 0: table[i].offset += 8; break;
                case 1: table[i].bytes *= 2; break;
                case 2: table[i].record_bytes += 8; break;
                default: table[i].name = "stranger"; break;
                }
                point(compare(btf, t, table, ELEMENTSOF(table), true) > 0, "a wrong table is noticed (%u)", wrong);
        }
}

static void check_object(const char *path, bool *checked_comparison) {
        struct btf *btf = btf__parse(path, NULL);
        const char *base = strrchr(path, '/');
        unsigned bad = 0, n = 0;

        base = base ? base + 1 : path;
        if (!btf) {
                point(false, "%s: no BTF: %s", base, strerror(errno));
                return;
        }
        for (__u32 id = 1; id < btf__type_cnt(btf); id++) {
                const struct btf_type *t = btf__type_by_id(btf, id);
                const char *name = btf__name_by_offset(btf, t->name_off);

                if (!btf_is_struct(t) || strncmp(name, "sw_", strlen("sw_")) != 0)
                        continue;
                bad += compare(btf, t, fields, ELEMENTSOF(fields), false);
                n++;
                if (!*checked_comparison) {
                        *checked_comparison = true;
                        check_comparison(btf, t);
                }
        }
        point(bad == 0, "%s: %u structs are as the C compiler has them", base, n);
        btf__free(btf);
}

int main(int argc, char *argv[]) {
        bool checked_comparison = false;

        for (int i = 1; i < argc; i++)
                check_object(argv[i], &checked_comparison);
        /* What no object's BTF names was not compared. */
        for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                if (!seen[i])
                        point(false, "struct %s, member %s: in no object's BTF", fields[i].record, fields[i].name);
        printf("1..%u\n", n_points);
        return n_failed > 0 || n_points == 0;
}
