# SPDX-License-Identifier: LGPL-2.1-or-later
# Workloads whose estimate on the plain kernel is compared with what the patched kernels take (tests/lab/run does, when both ran).
# lab: kernels=7.3-* nodes=4 memory=2048 timeout=600 programs=shrinkwatchctl,lab-load

# Every class of memcg is a directory: empty ones; some with names on one, on two file systems; some of that reclaimed; two levels,
# where the upper ones have units for the lower ones; dying ones that had names, and dying ones that had a socket only,
# whose inode brings a list, but sets no bit.
EACH=23
root=$LAB_MEMORY/estimate

record() {
    check "$1: a census" shrinkwatchctl census --direct --json
    give "census-$1.json" </run/lab-check.out
    check "$1: an estimate" shrinkwatchctl estimate --direct --json --memcgs
    give "estimate-$1.json" </run/lab-check.out
}

mkdir -p /mnt/fill /mnt/e /run/tree
for i in $(seq 0 9); do echo "$i" >/run/tree/f"$i"; done
check "an image to copy" mke2fs -q -F -t ext4 -O ^has_journal,^resize_inode -b 1024 -N 32 -d /run/tree /run/image 256k
lab-load mounts 0 200 /mnt/fill/{} || bail "mounts"
lab-load images 0 3 /mnt/e/{} /run/image || bail "ext4"
lab-load mounts 200 300 /mnt/fill/{} || bail "mounts"
lab-load images 3 3 /mnt/e/{} /run/image || bail "ext4"

for class in empty one two reclaimed deep dying-lists dying-bare; do
    cgroup_make "$root/$class/x" && rmdir "$root/$class/x"
    lab-load cgroups 0 $EACH "$root/$class/{}" || bail "cgroups"
done
i=0
while [ $i -lt $EACH ]; do
    cgroup_make "$root/deep/$i/below"
    i=$((i + 1))
done
record empty

# Names that are there and are charged to who asks first (each its own) and names that are not
lab-load lookups 0 $EACH "$root/one/{}" /mnt/e/0/n{} /mnt/fill/3/n{} || bail "lookups"
lab-load lookups 0 $EACH "$root/two/{}" /mnt/e/1/n{} /mnt/e/4/n{} /mnt/fill/450/n{} || bail "lookups"
lab-load lookups 0 $EACH "$root/reclaimed/{}" /mnt/e/2/n{} /mnt/e/5/n{} || bail "lookups"
lab-load lookups 0 $EACH "$root/deep/{}/below" /mnt/e/0/d{} /mnt/e/5/d{} || bail "lookups"
lab-load lookups 0 $EACH "$root/dying-lists/{}" /mnt/e/1/x{} /mnt/e/3/x{} || bail "lookups"
record files

for i in $(seq 0 2 $((EACH - 1))); do echo 64M >"$root/reclaimed/$i/memory.reclaim"; done 2>/dev/null
record reclaimed

# Sockets hold them
lab-load hold 0 $EACH "$root/dying-bare/{}" /run/bare &
lab-load hold 0 $EACH "$root/dying-lists/{}" /run/lists &
wait_for 30 [ -e /run/bare ] && wait_for 30 [ -e /run/lists ] || bail "sockets"
lab-load rmdirs 0 $EACH "$root/dying-bare/{}" && lab-load rmdirs 0 $EACH "$root/dying-lists/{}" || bail "rmdir"
check_eq "dying" "$(wait_eq 20 $((2 * EACH)) dying)" $((2 * EACH))
sleep 1
record dying
