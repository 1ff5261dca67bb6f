# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Helpers of lab scenarios, sourced by guest/init before the scenario. Shell: busybox ash.
# Nothing here exits on failure; what can fail returns non-zero and says why.

. /lab/config

case $LAB_HIERARCHY in
v2)     LAB_MEMORY=/sys/fs/cgroup LAB_UNIFIED=/sys/fs/cgroup ;;
v1)     LAB_MEMORY=/sys/fs/cgroup/memory LAB_UNIFIED= ;;
hybrid) LAB_MEMORY=/sys/fs/cgroup/memory LAB_UNIFIED=/sys/fs/cgroup/unified ;;
esac
# LAB_MEMORY   root of the hierarchy with the memory controller
# LAB_UNIFIED  root of the v2 hierarchy, empty if there is none
# LAB_KERNEL   6.1, 6.12, 7.3;  LAB_BUILD  of our own 7.3: plain, units63, ondemand, ...; empty for Debian's
# LAB_NODES, LAB_POSSIBLE  online and possible NUMA nodes as ordered;  LAB_CPUS, LAB_RAM (MiB)

# Debian's busybox takes its own applets before anything in PATH. A program carried in full wins all the same.
for lab_path in /usr/local/bin/*; do
    lab_name=${lab_path##*/}
    case $lab_name in
    [0-9]* | *[!a-zA-Z0-9_]*) continue ;;  # no names of functions
    esac
    eval "$lab_name() { $lab_path \"\$@\"; }"
done

#
# Checks. Figures belong into the text: a log is read long after its machine is gone.
#

lab_count=0

# Each on a line of its own, whatever was printed before without an end of line.
ok()    { lab_count=$((lab_count + 1)); printf '\nok %s - %s\n' $lab_count "$*"; }
notok() { lab_count=$((lab_count + 1)); printf '\nnot ok %s - %s\n' $lab_count "$*"; return 1; }
note()  { echo "# $*"; }
bail()  { printf '\nBail out! %s\n' "$*"; exit 1; }

# skip TEXT REASON: one check that cannot be made here
skip()  { lab_count=$((lab_count + 1)); printf '\nok %s - %s # SKIP %s\n' $lab_count "$1" "$2"; }

# skip_all REASON: nothing of this scenario can be done here
skip_all() { skip "all checks" "$1"; exit 0; }

# check TEXT COMMAND...: passes if the command does; its output is shown if not
check() {
    lab_text=$1
    shift
    if "$@" >/run/lab-check.out 2>&1; then
        ok "$lab_text"
    else
        notok "$lab_text (exit status $?: $*)"
        sed 's/^/#   /' /run/lab-check.out
        return 1
    fi
}

# check_eq TEXT GOT WANTED: nothing equals nothing only where WANTED is none, so that two figures that are missing do not pass
check_eq() {
    if [ "$3" = none ]; then set -- "$1" "${2:-none}" none; fi
    if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1: $2"; else notok "$1: $2, wanted $3"; fi
}

# check_range TEXT GOT LEAST MOST: integers, both ends included
check_range() {
    if [ "$2" -ge "$3" ] && [ "$2" -le "$4" ]; then ok "$1: $2 (of $3 to $4)"; else notok "$1: $2, wanted $3 to $4"; fi
}

# wait_for SECONDS COMMAND...: 0 as soon as the command succeeds, 1 after the time
wait_for() {
    lab_until=$(($(date +%s) + $1))
    shift
    while ! "$@"; do
        [ "$(date +%s)" -lt $lab_until ] || return 1
        sleep 0.1
    done
}

# wait_eq SECONDS WANTED COMMAND...: wait until the command prints WANTED; prints the last it printed
wait_eq() {
    lab_until=$(($(date +%s) + $1)) lab_wanted=$2
    shift 2
    while lab_got=$("$@"); [ "$lab_got" != "$lab_wanted" ] && [ "$(date +%s)" -lt $lab_until ]; do
        sleep 0.1
    done
    echo "$lab_got"
}

# host_tests NAME...: programs of tests/host, one after the other; they do less on an emulated machine
host_tests() {
    export SHRINKWATCH_TEST_SLOW=1
    for lab_test; do
        lab_begin=$(date +%s)
        $lab_test || notok "$lab_test ends well: exit status $?"
        note "$lab_test took $(($(date +%s) - lab_begin)) s"
    done
}

# have PROGRAM: carried, or a command of busybox
have() { type "$1" >/dev/null 2>&1; }

# give NAME <FILE: hand a file to the host, which puts it into given/ beside the guest's logs (kept with --keep)
give() {
    echo "lab-file $1"
    gzip -c | base64 | sed 's/^/lab-data /'
    echo "lab-done $1"
}

#
# What the kernel says
#

# The size of a list like 0-3,8
list_count() {
    echo "$1" | tr ',' '\n' | awk -F- 'NF { n += (NF == 2 ? $2 - $1 : 0) + 1 } END { print n + 0 }'
}

nodes() { list_count "$(cat "/sys/devices/system/node/$1")"; }  # possible, online, has_memory, ...

# slab_objects SIZE [FILE]: active objects over all caches whose objects take SIZE bytes, now or in a copy of slabinfo.
# Slabs that are a CPU's own count as full: call slab_flush SIZE before, and compare gains, not totals.
slab_objects() { awk -v size="$1" 'NR > 2 && $4 == size { n += $2 } END { print n + 0 }' "${2:-/proc/slabinfo}"; }

# slab_flush SIZE...: give free slabs back. Caches that share a name's slabs are symbolic links: once is enough.
slab_flush() {
    for lab_cache in /sys/kernel/slab/*; do
        [ -L "$lab_cache" ] && continue
        read -r lab_size <"$lab_cache/slab_size"
        case " $* " in
        *" $lab_size "*) echo 1 >"$lab_cache/shrink" ;;
        esac
    done
}

# cgroup_stat KEY [CGROUP]: a value of cgroup.stat, of the v2 root unless told
cgroup_stat() { awk -v key="$1" '$1 == key { print $2 }' "${2:-$LAB_UNIFIED}/cgroup.stat"; }

dying() { cgroup_stat nr_dying_descendants "$@"; }

# dying_in_the_end SECONDS: a check that all dying memcgs go. The kernel looks for clean bdi_writebacks of dying cgroups when another
# one goes offline, so one comes and goes meanwhile. Those that stay are shown. (A cgroup can stay without its memcg: another
# controller's css holds it.)
dying_in_the_end() {
    lab_until=$(($(date +%s) + $1))
    while lab_left=$(cgroup_stat nr_dying_subsys_memory); [ "${lab_left:=$(dying)}" != 0 ] && [ "$(date +%s)" -lt $lab_until ]; do
        mkdir "$LAB_MEMORY/lab-passing" && rmdir "$LAB_MEMORY/lab-passing"
        sleep 0.5
    done
    check_eq "dying in the end" "$lab_left" 0 && return
    shrinkwatchctl census --direct --json | grep '"state": *"dying"' | sed 's/"nodes".*"unit_bytes"/"unit_bytes"/; s/^/#   /' | head -n 10
    return 1
}

#
# Cgroups. Paths are full ones: $LAB_MEMORY/a/b
#

# cgroup_make CGROUP...: with its parents; on v2 memory and io are switched on down to it
cgroup_make() {
    for lab_cgroup; do
        mkdir -p "$lab_cgroup" || return 1
        [ "$LAB_MEMORY" = "$LAB_UNIFIED" ] || continue
        lab_at=$LAB_MEMORY
        lab_rest=${lab_cgroup#"$LAB_MEMORY"/}/
        while [ -n "$lab_rest" ]; do
            grep -qw memory "$lab_at/cgroup.subtree_control" && grep -qw io "$lab_at/cgroup.subtree_control" ||
                echo "+memory +io" >"$lab_at/cgroup.subtree_control" || return 1
            lab_at=$lab_at/${lab_rest%%/*}
            lab_rest=${lab_rest#*/}
        done
    done
}

# cgroups_make COUNT CGROUP: that many children 0, 1, ... with memory switched on, in the fastest way
cgroups_make() {
    cgroup_make "$2" && (cd "$2" && seq 0 $(($1 - 1)) | xargs mkdir) || return 1
    [ "$LAB_MEMORY" != "$LAB_UNIFIED" ] || echo +memory >"$2/cgroup.subtree_control"
}

# cgroup_run CGROUP COMMAND...: in a process of its own that lives and dies in the cgroup
cgroup_run() {
    lab_cgroup=$1
    shift
    # The file is opened before the move: what opening it allocates is not to be charged to the cgroup.
    sh -c 'exec 9>"$0" && echo 0 >&9 && exec 9>&- && exec "$@"' "$lab_cgroup/cgroup.procs" "$@"
}

# cgroup_push_out CGROUP: push what the cgroup holds out to swap as far as the kernel will
cgroup_push_out() {
    for lab_try in 1 2 3 4 5; do
        if [ -e "$1/memory.reclaim" ]; then
            echo 1G >"$1/memory.reclaim"  # EAGAIN: as much as there was
        else
            echo 0 >"$1/memory.force_empty"
        fi 2>/dev/null
    done
    true
}

#
# File systems and swap
#

# tmpfs_make DIRECTORY [OPTIONS]
tmpfs_make() { mkdir -p "$1" && mount -t tmpfs -o "${2:-size=64m}" tmpfs "$1"; }

# mounts_make COUNT DIRECTORY: that many tmpfs superblocks, each registering shrinkers
mounts_make() {
    mkdir -p "$2" && (cd "$2" && seq 0 $(($1 - 1)) | xargs mkdir) || return 1
    lab_mount=0
    while [ $lab_mount -lt "$1" ]; do
        mount -t tmpfs -o size=64k tmpfs "$2/$lab_mount" || return 1
        lab_mount=$((lab_mount + 1))
    done
}

# loop_ext4 DIRECTORY [MEGABYTES]: ext4 on a loop device on a file in /run
loop_ext4() {
    lab_image=/run/$(echo "$1" | tr / _).img
    modprobe loop && truncate -s "${2:-16}M" "$lab_image" && mkfs.ext4 -q -F "$lab_image" && mkdir -p "$1" &&
        mount -t ext4 -o loop "$lab_image" "$1"
}

# loop_device DIRECTORY: MAJOR:MINOR of the file system mounted there
loop_device() { awk -v at="$1" '$5 == at { print $3 }' /proc/self/mountinfo; }

# writeback_files DIRECTORY COUNT: files 0, 1, ... on a fresh loop_ext4 for cgroups to dirty. All that they need besides
# their five pages of data is allocated, on disk, and read again by the root cgroup: else the first cgroup to write also
# dirties and owns pages of the block device (bitmaps, inode tables), and stays pinned when its file is long gone.
writeback_files() {
    lab_image=/run/$(echo "$1" | tr / _).img
    lab_file=0
    while [ $lab_file -lt "$2" ]; do
        dd if=/dev/zero of="$1/$lab_file" bs=4096 count=5 2>/dev/null || return 1
        lab_file=$((lab_file + 1))
    done
    # Evicts the inodes, too: those already belong to the root's bdi_writeback. Opening any file makes ext4 note the
    # mount point in its superblock.
    umount "$1" && mount -t ext4 -o loop,noatime "$lab_image" "$1" && stat "$1"/* >/dev/null &&
        echo >"$1/opened" && sync
}

# zram_swap [MEGABYTES]
zram_swap() {
    modprobe zram && echo "${1:-64}M" >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
}

# Dirty data stays dirty until somebody asks for it to be written. (Freezing the file system does not do: it writes
# everything first.) The interval is long and not 0: with 0 the flusher of a new bdi_writeback runs at its first dirty page, finds
# it above its share of the limits, which is nothing yet, and writes (6.12: 31 of 60 were clean a moment later and let go).
writeback_hold() {
    echo 1000000 >/proc/sys/vm/dirty_writeback_centisecs
    echo 1000000 >/proc/sys/vm/dirty_expire_centisecs
    echo 90 >/proc/sys/vm/dirty_ratio
    echo 80 >/proc/sys/vm/dirty_background_ratio
}

#
# Dying memory cgroups. Each pin_* makes CGROUP, lets something refer to it, removes the directory, and names what to
# undo. The cgroup is gone only some time after the unpin_*: free work is queued behind RCU; use wait_eq.
#

# write_pages CGROUP FILE: five pages of one of the writeback_files, dirtied by the cgroup
write_pages() { cgroup_run "$1" dd if=/dev/zero of="$2" bs=4096 count=5 conv=notrunc 2>/dev/null; }

# pin_writeback CGROUP FILE: a dirty inode with cgroup writeback. Its bdi_writeback holds the css. Needs memory and io on
# v2, writeback_hold, and one of the writeback_files. Do not sync.
pin_writeback() { cgroup_make "$1" && write_pages "$1" "$2" && rmdir "$1"; }

unpin_writeback() { rm "$1"; }  # evicting the inode lets go of its bdi_writeback

# pin_swap CGROUP FILE [PAGES]: swapped-out pages of a new file in a tmpfs. All entries together hold one reference.
pin_swap() {
    cgroup_make "$1" &&
        cgroup_run "$1" dd if=/dev/zero of="$2" bs=4096 count="${3:-256}" 2>/dev/null &&
        cgroup_push_out "$1" &&
        rmdir "$1"
}

# unpin_swap FILE: up to 6.13 each CPU keeps up to 64 freed entries to itself, and they still count; swapoff frees all
unpin_swap() { rm "$1"; }

# pin_socket CGROUP PORT: a listening TCP socket of a process that has since moved to the root. On v1 only with
# kmem.tcp accounting.
pin_socket() {
    cgroup_make "$1" || return 1
    cgroup_run "$1" nc -l -p "$2" &
    lab_hex=$(printf ':%04X 0*:0000 0A' "$2")
    wait_for 10 grep -q "$lab_hex" /proc/net/tcp /proc/net/tcp6 || return 1
    cat "$1/cgroup.procs" >"/run/lab-socket-$2"
    while read -r lab_pid; do
        echo "$lab_pid" >"$LAB_MEMORY/cgroup.procs" || return 1
    done <"/run/lab-socket-$2"
    rmdir "$1"
}

unpin_socket() { xargs kill <"/run/lab-socket-$1"; }  # PORT
