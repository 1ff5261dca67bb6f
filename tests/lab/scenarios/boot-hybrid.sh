# SPDX-License-Identifier: LGPL-2.1-or-later
# The hybrid mode of older distributions: memory on a v1 hierarchy, an empty v2 hierarchy beside it.
# Debian builds 6.12 and later without CONFIG_MEMCG_V1.
# lab: hierarchy=hybrid kernels=6.1

check "memory is on v1" grep -q " $LAB_MEMORY cgroup .*\bmemory\b" /proc/mounts
check "a v2 hierarchy is beside it" grep -q " $LAB_UNIFIED cgroup2 " /proc/mounts
check_eq "controllers on v2" "$(cat "$LAB_UNIFIED/cgroup.controllers")" none
check "a cgroup with a limit" cgroup_make "$LAB_MEMORY/a"
check "the limit is a v1 file" test -e "$LAB_MEMORY/a/memory.limit_in_bytes"
