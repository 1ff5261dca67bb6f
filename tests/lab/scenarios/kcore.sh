# SPDX-License-Identifier: LGPL-2.1-or-later
# kcore-census agrees with arithmetic, with cgroup.stat, and with what the slab allocator gave out.
# lab: nodes=3 possible=5 memory=1536 timeout=300 programs=kcore-census

LIVE=211 WRITEBACK=7 SWAP=3 MOUNTS=331
root=$LAB_MEMORY/k
out=/tmp/census

census()  { kcore-census >$out; }
total()   { tail -n 1 $out | grep -o "\"$1\":[0-9]*" | cut -d: -f2; }
lines()   { grep -v '^{"totals"' $out | grep "$@"; }
summary() { note "$(tail -n 1 $out)"; }

check "ext4 with cgroup writeback" loop_ext4 /mnt/wb
check "$WRITEBACK files to dirty" writeback_files /mnt/wb $WRITEBACK
check "zram swap" zram_swap 64
check "tmpfs" tmpfs_make /mnt/swap
writeback_hold
check "$MOUNTS superblocks, for shrinker ids" mounts_make $MOUNTS /mnt/many
cgroup_make "$root/a"

# A census of what there is, then of so many cgroups more.
check "first census" census
summary
memcgs=$(total memcgs) units=$(total units) bytes=$(total bytes) max=$(total map_nr_max)
check_range "ids cover the mounts, each with two shrinkers at most" "$max" $MOUNTS $((4 * MOUNTS))

if [ -n "$units" ]; then
    alloc=1024  # a unit of 520 bytes
    [ "$(total unit_struct_bytes)" -gt 512 ] || alloc=512
    slots=$(((max + $(total ids_per_unit) - 1) / $(total ids_per_unit)))
else
    alloc=$((bytes / memcgs / LAB_POSSIBLE))
    note "shrinker info takes $alloc bytes"
    for size in 1024 2048 4096 8192; do
        [ $size -ge $alloc ] && alloc=$size && break
    done
    slots=1
fi
slab_flush $alloc
before=$(slab_objects $alloc)
i=0
while [ $i -lt $LIVE ]; do
    mkdir "$root/a/$i"
    i=$((i + 1))
done
echo +memory >"$root/a/cgroup.subtree_control"
slab_flush $alloc
gain=$(($(slab_objects $alloc) - before))

check "second census" census
summary
check_eq "memcgs gained" $(($(total memcgs) - memcgs)) $LIVE
check_eq "live ones against directories" "$(total live)" "$(find "$LAB_MEMORY" -type d | wc -l)"
check_eq "missing shrinker info" "$(total infos_missing)" 0
wanted=$((LIVE * LAB_POSSIBLE * slots))
if [ -n "$units" ]; then
    check_eq "units gained, $LIVE cgroups on $LAB_POSSIBLE possible nodes with $slots slots" \
        $(($(total units) - units)) $wanted
    check_eq "slots" "$(total slots)" $(($(total memcgs) * LAB_POSSIBLE * slots))
else
    check_eq "bytes gained, $LIVE cgroups on $LAB_POSSIBLE possible nodes" \
        $(($(total bytes) - bytes)) $((LIVE * bytes / memcgs))
fi
# A few other objects of that size come with each cgroup; none must be missing.
check_range "slab objects of $alloc bytes gained" $gain $wanted $((wanted + 2 * LIVE))

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
check "third census" census
summary
check_eq "dying memcgs against arithmetic" "$(total dying)" $((WRITEBACK + SWAP))
check_eq "dying memcgs against cgroup.stat" "$(total dying)" "$(dying)"
check_eq "live ones as before" "$(total live)" "$(find "$LAB_MEMORY" -type d | wc -l)"
if [ -n "$units" ]; then
    check_eq "units of dying memcgs" "$(total units_dying)" $(((WRITEBACK + SWAP) * LAB_POSSIBLE * slots))
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
    # A reference for each of the five folios, and one of the bdi_writeback.
    check_eq "written ones with six references" "$(lines '"name":"w[0-9]*".*"refs":6,' | wc -l)" $WRITEBACK
    ;;
esac
give census.json <$out

check "swap is switched off" swapoff /dev/zram0
rm /mnt/swap/* /mnt/wb/[0-9]*
check_eq "dying in the end" "$(wait_eq 20 0 dying)" 0
check "last census" census
check_eq "dying memcgs in the last census" "$(total dying)" 0
