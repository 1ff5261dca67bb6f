# SPDX-License-Identifier: LGPL-2.1-or-later
# Who gets units on demand: a cgroup that looks up names on two file systems and its ancestors, on all nodes; nobody else.
# lab: kernels=7.3-* nodes=4 memory=1536 timeout=600 programs=shrinkwatchctl,lab-load

root=$LAB_MEMORY/units
out=/tmp/census.json

census() { shrinkwatchctl census --direct --json >$out; }
host() { grep -o "\"$1\": *[^,}]*" $out | head -n 1 | sed 's/.*: *//; s/"//g'; }
memcg() { grep "\"path\": *\"/units$1\"" $out; }
field() { grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'; }
units() { memcg "$1" | field units; }
per_node() { memcg "$1" | grep -o '"nodes": *\[[^]]*\]' | grep -o '"units": *[0-9]*' | sed 's/.*: *//' | tr '\n' ' '; }

case $LAB_BUILD in
plain) ids=64 demand= ;;
units63) ids=63 demand= ;;
*) ids=63 demand=1 ;;
esac

# wanted COUNT: so many units, or all of them where units are not allocated on demand
wanted() { if [ -n "$demand" ]; then echo "$1"; else echo $every; fi; }

# Two file systems with names to look up, whose ids lie in two units: more than a unit's worth of mounts between them.
mkdir /mnt/u
tmpfs_make /mnt/first && tmpfs_make /mnt/second
umount /mnt/second
lab-load mounts 0 150 /mnt/u/{}
tmpfs_make /mnt/second
for i in 1 2 3 4 5 6 7; do echo $i >/mnt/first/$i; echo $i >/mnt/second/$i; done

cgroup_make "$root/a/b/c" "$root/a/b/sister" "$root/a/aunt" "$root/other"
census
every=$(($(host shrinker_nr_max) / ids * LAB_NODES))
note "shrinker_nr_max $(host shrinker_nr_max), all units of a memcg: $every"
for memcg in /a/b/c /a/b /a "" /a/b/sister; do
    check_eq "units of ${memcg:-the top} before" "$(units "$memcg")" "$(wanted 0)"
done
check_eq "units of the root" "$(grep '"path": *"/"' $out | field units)" $every

# Names that are not there: each makes a negative dentry, charged to who asks.
check "names looked up" lab-load lookups 0 1 "$root/a/b/c" /mnt/first/none1 /mnt/first/none2 /mnt/second/none1
census
for memcg in /a/b/c /a/b /a ""; do
    check_eq "units of ${memcg:-the top}, after names on two file systems" "$(units "$memcg")" "$(wanted 8)"
    [ -z "$demand" ] || check_eq "the same, on each node" "$(per_node "$memcg")" "2 2 2 2 "
done
for memcg in /a/b/sister /a/aunt /other; do
    check_eq "units of $memcg, which looked nothing up" "$(units "$memcg")" "$(wanted 0)"
done

# One whose ancestors have theirs already; and the same names again bring nothing.
lab-load lookups 0 1 "$root/a/b/sister" /mnt/second/none2
lab-load lookups 0 1 "$root/a/b/c" /mnt/first/none1 /mnt/first/none3
census
check_eq "units of a sister with names on one of them" "$(units /a/b/sister)" "$(wanted 4)"
check_eq "units of the first, after more names" "$(units /a/b/c)" "$(wanted 8)"
check_eq "units of the parent, unchanged" "$(units /a/b)" "$(wanted 8)"

# Reclaim takes what is on the lists, and leaves lists and units.
echo 64M >"$root/memory.reclaim" 2>/dev/null
census
check_eq "units after reclaim" "$(units /a/b/c)" "$(wanted 8)"

# Removed while something holds it: it keeps what it has. Its lists go up, its units go with it.
check "swap" zram_swap 64
tmpfs_make /mnt/swap
check "a cgroup removed that swap entries pin" pin_swap "$root/a/b/c" /mnt/swap/c 256
sleep 1
census
check_eq "the removed one is" "$(memcg /a/b/c | field state)" dying
note "units of the dying one: $(units /a/b/c)"
if [ -n "$demand" ]; then
    check_range "units of the dying one" "$(units /a/b/c)" 8 $every
else
    check_eq "units of the dying one" "$(units /a/b/c)" $every
fi
rm /mnt/swap/c
check_eq "dying in the end" "$(wait_eq 30 0 dying)" 0

# Gaps: a cgroup with a unit far behind an empty slot, made and removed many times. Nothing stays behind.
round() { lab-load cgroups 0 250 "$root/other/{}" && lab-load lookups 0 250 "$root/other/{}" /mnt/second/g{} && lab-load rmdirs 0 250 "$root/other/{}"; }
echo +memory >"$root/other/cgroup.subtree_control"
check "a first round of 250 cgroups" round
check_eq "dying after the first round" "$(wait_eq 60 0 dying)" 0
sleep 3
slab_flush 512 1024
before=$(($(slab_objects 512) + $(slab_objects 1024)))
check "three rounds more" eval "round && round && round"
check_eq "dying after the rounds" "$(wait_eq 60 0 dying)" 0
sleep 3
slab_flush 512 1024
after=$(($(slab_objects 512) + $(slab_objects 1024)))
check_range "objects of unit size that three rounds left behind" $((after - before)) -2000 300

if [ -n "$demand" ]; then
    shrinkwatchctl estimate --direct --json >/tmp/estimate.json
    note "$(tr -d '\n' </tmp/estimate.json | tr -s ' ')"
fi
