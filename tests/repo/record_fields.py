#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Print the members of every struct in bpf/record.h as SW_FIELD(struct, member), or, with --anchors, one variable of each struct.

A member that is missed here is found missing by test-record, which also reads the objects' BTF from the other side.
"""

import pathlib
import re
import sys


def structs(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    for name, body in re.findall(r"^struct (sw_\w+) \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        members = []
        for declaration in body.split(";")[:-1]:
            first, *others = declaration.split(",")
            members += [re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part.strip())[1] for part in [first, *others]]
        yield name, members


def main():
    text = pathlib.Path(sys.argv[1]).read_text()
    license_line = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */"
    if "--anchors" in sys.argv:
        print(license_line, '#include "bpf/record.h"', sep="\n")
        for name, _ in structs(text):
            print(f"struct {name} anchor_{name};")
    else:
        for name, members in structs(text):
            for member in members:
                print(f"SW_FIELD({name}, {member})")


if __name__ == "__main__":
    main()
