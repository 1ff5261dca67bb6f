# SPDX-License-Identifier: LGPL-2.1-or-later
# Kernel memory is not accounted: on 7.3 no shrinker gets an id, and the census counts arrays without slots; before, ids are as ever.
# lab: hand="7.3-plain 7.3-units63"
# lab: append="cgroup.memory=nokmem" nodes=2 possible=3 memory=512 timeout=600 programs=shrinkwatchctl,census-compare,kcore-census

MOUNTS=70
out=/tmp/census

value() { grep -o "\"$1\": *[^,}]*" $out | head -n 1 | sed 's/.*: *//; s/"//g'; }

check "the command line says so" grep -q cgroup.memory=nokmem /proc/cmdline
check "cgroups" cgroup_make "$LAB_MEMORY/a/b"
check "a dying one, held by a socket" pin_socket "$LAB_MEMORY/a/gone" 7001
check "$MOUNTS superblocks, with shrinkers" mounts_make $MOUNTS /mnt/many

shrinkwatchctl census --direct --json >$out 2>/tmp/err
check_eq "exit status of census" $? 0
check_eq "bytes that it complains of" "$(wc -c </tmp/err)" 0
check_eq "complete" "$(value complete)" true
check_eq "settled" "$(value settled)" true
check_eq "memcgs" "$(value memcgs)" 4
check_eq "of them dying" "$(value dying)" 1
check_eq "arrays that are shorter than others" "$(value uneven)" 0
ids=$(value shrinker_nr_max)
note "layout $(value layout), allocation $(value allocation), room for $ids ids, $(value shrinker_ids_in_use) in use," \
    "$(value array_bytes) and $(value overhead_live_bytes) bytes"

shrinkwatchctl estimate >/tmp/estimate 2>/tmp/err
status=$?
sed 's/^/#   /' /tmp/err
if [ "$LAB_KERNEL" = 7.3 ]; then
    check_eq "room for ids" "$ids" 0
    check_eq "ids in use" "$(value shrinker_ids_in_use)" 0
    check_eq "stranded ids" "$(value stranded_ids)" 0
    check_eq "how units come" "$(value allocation)" unknown
    check_eq "slots" "$(value slots)" 0
    check_eq "units" "$(value units)" 0
    # 24 bytes each, from the cache of 32
    check_eq "bytes of 4 x $LAB_POSSIBLE arrays" "$(value array_bytes)" $((4 * LAB_POSSIBLE * 32))
    check_eq "of the dying one's" "$(value overhead_dying_bytes)" $((LAB_POSSIBLE * 32))
    check_eq "nodes with an array without slots" \
        "$(grep -o '"units": *0, *"slots": *0, *"array_bytes": *32, *"ids": *0}' $out | wc -l)" $((4 * LAB_POSSIBLE))
    check_eq "exit status of estimate: nothing to estimate" $status 5
    check "it names the option" grep -q "accounting of kernel memory is off (cgroup.memory=nokmem" /tmp/err
    check "and claims nothing of the memory controller" sh -c '! grep -q cgroup_disable /tmp/err'
    check_eq "bytes on its stdout" "$(wc -c </tmp/estimate)" 0
else
    check_range "room for ids" "$ids" $MOUNTS 512
    check_range "ids in use" "$(value shrinker_ids_in_use)" $MOUNTS "$ids"
    check_eq "how units come" "$(value allocation)" eager
    check_eq "exit status of estimate" $status 0
    check "no lists, and why" sh -c 'tr "\n" " " </tmp/estimate | grep -q "Lists found: 0. Accounting of kernel memory is off (cgroup.memory=nokmem)"'
fi

check "show" shrinkwatchctl show /a
grep -E 'Overhead|Subtree' /run/lab-check.out | sed 's/^/#   /'
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
