# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernels of the lab: Debian's stock cloud images, kept in a cache.

    CACHE/apt/                    lists and state of our own apt
    CACHE/debs/*.deb              packages as downloaded, hashes checked
    CACHE/kernels/SERIES/ENTRY/   what a guest needs of them: vmlinuz, config, modules/*.ko, info.json
    CACHE/lock                    flock: exclusive while fetching or pruning, shared while guests run

ENTRY is NAME_VERSION-rHASH: package name, package version, and a hash of the recipe below, so a change of either makes
a new entry and none is ever modified. Entries are built beside their place and renamed into it; a directory that
exists is complete.

Which entry is used: `fetch` asks the mirrors and takes the newest version of the series. Everything else takes the
newest complete entry that the cache has, without touching the network, and fetches only when there is none. When
`fetch` reaches no mirror but the cache has an entry, it says so and goes on with that one.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import LabError, debian, explain


@dataclass(frozen=True)
class Series:
    suites: tuple    # (archive, suite) pairs that carry it
    pattern: str     # the package that holds the kernel image; its one group is the release
    packages: tuple  # all packages to take files from, same version, {} being the release


# The release is a part of the package's name and the name of its directory in lib/modules.
SERIES = {
    "6.1": Series(
        (("main", "bookworm"), ("security", "bookworm-security")),
        r"linux-image-(6\.1\.[0-9]+-[0-9]+-cloud-amd64)", ("linux-image-{}",)),
    "6.12": Series(
        (("security", "bookworm-security"),),
        r"linux-image-(6\.12\.[0-9]+\+deb12-cloud-amd64)", ("linux-image-{}",)),
    # From 7.0 on the image package is empty: binary has vmlinuz, base has config and modules.builtin.
    "7.3": Series(
        (("main", "trixie-backports"),),
        r"linux-binary-(7\.3\.[0-9]+\+deb13-cloud-amd64)",
        ("linux-binary-{}", "linux-base-{}", "linux-modules-{}")),
}

# Modules that scenarios may need, those they depend on come along. A name that a kernel has built in, or has not at
# all, is fine: info.json says which.
MODULES = (
    "loop", "brd", "zram", "ext4", "xfs", "overlay", "squashfs", "fuse",     # block devices and file systems
    "lzo", "lzo-rle", "lz4", "zstd", "crc32c_generic", "libcrc32c",           # what zram and they ask crypto for
    "virtio_pci", "virtio_blk",                                              # --drive by hand, while debugging
    "dummy", "veth", "inet_diag", "tcp_diag", "udp_diag", "unix_diag", "netlink_diag", "af_packet_diag",
)
FORMAT = 2  # of an entry; a new number makes new entries of the same packages


def recipe_hash():
    return hashlib.sha256(json.dumps([FORMAT, MODULES]).encode()).hexdigest()[:8]


def cache_directory():
    """$SHRINKWATCH_CACHE, or shrinkwatch in the user's cache directory; HOME may be unset (CI, minimal containers)."""
    if os.environ.get("SHRINKWATCH_CACHE"):
        path = Path(os.environ["SHRINKWATCH_CACHE"])
    elif os.environ.get("XDG_CACHE_HOME"):
        path = Path(os.environ["XDG_CACHE_HOME"]) / "shrinkwatch"
    else:
        path = Path(os.environ.get("HOME") or "/root") / ".cache/shrinkwatch"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LabError(f"the cache {path} cannot be used: {explain(e)}. SHRINKWATCH_CACHE names another directory") from e
    return path.resolve()


@contextlib.contextmanager
def holding(name, operation, say, other):
    """A flock on CACHE/name, for as long as the file that it gives is open somewhere. other: who may have it, told if that is to be waited for.

    Whoever takes several takes them in this order: build.lock, lock, roots.lock or selftests.lock.
    """
    with open(cache_directory() / name, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"# {other}, it has {file.name}: waiting for its end")
            fcntl.flock(file, operation)
        yield file


def locked(exclusive, say=lambda text: None):
    """The lock of what guests are made from: shared to use it, exclusive to change it."""
    if exclusive:
        return holding("lock", fcntl.LOCK_EX, say, "a run of guests or another fetch is going on")
    return holding("lock", fcntl.LOCK_SH, say, "a fetch is going on")


def remove(path):
    """A file, or a directory with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


INFO = {"name": str, "version": str, "release": str, "debs": list, "modules": dict, "builtin": list}


def read_info(directory):
    """info.json of an entry; LabError if it is damaged, as by a disk that was full or a machine that went down."""
    path = Path(directory) / "info.json"
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
        wrong = [key for key, kind in INFO.items() if not isinstance(info, dict) or not isinstance(info.get(key), kind)]
        if wrong:
            raise ValueError(f"no {', '.join(wrong)} in it")
    except (OSError, ValueError) as e:
        raise LabError(f"{path} is damaged ({explain(e)}): remove {path.parent}, and it is made again when it is needed") from e
    return info


class Kernel:
    """One entry of the cache."""

    def __init__(self, series, directory):
        self.series = series
        self.directory = Path(directory)
        self.info = read_info(directory)
        self.release = self.info["release"]
        self.package = (self.info["name"], self.info["version"])
        self.vmlinuz = self.directory / "vmlinuz"
        self.family, _, self.build = series.partition("-")  # of ours: 7.3 and what it was built with

    def __str__(self):
        return f"{self.series}: {self.package[0]} {self.package[1]}"


_told = set()  # damaged entries that were told of


def entries(series, pattern):
    """Complete entries of that pattern, oldest version first. A damaged one is told of, once, and left out."""
    found = []
    for path in (cache_directory() / "kernels" / series).glob(f"{pattern}/info.json"):
        try:
            found.append(Kernel(series, path.parent))
        except LabError as e:
            if path not in _told:
                print(f"# left out: {e}", file=sys.stderr, flush=True)
            _told.add(path)
    return sorted(found, key=functools.cmp_to_key(lambda a, b: debian.compare_packages(a.package, b.package)))


def cached(series):
    """Complete entries of this series and this recipe, oldest version first."""
    return entries(series, f"*-r{recipe_hash()}")


def get(series, say=lambda text: None):
    """The newest cached kernel of a series, fetched first if the cache has none."""
    found = cached(series)
    return found[-1] if found else fetch([series], say)[series]


def fetch(names, say=lambda text: None, prune=False):
    """The newest kernels that the mirrors have → {series: Kernel}. LabError if one can be had from nowhere."""
    with locked(exclusive=True, say=say):
        apt = debian.Apt(cache_directory() / "apt", sorted({s for name in names for s in SERIES[name].suites}))
        unreachable = None
        try:
            apt.update()
        except LabError as e:
            unreachable = e
            say(f"# cannot refresh the package lists, going on with what is here: {str(e).splitlines()[-1]}")
        found = {}
        for name in names:
            try:
                if unreachable and cached(name):
                    found[name] = cached(name)[-1]
                else:  # the lists of an earlier update may name a package that is here already
                    found[name] = _newest(apt, name, say)
            except LabError as e:
                raise unreachable or e
            if prune:
                _prune(found[name], say)
        return found


def _newest(apt, series, say):
    name, version = apt.newest(SERIES[series].pattern)
    entry = cache_directory() / "kernels" / series / f"{name}_{version}-r{recipe_hash()}"
    if not entry.exists():
        say(f"# {series}: fetching {name} {version}")
        _build(apt, series, name, version, entry)
    return Kernel(series, entry)


def _prune(kernel, say):
    """Remove every other entry of the series, and packages that no entry was made from."""
    for entry in kernel.directory.parent.iterdir():
        if entry != kernel.directory:
            say(f"# {kernel.series}: removing {entry.name}")
            remove(entry)
    try:
        used = {deb for p in (cache_directory() / "kernels").glob("*/*/info.json") for deb in read_info(p.parent)["debs"]}
    except LabError as e:
        say(f"# not removing packages, an entry does not tell which it needs: {e}")
        return
    for deb in (cache_directory() / "debs").glob("*.deb"):
        if deb.name not in used:
            deb.unlink()


def _build(apt, series, name, version, entry):
    """Make one entry. Nothing appears at its place until it is whole."""
    release = re.fullmatch(SERIES[series].pattern, name)[1]
    debs_directory = cache_directory() / "debs"
    debs_directory.mkdir(exist_ok=True)
    entry.parent.mkdir(parents=True, exist_ok=True)
    for leftover in entry.parent.glob(".building-*"):  # of a fetch that was killed; we hold the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=".building-") as temporary:
        target = Path(temporary) / "entry"
        (target / "modules").mkdir(parents=True)
        tree = Tree(release)
        debs = []
        for template in SERIES[series].packages:
            package = template.format(release)
            deb = debian.deb_path(debs_directory, package, version)
            if not deb.exists() or not apt.is_intact(package, version, deb):
                apt.download(package, version, debs_directory)
            tree.read_deb(deb)
            debs.append(deb.name)
        for wanted in ("vmlinuz", "config"):
            if wanted not in tree.files:
                raise LabError(f"{name} {version}: no {wanted} in {', '.join(debs)}")
            (target / wanted).write_bytes(tree.files[wanted])
        modules = tree.resolve(MODULES)
        for module, data in modules.items():
            (target / "modules" / f"{module}.ko").write_bytes(data.pop("image"))
        (target / "info.json").write_text(json.dumps({
            "name": name, "version": version, "release": release, "debs": debs, "modules": modules,
            "builtin": sorted(tree.builtin & {normal(m) for m in MODULES}),
            "absent": sorted({normal(m) for m in MODULES} - tree.builtin - set(modules)),
        }, indent=1), encoding="utf-8")
        target.rename(entry)


def normal(module):
    """The kernel takes - and _ in module names for the same."""
    return module.replace("-", "_")


class Tree:
    """Kernel packages in memory. Read as a stream: files are needed by name and none is worth unpacking twice."""

    def __init__(self, release):
        self.release = release
        self.files = {}     # "vmlinuz", "config" → bytes
        self.packed = {}    # module → (file name, bytes as packed)
        self.builtin = set()

    def read_deb(self, deb):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as child:
            try:
                with tarfile.open(fileobj=child.stdout, mode="r|") as archive:
                    for member in archive:
                        if member.isfile():
                            self._take(member.name, lambda m=member: archive.extractfile(m).read())
            except tarfile.TarError as e:
                raise LabError(f"{deb}: {e}") from e
        if child.returncode != 0:
            raise LabError(f"{deb}: dpkg-deb failed with {child.returncode}")

    def _take(self, path, read):
        base = os.path.basename(path)
        for name in ("vmlinuz", "config"):
            # /boot/vmlinuz-RELEASE, or /usr/lib/modules/RELEASE/vmlinuz in packages that leave /boot to kernel-install
            if base in (name, f"{name}-{self.release}") and ("/boot/" in path or "/modules/" in path):
                self.files[name] = read()
        if base == "modules.builtin":
            self.builtin = {normal(os.path.basename(line)[:-len(".ko")]) for line in read().decode().split()}
        match = re.fullmatch(r"(.+)\.ko(\.xz|\.zst)?", base)
        if match and "/modules/" in path:
            self.packed[normal(match[1])] = (base, read())

    def _image(self, module):
        name, data = self.packed[module]
        if name.endswith(".xz"):
            try:
                return lzma.decompress(data)
            except lzma.LZMAError as e:
                raise LabError(f"{name} cannot be unpacked: {e}") from e
        if name.endswith(".zst"):
            done = subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=False)
            if done.returncode != 0:
                raise LabError(f"{name} cannot be unpacked: zstd ended with {done.returncode}")
            return done.stdout
        return data

    def resolve(self, wanted):
        """{module: {image, deps, aliases}} of the wanted ones and all they need; deps in the order they must be loaded.

        The packages carry no modules.dep (depmod runs on installation), so it comes from the .modinfo of each
        module. Soft dependencies count as dependencies: they are few and would be asked for at once anyway.
        """
        result = {}

        def visit(module):
            if module in result or module not in self.packed:
                return
            image = self._image(module)
            info = modinfo(image)
            needs = [normal(n) for line in info.get("depends", ()) for n in line.split(",") if n]
            for line in info.get("softdep", ()):
                if line.startswith("pre:"):
                    needs += [normal(n) for n in line[len("pre:"):].split("post:")[0].split()]
            result[module] = {"image": image, "deps": [], "aliases": info.get("alias", [])}
            for need in needs:
                visit(need)
                if need in result:
                    for dep in (*result[need]["deps"], need):
                        if dep != module and dep not in result[module]["deps"]:
                            result[module]["deps"].append(dep)

        for module in wanted:
            visit(normal(module))
        return result


def modinfo(image):
    """The NUL-separated KEY=VALUE strings of a module's .modinfo section → {key: [values]}.

    Found by their keys rather than through the section table: each key is at the start of a string, and no other
    section has strings like these.
    """
    info = {}
    for key in ("depends", "softdep", "alias"):
        values = re.findall(rb"\0" + key.encode() + rb"=([\x20-\x7e]*)(?=\0)", b"\0" + image)
        info[key] = list(dict.fromkeys(v.decode() for v in values))
    return info
