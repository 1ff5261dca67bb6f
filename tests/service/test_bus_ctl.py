#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""shrinkwatchctl status, monitor and watch, and the examples of docs/, on a bus of the test's own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

from servicetest import ROOT, check, equal, skip_all, wait_for

try:
    from bustest import OTHER, main
except ImportError as error:
    skip_all(f"needs python3-dbus and python3-gi: {error}")

from test_service import CTL


def run(b, *command, uid=0, **more):
    return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *map(str, command)], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DBUS_SYSTEM_BUS_ADDRESS": b.broker.address,
                                                       **{k: v for k, v in os.environ.items() if k.startswith(("ASAN_", "UBSAN_", "LSAN_"))}}, **more)


@contextlib.contextmanager
def follower(b, name, *command):
    """What it prints, as it prints it: a function that gives all lines so far."""
    with open(b.directory / name, "w+b", buffering=0) as out:
        child = subprocess.Popen(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT,
                                 env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "DBUS_SYSTEM_BUS_ADDRESS": b.broker.address})

        def lines():
            return (b.directory / name).read_text(errors="replace").splitlines()

        lines.child = child
        try:
            yield lines
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
            child.wait()


def test_ctl(b):
    """shrinkwatchctl status, monitor and watch; the examples of docs/."""
    empty = b.overhead()
    b.cgroups.pinned("ctl-0")
    wait_for(lambda: b.overhead() > empty)
    each = b.overhead() - empty
    limit = empty + 3 * each
    daemon = b.start(more=f"[Subtree {b.cgroups.name}]\nOverheadOn={limit}\nOverheadOff={limit}\nMinAgeSec=0\n")

    status = run(b, CTL, "status", uid=OTHER)
    check("status is for everybody", status.returncode == 0 and "Shrinker memory: " in status.stdout and "Findings: none." in status.stdout, status)
    document = json.loads(run(b, CTL, "status", "--json").stdout)
    properties = b.client.get_all()
    equal("its JSON has every property", sorted(document["manager"]), sorted(properties))
    equal("what is not known is null", document["manager"]["OverheadTrendPerHour"], None)
    with follower(b, "monitored", CTL, "monitor") as monitor, follower(b, "watched", CTL, "watch", f"/{b.cgroups.name}") as watch:
        # Whether it listens by now nobody tells: it has a connection more then.
        time.sleep(1)
        for i in range(1, 4):
            b.cgroups.pinned(f"ctl-{i}")
        found = wait_for(lambda: [x for x in monitor() if " raised subtree " in x and b.cgroups.name in x])
        check("monitor shows a finding", found, monitor())
        check("watch shows each change", wait_for(lambda: len(watch()) >= 3), watch())
        status = run(b, CTL, "status")
        check("status lists the finding", re.search(rf"^subtree .* /{b.cgroups.name}$", status.stdout, re.MULTILINE), status.stdout)
        equal("and in its JSON", [f["PathText"] for f in json.loads(run(b, CTL, "status", "--json").stdout)["findings"]], [f"/{b.cgroups.name}"])
        for i in range(4):
            b.cgroups.release(f"ctl-{i}")
        check("monitor shows that it is over", wait_for(lambda: [x for x in monitor() if " over   subtree " in x and "(below)" in x]), monitor())
        monitor.child.send_signal(signal.SIGINT)
        equal("exit status of monitor after Ctrl-C", wait_for(lambda: monitor.child.poll() is not None) and monitor.child.returncode, 0)

        examples = ROOT / "docs" / "examples"
        shell = run(b, examples / "cost.sh")
        check("the example for the shell", shell.returncode == 0 and re.match(r"host: [0-9]+ bytes, [0-9]+ of it by [0-9]+ of [0-9]+ memory", shell.stdout), shell)
        python = run(b, sys.executable, examples / "cost.py", "none.service")
        check("the example in Python, of a unit that there is not", python.returncode == 1 and "no memory cgroup of this unit" in python.stderr, python)
        b.cgroups.make("example.service")
        b.client.call("TakeCensus")
        time.sleep(1.1)
        b.client.call("TakeCensus")
        unit = run(b, sys.executable, examples / "cost.py", "example.service")
        check("and of one that there is", unit.returncode == 0 and unit.stdout.startswith("example.service: 0."), unit)
        unit = run(b, examples / "cost.sh", "example.service")
        check("in the shell as well", re.search(rf"^example.service: {each} bytes, 0 of it by 0 ", unit.stdout, re.MULTILINE), unit)
        hook = b.directory / "logged"
        logger = b.directory / "bin" / "logger"
        logger.parent.mkdir()
        logger.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{hook}\n')
        logger.chmod(0o755)
        for state in ({"id": "c1", "pid": os.getpid()}, {"id": "c1"}):
            done = subprocess.run([examples / "oci-hook.sh"], input=json.dumps(state), text=True, check=False,
                                  env={"PATH": f"{logger.parent}:/usr/bin:/bin", "DBUS_SYSTEM_BUS_ADDRESS": b.broker.address})
            equal("exit status of the hook", done.returncode, 0)
        told = hook.read_text().splitlines()
        check("the hook tells both times", len(told) == 2 and re.search(r"c1 takes [1-9][0-9]* bytes", told[0]) and "c1 is gone, 0 bytes" in told[1], told)

        daemon.end()
        equal("exit status of watch when the daemon ends", wait_for(lambda: watch.child.poll() is not None) and watch.child.returncode, 1)
    gone = run(b, CTL, "status")
    check("status without a daemon says what to do", gone.returncode == 1 and "systemctl enable --now shrinkwatchd" in gone.stderr, gone)


if __name__ == "__main__":
    main((test_ctl,))
