#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program's help, the man page and the completion say the same: verbs, options, columns, exit codes."""

import os
import re
import shutil
import subprocess

from ctltest import ROOT, PROGRAM, check, equal, finish, run, skip

PAGE = (ROOT / "docs" / "shrinkwatchctl.8").read_text(encoding="utf-8")
COMPLETION = ROOT / "ctl" / "shrinkwatchctl.bash"
SCHEMA = (ROOT / "docs" / "census.schema.json").read_text(encoding="utf-8")

LETTER = re.compile(r"^  (?:-(\w), |    )--([a-z]+)(=([A-Z]+))? ", re.MULTILINE)


def section(text, title):
    match = re.search(rf"^{title}:\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


def help_options(text):
    return {(letter or "", name, bool(value)) for letter, name, value, _ in LETTER.findall(section(text, "Options") + "\n")}


def help_words(text, title):
    return re.findall(r"^  (\S+)", section(text, title), re.MULTILINE)


def page_options():
    """.It Fl n , -limit Ns = Ns Ar n"""
    found = set()
    for letter, name, value in re.findall(r"^\.It Fl (?:(\w) , )?-([a-z]+)( Ns = Ns Ar)?", PAGE, re.MULTILINE):
        found.add((letter, name, bool(value)))
    return found


def page_items(heading, macro=r"\.It (?:Cm )?([\w]+)"):
    after = PAGE.split(f"\n{heading}\n", 1)[1]
    body = re.split(r"\n\.S[hs] ", after, maxsplit=1)[0]
    return re.findall(rf"^{macro}", body, re.MULTILINE)


def complete(line):
    """What bash offers for the last word of the line."""
    script = f"""
        source /usr/share/bash-completion/bash_completion
        source {COMPLETION}
        COMP_LINE=$1; COMP_POINT=${{#1}}; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        compopt() {{ :; }}
        _shrinkwatchctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    words = line.split(" ")
    done = subprocess.run(["bash", "-c", script, "bash", line, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return sorted(word.rstrip() for word in done.stdout.decode().split("\n") if word.strip())


def words_of(options):
    return sorted([f"-{letter}" for letter, _, _ in options if letter] + [f"--{name}{'=' if value else ''}" for _, name, value in options])


def main():
    text = run("--help").stdout.decode()
    verbs = help_words(text, "Verbs")
    options = help_options(text)
    common = None
    helps = {verb: run(verb, "--help") for verb in verbs}

    check("there are verbs and options", len(verbs) >= 6 and len(options) >= 13, text)
    check("--help is short enough for a screen of 80 columns", max(map(len, text.splitlines())) <= 90, text)
    equal("every verb has a help", {verb for verb, done in helps.items() if done.returncode != 0}, set())
    per_verb = {verb: help_options(done.stdout.decode()) for verb, done in helps.items()}
    common = set.intersection(*per_verb.values())
    equal("options of the verbs are those of the program", set.union(*per_verb.values()), options)
    equal("-h and --help are one", run("-h").stdout, run("--help").stdout)
    equal("-V and --version are one", run("-V").stdout, run("--version").stdout)
    check("--version tells a version", re.fullmatch(rb"shrinkwatchctl \d+\.\d+\.\d+\S*\n", run("--version").stdout), run("--version").stdout)

    # Each option that the help of a verb names is accepted, and no other is.
    values = {"sort": "PATH", "limit": "1", "columns": "PATH", "model": "memcgs=1,nodes=1,ids=1", "file": "/dev/null", "root": "/nonexistent"}
    for verb, accepted in per_verb.items():
        for letter, name, value in sorted(options):
            if name in ("help", "version", "watch"):
                continue
            argument = values.get(name, "")
            if name == "columns" and verb == "creators":
                argument = "PATTERN"
            word = f"--{name}" + (f"={argument}" if value else "")
            done = run(verb, *(["/"] if verb in ("show", "watch") else []), word, DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nonexistent")
            # Those that ask the daemon get as far as the bus.
            no_bus = verb in ("status", "monitor", "watch") and name != "direct"
            taken = 1 if no_bus and b"cannot reach the system bus" in done.stderr else 0
            equal(f"{verb} {word}: {'taken' if (letter, name, value) in accepted else 'refused'}", done.returncode, taken if (letter, name, value) in accepted else 2)

    equal("the man page has the options of the help", page_options(), options)
    equal("the man page has the verbs", sorted(page_items(".Ss Verbs", r"\.It Cm (\w+)")), sorted(verbs))
    for verb in verbs:
        check(f"the synopsis has {verb}", re.search(rf"^\.Cm .*\b{verb}\b", PAGE.split(".Sh DESCRIPTION")[0], re.MULTILINE))
    columns = help_words(helps["census"].stdout.decode(), "Columns")
    groups = help_words(helps["creators"].stdout.decode(), "Columns")
    equal("top has the columns of census", help_words(helps["top"].stdout.decode(), "Columns"), columns)
    equal("the man page has the columns of a memcg, in order", page_items(".Ss Of a memory cgroup"), columns)
    equal("the man page has the columns of a group, in order", page_items(".Ss Of a group of dying ones"), groups)
    codes = re.findall(r"^  (\d)  (.+)$", section(text, "Exit status"), re.MULTILINE)
    equal("the man page has the exit codes", page_items(".Sh EXIT STATUS", r"\.It (\d)"), [code for code, _ in codes])
    body = PAGE.split(".Sh EXIT STATUS")[1]
    for code, meaning in codes:
        check(f"and says what {code} means", f".It {code}\n{meaning}\n" in body, meaning)
    check("the man page rounds up before it multiplies", "\nunits = memcgs * nodes * (ids / 64, rounded up)\n" in PAGE)
    causes = page_items(".Sh PINS")
    source = (ROOT / "daemon" / "pins.h").read_text(encoding="utf-8")
    equal("the man page explains every cause", sorted(causes), sorted(name.lower().replace("_", "-") for name in re.findall(r"^\s+PIN_(\w+),", source, re.MULTILINE)))

    if shutil.which("groff"):
        for page in sorted((ROOT / "docs").glob("*.[1-9]")):
            done = subprocess.run(["groff", "-K", "utf-8", "-mandoc", "-Tutf8", "-ww", "-z", page], stderr=subprocess.PIPE, check=False)
            equal(f"groff has nothing to say about {page.name}", done.stderr.decode(), "")
    else:
        skip("groff has nothing to say about the man pages", "there is no groff")

    equal("bash takes the completion", subprocess.run(["bash", "-n", COMPLETION], check=False).returncode, 0)
    if not os.path.exists("/usr/share/bash-completion/bash_completion"):
        skip("completion", "bash-completion is not installed")
        finish()
    equal("completion: verbs", complete("shrinkwatchctl "), sorted(verbs))
    equal("completion: options", complete("shrinkwatchctl -"), words_of(options))
    for verb in verbs:
        equal(f"completion: options of {verb}", complete(f"shrinkwatchctl {verb} -"), words_of(per_verb[verb]))
    equal("completion: columns of a memcg", complete("shrinkwatchctl census -o "), sorted(columns))
    equal("completion: columns of a group", complete("shrinkwatchctl creators -o "), sorted(groups))
    equal("completion: the next column of a list", complete("shrinkwatchctl top -o SERIAL,OV"), ["SERIAL,OVERHEAD"])
    equal("completion: columns to sort by", complete("shrinkwatchctl top --sort sub"), ["SUBTREE"])
    equal("completion: an option's value is no verb", complete("shrinkwatchctl -s top "), sorted(verbs))
    equal("completion: no column for an option that the verb refuses", complete("shrinkwatchctl creators -s "), [])
    equal("completion: nor for its long name", complete("shrinkwatchctl creators --sort=CO"), [])
    check("completion: show offers no directory of the host's", not {"/proc", "/usr", "/etc"} & set(complete("shrinkwatchctl show /")))
    check("common options are common", len(common) >= 4, common)
    finish()


main()
