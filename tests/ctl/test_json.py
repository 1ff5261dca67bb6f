#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The documents: the schema, and what a schema cannot say."""

import base64
import copy
import json
import re

from ctltest import HOSTS, ROOT, TemporaryHost, check, document, equal, finish, run, skip

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMA = json.loads((ROOT / "docs" / "census.schema.json").read_text(encoding="utf-8"))
ALL_HOSTS = sorted(path.name for path in HOSTS.glob("*.txt"))


def errors(value):
    return [f"{'/'.join(map(str, error.path))}: {error.message[:300]}" for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(value)]


def test_schema():
    if not jsonschema:
        skip("documents against the schema", "python3-jsonschema is not installed")
        return
    try:
        jsonschema.Draft7Validator.check_schema(SCHEMA)
        check("the schema is one", True)
    except jsonschema.SchemaError as error:
        check("the schema is one", False, error)

    for host in ALL_HOSTS:
        for verb in (["census"], ["top"], ["census", "--dying", "--sort", "REFS", "-n", "3"]):
            found = errors(document(*verb, host=host))
            check(f"{host}: {' '.join(verb)} keeps to the schema", not found, "\n".join(found))

    # A schema that takes everything says nothing: each of these has to be refused.
    good = document("census")
    for name, path, value in (
        ("a string for a number", ("memcgs", 0, "units"), "12"),
        ("a negative number", ("totals", "dying"), -1),
        ("a fraction", ("memcgs", 0, "unit_bytes"), 1.5),
        ("an unknown state", ("memcgs", 0, "state"), "undead"),
        ("an unknown layout", ("host", "layout"), "round"),
        ("pins of a live memcg", ("memcgs", 0, "pins"), []),
        ("a control in a path", ("memcgs", 0, "path"), "/a\nb"),
        ("a path without a slash", ("memcgs", 0, "path"), "a"),
        ("a zero for units that do not exist", ("host", "ids_per_unit"), None),
        ("another schema", ("schema",), 2),
        ("a pin without references", ("memcgs", 4, "pins", 0, "refs"), None),
        ("writeback without a device", ("memcgs", 4, "pins", 0, "device"), 7),
        ("an offline live memcg", ("memcgs", 0, "offline"), True),
    ):
        bad = copy.deepcopy(good)
        place = bad
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        check(f"the schema refuses {name}", errors(bad))
    for key in ("units", "serial", "pins", "path"):
        bad = copy.deepcopy(good)
        del bad["memcgs"][0][key]
        check(f"the schema refuses a memcg without {key}", errors(bad))
    more = copy.deepcopy(good)
    more["memcgs"][0]["new"] = more["host"]["new"] = more["new"] = 1
    check("the schema takes members that were added", not errors(more), errors(more))


def unescape(path):
    """The bytes of an escaped path whose name holds no backslash."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), path.encode())


def test_contract():
    census = document("census")
    by_serial = {memcg["serial"]: memcg for memcg in census["memcgs"]}
    equal("serials are unique", len(by_serial), len(census["memcgs"]))
    check("each parent comes before its children", all(m["parent_serial"] in list(by_serial)[:i] for i, m in enumerate(census["memcgs"]) if i))
    for key in ("units", "slots"):
        equal(f"{key} of the nodes add up", [sum(n[key] or 0 for n in m["nodes"]) for m in census["memcgs"]], [m[key] for m in census["memcgs"]])
        equal(f"{key} of the memcgs add up", sum(m[key] for m in census["memcgs"]), census["totals"][key])
    for key in ("unit_bytes", "array_bytes"):
        equal(f"{key} of the memcgs add up", sum(m[key] for m in census["memcgs"]), census["totals"][key])
    root = census["memcgs"][0]
    equal("the root's subtree is everything", (root["subtree_units"], root["subtree_bytes"], root["subtree_memcgs"], root["subtree_dying"]),
          (census["totals"]["units"], census["totals"]["unit_bytes"] + census["totals"]["array_bytes"], 22, 8))
    equal("states are counted", [census["totals"][key] for key in ("memcgs", "live", "dying", "creating")], [22, 13, 8, 1])
    equal("bytes are alloc bytes", root["unit_bytes"], 12 * 1024)
    equal("and the host says both", (census["host"]["unit_struct_bytes"], census["host"]["unit_alloc_bytes"]), (520, 1024))
    equal("nodes keep their numbers", [node["node"] for node in root["nodes"]], [0, 1, 2, 4])
    equal("ids", [census["host"][key] for key in ("shrinker_nr_max", "shrinker_ids_in_use", "stranded_ids")], [130, 8, 122])
    equal("ids by file system", census["host"]["ids_by_fstype"], {"tmpfs": 2, "cgroup2": 1, "ext4": 1, "other": 2, "proc": 1, "sysfs": 1})

    equal("references of a live memcg are null", by_serial[10]["refs"], None)
    equal("pins of a live memcg are null", by_serial[10]["pins"], None)
    equal("pins of one being made are null", by_serial[64]["pins"], None)
    equal("a dying one without any has none", by_serial[44]["pins"], [])
    equal("writeback", by_serial[30]["pins"], [{"cause": "writeback", "refs": 1, "exact": True, "bytes": 20480, "bytes_at_least": False, "inodes": 3, "device": "7:0"}])
    equal("swap", by_serial[40]["pins"], [{"cause": "swap", "refs": 1, "exact": True, "entries": 2048, "bytes": 8388608, "bytes_at_least": False}])
    equal("child", by_serial[42]["pins"][0], {"cause": "child", "refs": 1, "exact": True})
    equal("unexplained", by_serial[42]["pins"][1], {"cause": "unexplained", "refs": 1, "exact": True})
    for memcg in by_serial.values():
        if memcg["refs"] is not None:
            equal(f"pins of {memcg['serial']} add up to the references", sum(pin["refs"] for pin in memcg["pins"]), memcg["refs"])
            named = sum(pin["refs"] for pin in memcg["pins"] if pin["cause"] != "unexplained")
            equal(f"and its named ones are those explained", named, memcg["refs_explained"])
    equal("state and offline", [(by_serial[s]["state"], by_serial[s]["offline"]) for s in (10, 31, 30, 64)],
          [("live", False), ("dying", False), ("dying", True), ("creating", False)])
    equal("identity", by_serial[52]["identity"]["container"], "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999")
    equal("identity of nobody", by_serial[60]["identity"], None)
    check("no added and gone when it settled", "added" not in census["totals"] and "gone" not in census["totals"])

    for memcg in by_serial.values():
        if "path_bytes" in memcg:
            raw = base64.b64decode(memcg["path_bytes"], validate=True)
            check(f"path_bytes of {memcg['serial']} are what path was escaped from", raw == unescape(memcg["path"]) and raw != memcg["path"].encode(), memcg)
    equal("path_bytes are there exactly where they are needed", [s for s, m in by_serial.items() if "path_bytes" in m], [60, 61])
    equal("escapes", [by_serial[s]["path"] for s in (60, 61, 62, 20)],
          ["/odd/bad\\xff\\xfebyte", "/odd/new\\x0aline\\x1b[31m", "/odd/grüße", "/system.slice/system-systemd\\x2dfsck.slice"])


def test_unknown():
    flat = document("census", host="flat.txt")
    nulls = [m[key] for m in flat["memcgs"] for key in ("units", "slots", "subtree_units")]
    nulls += [n[key] for m in flat["memcgs"] for n in m["nodes"] for key in ("units", "slots")]
    nulls += [flat["totals"][key] for key in ("units", "units_live", "units_dying", "slots", "slots_live", "slots_dying")]
    nulls += [flat["host"][key] for key in ("ids_per_unit", "unit_struct_bytes", "unit_alloc_bytes")]
    check("flat: units and slots are null everywhere", all(value is None for value in nulls), nulls)
    equal("flat: all bytes are the arrays'", (flat["totals"]["unit_bytes"], flat["totals"]["array_bytes"]), (0, 4 * 32768 + 0))
    equal("v1: swap alone is told where the counters do not cross", [m["swap_bytes"] for m in flat["memcgs"]], [500 * 4096, None, 100 * 4096, 0])
    equal("the hierarchy", (flat["host"]["hierarchy"], document("census")["host"]["hierarchy"]), ("v1", "v2"))

    moved = document("census", host="unsettled.txt")
    equal("unsettled: said", (moved["host"]["settled"], moved["host"]["complete"]), (False, True))
    equal("unsettled: added and gone", (moved["totals"]["added"], moved["totals"]["gone"]), (3, 1))
    equal("unknown ids in use are null", [moved["host"][key] for key in ("shrinker_ids_in_use", "stranded_ids", "ids_by_fstype")], [None] * 3)
    equal("a memcg released while it was read is counted", moved["totals"]["dropped"], 1)

    # Known, and zero: arrays without slots, and no shrinker with an id, whatever it shows.
    none = document("census", host="nokmem.txt")
    equal("nokmem: complete, settled, no claim of how units come", [none["host"][key] for key in ("complete", "settled", "allocation")], [True, True, "unknown"])
    equal("nokmem: no ids", [none["host"][key] for key in ("shrinker_nr_max", "shrinker_ids_in_use", "stranded_ids", "ids_by_fstype")], [0, 0, 0, {}])
    for zeros, want in ((1, {"tmpfs": 1, "ext4": 1}), (2, {"other": 1, "ext4": 1})):
        with TemporaryHost("host release=1 layout=units-64 v2=1 nodes=1 ids=64\ncg 1 0 / live\nshrinker 3 ext4\n" + "shrinker 0 tmpfs\n" * zeros) as path:
            host = document("census", host=path)["host"]
            equal(f"id 0 is of {zeros} superblocks: none's where several show it", (host["shrinker_ids_in_use"], host["ids_by_fstype"]), (2, want))
    equal("nokmem: no slots, no units", [none["totals"][key] for key in ("slots", "units", "unit_bytes", "uneven")], [0] * 4)
    equal("nokmem: arrays", (none["totals"]["array_bytes"], none["totals"]["overhead_dying_bytes"]), (3 * 2 * 32, 2 * 32))
    equal("nokmem: of each node", {tuple(n[key] for key in ("units", "slots", "array_bytes", "ids")) for m in none["memcgs"] for n in m["nodes"]}, {(0, 0, 32, 0)})


def test_selection():
    equal("--columns keeps the members that say the same", [sorted(m) for m in document("census", "-o", "SERIAL,PATH", "-n", "1")["memcgs"]], [["path", "serial"]])
    top = document("top", "-n", "5", "--sort", "SUBTREE")
    equal("selection", top["selection"], {"state": None, "sort": "SUBTREE", "matched": 22, "listed": 5})
    equal("totals are the host's", top["totals"]["memcgs"], 22)
    sizes = [m["subtree_bytes"] for m in top["memcgs"]]
    equal("sorted", sizes, sorted(sizes, reverse=True))
    equal("dying", {m["state"] for m in document("census", "--dying")["memcgs"]}, {"dying"})
    equal("--bytes changes nothing", document("census", "--bytes")["memcgs"], document("census")["memcgs"])
    equal("nothing but the document is printed", run("census", "--json").stderr, b"")


def test_others():
    show = document("show", "41")
    equal("show has the memcg of the census", show["memcg"], next(m for m in document("census")["memcgs"] if m["serial"] == 41))
    equal("show names the others of that path", document("show", "/system.slice/cron.service")["same_path"],
          [{"serial": 30, "state": "dying"}, {"serial": 31, "state": "dying"}])
    creators = document("creators")
    equal("creators count every dying memcg", sum(c["memcgs"] for c in creators["creators"]), creators["totals"]["dying"])
    equal("and every unit of them", sum(c["units"] for c in creators["creators"]), creators["totals"]["units_dying"])
    equal("the first of them", {k: creators["creators"][0][k] for k in ("pattern", "ancestor", "memcgs", "causes")},
          {"pattern": "run-r*.scope", "ancestor": "/system.slice", "memcgs": 4, "causes": {"writeback": 1, "swap": 2, "child": 1, "unexplained": 2, "none": 1}})
    equal("units of a creator are null on flat kernels", document("creators", host="flat.txt")["creators"][0]["units"], None)

    estimate = document("estimate")
    equal("estimate: now is the census", estimate["now"]["units"], document("census")["totals"]["units"])
    equal("estimate: units of 63", (estimate["units_63"]["units"], estimate["units_63"]["unit_alloc_bytes"]), (252, 512))
    check("estimate: on demand is less", estimate["on_demand"]["units"] < estimate["units_63"]["units"], estimate)
    equal("estimate: bits", (estimate["bits"], estimate["units_with_bits"]), (20, 8))
    dying = ("units_dying", "units_dying_at_least")
    equal("estimate: dying ones have at least the units with bits", [estimate["on_demand"][key] for key in dying], [4, True])
    equal("estimate: which are in the sum", estimate["on_demand"]["units"], 64)
    for host, want in (
        ("layout=flat nodes=3 ids=640\ncg 1 0 / live\ncg 2 1 a live kmem=0\ncg 3 1 b offline", [None, None]),
        ("layout=units-63 nodes=3 ids=630\ncg 1 0 / live\ncg 2 1 a live kmem=0 units=1\ncg 3 1 b offline units=7 bits=1", [14, False]),
    ):
        with TemporaryHost(f"host release=1 v2=1 {host}\nlists 5 0 1\n") as path:
            other = document("estimate", host=path)
            equal(f"{host.split()[0]}: units of dying ones", [other["on_demand"][key] for key in dying], want)
            text = re.sub(r"\s+", " ", run("estimate", host=path).stdout.decode())
            check(f"{host.split()[0]}: said in the text", ("1 dying memory cgroup has 14 units, which are counted" if want[0] else "1 dying memory cgroup is left out") in text, text)
    text = "host release=1 layout=units-64 v2=1 nodes=1 ids=128\ncg 1 0 / live kmem=-1\ncg 2 1 a live kmem="
    for kmem, words in ((-1, "Lists found: 0. Accounting of kernel memory is off (cgroup.memory=nokmem): no memory cgroup"), (3, "Lists found: 0. They are those of this moment")):
        with TemporaryHost(f"{text}{kmem}\n") as path:
            equal(f"estimate: the root's units without lists, kmemcg_id {kmem}", document("estimate", host=path)["on_demand"]["units"], 2)
            said = re.sub(r"\s+", " ", run("estimate", host=path).stdout.decode())
            check(f"estimate: what that means, kmemcg_id {kmem}", words in said, said)
    equal("estimate: on demand is null without lists", document("estimate", host="flat.txt")["on_demand"], None)
    by_memcg = document("estimate", "--memcgs")
    equal("estimate --memcgs: the rest is as without", {k: v for k, v in by_memcg.items() if k not in ("memcgs", "host")}, {k: v for k, v in estimate.items() if k != "host"})
    census = document("census")["memcgs"]
    for key in ("serial", "path", "path_bytes", "state", "units"):
        equal(f"estimate --memcgs: {key} is the census'", [m.get(key) for m in by_memcg["memcgs"]], [m.get(key) for m in census])
    for key, total in (("units", "now"), ("units_63", "units_63"), ("units_on_demand", "on_demand")):
        equal(f"estimate --memcgs: {key} add up", sum(m[key] for m in by_memcg["memcgs"]), estimate[total]["units"])
    one = {m["serial"]: m["units_on_demand"] for m in by_memcg["memcgs"]}
    equal("estimate --memcgs: root, with lists in one unit, in two, without, dying, dying with a bit, being made", [one[s] for s in (1, 2, 52, 60, 30, 40, 64)], [12, 4, 8, 0, 0, 4, 0])
    flat = document("estimate", "--memcgs", host="flat.txt")["memcgs"]
    equal("estimate --memcgs: unknown is null", [[m["units"], m["units_63"], m["units_on_demand"]] for m in flat], [[None, 63, None]] * 4)
    check("estimate without it has no memcgs", "memcgs" not in estimate)
    model = document("estimate", "--model", "memcgs=45000,nodes=4,ids=52480")
    equal("the model needs no host", model["host"], None)
    equal("and is arithmetic", model["now"]["units"], 45000 * 4 * 820)
    equal("in bytes too", model["now"]["total_bytes"], 45000 * 4 * (820 * 1024 + 8192))
    equal("units of 63 ids need more units", model["units_63"]["units"], 45000 * 4 * 834)
    equal("and their arrays", model["units_63"]["array_bytes"], 45000 * 4 * 8192)

    support = document("support", host="flat.txt")
    equal("support: features", {f["name"]: f["available"] for f in support["features"]},
          {"walk": True, "alloc-size": False, "shrinkers": True, "writeback": False, "lists": False})
    equal("support: the reason", support["features"][1]["reason"], "the kernel has no bpf_get_kmem_cache")
    equal("support: the cache of a unit", document("support")["unit_cache"], "kmalloc-1k")
    check("all say their schema", all(d["schema"] == 1 for d in (show, creators, estimate, model, support)))


def test_many():
    text = "host release=1 layout=units-64 v2=1 nodes=0xf ids=8064\ncg 1 0 / live memory=1\nmany 20000 1 run-r offline refs=1\n"
    with TemporaryHost(text) as host:
        census = document("census", host=host)
        equal("20,001 memcgs are all there", len({m["serial"] for m in census["memcgs"]}), 20001)
        equal("and counted", census["totals"]["units"], 20001 * 4 * 126)


def main():
    test_schema()
    test_contract()
    test_unknown()
    test_selection()
    test_others()
    test_many()
    finish()


main()
