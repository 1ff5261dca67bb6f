# SPDX-License-Identifier: LGPL-2.1-or-later
# The hybrid hierarchy of older distributions: memory on v1.
# lab: hierarchy=hybrid kernels=6.1 nodes=2 memory=1024 timeout=1200
# lab: programs=host-counts,host-cursor,host-dying,host-paths,host-rights,census-compare,kcore-census,shrinkwatchctl

check_eq "hierarchy in the census" "$(shrinkwatchctl census --direct --json | grep -o '"hierarchy": *"[^"]*"' | cut -d'"' -f4)" v1
host_tests host-rights host-counts host-dying host-paths host-cursor
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
