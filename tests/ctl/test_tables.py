#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What people see: tables against stored ones, sorting, limits, names that are no text, terminals.

With --update the stored tables are written anew: read the difference before you commit it."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from ctltest import HERE, PROGRAM, TemporaryHost, check, environment, equal, finish, run

GOLDEN = HERE / "golden"
STORED = {
    "census": ["census"],
    "census-bytes": ["census", "--bytes", "--dying"],
    "census-identity": ["census", "-o", "serial,engine,container,machine,pod,slice,unit"],
    "census-numbers": ["census", "-o", "SERIAL,PARENT,ID,LEVEL,NODES,SLOTS,UNITS,ARRAYS,DELTA,MEMCGS,MEMORY,SWAP"],
    "top": ["top"],
    "creators": ["creators"],
    "estimate": ["estimate"],
    "estimate-memcgs": ["estimate", "--memcgs"],
    "model": ["estimate", "--model", "memcgs=45000,nodes=4,ids=52480"],
    "show-dying": ["show", "41"],
    "show-live": ["show", "/system.slice/cron.service"],
    "show-creating": ["show", "64"],
    "flat-top": ["top"],
    "flat-show": ["show", "4"],
    "flat-estimate": ["estimate"],
    "flat-estimate-memcgs": ["estimate", "--memcgs"],
    "flat-creators": ["creators"],
    "on-demand-top": ["top"],
    "on-demand-show": ["show", "@4"],
    "unsettled-census": ["census"],
    "root-only-census": ["census"],
    "root-only-creators": ["creators"],
    "nokmem-census": ["census"],
    "nokmem-creators": ["creators"],
    "nokmem-show": ["show", "/system.slice"],
}


def host_of(name):
    return next((f"{host}.txt" for host in ("flat", "on-demand", "unsettled", "root-only", "nokmem") if name.startswith(host)), "mixed.txt")


def test_stored(update):
    for name, arguments in STORED.items():
        done = run(*arguments, host=host_of(name))
        path = GOLDEN / f"{name}.txt"
        if update:
            path.write_bytes(done.stdout)
        want = path.read_bytes() if path.exists() else b""
        ok = done.returncode == 0 and done.stdout == want
        check(f"{name} is as stored", ok, f"exit {done.returncode}\n{done.stderr.decode()}\n{done.stdout.decode()}\nstored:\n{want.decode()}")


def rows(*arguments, **more):
    return run(*arguments, "--noheadings", **more).stdout.decode().splitlines()


def test_selection():
    serials = [int(line) for line in rows("census", "-o", "SERIAL")]
    equal("census lists every memcg, once", sorted(serials), sorted(set(serials)))
    equal("and all 22", len(serials), 22)
    dying = [int(line) for line in rows("census", "--dying", "-o", "SERIAL")]
    live = [int(line) for line in rows("census", "--live", "-o", "SERIAL")]
    equal("--dying and --live split them, the one being made is neither", sorted(dying + live + [64]), sorted(serials))
    equal("--limit", [int(line) for line in rows("census", "--limit", "3", "-o", "SERIAL")], serials[:3])
    equal("--limit 0 is all of them", len(rows("top", "--limit", "0")), 22)
    equal("top lists 20", len(rows("top")), 20)

    sizes = [int(line) for line in rows("census", "--sort", "subtree", "--bytes", "-o", "SUBTREE")]
    equal("numbers are sorted from high to low", sizes, sorted(sizes, reverse=True))
    refs = rows("census", "--sort", "REFS", "-o", "REFS")
    known = [int(line) for line in refs if line.strip() != "-"]
    check("unknown comes last", refs[: len(known)] == [line for line in refs if line.strip() != "-"] and known == sorted(known, reverse=True), refs)
    paths = rows("census", "--sort", "path", "-o", "PATH")
    equal("texts are sorted from A to Z", paths, sorted(paths, key=lambda path: path.encode()))
    equal("options stand before the verb as well", run("-n", "2", "census").stdout, run("census", "-n", "2").stdout)
    equal("columns are taken in either size", rows("census", "-o", "serial,Path"), rows("census", "-o", "SERIAL,PATH"))
    equal("--direct changes nothing", run("census", "--direct").stdout, run("census").stdout)


def test_names():
    for verb in (["census"], ["top", "-n", "0"], ["creators"], ["show", "60"], ["show", "61"], ["show", "63"]):
        for locale in ("C.UTF-8", "C"):
            out = run(*verb, locale=locale).stdout
            check(f"{' '.join(verb)} in {locale}: no control byte", not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out), out)
            try:
                text = out.decode("ascii" if locale == "C" else "utf-8")
                check(f"{' '.join(verb)} in {locale}: text", not re.search("[\u0080-\u009f\u202a-\u202e]", text), out)
            except UnicodeDecodeError as error:
                check(f"{' '.join(verb)} in {locale}: text", False, error)
    check("UTF-8 is left alone", "/odd/grüße\n".encode() in run("census", "-o", "PATH").stdout)
    check("and escaped in the C locale", rb"/odd/gr\xc3\xbc\xc3\x9fe" in run("census", "-o", "PATH", locale="C").stdout)
    check("a backslash of systemd's is left alone", rb"/system-systemd\x2dfsck.slice" in run("census", "-o", "PATH").stdout)


def test_long():
    name = "n" * 255
    lines = ["host release=1 layout=units-64 v2=1 nodes=1 ids=64", "cg 1 0 / live"]
    lines += [f"cg {level + 1} {level} {name} live" for level in range(1, 40)]
    with TemporaryHost("\n".join(lines) + "\n") as host:
        out = rows("census", "-o", "PATH", host=host)
        equal("a path past PATH_MAX is whole when stdout is no terminal", out[-1], ("/" + name) * 39)
        equal("and is found", run("show", ("/" + name) * 39, host=host).returncode, 0)


def test_many():
    text = "host release=1 layout=units-64 v2=1 nodes=0xf ids=8064\ncg 1 0 / live memory=1\ncg 2 1 user.slice live memory=1\nmany 30000 2 run-r offline refs=1\n"
    with TemporaryHost(text) as host:
        out = run("census", host=host).stdout.decode().splitlines()
        widths = {len(line) - len(line.split()[-1]) for line in out[:30003]}
        equal("30,002 memcgs: every row begins its path in one column", len(widths), 1)
        check("with one heading", out[0].startswith("SERIAL") or out[0].lstrip().startswith("SERIAL"), out[0])
        equal("and no other", sum("SERIAL" in line for line in out), 1)
        check("and totals", "30,002 memory cgroups (2 live, 30,000 dying): 15,121,008 shrinker units" in "\n".join(out[-4:]), out[-4:])
        out = rows("creators", "-o", "COUNT,CAUSES,PATTERN,ANCESTOR", host=host)
        equal("and one creator", out, ["30000 unexplained 30000 run-r*.scope /user.slice"])


# ---------------------------------------------------------------------------------------------------------- terminals


def terminal(*arguments, columns, keys, until, lines=50, **more):
    """What the program writes to a terminal of that size, and its exit status. keys are typed once it has written enough for until()."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(PROGRAM, [PROGRAM, *arguments], environment(more.pop("host", "mixed.txt"), **{"TERM": "xterm", **more}))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    out, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if keys and until(out):
            os.write(fd, keys)
            keys = b""
        if select.select([fd], [], [], 0.05)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            out += piece
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return out.decode(), status


def sized(columns):
    """The size has to be there when the program starts: a shell in between waits for it."""
    return ["sh", "-c", f'stty cols {columns} rows 50; exec "$@"', "sh"]


def on_terminal(columns, *arguments, host="mixed.txt", **more):
    """
    What the program writes to a terminal. We keep that open: when the last one closes it, or its session ends, what has not been read yet
    may be lost.
    """
    end = b"\0the end\0"
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        child = subprocess.Popen([PROGRAM, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment(host, TERM="xterm", **more))
        out = b""
        while not out.endswith(end):
            if select.select([master], [], [], 0.02)[0]:
                out += os.read(master, 65536)
            elif child.poll() is not None and end not in out:
                os.write(slave, end)
                while not out.endswith(end):
                    out += os.read(master, 65536)
        return out.removesuffix(end).decode()
    finally:
        os.close(slave)
        os.close(master)


def test_terminal():
    for columns in (80, 100, 200):
        for verb in (["top"], ["census"], ["creators"], ["estimate"], ["estimate", "--memcgs"], ["support"]):
            text = re.sub("\x1b\\[[0-9;]*m", "", on_terminal(columns, *verb))
            longest = max(len(line.rstrip("\r")) for line in text.split("\n"))
            check(f"{verb[0]} fits {columns} columns", longest <= columns, f"{longest}\n{text}")
    support = on_terminal(80, "support", host="flat.txt", NO_COLOR="1").replace("\r", "")
    check("a long reason is broken between words", re.search(r"^lists +no +the kernel keeps .*\n {15,}\S", support, re.MULTILINE) and max(map(len, support.split("\n"))) <= 80, support)
    coloured = on_terminal(200, "top")
    check("colour on a terminal", "\x1b[" in coloured)
    check("none with NO_COLOR", "\x1b[" not in on_terminal(200, "top", NO_COLOR="1"))
    check("none in a pipe", b"\x1b[" not in run("top").stdout)
    for verb in (["top"], ["census"], ["show", "41"], ["creators"], ["estimate", "--memcgs"], ["support"]):
        text = on_terminal(80, *verb, "--json")
        check(f"{' '.join(verb)} --json writes no control sequence to a terminal", "\x1b" not in text and json.loads(text)["schema"] == 1, text)
    check("a shortened path has its end", "…" in on_terminal(80, "census") and "88889999.scope" in on_terminal(80, "census"))


def test_watch():
    process = subprocess.Popen(
        [PROGRAM, "top", "--watch", "1", "-n", "2"],
        env=environment("mixed.txt", SHRINKWATCH_FAKE_GROWS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out = b""
    while b"Since the last round" not in out:
        line = process.stdout.readline()
        if not line:
            break
        out += line
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    text = (out + rest).decode()
    equal("--watch ends with 0 after Ctrl-C", (process.returncode, errors), (0, b""))
    check("it printed at least two rounds", text.count("SERIAL") >= 2, text)
    check("with what changed", "Since the last round: 1 came, 0 went" in text and "overhead +12.2K" in text, text)
    check("and a column for it", "DELTA" in text, text)
    check("no redrawing in a pipe", "\x1b" not in text)

    out, status = terminal("top", "-w", "1", columns=120, keys=b"\x03", until=lambda text: text.count(b"SERIAL") >= 2)
    equal("on a terminal Ctrl-C ends it with 0 as well", status, 0)
    check("the screen is redrawn", out.count("\x1b[H\x1b[2J") >= 2, out)
    out, status = terminal("top", "-w", "1", "--json", columns=120, keys=b"\x03", until=lambda text: text.count(b'"schema":1') >= 2)
    equal("on a terminal, with --json, Ctrl-C ends it with 0", status, 0)
    check("no screen is redrawn with JSON", out.count('"schema":1') >= 2 and "\x1b" not in out, out)
    for term in ("dumb", ""):
        out, status = terminal("census", "-w", "1", columns=120, lines=20, keys=b"\x03", until=lambda text: text.count(b"SERIAL") >= 2, TERM=term)
        equal(f"TERM={term}: Ctrl-C ends it with 0", status, 0)
        check(f"TERM={term}: rounds stand one below the other", out.count("SERIAL") >= 2 and "\x1b" not in out, out)
        check(f"TERM={term}: and are whole", "22 memory cgroups" in out and "fresh" in out, out)


def main():
    test_stored("--update" in sys.argv)
    test_selection()
    test_names()
    test_long()
    test_many()
    test_terminal()
    test_watch()
    finish()


main()
