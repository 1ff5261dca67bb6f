# SPDX-License-Identifier: LGPL-2.1-or-later
# Allocations fail: inside installs of units, inside expansion of arrays, inside the allocation of lists. Errors reach who asked.
# lab: hand="7.3-plain 7.3-units63"
# lab: kernels=7.3-* nodes=4 memory=1536 timeout=900 programs=shrinkwatchctl,lab-load

root=$LAB_MEMORY/fail
fail=/sys/kernel/debug/failslab
out=/tmp/census.json
case $LAB_BUILD in
plain|units63) demand= ;;
*) demand=1 ;;
esac

census() { shrinkwatchctl census --direct --json >$out; }
units() { grep "\"path\": *\"/fail$1\"" $out | grep -o '"units": *[0-9]*' | head -n 1 | sed 's/.*: *//'; }
address() { awk -v name="$1" '$3 == name { print "0x" $1; exit }' /proc/kallsyms; }
next_address() { awk -v name="$1" '{ if (found && $1 != at) { print "0x" $1; exit } if ($3 == name) { found = 1; at = $1 } }' /tmp/kallsyms; }
sort /proc/kallsyms >/tmp/kallsyms

# inject FUNCTION PERCENT: allocations of marked processes that come from inside of the function fail so often
inject() {
    [ -n "$(address "$1")" ] || bail "no function $1 to inject into"
    echo "$(address "$1")" >$fail/require-start
    echo "$(next_address "$1")" >$fail/require-end
    echo 32 >$fail/stacktrace-depth
    echo N >$fail/ignore-gfp-wait
    echo N >$fail/cache-filter
    echo Y >$fail/task-filter
    echo 0 >$fail/verbose
    echo 1 >$fail/interval
    echo -1 >$fail/times
    echo 0 >$fail/space
    echo "$2" >$fail/probability
}
inject_off() { echo 0 >$fail/probability; }

# marked COMMAND...: its allocations may fail
marked() { sh -c 'echo 1 >/proc/self/make-it-fail; exec "$0" "$@"' "$@"; }

# failures COMMAND...: how many of 40 calls fail
failures() {
    lab_failed=0
    for lab_try in $(seq 1 40); do
        marked "$@" >/run/lab-out 2>&1 || lab_failed=$((lab_failed + 1))
    done
    echo $lab_failed
}

mkdir /mnt/f
lab-load mounts 0 200 /mnt/f/{} || bail "mounts"
cgroup_make "$root/a/b/c" "$root/x"
[ -e $fail/probability ] || bail "no failslab"

if [ -n "$demand" ]; then
    # Every install fails: so does the lookup, and there is neither list nor unit.
    inject shrinker_unit_install 100
    check_eq "lookups that fail while no unit can be had" "$(failures /usr/local/bin/lab-load walk 0 200 "$root/a/b/c" /mnt/f/{}/x)" 40
    check "the error is told" grep -q "Cannot allocate memory" /run/lab-out
    inject_off
    census
    for memcg in "" /a /a/b /a/b/c; do check_eq "units of ${memcg:-the top}" "$(units "$memcg")" 0; done

    # Half of them fail: nodes half done, ancestors with a unit that the child has not got. Later calls complete it.
    inject shrinker_unit_install 50
    check_range "lookups that fail of 40, at 50 percent" "$(failures /usr/local/bin/lab-load walk 0 200 "$root/a/b/c" /mnt/f/{}/x)" 1 40
    inject_off
    census
    note "units after that: /a/b/c $(units /a/b/c), /a/b $(units /a/b), /a $(units /a)"
    check_range "units of the child, at most as many as of its parent" "$(units /a/b/c)" 0 "$(units /a/b)"
    check_range "units of the parent, at most as many as of the grandparent" "$(units /a/b)" 0 "$(units /a)"
fi
check "a lookup when allocations work again" lab-load walk 0 200 "$root/a/b/c" /mnt/f/{}/x
census
if [ -n "$demand" ]; then
    check_range "units of the child" "$(units /a/b/c)" $((3 * LAB_NODES)) $((5 * LAB_NODES))
    check_eq "a parent has as many" "$(units /a/b)" "$(units /a/b/c)"
fi

# The list itself fails, after its units may be there
inject __memcg_list_lru_alloc 50
check_range "lookups that fail of 40 for want of a list, at 50 percent" \
    "$(failures /usr/local/bin/lab-load walk 0 200 "$root/x" /mnt/f/{}/y)" 1 40
inject_off
check "a lookup when lists can be had again" lab-load walk 0 200 "$root/x" /mnt/f/{}/y

# The list is there, and its place in the xarray cannot be had, for an ancestor first: an error as well. (Without the patch the
# lookup goes round for ever there, and cannot be killed.)
if [ -n "$demand" ]; then
    cgroup_make "$root/y/z"
    lab-load mounts 200 1 /mnt/f/{} || bail "a mount that nobody has looked into"
    echo 1 >/sys/kernel/slab/radix_tree_node/failslab
    inject __memcg_list_lru_alloc 100
    echo Y >$fail/cache-filter
    { marked /usr/local/bin/lab-load walk 200 1 "$root/y/z" /mnt/f/{}/x >/run/lab-out 2>&1; echo $? >/run/looked; } &
    check "a lookup ends that finds no room for a list" wait_for 30 [ -s /run/looked ]
    inject_off
    wait
    echo 0 >/sys/kernel/slab/radix_tree_node/failslab
    check_range "and fails, with exit status" "$(cat /run/looked)" 1 255
    check "with the error told" grep -q "Cannot allocate memory" /run/lab-out
    check "the same lookup afterwards" lab-load walk 200 1 "$root/y/z" /mnt/f/{}/x
    mounted=201
else
    mounted=200
fi

# Expansion fails half way: arrays of some memcgs are longer than of others. A mount fails, nothing else does. The functions that
# expand may be inlined, so allocations fail anywhere in the registration of a shrinker; what tells is that arrays are uneven.
number() { grep -o "\"$1\": *[0-9]*" $out | head -n 1 | sed 's/.*: *//'; }
expanding=$(awk '$3 ~ /^(expand_one_shrinker_info|expand_shrinker_info|shrinker_alloc)$/ { print $3 }' /proc/kallsyms | sort | head -n 1)
lengths() { grep -o '{ *"node": *[0-9]*,[^}]*}' $out | grep -o '"slots": *[0-9]*' | sort -u | wc -l; }
census
check_eq "lengths of arrays before" "$(lengths)" 1
max=$(number shrinker_nr_max)
tries=0 half=0
while [ $half = 0 ] && [ $tries -lt 24 ]; do
    tries=$((tries + 1))
    census
    room=$(($(number shrinker_nr_max) - $(number shrinker_ids_in_use)))
    if [ $room -gt 0 ]; then
        lab-load mounts $mounted $room /mnt/f/{} || bail "mounts up to the end of the last unit"
        mounted=$((mounted + room))
    fi
    inject "$expanding" 10
    if marked /usr/local/bin/lab-load mounts $mounted 1 /mnt/f/{} 2>/run/lab-out; then
        mounted=$((mounted + 1))
    fi
    inject_off
    census
    half=$(($(lengths) - 1))
done
check_eq "an expansion that failed half way, after $tries tries: arrays are of one more length" $half 1
check "names in all mounts, with arrays of two lengths" lab-load walk 0 $mounted "$root/a/b/c" /mnt/f/{}/v
failed=0
inject "$expanding" 25
for round in $(seq 1 200); do
    if marked /usr/local/bin/lab-load mounts $mounted 1 /mnt/f/{} 2>/run/lab-out; then
        mounted=$((mounted + 1))
        lab-load walk $((mounted - 1)) 1 "$root/a/b/c" /mnt/f/{}/z || bail "lookup in the new mount"
    else
        failed=$((failed + 1))
    fi
done
inject_off
check_range "mounts that failed of 200" $failed 1 199
check "more mounts when allocations work again" lab-load mounts $mounted 200 /mnt/f/{}
check "names in all of them" lab-load walk 0 $((mounted + 200)) "$root/a/b/c" /mnt/f/{}/w
census
check_range "room for ids" "$(number shrinker_nr_max)" $((max + 1)) 100000
check_eq "lengths of arrays in the end" "$(lengths)" 1
[ -z "$demand" ] || check_eq "a parent has as many units as its child" "$(units /a/b)" "$(units /a/b/c)"

# All of it can go
echo 64M >"$root/memory.reclaim" 2>/dev/null
find "$root" -mindepth 1 -depth -type d -exec rmdir {} +
rmdir "$root"
dying_in_the_end 60
