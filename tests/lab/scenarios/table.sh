# SPDX-License-Identifier: LGPL-2.1-or-later
# The published table: 8,000 tmpfs mounts, then 2,000 empty memory cgroups; then files in them, their removal, and their end.
# lab: kernels=7.3-* nodes=4 memory=7168 timeout=1200 programs=shrinkwatchctl,lab-load

MOUNTS=${LAB_TABLE_MOUNTS:-8000} CGROUPS=${LAB_TABLE_CGROUPS:-2000}
root=$LAB_MEMORY/table
out=/tmp/census.json

# One line a memcg; totals and host are on lines of their own, too.
census() { shrinkwatchctl census --direct --json >$out && give "census-$1.json" <$out; }
estimate() { shrinkwatchctl estimate --direct --json --memcgs >/tmp/estimate.json && give "estimate-$1.json" </tmp/estimate.json; }
host() { grep -o "\"$1\": *[^,}]*" $out | head -n 1 | sed 's/.*: *//; s/"//g'; }

# units_of REGEX: units, and memcgs, whose path matches
units_of() {
    grep -o '{"serial".*' $out | awk -v want="\"path\": *\"$1\"" '
        $0 ~ want { match($0, /"units": *[0-9]+/); u = substr($0, RSTART, RLENGTH); sub(/.*: */, "", u); n += u; m++ }
        END { print n + 0, m + 0 }'
}

# What the slab allocator gave out: active objects of 512 and of 1,024 bytes; kilobytes of slab; of per-cpu memory
measure() {
    slab_flush 512 1024
    cp /proc/slabinfo /tmp/slabinfo
    echo "$(slab_objects 512 /tmp/slabinfo) $(slab_objects 1024 /tmp/slabinfo)" \
        "$(awk '$1 == "Slab:" { print $2 }' /proc/meminfo) $(awk '$1 == "Percpu:" { print $2 }' /proc/meminfo)"
}

# figures NAME BEFORE AFTER COUNT: a line for the host's table
figures() {
    set -- "$1" $2 $3 "$4"
    echo "lab-figures $1 objects_512=$(($6 - $2)) objects_1024=$(($7 - $3)) slab_kb=$(($8 - $4)) percpu_kb=$(($9 - $5)) cgroups=${10}"
    note "$1: $(($6 - $2)) objects of 512 bytes, $(($7 - $3)) of 1024, slab $((($8 - $4) / ${10})) KB a cgroup, per-cpu" \
        "$((($9 - $5) / ${10})) KB"
    gained_512=$(($6 - $2)) gained_1024=$(($7 - $3))
}

case $LAB_BUILD in
plain) size=1024 ids=64 demand= ;;
units63) size=512 ids=63 demand= ;;
*) size=512 ids=63 demand=1 ;;
esac

begin=$(date +%s)
check "ext4 with files" loop_ext4 /mnt/wb 48
i=0
while [ $i -lt "$CGROUPS" ]; do
    echo 0 >/mnt/wb/$i
    i=$((i + 1))
done
umount /mnt/wb && mount -t ext4 -o loop,noatime "$lab_image" /mnt/wb && stat /mnt/wb/* >/dev/null && sync
mkdir /mnt/t
check "$MOUNTS tmpfs mounts" lab-load mounts 0 "$MOUNTS" /mnt/t/{}
cgroup_make "$root"
echo +memory >"$root/cgroup.subtree_control"
sleep 3 # what RCU has to free is freed
census mounts
max=$(host shrinker_nr_max)
note "after mounts: shrinker_nr_max $max, $(($(date +%s) - begin)) s"
check_eq "ids of a unit" "$(host ids_per_unit)" $ids
check_eq "room for ids is a multiple of $ids" $((max % ids)) 0
check_range "room for ids" "$max" "$MOUNTS" $((MOUNTS + 3 * ids))
every=$((max / ids * LAB_NODES)) # all units of a memcg

# 2,000 empty cgroups
before=$(measure)
check "$CGROUPS cgroups" lab-load cgroups 0 "$CGROUPS" "$root/{}"
sleep 3
after=$(measure)
figures empty "$before" "$after" "$CGROUPS"
census empty
estimate empty
set -- $(units_of '\\/table\\/[0-9]+')
check_eq "memcgs in the census" "$2" "$CGROUPS"
note "units of them by the census: $1"
if [ -n "$demand" ]; then
    check_eq "units of empty cgroups" "$1" 0
    # None for units; a few come and go besides.
    check_range "objects of $size bytes that came with them" $gained_512 -$((CGROUPS / 4)) $((CGROUPS / 4))
else
    check_eq "units of empty cgroups" "$1" $((every * CGROUPS))
    eval gained=\$gained_$size
    # A cgroup has a few objects of that size besides; slabs of a CPU's own count as full.
    check_range "objects of $size bytes, more than units, in permille" $(((gained - $1) * 1000 / $1)) -2 40
fi
set -- $(units_of '\\/')
check_eq "units of the root" "$1" $every

# A page of a file written in each: no list, so no unit; but they have a bdi_writeback, which outlives them.
writeback_hold
check "a page written in each" lab-load writes 0 "$CGROUPS" "$root/{}" /mnt/wb/{}
sleep 1
census written
set -- $(units_of '\\/table\\/[0-9]+')
written=$1
note "units after the writes: $1"
[ -n "$demand" ] || check_eq "units after the writes" "$1" $((every * CGROUPS))

check "cgroups removed" lab-load rmdirs 0 "$CGROUPS" "$root/{}"
check_eq "dying, offline" "$(wait_eq 60 "$CGROUPS" dying)" "$CGROUPS"
sleep 3
removed=$(measure)
census dying
set -- $(units_of '\\/table\\/[0-9]+')
check_eq "dying memcgs in the census" "$(grep -c '"state": *"dying"' $out)" "$CGROUPS"
check_eq "dying memcgs told as pinned by writeback" "$(grep -c '"cause": *"writeback"' $out)" "$CGROUPS"
check_eq "units of dying memcgs" "$1" "$written"
figures dying "$before" "$removed" "$CGROUPS"
estimate dying

# And they go when the inodes do.
find /mnt/wb -maxdepth 1 -name '[0-9]*' -exec rm -f {} +
echo 2 >/proc/sys/vm/drop_caches
check_eq "dying when the files are gone" "$(wait_eq 60 0 dying)" 0
sleep 5
gone=$(measure)
census gone
figures gone "$before" "$gone" "$CGROUPS"
check_range "objects of $size bytes that are left of $((every * CGROUPS))" "$(eval echo \$gained_$size)" -$((CGROUPS * 4)) $((CGROUPS / 2))
note "$(($(date +%s) - begin)) s in all"
