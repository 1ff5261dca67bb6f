# SPDX-License-Identifier: LGPL-2.1-or-later
# One node: counts, dying memcgs, rights and rings.
# lab: hand="6.12 7.3 7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=1 memory=1024 timeout=900 programs=host-counts,host-dying,host-rights,host-rings,census-compare,kcore-census

host_tests host-counts host-dying host-rights host-rings
check "equal to kcore-census, memcg by memcg" census-compare && sed 's/^/#   /' /run/lab-check.out
