/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "source.h"

#include <inttypes.h>

#include "text.h"

ExitCode source_failed(const ProbeError *error) {
        if (!error->text[0])
                return exit_complain(exit_from_errno(error->error), "cannot read the kernel: %s", strerror(-error->error));
        return exit_complain(exit_from_errno(error->error), "%s", error->text);
}

ExitCode source_open(Probe **ret) {
        ProbeError error = {};
        int r = probe_new(ret, &error);

        if (r >= 0)
                return CTL_EXIT_OK;
        error.error = r;
        return source_failed(&error);
}

static void note_unsettled(const Reading *r) {
        bool moved = r->added > 0 || r->gone > 0, uneven = r->census->totals.uneven > 0;
        Text t = {};

        if (moved) {
                text_add_string(&t, "memory cgroups changed while they were counted: ");
                text_add_count(&t, r->added);
                text_add_string(&t, " came, ");
                text_add_count(&t, r->gone);
                text_add_string(&t, " went. ");
        }
        /* Arrays of different lengths: an expansion was under way, or memory ran out in one. */
        if (uneven)
                text_add_string(&t, moved ? "Shrinker ids were being added too (or adding them failed for some): the" :
                                            "shrinker ids were being added while memory cgroups were counted (or adding them failed for some): the");
        else if (!moved)
                text_add_string(&t, "memory cgroups changed while they were counted: some began to live or to die. The");
        else
                text_add_string(&t, "The");
        text_add_string(&t, " totals are near the truth, not exact");
        (void)exit_complain(CTL_EXIT_OK, "%s", text_get(&t));
        text_done(&t);
}

ExitCode source_read(Probe *probe, unsigned flags, Reading **ret) {
        ProbeError error = {};
        int r = reading_new(ret, probe, flags, &error);

        if (r < 0) {
                error.error = r;
                return source_failed(&error);
        }
        if (!(*ret)->settled)
                note_unsettled(*ret);
        return CTL_EXIT_OK;
}

ExitCode source_verdict(const Probe *probe, const Reading *reading) {
        const ProbeFeature *features;
        const char *why = NULL;
        size_t n;

        if (reading->complete)
                return CTL_EXIT_OK;

        features = probe_features(probe, &n);
        for (size_t i = 0; i < n && !why; i++)
                if (!features[i].available && strcmp(features[i].name, "walk") == 0)
                        why = features[i].reason;
        return exit_complain(CTL_EXIT_INCOMPLETE,
                             "the census is not complete: some memory cgroups could not be read after %" PRIu64 " new starts%s%s. "
                             "Totals are a lower bound; run it again, or when fewer cgroups are made and removed",
                             reading->walk.restarts, why ? ": " : "", why ? why : "");
}
