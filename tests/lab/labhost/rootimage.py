# SPDX-License-Identifier: LGPL-2.1-or-later
"""Root images: a Debian with systemd for scenarios that say root=NAME.

    CACHE/roots/ENTRY/image      squashfs; what a guest boots from, read only
    CACHE/roots/ENTRY/packages   name and version of all that is in it
    CACHE/roots/ENTRY/build.log
    CACHE/roots/vmlinux/ENTRY    squashfs with the vmlinux of one of our own kernels, for scenarios that say vmlinux=yes
    CACHE/roots.lock             flock: exclusive while building

ENTRY is NAME-HASH, a hash over all that the image is made from, so a change makes a new entry and none is ever modified.
Nothing of the lab's is in an image: units, masks and scripts are carried in the initramfs (see root_files), so changing
one costs no new image. Squashfs, because mksquashfs makes it from mmdebstrap's tar archive as that comes: no root file
system is unpacked on the host's disk, and owners need no privilege. A guest lays a tmpfs over it.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import LabError, debian, kernels

GUEST = Path(__file__).resolve().parent.parent / "guest"
FORMAT = 1  # of an entry; a new number makes new ones of the same packages
PRIVATE = "/usr/local/lib/lab"  # of carried programs: loader, libraries and they themselves


@dataclass(frozen=True)
class Root:
    suite: str
    packages: tuple
    variant: str = "apt"  # mmdebstrap's: essential packages and apt; nothing that is only recommended


BASE = (
    "systemd", "systemd-sysv", "dbus", "polkitd",
    "kmod", "iproute2", "e2fsprogs", "mount", "util-linux", "procps", "netcat-openbsd",  # what guest/lib.sh calls
)
ROOTS = {
    "debian12": Root("bookworm", (*BASE, "python3")),
    "debian13": Root("trixie", (*BASE, "python3-drgn")),
}

# Left out of the image, as dpkg's options. Copyright files stay, as in Debian's own container images.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
    "force-unsafe-io",  # an unfinished image is thrown away, so nothing has to be on disk in between
)
# Run by mmdebstrap on the host with the new root as $1; the image is the same whichever mirror it came from.
FINISH = 'rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/apt.conf.d/99machine "$1"/etc/resolv.conf "$1"/etc/hostname'
SQUASHFS = ("-comp", "zstd", "-Xcompression-level", "6", "-no-xattrs", "-noappend", "-no-progress")

# Units that a lab guest has no use for: logins on the ports that we read, what waits for a network or a timer, and (one
# process is a second of an emulated guest on a busy host) what prepares devices that there are none of, since devtmpfs has
# made all others. Not masked: anything that makes cgroups or answers on the bus.
MASKED = (
    "getty.target", "serial-getty@ttyS0.service", "console-getty.service",
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
    "fstrim.timer", "systemd-pstore.service", "systemd-firstboot.service", "systemd-tmpfiles-clean.timer",
    "systemd-hibernate-clear.service", "systemd-machine-id-commit.service", "remote-fs.target",
    "modprobe@configfs.service", "modprobe@drm.service", "modprobe@fuse.service", "systemd-modules-load.service",
    "sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "dev-hugepages.mount", "kmod-static-nodes.service",
    "systemd-tmpfiles-setup-dev-early.service", "systemd-tmpfiles-setup-dev.service", "systemd-random-seed.service",
    "systemd-remount-fs.service", "systemd-journal-flush.service", "systemd-user-sessions.service",
)


def image_hash(name):
    root = ROOTS[name]
    recipe = [FORMAT, root.suite, root.variant, root.packages, DPKG_OPTIONS, FINISH, SQUASHFS]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:12]


def _directory():
    path = kernels.cache_directory() / "roots"
    path.mkdir(exist_ok=True)
    return path


def entry(name):
    if name not in ROOTS:
        raise LabError(f"no root image {name}: {', '.join(ROOTS)}")
    return _directory() / f"{name}-{image_hash(name)}"


def cached(name):
    """The image, or None if it is not there."""
    path = entry(name) / "image"
    return path if path.exists() else None


def get(name, say=lambda text: None):
    """The image, made first if the cache has none."""
    if cached(name):
        return cached(name)
    with _building(say):
        if not cached(name):
            _build(name, entry(name), say)
    return cached(name)


def prune(say=lambda text: None):
    """Remove images of other recipes, and each vmlinux whose kernel is gone."""
    with kernels.locked(exclusive=True, say=say), _building(say):  # guests that run may have one of them
        used = {entry(name) for name in ROOTS}
        for path in _directory().iterdir():
            if path.name != "vmlinux" and path not in used:
                say(f"# removing root image {path.name}")
                kernels.remove(path)
        there = {f"{path.parent.name}-{path.name}" for path in (kernels.cache_directory() / "kernels").glob("*/*")}
        for path in _directory().glob("vmlinux/*"):
            if path.name not in there:
                say(f"# removing vmlinux of {path.name}")
                kernels.remove(path)  # a directory if it is of a run that was killed


def _building(say):
    return kernels.holding("roots.lock", fcntl.LOCK_EX, say, "another run is making a root image")


def machine_apt_options():
    """How this machine's apt reaches its mirrors: proxies and credentials. mmdebstrap's apt would not read them."""
    options = debian.run(["apt-config", "dump", "--no-empty", "--format", '%F "%v";%n',
                          "Acquire::http", "Acquire::https", "Dir::Etc::netrc", "Dir::Etc::netrcparts"])
    lines = [line for line in options.splitlines() if line.startswith("Acquire::")]
    return "\n".join([*lines, 'Dir::Etc::netrc "/etc/apt/auth.conf";', 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";', ""])


def mmdebstrap_command(root, mirror, options, packages):
    """→ the command that writes the root as a tar archive to its stdout. options, packages: paths of files."""
    return ["mmdebstrap", f"--variant={root.variant}", f"--architectures={debian.ARCHITECTURE}", "--components=main",
            "--format=tar", f"--include={','.join(root.packages)}",
            "--aptopt=APT::Update::Error-Mode \"any\"", *(f"--dpkgopt={option}" for option in DPKG_OPTIONS),
            f"--setup-hook=mkdir -p \"$1\"/etc/apt/apt.conf.d && cp '{options}' \"$1\"/etc/apt/apt.conf.d/99machine",
            f"--customize-hook={FINISH}",
            f"--customize-hook=dpkg-query --admindir=\"$1\"/var/lib/dpkg -W >'{packages}'",
            root.suite, "-", f"deb [signed-by={debian.KEYRING}] {mirror} {root.suite} main"]


def _build(name, target, say):
    root = ROOTS[name]
    mirror = debian.need_mirror(debian.find_mirrors(), "main")
    if not os.path.exists(debian.KEYRING):
        raise LabError(f"{debian.KEYRING} is missing: install debian-archive-keyring")
    for leftover in _directory().glob(".building-*"):  # of a build that was killed; we hold the lock
        shutil.rmtree(leftover)
    say(f"# {name}: making a root image of {root.suite} from {mirror}")
    with tempfile.TemporaryDirectory(dir=_directory(), prefix=".building-") as temporary:
        made, options = Path(temporary) / "entry", Path(temporary) / "apt.conf"
        made.mkdir()
        options.write_text(machine_apt_options(), encoding="utf-8")
        # setpriv: if this process is killed, they go too. mmdebstrap unmounts what it has mounted.
        leash = ["setpriv", "--pdeathsig", "TERM"]
        env = dict(os.environ, LC_ALL="C.UTF-8", DEBIAN_FRONTEND="noninteractive", SOURCE_DATE_EPOCH="1767225600")
        try:
            with open(made / "build.log", "ab") as log, subprocess.Popen(
                    [*leash, *mmdebstrap_command(root, mirror, options, made / "packages")],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=env) as source:
                packed = subprocess.run([*leash, "mksquashfs", "-", made / "image", "-tar", *SQUASHFS],
                                        stdin=source.stdout, stdout=log, stderr=log, env=env, check=False)
                source.stdout.close()
        except FileNotFoundError as e:
            raise LabError(f"{e.filename} is not installed (tests/lab/packages lists what the lab needs)") from e
        if source.returncode != 0 or packed.returncode != 0:
            lines = (made / "build.log").read_text(errors="replace").splitlines()
            raise LabError(f"the root image {name} cannot be made: mmdebstrap ended with {source.returncode}, mksquashfs "
                           f"with {packed.returncode}\n" + "\n".join(lines[-15:]))
        made.rename(target)


def vmlinux(kernel, say=lambda text: None):
    """A squashfs with the vmlinux of a kernel of ours, made first if the cache has none.

    As a drive of its own: in the initramfs it would take its size out of the guest's memory, which the scenarios measure.
    """
    packed = kernel.directory / "vmlinux.zst"
    if not packed.exists():
        raise LabError(f"{kernel} has no vmlinux with DWARF: only kernels of our own have (restrict the scenario to them)")
    directory = _directory() / "vmlinux"
    path = directory / f"{kernel.series}-{kernel.directory.name}"
    if path.exists():
        return path
    with _building(say):
        if path.exists():
            return path
        directory.mkdir(exist_ok=True)
        for leftover in directory.glob(".building-*"):  # of a run that was killed; we hold the lock
            shutil.rmtree(leftover)
        say(f"# {kernel.series}: making a drive of its vmlinux")
        with tempfile.TemporaryDirectory(dir=directory, prefix=".building-") as temporary:
            tree = Path(temporary) / "tree"
            tree.mkdir()
            debian.run(["zstd", "-q", "-d", packed, "-o", tree / "vmlinux"])
            debian.run(["mksquashfs", tree, Path(temporary) / "image", "-all-root", *SQUASHFS])
            (Path(temporary) / "image").rename(path)
    return path


def root_files():
    """What is laid over an image, besides programs: (path, bytes or the target of a symbolic link as str, mode)."""
    files = [
        ("/etc/hostname", b"lab\n", 0o644),
        ("/etc/hosts", b"127.0.0.1 localhost lab\n", 0o644),
        # Without one systemd takes the boot for the first of all and sets up every unit by its presets.
        ("/etc/machine-id", b"5b1ec0de5b1ec0de5b1ec0de5b1ec0de\n", 0o444),
        # The console is the kernel's; systemd may say there what failed, and nothing else. Time limits that are right for
        # machines are not for emulated ones.
        ("/etc/systemd/system.conf.d/lab.conf",
         b"[Manager]\nShowStatus=error\nDefaultTimeoutStartSec=600\nDefaultDeviceTimeoutSec=600\n", 0o644),
        ("/etc/systemd/journald.conf.d/lab.conf", b"[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n", 0o644),
        ("/etc/systemd/system/lab.service", (GUEST / "root-lab.service").read_bytes(), 0o644),
        ("/etc/systemd/system/multi-user.target.wants/lab.service", "../lab.service", 0o777),
        ("/etc/systemd/system/default.target", "/usr/lib/systemd/system/multi-user.target", 0o777),
        ("/lab/root-run", (GUEST / "root-run").read_bytes(), 0o755),
    ]
    return files + [(f"/etc/systemd/system/{unit}", "/dev/null", 0o777) for unit in MASKED]
