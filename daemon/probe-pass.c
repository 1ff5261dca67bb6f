/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Running a program slice by slice, and handing its records on. */

#include <bpf/bpf.h>
#include <time.h>

#include "probe-internal.h"

/*
 * A slice keeps its CPU from everything else: preemption is off while it runs. The promise is 200 µs, at most 1 ms. Its bound is work,
 * which costs different machines differently much; so the bound follows what the last slices took.
 */
#define SLICE_AIM_NSEC 200000
#define SLICE_HIGH_NSEC 260000
#define BUDGET_MIN 4096
#define BUDGET_MAX (1 << 20)

/* A pass cannot go on for ever, whatever the memory it reads looks like: 2^24 memcgs would not fit any machine. */
#define SLICES_MAX (1U << 22)

static uint64_t now_usec(void) {
        struct timespec ts = {};

        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void adapt_budget(ProbeProgram *program, uint64_t nsec) {
        if (nsec > SLICE_HIGH_NSEC)
                program->budget -= program->budget / 4;
        else if (nsec < SLICE_AIM_NSEC * 3 / 4)
                program->budget += program->budget / 8;
        if (program->budget < BUDGET_MIN)
                program->budget = BUDGET_MIN;
        if (program->budget > BUDGET_MAX)
                program->budget = BUDGET_MAX;
}

static int hand_on(const ProbeProgram *program, uint32_t used, const ProbePass *pass, ProbeStats *stats) {
        uint32_t at = 0;

        while (at < used) {
                const struct sw_head *head = (const struct sw_head *)(const void *)(program->out + at);
                int r;

                if (used - at < sizeof(*head) || head->size < sizeof(*head) || head->size % 8 || head->size > used - at)
                        return -EBADMSG;
                stats->records++;
                r = pass->fn(head, pass->userdata);
                if (r < 0)
                        return r;
                at += head->size;
        }
        return 0;
}

int probe_pass_run(ProbeProgram *program, const ProbeFacts *facts, const ProbePass *pass, ProbeStats *stats, ProbeError *ret_error) {
        volatile struct sw_control *control = program->control;
        uint64_t start = now_usec();
        int r = 0;

        control->possible_nodes = facts->possible_nodes;
        control->above = pass->above;
        control->flags = pass->flags;
        control->phase = SW_PHASE_BEGIN;

        for (uint32_t slice = 0;; slice++) {
                LIBBPF_OPTS(bpf_test_run_opts, opts);
                uint64_t nsec;
                uint32_t phase;

                if (slice >= SLICES_MAX) {
                        r = probe_error_set(ret_error, -EAGAIN, "the pass did not come to an end");
                        break;
                }
                control->budget = program->budget;
                r = bpf_prog_test_run_opts(program->fd, &opts);
                if (r < 0) {
                        r = probe_error_set(ret_error, r, "cannot run a loaded BPF program: %s. A seccomp filter or container may forbid bpf(BPF_PROG_TEST_RUN)",
                                            strerror(-r));
                        break;
                }
                nsec = control->slice_nsec;
                phase = control->phase;
                if (stats->slice_nsec && stats->slices < stats->slice_nsec_max)
                        stats->slice_nsec[stats->slices] = nsec > UINT32_MAX ? UINT32_MAX : (uint32_t)nsec;
                stats->slices++;
                stats->slice_nsec_sum += nsec;
                if (nsec / 1000 > stats->longest_slice_usec)
                        stats->longest_slice_usec = nsec / 1000;
                if (phase != SW_PHASE_DONE && !program->budget_fixed)
                        adapt_budget(program, nsec);

                if (phase == SW_PHASE_LOST) {
                        r = probe_error_set(ret_error, -EAGAIN, "memory cgroups vanish faster than the census can follow");
                        break;
                }
                if (phase == SW_PHASE_NONE) {
                        r = probe_error_set(ret_error, -EOPNOTSUPP, "%s", pass->nothing);
                        break;
                }
                r = pass->fn ? hand_on(program, control->used, pass, stats) : 0;
                if (r < 0) {
                        (void)probe_error_set(ret_error, r, "%s",
                                              r == -EBADMSG ? "the records of the walk make no sense; please report this with the kernel's release" :
                                                              strerror(-r));
                        break;
                }
                if (phase == SW_PHASE_DONE)
                        break;
                if (program->between)
                        program->between(program->between_userdata);
        }
        stats->duration_usec += now_usec() - start;
        return r;
}
