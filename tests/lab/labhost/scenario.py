# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scenarios: shell files that say in "# lab:" comments what machine they want.

    # lab: nodes=4 possible=6 append="cgroup_disable=memory"

Several such lines add up. The keys are the table below; the options of tests/lab/run of the same names win.
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from . import LabError, explain, rootimage

DIRECTORY = Path(__file__).resolve().parent.parent / "scenarios"
HIERARCHIES = ("v2", "v1", "hybrid")


@dataclass
class Scenario:
    name: str
    path: Path
    title: str
    kernels: tuple = ()      # none: all
    hierarchy: str = "v2"
    nodes: int = 4           # online NUMA nodes
    possible: int = 0        # possible ones; as many as online unless more
    cpus: int = 2
    memory: int = 1024       # MiB, over all nodes
    timeout: int = 180       # seconds
    append: str = ""         # to the kernel's command line
    programs: tuple = ()     # by name, needed
    optional: tuple = ()     # by name, carried if there
    root: str = ""           # boot this root image, with systemd (rootimage.ROOTS); none: busybox in the initramfs
    install: bool = False    # with the root image: what the build installs, where it does
    installed: dict = field(default_factory=dict)  # filled in by who runs it: path in the guest → file
    vmlinux: bool = False    # with the root image: the kernel's vmlinux, with its DWARF, at /lab/vmlinux/vmlinux
    files: tuple = ()        # of tests/lab, carried into /lab
    hand: tuple = ()         # kernels on which it is too long for every day: run there only when it is named
    named: bool = False      # by who runs it
    allow: tuple = field(default=())  # regular expressions: kernel messages that this scenario provokes


def words(text):
    return tuple(text.replace(",", " ").split())


# What a number may be. 64 nodes are as many as a guest can have (guest.command), 255 CPUs as QEMU's APIC.
RANGES = {"nodes": (1, 64), "possible": (0, 64), "cpus": (1, 255), "memory": (128, 1 << 20), "timeout": (1, 7 * 86400)}


def number(key):
    """How a number of RANGES is read."""
    least, most = RANGES[key]

    def read(text):
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise ValueError(f"{text} is no number from {least} to {most}")
        return int(text)
    return read


def hierarchy(text):
    if text not in HIERARCHIES:
        raise ValueError(f"not one of {', '.join(HIERARCHIES)}")
    return text


def root(text):
    if text not in rootimage.ROOTS:
        raise ValueError(f"not one of {', '.join(rootimage.ROOTS)}")
    return text


def yes_or_no(text):
    if text not in ("yes", "no"):
        raise ValueError("neither yes nor no")
    return text == "yes"


# key → how its value is read
KEYS = {
    "kernels": words, "hierarchy": hierarchy, **{key: number(key) for key in RANGES},
    "append": str, "programs": words, "optional": words, "allow": lambda text: (text,),
    "root": root, "vmlinux": yes_or_no, "install": yes_or_no, "files": words, "hand": words,
}
ADDING = ("programs", "optional", "files", "allow")  # these gather over several mentions


def load(name):
    """A scenario by name, or by the path of a file that ends in .sh."""
    path = Path(name) if name.endswith(".sh") else DIRECTORY / f"{name}.sh"
    if not re.fullmatch(r"[\w.,+-]+", path.stem):
        raise LabError(f"{name}: the name of a scenario has letters, digits, and . , + - _ only")
    if not path.is_file():
        raise LabError(f"no file {name}" if name.endswith(".sh") else f"no scenario {name}; --list names them")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as e:
        raise LabError(f"{path} is not UTF-8: {e}") from e
    except OSError as e:
        raise LabError(explain(e)) from e
    comments = [line[1:].strip() for line in lines if line.startswith("#")]
    text = [line for line in comments if line and not line.startswith(("SPDX-", "lab:"))]
    scenario = Scenario(path.stem, path, text[0] if text else "")
    for line in comments:
        if not line.startswith("lab:"):
            continue
        try:
            settings = shlex.split(line[len("lab:"):])
        except ValueError as e:
            raise LabError(f"{path}: '{line}': {e}") from e
        for word in settings:
            key, equals, value = word.partition("=")
            if key not in KEYS or not equals:
                raise LabError(f"{path}: '{word}' is no KEY=VALUE with a key of {', '.join(KEYS)}")
            try:
                value = KEYS[key](value)
                if key == "allow":
                    re.compile(value[0])
            except (ValueError, re.error) as e:
                raise LabError(f"{path}: {key}: {e}") from e
            setattr(scenario, key, getattr(scenario, key) + value if key in ADDING else value)
    if scenario.root and scenario.hierarchy != "v2":
        raise LabError(f"{path}: a root image boots with hierarchy=v2 only")
    for key in ("vmlinux", "install"):
        if getattr(scenario, key) and not scenario.root:
            raise LabError(f"{path}: {key}=yes is for root images")
    for name in scenario.files:
        if not (DIRECTORY.parent / name).is_file():
            raise LabError(f"{path}: {name} is no file of {DIRECTORY.parent}")
    return scenario


def names():
    return sorted(p.stem for p in DIRECTORY.glob("*.sh"))
