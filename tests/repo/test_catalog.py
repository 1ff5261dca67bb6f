#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""units/shrinkwatch.catalog: an entry for every message of the daemon, each of them whole, and journalctl takes it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CATALOG = ROOT / "units" / "shrinkwatch.catalog"
ID = re.compile(r'\[JOURNAL_(\w+)\] = \{ "([^"]*)"')
HEADERS = ["Subject", "Defined-By", "Support", "Documentation"]
PARTS = ["What it means", "What holds it", "What is safe", "What is not", "Setting"]
# What journalctl(1) shows in place of @FIELD@ is what is in the entry, byte for byte: numbers, nothing that an outsider chooses.
NUMBERS = {"SHRINKWATCH_SERIAL", "SHRINKWATCH_BYTES", "SHRINKWATCH_VALUE", "SHRINKWATCH_LIMIT"}
COLUMNS = 79


def read_ids():
    """NAME → id, as the daemon has them."""
    return dict(ID.findall((ROOT / "daemon" / "journal-id.c").read_text()))


def read_enum():
    header = (ROOT / "daemon" / "journal.h").read_text()
    body = header[header.index("typedef enum JournalMessage {") : header.index("_JOURNAL_MESSAGE_MAX")]
    return re.findall(r"^\s+JOURNAL_(\w+),", body, re.MULTILINE)


def read_catalog(text):
    """A list of (id, header lines, body), as catalog.c of systemd cuts it: "-- id" begins an entry, an empty line its body."""
    entries = []
    for block in re.split(r"^-- ", text, flags=re.MULTILINE)[1:]:
        id_, _, rest = block.partition("\n")
        head, _, body = rest.partition("\n\n")
        entries.append((id_, head.splitlines(), body.rstrip("\n")))
    return entries


def complaints(id_, head, body):
    found = []
    if not re.fullmatch(r"[0-9a-f]{32}", id_):
        found.append(f"no id: {id_}")
    names = [line.partition(": ")[0] for line in head]
    if names != HEADERS:
        found.append(f"the header lines are {names}")
    values = dict(line.partition(": ")[::2] for line in head)
    for name in HEADERS:
        if not values.get(name):
            found.append(f"{name} is empty")
    if values.get("Documentation") != "man:shrinkwatchd(8)":
        found.append("Documentation is not man:shrinkwatchd(8)")
    parts = [match[1] for match in re.finditer(r"^(%s): \S" % "|".join(PARTS), body, re.MULTILINE)]
    if parts != PARTS:
        found.append(f"the parts are {parts}")
    if "shrinkwatchd.conf(5)" not in body.rpartition("Setting: ")[2]:
        found.append("the setting does not say where it is set")
    if body.count("@") % 2:
        found.append("a field that does not end")
    for field in re.findall(r"@(\w*)@", body):
        if field not in NUMBERS:
            found.append(f"@{field}@ is not a number that the daemon makes")
    found += [f"a line of {len(line)} columns: {line}" for line in body.splitlines() + head if len(line) > COLUMNS]
    return found


def self_check():
    good = ("0" * 32, [f"{name}: x" for name in HEADERS[:3]] + ["Documentation: man:shrinkwatchd(8)"],
            "\n\n".join(f"{part}: x" for part in PARTS) + " in shrinkwatchd.conf(5).")
    bad = [
        ("0" * 31, good[1], good[2]),
        (good[0], good[1][1:], good[2]),
        (good[0], ["Subject: "] + good[1][1:], good[2]),
        (good[0], good[1], good[2].replace("What is not: x", "")),
        (good[0], good[1], good[2].replace("What is safe: x", "What is safe: @SHRINKWATCH_CGROUP@")),
        (good[0], good[1], good[2].replace("What is safe: x", "What is safe: @SHRINKWATCH_SERIAL")),
        (good[0], good[1], good[2].replace("(5)", "")),
        (good[0], good[1], good[2].replace("What is safe: x", "What is safe: " + "x" * COLUMNS)),
    ]
    found = [f"not noticed: {entry}" for entry in bad if not complaints(*entry)]
    return found + complaints(*good)


def settings(entry):
    return set(re.findall(r"\b([A-Z]\w+)=", entry[2].rpartition("Setting: ")[2]))


def settings_exist(entries):
    """Every key that an entry names is one of the shipped file, which has them all. None: there is no such file."""
    shipped = ROOT / "conf" / "shrinkwatchd.conf"
    if not shipped.exists():
        return None
    keys = set(re.findall(r"^#?(\w+)=", shipped.read_text(), re.MULTILINE))
    return [f"{entry[0]}: no key {key}" for entry in entries for key in settings(entry) - keys - {"On", "Off"}]


def settings_agree(entries, ids):
    """The key that the daemon's advice names for a kind of finding is among those of its entry. None: no advice was found."""
    advice = re.findall(r"\[FINDING_(\w+)\] = \{(.*?)\n        \}", (ROOT / "daemon" / "advice.c").read_text(), re.DOTALL)
    if not advice:
        return None
    by_id = {entry[0]: entry for entry in entries}
    found = []
    for kind, text in advice:
        match = re.search(r'\.setting = "(\w+)', text)
        if kind not in ids or not match or match[1] not in settings(by_id[ids[kind]]):
            found.append(f"{kind}: advice and catalog name other settings")
    return found


def journalctl_takes_it(entries):
    """Compiled, each entry is there, word by word. None: there is no journalctl."""
    if not shutil.which("journalctl"):
        return None
    with tempfile.TemporaryDirectory() as root:
        directory = pathlib.Path(root, "usr/lib/systemd/catalog")
        directory.mkdir(parents=True)
        shutil.copy(CATALOG, directory)

        def journalctl(*arguments):
            return subprocess.run(["journalctl", f"--root={root}", "--no-pager", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)

        done = journalctl("--update-catalog")
        found = [f"--update-catalog: exit code {done.returncode}"] if done.returncode else []
        found += done.stderr.splitlines()
        for id_, head, body in entries:
            done = journalctl("--list-catalog", id_)
            if done.stdout != f"{id_} shrinkwatch: {head[0].partition(': ')[2]}\n":
                found.append(f"--list-catalog: {done.stdout!r}")
            done = journalctl("--dump-catalog", id_)
            if "\n".join(head) + "\n\n" + body not in done.stdout:
                found.append(f"--dump-catalog: {done.stdout!r}")
    return found


def main():
    ids = read_ids()
    entries = read_catalog(CATALOG.read_text())
    points = [
        ("what is bad is noticed", self_check(), ""),
        ("every message has an id", sorted(set(read_enum()) ^ set(ids)), ""),
        ("the ids are those of the daemon, each once", sorted(ids.values()) != sorted(entry[0] for entry in entries) and ["they are not"], ""),
        ("subjects differ", len({entry[1][0] for entry in entries}) != len(entries) and ["two are alike"], ""),
        ("the settings exist", settings_exist(entries), "conf/shrinkwatchd.conf is not there"),
        ("the settings are those of the advice", settings_agree(entries, ids), "daemon/advice.c has none"),
        ("journalctl takes it", journalctl_takes_it(entries), "journalctl is not installed"),
    ]
    points += [(entry[1][0] if entry[1] else entry[0], complaints(*entry), "") for entry in entries]
    print(f"1..{len(points)}")
    for number, (name, found, reason) in enumerate(points, 1):
        print(f"{'not ok' if found else 'ok'} {number} - {name}{f' # SKIP {reason}' if found is None else ''}")
        for line in found or []:
            print(f"# {line}")
    return 1 if any(found for _, found, _ in points) else 0


if __name__ == "__main__":
    sys.exit(main())
