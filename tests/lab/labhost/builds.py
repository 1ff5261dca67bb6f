# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels of our own: Debian's linux-source with the lab's configuration, without and with the lab's patches.

In the cache:

    kernels/VARIANT/ENTRY/   as for stock kernels, and vmlinux.zst with its DWARF, build.log
    work/TREE/src, obj       source and objects of one source version and configuration
    build.lock               flock: exclusive while building

ENTRY is named by the version of the source and a hash over all that a build is made from: configuration, patches,
compiler. All variants of one configuration are built in the same tree, one after the other, and a file of the source is
written only when its text changes; so each costs what its patches touch, and no more.
"""

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import LabError, debian, kernels

LAB = Path(__file__).resolve().parent.parent
CONFIG = LAB / "config"
PATCHES = LAB / "patches/v7.3"
MUTANTS = LAB / "mutants"

SUITES = (("main", "trixie-backports"),)
PACKAGE = r"linux-source-(7\.3)"
FORMAT = 1  # of an entry; a new number makes new entries of the same source


@dataclass(frozen=True)
class Variant:
    about: str
    configs: tuple  # fragments in config/, later ones win
    patches: tuple  # paths, applied in this order


def _patches(count):
    """The first so many patches of the series."""
    return tuple(sorted(PATCHES.glob("*.patch"))[:count])


# In the order in which they are built most cheaply: the first patch touches a header that most files include.
VARIANTS = {
    "7.3-plain": Variant("without patches", ("lean",), ()),
    "7.3-units63": Variant("with the first patch", ("lean",), _patches(1)),
    "7.3-ondemand": Variant("with both patches", ("lean",), _patches(2)),
    "7.3-debug": Variant("with both patches, KASAN, lockdep and VM checks", ("lean", "debug"), _patches(2)),
}
MAIN = ("7.3-plain", "7.3-units63", "7.3-ondemand")  # what "own" and "all" mean


def variant(name):
    """A variant by name. 7.3-mutant-NAME: both patches, or one if it says 'Patches: 1', and mutants/NAME.patch, which breaks them."""
    if name in VARIANTS:
        return VARIANTS[name]
    mutant = MUTANTS / f"{name.removeprefix('7.3-mutant-')}.patch"
    if name.startswith("7.3-mutant-") and mutant.is_file():
        count = 1 if re.search(r"^Patches: 1$", mutant.read_text(encoding="utf-8"), re.M) else 2
        return Variant(f"with {('the first patch', 'both patches')[count - 1]}, broken: {mutant.stem}", ("lean",),
                       (*_patches(count), mutant))
    raise LabError(f"no kernel {name}: {', '.join(names())}")


def mutants():
    return tuple(f"7.3-mutant-{path.stem}" for path in sorted(MUTANTS.glob("*.patch")))


def names():
    return (*VARIANTS, *mutants())


@functools.cache
def compiler():
    return debian.run(["gcc", "-dumpfullversion"]).strip()


def fragments(wanted):
    """The options of a configuration, a line each, without comments."""
    text = "".join((CONFIG / f"{name}.config").read_text(encoding="utf-8") for name in wanted.configs)
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith("CONFIG_"))


def build_hash(wanted):
    # What a patch says about itself is not what a kernel is made from.
    texts = [path.read_text(encoding="utf-8").partition("\ndiff --git")[2] for path in wanted.patches]
    return hashlib.sha256(json.dumps([FORMAT, compiler(), fragments(wanted), texts]).encode()).hexdigest()[:12]


def cached(name):
    """Complete entries of a variant as it is now, oldest source first."""
    return kernels.entries(name, f"*-b{build_hash(variant(name))}")


def get(name, say=lambda text: None):
    """The newest cached kernel of a variant, built first if the cache has none."""
    found = cached(name)
    return found[-1] if found else build([name], say)[name]


def _building(say):
    return kernels.holding("build.lock", fcntl.LOCK_EX, say, "another build is going on")


def source(say, refresh=False):
    """The newest linux-source → (package, version, path of the .deb); what the cache has unless it must be refreshed."""
    directory = kernels.cache_directory() / "debs"
    directory.mkdir(exist_ok=True)
    here = [(m[1], m[2], p) for p in directory.glob("linux-source-*.deb")
            if (m := re.fullmatch(rf"({PACKAGE.replace('(', '(?:')})_(.+)_{debian.ARCHITECTURE}\.deb", p.name))]
    here.sort(key=functools.cmp_to_key(debian.compare_packages))
    if here and not refresh:
        return here[-1]
    with kernels.locked(exclusive=True, say=say):
        apt = debian.Apt(kernels.cache_directory() / "apt-source", SUITES)
        try:
            apt.update()
            name, version = apt.newest(PACKAGE)
            path = debian.deb_path(directory, name, version)
            if not path.exists() or not apt.is_intact(name, version, path):
                say(f"# fetching {name} {version}")
                apt.download(name, version, directory)
            return name, version, path
        except LabError as e:
            if not here:
                raise
            say(f"# cannot refresh the package lists, going on with what is here: {str(e).splitlines()[-1]}")
            return here[-1]


def build(wanted, say=lambda text: None, refresh=False):
    """Build what the cache does not have → {name: Kernel}. Takes minutes each; says how long each stage took."""
    found = {}
    with _building(say) as lock:
        package = _timed(say, "source at hand", source, say, refresh)
        for name in sorted(wanted, key=lambda n: names().index(n)):
            entry = kernels.cache_directory() / "kernels" / name / f"linux_{package[1]}-b{build_hash(variant(name))}"
            if not entry.exists():
                say(f"# {name}: building {package[0]} {package[1]} {variant(name).about}; on two CPUs about half an hour, or minutes if "
                    "most of it is there already")
                _build(name, package, entry, say, lock)
            found[name] = kernels.Kernel(name, entry)
    return found


def prune(say):
    """Remove what no variant is made from any more, and source and objects. The next build begins anew."""
    with _building(say):
        shutil.rmtree(kernels.cache_directory() / "work", ignore_errors=True)
        with kernels.locked(exclusive=True, say=say):  # guests that run may have one of them
            wanted = {cached(name)[-1].directory for name in names() if cached(name)}
            for entry in (kernels.cache_directory() / "kernels").glob("7.3-*/*"):
                if entry not in wanted:
                    say(f"# {entry.parent.name}: removing {entry.name}")
                    kernels.remove(entry)


def _timed(say, what, function, *arguments):
    begin = time.monotonic()
    result = function(*arguments)
    say(f"#   {what}: {time.monotonic() - begin:.0f} s")
    return result


def _build(name, package, entry, say, lock):
    wanted = variant(name)
    tree = Tree(package, wanted, lock)
    _timed(say, "unpacked", tree.unpack)
    _timed(say, "patched", tree.patch, wanted.patches)
    entry.parent.mkdir(parents=True, exist_ok=True)
    for leftover in entry.parent.glob(".building-*"):  # of a build that was killed; we hold the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".building-") as temporary:
        target = Path(temporary) / "entry"
        (target / "modules").mkdir(parents=True)
        log = target / "build.log"
        try:
            _timed(say, "configured", tree.configure, fragments(wanted), log)
            _timed(say, "compiled", tree.compile, log)
        except LabError:
            shutil.copy(log, tree.directory / "failed.log")
            raise
        _timed(say, "put away", tree.take, target, name in VARIANTS)
        target.joinpath("info.json").write_text(json.dumps({
            "name": package[0], "version": package[1], "release": tree.release(), "debs": [package[2].name],
            "modules": {}, "builtin": sorted(kernels.normal(m) for m in kernels.MODULES), "absent": [],
            "compiler": compiler(), "patches": [p.name for p in wanted.patches],
        }, indent=1), encoding="utf-8")
        target.rename(entry)


class Tree:
    """One source tree and its objects, in which one variant after the other is built."""

    def __init__(self, package, wanted, lock=None):
        self.lock = lock  # an open file
        digest = hashlib.sha256(json.dumps([compiler(), fragments(wanted)]).encode()).hexdigest()[:8]
        self.deb = package[2]
        self.directory = kernels.cache_directory() / "work" / f"{package[1]}-{digest}"
        self.source, self.objects, self.pristine = (self.directory / n for n in ("src", "obj", "pristine"))

    def unpack(self):
        if self.source.exists():
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("unpacking", "obj", "pristine"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        unpacking = self.directory / "unpacking"
        unpacking.mkdir()
        debian.unpack_source(self.deb, unpacking)
        if not (unpacking / "mm/shrinker.c").exists():
            raise LabError(f"{self.deb}: no kernel source in it")
        unpacking.rename(self.source)

    def patch(self, patches):
        """Make the source what it is with these patches, writing only files that differ."""
        self.pristine.mkdir(exist_ok=True)
        touched = {name for path in patches for name in re.findall(r"^\+\+\+ b/(\S+)", path.read_text("utf-8"), re.M)}
        for name in touched:
            if not (self.pristine / name).exists():
                (self.pristine / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.source / name, self.pristine / name)
        with tempfile.TemporaryDirectory(dir=self.directory, prefix=".patching-") as temporary:
            shutil.copytree(self.pristine, temporary, dirs_exist_ok=True)
            for path in patches:
                debian.run(["patch", "-p1", "--silent", "--fuzz=0", "--no-backup-if-mismatch", "-d", temporary, "-i", path])
            for path in Path(temporary).rglob("*"):
                inside = path.relative_to(temporary)
                if path.is_file() and path.read_bytes() != (self.source / inside).read_bytes():
                    (self.source / inside).write_bytes(path.read_bytes())

    def _make(self, log, *words, **env):
        # A build must not depend on who builds where, nor on settings of make that happen to be in the environment.
        clean = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "ARCH", "CROSS_COMPILE", "KCONFIG_CONFIG")}
        command = ["make", "-s", "-C", self.source, f"O={self.objects}", f"-j{len(os.sched_getaffinity(0))}",
                   "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 2026", "KBUILD_BUILD_USER=lab",
                   "KBUILD_BUILD_HOST=lab", "KBUILD_BUILD_VERSION=1", *words]
        with open(log, "ab") as output:
            # setpriv: if this process is killed, make goes too. What make has started may take a moment longer, and removes what it
            # has not finished: it has the lock as well, so nobody else builds in this tree before it is gone.
            code = subprocess.run(["setpriv", "--pdeathsig", "TERM", *command], stdin=subprocess.DEVNULL, check=False,
                                  pass_fds=[self.lock.fileno()] if self.lock else [], stdout=output,
                                  stderr=output, env=clean | {"LC_ALL": "C.UTF-8"} | env).returncode
        if code != 0:
            lines = Path(log).read_text(errors="replace").splitlines()
            raise LabError(f"make {' '.join(words)}: exit status {code}, in {self.directory}; the end of its log, "
                           "failed.log:\n" + "\n".join(lines[-25:]))

    def configure(self, text, log):
        """The fragments over allnoconfig. An option that does not come out as it is named is an error."""
        self.objects.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self.directory, suffix=".config", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self._make(log, "allnoconfig", KCONFIG_ALLCONFIG=file.name)
        result = (self.objects / ".config").read_text(encoding="utf-8")
        have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", result, re.M))
        asked = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M))
        wrong = [f"{key}={value}" for key, value in asked.items() if have.get(key, "n") != value]
        if wrong:
            raise LabError("the kernel's configuration did not take these options (renamed, or without what they depend "
                           f"on): {' '.join(wrong)}")

    def compile(self, log):
        self._make(log, "bzImage")

    def release(self):
        return (self.objects / "include/config/kernel.release").read_text(encoding="utf-8").strip()

    def take(self, target, dwarf):
        shutil.copy(self.objects / "arch/x86/boot/bzImage", target / "vmlinuz")
        shutil.copy(self.objects / ".config", target / "config")
        if dwarf:  # 95 MB, for drgn; nobody looks into a mutant
            debian.run(["zstd", "-q", "-3", "-T0", self.objects / "vmlinux", "-o", target / "vmlinux.zst"])
