# SPDX-License-Identifier: LGPL-2.1-or-later
# A Debian 13 with systemd comes up, and a census can be taken in it.
# lab: hand=*
# lab: root=debian13 nodes=2 memory=1024 timeout=900 programs=shrinkwatchctl

note "$(uname -srvm), $(. /etc/os-release && echo "$PRETTY_NAME"), $(systemctl --version | head -n 1)"
note "$(systemd-analyze time)"
check_eq "first process" "$(cat /proc/1/comm)" systemd
state=$(systemctl is-system-running)
check_eq "the system is" "$state" running || {
    systemctl list-units --failed --plain --no-legend | sed 's/^/#   failed: /'
    systemctl list-jobs --no-legend | sed 's/^/#   job: /'
}
check_eq "default target" "$(systemctl is-active default.target)" active
check "the bus answers" busctl --timeout=120 call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus GetId
check "systemd answers over the bus" busctl --timeout=120 get-property org.freedesktop.systemd1 /org/freedesktop/systemd1 \
    org.freedesktop.systemd1.Manager Version
# Started by the bus when it is asked
check "polkit answers" busctl --timeout=120 get-property org.freedesktop.PolicyKit1 /org/freedesktop/PolicyKit1/Authority \
    org.freedesktop.PolicyKit1.Authority BackendVersion

check_eq "file system of /sys/fs/cgroup" "$(stat -f -c %T /sys/fs/cgroup)" cgroup2fs
check_eq "cgroup of the scenario" "$(cat /proc/self/cgroup)" 0::/system.slice/lab.service
check "its memory is counted" test -e /sys/fs/cgroup/system.slice/lab.service/memory.current
check_eq "first process' cgroup" "$(cat /proc/1/cgroup)" 0::/init.scope
check_eq "nodes" "$(nodes online)" "$LAB_NODES"
check "module loop loads, or is built in" modprobe loop

# A carried program runs with the libraries of the machine that it was built on, the image's own do not.
check "shrinkwatchctl reads the kernel" shrinkwatchctl support
shrinkwatchctl census --direct --json >/tmp/census.json
check_eq "exit status of a census" $? 0
check "its JSON can be read, and agrees with the directories" python3 - <<'EOF'
import json, os
census = json.load(open("/tmp/census.json"))
paths = {m["path"] for m in census["memcgs"] if m["state"] == "live"}
print(census["totals"])
there = {"/" + os.path.relpath(d, "/sys/fs/cgroup") if d != "/sys/fs/cgroup" else "/"
         for d, _, files in os.walk("/sys/fs/cgroup") if "memory.current" in files or d == "/sys/fs/cgroup"}
assert "/system.slice/lab.service" in paths, paths
assert paths == there, paths ^ there
assert census["totals"]["units"] or census["host"]["layout"] == "flat", census["totals"]
EOF
sed 's/^/#   /' /run/lab-check.out
check_eq "a library of the machine's in the image's loader" "$(ldconfig -p | grep -c /usr/local/lib/lab)" 0
give census.json </tmp/census.json
