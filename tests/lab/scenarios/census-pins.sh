# SPDX-License-Identifier: LGPL-2.1-or-later
# What pins a dying memcg is told: writeback that waits, writeback of a frozen file system, swap, a child.
# lab: hand="7.3-plain 7.3-units63"
# lab: nodes=2 memory=1536 timeout=900 programs=shrinkwatchctl,census-compare,kcore-census

WRITEBACK=7 SWAP=3 ENTRIES=256
root=$LAB_MEMORY/pins
out=/tmp/census.json

census() { shrinkwatchctl census --direct --json >$out; }
memcg()  { grep "\"path\": *\"/pins/$1\"" $out; }                                     # NAME: its line
field()  { grep -o "\"$1\": *[^,}]*" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'; }     # KEY <LINE
pin()    { memcg "$1" | grep -o "{\"cause\": *\"$2\"[^}]*}"; }                        # NAME CAUSE: its pin

# The references of all its pins, the unexplained ones included
pin_refs() { memcg "$1" | sed 's/.*"pins": *\[//' | grep -o '"refs": *[0-9]*' | awk -F: '{ n += $2 } END { print n + 0 }'; }

# settled_refs NAME REFS: references that pass are gone
settled_refs() {
    tries=0
    while census && [ "$(memcg "$1" | field refs)" != "$2" ] && [ $tries -lt 40 ]; do
        tries=$((tries + 1))
        sleep 0.25
    done
}

# check_memcg NAME: dying, offline, its references add up
check_memcg() {
    check_eq "$1 is" "$(memcg "$1" | field state)" dying
    check_eq "$1 is offline" "$(memcg "$1" | field offline)" true
    check_eq "$1: its pins add up to its references" "$(pin_refs "$1")" "$(memcg "$1" | field refs)"
}

# Before folios were given to the parent, each of five holds a reference as well.
case $LAB_KERNEL in
7.3) folios=0 ;;
*) folios=5 ;;
esac

# check_writeback NAME DEVICE: one bdi_writeback with five pages there
check_writeback() {
    settled_refs "$1" $((1 + folios))
    note "$(memcg "$1" | sed 's/"nodes".*"unit_bytes"/"unit_bytes"/')"
    check_memcg "$1"
    check_eq "$1: references" "$(memcg "$1" | field refs)" $((1 + folios))
    check_eq "$1: references by writeback" "$(pin "$1" writeback | field refs)" 1
    check_eq "$1: bytes of five pages" "$(pin "$1" writeback | field bytes)" 20480
    check_eq "$1: device" "$(pin "$1" writeback | field device)" "$2"
    check_eq "$1: exact" "$(pin "$1" writeback | field exact)" true
    check_eq "$1: references left unexplained" "$(pin "$1" unexplained | field refs)" "$([ $folios = 0 ] && echo none || echo $folios)"
}

check "ext4 with cgroup writeback" loop_ext4 /mnt/wb
check "$WRITEBACK files to dirty" writeback_files /mnt/wb $WRITEBACK
check "ext4 to freeze" loop_ext4 /mnt/outer 32
check "zram swap" zram_swap 64
check "tmpfs" tmpfs_make /mnt/swap
writeback_hold

inner() {
    dd if=/dev/zero of=/mnt/outer/image bs=1M count=8 && mkfs.ext4 -q -F /mnt/outer/image && mkdir /mnt/inner &&
        mount -t ext4 -o loop /mnt/outer/image /mnt/inner && dd if=/dev/zero of=/mnt/inner/0 bs=4096 count=5 &&
        umount /mnt/inner && mount -t ext4 -o loop,noatime /mnt/outer/image /mnt/inner && stat /mnt/inner/* &&
        echo >/mnt/inner/opened && sync
}
check "ext4 in a file of it" inner
sleep 3  # flushers that the sync has woken are done

# Dirty data that waits.
i=0
while [ $i -lt $WRITEBACK ]; do
    pin_writeback "$root/w$i" /mnt/wb/$i || notok "pin_writeback $i"
    i=$((i + 1))
done
sleep 1
i=0
while [ $i -lt $WRITEBACK ]; do
    check_writeback w$i "$(loop_device /mnt/wb)"
    i=$((i + 3))
done
check_eq "dying memcgs pinned by writeback" "$(grep -c '"cause": *"writeback"' $out)" $WRITEBACK

# A file system in a file of another one: once that is frozen, what is dirty in the first cannot be written.
# (Freezing the first itself would write everything, and a clean bdi_writeback lets go of its memcg.)
pin_frozen() { # NAME FILE
    cgroup_make "$root/$1" && write_pages "$root/$1" "$2" && fsfreeze --freeze /mnt/outer && rmdir "$root/$1"
}
check "a cgroup that wrote to a device that is frozen" pin_frozen frozen /mnt/inner/0
sleep 1
check_writeback frozen "$(loop_device /mnt/inner)"

# Its data on the way to that device, which does not take it: the kernel takes such a bdi_writeback off all lists before it
# waits for it, so its reference may be told as unexplained; but told it is.
sh -c "exec sync -f /mnt/inner/0" &
sleep 2
census
check_memcg frozen
note "writing: $(memcg frozen | sed 's/"nodes".*"unit_bytes"/"unit_bytes"/')"

# Swapped-out pages.
i=0
while [ $i -lt $SWAP ]; do
    pin_swap "$root/s$i" /mnt/swap/$i $ENTRIES || notok "pin_swap $i"
    i=$((i + 1))
done
sleep 1
settled_refs s0 1
i=0
while [ $i -lt $SWAP ]; do
    check_memcg s$i
    check_eq "s$i: entries" "$(pin s$i swap | field entries)" $ENTRIES
    check_eq "s$i: references by swap" "$(pin s$i swap | field refs)" 1
    check_eq "s$i: bytes" "$(pin s$i swap | field bytes)" $((ENTRIES * 4096))
    i=$((i + 2))
done
note "$(memcg s0 | sed 's/"nodes".*"unit_bytes"/"unit_bytes"/')"
check_eq "dying memcgs pinned by swap" "$(grep -c '"cause": *"swap"' $out)" $SWAP

# A parent that its child keeps.
check "a pinned child" pin_swap "$root/parent/child" /mnt/swap/child $ENTRIES
rmdir "$root/parent"
sleep 1
settled_refs parent 1
check_memcg parent
check_memcg parent/child
check_eq "parent: references by its child" "$(pin parent child | field refs)" 1
note "$(memcg parent | sed 's/"nodes".*"unit_bytes"/"unit_bytes"/')"

if [ -n "$(cgroup_stat nr_dying_subsys_memory)" ]; then
    check_eq "dying, by nr_dying_subsys_memory" "$(grep -c '"state": *"dying"' $out)" "$(cgroup_stat nr_dying_subsys_memory)"
else
    check_eq "dying, by nr_dying_descendants" "$(grep -c '"state": *"dying"' $out)" "$(dying)"
fi
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
give census.json <$out

# And all of it goes.
fsfreeze --unfreeze /mnt/outer
wait
swapoff /dev/zram0
rm /mnt/swap/* /mnt/wb/[0-9]* /mnt/inner/[0-9]
check_eq "dying in the end" "$(wait_eq 30 0 dying)" 0
census
check_eq "dying in the last census" "$(grep -c '"state": *"dying"' $out)" 0
