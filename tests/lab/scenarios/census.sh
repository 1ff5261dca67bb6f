# SPDX-License-Identifier: LGPL-2.1-or-later
# The host tests, four nodes: counts, the cursor, dying memcgs, names, rights; then memcg by memcg against /proc/kcore.
# lab: hand="7.3-plain 7.3-units63"
# lab: nodes=4 memory=2048 timeout=1500
# lab: programs=host-counts,host-cursor,host-dying,host-paths,host-rights,host-churn,census-compare,kcore-census,shrinkwatchctl

compare() { check "$1: equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out; }

compare "at the start"
host_tests host-rights host-counts host-dying host-paths host-cursor host-churn
check_eq "what the tests left behind" "$(find "$LAB_MEMORY" -mindepth 1 -type d | wc -l)" 0
check_eq "mounts that they left" "$(grep -c shrinkwatch-test /proc/self/mounts)" 0

cgroup_make "$LAB_MEMORY/c/d/e"
i=0
while [ $i -lt 53 ]; do
    mkdir "$LAB_MEMORY/c/$i"
    i=$((i + 1))
done
mounts_make 61 /mnt/more
compare "with 56 cgroups and 61 mounts more"
check "shrinkwatchctl census" shrinkwatchctl census --direct
sed 's/^/#   /' /run/lab-check.out | head -n 8
