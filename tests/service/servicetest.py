# SPDX-License-Identifier: LGPL-2.1-or-later
"""
The daemon in the foreground, with a service manager and a journal of the test's own: NOTIFY_SOCKET and the file descriptor store, and
/run/systemd/journal/socket in a mount namespace where nobody else is.
"""

import array
import contextlib
import ctypes
import mmap
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAEMON = os.environ.get("SHRINKWATCHD", str(ROOT / "build" / "daemon" / "shrinkwatchd"))
# Several of these tests run at a time: each has a name of its own.
NAME = "shrinkwatch-test-" + (sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].isalpha() else "service")
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 16384, 1 << 18
WAIT_SEC = 60

_count = 0
_failed = 0


def check(name, good, detail=""):
    global _count, _failed
    _count += 1
    print(f"{'ok' if good else 'not ok'} {_count} - {name}", flush=True)
    if not good:
        _failed += 1
        for line in str(detail).splitlines()[:40]:
            print(f"#   {line}", flush=True)
    return good


def equal(name, got, wanted):
    return check(f"{name}: {got}", got == wanted, f"wanted {wanted}")


def note(text):
    print(f"# {text}", flush=True)


def finish():
    print(f"1..{_count}")
    sys.exit(1 if _failed else 0)


def skip_all(reason):
    # Not exit 77: with TAP, meson takes every status but 0 for an error.
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def stir_cpus():
    """What was charged to a memcg can stay in the batches of each CPU for good on an idle machine: some new pages there push it out."""
    before = os.sched_getaffinity(0)
    for cpu in before:
        os.sched_setaffinity(0, {cpu})
        with mmap.mmap(-1, 512 << 10, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at] = 1
    os.sched_setaffinity(0, before)


# Called while anything is waited for: who is sent messages has to read them, or the sender waits as well.
pumps = []


def wait_for(what, seconds=WAIT_SEC, step=0.05):
    """What it returns as soon as that is true; its last answer when time is out."""
    end = time.monotonic() + seconds
    while True:
        for pump in pumps:
            pump()
        answer = what()
        if answer or time.monotonic() > end:
            return answer
        stir_cpus()
        time.sleep(step)


def boot_usec():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def own_namespace():
    """Mounts from here on are nobody else's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        skip_all(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        skip_all(f"mounts cannot be made private: {os.strerror(ctypes.get_errno())}")


class Journal:
    """journald's socket, and what came in by it: dictionaries of bytes."""

    def __init__(self):
        self.entries = []
        self.socket = None

    def open(self):
        directory = pathlib.Path("/run/systemd/journal")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=1m", NAME, "/run"], check=True)
        directory.mkdir(parents=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.socket.bind(str(directory / "socket"))
        os.chmod(directory / "socket", 0o666)

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def read(self):
        """Takes in what has come; all entries so far."""
        while self.socket and select.select([self.socket], [], [], 0)[0]:
            data, fds, _, _ = socket.recv_fds(self.socket, 1 << 20, 4)
            if fds:
                with os.fdopen(fds[0], "rb") as f:
                    f.seek(0)
                    data = f.read()
            self.entries.append(self.parse(data))
        return self.entries

    @staticmethod
    def parse(data):
        fields = {}
        while data:
            line, _, rest = data.partition(b"\n")
            name, equals, value = line.partition(b"=")
            if equals:
                data = rest
            else:
                size = struct.unpack("<Q", rest[:8])[0]
                value, data = rest[8 : 8 + size], rest[8 + size + 1 :]
            fields[name.decode()] = value
        return fields

    def of(self, **wanted):
        """Entries whose fields are these."""
        return [e for e in self.read() if all(e.get(k) == (v if isinstance(v, bytes) else str(v).encode()) for k, v in wanted.items())]

    def messages(self, begin=0):
        """The texts, from this entry on."""
        return [e["MESSAGE"].decode(errors="replace") for e in self.read()[begin:]]

    def told(self, kind, change):
        return self.of(SHRINKWATCH_KIND=kind, SHRINKWATCH_CHANGE=change)


class Supervisor:
    """The side of the service manager: notifications, and the file descriptor store."""

    def __init__(self, directory):
        self.path = str(directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)
        self.lines = []
        self.store = {}

    def close(self):
        self.socket.close()
        self.empty()

    def empty(self):
        for fd in self.store.values():
            os.close(fd)
        self.store = {}

    def read(self):
        while select.select([self.socket], [], [], 0)[0]:
            data, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 16)
            lines = data.decode().split("\n")
            fields = dict(line.partition("=")[::2] for line in lines if line)
            if fields.get("FDSTORE") == "1":
                # As systemd does: without a name it is "stored"; what comes twice is kept twice there, and closed here.
                for fd in fds:
                    old = self.store.pop(fields.get("FDNAME", "stored"), None)
                    if old is not None:
                        os.close(old)
                    self.store[fields.get("FDNAME", "stored")] = fd
            elif fields.get("FDSTOREREMOVE") == "1":
                fd = self.store.pop(fields.get("FDNAME"), None)
                if fd is not None:
                    os.close(fd)
            else:
                for fd in fds:
                    os.close(fd)
            self.lines += [line for line in lines if line]
        return self.lines

    def last(self, key):
        values = [line.partition("=")[2] for line in self.read() if line.startswith(key + "=")]
        return values[-1] if values else None

    def count(self, line):
        return self.read().count(line)


# All that were started: none outlives its test, however that ends.
running = []


class Daemon:
    """One run of shrinkwatchd. user: an ordinary user with the two capabilities alone, as the unit has it."""

    def __init__(self, supervisor, arguments=(), environment=None, user=None, program=None):
        self.supervisor = supervisor
        running.append(self)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": supervisor.path, "LC_ALL": "C.UTF-8", **(environment or {})}
        for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if key in os.environ and key not in env:
                env[key] = os.environ[key]
        command = [program or DAEMON, *arguments]
        if user is not None:
            caps = "-all,+bpf,+perfmon"
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--inh-caps={caps}", f"--ambient-caps={caps}",
                       f"--bounding-set={caps}", "--no-new-privs", *command]
        names = list(supervisor.store)
        self.fds = [supervisor.store[name] for name in names]
        # LISTEN_PID has to be that of the process that is executed: only itself knows it in time.
        if names:
            env["LISTEN_FDS"] = str(len(names))
            env["LISTEN_FDNAMES"] = ":".join(names)
            command = ["/bin/sh", "-c", 'LISTEN_PID=$$; export LISTEN_PID; exec "$@"', "sh", *command]
        self.stderr = tempfile.TemporaryFile()
        self.child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.stderr, stderr=self.stderr,
                                      preexec_fn=self._arrange if names else None, close_fds=False, start_new_session=True)

    def _arrange(self):
        """From 3 on, as sd_listen_fds() wants them."""
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate(self.fds)]
        os.closerange(3, 200)
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
            os.close(fd)

    @property
    def pid(self):
        return self.child.pid

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read().decode(errors="replace")

    def ready(self, times=1):
        return wait_for(lambda: self.supervisor.count("READY=1") >= times or self.child.poll() is not None) and self.child.poll() is None

    def end(self, number=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(number)
        if not wait_for(lambda: self.child.poll() is not None):
            self.child.kill()
            self.child.wait()
            return None
        return self.child.returncode

    def status(self, key):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return re.search(rf"^{key}:\s*(\S+)", text, re.MULTILINE)[1]


class Cgroups:
    """Cgroups of our own in the memory controller's hierarchy; a removed one is kept by a page of a file in a tmpfs of ours."""

    def __init__(self):
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        v1 = [m[1] for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")]
        v2 = [m[1] for m in mounts if m[2] == "cgroup2"]
        self.v2 = not v1
        if not v1 and not v2:
            skip_all("no hierarchy with the memory controller is mounted")
        self.mount = pathlib.Path((v1 or v2)[0])
        # A name that no run before had: what is dying of that one has the same path.
        self.name = f"{NAME}-{os.getpid()}"
        self.root = self.mount / self.name
        self.files = None

    def open(self, directory):
        for left in self.mount.glob(NAME + "-*"):
            if not os.path.exists(f"/proc/{left.name.rpartition('-')[2]}"):
                self.remove_all(left)
        if self.v2:
            control = self.mount / "cgroup.subtree_control"
            if "memory" not in control.read_text().split():
                control.write_text("+memory")
        self.root.mkdir()
        if self.v2:
            (self.root / "cgroup.subtree_control").write_text("+memory")
        self.files = directory / "files"
        self.files.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", NAME, str(self.files)], check=True)

    def close(self):
        if self.files:
            subprocess.run(["umount", "-l", str(self.files)], check=False)
        self.files = None
        self.remove_all(self.root)

    def remove_all(self, top):
        for path, _, _ in os.walk(top, topdown=False):
            wait_for(lambda: self._remove(path), 10)

    @staticmethod
    def _remove(path):
        with contextlib.suppress(OSError):
            os.rmdir(path)
        return not os.path.exists(path)

    def make(self, name):
        path = self.root / name
        path.mkdir()
        return path

    def remove(self, path):
        if not wait_for(lambda: self._remove(path), 10):
            raise OSError(f"{path} cannot be removed")

    def pinned(self, name):
        """Makes one whose pages of a file are there, removes it. True: the time between the two clocks is that of its death."""
        path = self.make(name)
        data = bytes(65536)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                procs = os.open(path / "cgroup.procs", os.O_WRONLY)
                file = os.open(self.files / name, os.O_WRONLY | os.O_CREAT)
                # All that this takes is done once outside: a page of a program that is read in the cgroup is charged to it, and stays.
                os.write(file, data)
                os.ftruncate(file, 0)
                os.lseek(file, 0, os.SEEK_SET)
                os.write(procs, b"0")
                if os.write(file, data) == len(data):
                    os._exit(0)
            os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            raise OSError(f"nothing can be written in {path}")
        before = boot_usec()
        self.remove(path)
        return before, boot_usec()

    def release(self, name):
        (self.files / name).unlink(missing_ok=True)


@contextlib.contextmanager
def bench():
    """→ (directory, supervisor, journal, cgroups), all of it gone afterwards."""
    if os.geteuid() != 0:
        skip_all("needs root: a mount namespace, cgroups, BPF")
    own_namespace()
    journal, cgroups, supervisor = Journal(), Cgroups(), None
    journal.open()
    directory = pathlib.Path(tempfile.mkdtemp(prefix=NAME + "-", dir="/tmp"))
    os.chmod(directory, 0o755)
    try:
        supervisor = Supervisor(directory)
        pumps[:] = [journal.read, supervisor.read]
        cgroups.open(directory)
        yield directory, supervisor, journal, cgroups
    finally:
        pumps.clear()
        for daemon in running:
            if daemon.child.poll() is None:
                daemon.child.kill()
                daemon.child.wait()
        running.clear()
        cgroups.close()
        journal.close()
        if supervisor:
            supervisor.close()
        shutil.rmtree(directory, ignore_errors=True)
