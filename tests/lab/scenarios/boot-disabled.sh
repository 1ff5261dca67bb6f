# SPDX-License-Identifier: LGPL-2.1-or-later
# A kernel whose memory controller is switched off at boot: programs must say so, not crash and not print zeros.
# lab: hand="7.3-plain 7.3-units63"
# lab: append="cgroup_disable=memory" optional=kcore-census

check "the command line says so" grep -q cgroup_disable=memory /proc/cmdline
if grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
    notok "memory is a controller all the same: $(cat /sys/fs/cgroup/cgroup.controllers)"
else
    ok "no memory controller: $(cat /sys/fs/cgroup/cgroup.controllers)"
fi
check "cgroups can be made" mkdir /sys/fs/cgroup/a

# The kernel makes a root memcg all the same, and it never gets room for shrinker ids: a trap for whoever reads it.
if have kcore-census; then
    check "kcore-census" sh -c '/usr/local/bin/kcore-census >/tmp/census'
    note "$(tail -n 1 /tmp/census)"
    check "one memcg without room for ids" grep -q '"map_nr_max":0,"memcgs":1,' /tmp/census
else
    skip "one memcg without room for ids" "no kcore-census"
fi
