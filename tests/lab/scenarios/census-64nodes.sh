# SPDX-License-Identifier: LGPL-2.1-or-later
# As many nodes as the records have room for.
# lab: hand="6.12 7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=64 possible=64 memory=4096 timeout=400 programs=shrinkwatchctl,kcore-census,census-compare

CGROUPS=23
out=/tmp/census.json

echo +memory >"$LAB_MEMORY/cgroup.subtree_control"
i=0
while [ $i -lt $CGROUPS ]; do
    mkdir "$LAB_MEMORY/c$i" || notok "mkdir c$i"
    i=$((i + 1))
done
check "shrinkwatchctl census" shrinkwatchctl census --json
cp /run/lab-check.out $out
check_eq "memory cgroups" "$(grep -c '"serial": *[0-9]' $out)" $((CGROUPS + 1))
check_eq "records of nodes" "$(grep -o '"node": *[0-9]*' $out | wc -l)" $((64 * (CGROUPS + 1)))
check_eq "records of node 63" "$(grep -o '"node": *63\b' $out | wc -l)" $((CGROUPS + 1))
check "equal to kcore-census, memcg by memcg" census-compare
