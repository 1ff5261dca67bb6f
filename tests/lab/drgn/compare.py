#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""shrinkwatchctl's census against drgn's, memcg by memcg.

The two look at different moments. So shrinkwatchctl looks twice, before drgn and after it: if both are equal in all that is
compared, drgn must be too, and one difference is a failure. If they are not, the machine was changing, and all three look
again, a few times. Exit status: 0 equal, 1 different, 2 never at rest.
"""

import argparse
import json
import subprocess
import sys
import time

import census

TRIES = 12
SHOWN = 20
HOST = ("possible_nodes", "shrinker_nr_max", "ids_per_unit", "unit_struct_bytes")
TOTALS = ("memcgs", "live", "dying", "creating", "units")
MEMCG = ("parent_serial", "id", "path", "state", "offline", "level", "refs", "units", "slots")
NODE = ("node", "units", "slots")


def facts(result):
    """What is compared → {name of a fact: value}; a memcg's name starts with its serial."""
    found = {key: result["host"][key] for key in HOST}
    found.update((key, result["totals"][key]) for key in TOTALS)
    for memcg in result["memcgs"]:
        serial = f"serial {memcg['serial']}"
        found.update((f"{serial}: {key}", memcg[key]) for key in MEMCG)
        for node in memcg["nodes"]:
            found.update((f"{serial}: node {node['node']}: {key}", node[key]) for key in NODE)
    return found


def differences(ours, theirs):
    nothing = object()
    a, b = facts(ours), facts(theirs)
    text = {nothing: "absent"}
    for name in dict.fromkeys((*a, *b)):
        x, y = a.get(name, nothing), b.get(name, nothing)
        if x is nothing or y is nothing or x != y:
            yield f"{name}: {text.get(x, x)} by shrinkwatchctl, {text.get(y, y)} by drgn"


def shrinkwatchctl():
    begin = time.monotonic()
    done = subprocess.run(["shrinkwatchctl", "census", "--direct", "--json"], stdout=subprocess.PIPE, check=True)
    seconds = time.monotonic() - begin
    return json.loads(done.stdout), seconds


def summary(ours, ours_seconds, theirs):
    memcgs = ours["memcgs"]
    states = ", ".join(f"{ours['totals'][s]} {s}" for s in ("live", "dying", "creating"))
    counted = sum(m["refs"] is not None for m in memcgs)
    print(f"compared {len(memcgs)} memcgs ({states}): {ours['totals']['units']} units on {len(memcgs[0]['nodes'])} nodes, "
          f"{counted} reference counts of {sum(m['refs'] or 0 for m in memcgs)} references")
    read = ours["totals"]["duration_usec"] / 1e6
    walk, load = (theirs["totals"][key] for key in ("seconds", "load_seconds"))
    print(f"reading the memcgs: drgn {walk:.3f} s, shrinkwatchctl {read:.3f} s, ratio {walk / max(read, 1e-6):.0f}")
    print(f"with all that comes before and after: drgn {load + walk:.1f} s, shrinkwatchctl {ours_seconds:.2f} s, "
          f"ratio {(load + walk) / ours_seconds:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vmlinux", default="/lab/vmlinux/vmlinux")
    parser.add_argument("--keep", metavar="DIRECTORY", help="write what was compared last into ours.json and drgn.json there")
    arguments = parser.parse_args()
    kernel = census.Kernel(arguments.vmlinux)
    for attempt in range(1, TRIES + 1):
        before, _ = shrinkwatchctl()
        try:
            theirs = kernel.census()
        except (census.drgn.FaultError, LookupError) as e:
            theirs, lost = None, e
        after, seconds = shrinkwatchctl()
        if arguments.keep:
            for name, result in (("ours", after), ("drgn", theirs)):
                with open(f"{arguments.keep}/{name}.json", "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)
        changed = list(differences(before, after))
        if not changed and theirs:
            found = list(differences(after, theirs))
            print("\n".join(found[:SHOWN]) or f"equal, at attempt {attempt}")
            if len(found) > SHOWN:
                print(f"and {len(found) - SHOWN} differences more")
            summary(after, seconds, theirs)
            return 1 if found else 0
        reason = f"{len(changed)} facts changed, as {changed[0].partition(': ')[0]}" if changed else f"drgn got lost: {lost}"
        print(f"attempt {attempt} does not count: {reason}")
        time.sleep(1)
    return 2


if __name__ == "__main__":
    sys.exit(main())
