# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests of the command line share: running the program against a host that is not here, and one TAP line for each check."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOSTS = HERE / "hosts"
PROGRAM = os.environ.get("SHRINKWATCHCTL_FAKE", "shrinkwatchctl-fake")

_count = 0
_failed = 0


def check(name, ok, detail=""):
    """One line for each check; what went wrong goes beneath it."""
    global _count, _failed
    _count += 1
    if not ok:
        _failed += 1
    print(f"{'ok' if ok else 'not ok'} {_count} - {name}", flush=True)
    if not ok and detail:
        for line in str(detail).splitlines()[:60]:
            print(f"# {line}", flush=True)
    return ok


def equal(name, got, want):
    return check(name, got == want, f"got:  {got!r}\nwant: {want!r}")


def skip(name, reason):
    global _count
    _count += 1
    print(f"ok {_count} - {name} # SKIP {reason}", flush=True)


def finish():
    print(f"1..{_count}", flush=True)
    sys.exit(1 if _failed else 0)


def environment(host, locale="C.UTF-8", **more):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "NO_COLOR", "COLUMNS", "SHRINKWATCH_FAKE"))}
    env.update(LC_ALL=locale, SHRINKWATCH_FAKE_HOST=str(HOSTS / host) if "/" not in str(host) else str(host), **more)
    return env


def run(*arguments, host="mixed.txt", locale="C.UTF-8", stdout=subprocess.PIPE, **more):
    """The finished process; stdout and stderr are bytes, since names are bytes."""
    return subprocess.run(
        [PROGRAM, *arguments],
        env=environment(host, locale, **more),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


def document(*arguments, **more):
    done = run(*arguments, "--json", **more)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        check(f"{' '.join(arguments)} --json is JSON", False, f"{error}\n{done.stderr.decode()}")
        return None


class TemporaryHost:
    """A host described on the spot."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".host", encoding="utf-8")
        self.file.write(self.text)
        self.file.flush()
        return self.file.name

    def __exit__(self, *_):
        self.file.close()
