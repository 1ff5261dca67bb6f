#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""org.shrinkwatch1 on a bus of the test's own: what it says against the census of the command line, who may what, and what clients can do to it."""

import base64
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

from servicetest import Daemon, check, equal, note, pumps, skip_all, wait_for

try:
    import dbus
    from bustest import MANAGER, NAME, OTHER, PROPERTIES, UNKNOWN, USER, Client, as_user, main, path_bytes, plain, xml_files
except ImportError as error:
    skip_all(f"needs python3-dbus and python3-gi: {error}")

from test_service import CTL

# A user of the group.
MEMBER = 1
# By a hostile client; with sanitizers fewer take as much time.
CALLS = int(os.environ.get("SHRINKWATCH_TEST_CALLS", "10000"))


def census():
    done = subprocess.run([CTL, "census", "--direct", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


# ------------------------------------------------------------------------------------------------------------- interface


def members(interface):
    """name → what is comparable of a method, signal or property."""
    found = {}
    for node in interface:
        if node.tag == "annotation":
            continue
        arguments = [(a.get("name"), a.get("type"), a.get("direction")) for a in node.findall("arg")]
        notes = {a.get("name"): a.get("value") for a in node.findall("annotation")}
        found[node.get("name")] = (node.tag, node.get("type"), node.get("access"), arguments, notes)
    return found


def test_interface(b):
    """Introspection is what the checked-in XML says: no more, no less, with names, directions and annotations."""
    daemon = b.start(more="[Limits]\nDyingOn=1\nDyingOff=1\nDyingMinAgeSec=0\n")
    b.cgroups.pinned("dying")
    b.cgroups.make("watched-1")
    wait_for(lambda: any("/finding/" in path for path in b.client.managed()) and any("/subtree/" in path for path in b.client.managed()))
    paths = {"Manager": "/org/shrinkwatch1"}
    for path in b.client.managed():
        paths["Finding" if "/finding/" in path else "Subtree"] = path
    equal("checked-in files", [f.name for f in xml_files()], [f"{NAME}.{name}.xml" for name in ("Finding", "Manager", "Subtree")])
    for file in xml_files():
        name = file.name[: -len(".xml")]
        wanted = {i.get("name"): members(i) for i in ElementTree.parse(file).getroot()}
        text = b.client.call("Introspect", path=paths[name.rpartition(".")[2]], interface="org.freedesktop.DBus.Introspectable")
        got = {i.get("name"): members(i) for i in ElementTree.fromstring(text).findall("interface") if i.get("name").startswith(NAME)}
        equal(f"interfaces of {file.name}", sorted(got), sorted(wanted))
        differing = {m: (wanted[name].get(m), got[name].get(m)) for m in {**wanted[name], **got[name]} if wanted[name].get(m) != got[name].get(m)}
        check(f"{len(wanted[name])} members of {name} are as written", len(wanted[name]) > 10 and not differing, differing)
        values = b.client.get_all(paths[name.rpartition(".")[2]], name)
        equal("GetAll() has every property", sorted(values), sorted(m for m, what in wanted[name].items() if what[0] == "property"))
    b.cgroups.release("dying")
    daemon.end()


# ----------------------------------------------------------------------------------------------------------------- reads


def test_reads(b):
    """Every total and every memcg against the census of the command line."""
    b.cgroups.make("live")
    window = b.cgroups.pinned("gone-1")
    b.cgroups.pinned("gone-2")
    daemon = b.start(more="[Census]\nIntervalSec=1h\n")
    died = b.cgroups.pinned("gone-3")

    def compare():
        """Both within a time in which nothing changed."""
        b.client.call("TakeCensus")
        before, document = b.client.get_all(), census()
        try:
            document["got"] = {m["serial"]: plain(b.client.typed("GetMemcg", "t", m["serial"])) for m in document["memcgs"]}
        except dbus.DBusException:
            return None
        time.sleep(1.1)  # a younger census is as good
        b.client.call("TakeCensus")
        after = b.client.get_all()
        same = all(before[k] == after[k] for k in ("Memcgs", "MemcgsDying", "Units", "ShrinkerNrMax", "ShrinkerIDsInUse", "OverheadBytes", "EventsCreated"))
        return (before, document) if same and document["host"]["settled"] else None

    both = wait_for(compare)
    if not check("a quiet moment", both):
        return
    properties, document = both
    totals, host = document["totals"], document["host"]
    for name, wanted in {
        "Memcgs": totals["memcgs"], "MemcgsLive": totals["live"], "MemcgsDying": totals["dying"], "MemcgsCreating": totals["creating"],
        "Units": totals["units"], "UnitsLive": totals["units_live"], "UnitsDying": totals["units_dying"], "UnitBytes": totals["unit_bytes"],
        "ArrayBytes": totals["array_bytes"], "OverheadBytes": totals["unit_bytes"] + totals["array_bytes"],
        "OverheadLiveBytes": totals["overhead_live_bytes"], "OverheadDyingBytes": totals["overhead_dying_bytes"],
        "ShrinkerNrMax": host["shrinker_nr_max"], "ShrinkerIDsInUse": host["shrinker_ids_in_use"], "ShrinkerIDsStranded": host["stranded_ids"],
        "Layout": host["layout"], "Allocation": host["allocation"], "PossibleNodes": host["possible_nodes"], "IDsPerUnit": host["ids_per_unit"],
        "UnitStructBytes": host["unit_struct_bytes"], "UnitAllocBytes": host["unit_alloc_bytes"], "KernelRelease": host["kernel"],
        "BootID": host["boot_id"], "Hierarchy": host["hierarchy"],
    }.items():
        equal(name, properties[name], UNKNOWN if wanted is None else wanted)
    check("the trend of so short a time is not known", math.isnan(properties["OverheadTrendPerHour"]), properties["OverheadTrendPerHour"])

    # Memcg by memcg: what is in the document, under the same names, null for absence.
    differing = []
    for memcg in document["memcgs"]:
        got = document["got"][memcg["serial"]]
        for key in ("serial", "id", "path", "state", "offline", "units", "slots", "unit_bytes", "array_bytes", "subtree_units", "subtree_bytes",
                    "subtree_memcgs", "subtree_dying", "nodes", "identity"):
            if memcg[key] is None and key not in got:
                continue
            wanted = {k: v for k, v in memcg[key].items() if v is not None} if isinstance(memcg[key], dict) else memcg[key]
            if got.get(key) != wanted:
                differing.append((memcg["path"], key, wanted, got.get(key)))
        if got["path_bytes"] != (base64.b64decode(memcg["path_bytes"]) if "path_bytes" in memcg else os.fsencode(memcg["path"])):
            differing.append((memcg["path"], got["path_bytes"]))
    check(f"{len(document['memcgs'])} memory cgroups are as the command line has them", not differing, differing)

    ours = plain(b.client.typed("FindByPath", "ay", path_bytes(b.path("gone-3"))))
    equal("one of ours by its path: how many", len(ours), 1)
    equal("its state", ours[0]["state"], "dying")
    check("when it died, to the microsecond", died[0] <= ours[0]["dying_since_boottime_usec"] <= died[1] and ours[0]["dying_since_exact"], (died, ours[0]))
    old = plain(b.client.typed("FindByPath", "ay", path_bytes(b.path("gone-1"))))[0]
    check("of one that died unseen: at least since the first census", old["dying_since_boottime_usec"] >= window[1] and not old["dying_since_exact"], old)
    equal("the same by its cgroup id", plain(b.client.typed("FindMemcgs", "t", ours[0]["id"])), ours)

    subtree = plain(b.client.typed("GetSubtree", "ay", path_bytes(f"//{b.cgroups.name}/")))
    equal("our subtree", (subtree["memcgs"], subtree["live"], subtree["dying"]), (5, 2, 3))
    mine = [m for m in document["memcgs"] if (m["path"] + "/").startswith(f"/{b.cgroups.name}/")]
    equal("its bytes", subtree["overhead_bytes"], sum(m["unit_bytes"] + m["array_bytes"] for m in mine))
    equal("its units", subtree["units"], sum(m["units"] for m in mine))
    equal("its oldest dying one", subtree["oldest_dying_serial"], old["serial"])
    gone = plain(b.client.typed("GetSubtree", "ay", path_bytes(b.path("gone-2"))))
    equal("what remains of a path that is gone", (gone["memcgs"], gone["dying"], "serial" in gone), (1, 1, False))

    pid = plain(b.client.typed("GetByPid", "u", os.getpid()))
    v2 = host["hierarchy"] == "v2"
    line = next(x for x in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
                if (x.startswith("0::") if v2 else "memory" in x.split(":")[1].split(",")))
    equal("the memory cgroup of this process", pid["path"], line.split(":", 2)[2])

    dump = b.client.call("DumpByFileDescriptor")
    with os.fdopen(dump.take()) as f:
        dumped = json.load(f)
    equal("the dump", ({m["serial"] for m in dumped["memcgs"]}, dumped["schema"]), ({m["serial"] for m in document["memcgs"]}, document["schema"]))

    why = plain(b.client.typed("Why", "t", ours[0]["serial"]))
    equal("why one is still there: its serial", why["memcg"]["serial"], ours[0]["serial"])
    check("and its pins", why["memcg"]["pins"] and sum(p["refs"] for p in why["memcg"]["pins"]) >= 1, why)

    for name in ("gone-1", "gone-2", "gone-3"):
        b.cgroups.release(name)
    daemon.end()


def test_list(b):
    """Filters, orders and pages."""
    for i in range(23):
        b.cgroups.make(f"list-{i:02}")
    daemon = b.start()
    prefix = {"path_prefix": dbus.ByteArray(os.fsencode(f"/{b.cgroups.name}/"), variant_level=1)}

    def rows(filters, order="", limit=0, after=0):
        _, memcgs, remaining = plain(b.client.typed("List", "a{sv}sut", dbus.Dictionary(filters, signature="sv"), order, dbus.UInt32(limit), dbus.UInt64(after)))
        return memcgs, remaining

    everything, remaining = rows({})
    equal("all of them", (len(everything), remaining), (b.client.get_all()["Memcgs"], 0))
    mine, _ = rows(prefix)
    equal("those below a path, itself included", len(mine), 24)
    equal("by serial", [m["serial"] for m in mine], sorted(m["serial"] for m in mine))
    seen, after, pages = [], 0, 0
    while True:
        page, remaining = rows(prefix, "serial", 7, after)
        pages += 1
        seen += [m["serial"] for m in page]
        if not remaining or pages > 9:
            break
        after = seen[-1]
    equal("pages of seven", (pages, seen), (4, [m["serial"] for m in mine]))
    for order, key in (("overhead", "overhead_bytes"), ("subtree", "subtree_bytes")):
        values = [m[key] for m in rows({}, order)[0]]
        equal(f"by {order}, most first", values, sorted(values, reverse=True))
    tree, _ = rows(prefix, "tree")
    equal("in the order of the tree the first is", tree[0]["path"], f"/{b.cgroups.name}")
    equal("by a pattern", len(rows({"pattern": f"{b.cgroups.name}/list-1?"})[0]), 10)
    equal("by state", {m["state"] for m in rows({"state": "live"})[0]}, {"live"})
    equal("nothing has as much as that", rows({"min_overhead_bytes": dbus.UInt64(1 << 60, variant_level=1)}), ([], 0))

    invalid = "org.freedesktop.DBus.Error.InvalidArgs"
    for what, arguments in (
        ("a filter that there is not", ({"colour": "red"}, "", 0, 0)),
        ("a filter of another type", ({"state": dbus.UInt32(1, variant_level=1)}, "", 0, 0)),
        ("an order that there is not", ({}, "beauty", 0, 0)),
        ("a page of more than 1,000", ({}, "", 1001, 0)),
    ):
        filters, order, limit, after = arguments
        equal(f"error for {what}", b.client.error("List", "a{sv}sut", dbus.Dictionary(filters, signature="sv"), order, dbus.UInt32(limit), dbus.UInt64(after)), invalid)
    equal("error for a page behind what is gone", b.client.error("List", "a{sv}sut", dbus.Dictionary({}, signature="sv"), "overhead", dbus.UInt32(0), dbus.UInt64(2**63)),
          NAME + ".NoSuchMemcg")
    for method, signature, argument, wanted in (
        ("GetMemcg", "t", 2**63, ".NoSuchMemcg"), ("Why", "t", 2**63, ".NoSuchMemcg"), ("Why", "t", everything[0]["serial"], ".NotDying"),
        ("GetSubtree", "ay", path_bytes("/none/such"), ".NoSuchMemcg"), ("GetUnit", "s", "none.service", ".NoSuchMemcg"),
        ("GetUnit", "s", "", ".NoSuchMemcg"), ("GetMachine", "s", "none", ".NoSuchMemcg"), ("GetByPid", "u", 2**31, ".NoSuchProcess"),
    ):
        equal(f"error of {method}({argument!r})", b.client.error(method, signature, argument), NAME + wanted)
    for argument in (b"", b"/a\0b", b"/" + b"x" * 4096):
        equal(f"error for a path of {len(argument)} bytes", b.client.error("GetSubtree", "ay", dbus.ByteArray(argument)), invalid)
    equal("memory cgroups of an id that there is not", plain(b.client.typed("FindMemcgs", "t", 2**63)), [])
    daemon.end()


# --------------------------------------------------------------------------------------------------------------- objects


def test_findings(b):
    """An object, a signal and properties for a finding: once when it is raised, once when it is over."""
    empty = b.overhead()
    b.cgroups.pinned("find-0")
    wait_for(lambda: b.overhead() > empty)
    each = b.overhead() - empty
    limit = empty + 5 * each
    daemon = b.start(more=f"[Subtree {b.cgroups.name}]\nOverheadOn={limit}\nOverheadOff={limit}\nMinAgeSec=0\n")
    equal("objects before", [p for p in b.client.managed() if "/finding/" in p], [])
    for i in range(1, 5):
        b.cgroups.pinned(f"find-{i}")
    raised = wait_for(lambda: b.client.of("FindingRaised"))
    equal("signals that it was raised", len(raised), 1)
    path, properties = raised[0][1]
    equal("its path", properties["Path"], os.fsencode(f"/{b.cgroups.name}"))
    equal("its kind, value and limit", (properties["Kind"], properties["Value"], properties["Limit"]), ("subtree", limit, limit))
    equal("the object", b.client.get_all(path, NAME + ".Finding"), properties)
    equal("InterfacesAdded", [a[0] for _, a in b.client.of("InterfacesAdded")], [path])
    check("what to do is there", properties["Safe"] and properties["Setting"], properties)

    b.cgroups.pinned("find-5")
    changed = wait_for(lambda: [a for p, a in b.client.of("PropertiesChanged") if p == path and "Value" in a[1]])
    equal("its value is followed", changed[-1][1]["Value"], limit + each)
    for i in range(6):
        b.cgroups.release(f"find-{i}")
    cleared = wait_for(lambda: b.client.of("FindingCleared"))
    equal("signals that it is over", [(a[0], a[1]) for _, a in cleared], [(path, "below")])
    check("what it was last", cleared and cleared[0][1][2]["Value"] < limit, cleared)
    equal("InterfacesRemoved", [a[0] for _, a in b.client.of("InterfacesRemoved")], [path])
    equal("objects after", [p for p in b.client.managed() if "/finding/" in p], [])
    b.next_census(2)
    equal("signals two censuses later", (len(b.client.of("FindingRaised")), len(b.client.of("FindingCleared"))), (1, 1))
    # Once a census, and only what changed.
    for _, (interface, values, invalidated) in b.client.of("PropertiesChanged", "/org/shrinkwatch1"):
        if interface != MANAGER or invalidated or "Layout" in values:
            check("changes carry values that change", False, (interface, values, invalidated))
    quiet = [v for _, (_, v, _) in b.client.of("PropertiesChanged", "/org/shrinkwatch1")]
    times = [v["CensusBoottimeUSec"] for v in quiet if "CensusBoottimeUSec" in v]
    equal("one signal for each census", len(times), len(set(times)))
    daemon.end()


def test_storm(b):
    """More findings than there may be objects: the bound holds and is visible."""
    # Each of ours has a limit of its own that it is above.
    for i in range(531):
        b.cgroups.make(f"storm-{i}")
    daemon = b.start(more=f"[Subtree {b.cgroups.name}/storm-*]\nOverheadOn=1\nOverheadOff=1\nMinAgeSec=0\n")
    properties = wait_for(lambda: (p := b.client.get_all())["Findings"] == 531 and p)
    equal("findings", properties and properties["Findings"], 531)
    equal("without an object", properties and properties["FindingsWithoutObject"], 19)
    equal("objects", len([p for p in b.client.managed() if "/finding/" in p]), 512)
    for i in range(100):
        b.cgroups.remove(b.cgroups.root / f"storm-{i}")
    wait_for(lambda: b.client.get_all()["Findings"] == 431)
    properties = b.client.get_all()
    equal("findings, without an object, objects, after some went",
          (properties["Findings"], properties["FindingsWithoutObject"], len([p for p in b.client.managed() if "/finding/" in p])), (431, 0, 431))
    daemon.end()


def test_watch(b):
    """Subtrees: of the configuration, and of clients as long as they are there."""
    # As many patterns as a line has room for: the last one counts as the first does.
    daemon = b.start(watch=" ".join(["x"] * 70 + [f"{b.cgroups.name}/*-a"]))
    equal("objects before", [p for p in b.client.managed() if "/subtree/" in p], [])
    b.cgroups.make("watched-a")
    configured = wait_for(lambda: [p for p in b.client.managed() if "/subtree/" in p])
    equal("one that a pattern names", b.client.get_all(configured[0], NAME + ".Subtree")["Path"], os.fsencode(b.path("watched-a")))

    path = str(b.client.typed("Watch", "ay", path_bytes(b.path("mine"))))
    equal("twice is the same object", str(b.client.typed("Watch", "ay", path_bytes("/" + b.path("mine") + "/"))), path)
    equal("it need not exist", b.client.get_all(path, NAME + ".Subtree")["Exists"], False)
    b.cgroups.pinned("mine")
    changed = wait_for(lambda: [a for p, a in b.client.of("PropertiesChanged") if p == path and a[1].get("Dying") == 1])
    check("its properties change", changed, b.client.of("PropertiesChanged")[-3:])
    values = b.client.get_all(path, NAME + ".Subtree")
    equal("what remains of it", (values["Exists"], values["Memcgs"], values["Dying"], values["Live"]), (False, 1, 1, 0))
    gone = plain(b.client.typed("GetSubtree", "ay", path_bytes(b.path("mine"))))
    equal("as GetSubtree() has it", (values["OverheadBytes"], values["OldestDyingSerial"]), (gone["overhead_bytes"], gone["oldest_dying_serial"]))

    b.client.typed("Unwatch", "ay", path_bytes(b.path("mine")))
    check("one Watch() is left", path in b.client.managed())
    b.client.typed("Unwatch", "ay", path_bytes(b.path("mine")))
    check("none is left", wait_for(lambda: path not in b.client.managed()))
    removed = wait_for(lambda: [a[1] for _, a in b.client.of("InterfacesRemoved") if a[0] == path])
    check("InterfacesRemoved names its interface", removed and NAME + ".Subtree" in removed[-1], removed)
    equal("error of one Unwatch() too many", b.client.error("Unwatch", "ay", path_bytes(b.path("mine"))), "org.freedesktop.DBus.Error.InvalidArgs")

    other = Client(b.broker.address)
    path = str(other.typed("Watch", "ay", path_bytes("/left")))
    check("what another client watches is there", path in b.client.managed())
    other.close()
    check("and goes with it", wait_for(lambda: path not in b.client.managed()))

    limits = "org.freedesktop.DBus.Error.LimitsExceeded"
    for i in range(64):
        b.client.typed("Watch", "ay", path_bytes(f"/limit-{i}"))
    equal("the 65th of a user", b.client.error("Watch", "ay", path_bytes("/limit-64")), limits)
    check("one that it watches already is none more", b.client.error("Watch", "ay", path_bytes("/limit-0")) is None)

    os.rmdir(b.cgroups.root / "watched-a")
    check("one of the configuration goes when nothing is left of it", wait_for(lambda: configured[0] not in b.client.managed()))
    b.cgroups.release("mine")
    daemon.end()


def test_deep(b):
    """Paths as long as somebody likes: pages end earlier, and fit together all the same."""
    daemon = b.start()
    name, levels, depth = b"d" * 200, [os.open(b.cgroups.root, os.O_RDONLY)], 401
    for _ in range(depth):
        os.mkdir(name, dir_fd=levels[-1])
        levels.append(os.open(name, os.O_RDONLY, dir_fd=levels[-1]))
    try:
        time.sleep(1.1)
        b.client.call("TakeCensus")
        prefix = dbus.Dictionary({"path_prefix": dbus.ByteArray(os.fsencode(f"/{b.cgroups.name}"), variant_level=1)}, signature="sv")
        serials, pages, remaining = [0], 0, 1
        while remaining and pages < 100:
            _, rows, remaining = plain(b.client.typed("List", "a{sv}sut", prefix, "", dbus.UInt32(0), dbus.UInt64(serials[-1])))
            serials += [m["serial"] for m in rows]
            pages += 1
        check(f"{pages} pages in place of one", 1 < pages < 100)
        equal("memory cgroups in them, each once", (len(serials) - 1, len(set(serials)) - 1), (depth + 1, depth + 1))
    finally:
        os.close(levels.pop())
        while levels:
            os.rmdir(name, dir_fd=levels[-1])
            os.close(levels.pop())
    daemon.end()


# ---------------------------------------------------------------------------------------------------------------- access


def call(b, uid, method, *arguments):
    status, text = as_user(uid, "busctl", "call", NAME, "/org/shrinkwatch1", MANAGER, method, *arguments, address=b.broker.address)
    return status == 0, text


def test_access(b):
    """Without polkit: reading for everybody, what costs something for root and the group."""
    group = b.directory / "group"
    group.write_text(pathlib.Path("/etc/group").read_text() + "shrinkwatch:x:64999:daemon\n")
    subprocess.run(["mount", "--bind", str(group), "/etc/group"], check=True)
    b.cgroups.pinned("why")
    daemon = b.start()
    serial = str(plain(b.client.typed("FindByPath", "ay", path_bytes(b.path("why"))))[0]["serial"])
    dear = (("TakeCensus",), ("Why", "t", serial), ("Watch", "ay", "2", "47", "97"), ("DumpByFileDescriptor",))
    for uid, wanted in ((0, True), (MEMBER, True), (OTHER, False)):
        for method in dear:
            allowed, text = call(b, uid, *method)
            check(f"{method[0]} is {'allowed' if wanted else 'denied'} to user {uid}", allowed == wanted and (wanted or "denied" in text), text)
        good, text = call(b, uid, "GetMemcg", "t", serial)
        check(f"reading is allowed to user {uid}", good and serial in text, text)
    level = ("set-property", NAME, "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1", "LogLevel", "s", "warning")
    check("the log level is not for another user to set", as_user(OTHER, "busctl", *level, address=b.broker.address)[0] != 0)
    equal("it stays", str(b.client.typed("Get", "ss", "org.freedesktop.LogControl1", "LogLevel", path="/org/freedesktop/LogControl1", interface=PROPERTIES)), "debug")
    check("it is for root to set", as_user(0, "busctl", *level, address=b.broker.address)[0] == 0)
    equal("and set", str(b.client.typed("Get", "ss", "org.freedesktop.LogControl1", "LogLevel", path="/org/freedesktop/LogControl1", interface=PROPERTIES)), "warning")
    told = len(b.journal.read())
    daemon.end()
    equal("what is below it is not logged", [t for t in b.journal.messages(told) if t.startswith("Stopped")], [])
    b.cgroups.release("why")
    subprocess.run(["umount", "/etc/group"], check=True)


HOSTILE = """
import os, sys, time
import dbus, dbus.bus
bus = dbus.bus.BusConnection(os.environ["DBUS_SYSTEM_BUS_ADDRESS"])
answers, limits, begin, n = 0, 0, time.monotonic(), int(sys.argv[1])
for i in range(n):
    try:
        bus.call_blocking("org.shrinkwatch1", "/org/shrinkwatch1", "org.shrinkwatch1.Manager", "List", "a{sv}sut",
                          (dbus.Dictionary({"pattern": "*/*"}, signature="sv"), "subtree", dbus.UInt32(40), dbus.UInt64(0)))
        answers += 1
    except dbus.DBusException as error:
        if error.get_dbus_name() != "org.freedesktop.DBus.Error.LimitsExceeded":
            raise
        limits += 1
print(answers, limits, time.monotonic() - begin)
"""


def test_hostile(b):
    """10,000 calls, 1,000 watches, huge arguments, names that are not UTF-8, leaving in the middle: root gets answers and censuses go on."""
    odd = os.fsencode(b.cgroups.root) + b"/odd-\xff\xfe"
    os.mkdir(odd)
    for i in range(300):
        b.cgroups.make(f"hostile-{i}")
    daemon = b.start(watch=f"{b.cgroups.name}/odd-*")
    object_ = wait_for(lambda: [p for p in b.client.managed() if "/subtree/" in p])
    values = b.client.get_all(object_[0], NAME + ".Subtree")
    equal("a name that is not UTF-8", (values["Path"], values["PathText"]), (os.fsencode(b.path("odd-")) + b"\xff\xfe", b.path("odd-") + "\\xff\\xfe"))
    equal("all of it by GetAll(), List(), GetManagedObjects()", bool(b.client.get_all()) and bool(b.client.managed()), True)

    program = b.directory / "hostile.py"
    program.write_text(HOSTILE)
    environment = {"PATH": "/usr/bin:/bin", "DBUS_SYSTEM_BUS_ADDRESS": b.broker.address}
    before, root = b.client.get_all(), plain(b.client.typed("FindByPath", "ay", path_bytes("/")))[0]["serial"]
    hostile = subprocess.Popen(["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", sys.executable, str(program), str(CALLS)],
                               env=environment, stdout=subprocess.PIPE, text=True)
    latencies = []
    while hostile.poll() is None and len(latencies) < 100000:
        begin = time.monotonic()
        b.client.typed("GetMemcg", "t", root)
        latencies.append(time.monotonic() - begin)
        for pump in pumps:
            pump()
        time.sleep(0.01)
    text = hostile.stdout.read()
    equal(f"status of {CALLS:,} calls by another user", hostile.wait(), 0)
    answers, refused, seconds = text.split()
    after = b.client.get_all()
    spent = (after["CPUUSec"] - before["CPUUSec"]) / 1e6
    latencies.sort()
    note(f"of {CALLS:,} calls {answers} were answered and {refused} refused in {float(seconds):.1f} s; the daemon took {spent:.2f} s of CPU; root's {len(latencies)} "
         f"calls meanwhile took {latencies[len(latencies) // 2] * 1e3:.1f} ms (median), {latencies[-1] * 1e3:.1f} ms (longest)")
    check("some were answered, and then no more", int(answers) > 0 and int(refused) > 0, text)
    check("censuses went on", after["Censuses"] > before["Censuses"], (before["Censuses"], after["Censuses"]))
    equal("root is not refused", b.client.error("GetSubtree", "ay", path_bytes("/")), None)

    for what, size in (("1 MB", 1 << 20), ("16 MB", 16 << 20)):
        equal(f"error for a path of {what}", b.client.error("GetSubtree", "ay", dbus.ByteArray(b"/" * size)), "org.freedesktop.DBus.Error.InvalidArgs")
    equal("error for a unit of 1 MB", b.client.error("GetUnit", "s", "x" * (1 << 20)), NAME + ".NoSuchMemcg")
    watchers = [Client(b.broker.address) for _ in range(3)]
    refused = sum(w.error("Watch", "ay", path_bytes(f"/w/{i}")) == "org.freedesktop.DBus.Error.LimitsExceeded" for w in watchers for i in range(333))
    equal("of 999 watches of one user by three clients, refused", refused, 999 - 64)
    objects = len([p for p in b.client.managed() if "/subtree/" in p])
    equal("objects", objects, 64 + 1)
    for w in watchers:
        w.close()  # without Unwatch()
    check("all of them go when the clients have left", wait_for(lambda: len([p for p in b.client.managed() if "/subtree/" in p]) == 1))
    b.next_census()
    equal("exit status", daemon.end(), 0)


def test_bus_gone(b):
    """The bus goes away and comes back; there is none at the start."""
    daemon = b.start()
    b.client.typed("Watch", "ay", path_bytes("/before"))
    censuses = b.censuses()
    b.broker.stop()
    b.next_census(2)
    check("censuses go on without a bus", b.censuses() > censuses)
    b.broker.start()
    b.connect()
    check("the name is there again", wait_for(b.client.has_name), b.journal.messages())
    equal("properties are there", b.client.get_all()["Memcgs"] > 0, True)
    equal("what clients of the bus before watched is not", [p for p in b.client.managed() if "/subtree/" in p], [])
    daemon.end()

    b.broker.stop()
    ready = b.supervisor.count("READY=1")
    daemon = Daemon(b.supervisor, ["--config", str(b.conf), "--state", str(b.state)], user=USER, environment={"DBUS_SYSTEM_BUS_ADDRESS": b.broker.address})
    check("it gets ready without a bus", daemon.ready(ready + 1), daemon.errors())
    b.broker.start()
    b.connect()
    check("and comes when the bus does", wait_for(b.client.has_name), b.journal.messages())
    equal("exit status", daemon.end(), 0)


PARTS = {
    "interface": (test_interface, test_findings),
    "reads": (test_reads, test_list),
    "objects": (test_watch, test_storm, test_deep),
    "access": (test_access, test_bus_gone),
    "hostile": (test_hostile,),
}


if __name__ == "__main__":
    main(PARTS[sys.argv[1][len("bus") :]])
