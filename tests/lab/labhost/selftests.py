# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernel's own selftests of memory cgroups, from the source that our kernels are built from.

    CACHE/selftests/ENTRY/{PROGRAM..., info.json, build.log}
    CACHE/selftests.lock    flock: exclusive while building

ENTRY is named by the version of the source and a hash over what else decides: programs, compiler, libc. A scenario asks for
them by name, as for any program: programs=test_kmem,test_memcontrol. A build takes half a minute, most of it for finding
a few files in the archive.
"""

import fcntl
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from . import LabError, builds, debian, kernels

PROGRAMS = ("test_kmem", "test_memcontrol")
DIRECTORY = "tools/testing/selftests"
# The tests, what their Makefile includes, and what both ask for by #include.
MEMBERS = (f"*/{DIRECTORY}/cgroup/*", f"*/{DIRECTORY}/clone3/*.h", f"*/{DIRECTORY}/pidfd/*.h", f"*/{DIRECTORY}/*.h",
           f"*/{DIRECTORY}/lib.mk")
FORMAT = 1  # of an entry; a new number makes new entries of the same source


def build_hash():
    libc = debian.run(["ldd", "--version"]).splitlines()[0]
    return hashlib.sha256(json.dumps([FORMAT, PROGRAMS, builds.compiler(), libc]).encode()).hexdigest()[:8]


def get(name, say=lambda text: None):
    """The path of a selftest, built first if the cache has none of this source; None if there is none of that name."""
    if name not in PROGRAMS:
        return None
    package, version, deb = builds.source(say)
    entry = kernels.cache_directory() / "selftests" / f"{package}_{version}-s{build_hash()}"
    if not entry.exists():
        # A lock of its own: a kernel that is being built is not to be waited for.
        with kernels.holding("selftests.lock", fcntl.LOCK_EX, say, "another run is building selftests"):
            if not entry.exists():
                say(f"# building {', '.join(PROGRAMS)} of {package} {version}")
                _build(deb, entry)
    return entry / name


def _build(deb, entry):
    entry.parent.mkdir(parents=True, exist_ok=True)
    for leftover in entry.parent.glob(".building-*"):  # of a build that was killed; we hold the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".building-") as temporary:
        source, target = Path(temporary) / "source", Path(temporary) / "entry"
        source.mkdir()
        target.mkdir()
        debian.unpack_source(deb, source, MEMBERS)
        directory = source / DIRECTORY / "cgroup"
        if not (directory / "Makefile").exists():
            raise LabError(f"{deb}: no {DIRECTORY}/cgroup in it")
        out = Path(temporary) / "out"
        out.mkdir()
        # Settings of make in the environment are not for this make.
        log = debian.run(["env", "-u", "MAKEFLAGS", "-u", "CROSS_COMPILE", "-u", "LLVM", "make", "-C", directory,
                          f"OUTPUT={out}", *(out / name for name in PROGRAMS)])
        for name in PROGRAMS:
            shutil.copy(out / name, target / name)
        (target / "build.log").write_text(log, encoding="utf-8")
        (target / "info.json").write_text(json.dumps({"deb": deb.name, "compiler": builds.compiler()}, indent=1),
                                          encoding="utf-8")
        target.rename(entry)
