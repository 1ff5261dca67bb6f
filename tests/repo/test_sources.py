#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every file of the repository: its licence line, its length, words that do not belong in it."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES_MAX = 600
USER_SPACE = "LGPL-2.1-or-later"
PROGRAMS = "GPL-2.0-only OR BSD-2-Clause"
KERNEL = "GPL-2.0-only"
# Text that people read, data, and formats that have no comments.
NO_LICENCE_LINE = re.compile(r"(^LICENSES/|\.md$|\.json$|\.gitignore$|/corpus/|/data/|\.txt$|\.golden$|\.expected$|^debian/(changelog|copyright|source/format)$)")
LICENCE = re.compile(r"SPDX-License-Identifier: (.+?)\s*(?:\*/|-->)?\s*$")
# Written so that these lines are not found in this very file.
FORBIDDEN = [
    (re.compile(r"https?:/" + r"/(?!www\.debian\.org/doc/)[^\s/\"'<>]*debian", re.IGNORECASE), "a package mirror"),
    (re.compile(r"(?<![\w.$}])/" + r"(home|root|work)/[\w.]"), "a path of somebody's machine"),
    (re.compile(r"\bFIX" + r"ME\b|\bX" + r"XX\b"), "unfinished work"),
    (re.compile(r"^(<{7}|>{7}) "), "a merge that was not finished"),
]


def files():
    """Paths of the files that git has; of all files, where there is no git."""
    try:
        out = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, check=True
        ).stdout
        names = [os.fsdecode(name) for name in out.split(b"\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = [p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file()]
        names = [name for name in names if not re.match(r"\.git/|build(-[^/]*)?/|.*__pycache__/", name)]
    return sorted(name for name in names if (ROOT / name).is_file())


def complaints(name, data):
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [] if NO_LICENCE_LINE.search(name) else [f"{name}: not UTF-8"]
    lines = text.splitlines()
    found = []
    if not NO_LICENCE_LINE.search(name):
        # A patch says it in its message, where git am finds nothing else that it would trip over.
        head = text.partition("\ndiff --git")[0].splitlines() if name.endswith(".patch") else lines[:3]
        stated = next((match[1] for line in head if (match := LICENCE.search(line))), None)
        expected = PROGRAMS if re.search(r"^bpf/.*\.[ch]$|\.bpf\.[ch]$", name) else USER_SPACE
        if name.endswith(".patch"):
            expected = KERNEL
        if stated != expected:
            found.append(f"{name}: the licence line says {stated}, not {expected}")
        if len(lines) > LINES_MAX:
            found.append(f"{name}: {len(lines)} lines, split it")
    for number, line in enumerate(lines, 1):
        found += [f"{name}:{number}: {what}" for pattern, what in FORBIDDEN if pattern.search(line)]
    return found


def self_check():
    spdx = "# SPDX-License-Identifier: "
    bad = [
        ("daemon/a.c", "int a;\n"),
        ("daemon/a.c", "/* SPDX-License-Identifier: MIT */\n"),
        ("bpf/a.h", "/* SPDX-License-Identifier: LGPL-2.1-or-later */\n"),
        ("tools/a", spdx + USER_SPACE + "\n" * (LINES_MAX + 1)),
        ("tools/a", spdx + USER_SPACE + "\ncurl http:/" + "/deb.debian" + ".org/\n"),
        ("tools/a", spdx + USER_SPACE + "\ncd /" + "home/me\n"),
        ("a.md", "see /" + "work/main\n"),
        ("tests/a.patch", "a\n\ndiff --git a/b b/b\n+/* SPDX-License-Identifier: GPL-2.0-only */\n"),
    ]
    good = [
        ("daemon/a.c", "/* SPDX-License-Identifier: LGPL-2.1-or-later */\n"),
        ("bpf/a.bpf.c", "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n"),
        ("tests/a.patch", "a\n\n\n\n\nSPDX-License-Identifier: GPL-2.0-only\n\ndiff --git a/b b/b\n"),
        ("docs/a.json", "{}\n"),
        ("debian/copyright", "Format: https:/" + "/www.debian.org/doc/packaging-manuals/\n"),
        ("LICENSES/a.txt", "\n" * (LINES_MAX + 1)),
    ]
    found = [f"not noticed: {name}: {text[:60]!r}" for name, text in bad if not complaints(name, text.encode())]
    return found + [line for name, text in good for line in complaints(name, text.encode())]


def commands_of_readme():
    """Each command line in the README starts with a program that is there or that the build makes; its verb is one of help's."""
    found = []
    blocks = re.findall(r"^```(?:sh|console)?\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    words = [line.lstrip("# $").split() for block in blocks for line in block.splitlines() if re.match(r"[#$] |tools/|build/", line)]
    if not words:
        return ["no command found in README.md"]
    build = pathlib.Path(os.environ.get("MESON_BUILD_ROOT", ROOT / "build"))
    for command in words:
        program, verb = command[0], next((word for word in command[1:] if not word.startswith("-")), None)
        if program.startswith("tools/") and not os.access(ROOT / program, os.X_OK):
            found.append(f"{program} is not there")
        if program.rpartition("/")[2] not in ("shrinkwatchctl", "run"):
            continue
        help_text = subprocess.run([build / "ctl" / "shrinkwatchctl", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        if verb and not re.search(rf"^\s+{re.escape(verb)}\b", help_text, re.MULTILINE):
            found.append(f"{' '.join(command)}: help knows no {verb}")
        for option in (word.partition("=")[0] for word in command if word.startswith("--")):
            if option not in help_text:
                found.append(f"{' '.join(command)}: help knows no {option}")
    return found


def main():
    points = [("what is bad is noticed", self_check()), ("the commands of README.md exist", commands_of_readme())]
    points += [(name, complaints(name, (ROOT / name).read_bytes())) for name in files()]
    print(f"1..{len(points)}")
    for number, (name, found) in enumerate(points, 1):
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for line in found:
            print(f"# {line}")
    return 1 if any(found for _, found in points) else 0


if __name__ == "__main__":
    sys.exit(main())
