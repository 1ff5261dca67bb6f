# SPDX-License-Identifier: LGPL-2.1-or-later
"""One guest from boot to verdict."""

import base64
import gzip
import os
import re
import subprocess
import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from . import LabError, initramfs, rootimage, rundir

# A kernel that prints one of these has failed, whatever the scenario says. Lines of the kernel only: those start with
# a time stamp, and programs do not write to this port.
COMPLAINT = re.compile(
    r"\bBUG[: ]|WARNING:|\bOops\b|general protection fault|Kernel panic|kernel BUG at|soft lockup|hard LOCKUP|"
    r"rcu.*(self-detected stall|detected stalls|stall on)|INFO: task .* blocked for more than|"
    r"UBSAN:|KASAN:|KFENCE:|refcount_t:|list_(add|del) corruption|Bad page|double free|"
    r"\] Out of memory:|unregister_netdevice: waiting|sysfs: cannot create duplicate|"
    # What ends the debug kernel's watch, and what it found; file systems that lost something.
    r"kmemleak: [1-9]\d* new suspected memory leaks|INFO: trying to register non-static key|lockdep is turned off|"
    r"printk messages dropped|EXT4-fs error|XFS .*: (Metadata )?([Cc]orruption|[Ii]nternal error)")
KERNEL_LINE = re.compile(r"^\[ *\d+\.\d+\]")

# (regular expression, reason) of complaints that say nothing about us
HARMLESS = ()

STOP = threading.Event()  # set: guests that run are killed at once

MIB_PER_NODE = 32       # least memory of an online node that a kernel still boots with
MIB_PER_ABSENT_NODE = 128
TEST = re.compile(r"^(not )?ok\b(?: +\d+)?(?: +-)? *(.*)$")
SKIP = re.compile(r"^(.*?) *# SKIP\b *(.*)$", re.I)


@dataclass
class Check:
    verdict: str  # "ok", "not ok", "skip"
    text: str
    detail: list = field(default_factory=list)  # "#" lines and whatever else was printed after it


@dataclass
class Result:
    checks: list = field(default_factory=list)
    notes: list = field(default_factory=list)  # printed before the first check
    files: dict = field(default_factory=dict)  # what the guest gave: name → bytes
    figures: dict = field(default_factory=dict)  # "lab-figures NAME key=N ..." lines: name → {key: N}
    status: int = None                         # of the scenario, None if it did not come to its end
    boot_seconds: float = None                 # to the first line of the scenario
    seconds: float = 0.0


def command(kernel, image, scenario, directory, drives=()):
    """The QEMU command line. drives: (name, path), read only; the guest finds them in this order.

    Online nodes share the memory and the CPUs; further possible ones have neither.

    A node is possible to the kernel when ACPI's SRAT names it. QEMU writes no SRAT entry for an empty node, but one for
    the address range of each NVDIMM, with the node of that device: so each absent node gets one. Its memory is no RAM,
    no driver for it is loaded, hence the node is never online; on the host it is never touched.
    """
    online = scenario.nodes
    absent = max(0, scenario.possible - online)
    if not 1 <= online + absent <= 64:
        raise LabError(f"{online + absent} nodes: 1 to 64 are possible")
    share = max(scenario.memory // online, MIB_PER_NODE)
    total = share * online
    # One thread for all emulated CPUs: with several, one of about a hundred boots died of "Oops: int3", as can happen
    # when the kernel patches its code while the emulator translates it for another CPU. On two cores it is no slower.
    kvm = os.access("/dev/kvm", os.R_OK | os.W_OK)
    machine = "q35,usb=off,smbus=off" + (",nvdimm=on" if absent else "")
    memory = f"{total}M"
    if absent:
        memory += f",slots={absent},maxmem={total + 2 * absent * MIB_PER_ABSENT_NODE + 1024}M"
    args = ["qemu-system-x86_64", "-machine", machine, "-accel", "kvm" if kvm else "tcg,thread=single",
            "-cpu", "host" if kvm else "max", "-nodefaults", "-display", "none", "-no-reboot",
            "-m", memory, "-smp", f"{scenario.cpus},sockets={scenario.cpus},cores=1,threads=1"]
    for node in range(online):
        args += ["-object", f"memory-backend-ram,id=ram{node},size={share}M",
                 "-numa", f"node,nodeid={node},memdev=ram{node}"]
    for node in range(online, online + absent):
        args += ["-numa", f"node,nodeid={node}",
                 "-object", f"memory-backend-ram,id=absent{node},size={MIB_PER_ABSENT_NODE}M",
                 "-device", f"nvdimm,id=nvdimm{node},memdev=absent{node},node={node}"]
    for cpu in range(scenario.cpus):
        args += ["-numa", f"cpu,node-id={cpu % online},socket-id={cpu}"]
    # A stopped vCPU of a busy host must not look like a hung kernel, nor like a timer that does not work; a dead kernel must
    # end the guest at once.
    # What complaints are read from comes last, so that no scenario switches it off.
    line = ("no_timer_check panic=-1 oops=panic watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 "
            f"{scenario.append} console=ttyS0,115200 loglevel=7 ignore_loglevel printk.time=1")
    for name, path in drives:
        args += ["-drive", f"if=none,id={name},format=raw,readonly=on,file={str(path).replace(',', ',,')}",
                 "-device", f"virtio-blk-pci,drive={name},serial={name}"]
    return args + ["-kernel", str(kernel.vmlinuz), "-initrd", str(image), "-append", line.strip(),
                   "-serial", f"file:{directory / 'console.log'}", "-serial", f"file:{directory / 'output.log'}"]


def boot(kernel, scenario, programs, directory):
    """Boot, run, judge → Result. directory: an empty one, for logs; what the guest gives goes into its folder given."""
    directory = Path(directory)
    image = directory / rundir.IMAGE
    config = {"kernel": kernel.family, "build": kernel.build, "hierarchy": scenario.hierarchy, "nodes": scenario.nodes,
              "possible": max(scenario.possible, scenario.nodes), "scenario": scenario.name,
              "cpus": scenario.cpus, "ram": scenario.memory}
    initramfs.build(image, kernel, scenario, programs, config)
    drives = []
    if scenario.root:
        drives.append(("root", rootimage.get(scenario.root)))
        if scenario.vmlinux:
            drives.append(("vmlinux", rootimage.vmlinux(kernel)))
    args = command(kernel, image, scenario, directory, drives)
    (directory / "command").write_text(" ".join(map(repr, args)) + "\n", encoding="utf-8")

    start = time.monotonic()
    output = directory / "output.log"
    result = Result()
    reason = None
    # setpriv: if this process is killed, the guest goes too.
    with open(directory / "qemu.log", "wb") as errors, subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *args],
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors) as child:
        try:
            while child.poll() is None:
                elapsed = time.monotonic() - start
                if result.boot_seconds is None and output.exists() and output.stat().st_size:
                    result.boot_seconds = elapsed
                if elapsed > scenario.timeout:
                    reason = f"not finished after {scenario.timeout} seconds"
                    break
                if STOP.wait(0.05):
                    reason = "interrupted"
                    break
        finally:
            child.kill()
    result.seconds = time.monotonic() - start
    if not reason and child.returncode != 0:
        reason = f"QEMU ended with {child.returncode}: {(directory / 'qemu.log').read_text(errors='replace').strip()}"
    read_output(output.read_text(errors="replace") if output.exists() else "", result)
    for name, data in result.files.items():
        (directory / "given").mkdir(exist_ok=True)
        (directory / "given" / name).write_bytes(data)
    judge(result, reason, (directory / "console.log"), scenario)
    return result


def read_output(text, result):
    """The second serial port's text → checks, notes, files, status."""
    name, data = None, []
    for line in text.replace("\r", "").split("\n"):
        if name and line.startswith("lab-data "):
            data.append(line[len("lab-data "):])
        elif line.startswith("lab-file "):
            name, data = os.path.basename(line[len("lab-file "):]), []
        elif name and line == f"lab-done {name}":
            try:
                result.files[name] = gzip.decompress(base64.b64decode("".join(data)))
            except (ValueError, OSError, EOFError, zlib.error) as e:
                result.checks.append(Check("not ok", f"the file {name} arrives whole: {e}"))
            name = None
        elif match := re.fullmatch(r"lab-exit (\d+)", line):
            result.status = int(match[1])
        elif match := re.fullmatch(r"lab-figures (\S+)((?: \w+=-?\d+)*)", line):
            result.figures[match[1]] = {k: int(v) for k, v in (word.split("=") for word in match[2].split())}
        elif line.startswith("Bail out!"):
            result.checks.append(Check("not ok", line))
        elif match := TEST.match(line):
            skip = SKIP.match(match[2])
            if skip and not match[1]:
                result.checks.append(Check("skip", f"{skip[1]}: {skip[2] or 'no reason given'}"))
            else:
                result.checks.append(Check("not ok" if match[1] else "ok", match[2]))
        elif line.strip():
            (result.checks[-1].detail if result.checks else result.notes).append(line)


def complaints(console, allowed):
    """Lines of the kernel's log that must not be there."""
    patterns = [re.compile(p) for p, _ in HARMLESS] + [re.compile(p) for p in allowed]
    return [line for line in console.splitlines() if KERNEL_LINE.match(line) and COMPLAINT.search(line)
            and not any(p.search(line) for p in patterns)]


def judge(result, reason, console, scenario):
    """Add the checks that the host makes."""
    text = console.read_text(errors="replace") if console.exists() else ""
    if result.status is None:
        tail = [line for line in text.replace("\r", "").splitlines() if line.strip()][-15:]
        result.checks.append(Check("not ok", f"the guest comes to its end: {reason or 'it stopped before'}", tail))
    elif reason:
        result.checks.append(Check("not ok", f"the guest powers off: {reason}"))
    elif result.status != 0:
        result.checks.append(Check("not ok", f"the scenario ends well: exit status {result.status}"))
    elif not result.checks:
        result.checks.append(Check("not ok", "the scenario checks anything"))
    found = complaints(text, scenario.allow)
    if found:
        result.checks.append(Check("not ok", f"the kernel has no complaint: {len(found)}", found[:20]))
    else:
        lines = sum(1 for line in text.splitlines() if KERNEL_LINE.match(line))
        result.checks.append(Check("ok" if lines else "not ok", f"the kernel has no complaint in {lines} lines"))
