# SPDX-License-Identifier: LGPL-2.1-or-later
# 64 cgroups get lists and units while 3,000 mounts let the id space grow; cgroups come and go meanwhile. Then reclaim, and the end.
# lab: hand="7.3-plain 7.3-units63"
# lab: kernels=7.3-* nodes=4 memory=3072 cpus=4 timeout=1500 programs=shrinkwatchctl,lab-load

CGROUPS=64 MOUNTS=${LAB_RACE_MOUNTS:-3000} WORKERS=2 EVERY=150
root=$LAB_MEMORY/race
out=/tmp/census.json

host() { grep -o "\"$1\": *[^,}]*" $out | head -n 1 | sed 's/.*: *//; s/"//g'; }

mkdir /mnt/r /mnt/x /run/race /run/tree
for i in $(seq 0 $((CGROUPS - 1))); do echo "$i" >/run/tree/f"$i"; done
check "an image to copy" mke2fs -q -F -t ext4 -O ^has_journal,^resize_inode -b 1024 -N 96 -d /run/tree /run/image 256k
cgroup_make "$root/top/mid" "$root/churn"
echo +memory >"$root/top/mid/cgroup.subtree_control"
echo +memory >"$root/churn/cgroup.subtree_control"
lab-load cgroups 0 $CGROUPS "$root/top/mid/{}"

# A name that is not in a tmpfs leaves lists and nothing on them; one in ext4 sets bits. $there: mounts that are made
look() { there=$(cat /run/race/mounted 2>/dev/null); there=${there:-0}; } # empty while it is being written

# keeping_up NUMBER: half of the cgroups; looks into every mount as soon as it is there, so units come right after arrays grew
keeping_up() {
    next=0
    while :; do
        [ -e /run/race/done ] && last=1 || last=
        look
        [ "$there" -gt $next ] || { [ -n "$last" ] && break; sleep 0.05; continue; }
        lab-load sweep $next $((there - next)) "$root/top/mid/{}" "$1" $WORKERS $((CGROUPS / 2)) "/mnt/r/{}/none@" || exit 1
        lab-load sweep 0 $((there / EVERY)) "$root/top/mid/{}" "$1" $WORKERS $((CGROUPS / 2)) "/mnt/x/{}/f@" || exit 1
        next=$there
    done
}

# catching_up NUMBER: the other half; each in its turn looks into all mounts at once, so somebody gets many units at any time, also
# while its arrays are being copied
catching_up() {
    cgroup=$((CGROUPS / 2 + $1))
    while [ $cgroup -lt $CGROUPS ]; do
        look
        [ "$there" -ge $(((cgroup - CGROUPS / 2) * (MOUNTS - 100) / (CGROUPS / 2))) ] || { sleep 0.05; continue; }
        lab-load walk 0 "$there" "$root/top/mid/$cgroup" "/mnt/r/{}/none$cgroup" || exit 1
        cgroup=$((cgroup + WORKERS))
    done
}

# Cgroups that get units and go at once, all the while
churner() {
    while [ ! -e /run/race/done ]; do
        lab-load cgroups 0 8 "$root/churn/{}" && lab-load lookups 0 8 "$root/churn/{}" /mnt/r/0/c{} /mnt/r/1/c{} || exit 1
        echo 1M >"$root/top/memory.reclaim"
        lab-load rmdirs 0 8 "$root/churn/{}" || exit 1
    done 2>/run/race/churn.err
}

lab-load mounts 0 10 /mnt/r/{}
pids=
for worker in $(seq 0 $((WORKERS - 1))); do
    keeping_up "$worker" 2>"/run/race/worker$((2 * worker)).err" &
    pids="$pids $!"
    catching_up "$worker" 2>"/run/race/worker$((2 * worker + 1)).err" &
    pids="$pids $!"
done
churner &
churn=$!
begin=$(date +%s) mounted=10
while [ $mounted -lt "$MOUNTS" ]; do
    lab-load mounts $mounted 10 /mnt/r/{} || bail "mounts"
    mounted=$((mounted + 10))
    [ $((mounted % EVERY)) -ne 0 ] || lab-load images $((mounted / EVERY - 1)) 1 /mnt/x/{} /run/image || bail "ext4"
    echo $mounted >/run/race/mounted
done
touch /run/race/done
i=0
for pid in $pids; do
    check "worker $i got through" wait "$pid"
    sed 's/^/#   /' /run/race/worker$i.err
    i=$((i + 1))
done
check "the one that makes and removes cgroups got through" wait $churn
grep lab-load /run/race/churn.err | sed 's/^/#   /'
note "$MOUNTS mounts with $CGROUPS cgroups in $(($(date +%s) - begin)) s"

check_eq "dying of the churn" "$(wait_eq 60 0 dying)" 0
sleep 3
check "a census" shrinkwatchctl census --direct --json
cp /run/lab-check.out $out
check_range "room for ids" "$(host shrinker_nr_max)" "$MOUNTS" 100000
check "an estimate" shrinkwatchctl estimate --direct --json --memcgs
cp /run/lab-check.out /tmp/estimate.json

# Units that must be there by the lists that are there: no fewer were counted, none was lost. More are left of lists that are gone.
grep -o '{"serial".*' /tmp/estimate.json | awk '
    { match($0, /"units": *[0-9]+/); u = substr($0, RSTART, RLENGTH); sub(/.*: */, "", u)
      match($0, /"units_on_demand": *[0-9]+/); e = substr($0, RSTART, RLENGTH); sub(/.*: */, "", e)
      n++; units += u; lists += e; if (u < e) less++; if (u > e) more++ }
    END { print n + 0, units + 0, lists + 0, less + 0, more + 0 }' >/tmp/sums
read -r memcgs units lists less more </tmp/sums
note "$memcgs memcgs have $units units; by their lists they need $lists; $more have more"
check_range "memcgs compared" "$memcgs" $((CGROUPS + 4)) 1000
if [ "$LAB_BUILD" != plain ] && [ "$LAB_BUILD" != units63 ]; then
    check_eq "memcgs with fewer units than their lists need" "$less" 0
    check_range "units, against what lists need, in permille" $((units * 1000 / lists)) 1000 1020
fi

# Every list can still be emptied: of each cgroup, superblocks of ext4 with anything on it
left() {
    cat /sys/kernel/debug/shrinker/sb-ext4:*/count | awk -v ids="$(stat -c %i "$root"/top/mid/* | tr '\n' ' ')" '
        BEGIN { split(ids, list); for (i in list) ours[list[i]] = 1 } $1 in ours { n++ } END { print n + 0 }'
}
for cgroup in $(seq 0 $((CGROUPS - 1))); do # once more: reclaim went on meanwhile
    lab-load walk 0 $((MOUNTS / EVERY)) "$root/top/mid/$cgroup" "/mnt/x/{}/f$cgroup" || bail "names in ext4"
done
check_eq "pairs of a cgroup and an ext4 with names of it" "$(left)" $((CGROUPS * (MOUNTS / EVERY)))
begin=$(date +%s)
for try in 1 2 3 4 5 6; do
    echo 64M >"$root/top/memory.reclaim"
    [ "$(left)" = 0 ] && break
done 2>/dev/null
check_eq "pairs left after reclaim" "$(left)" 0
note "reclaim took $(($(date +%s) - begin)) s"

find "$root/top/mid" -mindepth 1 -type d -exec rmdir {} +
rmdir "$root/top/mid" "$root/top" "$root/churn"
dying_in_the_end 60
