#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What shrinkwatchd costs a host where nothing happens: CPU, memory, wake-ups, with the default configuration, at two numbers of memory cgroups.

    SHRINKWATCHD=build/daemon/shrinkwatchd tests/bench/service-cost.py [SECONDS [MEMCGS...]]
"""

import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "service"))
from servicetest import Daemon, bench, note  # noqa: E402  (found by the line above)

TICK = os.sysconf("SC_CLK_TCK")


def sample(pid):
    """→ (CPU seconds, wake-ups, resident KiB)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])
    resident = int(re.search(r"^VmRSS:\s*(\d+)", status, re.M)[1])
    return (int(fields[11]) + int(fields[12])) / TICK, switches, resident


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 310
    wanted = [int(n) for n in sys.argv[2:]] or [1000, 45000]
    with bench() as (directory, supervisor, _journal, cgroups):
        conf = directory / "empty.conf"
        conf.write_text("")
        state = directory / "state"
        state.mkdir()
        made = 0
        for count in wanted:
            for made in range(made, count):
                cgroups.make(f"idle-{made}")
            made = count
            daemon = Daemon(supervisor, ["--config", str(conf), "--state", str(state)])
            if not daemon.ready(supervisor.count("READY=1") + 1):
                sys.exit(f"the daemon did not start: {daemon.errors()}")
            start = sample(daemon.pid)
            time.sleep(seconds)
            end = sample(daemon.pid)
            note(f"{count} memcgs, {seconds} s: start {start[0]:.2f} s of CPU; then {100 * (end[0] - start[0]) / seconds:.3f} % of one CPU, "
                 f"{(end[1] - start[1]) * 60 / seconds:.1f} wake-ups a minute, {end[2] / 1024:.1f} MiB resident")
            daemon.end()
            supervisor.empty()


if __name__ == "__main__":
    main()
