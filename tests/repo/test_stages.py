#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""tools/stages: what it counts, and that nothing it starts outlives it."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "stages"
loader = importlib.machinery.SourceFileLoader("stages", str(PATH))
stages = importlib.util.module_from_spec(importlib.util.spec_from_loader("stages", loader))
sys.modules["stages"] = stages
loader.exec_module(stages)

TAP = "1..5\nok 1 - a\nnot ok 2 - b\n# why\nok 3 - c # SKIP no root\nnot ok 4 - d # SKIP cmocka says it so\nnot ok 5 - e # TODO later\n"


def counts(result):
    return result.passed, len(result.failures), len(result.skips)


def meson(*tests):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        for name, verdict, stdout in tests:
            log.write(json.dumps({"name": name, "result": verdict, "stdout": stdout}) + "\n")
        log.flush()
        return stages.count_meson(pathlib.Path(log.name))


def stage(limit_sec):
    made = stages.Stage("test", limit_sec, "", None)
    made.start(time.monotonic() + 1000)
    made.log = lambda: pathlib.Path("/dev/null")
    return made


def alive(word):
    """Whether any process has the word among its arguments."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            pass  # it ended meanwhile
    return False


def main():
    points = []

    def check(name, got, want):
        points.append((name, got, want))

    check("TAP is counted", counts(stages.count_tap(TAP)), (2, 1, 2))
    check("a reason for a skip", stages.count_tap(TAP).skips[0], ("c", "no root"))
    check("a reason for a failure", stages.count_tap(TAP).failures, [("b", "not ok\n# why")])
    check("a plan of nothing has a reason", stages.count_tap("1..0 # SKIP no root\n").skips, [("", "no root")])
    check("what has no plan is no TAP", stages.count_tap("ok 1 - a\n"), None)
    check("a test without TAP is one point", counts(meson(("a", "OK", "fine"), ("b", "FAIL", "bad"))), (1, 1, 0))
    check("a skip says its last line", meson(("a", "SKIP", "x\nno kernel\n")).skips, [("a", "no kernel")])
    check("a test that speaks TAP", counts(meson(("a", "FAIL", TAP))), (2, 1, 2))
    check("good points of a test that crashed", counts(meson(("a", "ERROR", "1..1\nok 1 - a\n"))), (1, 1, 0))
    check("a test whose time was up", counts(meson(("a", "TIMEOUT", ""))), (0, 1, 0))
    check("the lab's summary counts", counts(stages.count_lab("ok 1 - a\nnot ok 2 - b\n1 passed, 2 failed, 1 skipped\n")), (1, 2, 1))
    check("a lab that ended early is a failure", counts(stages.count_lab("ok 1 - a\n")), (1, 1, 0))

    names = " ".join(stage.name for stage in stages.STAGES + stages.STAGES_BY_HAND)
    for words in (["nosuch"], ["unit", "nosuch"], ["nosuch", "unit"]):
        done = subprocess.run([PATH.parent / "test", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        want = f"tools/test: no stage 'nosuch': choose from {names}; nothing was done\n"
        check(f"tools/test {' '.join(words)} is refused before anything is installed", (done.returncode, done.stdout, done.stderr.decode()), (2, b"", want))

    stages.adopt_orphans()
    check("an exit code and a text", stage(10).call("sh", "-c", "echo hello; exit 3"), (3, "hello\n"))
    check("there is no input", stage(10).call("cat")[0], 0)
    # A daemon: a session of its own, its parent gone, deaf to SIGTERM.
    word = f"31.{os.getpid()}"
    stage(10).call("sh", "-c", f"setsid sh -c 'trap \"\" TERM; sleep {word} & sleep {word}; sleep {word}' >/dev/null 2>&1 & sleep 0.3")
    check("a daemon is there", alive(word), True)
    check("and is found", stages.end_descendants() > 0, True)
    check("and ended", alive(word), False)
    begin = time.monotonic()
    check("a time limit ends a command", stage(0.5).call("sleep", word)[0], None)
    check("soon", time.monotonic() - begin < 20, True)
    check("and all of it", alive(word), False)

    print(f"1..{len(points)}")
    for number, (name, got, want) in enumerate(points, 1):
        print(f"{'ok' if got == want else 'not ok'} {number} - {name}")
        if got != want:
            print(f"# got {got!r}, not {want!r}")
    return 1 if any(got != want for _, got, want in points) else 0


if __name__ == "__main__":
    sys.exit(main())
