#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# An OCI hook (poststart and poststop) that writes into the journal what a container costs the host in shrinker memory, and what remains of it.
# The runtime gives the container's state on stdin (opencontainers/runtime-spec, "State"); jq reads it. For podman, as
# /usr/share/containers/oci/hooks.d/shrinkwatch.json:
#
#     { "version": "1.0.0", "hook": { "path": "/usr/local/libexec/shrinkwatch-oci-hook" }, "when": { "always": true }, "stages": ["poststart", "poststop"] }
#
# A hook must not keep a container from starting: whatever goes wrong here is told, and no failure.

state=$(cat)
id=$(printf '%s' "$state" | jq -r .id)
pid=$(printf '%s' "$state" | jq -r '.pid // 0')
manager="org.shrinkwatch1 /org/shrinkwatch1 org.shrinkwatch1.Manager"

say() { logger -t shrinkwatch-oci-hook -- "$1"; }
# sum KEY: of all memory cgroups in the dictionaries on stdin
sum() { grep -o "\"$1\" t [0-9]*" | awk '{ n += $3 } END { print n + 0 }'; }

if [ "$pid" -gt 0 ] 2>/dev/null; then
    # shellcheck disable=SC2086 # three words
    found=$(busctl call $manager GetByPid u "$pid" 2>&1) || { say "container $id: $found"; exit 0; }
    say "container $id takes $(printf '%s' "$found" | sum subtree_bytes) bytes of shrinker memory, which it is not charged for"
else
    # shellcheck disable=SC2086
    found=$(busctl call $manager List 'a{sv}sut' 2 state s dying container s "$id" '' 0 0 2>&1) || { say "container $id: $found"; exit 0; }
    say "container $id is gone, $(printf '%s' "$found" | sum overhead_bytes) bytes of shrinker memory are still kept for it"
fi
exit 0
