# SPDX-License-Identifier: LGPL-2.1-or-later
# memory.reclaim reaches 140 ext4 superblocks with consecutive shrinker ids, wherever in the id space they are.
# lab: kernels=7.3-* nodes=4 memory=2048 timeout=900 programs=shrinkwatchctl,lab-load

SUPERBLOCKS=140 FILES=5
root=$LAB_MEMORY/reclaim
debug=/sys/kernel/debug/shrinker

ids_in_use() { shrinkwatchctl census --direct --json | grep -o '"shrinker_ids_in_use": *[0-9]*' | sed 's/.*: *//'; }
ext4_inodes() { awk '$1 == "ext4_inode_cache" { print $2 }' /proc/slabinfo; }

# counts CGROUP: of each of the superblocks, the dentries and inodes on its lists for the cgroup → number with any, and sum
counts() {
    cat $debug/sb-ext4:*/count 2>/dev/null |
        awk -v id="$(stat -c %i "$1")" '$1 == id { n = 0; for (i = 2; i <= NF; i++) n += $i; if (n) m++; sum += n } END { print m + 0, sum + 0 }'
}

reclaim_all() {
    for lab_try in $(seq 1 20); do
        echo 64M >"$1/memory.reclaim"
        [ "$(counts "$1")" = "0 0" ] && return 0
    done 2>/dev/null
}

case $LAB_BUILD in
plain) ids=64 ;;
*) ids=63 ;;
esac

mkdir -p /mnt/fill /mnt/e /run/tree
for i in $(seq 1 $FILES); do echo "$i" >/run/tree/f$i; done
check "an image to copy" mke2fs -q -F -t ext4 -O ^has_journal,^resize_inode -b 1024 -N 32 -d /run/tree /run/image 256k
cgroup_make "$root/a/b"
filled=0

# at ID WHY: mounts so many that the next superblock gets this id, then the 140, whose names the cgroup looks up; reclaim
at() {
    start=$1
    need=$((start - $(ids_in_use)))
    [ $need -lt 0 ] && bail "$start is used up already"
    lab-load mounts $filled $need /mnt/fill/{} || bail "mounts"
    filled=$((filled + need))
    check_eq "ids in use before the superblocks at $start ($2)" "$(ids_in_use)" "$start"
    lab-load images 0 $SUPERBLOCKS /mnt/e/{} /run/image || bail "ext4"
    check_eq "ids in use with them" "$(ids_in_use)" $((start + SUPERBLOCKS))

    inodes=$(ext4_inodes)
    for i in $(seq 1 $FILES); do
        lab-load walk 0 $SUPERBLOCKS "$root/a/b" "/mnt/e/{}/f$i" || bail "lookups"
    done
    set -- $(counts "$root/a/b")
    check_eq "ids $start to $((start + SUPERBLOCKS - 1)): superblocks with objects of the cgroup" "$1" $SUPERBLOCKS
    check_range "objects on their lists" "$2" $((SUPERBLOCKS * FILES)) $((SUPERBLOCKS * (2 * FILES + 4)))
    # slabinfo takes a CPU's own slabs for full ones: some more or less. The lists above are exact.
    check_range "inodes that ext4 has more" $(($(ext4_inodes) - inodes)) $((SUPERBLOCKS * FILES / 2)) 1000000

    reclaim_all "$root/a/b"
    set -- $(counts "$root/a/b")
    check_eq "ids $start to $((start + SUPERBLOCKS - 1)): superblocks never reached by memory.reclaim" "$1" 0
    check_eq "objects left on their lists" "$2" 0
    slab_flush "$(awk '$1 == "ext4_inode_cache" { print $4 }' /proc/slabinfo)"
    check_range "inodes that ext4 still has of them" $(($(ext4_inodes) - inodes)) -100000 $((SUPERBLOCKS * FILES / 20))
    lab-load umounts 0 $SUPERBLOCKS /mnt/e/{} || bail "umount"
}

# The ids of a kernel that has just booted begin below 64. Ends of units lie at multiples of 63 or of 64.
at 100 "within the second unit"
at $((ids * 6 - SUPERBLOCKS)) "they end with a unit"
at $((ids * 8)) "they begin with a unit"
at $((ids * 12 - SUPERBLOCKS + 1)) "the last is the first of a unit"
at 2455 "where a mask in place of a division leaves the last 12 out"
