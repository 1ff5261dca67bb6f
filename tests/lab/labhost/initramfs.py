# SPDX-License-Identifier: LGPL-2.1-or-later
"""Initramfs images: busybox, the programs of a scenario with their libraries, a few kernel modules, our scripts.

The cpio archive is written here, byte by byte: it needs no root for device nodes, no cpio package, and the same input
gives the same bytes. It is left uncompressed; the kernel unpacks it faster than it would inflate it.
"""

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from . import LabError, debian, rootimage

LIBRARIES = "/usr/lib/x86_64-linux-gnu"  # searched by Debian's dynamic loader without a cache or a setting
GUEST = Path(__file__).resolve().parent.parent / "guest"

# Carried in every guest besides what a scenario asks for.
BASE_PROGRAMS = ("mke2fs",)
BASE_FILES = ("/etc/mke2fs.conf",)


class Cpio:
    """A "newc" archive in the making. Paths are absolute; parents are made as needed; the first entry of a path wins."""

    def __init__(self, file):
        self.file = file
        self.entries = {"/"}

    def _entry(self, path, mode, data=b"", rdev=(0, 0)):
        name = path.lstrip("/").encode() + b"\0"
        header = [len(self.entries), mode, 0, 0, 1, 0, len(data), 0, 0, *rdev, len(name), 0]
        record = b"070701" + b"".join(b"%08X" % n for n in header) + name
        self.file.write(record + b"\0" * (-len(record) % 4) + data + b"\0" * (-len(data) % 4))

    def _add(self, path, mode, data=b"", rdev=(0, 0)):
        path = os.path.normpath(path)
        if path in self.entries:
            return
        self.directory(os.path.dirname(path))
        self._entry(path, mode, data, rdev)
        self.entries.add(path)

    def directory(self, path, mode=0o755):
        if os.path.normpath(path) not in self.entries:
            self._add(path, stat.S_IFDIR | mode)

    def regular(self, path, data, mode=0o644):
        self._add(path, stat.S_IFREG | mode, data)

    def symlink(self, path, target):
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def device(self, path, major, minor):
        self._add(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def close(self):
        self._entry("TRAILER!!!", 0)


def libraries(program):
    """The shared objects that an ELF program loads → (interpreter or None, {soname: path}). Static ones need none."""
    with open(program, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None, {}
    done = subprocess.run(["ldd", program], text=True, capture_output=True, check=False,
                          env=dict(os.environ, LC_ALL="C.UTF-8"))
    if done.returncode != 0:
        if "not a dynamic executable" in done.stdout + done.stderr:
            return None, {}
        raise LabError(f"ldd {program}: {(done.stderr or done.stdout).strip()}")
    interpreter, found = None, {}
    for line in done.stdout.splitlines():
        if "not found" in line:
            raise LabError(f"{program} cannot run here, so not in a guest either: {line.strip()}")
        if match := re.match(r"\s*(\S+) => (/\S+) \(0x", line):
            found[os.path.basename(match[1])] = match[2]
        elif match := re.match(r"\s*(/\S+) \(0x", line):
            interpreter = match[1]
    return interpreter, found


def find_program(name, builddir=None):
    """A program by name: in the build directory first, then where the machine has its own. None if nowhere."""
    if builddir:
        # Sorted, so that one of several is always the same; Meson's private directories hold no programs.
        for directory, subdirectories, files in os.walk(builddir):
            subdirectories[:] = sorted(d for d in subdirectories if not d.endswith(".p") and d != "meson-private")
            path = os.path.join(directory, name)
            if name in files and os.access(path, os.X_OK):
                return path
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")


def busybox():
    """Busybox and the names that it answers to."""
    path = find_program("busybox")
    if not path:
        raise LabError("busybox is not installed: install busybox-static")
    if libraries(path)[0]:
        raise LabError(f"{path} is not the static one: install busybox-static")
    return path, debian.run([path, "--list-full"]).split()


def build(output, kernel, scenario, programs, config):
    """Write the image of one guest: all of it, or none.

    scenario: what it runs, and whether it does so right here or in a root image.
    programs: paths of executables, each put into /usr/local/bin under its own name.
    config: {name: value}, what guest/init reads as /lab/config.
    """
    try:
        with open(output, "wb") as file:
            _write(Cpio(file), kernel, scenario, programs, config)
    except BaseException:
        Path(output).unlink(missing_ok=True)
        raise


def _write(cpio, kernel, scenario, programs, config):
    # One tree for programs and libraries, as Debian has it: wherever a path points, the file is there.
    for directory in ("bin", "sbin", "lib", "lib64"):
        cpio.directory(f"/usr/{directory}")
        cpio.symlink(f"/{directory}", f"usr/{directory}")
    for directory in ("/dev", "/proc", "/sys", "/run", "/tmp", "/mnt", "/root", "/etc", "/var/log"):
        cpio.directory(directory)
    cpio.symlink("/var/run", "/run")
    cpio.device("/dev/console", 5, 1)
    cpio.regular("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
    cpio.regular("/etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    cpio.regular("/etc/machine-id", b"5b1ec0de5b1ec0de5b1ec0de5b1ec0de\n")
    cpio.regular("/init", (GUEST / ("root-init" if scenario.root else "init")).read_bytes(), 0o755)
    cpio.regular("/lab/lib.sh", (GUEST / "lib.sh").read_bytes())
    cpio.regular("/lab/scenario.sh", scenario.path.read_bytes())
    cpio.regular("/lab/config", "".join(
        f"LAB_{name.upper()}='{value}'\n" for name, value in config.items()).encode())
    for path in BASE_FILES:
        if os.path.exists(path):
            cpio.regular(path, Path(path).read_bytes())

    for name in scenario.files:
        cpio.regular(f"/lab/{'files/' * bool(scenario.root)}{os.path.basename(name)}",
                     (GUEST.parent / name).read_bytes())
    if scenario.root:
        for path, content, mode in rootimage.root_files():
            if isinstance(content, str):
                cpio.symlink(f"/lab/root{path}", content)
            else:
                cpio.regular(f"/lab/root{path}", content, mode)
        _add_private_programs(cpio, {f"/usr/local/bin/{os.path.basename(path)}": path for path in programs} | scenario.installed)
    else:
        _add_programs(cpio, programs)
    _add_modules(cpio, kernel)
    path, applets = busybox()
    cpio.regular("/usr/bin/busybox", Path(path).read_bytes(), 0o755)
    for applet in applets:  # last, so that a program carried in full wins over the applet of its name
        directory, name = os.path.split("/" + applet.lstrip("/"))
        if not directory.startswith("/usr"):
            directory = "/usr" + directory
        cpio.symlink(f"{directory}/{name}", "/usr/bin/busybox")
    cpio.close()


def _add_programs(cpio, programs):
    paths = list(programs)
    for name in BASE_PROGRAMS:
        path = find_program(name)
        if not path:
            raise LabError(f"{name} is not installed (tests/lab/packages lists what the lab needs)")
        paths.append(path)
    for path in paths:
        name = os.path.basename(path)
        cpio.regular(f"/usr/local/bin/{name}", Path(path).read_bytes(), 0o755)
        interpreter, shared = libraries(path)
        if interpreter:
            # The loader's path is part of the program and goes through the /lib, /lib64 links made above.
            where = re.sub(r"^/(lib|lib64)/", r"/usr/\1/", interpreter)
            cpio.regular(where, Path(interpreter).read_bytes(), 0o755)
        for soname, library in shared.items():
            cpio.regular(f"{LIBRARIES}/{soname}", Path(library).read_bytes(), 0o755)
    cpio.symlink("/usr/local/bin/mkfs.ext4", "mke2fs")


def installed(builddir):
    """What `meson install` would put where → {path in the guest: file}."""
    done = debian.run(["meson", "introspect", "--installed", builddir])
    return {where: path for path, where in json.loads(done).items()}


def _add_private_programs(cpio, programs):
    """Programs of this machine for a root image that has other libraries than this machine: {path in the guest: file}.

    Each comes with this machine's loader and libraries in a directory of their own. At its path is a script that starts
    it through that loader. Neither LD_LIBRARY_PATH, which would reach what the program starts, nor a place that the
    image's own loader searches: either would give the image's programs our libraries. The loader goes by a symbolic link
    of the program's name, so that the kernel knows the process by it.
    """
    private = f"/lab/root{rootimage.PRIVATE}"
    for where, path in programs.items():
        name = os.path.basename(path)
        interpreter, shared = libraries(path)
        if not interpreter:
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            cpio.regular(f"/lab/root{where}", Path(path).read_bytes(), mode)
            continue
        loader = os.path.basename(interpreter)
        cpio.regular(f"{private}/{loader}", Path(interpreter).read_bytes(), 0o755)
        cpio.symlink(f"{private}/run/{name}", f"../{loader}")
        cpio.regular(f"{private}/bin/{name}", Path(path).read_bytes(), 0o755)
        for soname, library in shared.items():
            cpio.regular(f"{private}/lib/{soname}", Path(library).read_bytes(), 0o755)
        cpio.regular(f"/lab/root{where}",
                     f"#!/bin/sh\nexec {rootimage.PRIVATE}/run/{name} --argv0 {name} "
                     f"--library-path {rootimage.PRIVATE}/lib {rootimage.PRIVATE}/bin/{name} \"$@\"\n".encode(), 0o755)


def _add_modules(cpio, kernel):
    """The modules of the entry with the indexes that busybox's modprobe reads, so the kernel's own requests work too."""
    base = f"/usr/lib/modules/{kernel.release}"
    dependencies, aliases = [], []
    for name, module in kernel.info["modules"].items():
        cpio.regular(f"{base}/{name}.ko", (kernel.directory / "modules" / f"{name}.ko").read_bytes())
        # modprobe loads a line's dependencies from its end to its start
        dependencies.append(f"{name}.ko:" + "".join(f" {dep}.ko" for dep in reversed(module["deps"])) + "\n")
        aliases += [f"alias {alias} {name}\n" for alias in module["aliases"]]
    cpio.regular(f"{base}/modules.dep", "".join(dependencies).encode())
    cpio.regular(f"{base}/modules.alias", "".join(aliases).encode())
    cpio.regular(f"{base}/modules.symbols", b"")
    cpio.regular(f"{base}/modules.builtin", "".join(f"kernel/{n}.ko\n" for n in kernel.info["builtin"]).encode())
