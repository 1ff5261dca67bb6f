# SPDX-License-Identifier: LGPL-2.1-or-later
# More possible nodes than online ones: the memory of a memcg goes by the possible ones.
# lab: hand="7.3-plain 7.3-units63"
# lab: nodes=2 possible=7 memory=2048 timeout=900 programs=host-counts,host-dying,census-compare,kcore-census,shrinkwatchctl

check_eq "possible nodes in the census" \
    "$(shrinkwatchctl census --direct --json | grep -o '"possible_nodes": *[0-9]*' | grep -o '[0-9]*$')" 7
host_tests host-counts host-dying
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
