/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the probe room share. Nobody else includes this. */
#pragma once

#include <bpf/libbpf.h>

#include "probe.h"
#include "util.h"

/* Facts that the objects need before they are loaded: found in BTF by name. */
typedef struct ProbeBtf {
        ProbeLayout layout;
        uint32_t ids_per_unit;
        uint32_t unit_struct_bytes;
        uint32_t css_online, css_dying, css_released, css_visible;
        bool has_get_kmem_cache;
        bool has_list_lru_xarray;
        bool has_cgroup_writeback;
} ProbeBtf;

#define PROBE_BTF_PATH "/sys/kernel/btf/vmlinux"

/* Reads path. 0, -ENOENT when there is no BTF, -EOPNOTSUPP when it does not describe a layout we know; *ret_error says what. */
int probe_btf_read(const char *path, ProbeBtf *ret, ProbeError *ret_error);

/* "0-3,8" as in /sys/devices/system/node/possible → bits. 0, -EINVAL, -ERANGE for a node above 63. */
int probe_parse_nodes(const char *text, uint64_t *ret);

/* One program of a loaded object, and its shared memory. */
typedef struct ProbeProgram {
        int fd; /* borrowed from the object */
        volatile struct sw_control *control;
        const uint8_t *out;
        int64_t budget; /* work of the next slice; adapts to how long slices take */
        bool budget_fixed; /* unless a test set it */
        void (*between)(void *userdata); /* a test's, called between two slices; NULL */
        void *between_userdata;
} ProbeProgram;

typedef struct ProbePass {
        unsigned flags; /* SW_WALK_* */
        uint64_t above;
        probe_record_t fn;
        void *userdata;
        const char *nothing; /* what it means that the program finds nothing to start from */
} ProbePass;

/*
 * Runs a program from its beginning to its end. 0; -EAGAIN when it lost its place (the caller may begin again, with nothing of what
 * came before); -EOPNOTSUPP when what it starts from is not there; what the callback returned; or the error of the run.
 */
int probe_pass_run(ProbeProgram *program, const ProbeFacts *facts, const ProbePass *pass, ProbeStats *stats, ProbeError *ret_error);

/* Fills *e: error is a negative errno, which is returned. */
int probe_error_set(ProbeError *e, int error, const char *format, ...) _printf_(3, 4);
/* The same for an object that could not be opened or loaded: finds out why (capabilities, lockdown, seccomp) and says what to do. */
int probe_error_load(ProbeError *e, int error, const char *object);

void probe_log_begin(void);
const char *probe_log_first(void);
