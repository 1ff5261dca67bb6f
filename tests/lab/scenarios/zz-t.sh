# lab: nodes=4
mkdir /sys/fs/cgroup/a /sys/fs/cgroup/b; echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/a/x
t 3 || SHRINKWATCH_DEBUG=1 t 3 2>&1 | tail -60
ok done
