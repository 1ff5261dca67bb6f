#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What goes wrong on the host while the lab runs: full disks, damaged entries, killed runs, wrong words; without a guest."""

import contextlib
import errno
import importlib.machinery
import importlib.util
import io
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

from labhost import LabError, builds, debian, initramfs, kernels, rootimage, rundir  # noqa: E402


def script(name):
    """A program of this directory as a module."""
    path = str(Path(__file__).resolve().parent / name)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(f"lab_{name}", importlib.machinery.SourceFileLoader(f"lab_{name}", path)))
    module.__spec__.loader.exec_module(module)
    return module


@contextlib.contextmanager
def cache():
    """An empty cache → its path."""
    with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, SHRINKWATCH_CACHE=directory):
        yield Path(directory).resolve()


def entry(directory, **info):
    """An entry of the cache as a fetch or a build leaves it."""
    directory.mkdir(parents=True)
    (directory / "vmlinuz").touch()
    (directory / "info.json").write_text(json.dumps(
        {"name": "linux", "version": "1-1", "release": "r", "debs": [], "modules": {}, "builtin": []} | info))
    return directory




class Waits(Exception):
    """Instead of the waiting."""


def waits_for_lock(test, name, function):
    """The function says that it waits for CACHE/name, and then does; it is stopped there."""
    def say(text):
        if "waiting" in text:
            raise Waits(text)
    with test.assertRaisesRegex(Waits, rf"/{re.escape(name)}: waiting for its end"):
        function(say)


class Cache(unittest.TestCase):
    def test_unusable(self):
        with tempfile.NamedTemporaryFile() as file:
            for path in (file.name, f"{file.name}/below"):
                with mock.patch.dict(os.environ, SHRINKWATCH_CACHE=path), \
                        self.assertRaisesRegex(LabError, f"cache {path} cannot be used: .*SHRINKWATCH_CACHE names another"):
                    kernels.cached("6.1")

    def test_a_damaged_entry_is_left_out_and_told_of_once(self):
        for text in ("", "{", "[]", "7", '{"name": "x"}', "\udcff"):
            with cache() as top, contextlib.redirect_stderr(io.StringIO()) as said:
                good = entry(top / "kernels/6.1" / f"a_1-r{kernels.recipe_hash()}")
                bad = entry(good.with_name(f"b_2-r{kernels.recipe_hash()}"), version="2-1")
                (bad / "info.json").write_text(text, encoding="utf-8", errors="surrogateescape")
                self.assertEqual([k.directory for k in kernels.cached("6.1")], [good])
                self.assertEqual(kernels.get("6.1").directory, good)
                self.assertEqual(said.getvalue().count(f"remove {bad},"), 1, said.getvalue())
                with self.assertRaisesRegex(LabError, "info.json is damaged"):
                    kernels.Kernel("6.1", bad)

    def test_prune_with_a_damaged_entry_keeps_packages(self):
        with cache() as top:
            kept = kernels.Kernel("6.1", entry(top / "kernels/6.1/kept", debs=["a.deb"]))
            bad = entry(top / "kernels/6.12/bad")
            (top / "debs").mkdir()
            for name in ("a.deb", "b.deb"):
                (top / "debs" / name).touch()
            (bad / "info.json").write_text("")
            said = []
            kernels._prune(kept, said.append)
            self.assertEqual(len(list((top / "debs").iterdir())), 2)
            self.assertRegex(said[-1], f"not removing packages.*{bad}")
            (bad / "info.json").unlink()
            kernels._prune(kept, said.append)
            self.assertEqual([p.name for p in (top / "debs").iterdir()], ["a.deb"])

    def test_waiting_is_told(self):
        with cache():
            with kernels.locked(exclusive=False):
                with kernels.locked(exclusive=False, say=self.fail):  # guests do not wait for guests
                    pass
                waits_for_lock(self, "lock", lambda say: kernels.fetch(["6.1"], say))
            with kernels.locked(exclusive=True):
                waits_for_lock(self, "lock", lambda say: kernels.locked(exclusive=False, say=say).__enter__())

    def test_a_vmlinux_drive_clears_what_a_killed_run_left(self):
        def run(command):
            if command[0] == "mksquashfs":
                Path(command[2]).touch()
        with cache() as top, mock.patch.object(debian, "run", run):
            made = entry(top / "kernels/7.3-plain/one")
            (made / "vmlinux.zst").touch()
            (top / "roots/vmlinux/.building-killed/tree").mkdir(parents=True)
            path = rootimage.vmlinux(kernels.Kernel("7.3-plain", made))
            self.assertEqual([p.name for p in (top / "roots/vmlinux").iterdir()], [path.name])

    def test_prune_waits_for_guests(self):
        with cache(), kernels.locked(exclusive=False):
            waits_for_lock(self, "lock", rootimage.prune)


class RunDirectory(unittest.TestCase):
    def test_images_of_dead_runs_only(self):
        with tempfile.TemporaryDirectory() as top:
            parent = Path(top) / "lab"
            said = []
            with rundir.made(parent, "alive-") as alive:
                (alive / rundir.IMAGE).touch()
                killed, ended = parent / "killed", parent / "ended"
                for directory in (killed, ended):
                    directory.mkdir()
                    (directory / rundir.IMAGE).touch()
                    (directory / "console.log").touch()
                (killed / rundir.RUNNING).touch()
                rundir.sweep(parent, said.append)
                self.assertTrue((alive / rundir.IMAGE).exists())
                self.assertTrue((ended / rundir.IMAGE).exists())  # --keep left it
                self.assertEqual([p.name for p in killed.iterdir()], ["console.log"])
                self.assertEqual((len(said), str(killed) in said[0]), (1, True))
            self.assertEqual([p.name for p in alive.iterdir()], [rundir.IMAGE])

    def test_the_kernel_says_that_a_run_is_dead(self):
        with tempfile.TemporaryDirectory() as top:
            code = ("import os, sys, pathlib\nfrom labhost import rundir\n"
                    "with rundir.made(pathlib.Path(sys.argv[1]), 'x-') as d:\n (d / rundir.IMAGE).touch()\n os.kill(os.getpid(), 9)\n")
            subprocess.run([sys.executable, "-B", "-c", code, top], cwd=Path(__file__).resolve().parent, check=False)
            self.assertEqual(len(list(Path(top).glob(f"*/{rundir.IMAGE}"))), 1)
            rundir.sweep(Path(top), lambda text: None)
            self.assertEqual(list(Path(top).glob("*/*")), [])


class Program(unittest.TestCase):
    """run, without a guest."""

    def setUp(self):
        self.run = script("run")

    def call(self, *words):
        """→ (exit status, stdout, stderr)"""
        with mock.patch.object(sys, "argv", ["run", *map(str, words)]), mock.patch("signal.signal"), \
                contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                code = self.run.main()
            except SystemExit as e:
                code = e.code
        return code, out.getvalue(), err.getvalue()

    def scenario(self, top, text):
        path = Path(top) / "mine.sh"
        path.write_bytes(text)
        return path

    def test_options_between_names(self):
        for words in (["7.3-ondemand", "--nodes", "2", "boot"], ["--nodes", "2", "7.3-ondemand", "boot"],
                      ["7.3-ondemand", "boot", "--nodes", "2"]):
            _, options = self.run.arguments(words)
            self.assertEqual((options.name, options.nodes), (["7.3-ondemand", "boot"], 2))
        self.assertEqual(self.run.arguments(["--list"])[1].name, [])

    def test_numbers_have_ranges(self):
        for option, value in (("memory", -5), ("cpus", 0), ("nodes", 0), ("possible", 65), ("timeout", "soon")):
            code, _, said = self.call("6.1", "boot", f"--{option}={value}")
            self.assertEqual(code, 2, option)
            self.assertRegex(said, rf"--{option}: {value} is no number from \d+ to \d+")

    def test_nothing_could_be_run(self):
        with cache() as top:
            for text, words in ((b'# lab: append="a\n', "No closing quotation"), (b"# \xff\n", "not UTF-8"),
                                (b"# lab: hand=foo\n", "hand: unknown kernel foo"),
                                (b"# lab: kernels=own\n", "kernels: unknown kernel own"),
                                (b"# lab: memory=-5\n", "memory: -5 is no number from 128")):
                code, _, said = self.call("6.1", self.scenario(top, text))
                self.assertEqual((code, words in said), (2, True), said)
            with mock.patch.dict(os.environ, SHRINKWATCH_CACHE=str(self.scenario(top, b""))):
                for words in (["--list"], ["6.1", "boot"], ["--fetch-only"]):
                    code, _, said = self.call(*words)
                    self.assertEqual((code, "run: the cache" in said), (2, True), said)

    def test_kernels_are_prepared_without_a_build(self):
        with cache() as top:
            entry(top / "kernels/6.1" / f"a_1-r{kernels.recipe_hash()}")
            self.assertEqual(self.call("--prepare", "6.1")[0], 0)
            code, _, said = self.call("6.1", self.scenario(top, b"# lab: root=debian13 install=yes\n"))
        self.assertEqual((code, "what a build installs needs --builddir" in said), (2, True), said)

    def test_a_full_cache(self):
        with cache(), mock.patch.object(kernels.debian, "Apt", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))):
            for words in (["6.1", "boot"], ["--fetch-only"]):
                code, _, said = self.call(*words)
                self.assertEqual(code, 2)
                self.assertRegex(said, r"run: No space left on device \(.*SHRINKWATCH_CACHE")

    def test_a_damaged_entry_does_not_end_the_list(self):
        with cache() as top, mock.patch.object(builds, "compiler", lambda: "1"):
            bad = entry(top / "kernels/6.1" / f"a_1-r{kernels.recipe_hash()}")
            (bad / "info.json").write_text("")
            code, out, said = self.call("--list")
        self.assertEqual(code, 0)
        self.assertIn("6.1: not fetched yet", out)
        self.assertIn(f"remove {bad},", said)

    def run_with(self, write, *words):
        """A run of 'boot' on 6.1 whose guest is made by write(image) → (exit status, stdout, what it left)"""
        def build(output, *_):
            with mock.patch.object(initramfs, "_write", lambda cpio, *_: write(cpio.file)):
                real(output, None, None, None, None)
        real = initramfs.build
        with cache() as top, mock.patch.object(initramfs, "build", build):
            entry(top / "kernels/6.1" / f"a_1-r{kernels.recipe_hash()}")
            code, out, _ = self.call("6.1", self.scenario(top, b"# Title\n"), *words)
            return code, out, [p.name for p in (top / "logs").glob("*/*")]

    def test_a_full_disk_fails_a_guest_and_leaves_no_image(self):
        def full(file):
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for words in ((), ("--keep",)):
            code, out, left = self.run_with(full, *words)
            self.assertEqual((code, left), (1, []), out)
            self.assertRegex(out, r"not ok 1 - 6\.1 mine: the guest can be made and run: No space left on device")
            self.assertEqual(out.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    def test_other_faults_fail_a_guest(self):
        for error in (PermissionError(errno.EACCES, "Permission denied", "/x"), ValueError("embedded null byte"),
                      LabError("no\nbecause")):
            code, out, _ = self.run_with(mock.Mock(side_effect=error))
            self.assertEqual((code, out.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
            self.assertNotRegex(out, r"(?m)^because")  # TAP has a # before it

    def test_no_directory_can_be_made(self):
        with cache() as top:
            entry(top / "kernels/6.1" / f"a_1-r{kernels.recipe_hash()}")
            (top / "logs").touch()
            code, out, _ = self.call("6.1", self.scenario(top, b"# Title\n"))
        self.assertEqual((code, out.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn(f"the guest can be made and run: {top}/logs: File exists", out)

    def test_what_cannot_be_compared_is_a_failed_check(self):
        with mock.patch.object(self.run.across, "compare", side_effect=KeyError("memcgs")):
            code, out, _ = self.run_with(mock.Mock(side_effect=LabError("no")))
        self.assertIn("not ok 2 - across guests: what the guests gave can be compared: KeyError: 'memcgs'", out)
        self.assertEqual((code, out.splitlines()[-1]), (1, "0 passed, 2 failed, 0 skipped"))

    def test_the_others_take_options_between_names_too(self):
        mutate = script("mutate")
        done = mock.Mock(stdout="not ok 1 - x\n", returncode=1)
        with mock.patch.object(sys, "argv", ["mutate", "one-node", "--builddir", "b", "bare-root"]), \
                mock.patch.object(mutate.subprocess, "run", return_value=done) as ran, contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(mutate.main(), 1)
        self.assertEqual({call.args[0][3] for call in ran.call_args_list}, {"7.3-mutant-one-node", "7.3-mutant-bare-root"})


if __name__ == "__main__":
    unittest.main()
