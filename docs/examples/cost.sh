#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What the host pays in shrinker memory, and for which unit, with busctl alone.
#
#     cost.sh [UNIT...]

set -eu
name=org.shrinkwatch1 path=/org/shrinkwatch1 manager=org.shrinkwatch1.Manager

# property NAME: its value; "?" for what is not known
property() {
    busctl get-property "$name" "$path" "$manager" "$1" | sed 's/^[a-z]* //; s/^18446744073709551615$/?/'
}

# member KEY: a number of the dictionary on stdin
member() {
    sed -n "s/.*\"$1\" t \([0-9]*\).*/\1/p"
}

echo "host: $(property OverheadBytes) bytes, $(property OverheadDyingBytes) of it by $(property MemcgsDying) of $(property Memcgs) memory cgroups that are dying"
for unit; do
    subtree=$(busctl call "$name" "$path" "$manager" GetUnit s "$unit")
    echo "$unit: $(echo "$subtree" | member overhead_bytes) bytes, $(echo "$subtree" | member overhead_dying_bytes) of it by $(echo "$subtree" | member dying) that are dying"
done
