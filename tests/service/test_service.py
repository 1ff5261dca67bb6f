#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""shrinkwatchd on this kernel: what it tells the service manager and the journal, and what outlives it."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

from servicetest import DAEMON, ROOT, Daemon, bench, boot_usec, check, equal, finish, note, pumps, wait_for

CTL = os.environ.get("SHRINKWATCHCTL", str(ROOT / "build" / "ctl" / "shrinkwatchctl"))

PINNED = 17
CONF = """
[Census]
IntervalSec=1s
CPUShare=100%
[Limits]
HostOn=infinity
SubtreeOn=infinity
DyingOn=infinity
DyingGrowthOn=infinity
StrandedIdsOn=infinity
MemcgIdsOn=infinity
[Metrics]
TextFile={metrics}
"""
# Others make cgroups on this host as well: what is judged is our subtree alone.
OURS = """
[Subtree {name}]
OverheadOn={on}
OverheadOff={off}
MinAgeSec=0
"""
USER = 65534


class Bench:
    def __init__(self, directory, supervisor, journal, cgroups):
        self.directory, self.supervisor, self.journal, self.cgroups = directory, supervisor, journal, cgroups
        self.conf = directory / "shrinkwatchd.conf"
        self.state = directory / "state"
        self.state.mkdir()
        self.state.chmod(0o777)
        self.metrics_file = directory / "metrics" / "shrinkwatch.prom"
        self.metrics_file.parent.mkdir()
        self.metrics_file.parent.chmod(0o777)

    def write_conf(self, on=None, off=None):
        limit = OURS.format(name=self.cgroups.name, on=on, off=off) if on else ""
        self.conf.write_text(CONF.format(metrics=self.metrics_file) + limit)

    def start(self):
        ready = self.supervisor.count("READY=1")
        daemon = Daemon(self.supervisor, ["--config", str(self.conf), "--state", str(self.state)], user=USER)
        if not check("it gets ready", daemon.ready(ready + 1), daemon.errors()):
            daemon.end()
            finish()
        return daemon

    def metrics(self):
        """Series with labels → value."""
        found = {}
        for line in self.metrics_file.read_text().splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def censuses(self):
        return self.metrics().get("shrinkwatch_census_timestamp_seconds", 0)

    def next_census(self, times=2):
        """Waits until so many have begun and ended."""
        for _ in range(times):
            before = self.censuses()
            wait_for(lambda: self.censuses() > before)

    def ages(self):
        """serial → (usec, exact) of the state file: of our own cgroups, since others come and go on this host as well."""
        found = {}
        ours = {serial for path, serial in self.census() if path.startswith(f"/{self.cgroups.name}/")}
        for line in (self.state / "ages").read_text().splitlines():
            if (match := re.match(r"(\d+) (\d+) (exact|since)\b", line)) and int(match[1]) in ours:
                found[int(match[1])] = (int(match[2]), match[3] == "exact")
        return found

    @staticmethod
    def census():
        done = subprocess.run([CTL, "census", "--direct", "--json"], stdout=subprocess.PIPE, check=True)
        return {(m["path"], m["serial"]): m for m in json.loads(done.stdout)["memcgs"]}

    def overhead(self):
        """Bytes of our subtree, by a census of the command line's."""
        return next(m["subtree_bytes"] for m in self.census().values() if m["path"] == "/" + self.cgroups.name)


def test_start(b):
    b.write_conf()
    daemon = b.start()
    check("an ordinary user with the two capabilities is enough", True)
    for which in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
        # The bounding set takes CAP_SETPCAP to lower: the unit does it. What is left there cannot be had any more.
        if which != "CapBnd":
            equal(f"after the start, {which} is", int(daemon.status(which), 16), 0)
    equal("no new privileges", daemon.status("NoNewPrivs"), "1")
    status = b.supervisor.last("STATUS")
    first = [text for text in b.journal.messages() if text.startswith("First census: ")]
    check("the journal hears of the first census", len(first) == 1, b.journal.entries)
    check("the status has the headline figures", status and re.search(r"of shrinker memory.* dying of \d+ memory cgroups", status), status)
    started = wait_for(lambda: b.journal.of(SHRINKWATCH_EVENTS="fresh"))
    if check("the journal hears of the start", len(started) == 1, b.journal.entries):
        check("with a message id", re.fullmatch(rb"[0-9a-f]{32}", started[0].get("MESSAGE_ID", b"")), started[0])
    mode = b.metrics_file.stat().st_mode
    equal("mode of the metrics", stat.S_IMODE(mode), 0o644)
    check("all links and maps are in the store", len(b.supervisor.store) >= 6 and all(n.startswith("sw1-") for n in b.supervisor.store), b.supervisor.store)
    equal("descriptors are stored without being polled", b.supervisor.count("FDPOLL=0"), len(b.supervisor.store))
    equal("exit status after SIGTERM", daemon.end(), 0)
    check("it says that it stops", b.supervisor.count("STOPPING=1") == 1)
    b.supervisor.empty()


def test_finding(b):
    """Raised once, cleared once."""
    empty = b.overhead()
    b.cgroups.pinned("find-0")
    wait_for(lambda: b.overhead() > empty)
    each = b.overhead() - empty
    limit = empty + PINNED * each
    note(f"our cgroup: {empty} bytes; each one that is dying below it: {each}")

    b.write_conf(limit, empty + 2 * each)
    daemon = b.start()
    for i in range(1, PINNED - 1):
        b.cgroups.pinned(f"find-{i}")
    b.next_census()
    equal("bytes, one short of the limit", b.overhead(), limit - each)
    equal("entries below the limit", len(b.journal.told("subtree", "raised")), 0)
    b.cgroups.pinned(f"find-{PINNED - 1}")
    raised = wait_for(lambda: b.journal.told("subtree", "raised"))
    equal("entries when the limit is reached", len(raised), 1)
    if raised:
        equal("its cgroup", raised[0].get("SHRINKWATCH_CGROUP"), f"/{b.cgroups.name}".encode())
        equal("its value", raised[0].get("SHRINKWATCH_VALUE"), str(limit).encode())
        equal("its limit", raised[0].get("SHRINKWATCH_LIMIT"), str(limit).encode())
        equal("its priority", raised[0].get("PRIORITY"), b"4")
    b.next_census(4)
    equal("entries four censuses later", len(b.journal.told("subtree", "raised")), 1)
    equal("the metrics have it", b.metrics()['shrinkwatch_findings{kind="subtree"}'], 1)

    # A crash and a restart in between: what was told is not told again.
    daemon.end(signal.SIGKILL)
    daemon = b.start()
    b.next_census(3)
    equal("entries after a crash and a restart", len(b.journal.told("subtree", "raised")), 1)

    for i in range(PINNED):
        b.cgroups.release(f"find-{i}")
    cleared = wait_for(lambda: b.journal.told("subtree", "cleared"))
    equal("entries when they are gone", len(cleared), 1)
    b.next_census(3)
    equal("entries three censuses later", (len(b.journal.told("subtree", "raised")), len(b.journal.told("subtree", "cleared"))), (1, 1))
    equal("exit status", daemon.end(), 0)
    b.supervisor.empty()


def since_of(b, window):
    """Ages whose time is in this window: (exact, not exact)."""
    inside = [exact for usec, exact in b.ages().values() if window[0] <= usec <= window[1]]
    return inside.count(True), inside.count(False)


def test_ages(b):
    """No event and no age is lost by a stop, a crash, or while nobody is there."""
    b.write_conf()
    daemon = b.start()
    while_running = b.cgroups.pinned("age-running")
    b.next_census(3)
    equal("exact ages of one that was removed while the daemon ran", since_of(b, while_running), (1, 0))

    equal("exit status after SIGTERM", daemon.end(), 0)
    equal("its age is in the state file", since_of(b, while_running), (1, 0))
    store, adopted = len(b.supervisor.store), len(b.journal.of(SHRINKWATCH_EVENTS="adopted"))
    while_stopped = b.cgroups.pinned("age-restart")
    daemon = b.start()
    equal("the store is adopted", len(b.journal.of(SHRINKWATCH_EVENTS="adopted")) - adopted, 1)
    equal("and not stored again", len(b.supervisor.store), store)
    b.next_census(3)
    equal("exact ages of one that was removed during a restart", since_of(b, while_stopped), (1, 0))

    daemon.end(signal.SIGKILL)
    while_dead = b.cgroups.pinned("age-crash")
    daemon = b.start()
    b.next_census(3)
    equal("exact ages of one that was removed after a crash", since_of(b, while_dead), (1, 0))
    equal("the others are as they were", (since_of(b, while_running), since_of(b, while_stopped)), ((1, 0), (1, 0)))

    # A stop empties the store: what dies then was seen by nobody.
    daemon.end()
    b.supervisor.empty()
    b.cgroups.pinned("age-unseen")
    before = boot_usec()
    daemon = b.start()
    b.next_census(3)
    equal("one that nobody saw dies at least since the first census", since_of(b, (before, boot_usec())), (0, 1))
    equal("ages from before the stop are as they were", (since_of(b, while_running), since_of(b, while_dead)), ((1, 0), (1, 0)))

    for name in ("age-running", "age-restart", "age-crash", "age-unseen"):
        b.cgroups.release(name)
    gone = wait_for(lambda: b.next_census() or not [1 for w in (while_running, while_stopped, while_dead) if since_of(b, w) != (0, 0)])
    check("entries of those that are gone go", gone, b.ages())
    daemon.end()
    b.supervisor.empty()


def test_reload(b):
    b.write_conf()
    daemon = b.start()
    ready = b.supervisor.count("READY=1")
    good = b.conf.read_text()
    # One dying memcg is enough for a finding, as soon as this is in force
    limit = "[Limits]\nDyingOn=1\nDyingOff=1\nDyingMinAgeSec=0\n"
    b.cgroups.pinned("reload")

    def findings():
        b.next_census()
        return b.metrics()['shrinkwatch_findings{kind="dying"}']

    for what, line in (("an unknown key", "NoSuchKey=1"), ("a bad value", "HostOn=much"), ("an Off above its On", "StrandedIdsOn=5\nStrandedIdsOff=6")):
        ready, told, reloading = b.supervisor.count("READY=1"), len(b.journal.read()), b.supervisor.count("RELOADING=1")
        b.conf.write_text(good + limit + line + "\n")
        daemon.child.send_signal(signal.SIGHUP)
        check(f"a reload with {what} ends with READY", wait_for(lambda: b.supervisor.count("READY=1") > ready))
        usec = b.supervisor.last("MONOTONIC_USEC")
        check("it began with RELOADING and a time", b.supervisor.count("RELOADING=1") == reloading + 1 and usec and int(usec) > 0, usec)
        messages = b.journal.messages(told)
        at = f"{b.conf}:{(good + limit + line).count(chr(10)) + 1}: "
        check(f"{what} is told with file and line", len(messages) == 2 and messages[0].startswith(at), messages)
        check("and nothing of that file is in force", "1 mistake, told" in messages[-1] and findings() == 0, messages)

    ready = b.supervisor.count("READY=1")
    b.conf.write_text(good + limit)
    daemon.child.send_signal(signal.SIGHUP)
    check("a reload of a good file ends with READY", wait_for(lambda: b.supervisor.count("READY=1") > ready))
    check("and it is in force", wait_for(lambda: findings() == 1))
    b.cgroups.release("reload")

    ready = b.supervisor.count("READY=1")
    b.conf.unlink()
    b.conf.mkdir()
    daemon.child.send_signal(signal.SIGHUP)
    check("a reload of what cannot be read ends with READY", wait_for(lambda: b.supervisor.count("READY=1") > ready))
    refused = [e for e in b.journal.read() if b"stays, whole" in e.get("MESSAGE", b"")]
    check("and says that the old one stays", len(refused) == 4, [e.get("MESSAGE") for e in b.journal.entries])
    before = b.censuses()
    check("censuses go on", wait_for(lambda: b.censuses() > before))
    b.conf.rmdir()
    equal("exit status", daemon.end(), 0)
    b.supervisor.empty()


def test_rates(b):
    b.write_conf()
    daemon = b.start()
    for i in range(23):
        b.cgroups.remove(b.cgroups.make(f"rate-{i}"))
    daemon.child.send_signal(signal.SIGUSR1)
    told = wait_for(lambda: [e for e in b.journal.read() if b"rate-*" in e.get("MESSAGE", b"")])
    check("SIGUSR1 tells who makes memory cgroups",
          told and re.fullmatch(rb"rate-\*: .*; since the start 23 made, 23 removed, \d+ gone", told[-1]["MESSAGE"]), told)
    daemon.end()
    b.supervisor.empty()


def test_losses(b):
    """Removals that found no room while nobody was there: told, as long as an age is missing for it, and in the totals."""
    b.write_conf()
    b.conf.write_text(b.conf.read_text() + "[Events]\nDeathsMax=1024\n[Limits]\nDegradedMinAgeSec=0\n")
    daemon = b.start()
    b.next_census()
    before = b.metrics()
    lost, removed = 'shrinkwatch_events_lost_total{what="deaths"}', 'shrinkwatch_memcg_events_total{event="removed"}'
    daemon.end()
    for i in range(2003):
        os.rmdir(b.cgroups.make(f"loss-{i}"))
    window = b.cgroups.pinned("loss-pinned")
    told = len(b.journal.read())
    daemon = b.start()
    raised = wait_for(lambda: b.journal.told("degraded", "raised"))
    check("lost times are told after a restart", raised and re.search(rb"removed: [0-9]+ ages? of dying", raised[0]["MESSAGE"]), b.journal.messages(told))
    b.next_census(3)
    after = b.metrics()
    check(f"{after[lost] - before[lost]:.0f} were lost", after[lost] - before[lost] >= 2004 - 1024, after)
    # Others remove cgroups on this host as well.
    check(f"{after[removed] - before[removed]:.0f} removals were counted", after[removed] - before[removed] >= 2004, after)
    equal("it is degraded", (after["shrinkwatch_degraded"], len(b.journal.told("degraded", "raised"))), (1, 1))
    equal("those that stayed and have no exact age", since_of(b, (window[0], boot_usec()))[1], 1)
    # Another restart: what was accounted for is not told again.
    b.cgroups.release("loss-pinned")
    cleared = wait_for(lambda: b.next_census() or b.journal.told("degraded", "cleared"))
    equal("over, when nothing lacks an age for it", len(cleared), 1)
    daemon.end(signal.SIGKILL)
    daemon = b.start()
    b.next_census(2)
    equal("after a crash it is not told again", len(b.journal.told("degraded", "raised")), 1)
    # Names that found no room in the ring
    daemon.child.send_signal(signal.SIGSTOP)
    for i in range(3001):
        os.rmdir(b.cgroups.make(f"loss-{i}"))
    told = len(b.journal.read())
    daemon.child.send_signal(signal.SIGCONT)
    daemon.child.send_signal(signal.SIGUSR1)
    names = wait_for(lambda: [m for m in b.journal.messages(told) if "events whose names found no room" in m])
    check("SIGUSR1 says what its numbers lack", names, b.journal.messages(told))
    daemon.end()
    b.supervisor.empty()


def test_state_unwritable(b):
    """A state file that cannot be written is told once, whatever becomes of the others."""
    b.write_conf()
    for name in ("ages", "counts"):
        (b.state / name).unlink(missing_ok=True)
    (b.state / "ages").mkdir()
    (b.state / "ages" / "in the way").touch()
    daemon = b.start()
    for i in range(4):
        # Something for each file to say
        b.cgroups.pinned(f"unwritable-{i}")
        b.next_census()
    messages = [m for m in b.journal.messages() if "Cannot write" in m]
    check("it is told once", len(messages) == 1 and "/ages: " in messages[0], messages)
    check("the others are written", (b.state / "counts").stat().st_size > 0)
    (b.state / "ages" / "in the way").unlink()
    (b.state / "ages").rmdir()
    b.next_census()
    check("it is written when it can be", wait_for(lambda: (b.state / "ages").is_file() and len(b.ages()) >= 4))
    for i in range(4):
        b.cgroups.release(f"unwritable-{i}")
    daemon.end()
    b.supervisor.empty()


def test_stalled_journal(b):
    """Nobody reads the journal's socket: censuses go on, and SIGTERM ends the daemon."""
    b.write_conf()
    daemon = b.start()
    pumps[:] = [b.supervisor.read]
    filler = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    filler.setblocking(False)
    try:
        for _ in range(100000):
            filler.sendto(b"MESSAGE=full", "/run/systemd/journal/socket")
        check("the journal's queue is full", False)
    except BlockingIOError:
        check("the journal's queue is full", True)
    for _ in range(5):
        daemon.child.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
    b.next_census(2)
    before = b.censuses()
    check("censuses go on", wait_for(lambda: b.censuses() > before))
    equal("exit status after SIGTERM", daemon.end(), 0)
    pumps[:] = [b.journal.read, b.supervisor.read]
    b.supervisor.empty()


def test_command_line(b):
    daemon = Daemon(b.supervisor, ["--no-such-option"])
    equal("exit status of a bad option", daemon.end(0), 2)
    daemon = Daemon(b.supervisor, ["--check-config", "--config", str(b.directory / "none.conf")])
    equal("exit status of --check-config with no file", daemon.end(0), 1)
    b.write_conf()
    daemon = Daemon(b.supervisor, ["--check-config", "--config", str(b.conf)])
    check("--check-config of a good file", daemon.end(0) == 0, daemon.errors())
    daemon = Daemon(b.supervisor, ["--once", "--config", str(b.directory / "none.conf")])
    equal("exit status when the file asked for is not there", daemon.end(0), 1)
    check("and why", b.journal.messages()[-1].startswith("Cannot start: "), b.journal.messages())
    daemon = Daemon(b.supervisor, ["--once", "--config", str(b.conf), "--state", str(b.directory / "none")])
    equal("exit status when the directory asked for is not there", daemon.end(0), 1)
    check("and what to do", b.journal.messages()[-1].endswith("Make that directory, or leave --state= out"), b.journal.messages())
    b.conf.write_text("[Census]\nIntervalSec=never\n")
    daemon = Daemon(b.supervisor, ["--check-config", "--config", str(b.conf)])
    check("--check-config of a bad value", daemon.end(0) == 1 and f"{b.conf}:2:" in daemon.errors(), daemon.errors())


def test_second(b):
    """Two daemons on one state directory would undo each other's ages."""
    b.write_conf()
    daemon = b.start()
    ready = b.supervisor.count("READY=1")
    second = Daemon(b.supervisor, ["--config", str(b.conf), "--state", str(b.state)], user=USER)
    equal("exit status of a second daemon on the same state", second.end(0), 1)
    check("it says why", "another shrinkwatchd keeps its state" in b.journal.messages()[-1], b.journal.messages())
    equal("it never was ready", b.supervisor.count("READY=1"), ready)
    b.next_census()
    equal("exit status of the first", daemon.end(), 0)
    b.supervisor.empty()


def test_check_config(b):
    """As root: what the service's user cannot read, it will not read."""
    passwd = b.directory / "passwd"
    passwd.write_text(pathlib.Path("/etc/passwd").read_text() + f"shrinkwatch:x:64998:{USER}::/:/bin/false\n")
    subprocess.run(["mount", "--bind", str(passwd), "/etc/passwd"], check=True)
    directory = pathlib.Path("/run/shrinkwatch/shrinkwatchd.conf.d")
    directory.mkdir(parents=True)
    good = directory / "10-good.conf"
    good.write_text("[Limits]\nDyingOn=7\n")
    # Who changes its user cannot be traced, which the leak checker wants to.
    environment = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    daemon = Daemon(b.supervisor, ["--check-config"], environment)
    check("--check-config of what everybody can read", daemon.end(0) == 0, daemon.errors())
    good.chmod(0o600)
    daemon = Daemon(b.supervisor, ["--check-config"], environment)
    check("--check-config of what root alone can read", daemon.end(0) == 1 and "Permission denied" in daemon.errors(), daemon.errors())
    good.rename(directory / "20-\033[31m.conf")
    daemon = Daemon(b.supervisor, ["--check-config"], environment)
    check("a name is shown escaped", daemon.end(0) == 1 and "20-\\x1b[31m.conf" in daemon.errors() and "\033" not in daemon.errors(), daemon.errors())
    shutil.rmtree("/run/shrinkwatch")
    subprocess.run(["umount", "/etc/passwd"], check=True)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([DAEMON, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    check("output that is lost is a failure", done.returncode == 1 and "cannot write the output" in done.stderr, done)
    daemon = Daemon(b.supervisor, ["--state="])
    equal("exit status of an empty --state=", daemon.end(0), 2)


PARTS = {
    "losses": (test_losses, test_state_unwritable, test_stalled_journal),
    "start": (test_command_line, test_check_config, test_start, test_second, test_rates),
    "finding": (test_finding,),
    "ages": (test_ages,),
    "reload": (test_reload,),
}


def main():
    begin = time.monotonic()
    with bench() as parts:
        b = Bench(*parts)
        for test in PARTS[sys.argv[1]] if len(sys.argv) > 1 else [test for tests in PARTS.values() for test in tests]:
            test(b)
    note(f"{time.monotonic() - begin:.1f} s")
    finish()


if __name__ == "__main__":
    main()
