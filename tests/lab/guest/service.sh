# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What the scenarios of the service share, sourced after lib.sh in a guest with systemd. Shell: dash.

unit=shrinkwatchd.service
metrics_file=/run/shrinkwatch/shrinkwatch.prom
state=/var/lib/shrinkwatch
root=$LAB_MEMORY/guests

prop() { systemctl show -P "$1" $unit; }
pid() { prop MainPID; }
active() { [ "$(prop ActiveState)" = active ]; }

# metric SERIES: its value as it is written, nothing when there is none
metric() { awk -v s="$1" '$1 == s { print $2 }' $metrics_file; }
# metric_int SERIES
metric_int() { metric "$1" | awk '{ printf "%d\n", $1 }'; }
census_time() { metric shrinkwatch_census_timestamp_seconds; }
newer_census() { [ "$(census_time)" != "$1" ]; }

# next_census [N]: so many more have ended
next_census() {
    lab_n=${1:-2}
    while [ "$lab_n" -gt 0 ]; do
        wait_for 60 newer_census "$(census_time)" || return 1
        lab_n=$((lab_n - 1))
    done
}

# entries FIELD=VALUE...: how many entries of the daemon have them
entries() {
    journalctl --sync >/dev/null 2>&1
    journalctl -b --no-pager -o json -t shrinkwatchd "$@" 2>/dev/null | grep -c . || true
}

# conf TEXT...: the drop-in, a line each; then a reload
conf() { conf_write "$@" && systemctl reload $unit; }
conf_write() {
    mkdir -p /etc/shrinkwatch/shrinkwatchd.conf.d
    printf '%s\n' "$@" >/etc/shrinkwatch/shrinkwatchd.conf.d/50-lab.conf
}
# An emulated machine takes longer for everything: a census often, and no share of a CPU to keep to.
QUICK="[Census]
IntervalSec=2s
CPUShare=100%"

# age_between FROM TO: dying memcgs whose age is exact and whose death was between two readings of CLOCK_BOOTTIME in seconds
age_between() {
    awk -v from="$1" -v to="$2" '$3 == "exact" && $2 >= from * 1000000 && $2 <= to * 1000000 { n++ } END { print n + 0 }' $state/ages
}
now() { cut -d' ' -f1 /proc/uptime; }
# Links to BPF programs that some process holds, systemd's file descriptor store included
bpf_links() { ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c 'bpf[_-]link' || true; }
bpf_links_more() { echo $(($(bpf_links) - links_before)); }
# check_links TEXT WANTED: more than before the service came; systemd drops what it is told to drop a moment later
check_links() { check_eq "$1" "$(wait_eq 20 "$2" bpf_links_more)" "$2"; }

service_install() {
    links_before=$(bpf_links)
    check "the user is made" systemd-sysusers
    check "the catalog is compiled" journalctl --update-catalog
    systemctl daemon-reload
    check "the bus reads its policy with the user in it" systemctl reload dbus.service
    check "the unit is what systemd understands" systemd-analyze verify --man=no $unit
    conf_write "$QUICK"
    check "the configuration is good" shrinkwatchd --check-config
    check "it is enabled and started" systemctl enable --now $unit
    check "it is active" wait_for 60 active
    check "there are metrics" wait_for 60 test -s $metrics_file
    note "$(prop StatusText)"
    check "the status has figures" eval 'prop StatusText | grep -q "of shrinker memory"'
    check_eq "entries of the start" "$(entries SHRINKWATCH_EVENTS=fresh)" 1
    check "the state directory is its own" eval '[ "$(stat -c %U:%a '$state')" = shrinkwatch:750 ]'
    check_eq "mode of the metrics" "$(stat -c %a $metrics_file)" 644
    # Three programs, each link held by the daemon and by the store
    check_links "links to programs, by the daemon and the store" 6
    check_eq "memcgs in the metrics and in a census" \
        "$(awk '/^shrinkwatch_memcgs/ { n += $2 } END { print n }' $metrics_file)" \
        "$(shrinkwatchctl census --direct --json | grep -o '"memcgs": *[0-9]*' | head -n 1 | sed 's/.*: *//')"
}

service_sandbox() {
    for lab_caps in CapInh CapPrm CapEff CapAmb; do
        check_eq "$lab_caps of the daemon" "$(awk -v c="$lab_caps:" '$1 == c { print $2 }' "/proc/$(pid)/status")" 0000000000000000
    done
    check_eq "bounding set of the unit" "$(prop CapabilityBoundingSet)" "cap_perfmon cap_bpf"
    check_eq "ambient set of the unit" "$(prop AmbientCapabilities)" "cap_perfmon cap_bpf"
    check_eq "its user" "$(stat -c %U "/proc/$(pid)")" shrinkwatch
    lab_score=$(systemd-analyze security --no-pager $unit | awk '/Overall exposure/ { print $(NF - 2) }')
    check "exposure by systemd-analyze security: $lab_score (at most 1.0)" eval '[ -n "$lab_score" ] && awk -v s="$lab_score" "BEGIN { exit !(s <= 1.0) }"'
}

# swap_pin NAME: a dying memcg with 64 pages in swap
swap_prepare() {
    [ -d /mnt/swap ] || { zram_swap 64 && tmpfs_make /mnt/swap; }
}

service_swap() {
    check "zram swap and a tmpfs" swap_prepare
    conf "$QUICK" "[Limits]" "SwapMinAgeSec=4s" "DyingGrowthOn=infinity"
    for i in 0 1 2; do
        pin_swap "$root/s$i" /mnt/swap/$i 64 || notok "pin_swap $i"
    done
    check "findings of swap come" wait_for 60 eval '[ "$(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=raised)" = 3 ]'
    next_census 3
    check_eq "entries raised, three censuses later" "$(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=raised)" 3
    check_eq "entry of one cgroup by its path" "$(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=raised SHRINKWATCH_CGROUP=/guests/s1)" 1
    check_eq "swap findings in the metrics" "$(metric_int 'shrinkwatch_findings{kind="swap"}')" 3
    for i in 0 1 2; do unpin_swap /mnt/swap/$i; done
    swapoff -a && swapon /dev/zram0
    check "findings of swap go" wait_for 60 eval '[ "$(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=cleared)" = 3 ]'
    next_census 2
    check_eq "entries raised and cleared" \
        "$(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=raised) $(entries SHRINKWATCH_KIND=swap SHRINKWATCH_CHANGE=cleared)" "3 3"
}

# 2,000 dying memcgs that dirty pages keep, at once: a storm is one entry.
service_findings() {
    service_swap
    check "ext4 with cgroup writeback" loop_ext4 /mnt/wb 64
    check "files to dirty" writeback_files /mnt/wb 2000
    writeback_hold
    conf "$QUICK" "[Limits]" "WritebackMinAgeSec=4s" "DyingGrowthOn=infinity" "DyingOn=infinity"
    check "2,000 cgroups" cgroups_make 2000 "$root/wb"
    before=$(entries SHRINKWATCH_KIND=writeback)
    check "each writes a page" lab-load writes 0 2000 "$root/wb/{}" "/mnt/wb/{}"
    check "all are removed" lab-load rmdirs 0 2000 "$root/wb/{}"
    pinned() { [ "$(metric_int 'shrinkwatch_findings{kind="writeback"}')" -ge 1900 ]; }
    check "they are found" wait_for 120 pinned
    next_census 3
    note "$(metric_int 'shrinkwatch_findings{kind="writeback"}') findings of writeback; $(($(entries SHRINKWATCH_KIND=writeback) - before)) entries"
    check_range "entries for the storm" $(($(entries SHRINKWATCH_KIND=writeback) - before)) 1 20
    check "one says that a storm begins" eval '[ "$(entries SHRINKWATCH_KIND=writeback SHRINKWATCH_CHANGE=storm-begins)" -ge 1 ]'
    check "the catalog explains it" eval 'journalctl -b -x -t shrinkwatchd SHRINKWATCH_KIND=writeback --no-pager | grep -q "^-- "'
    rm -rf /mnt/wb/*
    echo 100 >/proc/sys/vm/dirty_writeback_centisecs
    none() { mkdir "$root/passing" && rmdir "$root/passing"; [ "$(metric_int 'shrinkwatch_findings{kind="writeback"}')" = 0 ]; }
    check "they go when the files go" wait_for 180 none
    check "the storm's end is told" wait_for 30 eval '[ "$(entries SHRINKWATCH_KIND=writeback SHRINKWATCH_CHANGE=storm-ends)" -ge 1 ]'
    conf "$QUICK"
}

# service_dies COMMAND...: what ends it; a cgroup is removed meanwhile, and its age is exact
service_dies() {
    lab_before=$(pid)
    swap_prepare
    "$@"
    lab_from=$(now)
    pin_swap "$root/gap" /mnt/swap/gap 16 || notok "pin_swap gap"
    lab_to=$(now)
    back() { active && [ "$(pid)" != "$lab_before" ] && [ "$(pid)" != 0 ]; }
    check "it is there again" wait_for 120 back
    next_census 2
    systemctl kill --signal=TERM --kill-whom=main $unit 2>/dev/null  # writes the ages
    check "and once more" wait_for 120 active
    next_census 2
    check_eq "exact ages of the one that was removed meanwhile" "$(age_between "$lab_from" "$lab_to")" 1
    unpin_swap /mnt/swap/gap
    swapoff -a && swapon /dev/zram0
}

service_kill() {
    service_dies systemctl kill --signal=KILL --kill-whom=main $unit
    check "the store was adopted" eval '[ "$(entries SHRINKWATCH_EVENTS=adopted)" -ge 1 ]'
}

service_restarts() {
    lab_i=0
    while [ $lab_i -lt 12 ]; do
        systemctl restart $unit || notok "restart $lab_i"
        lab_i=$((lab_i + 1))
    done
    check "it is active after 12 restarts in a row" wait_for 60 active
    systemctl stop $unit
    check_eq "after a stop it is" "$(prop ActiveState)" inactive
    systemctl start $unit
    check "it is active after stop and start" wait_for 60 active
    check_eq "its result" "$(prop Result)" success
}

service_watchdog() {
    mkdir -p /run/systemd/system/$unit.d
    printf '[Service]\nWatchdogSec=5s\nTimeoutAbortSec=2s\n' >/run/systemd/system/$unit.d/watchdog.conf
    systemctl daemon-reload
    systemctl restart $unit
    check "active with a short watchdog" wait_for 60 active
    sleep 12
    check_eq "restarts by a watchdog that is fed" "$(prop NRestarts)" 0
    service_dies kill -STOP "$(pid)"
    rm /run/systemd/system/$unit.d/watchdog.conf
    systemctl daemon-reload
    systemctl restart $unit
}

# The daemon of the next version knows how to read what this one left in the store, this one not what that one leaves: none of it is read as if
# it were its own, and the ages go on either way.
service_versions() {
    swap_prepare
    lab_from=$(now)
    pin_swap "$root/old" /mnt/swap/old 16 || notok "pin_swap old"
    lab_to=$(now)
    next_census 2
    mkdir -p /run/systemd/system/$unit.d
    printf '[Service]\nExecStart=\nExecStart=%s\n' "$(command -v shrinkwatchd-v2)" >/run/systemd/system/$unit.d/version.conf
    systemctl daemon-reload
    systemctl restart $unit
    check "the next version is active" wait_for 60 active
    check_eq "it drains what the other one left" \
        "$(journalctl -b --no-pager -o json -t shrinkwatchd-v2 SHRINKWATCH_EVENTS=drained | grep -c .)" 1
    check_links "links to programs: its own alone" 6
    next_census 2
    check_eq "exact ages of the one that was removed before" "$(age_between "$lab_from" "$lab_to")" 1
    lab_newer=$(now)
    pin_swap "$root/new" /mnt/swap/new 16 || notok "pin_swap new"
    lab_newest=$(now)
    next_census 2
    rm /run/systemd/system/$unit.d/version.conf
    systemctl daemon-reload
    systemctl restart $unit
    check "the version before is active" wait_for 60 active
    check_eq "it discards what the other one left" "$(entries SHRINKWATCH_EVENTS=discarded)" 1
    check_links "links to programs: its own alone" 6
    next_census 2
    check_eq "exact ages of both" "$(age_between "$lab_from" "$lab_to") $(age_between "$lab_newer" "$lab_newest")" "1 1"
    check_eq "degraded" "$(metric_int shrinkwatch_degraded)" 0
    unpin_swap /mnt/swap/old
    unpin_swap /mnt/swap/new
    swapoff -a && swapon /dev/zram0
}

bus_call() { busctl call org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager "$@"; }
bus_get() { busctl get-property org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager "$1" | cut -d' ' -f2; }
bus_up() { busctl status org.shrinkwatch1 >/dev/null 2>&1; }
as_nobody() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
# denied COMMAND...: it fails, since polkit would have to ask somebody: not for want of polkit, which has other words
denied() { ! lab_answer=$("$@" 2>&1) && case $lab_answer in *nteractive*) ;; *) note "$lab_answer" && false ;; esac; }

service_bus() {
    # Where a package puts them: not every polkit looks below /usr/local
    cp /usr/local/share/polkit-1/actions/org.shrinkwatch1.policy /usr/share/polkit-1/actions/
    check "polkit is there" systemctl restart polkit.service
    check "it knows the actions" wait_for 30 pkaction --action-id org.shrinkwatch1.take-census
    check "the name is on the bus" wait_for 60 bus_up
    bus_call TakeCensus >/dev/null
    check_eq "memcgs on the bus and in a census" "$(bus_get Memcgs)" \
        "$(shrinkwatchctl census --direct --json | grep -o '"memcgs": *[0-9]*' | head -n 1 | sed 's/.*: *//')"
    check_eq "the unit of the daemon by its name" \
        "$(bus_call GetUnit s $unit | grep -o '"live" t [0-9]*')" '"live" t 1'
    check_eq "the memory cgroup of the daemon by its process" \
        "$(bus_call GetByPid u "$(pid)" | grep -o '"path" s "[^"]*"')" "\"path\" s \"$(prop ControlGroup)\""
    check "an ordinary user reads" as_nobody busctl get-property org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager Memcgs
    check "an ordinary user's shrinkwatchctl status" as_nobody shrinkwatchctl status
    check "polkit denies an ordinary user a census" denied as_nobody busctl call org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager TakeCensus
    check "polkit denies an ordinary user a watch" denied as_nobody busctl call org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager Watch ay 2 47 97
    printf 'polkit.addRule(function(action, subject) {\n    if (action.id == "org.shrinkwatch1.take-census" && subject.user == "nobody") return polkit.Result.YES;\n});\n' \
        >/etc/polkit-1/rules.d/10-lab.rules
    check "until a rule allows it" wait_for 30 as_nobody busctl call org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager TakeCensus
    check "and nothing else" denied as_nobody busctl call org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager DumpByFileDescriptor
    rm /etc/polkit-1/rules.d/10-lab.rules
    check "systemctl sets the level of messages" systemctl service-log-level $unit warning
    check_eq "it is" "$(systemctl service-log-level $unit)" warning
    systemctl service-log-level $unit debug
    check "it stops" systemctl stop $unit
    check "asking for it starts it" wait_for 60 bus_get Memcgs
    check "it is active" wait_for 60 active
    check "the bus is restarted" systemctl restart dbus.service
    check "it is on the new one" wait_for 60 bus_up
    check "and was not restarted for it" active
}

service_reload() {
    check "a reload of a good file" conf "$QUICK" "[Limits]" "DyingOn=12345"
    check "is in force" eval 'shrinkwatchctl config | grep -q 12345'
    check "a reload with an unknown key" conf "$QUICK" "[Limits]" "NoSuchKey=1"
    check "is told with file and line" eval 'journalctl -b -t shrinkwatchd --no-pager | grep -q "50-lab.conf:5: .*NoSuchKey"'
    check "and refused" eval 'journalctl -b -t shrinkwatchd --no-pager -n 3 | grep -q "the one that was in force stays, whole"'
    check_eq "the service is" "$(prop ActiveState)" active
    # As systemd 253 and newer can do it
    mkdir -p /run/systemd/system/$unit.d
    printf '[Service]\nType=notify-reload\nExecReload=\n' >/run/systemd/system/$unit.d/reload.conf
    systemctl daemon-reload
    if [ "$(prop Type)" = notify-reload ]; then
        systemctl restart $unit
        check "a reload with Type=notify-reload" timeout 60 systemctl reload $unit
        check_eq "the service is" "$(prop ActiveState)" active
    else
        skip "a reload with Type=notify-reload" "this systemd has none"
    fi
    rm /run/systemd/system/$unit.d/reload.conf
    systemctl daemon-reload
    conf "$QUICK"
}

service_trouble() {
    # journald goes and comes back
    systemctl restart systemd-journald
    systemctl kill --signal=USR1 --kill-whom=main $unit
    check "entries arrive after a restart of journald" wait_for 30 eval '[ "$(entries)" -ge 1 ] && journalctl -b -t shrinkwatchd --no-pager -n 5 | grep -q "since the last census"'

    # the clock jumps
    date -s "@$(($(date +%s) + 90000))" >/dev/null
    check "censuses go on after a jump of the clock by 25 hours" next_census 2
    date -s "@$(($(date +%s) - 90000))" >/dev/null
    check "and after one back" next_census 2

    # the disk is full
    systemctl stop $unit
    mkdir -p /mnt/full && mount -t tmpfs -o size=64k tmpfs /mnt/full && chown shrinkwatch: /mnt/full
    mount --bind /mnt/full $state && dd if=/dev/zero of=/mnt/full/fill bs=4096 2>/dev/null
    systemctl start $unit
    check "it starts with a full disk" wait_for 60 active
    next_census 3
    check_range "entries about it" "$(journalctl -b -t shrinkwatchd --no-pager | grep -c "No space left")" 1 3
    systemctl stop $unit
    umount $state && umount /mnt/full
    systemctl start $unit

    # not enough memory
    mkdir -p /run/systemd/system/$unit.d
    printf '[Service]\nMemoryMin=0\nMemoryMax=256K\nMemorySwapMax=0\n' >/run/systemd/system/$unit.d/memory.conf
    systemctl daemon-reload
    systemctl restart --no-block $unit
    failing() { [ "$(prop NRestarts)" -ge 2 ]; }
    check "it is killed for want of memory, and tried again" wait_for 60 failing
    rm /run/systemd/system/$unit.d/memory.conf
    systemctl daemon-reload
    check "it is there again once it may have memory" wait_for 60 active
    check "and takes a census" next_census 2
}

# 5,000 cgroups come and go: each is counted, nothing is left
service_churn() {
    next_census 2
    created=$(metric_int 'shrinkwatch_memcg_events_total{event="created"}') removed=$(metric_int 'shrinkwatch_memcg_events_total{event="removed"}')
    # Memory is on before they are made: a css that comes by switching a controller on is no mkdir, and no event.
    check "a cgroup whose children have memory" eval 'cgroup_make "$root/churn" && echo +memory >"$root/churn/cgroup.subtree_control"'
    check "5,000 cgroups are made" lab-load cgroups 0 5000 "$root/churn/{}"
    check "and removed" lab-load rmdirs 0 5000 "$root/churn/{}"
    next_census 3
    created=$(($(metric_int 'shrinkwatch_memcg_events_total{event="created"}') - created))
    removed=$(($(metric_int 'shrinkwatch_memcg_events_total{event="removed"}') - removed))
    # The cgroup above them is one more, and systemd makes some of its own.
    check_range "made, by the daemon" $created 5000 5100
    check_range "removed, by the daemon" $removed 5000 5100
    check_eq "lost" "$(awk '/^shrinkwatch_events_lost_total/ { n += $2 } END { print n + 0 }' $metrics_file)" 0
    check_eq "degraded" "$(metric_int shrinkwatch_degraded)" 0
}

service_remove() {
    check "it is disabled and stopped" systemctl disable --now $unit
    check_eq "its result" "$(prop Result)" success
    # Where the store outlives a stop (254+), it is emptied on request
    case $(prop FileDescriptorStorePreserve) in
    yes)
        check_links "links that the store keeps" 3
        check "it is emptied" systemctl clean --what=fdstore $unit
        ;;
    esac
    check_links "links left in the kernel" 0
}
