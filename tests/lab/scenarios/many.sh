# SPDX-License-Identifier: LGPL-2.1-or-later
# 200,000 dying memcgs in one guest, each held by one socket of one process: all are in the census, once, with one reference.
# lab: hand=* kernels=7.3-* nodes=2 memory=14336 timeout=5400 programs=shrinkwatchctl,lab-load,census-compare,kcore-census

COUNT=${LAB_MANY:-200000}
root=$LAB_MEMORY/many
out=/tmp/census.json

total() { grep -o "\"$1\": *[0-9]*" $out | head -n 1 | sed 's/.*: *//'; }

echo 1048576 >/proc/sys/fs/nr_open
cgroup_make "$root/x" && rmdir "$root/x"
check "a census before" shrinkwatchctl census --direct --json
cp /run/lab-check.out $out
memcgs=$(total memcgs)
begin=$(date +%s)
lab-load sockets 0 "$COUNT" "$root/{}" /run/ready &
pid=$!
wait_for 3000 [ -e /run/ready ] || bail "sockets"
note "$COUNT cgroups made, socketed and removed in $(($(date +%s) - begin)) s"
check_eq "dying, by the kernel" "$(wait_eq 60 "$COUNT" dying)" "$COUNT"
free -m | sed 's/^/# /'

begin=$(date +%s)
check "a census" eval "shrinkwatchctl census --direct --json >$out"
note "the whole command took $(($(date +%s) - begin)) s; the census $(total duration_usec) us, its longest slice $(total longest_slice_usec) us; JSON $(wc -c <$out) bytes"
check_eq "memcgs" "$(total memcgs)" $((memcgs + COUNT))
check_eq "dying" "$(total dying)" "$COUNT"
check "complete" grep -q '"complete": *true' $out
check_eq "different serials" "$(grep -o '{"serial": *[0-9]*' $out | sort -u | wc -l)" $((memcgs + COUNT))
check_eq "dying ones with exactly one reference" "$(grep '"state": *"dying"' $out | grep -c '"refs": *1,')" "$COUNT"
check "equal to kcore-census, memcg by memcg" census-compare
sed 's/^/#   /' /run/lab-check.out

# The kernel releases them one after the other, and each looks for its place among all siblings whose statistics are not flushed
# (css_rstat_updated_list() walks a singly linked list), once for the memory controller's and once for the cgroup's own. To read
# memory.stat and cpu.stat of their parent flushes them all, and ends that.
begin=$(date +%s) before=
kill $pid
wait $pid 2>/dev/null
note "the process with the sockets took $(($(date +%s) - begin)) s to end"
while left=$(dying); [ "$left" != 0 ] && [ "$left" != "$before" ]; do
    note "$left are dying after $(($(date +%s) - begin)) s"
    before=$left
    cat "$root/memory.stat" "$root/cpu.stat" >/dev/null
    sleep 20
done
check_eq "dying in the end" "$left" 0
check "a census after" shrinkwatchctl census --direct --json
cp /run/lab-check.out $out
check_eq "memcgs in the end" "$(total memcgs)" "$memcgs"
