# SPDX-License-Identifier: LGPL-2.1-or-later
# kcore-census agrees with arithmetic, with cgroup.stat, and with what the slab allocator gave out.
# lab: hand="6.1 6.12 7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=3 possible=5 memory=1536 timeout=420 programs=kcore-census

LIVE=211 WRITEBACK=7 SWAP=3 MOUNTS=331
root=$LAB_MEMORY/k
out=/tmp/census

census()  { kcore-census >$out; }
total()   { tail -n 1 $out | grep -o "\"$1\":[0-9]*" | cut -d: -f2; }
lines()   { grep -v '^{"totals"' $out | grep "$@"; }
summary() { note "$(tail -n 1 $out)"; }

# slabs NAME: keep what the slab allocator has given out, once it holds still. Expanding shrinker info frees every old
# array, and the kernel hands such memory back in batches, seconds later.
slabs() {
    sizes="512 1024 2048 4096 8192" last=
    for try in 1 2 3 4 5 6 7 8; do
        slab_flush $sizes
        cat /proc/slabinfo >"/tmp/slabs-$1"
        now=$(for size in $sizes; do slab_objects $size "/tmp/slabs-$1"; done | tr '\n' ' ')
        steady "$last" "$now" && return
        last=$now
        sleep 6
    done
    note "slabs do not hold still: $last"
}
# Each size within eight objects of what it was
steady() {
    echo "$1 $2" | awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 8 || d < -8) exit 1 }
                          exit NF != 10 }'
}
gained() { echo $(($(slab_objects "$1" "/tmp/slabs-$3") - $(slab_objects "$1" "/tmp/slabs-$2"))); }  # SIZE FROM TO

check "ext4 with cgroup writeback" loop_ext4 /mnt/wb
check "$WRITEBACK files to dirty" writeback_files /mnt/wb $WRITEBACK
check "zram swap" zram_swap 64
check "tmpfs" tmpfs_make /mnt/swap
writeback_hold
check "cgroups" cgroup_make "$root/few" "$root/many"

# Some memcgs while there are few shrinker ids, as many while there are many. What one costs besides shrinker info is in
# both, so the difference of what the two cost in slab objects is shrinker info alone.
check "first census" census
summary
few_max=$(total map_nr_max)
slabs a
check "$LIVE cgroups while there are few shrinker ids" cgroups_make $LIVE "$root/few"
slabs b
check "$MOUNTS superblocks, for shrinker ids" mounts_make $MOUNTS /mnt/many
check "second census" census
summary
memcgs=$(total memcgs) units=$(total units) bytes=$(total bytes) max=$(total map_nr_max)
check_range "ids cover the mounts" "$max" $MOUNTS $((few_max + 2 * MOUNTS))
slabs c
check "$LIVE cgroups while there are many" cgroups_make $LIVE "$root/many"
slabs d

check "third census" census
summary
check_eq "memcgs gained" $(($(total memcgs) - memcgs)) $LIVE
check_eq "live ones against directories" "$(total live)" "$(find "$LAB_MEMORY" -type d | wc -l)"
check_eq "missing shrinker info" "$(total infos_missing)" 0
infos=$((LIVE * LAB_POSSIBLE))
if [ -n "$units" ]; then
    per_unit=$(total ids_per_unit)
    slots=$(((max + per_unit - 1) / per_unit)) few_slots=$(((few_max + per_unit - 1) / per_unit))
    # On demand an empty cgroup has none, and those that will be dying have one a node: what they touch has ids of the first unit.
    full=$slots few_full=$few_slots dying_full=$slots
    [ "$LAB_BUILD" != ondemand ] || full=0 few_full=0 dying_full=1
    check_eq "units gained, $LIVE cgroups on $LAB_POSSIBLE possible nodes with $slots slots" \
        $(($(total units) - units)) $((infos * full))
    check_eq "slots" "$(total slots)" $(($(total memcgs) * LAB_POSSIBLE * slots))
    size=1024
    [ "$(total unit_struct_bytes)" -gt 512 ] || size=512
    wanted=$((infos * (full - few_full)))
else
    check_eq "bytes gained, $LIVE cgroups on $LAB_POSSIBLE possible nodes with $max ids" \
        $(($(total bytes) - bytes)) $((infos * (max * 8 + max / 8 + 32)))
    # One allocation, of another size than with few ids: none of this size then.
    size=$((max * 8 + max / 8 + 32))
    for power in 8192 4096 2048 1024; do
        [ $power -lt "$size" ] || rounded=$power
    done
    size=$rounded
    wanted=$infos
fi
with_many=$(gained "$size" c d) with_few=$(gained "$size" a b)
note "objects of $size bytes for $LIVE cgroups: $with_few with $few_max ids, $with_many with $max"
# Slabs that a CPU holds, or that a node has parts of, count in whole: a hundredth, and four slabs of eight.
check_range "objects of $size bytes for shrinker info" $((with_many - with_few)) \
    $((wanted - wanted / 100 - 32)) $((wanted + wanted / 100 + 32))

# The dying.
i=0
while [ $i -lt $WRITEBACK ]; do
    pin_writeback "$root/w$i" /mnt/wb/$i || notok "pin_writeback $i"
    i=$((i + 1))
done
i=0
while [ $i -lt $SWAP ]; do
    pin_swap "$root/p$i" /mnt/swap/$i 256 || notok "pin_swap $i"
    i=$((i + 1))
done
sleep 2
check "fourth census" census
summary
check_eq "dying memcgs against arithmetic" "$(total dying)" $((WRITEBACK + SWAP))
check_eq "dying memcgs against cgroup.stat" "$(total dying)" "$(dying)"
check_eq "live ones as before" "$(total live)" "$(find "$LAB_MEMORY" -type d | wc -l)"
if [ -n "$units" ]; then
    check_eq "units of dying memcgs" "$(total units_dying)" $(((WRITEBACK + SWAP) * LAB_POSSIBLE * dying_full))
fi
check_eq "dying ones that are offline" "$(lines '"online":false,"dying":true' | wc -l)" $((WRITEBACK + SWAP))
check_eq "of those, with a reference count" "$(lines '"dying":true.*"refs":[1-9]' | wc -l)" $((WRITEBACK + SWAP))
check_eq "with 256 swap entries" "$(lines '"name":"p[0-9]*".*"memcg_id_refs":256,' | wc -l)" $SWAP
note "$(lines '"name":"[wp][0-9]*"' | sed 's/"nodes".*//')"
case $LAB_KERNEL in
7.3)
    # Folios have gone to the parent: what is left is one reference of the bdi_writeback, or one of all swap entries.
    check_eq "dying ones with one reference" "$(lines '"dying":true.*"refs":1,' | wc -l)" $((WRITEBACK + SWAP))
    ;;
*)
    # A reference for each of the five folios, and one of the bdi_writeback; without it where the kernel could make none at that moment
    # (GFP_ATOMIC, from a small per-cpu pool) and the root's took the pages.
    check_eq "written ones with five or six references" "$(lines '"name":"w[0-9]*".*"refs":[56],' | wc -l)" $WRITEBACK
    check "some of them with six" test "$(lines '"name":"w[0-9]*".*"refs":6,' | wc -l)" -gt 0
    ;;
esac
give census.json <$out

check "swap is switched off" swapoff /dev/zram0
rm /mnt/swap/* /mnt/wb/[0-9]*
dying_in_the_end 60
check "last census" census
check_eq "dying memcgs in the last census" "$(total dying)" 0
