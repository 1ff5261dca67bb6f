# SPDX-License-Identifier: LGPL-2.1-or-later
# One node: counts, dying memcgs, rights and rings.
# lab: hand="7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=1 memory=1024 timeout=900 programs=host-counts,host-dying,host-rights,host-rings,census-compare,kcore-census

export SHRINKWATCH_TEST_SLOW=1
for test in host-counts host-dying host-rights host-rings; do
    $test || notok "$test ends well: exit status $?"
done
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
