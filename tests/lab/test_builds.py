#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kernels of our own and what is compared across guests: the host's side, without a compiler, a guest or a network."""

import contextlib
import io
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from labhost import LabError, across, builds, guest, kernels, scenario  # noqa: E402


class Patches(unittest.TestCase):
    def series(self):
        return sorted(builds.PATCHES.glob("*.patch"))

    def test_two_patches_in_the_form_of_git_am(self):
        self.assertEqual([p.name[:4] for p in self.series()], ["0001", "0002"])
        for path in self.series():
            text = path.read_text(encoding="utf-8")
            self.assertRegex(text, r"\AFrom [0-9a-f]{40} .*\nFrom: .+ <.+>\nDate: .+\nSubject: \[PATCH \d/2\] mm: shrinker: ")
            self.assertLess(max(len(line) for line in text.partition("\n---\n")[0].splitlines()), 81, path.name)

    def test_git_am_takes_them_one_after_the_other(self):
        """On files made of the lines that the patches say are there: context and removed lines, with the gaps filled."""
        with tempfile.TemporaryDirectory() as directory:
            git = ["git", "-C", directory, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
            subprocess.run([*git, "init", "-q"], check=True)
            content = {}
            for path in self.series():
                for name, lines in before(path.read_text(encoding="utf-8")):
                    content.setdefault(name, {}).update({n: t for n, t in lines.items() if n not in content.get(name, {})})
            first = dict(before(self.series()[0].read_text(encoding="utf-8")))
            for name, lines in first.items():
                target = Path(directory) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text("".join(f"{lines.get(n, f'/* line {n} */')}\n" for n in range(1, max(lines) + 10)))
            subprocess.run([*git, "add", "."], check=True)
            subprocess.run([*git, "commit", "-qm", "base"], check=True)
            subprocess.run([*git, "am", "-q", self.series()[0]], check=True, stdin=subprocess.DEVNULL)
            self.assertIn("roundup(", (Path(directory) / "mm/shrinker.c").read_text())

    def test_the_units_size_is_asserted(self):
        self.assertRegex(self.series()[0].read_text(encoding="utf-8"),
                         r"\+static_assert\(sizeof\(struct shrinker_info_unit\) ==\n\+\s+BITS_PER_LONG \* sizeof\(long\)\);")

    def test_every_mutant_says_what_catches_it(self):
        self.assertGreaterEqual(len(builds.mutants()), 6)
        for path in builds.MUTANTS.glob("*.patch"):
            found = re.findall(r"^Caught-by: (\S+): (.+)$", path.read_text(encoding="utf-8"), re.M)
            self.assertTrue(found, path.name)
            for name, text in found:
                self.assertIn(name, scenario.names())
                # Words of the check, not what it fills in.
                source = scenario.load(name).path.read_text(encoding="utf-8")
                longest = max(re.split(r"/\S+|\d+", text), key=len).strip(" ,")
                self.assertIn(longest, re.sub(r"\$\{[^}]*\}", "", source), f"{path.name}: {name} has no check '{text}'")


def before(text):
    """Of each file of a patch, {line number: text} before it."""
    for part in text.split("\ndiff --git ")[1:]:
        name = re.search(r"^--- a/(\S+)", part, re.M)[1]
        lines, number = {}, None
        for line in part.split("\n"):
            if match := re.match(r"@@ -(\d+)", line):
                number = int(match[1])
            elif number is not None and line[:1] in (" ", "-"):
                lines[number] = line[1:]
                number += 1
        yield name, lines


class Variants(unittest.TestCase):
    def test_names(self):
        self.assertEqual(builds.MAIN, ("7.3-plain", "7.3-units63", "7.3-ondemand"))
        self.assertEqual([len(builds.variant(n).patches) for n in builds.MAIN], [0, 1, 2])
        self.assertEqual(len(builds.variant("7.3-mutant-bare-root").patches), 3)
        self.assertEqual(len(builds.variant("7.3-mutant-mask-rounding").patches), 2)
        with self.assertRaises(LabError):
            builds.variant("7.3-mutant-none")
        with self.assertRaises(LabError):
            builds.variant("7.3-mutant-../patches/v7.3/0001")

    def test_the_key_goes_by_what_a_kernel_is_made_from(self):
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(builds, "compiler", lambda: "1"):
            patch = Path(directory) / "a.patch"
            patch.write_text("said\n\ndiff --git a/f b/f\n+1\n")
            wanted = builds.Variant("", ("lean",), (patch,))
            first = builds.build_hash(wanted)
            patch.write_text("said otherwise\n\ndiff --git a/f b/f\n+1\n")
            self.assertEqual(builds.build_hash(wanted), first)
            patch.write_text("said\n\ndiff --git a/f b/f\n+2\n")
            self.assertNotEqual(builds.build_hash(wanted), first)
            self.assertNotEqual(builds.build_hash(builds.Variant("", ("lean", "debug"), ())),
                                builds.build_hash(builds.Variant("", ("lean",), ())))
            with mock.patch.object(builds, "compiler", lambda: "2"):
                self.assertNotEqual(builds.build_hash(wanted), first)

    def test_options_are_named_once_a_fragment(self):
        for path in builds.CONFIG.glob("*.config"):
            names = re.findall(r"^(CONFIG_\w+)=", path.read_text(encoding="utf-8"), re.M)
            self.assertEqual(len(names), len(set(names)), path.name)

    def test_patching_writes_only_what_differs_and_undoes_it(self):
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.dict(os.environ, SHRINKWATCH_CACHE=directory), mock.patch.object(builds, "compiler", lambda: "1"):
            patch = Path(directory) / "a.patch"
            patch.write_text("--- a/mm/one.c\n+++ b/mm/one.c\n@@ -1 +1 @@\n-old\n+new\n")
            tree = builds.Tree(("linux-source", "1", "a.deb"), builds.variant("7.3-plain"))
            (tree.source / "mm").mkdir(parents=True)
            for name in ("one", "two"):
                (tree.source / f"mm/{name}.c").write_text("old\n")
                os.utime(tree.source / f"mm/{name}.c", (1, 1))
            tree.patch([])
            self.assertEqual((tree.source / "mm/one.c").stat().st_mtime, 1)
            tree.patch([patch])
            self.assertEqual((tree.source / "mm/one.c").read_text(), "new\n")
            self.assertGreater((tree.source / "mm/one.c").stat().st_mtime, 1)
            self.assertEqual((tree.source / "mm/two.c").stat().st_mtime, 1)
            os.utime(tree.source / "mm/one.c", (2, 2))
            tree.patch([patch])
            self.assertEqual((tree.source / "mm/one.c").stat().st_mtime, 2)
            tree.patch([])
            self.assertEqual((tree.source / "mm/one.c").read_text(), "old\n")
            patch.write_text("--- a/mm/one.c\n+++ b/mm/one.c\n@@ -1 +1 @@\n-other\n+new\n")
            with self.assertRaises(LabError):
                tree.patch([patch])

    def test_what_make_leaves_behind_keeps_the_lock(self):
        with tempfile.TemporaryDirectory() as directory:
            fake = Path(directory) / "make"
            fake.write_text("#!/bin/sh\nsleep 1 >/dev/null 2>&1 &\n")
            fake.chmod(0o755)
            name = Path(directory) / "lock"
            with open(name, "w", encoding="utf-8") as lock, mock.patch.dict(os.environ, PATH=f"{directory}:{os.environ['PATH']}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
                builds.Tree(("p", "1", "a.deb"), builds.variant("7.3-plain"), lock)._make(Path(directory) / "log", "all")
            with open(name, "w", encoding="utf-8") as again:
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(again, fcntl.LOCK_EX)

    def test_entries(self):
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.dict(os.environ, SHRINKWATCH_CACHE=directory), mock.patch.object(builds, "compiler", lambda: "1"):
            self.assertEqual(builds.cached("7.3-ondemand"), [])
            digest = builds.build_hash(builds.variant("7.3-ondemand"))
            for version, key in (("7.3.4-1", digest), ("7.3.10-1", digest), ("7.3.11-1", "0" * 12)):
                entry = kernels.cache_directory() / "kernels/7.3-ondemand" / f"linux_{version}-b{key}"
                entry.mkdir(parents=True)
                (entry / "info.json").write_text(json.dumps(
                    {"name": "linux-source-7.3", "version": version, "release": "r", "debs": [], "modules": {}, "builtin": []}))
            found = builds.get("7.3-ondemand")
            self.assertEqual(found.package[1], "7.3.10-1")
            self.assertEqual((found.family, found.build), ("7.3", "ondemand"))
            tree = kernels.cache_directory() / "work/tree"
            tree.mkdir(parents=True)
            builds.prune(lambda text: None)
            self.assertEqual([p.name for p in entry.parent.iterdir()], [found.directory.name])
            self.assertFalse(tree.exists())


    def test_prune_leaves_the_kernels_of_guests_that_run(self):
        class Waits(Exception):
            pass

        def say(text):
            self.assertIn("waiting for its end", text)
            raise Waits
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.dict(os.environ, SHRINKWATCH_CACHE=directory), mock.patch.object(builds, "compiler", lambda: "1"):
            entry = kernels.cache_directory() / "kernels/7.3-ondemand/old"
            entry.mkdir(parents=True)
            with kernels.locked(exclusive=False), self.assertRaises(Waits):
                builds.prune(say)
            self.assertTrue(entry.exists())
            # What a build that was killed left, and a damaged entry, go with the old ones.
            entry.with_name(".building-killed").mkdir()
            damaged = entry.with_name(f"linux_1-b{builds.build_hash(builds.variant('7.3-ondemand'))}")
            damaged.mkdir()
            (damaged / "info.json").touch()
            with contextlib.redirect_stderr(io.StringIO()) as said:
                builds.prune(lambda text: None)
            self.assertIn("info.json is damaged", said.getvalue())
            self.assertEqual(list(entry.parent.iterdir()), [])


def memcg(path, **keys):
    return {"path": path, "state": "live", **keys}


class Across(unittest.TestCase):
    def estimate(self, guess, truth):
        plain = {"estimate-one.json": json.dumps({"memcgs": guess})}
        patched = {"census-one.json": json.dumps({"memcgs": truth})}
        return across.estimates("estimate", plain, "7.3-ondemand", patched, "units_on_demand")

    def test_each_class_counts(self):
        truth = [memcg("/", units=1000), memcg("/estimate/one/1", units=4), memcg("/estimate/one/2", units=4)]
        good = [memcg("/", units_on_demand=1000), memcg("/estimate/one/1", units_on_demand=4),
                memcg("/estimate/one/2", units_on_demand=4)]
        self.assertEqual([c.verdict for c in self.estimate(good, truth)[1]], ["ok"])
        # Within 5 percent of everything, but a class by itself is not.
        bad = [*good[:2], memcg("/estimate/one/2", units_on_demand=5)]
        self.assertEqual([c.verdict for c in self.estimate(bad, truth)[1]], ["not ok"])
        self.assertEqual([c.verdict for c in self.estimate(good[:2], truth)[1]], ["not ok"])
        unknown = [*good[:2], memcg("/estimate/one/2", units_on_demand=None)]
        self.assertEqual([c.verdict for c in self.estimate(unknown, truth)[1]], ["not ok"])

    def test_dying_ones_are_a_lower_bound(self):
        truth = [memcg("/", units=10), memcg("/table/1", units=8, state="dying")]
        for guess, verdict in ((0, "ok"), (8, "ok"), (9, "not ok")):
            got = self.estimate([memcg("/", units_on_demand=10), memcg("/table/1", units_on_demand=guess, state="dying")], truth)
            self.assertEqual([c.verdict for c in got[1]], [verdict], guess)

    def test_dying_ones_with_names_are_seen_by_half(self):
        truth = [memcg("/", units=10), memcg("/estimate/dying-lists/1", units=12, state="dying")]
        for guess, verdict in ((0, "not ok"), (5, "not ok"), (6, "ok"), (12, "ok"), (13, "not ok")):
            got = self.estimate([memcg("/", units_on_demand=10),
                                 memcg("/estimate/dying-lists/1", units_on_demand=guess, state="dying")], truth)
            self.assertEqual([c.verdict for c in got[1]], [verdict], guess)
            self.assertIn(f"dying ones keep 12, of which it knew {guess}", got[1][0].text)

    def test_nothing_to_compare_is_a_failure(self):
        self.assertEqual([c.verdict for c in across.estimates("estimate", {}, "7.3-ondemand", {}, "units_63")[1]], ["not ok"])

    def test_the_table_has_the_published_numbers_beside_ours(self):
        figures = {"empty": {"objects_512": 7, "objects_1024": 1_011_518, "slab_kb": 2 * 548_000, "percpu_kb": 0, "cgroups": 2000}}
        census = {"census-empty.json": json.dumps({"memcgs": [memcg("/", units=9), memcg("/table/1", units=504)]})}
        lines, checks = across.compare({("7.3-plain", "table"): guest.Result(figures=figures, files=census)})
        self.assertEqual([c.verdict for c in checks], ["ok", "ok"])
        row = next(line for line in lines if line.startswith("7.3-plain"))
        for word in ("1,011,518", "1.000", "548.0", "548", "504"):
            self.assertIn(word, row.split())

    def test_the_table_is_judged(self):
        def verdicts(kernel, **changed):
            empty = {"objects_512": 1_023_787, "objects_1024": 1_011_518, "slab_kb": 2 * 548_000, "percpu_kb": 0, "cgroups": 2000} | changed
            return [c.verdict for c in across.compare({(kernel, "table"): guest.Result(figures={"empty": empty})})[1]]
        self.assertEqual(verdicts("7.3-plain", objects_1024=1_000_000), ["not ok", "ok"])
        self.assertEqual(verdicts("7.3-plain", slab_kb=2 * 600_000), ["ok", "not ok"])
        self.assertEqual(verdicts("7.3-units63", slab_kb=2 * 289_000), ["ok", "ok"])
        self.assertEqual(verdicts("7.3-ondemand"), [])
        self.assertEqual(verdicts("7.3-plain", cgroups=500), [])  # not what was published

    def test_figures_are_read(self):
        result = guest.Result()
        guest.read_output("lab-figures empty objects_512=-3 cgroups=2000\nok 1 - done\nlab-exit 0\n", result)
        self.assertEqual(result.figures, {"empty": {"objects_512": -3, "cgroups": 2000}})
        self.assertEqual(len(result.checks), 1)


if __name__ == "__main__":
    unittest.main()
