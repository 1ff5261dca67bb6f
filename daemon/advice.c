/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "advice.h"

/*
 * Why drop_caches is no remedy anywhere: 1 drops pages, and no writeback structure or swap entry goes with them; 2 and 3 call every
 * shrinker for every memory cgroup, dying ones included, which with tens of thousands of them takes minutes in the kernel.
 */
#define NEVER_DROP_CACHES                                                                                                     \
        "Do not write 2 or 3 to /proc/sys/vm/drop_caches: it scans every shrinker of every memory cgroup, which can hold the " \
        "machine up for minutes."

static const Advice table[_FINDING_KIND_MAX] = {
        [FINDING_WRITEBACK] = {
                .means = "This cgroup was removed, but the kernel keeps it because files that it wrote last are still "
                        "attributed to it for writeback.",
                .safe = "Have the data written: \"sync -f\" on the file system, or thaw it if it is frozen (fsfreeze -u). "
                        "Once nothing of it is dirty, it goes when the next memory cgroup is removed, as by stopping a "
                        "service or container.",
                .costs = "Writing much to a slow device takes its time, and others wait for the device meanwhile.",
                .never = NEVER_DROP_CACHES " Writing 1 frees nothing of this.",
                .setting = "WritebackOn",
        },
        [FINDING_SWAP] = {
                .means = "This cgroup was removed, but the kernel keeps it because pages that were charged to it are swapped "
                        "out.",
                .safe = "Delete files in tmpfs, such as /dev/shm, that nobody needs any more, and restart services whose "
                        "processes or shared memory came from it: it goes when those pages are freed.",
                .costs = "swapoff reads all of it back and frees the cgroup, but needs the time, and so much free memory.",
                .never = "Do not call swapoff where less memory is available than is swapped out: it ends with the "
                        "out-of-memory killer.",
                .setting = "SwapOn",
        },
        [FINDING_SUBTREE] = {
                .means = "This cgroup, with all that is below it and with what was removed there and is still kept, makes the "
                        "kernel hold more shrinker memory than its limit.",
                .safe = "See with \"shrinkwatchctl creators\" who makes cgroups in it that stay, and mend what is started "
                        "over and over; remove empty cgroups that nobody uses.",
                .costs = "",
                .never = "Do not look for it in MemoryMax= or memory.max: this memory is charged to nobody, and no limit of a "
                        "cgroup holds it back.",
                .setting = "SubtreeOn",
        },
        [FINDING_HOST] = {
                .means = "Shrinker memory of all cgroups together, which is charged to nobody and which no process shows, "
                        "takes more of this host than its limit.",
                .safe = "See with \"shrinkwatchctl creators\" who makes the cgroups that stay, and begin with the largest; "
                        "\"shrinkwatchctl estimate\" tells what another kernel would take.",
                .costs = "A reboot gives all of it back.",
                .never = NEVER_DROP_CACHES,
                .setting = "HostOn",
        },
        [FINDING_DYING] = {
                .means = "Many cgroups were removed but are still kept by the kernel, each with its shrinker memory.",
                .safe = "See with \"shrinkwatchctl creators\" who makes them and what holds them; often it is one service "
                        "that is started over and over: mend that first.",
                .costs = "",
                .never = NEVER_DROP_CACHES,
                .setting = "DyingOn",
        },
        [FINDING_DYING_GROWTH] = {
                .means = "The number of cgroups that were removed but are still kept by the kernel grows fast.",
                .safe = "Look for a service or container that fails and is restarted again and again (\"systemctl list-units "
                        "--failed\", \"shrinkwatchctl creators\"), and stop or mend it.",
                .costs = "",
                .never = "",
                .setting = "DyingGrowthOn",
        },
        [FINDING_STRANDED] = {
                .means = "More file systems were mounted at some time than are now; the kernel keeps room for the "
                        "shrinker ids that they had, in every memory cgroup there is and in every new one.",
                .safe = "Find what mounts so much at a time, and have it mount less. Later mounts use these ids again, and "
                        "each memory cgroup that goes gives back its own share.",
                .costs = "Only a reboot gives the ids back.",
                .never = "Do not unmount anything for this: the room stays, and so does the memory.",
                .setting = "StrandedIdsOn",
        },
        /* What mkdir() says depends on the kernel: idr_alloc() ends with ENOSPC (6.1), xa_alloc() with EBUSY (6.12, 7.3). */
        [FINDING_MEMCG_IDS] = {
                .means = "Nearly all of the 65,535 ids for memory cgroups are in use; without one no cgroup with the memory "
                        "controller can be made, and starting a service or container fails with \"No space left on device\" "
                        "or \"Device or resource busy\".",
                .safe = "Remove cgroups that are empty and used by nobody, and stop what makes them; removed ones keep their "
                        "id as long as pages of theirs are swapped out, so see the advice for swap too.",
                .costs = "swapoff gives back the ids of removed cgroups, but needs the time, and so much free memory.",
                .never = "",
                .setting = "MemcgIdsOn",
        },
        [FINDING_DEGRADED] = {
                .means = "The watcher itself sees less than it should, so other findings may be missing or late.",
                .safe = "See \"systemctl status shrinkwatchd\" and its journal for what failed, and \"shrinkwatchctl "
                        "support\" for what this kernel can give.",
                .costs = "",
                .never = "Do not take silence for health as long as this stands.",
                .setting = "DegradedMinAgeSec",
        },
};

const Advice *advice_get(FindingKind kind) {
        return (size_t)kind < ELEMENTSOF(table) ? &table[kind] : NULL;
}
