# SPDX-License-Identifier: LGPL-2.1-or-later
# Every memcg-aware shrinker that is in the kernel is still reached by the reclaim of a cgroup: what is on its list goes.
# lab: kernels=7.3-* nodes=2 memory=1536 timeout=600 append=brd.rd_size=131072 programs=shrinkwatchctl,lab-load

root=$LAB_MEMORY/shrinkers
debug=/sys/kernel/debug/shrinker
ext4=/mnt/ext4

# count SHRINKER CGROUP: objects of it on the lists of the cgroup. Shadow nodes and zswap count by the statistics of the cgroup,
# which are brought up to date when they are read.
count() {
    cat "$2/memory.stat" >/dev/null
    cat $debug/"$1"[-:]*/count | awk -v id="$(stat -c %i "$2")" '$1 == id { for (i = 2; i <= NF; i++) n += $i } END { print n + 0 }'
}
stat_of() { awk -v key="$1" '$1 == key { print $2 }' "$2/memory.stat"; }
reclaim() { echo "$2" >"$1/memory.reclaim" 2>/dev/null; }

check "zswap is on" eval "echo Y >/sys/module/zswap/parameters/enabled && echo Y >/sys/module/zswap/parameters/shrinker_enabled"
# A block device of its own: a file in a tmpfs would be swapped out itself.
check "swap on a block device" eval "mkswap /dev/ram0 && swapon /dev/ram0"

# Which there are: the ids in use, but for superblocks, are one of each of these.
memcg_aware= other=
for dir in $debug/*; do
    name=${dir##*/}
    name=${name%-*}
    case $name in
    sb-*) ;;
    mm-shadow|mm-zswap|thp-deferred_split|nfs-xattr*) memcg_aware="$memcg_aware $name" ;;
    *) other="$other $name" ;;
    esac
done
note "memcg-aware besides superblocks:$memcg_aware; not:$other"
supers=$(ls $debug | grep -c '^sb-')
ids=$(shrinkwatchctl census --direct --json | grep -o '"shrinker_ids_in_use": *[0-9]*' | sed 's/.*: *//')
check_eq "ids in use, superblocks taken away" $((ids - supers)) "$(echo $memcg_aware | wc -w)"
check_eq "memcg-aware ones besides superblocks" "$(echo $memcg_aware | wc -w)" 3

check "ext4" loop_ext4 $ext4 192
truncate -s 1G $ext4/big
for i in $(seq 1 100); do echo "$i" >$ext4/f"$i"; done
umount $ext4 && mount -t ext4 -o loop,noatime "$lab_image" $ext4

# A superblock's dentries and inodes
cgroup_make "$root/super"
check "names" lab-load walk 1 100 "$root/super" $ext4/f{}
before=$(count sb-ext4 "$root/super")
check_range "sb-ext4: objects of the cgroup" "$before" 100 400
reclaim "$root/super" 64M
reclaim "$root/super" 64M
check_eq "sb-ext4: objects after memory.reclaim" "$(count sb-ext4 "$root/super")" 0

# Shadow nodes: a file read and evicted leaves nodes with nothing but shadow entries.
cgroup_make "$root/shadow"
check "a file read" lab-load scatter 0 4096 "$root/shadow" $ext4/big
freed=$(stat_of workingset_nodereclaim "$root/shadow")
# Half of them go as soon as they are there: what is left on the list tells little, what was freed tells all.
for try in 1 2 3 4 5 6; do reclaim "$root/shadow" 10M; done
freed=$(($(stat_of workingset_nodereclaim "$root/shadow") - freed))
check_range "mm-shadow: nodes of the cgroup that were reclaimed, of 4096" "$freed" 1000 4096
note "mm-shadow: $(count mm-shadow "$root/shadow") left"

# Huge pages of which half is unused
cgroup_make "$root/huge"
echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs 2>/dev/null
lab-load huge 0 11 "$root/huge" /run/huge &
pid=$!
check "huge pages" wait_for 30 [ -e /run/huge ]
before=$(count thp-deferred_split "$root/huge")
check_range "thp-deferred_split: huge pages of the cgroup" "$before" 5 11
# Swapping nothing out: else the list is emptied by what goes to swap, and the shrinker does nothing.
for try in $(seq 1 40); do
    reclaim "$root/huge" "4M swappiness=0"
    [ "$(count thp-deferred_split "$root/huge")" != 0 ] || break
done
note "thp-deferred_split: empty after $try times memory.reclaim"
check_eq "thp-deferred_split: huge pages after memory.reclaim" "$(count thp-deferred_split "$root/huge")" 0
kill $pid

# Zswap writes back what it holds.
cgroup_make "$root/zswap"
lab-load huge 0 24 "$root/zswap" /run/zswap whole &
pid=$!
check "memory to push out" wait_for 30 [ -e /run/zswap ]
# Reclaim that fills it would also empty it again.
echo N >/sys/module/zswap/parameters/shrinker_enabled
reclaim "$root/zswap" 32M
echo Y >/sys/module/zswap/parameters/shrinker_enabled
for try in 1 2 3 4 5 6 7 8 9 10; do # as long as it takes the statistics
    before=$(count mm-zswap "$root/zswap")
    [ "$before" -gt 0 ] && break
    sleep 0.5
done
check_range "mm-zswap: entries of the cgroup" "$before" 1 100000
written=$(stat_of zswpwb "$root/zswap")
for try in 1 2 3 4 5 6 7 8; do reclaim "$root/zswap" 64M; done
note "mm-zswap: $before entries before, $(count mm-zswap "$root/zswap") after"
check_range "mm-zswap: pages that were written back" $(($(stat_of zswpwb "$root/zswap") - written)) 1 100000
kill $pid
wait
swapoff /dev/ram0
umount $ext4
find "$root" -mindepth 1 -type d -exec rmdir {} +
rmdir "$root"
dying_in_the_end 60
