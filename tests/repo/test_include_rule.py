#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Who includes whom: the #include lines of daemon/, ctl/ and bpf/ against the table in ARCHITECTURE.md."""

import dataclasses
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADING = "## Who may include whom"
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# Header → library. What is in none of these is the C library's or the kernel's.
LIBRARIES = {
    "bpf/*": "libbpf",
    "libcgroup*": "libcgroup",
    "jansson*": "jansson",
    "libsmartcols/*": "libsmartcols",
    "libsmartcols.h": "libsmartcols",
    "systemd/*": "libsystemd",
    "ini.h": "inih",
}
SYSTEM = re.compile(r"^(sys|linux|asm|arpa|net|netinet|bits)/[\w./-]+\.h$|^[a-z][a-z0-9_]*\.h$")


@dataclasses.dataclass
class Room:
    level: int
    name: str
    patterns: list
    libraries: set


def read_table(text):
    """The rooms of the first table below the heading."""
    rooms, inside = [], False
    for line in text.split(HEADING, 1)[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            if inside:
                break
            continue
        inside = True
        if cells[0].isdigit():
            level, name, files, libraries = cells
            rooms.append(Room(int(level), name, files.split(), {word.strip() for word in libraries.split(",") if word.strip()}))
    return rooms


def room_of(rooms, path):
    found = [room for room in rooms if any(fnmatch.fnmatchcase(path, pattern) for pattern in room.patterns)]
    return found[0] if len(found) == 1 else None


def resolve(path, header):
    """A quoted header, as the compiler looks for it: beside the file, from the root, in daemon/, among the generated ones."""
    if header == "config.h":
        return header
    if header.endswith(".skel.h"):
        return "bpf/" + header.rpartition("/")[2]
    for candidate in (pathlib.PurePosixPath(path).parent / header, pathlib.PurePosixPath(header), pathlib.PurePosixPath("daemon") / header):
        parts = []
        for part in candidate.parts:
            if part == ".." and parts:
                parts.pop()
            else:
                parts.append(part)
        if (ROOT / "/".join(parts)).is_file():
            return "/".join(parts)
    return None


def complaints(rooms, path, text, resolver=resolve):
    """What is wrong with the #include lines of one file."""
    room = room_of(rooms, path)
    if not room:
        return [f"{path}: belongs to no room, or to more than one"]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, header = match.groups()
        where = f"{path}:{number}: {header}"
        library = next((lib for pattern, lib in LIBRARIES.items() if fnmatch.fnmatchcase(header, pattern)), None)
        if kind == "<":
            if library and library not in room.libraries:
                found.append(f"{where}: {room.name} may not use {library}")
            elif not library and not SYSTEM.match(header):
                found.append(f"{where}: a library that the table does not know")
            continue
        target = resolver(path, header)
        other = room_of(rooms, target) if target else None
        if not other:
            found.append(f"{where}: belongs to no room")
        elif other.name == "skeletons" and room.name != "probe":
            found.append(f"{where}: only probe includes skeletons")
        elif other.name in ("kernel", "programs") and room.name not in ("kernel", "programs"):
            found.append(f"{where}: the programs' side of bpf/")
        elif other.name != room.name and other.level >= room.level:
            found.append(f"{where}: {room.name} (level {room.level}) may not include {other.name} (level {other.level})")
    return found


def self_check(rooms):
    """Lines that must be complained about, and lines that must not: a test that cannot fail is none."""
    bad = [
        ("daemon/census.c", '#include "probe.h"'),
        ("daemon/census.c", '#include "daemon/reading.h"'),
        ("daemon/identity.c", '# include "pins.h"'),
        ("daemon/escape.c", '#include "census.h"'),
        ("daemon/census.c", "#include <bpf/libbpf.h>"),
        ("daemon/reading.c", '#include "bpf/walk.skel.h"'),
        ("daemon/probe.c", '#include "bpf/kernel.bpf.h"'),
        ("daemon/probe.c", "#include <libcgroup.h>"),
        ("daemon/reading.c", "#include <jansson.h>"),
        ("daemon/json.c", "#include <libsmartcols/libsmartcols.h>"),
        ("daemon/json.c", "#include <glib/glib.h>"),
        ("daemon/json.c", '#include "nowhere.h"'),
        ("daemon/stranger.c", ""),
    ]
    good = [
        ("daemon/census.c", '#include "util.h"\n#include "bpf/record.h"\n#include <stdlib.h>\n#include <sys/stat.h>'),
        ("daemon/probe.c", '#include <bpf/libbpf.h>\n#include "bpf/walk.skel.h"\n#include "probe.h"'),
        ("ctl/main.c", '#include "config.h"\n#include "reading.h"\n#include <jansson.h>\n#include <libsmartcols.h>'),
    ]
    names = {"nowhere.h": None, "config.h": "config.h"}

    def resolver(_path, header):
        if header in names:
            return names[header]
        return header if "/" in header else f"daemon/{header}"

    missed = [f"{path}: {text}: not noticed" for path, text in bad if len(complaints(rooms, path, text, resolver)) != 1]
    return missed + [line for path, text in good for line in complaints(rooms, path, text, resolver)]


def main():
    rooms = read_table((ROOT / "ARCHITECTURE.md").read_text())
    files = sorted(file for room in ("bpf", "daemon", "ctl") for file in (ROOT / room).glob("*.[ch]"))
    points = [("the table has rooms", [] if len(rooms) > 8 else ["no table found"]), ("bad lines are noticed", self_check(rooms))]
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        points.append((path, complaints(rooms, path, file.read_text())))
    print(f"1..{len(points)}")
    for number, (name, found) in enumerate(points, 1):
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found:
            print(f"# {line}")
    return 1 if any(found for _, found in points) else 0


if __name__ == "__main__":
    sys.exit(main())
