# SPDX-License-Identifier: LGPL-2.1-or-later
# The guest is the machine that was ordered.
# lab: nodes=4 possible=6

note "$(uname -srvm)"
case $(uname -r) in
"$LAB_KERNEL".*) ok "kernel of the series: $(uname -r)" ;;
*) notok "kernel $(uname -r) is not of the series $LAB_KERNEL" ;;
esac
check_eq "online nodes" "$(nodes online)" "$LAB_NODES"
check_eq "possible nodes" "$(nodes possible)" "$LAB_POSSIBLE"
check_eq "nodes with memory" "$(nodes has_memory)" "$LAB_NODES"
check_eq "CPUs" "$(nproc)" "$LAB_CPUS"
check_range "memory in MiB, what the kernel keeps for itself left out" "$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)" $((LAB_RAM * 7 / 10 - 32)) "$LAB_RAM"
check_range "BTF of the kernel in bytes" "$(wc -c </sys/kernel/btf/vmlinux)" 1000000 100000000
check "memory and io are on v2" grep -qE '\bio\b.*\bmemory\b' /sys/fs/cgroup/cgroup.controllers
check "loopback answers" ping -c 1 -W 5 127.0.0.1

for module in loop zram brd xfs overlay veth; do
    check "module $module loads, or is built in" modprobe $module
done
check "ext4 on a loop device" loop_ext4 /mnt/ext4
check "zram swap" zram_swap 32
check_eq "a file comes back from ext4" "$(echo 4711 >/mnt/ext4/file && cat /mnt/ext4/file)" 4711
