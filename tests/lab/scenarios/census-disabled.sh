# SPDX-License-Identifier: LGPL-2.1-or-later
# The memory controller is switched off at boot: the program says so and counts nothing.
# lab: hand="7.3-plain 7.3-units63"
# lab: append="cgroup_disable=memory" nodes=2 timeout=120 programs=shrinkwatchctl

shrinkwatchctl census --direct >/tmp/out 2>/tmp/err
status=$?
note "$(cat /tmp/err)"
check_range "exit status" $status 1 125
check_eq "bytes on stdout" "$(wc -c </tmp/out)" 0
check "the error names the option" grep -q cgroup_disable=memory /tmp/err
shrinkwatchctl census --direct --json >/tmp/out 2>/tmp/err
check_range "exit status with --json" $? 1 125
check_eq "bytes on stdout with --json" "$(wc -c </tmp/out)" 0
