# SPDX-License-Identifier: LGPL-2.1-or-later
# The kernel's own selftests of memory cgroups, five times; none fails that does not fail without patches.
# lab: hand=*
# lab: kernels=7.3-* nodes=2 memory=2048 timeout=3600 programs=test_kmem,test_memcontrol files=selftests-base.txt
# lab: allow="WARNING: .*at hrtimer_forward"
#
# (The message: the scheduler's deadline server, woken late on a host that has too much to do.)
#
# On 7.3-plain nothing is judged: what fails there is how the kernel is, or how slow the emulation is. What was measured there
# is in tests/lab/selftests-base.txt, and on any other kernel a test must not fail unless it failed there, too.

RUNS=5
root=/mnt/selftests
log=/run/selftests.log

# The tests want a directory on a file system that keeps dentries and caches pages (a tmpfs does neither), swap, and a name to connect
# to.
setup() {
    loop_ext4 $root 256 && zram_swap 512 && mkdir -p $root/proc $root/sys $root/dev $root/usr &&
        mount --bind /proc $root/proc && mount --rbind /sys $root/sys && mount --bind /dev $root/dev &&
        cp -a /bin /lib /lib64 /sbin /etc $root && mount --bind /usr $root/usr &&
        echo "127.0.0.1 localhost" >$root/etc/hosts && mkdir -p $root/work
}

# run_one PROGRAM: lines "ok N NAME", "not ok N NAME", "ok N NAME # SKIP" → "PROGRAM NAME passed|failed|skipped". A program that ends
# early has not run the rest of its plan, which counts as failed below: there are RUNS results of each test, or some are missing.
run_one() {
    chroot $root sh -c "cd /work && /usr/local/bin/$1" >/run/selftest.out 2>&1
    lab_status=$?
    cat /run/selftest.out
    sed -nE "s/^ok [0-9]+ (- )?([a-zA-Z0-9_]+) # SKIP.*/$1 \\2 skipped/p; t
             s/^ok [0-9]+ (- )?([a-zA-Z0-9_]+).*/$1 \\2 passed/p; t
             s/^not ok [0-9]+ (- )?([a-zA-Z0-9_]+).*/$1 \\2 failed/p" /run/selftest.out >>/run/results
    return $lab_status
}

# of_base NAME KEY: passed, failed or skipped on 7.3-plain
of_base() { awk -v name="$1" -v key="$2" '$1 == name { print $(key == "passed" ? 2 : key == "failed" ? 3 : 4) }' /lab/selftests-base.txt; }

check "ext4 to run in, swap, a name" setup
: >/run/results
run=0
while [ $run -lt $RUNS ]; do
    run=$((run + 1))
    for program in test_kmem test_memcontrol; do
        begin=$(date +%s)
        run_one $program >>$log
        note "run $run: $program ended with $? after $(($(date +%s) - begin)) s; failed:" \
            $(sed -nE 's/^not ok [0-9]+ (- )?([a-zA-Z0-9_]+).*/\2/p' /run/selftest.out)
    done
done
give selftests.log <$log

# Names in the order of the programs, and those that only the base knows: a test that is gone is a test that does not pass.
tests=$(awk '!seen[$2]++ { print $2 } ' /run/results; awk '!/^#/ && NF { print $1 }' /lab/selftests-base.txt)
for name in $(echo "$tests" | awk '!seen[$1]++'); do
    set -- $(awk -v name="$name" '$2 == name { n[$3]++ } END { print n["passed"] + 0, n["failed"] + 0, n["skipped"] + 0 }' /run/results)
    echo "$name $1 $2 $3" >>/run/rates
    failed=$((RUNS - $1 - $3)) base=$(of_base "$name" failed)
    rate="passed $1, failed $failed, skipped $3 of $RUNS"
    if [ $failed = 0 ]; then
        if [ "$3" = 0 ]; then ok "$name: $rate"; else skip "$name" "$rate"; fi
    elif [ "$LAB_BUILD" = plain ]; then
        skip "$name" "$rate: so it is without patches"
    elif [ "${base:-0}" -gt 0 ]; then
        skip "$name" "$rate; failed $base of $((base + $(of_base "$name" passed))) on 7.3-plain"
    else
        notok "$name: $rate; never failed on 7.3-plain"
    fi
done
note "name passed failed skipped"
sed 's/^/# /' /run/rates
give rates.txt </run/rates
check_range "tests that ran" "$(awk '{ print $2 }' /run/results | sort -u | wc -l)" 20 100
