# SPDX-License-Identifier: LGPL-2.1-or-later
# A second opinion without our code: drgn counts units, states and references of each memcg as shrinkwatchctl does.
# lab: hand=*
# lab: kernels="7.3-*" root=debian13 vmlinux=yes files="drgn/census.py drgn/compare.py"
# lab: nodes=2 possible=3 memory=2048 timeout=1200 programs=shrinkwatchctl

LIVE=53 MOUNTS=139 WRITEBACK=7 SWAP=5 SOCKETS=3
root=$LAB_MEMORY/opinion

# compare TEXT LEAST MOST: and that there are so many dying memcgs
compare() {
    check "$1: drgn and shrinkwatchctl agree, memcg by memcg" python3 -B /lab/compare.py --keep /tmp || {
        give "ours-$2.json" </tmp/ours.json
        give "drgn-$2.json" </tmp/drgn.json
        return
    }
    sed 's/^/#   /' /run/lab-check.out
    check_range "$1: dying memcgs by drgn" "$(python3 -c '
import json
print(json.load(open("/tmp/drgn.json"))["totals"]["dying"])')" "$2" "$3"
}

check "ext4 with cgroup writeback" loop_ext4 /mnt/wb
check "$WRITEBACK files to dirty" writeback_files /mnt/wb $WRITEBACK
check "zram swap" zram_swap 64
check "tmpfs" tmpfs_make /mnt/swap
writeback_hold
check "$LIVE cgroups while there are few shrinker ids" cgroups_make $LIVE "$root/few"
check "$MOUNTS mounts" mounts_make $MOUNTS /mnt/many
check "$LIVE cgroups while there are many" cgroups_make $LIVE "$root/many"
i=0
while [ $i -lt $LIVE ]; do  # units on demand for some
    cgroup_run "$root/many/$i" sh -c "for m in 1 2 3; do : >/mnt/many/\$(($i + m))/file; done"
    i=$((i + 5))
done

i=0
while [ $i -lt $WRITEBACK ]; do
    pin_writeback "$root/w$i" /mnt/wb/$i || notok "pin_writeback $i"
    i=$((i + 1))
done
i=0
while [ $i -lt $SWAP ]; do
    pin_swap "$root/parent$i/child" /mnt/swap/$i 256 && rmdir "$root/parent$i" || notok "pin_swap $i"
    i=$((i + 1))
done
i=0
while [ $i -lt $SOCKETS ]; do
    pin_socket "$root/s$i" $((4000 + i)) || notok "pin_socket $i"
    i=$((i + 1))
done
sleep 2

dying=$((WRITEBACK + 2 * SWAP + SOCKETS))
# The services of the boot may have left a few more.
compare "with the dying" $dying $((dying + 20))
give drgn.json </tmp/drgn.json

swapoff /dev/zram0
rm /mnt/swap/* /mnt/wb/[0-9]*
i=0
while [ $i -lt $SOCKETS ]; do
    unpin_socket $((4000 + i))
    i=$((i + 1))
done
wait 2>/dev/null
note "dying in the end, by cgroup.stat: $(wait_eq 30 0 dying)"
compare "without" 0 20
