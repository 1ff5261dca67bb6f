# SPDX-License-Identifier: LGPL-2.1-or-later
# A kernel whose memory controller is switched off at boot: programs must say so, not crash and not print zeros.
# lab: append="cgroup_disable=memory"

check "the command line says so" grep -q cgroup_disable=memory /proc/cmdline
if grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
    notok "memory is a controller all the same: $(cat /sys/fs/cgroup/cgroup.controllers)"
else
    ok "no memory controller: $(cat /sys/fs/cgroup/cgroup.controllers)"
fi
check "cgroups can be made" mkdir /sys/fs/cgroup/a
