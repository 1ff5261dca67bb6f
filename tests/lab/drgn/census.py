#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A second opinion on the census of memory cgroups: drgn over /proc/kcore, with the kernel's DWARF.

It shares no code and no idea of a structure's layout with bpf/: what it knows of the kernel it has from debug information,
and from these lines. It takes no lock and is in no RCU section, so on a machine that changes meanwhile it may fail, or see
what never was; who compares looks again. Needs root, and the vmlinux of the running kernel.

Prints one object: host, totals, and memcgs in the order of a walk that visits parents first.
"""

import argparse
import json
import sys
import time

BEGIN = time.monotonic()  # importing drgn is a part of what it costs

import drgn  # noqa: E402
from drgn import container_of  # noqa: E402
from drgn.helpers.linux.list import list_for_each_entry  # noqa: E402
from drgn.helpers.linux.nodemask import for_each_node  # noqa: E402

MOST = 1_000_000  # memcgs; more means that a list has led into freed memory


class Kernel:
    """The running kernel."""

    def __init__(self, vmlinux):
        self.prog = drgn.Program()
        self.prog.set_kernel()
        self.prog.load_debug_info([vmlinux])
        self.nodes = list(for_each_node(self.prog))
        self.word = self.prog.type("void *").size
        unit = self.prog.type("struct shrinker_info_unit")
        self.unit_bytes = unit.size
        # An array with a count for each id
        self.ids_per_unit = next(m.type.length for m in unit.members if m.name == "nr_deferred")
        self.atomic = self.prog.constant("__PERCPU_REF_ATOMIC").value_()
        self.online, self.dying = (self.prog.constant(n).value_() for n in ("CSS_ONLINE", "CSS_DYING"))
        self.load_seconds = time.monotonic() - BEGIN

    def refs(self, css):
        """The reference count, or None while it is spread over the CPUs, or about to be gathered."""
        if not css.refcnt.percpu_count_ptr.value_() & self.atomic:
            return None
        count = css.refcnt.data.count.counter.value_()
        # Until all CPUs are done with it the count is biased by half of its range: its sign.
        return count if count >= 0 else None

    def node(self, memcg, nid):
        info = memcg.nodeinfo[nid].shrinker_info
        if not info:
            return {"node": nid, "units": None, "slots": None}
        slots = -(-info.map_nr_max.value_() // self.ids_per_unit)
        pointers = self.prog.read(info.unit.address_, slots * self.word)
        units = sum(any(pointers[at:at + self.word]) for at in range(0, len(pointers), self.word))
        return {"node": nid, "units": units, "slots": slots}

    def memcg(self, css, parent):
        flags = css.flags.value_()
        kn = css.cgroup.kn
        name = kn.name.string_().decode("utf-8", "backslashreplace")
        memcg = container_of(css, "struct mem_cgroup", "css")
        nodes = [self.node(memcg, nid) for nid in self.nodes]
        return {
            "serial": css.serial_nr.value_(),
            "parent_serial": parent["serial"] if parent else 0,
            "id": kn.id.value_(),
            "path": "/" if not parent else f"{parent['path'].rstrip('/')}/{name}",
            "state": "dying" if flags & self.dying else "live" if flags & self.online else "creating",
            "offline": bool(flags & self.dying and not flags & self.online),
            "level": parent["level"] + 1 if parent else 0,
            "refs": self.refs(css),
            "units": sum(n["units"] or 0 for n in nodes),
            "slots": sum(n["slots"] or 0 for n in nodes),
            "nodes": nodes,
        }

    def census(self):
        begin = time.monotonic()
        memcgs = []
        # Children not visited yet, the next one last
        todo = [(self.prog["root_mem_cgroup"].css.address_of_(), None)]
        while todo:
            css, parent = todo.pop()
            memcgs.append(self.memcg(css, parent))
            if len(memcgs) > MOST:
                raise LookupError(f"more than {MOST} memory cgroups: the walk has lost its way")
            children = list_for_each_entry("struct cgroup_subsys_state", css.children.address_of_(), "sibling")
            todo += [(child, memcgs[-1]) for child in reversed(list(children))]
        count = {state: sum(m["state"] == state for m in memcgs) for state in ("live", "dying", "creating")}
        return {
            "host": {"possible_nodes": len(self.nodes), "shrinker_nr_max": self.prog["shrinker_nr_max"].value_(),
                     "ids_per_unit": self.ids_per_unit, "unit_struct_bytes": self.unit_bytes},
            "totals": {"memcgs": len(memcgs), **count, "units": sum(m["units"] for m in memcgs),
                       "load_seconds": round(self.load_seconds, 3), "seconds": round(time.monotonic() - begin, 3)},
            "memcgs": memcgs,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("vmlinux", nargs="?", default="/lab/vmlinux/vmlinux")
    json.dump(Kernel(parser.parse_args().vmlinux).census(), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
