#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The verb config against files of the test's own; the manual page of the files against the table that it prints."""

import json
import os
import pathlib
import re
import tempfile

from ctltest import ROOT, check, equal, finish, run

ETC = "etc/shrinkwatch/shrinkwatchd.conf"
LIB = "usr/lib/shrinkwatch/shrinkwatchd.conf.d/10-a.conf"
PAGE = (ROOT / "docs" / "shrinkwatchd.conf.5").read_text(encoding="utf-8")


class Tree:
    """Files below a directory of their own."""

    def __init__(self, **files):
        self.files = {ETC: files.get("etc"), LIB: files.get("lib")}

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="shrinkwatch-config-")
        for name, text in self.files.items():
            if text is not None:
                path = pathlib.Path(self.directory.name, name)
                path.parent.mkdir(parents=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.directory.name

    def __exit__(self, *_):
        self.directory.cleanup()


def document(*arguments):
    return json.loads(run("config", "--json", *arguments).stdout)


def test_table():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with Tree() as root:
        done = run("config", "--root", root)
        lines = done.stdout.decode().splitlines()
        equal("nothing is said of no files", (done.returncode, done.stderr), (0, b""))
        equal("headings", lines[0].split(), ["SECTION", "KEY", "VALUE", "FROM"])
        equal("a line", lines[1].split(), ["Census", "IntervalSec", "60s", "default"])
        equal("nothing by default", [line.split()[2] for line in lines if "TextFile" in line], ["-"])
        equal("no file", lines[-2], "There is no file to read.")
        equal("memory, in bytes", run("config", "--root", root, "-b").stdout.decode().splitlines()[-1],
              f"Memory, which percentages in [Limits] and [Subtree] are of: {memory} bytes.")
        equal("--noheadings leaves the table", run("config", "--root", root, "-H").stdout.decode().splitlines(), lines[1:-3])
        got = document("--root", root)
        equal("members", sorted(got), ["failed", "files", "memory_bytes", "messages", "schema", "settings"])
        equal("memory", got["memory_bytes"], memory)
        equal("a default has no place", got["settings"][0],
              {"section": "Census", "pattern": None, "key": "IntervalSec", "value": "60s", "file": None, "line": None})
        equal("an empty default", [s["value"] for s in got["settings"] if s["key"] == "TextFile"], [""])
        equal("the table has as many", len(got["settings"]), len(lines) - 4)
        equal("nothing else", (got["files"], got["messages"], got["failed"], got["schema"]), ([], [], False, 1))


def test_files():
    etc = "[Census]\nIntervalSec=2min 5s\n\n[Subtree a/*]\nOverheadOn=1%\n"
    with Tree(etc=etc, lib="[Census]\nCPUShare=1%\n[Limits]\nFoo=1\nHostOn=x\n") as root:
        done = run("config", "--root", root)
        out = done.stdout.decode()
        equal("what is wrong is no failure", done.returncode, 0)
        equal("but is told", done.stderr.decode().splitlines(), [
            f"shrinkwatchctl: {root}/{LIB}:4: There is no key Foo= in [Limits]: it is ignored.",
            f"shrinkwatchctl: {root}/{LIB}:5: HostOn=x is not understood: it takes a size above 0 such as 2G, a percentage of memory such as 5%, "
            "or infinity. The default, 5%, stays in force.",
        ])
        for line in (
            rf"Census +IntervalSec +2min 5s +{root}/{ETC}:2",
            rf"Census +CPUShare +1% +{root}/{LIB}:2",
            rf"Subtree a/\* +OverheadOn +1% +{root}/{ETC}:5",
            r"Subtree a/\* +OverheadOff +0\.8% +default",
            rf"Read in this order: {root}/{ETC}, {root}/{LIB}\.",
        ):
            check(f"a line {line!r}", re.search(rf"^{line}$", out, re.MULTILINE), out)
        got = document("--root", root)
        equal("files", [one["file"] for one in got["files"]], [f"{root}/{ETC}", f"{root}/{LIB}"])
        equal("messages", [(one["file"], one["line"]) for one in got["messages"]], [(f"{root}/{LIB}", 4), (f"{root}/{LIB}", 5)])
        equal("a place", got["settings"][0],
              {"section": "Census", "pattern": None, "key": "IntervalSec", "value": "2min 5s", "file": f"{root}/{ETC}", "line": 2})
        equal("a subtree", got["settings"][-3],
              {"section": "Subtree", "pattern": "a/*", "key": "OverheadOn", "value": "1%", "file": f"{root}/{ETC}", "line": 5})

        got = document("--file", f"{root}/{LIB}")
        equal("one file alone", ([one["file"] for one in got["files"]], got["settings"][0]["value"], got["settings"][1]["value"]),
              ([f"{root}/{LIB}"], "60s", "1%"))

        done = run("config", "--json", "--file", f"{root}/nothing")
        got = json.loads(done.stdout)
        equal("a file that is not there is a failure", (done.returncode, got["failed"]), (1, True))
        equal("and told", done.stderr.decode(), f"shrinkwatchctl: {root}/nothing: This cannot be read: No such file or directory. It is left out.\n")
        equal("in the document too", got["messages"],
              [{"file": f"{root}/nothing", "line": None, "text": "This cannot be read: No such file or directory. It is left out."}])
        equal("with the defaults", got["settings"][0]["value"], "60s")
        with open("/dev/full", "wb") as full:
            equal("a full disk", run("config", "--file=/dev/null", stdout=full).returncode, 1)


def test_bytes():
    with Tree(etc=b"[Metrics]\nTextFile=/a\xff\xe2\x80\xaeb\n[Subtree \x1b[31m]\n[\x1b]\n") as root:
        for locale in ("C", "C.UTF-8"):
            done = run("config", "--root", root, locale=locale)
            both = done.stdout + done.stderr
            check(f"{locale}: no control, nothing that turns a line round", not re.search(rb"[\x00-\x09\x0b-\x1f\x7f\xff]|\xe2\x80\xae", both), both)
            check(f"{locale}: what was there", rb"/a\xff\xe2\x80\xaeb" in both and rb"Subtree \x1b[31m" in both and rb"[\x1b]" in both, both)
        check("JSON is text", document("--root", root)["settings"])


def test_page():
    """Keys in the order of the table, in the sections that they belong to, with their defaults."""
    with Tree(etc="[Subtree a]\n") as root:
        settings = document("--root", root)["settings"]
    found = []
    for title, body in re.findall(r"^\.Sh (?:THE SECTION|SECTIONS) \[(\w+).*?\]\n(.*?)(?=^\.Sh )", PAGE, re.MULTILINE | re.DOTALL):
        for item in re.split(r"^\.It (?=Va )", body, flags=re.MULTILINE)[1:]:
            keys = re.findall(r"Va (\w+)=", item.splitlines()[0])
            default = re.search(r"^Default: (.+)\.$", item, re.MULTILINE)
            values = default[1].split(", ") if default else [None] * len(keys)
            equal(f"a default for each of {', '.join(keys)}", len(values), len(keys))
            found += [(title, key, "" if value == "none" else value) for key, value in zip(keys, values)]
    want = [(s["section"], s["key"], None if s["section"] == "Subtree" else s["value"]) for s in settings]
    equal("the manual page has the keys and defaults of the table", found, want)


def main():
    test_table()
    test_files()
    test_bytes()
    test_page()
    finish()


main()
