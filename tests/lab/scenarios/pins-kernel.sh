# SPDX-License-Identifier: LGPL-2.1-or-later
# The helpers make dying cgroups, each kind by its own pin, and the kernel counts them as we do.
# lab: hand="6.12 7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=2 timeout=240

WRITEBACK=7 SWAP=5 SOCKET=3 FREE=11
root=$LAB_MEMORY/pins

check "ext4 with cgroup writeback" loop_ext4 /mnt/wb
check "$WRITEBACK files to dirty" writeback_files /mnt/wb $WRITEBACK
check "zram swap" zram_swap 128
check "tmpfs" tmpfs_make /mnt/swap
writeback_hold
cgroup_make "$root"
check_eq "dying before anything is pinned" "$(wait_eq 10 0 dying)" 0

# each COUNT FUNCTION: the function with 0, 1, ...
each() {
    i=0
    while [ $i -lt "$1" ]; do
        "$2" $i || return 1
        i=$((i + 1))
    done
}
free()         { cgroup_make "$root/f$1" && cgroup_run "$root/f$1" true && rmdir "$root/f$1"; }
writeback()    { pin_writeback "$root/w$1" "/mnt/wb/$1"; }
no_writeback() { unpin_writeback "/mnt/wb/$1"; }
swap()         { pin_swap "$root/p$1" "/mnt/swap/$1"; }
no_swap()      { unpin_swap "/mnt/swap/$1"; }
socket()       { pin_socket "$root/s$1" $((5000 + $1)); }
no_socket()    { unpin_socket $((5000 + $1)); }

check "$FREE cgroups without a pin come and go" each $FREE free
check_eq "dying of them after a while" "$(wait_eq 60 0 dying)" 0

check "$WRITEBACK cgroups with dirty data" each $WRITEBACK writeback
sleep 2
check_eq "dying, pinned by writeback" "$(dying)" $WRITEBACK

check "$SWAP cgroups with swapped-out pages" each $SWAP swap
check_eq "swap in use, in pages" "$(awk 'NR > 1 { n += $4 } END { print n / 4 }' /proc/swaps)" $((SWAP * 256))
sleep 2
check_eq "dying, and by swap" "$(dying)" $((WRITEBACK + SWAP))

check "$SOCKET cgroups with a socket" each $SOCKET socket
sleep 2
check_eq "dying, and by sockets" "$(dying)" $((WRITEBACK + SWAP + SOCKET))

if [ -n "$(cgroup_stat nr_dying_subsys_memory)" ]; then
    check_eq "nr_dying_subsys_memory" "$(cgroup_stat nr_dying_subsys_memory)" $((WRITEBACK + SWAP + SOCKET))
else
    skip "nr_dying_subsys_memory" "this kernel does not count per controller"
fi

each $SOCKET no_socket
check_eq "dying after the sockets are closed" "$(wait_eq 60 $((WRITEBACK + SWAP)) dying)" $((WRITEBACK + SWAP))
each $SWAP no_swap
note "dying after the swapped files are removed: $(wait_eq 5 $WRITEBACK dying)"
check "swap is switched off" swapoff /dev/zram0
check_eq "dying after that" "$(wait_eq 60 $WRITEBACK dying)" $WRITEBACK
each $WRITEBACK no_writeback
dying_in_the_end 60
check "the directory above them can be removed" rmdir "$root"
check_eq "dying at the end" "$(wait_eq 60 0 dying)" 0
