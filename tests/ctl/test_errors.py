#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What goes wrong: exit codes, messages, output that nobody reads or that does not fit."""

import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
import termios
import time

from ctltest import HOSTS, PROGRAM, TemporaryHost, check, environment, equal, finish, run

OK, FAILURE, USAGE, NOT_FOUND, NOT_PERMITTED, NOT_SUPPORTED, INCOMPLETE = range(7)


def fails(name, code, *arguments, says=(), **more):
    """The program ends with that code, prints nothing on stdout, and one line on stderr that has these words."""
    done = run(*arguments, **more)
    errors = done.stderr.decode()
    ok = (
        done.returncode == code
        and done.stdout == b""
        and errors.startswith("shrinkwatchctl: ")
        and errors.count("\n") == 1
        and len(errors) < 600
        and all(word in errors for word in says)
    )
    check(f"{name}: exit {code}", ok, f"exit {done.returncode}\nstdout: {done.stdout!r}\nstderr: {errors}")


def test_usage():
    fails("no verb", USAGE, says=["verb is missing", "--help"])
    fails("unknown verb", USAGE, "cencus", says=["cencus", "--help"])
    fails("unknown verb with --help", USAGE, "cencus", "--help", says=["cencus"])
    fails("verb of bytes that are no text", USAGE, b"\xff\x1b[31m", says=["\\xff\\x1b"])
    fails("unknown long option", USAGE, "census", "--colour", says=["--colour"])
    fails("unknown short option", USAGE, "census", "-x", says=["-x"])
    fails("unknown short option that is a control", USAGE, "census", "-\x07", says=["\\x07"])
    fails("option without its value", USAGE, "census", "--sort", says=["--sort", "value"])
    fails("short option without its value", USAGE, "census", "-n", says=["--limit", "value"])
    fails("value of an option that takes none", USAGE, "census", "--json=yes", says=["--json", "no value"])
    fails("an extra word", USAGE, "census", "/a", says=["/a", "census"])
    fails("two paths", USAGE, "show", "/a", "/b", says=["/b"])
    fails("show without a path", USAGE, "show", says=["PATH|SERIAL"])
    fails("show with an empty path", USAGE, "show", "", says=["PATH|SERIAL"])
    for option in ("--sort", "--limit", "--watch", "--columns"):
        done = run("census", f"{option}=\x1b[31m")
        check(f"{option}: controls of its value are escaped", done.returncode == USAGE and b"\\x1b[31m" in done.stderr and b"\x1b" not in done.stderr, done)
    fails("--dying with --live", USAGE, "census", "--dying", "--live", says=["exclude"])
    for verb, option in (("support", "--dying"), ("show", "--sort=UNITS"), ("estimate", "--watch=1"), ("creators", "--live"), ("census", "--model=x"), ("census", "--memcgs"), ("support", "--file=x"), ("census", "--root=x"), ("config", "--limit=1")):
        argument = ["/"] if verb == "show" else []
        fails(f"{option} does not apply to {verb}", USAGE, verb, *argument, option, says=[option.split("=")[0], verb])
    fails("--file with --root", USAGE, "config", "--file=a", "--root=b", says=["exclude"])
    fails("--file without its value", USAGE, "config", "--file", says=["--file", "value"])
    fails("config with a word", USAGE, "config", "Census", says=["Census", "config"])
    for value in ("", "x", "1x", " 1", "+1", "-1", "0x10", "1.5", "1000001", "99999999999999999999999"):
        fails(f"--limit={value!r}", USAGE, "census", f"--limit={value}", says=["--limit"])
    for value in ("0", "-1", "86401", "1s"):
        fails(f"--watch={value!r}", USAGE, "census", f"--watch={value}", says=["--watch"])
    for value in ("", ",", "SERIAL,", "PATTERN", "SERIAL,,PATH", "ser ial", "x\x1b"):
        fails(f"--columns={value!r}", USAGE, "census", f"--columns={value}", says=["no column"])
    fails("columns of a memcg for creators", USAGE, "creators", "-o", "SERIAL", says=["SERIAL"])
    fails("columns without end", USAGE, "census", "-o", ",".join(["SERIAL"] * 65), says=["64"])
    fails("--sort by nothing there is", USAGE, "census", "--sort=SIZE", says=["SIZE"])
    fails("--columns with the JSON of creators", USAGE, "creators", "-J", "-o", "COUNT", says=["--columns"])
    for value, word in (("", ""), ("memcgs=1", ""), ("memcgs=1,nodes=2,ids=x", "x"), ("memcgs=0,nodes=1,ids=1", "0"), ("memcgs=1,nodes=1,ids=1,x=2", "x"), ("memcgs=1,nodes=1,ids=1,ids=1", "ids")):
        fails(f"--model={value!r}", USAGE, "estimate", f"--model={value}", says=["--model", word])
    fails("--memcgs of a model", USAGE, "estimate", "--model=memcgs=1,nodes=1,ids=1", "--memcgs", says=["--model", "--memcgs"])
    fails("--model beyond numbers", USAGE, "estimate", "--model=memcgs=18446744073709551615,nodes=64,ids=18446744073709551615", says=["--model"])


def test_not_found():
    fails("a path that is near", NOT_FOUND, "show", "/system.slice/crom.service", says=["/system.slice/crom.service", "Did you mean '/system.slice/cron.service' (serial 10, live)"])
    fails("the name in another place", NOT_FOUND, "show", "/cron.service", says=["Did you mean '/system.slice/cron.service'"])
    fails("a name alone", NOT_FOUND, "show", "cron.service", says=["Did you mean '/system.slice/cron.service'"])
    fails("a path below the mount point", NOT_FOUND, "show", "/sys/fs/cgroup/system.slice/cron.servic", says=["Did you mean '/system.slice/cron.service'"])
    fails("a path that is far from all", NOT_FOUND, "show", "/" + "z" * 80, says=["census"])
    fails("a path of 5,000 letters", NOT_FOUND, "show", "/" + "z" * 400, says=["census"])
    fails("an empty path below nothing", NOT_FOUND, "show", "/\x1b[31m", says=["\\x1b"])
    fails("a serial that is not there", NOT_FOUND, "show", "99", says=["serial 99", "64"])
    fails("a serial beyond numbers", NOT_FOUND, "show", "9" * 30, says=["serial"])

    def serial(word, **more):
        done = run("show", word, **more)
        lines = [line.split()[1].rstrip(",") for line in done.stdout.decode().splitlines() if line.lstrip().startswith("Serial:")]
        return lines[0] if lines else done.stderr.decode()

    for word, want in (
        ("/", "1"), ("//", "1"), ("/system.slice", "2"), ("system.slice", "2"), ("/system.slice/", "2"), ("//system.slice///cron.service//", "10"),
        ("/sys/fs/cgroup", "1"), ("/sys/fs/cgroup/", "1"), ("/sys/fs/cgroup/system.slice/cron.service/", "10"), ("10", "10"), ("@10", "10"), ("30", "30"),
        ("/system.slice/system-systemd\\x2dfsck.slice", "20"), ("/odd/bad\\xff\\xfebyte", "60"), (b"/odd/bad\xff\xfebyte", "60"),
        ("/odd/new\\x0aline\\x1b[31m", "61"), ("/odd/new\nline\x1b[31m", "61"), ("/odd/grüße", "62"), ("/odd/gr\\xc3\\xbc\\xc3\\x9fe", "62"),
        ("/odd/rtl\\xe2\\x80\\xaeevil", "63"), ("/system.slice/run-r9f.scope", "41"), ("/odd/fresh", "64"),
    ):
        equal(f"show {word!r}", serial(word), want)
    equal("the mount point of v1", serial("/sys/fs/cgroup/memory/docker", host="flat.txt"), "2")
    with TemporaryHost("host release=1 layout=units-64 v2=1 nodes=1 ids=64\ncg 1 0 / live\ncg 5 1 7 live\ncg 7 1 other live\ncg 8 1 lit\\x5cx0aeral live\ncg 9 1 gone offline refs=1\ncg 11 1 gone offline refs=1\n") as host:
        equal("a number is a serial", serial("7", host=host), "7")
        equal("with a slash it is a name", serial("/7", host=host), "5")
        equal("a name that looks escaped", serial("/lit\\x0aeral", host=host), "8")
        equal("of two dying ones the newest", serial("/gone", host=host), "11")


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def test_no_controller():
    tree = "cg 1 0 / live\ncg 2 1 a live\ncg 3 2 b offline\ncg 4 2 b live\ncg 5 1 old offline\n"
    for directory, words, part in (
        ("/a/b/c/d", ["/a/b/c/d", "/sys/fs/cgroup/a//b/c/d/", "a/b/c/d"], "'/a/b' (serial 4, live)"),
        ("/a/x", ["/a/x"], "'/a' (serial 2, live)"),
        ("/alone", ["/alone"], "'/' (serial 1, live)"),
        ("/a/\\x1b[31m", ["/a/\x1b[31m", "/a/\\x1b[31m"], "'/a' (serial 2, live)"),
    ):
        with TemporaryHost(f"host release=1 layout=units-64 nodes=1 ids=64\n{tree}directory {directory}\n") as host:
            for word in words:
                fails(f"show {word!r}, for which the controller is off", NOT_FOUND, "show", word, host=host, says=["memory controller is off", f"part of {part}"])
            fails(f"one that is not there beside {directory!r}", NOT_FOUND, "show", "/a/bb", host=host, says=["there is no memory cgroup '/a/bb'"])
    with TemporaryHost(f"host release=1 layout=units-64 v2=0 nodes=1 ids=64\n{tree}directory /a/x\n") as host:
        fails("on v1 no directory is without the controller: it came after the census", NOT_FOUND, "show", "/a/x", host=host, says=["there is no memory cgroup '/a/x'"])


def test_nearest():
    """The suggestion against a plain edit distance over all paths, for words that were damaged at random."""
    draw = random.Random(1789)
    letters = "abcdef-."
    names = sorted({"".join(draw.choice(letters) for _ in range(draw.randint(1, 24))) for _ in range(60)})
    lines = ["host release=1 layout=units-64 v2=1 nodes=1 ids=64", "cg 1 0 / live"]
    lines += [f"cg {i} 1 {name} live" for i, name in enumerate(names, 2)]
    wrong = []
    with TemporaryHost("\n".join(lines) + "\n") as host:
        for _ in range(80):
            word = list(draw.choice(names))
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(len(word) + 1)
                word[at : at + draw.randint(0, 1)] = draw.choice(["", "", *letters])
            word = "/" + "".join(word)
            if word[1:] in names or word == "/":
                continue
            errors = run("show", word, host=host).stderr.decode()
            limit = max(3, len(word) // 4)
            best = min(distance(word, "/" + name) for name in names)
            match = re.search(r"Did you mean '(.*?)'", errors)
            got = distance(word, match[1]) if match else None
            if got != (best if best <= limit else None):
                wrong.append((word, errors, best))
    equal("suggestions are the nearest there are", wrong, [])


def test_kernel():
    for errno, code, text in (
        (1, NOT_PERMITTED, "missing CAP_BPF and CAP_PERFMON: run this as root"),
        (13, NOT_PERMITTED, "BPF is refused"),
        (2, NOT_SUPPORTED, "no BTF"),
        (95, NOT_SUPPORTED, "no memory controller"),
        (12, FAILURE, "out of memory"),
        (5, FAILURE, "something else"),
    ):
        with TemporaryHost(f"error {errno} {text}\n") as host:
            for verb in (["census"], ["top", "--json"], ["show", "/"], ["creators"], ["estimate"]):
                fails(f"{verb[0]}, {text}", code, *verb, host=host, says=[text])
            done = run("support", host=host)
            check(f"support says what it can, {text}", done.returncode == code and b"Kernel: " in done.stdout and b"Capabilities: " in done.stdout, done)
            done = run("support", "--json", host=host)
            try:
                known = json.loads(done.stdout)
            except ValueError:
                known = {}
            check(f"support --json says what it can, {text}", done.returncode == code and known.get("error") == text and known["features"] is None
                  and known["schema"] == 1 and known["host"]["kernel"] == os.uname().release and known["capabilities"], done)
            check(f"and complains, {text}", done.stderr.decode() == f"shrinkwatchctl: {text}\n", done)
            with open("/dev/full", "wb") as full:
                check(f"and is a failure on a full disk, {text}", b"No space left" in run("support", "--json", stdout=full, host=host).stderr)
            equal(f"--model needs no kernel, {text}", run("estimate", "--model=memcgs=1,nodes=1,ids=1", host=host).returncode, OK)

    for options in ([], ["--json"], ["--memcgs"]):
        fails(f"nothing to estimate {options}", NOT_SUPPORTED, "estimate", *options, host="nokmem.txt",
              says=["accounting of kernel memory is off (cgroup.memory=nokmem", "no shrinker has an id", "nothing to estimate"])
    with TemporaryHost("host release=1 layout=units-64 v2=1 nodes=1 ids=0\ncg 1 0 / live kmem=-1\n") as host:
        fails("nothing to estimate, and nobody tells why", NOT_SUPPORTED, "estimate", host=host, says=["looks like a kernel without accounting", "nokmem"])

    text = (HOSTS / "mixed.txt").read_text(encoding="utf-8") + "again\n"
    with TemporaryHost(text) as host:
        fails("a walk that never ends its way", INCOMPLETE, "census", host=host, says=["lost its place"])
    done = run("census", host="unsettled.txt")
    equal("a census that did not settle is a success", done.returncode, OK)
    again = "after newer=0\n"
    base = "host release=1 layout=units-64 v2=1 nodes=1 ids=128\ncg 1 0 / live\ncg 2 1 a live\n"
    truth = "totals are near the truth, not exact\n"
    for what, more, words in (
        ("states", again, f"memory cgroups changed while they were counted: some began to live or to die. The {truth}"),
        ("ids", "cg 3 1 b live ids=64\n" + again, f"shrinker ids were being added while memory cgroups were counted (or adding them failed for some): the {truth}"),
        ("ids and memcgs", "cg 3 1 b live ids=64\nafter newer=1 live=1\n", f"memory cgroups changed while they were counted: 1 came, 0 went. Shrinker ids were being added too (or adding them failed for some): the {truth}"),
    ):
        with TemporaryHost(base + more) as host:
            equal(f"what did not settle: {what}", run("census", host=host).stderr.decode(), f"shrinkwatchctl: {words}")
    equal("and says so in one line", done.stderr.decode(), "shrinkwatchctl: memory cgroups changed while they were counted: 3 came, 1 went. The totals are near the truth, not exact\n")


def test_output():
    for verb in (["census"], ["census", "--json"], ["show", "/"], ["creators"], ["estimate"], ["support"], ["--help"], ["top", "--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            done = run(*verb, stdout=full)
        check(f"{' '.join(verb)} on a full disk", done.returncode == FAILURE and b"No space left" in done.stderr and done.stderr.count(b"\n") == 1, done)

    text = "host release=1 layout=units-64 v2=1 nodes=0xf ids=8064\ncg 1 0 / live memory=1\nmany 20000 1 run-r offline refs=1\n"
    with TemporaryHost(text) as host:
        with open("/dev/full", "wb") as full:
            for verb in (["census"], ["census", "--json"]):
                done = run(*verb, stdout=full, host=host)
                check(f"much of {' '.join(verb)} on a full disk", done.returncode == FAILURE and b"No space left" in done.stderr, done)
        for verb in (["census"], ["census", "--json"], ["top", "-n0"]):
            process = subprocess.Popen([PROGRAM, *verb], env=environment(host), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process.stdout.read(100)
            process.stdout.close()
            errors = process.stderr.read()
            equal(f"{' '.join(verb)} whose reader has seen enough ends quietly", (process.wait(30), errors), (OK, b""))

    reading, writing = os.pipe()
    os.close(reading)
    for verb in (["census"], ["support"], ["--help"], ["estimate", "--json"]):
        done = run(*verb, stdout=writing)
        equal(f"{' '.join(verb)} without a reader ends quietly", (done.returncode, done.stderr), (OK, b""))
    process = subprocess.Popen([PROGRAM, "top", "-w", "1"], env=environment("mixed.txt"), stdout=writing, stderr=subprocess.PIPE)
    errors = process.communicate(timeout=30)[1]
    equal("--watch without a reader ends", (process.returncode, errors), (OK, b""))
    os.close(writing)

    for closed in ("1>&-", "0<&- 1>&-"):
        done = subprocess.run(["sh", "-c", f'"$0" census {closed}', PROGRAM], env=environment("mixed.txt"), stderr=subprocess.PIPE, check=False)
        check(f"census {closed} is a failure", done.returncode == FAILURE and b"cannot write" in done.stderr, done)
    done = subprocess.run(["sh", "-c", '"$0" census 2>&-', PROGRAM], env=environment("unsettled.txt"), stdout=subprocess.PIPE, check=False)
    check("census 2>&- prints the census and nothing else", done.returncode == OK and b"shrinkwatchctl:" not in done.stdout, done)

    # A pipe that nobody empties: Ctrl-C has to come through.
    with TemporaryHost(text) as host:
        process = subprocess.Popen([PROGRAM, "census", "-w", "60"], env=environment(host), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        waiting = bytearray(4)
        for _ in range(600):
            fcntl.ioctl(process.stdout, termios.FIONREAD, waiting)
            if int.from_bytes(waiting, sys.byteorder) >= 60000:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(30)
        except subprocess.TimeoutExpired:
            code = "it went on"
            process.kill()
        equal("--watch that waits for its reader can be ended", (code, process.communicate()[1]), (OK, b""))


def main():
    test_usage()
    test_not_found()
    test_no_controller()
    test_nearest()
    test_kernel()
    test_output()
    finish()


main()
