# SPDX-License-Identifier: LGPL-2.1-or-later
# Reclaim from 4,000 cgroups with 4,000 mounts: shrinkers behind a lock (6.1) and without one (7.3).
# lab: hand=*
# lab: kernels="6.1 7.3 7.3-*" nodes=1 memory=3072 timeout=900 programs=lab-load,lockless-touch,lockless-sample
#
# A measurement. tests/lab/run puts the figures of several kernels side by side; tests/lab/lockless.md has a table, and says how
# to read it.

CGROUPS=4000 GROUP=100 MOUNTS=4000 WORKERS=4 MOUNTERS=2 SAMPLED=60 COUNTED=30 FREQUENCY=499
top=$LAB_MEMORY/lockless
tracing=/sys/kernel/tracing

figures() { echo lab-figures $* | tee -a /run/figures; }                                  # NAME KEY=NUMBER...
value()   { awk -v key="$1" '$1 == key { print $2 }' "$2"; }                              # KEY FILE
symbol()  { awk -v name="$1" '$3 == name { print $1; exit }' /proc/kallsyms; }
after()   { awk '{ print $1 }' /proc/kallsyms | sort | awk -v at="$1" '$1 > at { print; exit }'; }

# pairs FILE WORD...: KEY VALUE lines → KEY=VALUE words; of lines that begin with WORD: their second and third
pairs()   { awk 'NF == 2 { printf " %s=%s", $1, $2 }' "$1"; }
pairs_of() { awk -v word="$2" '$1 == word { sub(/\..*/, "", $2); printf " %s=%s", $2, $3 }' "$1"; }

# count_events NAME EVENT FILTER: in a tracing instance of its own. What the filter lets pass goes into a small ring, where old entries are
# overwritten, and counted.
count_events() {
    mkdir "$tracing/instances/$1" && echo 8 >"$tracing/instances/$1/buffer_size_kb" &&
        echo "$3" >"$tracing/instances/$1/events/lockless/$2/filter" &&
        echo 1 >"$tracing/instances/$1/events/lockless/$2/enable"
}

# counted NAME: how many events passed. A dropped one would be missing.
counted() {
    awk -F: '/^(entries|overrun):/ { n += $2 } /^(commit overrun|dropped events):/ { lost += $2 } END { print (lost ? "lost" : n + 0) }' \
        "$tracing/instances/$1"/per_cpu/cpu*/stats
}

stop_events() { for lab_event in "$tracing"/instances/*/events/lockless/*/enable; do echo 0 >"$lab_event"; done; }

touch_files() { lockless-touch "$1" $WORKERS "$2" $CGROUPS $top /mnt/shrink /mnt/spare; }  # SECONDS MOUNTERS

sampled() {  # SECONDS
    lockless-sample $FREQUENCY 16 shrink_slab down_read_trylock up_read down_write -- \
        lockless-touch "$1" $WORKERS $MOUNTERS $CGROUPS $top /mnt/shrink /mnt/spare
}

# The lookups have no hard limit: dentries are free only after a grace period of RCU, and with 7.3 on a slow host that was too late.
setup() {
    mkdir -p /mnt/shrink /mnt/spare && zram_swap 1024 && cgroup_make $top && echo +memory >$top/cgroup.subtree_control &&
        lab-load mounts 0 $MOUNTS "/mnt/shrink/{}" && mkdir $top/lookups && echo 4M >$top/lookups/memory.high || return 1
    lab_group=0
    while [ $lab_group -lt $((CGROUPS / GROUP)) ]; do
        mkdir $top/$lab_group && echo +memory >$top/$lab_group/cgroup.subtree_control &&
            lab-load cgroups 0 $GROUP "$top/$lab_group/{}" || return 1
        lab_group=$((lab_group + 1))
    done
}

# Room for all that a group of cgroups holds, but half of its files
limit() {
    for lab_group in $top/[0-9]*; do
        read -r lab_used <$lab_group/memory.current
        echo $((lab_used - GROUP * 65536 / 2)) >$lab_group/memory.max || return 1
    done
}

# Reclaim with generations goes another way, and 6.1 has it off.
[ ! -e /sys/kernel/mm/lru_gen/enabled ] || echo n >/sys/kernel/mm/lru_gen/enabled

start=$(date +%s)
check "$CGROUPS cgroups and $MOUNTS mounts" setup
check "each file touched once" touch_files 0 0
check "limits for $GROUP cgroups each" limit
note "after $(($(date +%s) - start)) s"

# 1. Rates and hot spots. Nothing but the sampler's interrupt disturbs.
scanned=$(value slabs_scanned /proc/vmstat) pages=$(value pgscan $top/memory.stat)
check "$SAMPLED seconds of touches and mounts, sampled" sampled $SAMPLED
cp /run/lab-check.out /run/sampled
scanned=$(($(value slabs_scanned /proc/vmstat) - scanned)) pages=$(($(value pgscan $top/memory.stat) - pages))
figures sampled "$(pairs /run/sampled)" frequency=$FREQUENCY slabs_scanned=$scanned pages_scanned=$pages
figures under "$(pairs_of /run/sampled under)"
figures self "$(pairs_of /run/sampled self)"
check_eq "samples lost" "$(value lost /run/sampled)" 0
check_range "files touched" "$(value touches /run/sampled)" 100 100000000
check_range "file systems mounted" "$(value mounts /run/sampled)" 10 100000000
check_range "pages scanned" "$pages" 1000 100000000000
check_range "slab objects scanned" "$scanned" 1000 100000000000

# 2. How often shrink_slab() was entered, and how often it gave up since somebody had the lock or waited to write. 6.1 asks
# down_read_trylock(&shrinker_rwsem); the return address says that it was shrink_slab() who asked.
lock=$(symbol shrinker_rwsem)
begin=$(symbol shrink_slab)
end=$(after "$begin")
from="__probe_ret_ip >= 0x$begin && __probe_ret_ip < 0x$end"
echo "p:lockless/pass shrink_slab" >$tracing/kprobe_events
echo "r:lockless/try down_read_trylock ret=\$retval:u8" >>$tracing/kprobe_events
check "passes are counted" count_events passes pass 0
check "tries of the lock are counted" count_events tries try "$from"
check "failed tries of the lock are counted" count_events skipped try "$from && ret == 0"
if [ -n "$lock" ]; then  # a second reading: whoever got the lock lets go of it
    echo "p:lockless/release up_read sem=%di:x64" >>$tracing/kprobe_events
    echo "p:lockless/read down_read sem=%di:x64" >>$tracing/kprobe_events
    check "releases of the lock are counted" count_events releases release "sem == 0x$lock"
    check "other readers of the lock are counted" count_events readers read "sem == 0x$lock"
fi
check "$COUNTED seconds of touches and mounts, counted" sampled $COUNTED
cp /run/lab-check.out /run/counted
stop_events
passes=$(counted passes) tries=$(counted tries) skipped=$(counted skipped)
figures counted "$(pairs /run/counted)" frequency=$FREQUENCY passes="$passes" tries="$tries" skipped="$skipped" \
    shrinker_rwsem=$([ -z "$lock" ]; echo $?) slab_samples="$(pairs_of /run/counted under | grep -o 'shrink_slab=[0-9]*' | cut -d= -f2)"
check_eq "calls that the probes missed" "$(awk '{ n += $3 } END { print n }' $tracing/kprobe_profile)" 0
check_range "passes" "$passes" 1000 100000000000
case $LAB_KERNEL in
6.1)
    check_range "tries of the lock" "$tries" 1000 "$passes"
    check_eq "tries that got the lock, and releases of other than its waiting readers" \
        $((tries - skipped)) $(($(counted releases) - $(counted readers)))
    check_range "passes skipped since the lock was held" "$skipped" 1 "$tries"
    ;;
*)
    check_eq "address of shrinker_rwsem" "$lock" none
    check_eq "tries of any reader's lock in shrink_slab()" "$tries" 0
    ;;
esac
check_eq "processes killed for want of memory" "$(value oom_kill $top/memory.events)" 0
give figures.txt </run/figures
