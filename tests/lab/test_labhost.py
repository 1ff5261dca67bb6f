#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The host's side of the lab, without a guest and without a network."""

import base64
import contextlib
import fnmatch
import gzip
import importlib.util
import io
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from labhost import LabError, builds, debian, guest, initramfs, kernels, lockless, rootimage, scenario, selftests  # noqa: E402


class Debian(unittest.TestCase):
    # What apt-get --print-uris update prints on Debian 12 and 13, the mirror's name made up.
    LINES = {
        12: ["'http://mirror.test/debian/dists/bookworm/InRelease' mirror.test_debian_dists_bookworm_InRelease 0 ",
             "'http://mirror.test/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.test_debian_x 0 ",
             "'https://mirror.test/s/dists/bookworm-security/InRelease' mirror.test_s_InRelease 0 "],
        13: ["'https://other.test/repo/dists/nodistro/InRelease' other.test_repo_dists_nodistro_InRelease 0 ",
             "'http://mirror.test/debian/dists/trixie-updates/InRelease' mirror.test_debian_dists_InRelease 0 ",
             "'https://mirror.test/s/dists/stable/updates/InRelease' mirror.test_s_InRelease 0 "],
    }

    def test_mirrors(self):
        for lines in self.LINES.values():
            self.assertEqual(debian.parse_mirrors("\n".join(lines)),
                             {"main": "http://mirror.test/debian", "security": "https://mirror.test/s"})

    def test_no_mirror_says_what_to_do(self):
        self.assertEqual(debian.parse_mirrors(""), {})
        with self.assertRaisesRegex(LabError, "SHRINKWATCH_SECURITY_MIRROR"):
            debian.need_mirror({"main": "x"}, "security")

    def test_order(self):
        names = [("linux-image-6.1.0-9-x", "6.1.27-1"), ("linux-image-6.1.0-10-x", "6.1.27-1"),
                 ("linux-image-6.1.0-57-x", "6.1.192-3")]
        for a, b in zip(names, names[1:]):
            self.assertLess(debian.compare_packages(a, b), 0)
            self.assertGreater(debian.compare_packages(b, a), 0)
        self.assertEqual(debian.compare_packages(names[0], names[0]), 0)

    def test_series_do_not_mix(self):
        names = {"6.1": "linux-image-6.1.0-57-cloud-amd64", "6.12": "linux-image-6.12.117+deb12-cloud-amd64",
                 "7.3": "linux-binary-7.3.4+deb13-cloud-amd64"}
        for series, name in names.items():
            self.assertEqual([s for s, k in kernels.SERIES.items() if re.fullmatch(k.pattern, name)], [series])
        for name in ("linux-image-6.1.0-57-amd64", "linux-image-6.1.0-57-cloud-amd64-unsigned",
                     "linux-image-6.12.117+deb12-cloud-amd64-dbg", "linux-binary-unsigned-7.3.4+deb13-cloud-amd64"):
            self.assertFalse([s for s, k in kernels.SERIES.items() if re.fullmatch(k.pattern, name)], name)


class Modules(unittest.TestCase):
    def tree(self):
        tree = kernels.Tree("1.0")
        image = {"a": b"\x7fELF\0depends=b,c-x\0alias=fs-a\0", "b": b"\0depends=d\0", "c_x": b"\0depends=\0",
                 "d": b"\0depends=\0softdep=pre: e post: f\0", "e": b"\0depends=\0", "f": b"\0depends=\0"}
        for name, data in image.items():
            tree._take(f"./lib/modules/1.0/kernel/{name}.ko", lambda d=data: d)
        tree._take("./lib/modules/1.0/modules.builtin", lambda: b"kernel/fs/ext4.ko\n")
        return tree

    def test_dependencies_come_first(self):
        modules = self.tree().resolve(("a", "ext4", "nowhere"))
        self.assertEqual(modules["a"]["deps"], ["e", "d", "b", "c_x"])
        self.assertEqual(modules["a"]["aliases"], ["fs-a"])
        self.assertNotIn("f", modules)  # wanted after, by nobody here

    def test_builtin(self):
        self.assertEqual(self.tree().builtin, {"ext4"})


class Scenarios(unittest.TestCase):
    def load(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
            file.write(text)
            file.flush()
            return scenario.load(file.name)

    def test_all_load(self):
        for name in scenario.names():
            item = scenario.load(name)
            self.assertTrue(item.title, f"{name} has no title")
            for pattern in (*item.kernels, *item.hand):
                self.assertTrue(fnmatch.filter((*kernels.SERIES, *builds.names()), pattern), f"{name}: {pattern}")

    def test_header(self):
        item = self.load('# SPDX-License-Identifier: x\n# Title.\n# lab: nodes=3 append="a=b c" programs=x,y\n'
                         '# lab: programs=z kernels="6.1 7.3"\n')
        self.assertEqual((item.title, item.nodes, item.append), ("Title.", 3, "a=b c"))
        self.assertEqual((item.programs, item.kernels), (("x", "y", "z"), ("6.1", "7.3")))

    def test_mistakes(self):
        for line in ("node=3", "nodes", "nodes=many", "hierarchy=v3", 'allow="("', "root=debian1", "root=debian13 hierarchy=v1",
                     "vmlinux=yes", "root=debian13 vmlinux=maybe", "files=nowhere/file", 'append="a', "memory=-5", "cpus=0",
                     "nodes=0", "nodes=65", "possible=65", "timeout=0"):
            with self.assertRaises(LabError, msg=line):
                self.load(f"# lab: {line}\n")

    def test_a_mistake_names_the_file_and_what_may_be(self):
        with self.assertRaisesRegex(LabError, r"\.sh: memory: -5 is no number from 128 to \d+"):
            self.load("# lab: memory=-5\n")
        with self.assertRaisesRegex(LabError, r"\.sh: .*append=\"a.*No closing quotation"):
            self.load('# lab: append="a\n')

    def test_not_utf8(self):
        with tempfile.NamedTemporaryFile(suffix=".sh") as file:
            file.write(b"# K\xf6nig\n")
            file.flush()
            with self.assertRaisesRegex(LabError, "is not UTF-8"):
                scenario.load(file.name)


class Guest(unittest.TestCase):
    def read(self, text):
        result = guest.Result()
        guest.read_output(text, result)
        return result

    def test_tap(self):
        result = self.read("# before\r\nok 1 - one: 5\r\nstray\r\nnot ok 2 - two\n# why\nok 3 - three # SKIP no swap\n"
                           "okay is no check\n\nlab-exit 0\n")
        self.assertEqual([(c.verdict, c.text) for c in result.checks],
                         [("ok", "one: 5"), ("not ok", "two"), ("skip", "three: no swap")])
        self.assertEqual((result.notes, result.checks[0].detail, result.status), (["# before"], ["stray"], 0))

    def test_files(self):
        data = bytes(range(256)) * 9
        lines = base64.encodebytes(gzip.compress(data)).decode().split()
        text = "".join(["lab-file ../a\n", *(f"lab-data {line}\n" for line in lines), "lab-done ../a\n"])
        self.assertEqual(self.read(text.replace("../", "")).files, {"a": data})
        self.assertNotIn("../a", self.read(text).files)  # a guest does not choose where its files go
        torn = self.read("lab-file a\nlab-data AAAA\nlab-done a\n")
        self.assertEqual((torn.files, torn.checks[0].verdict), ({}, "not ok"))
        packed = gzip.compress(data)
        spoiled = base64.b64encode(packed[:10] + b"\xff" * 9 + packed[19:]).decode()  # right at the ends, wrong between
        torn = self.read(f"lab-file a\nlab-data {spoiled}\nlab-done a\n")
        self.assertEqual((torn.files, torn.checks[0].verdict), ({}, "not ok"))

    def test_complaints(self):
        console = ("[    1.000000] WARNING: CPU: 0 PID: 1 at mm/x.c:1\n[    2.0] all is well\nWARNING: not the kernel\n"
                   "[    3.000000] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!\n"
                   "[    4.000000] rcu: INFO: rcu_preempt self-detected stall on CPU\n"
                   "[    5.000000] INFO: task sh:1 blocked for more than 120 seconds.\n")
        self.assertEqual(len(guest.complaints(console, ())), 4)
        self.assertEqual(len(guest.complaints(console, ("at mm/x.c",))), 3)

    def test_each_complaint(self):
        for line in ("BUG kmalloc-512 (Not tainted): Right Redzone overwritten",
                     "BUG: kernel NULL pointer dereference, address: 0000000000000000",
                     "kernel BUG at mm/shrinker.c:100!",
                     "BUG: MAX_LOCKDEP_CHAINS too low!",
                     "kmemleak: 12 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
                     "INFO: trying to register non-static key.",
                     "INFO: lockdep is turned off.",
                     "EXT4-fs error (device loop0): ext4_lookup:1855: inode #12: comm sh: iget: checksum invalid",
                     "XFS (loop0): Corruption detected. Unmount and run xfs_repair",
                     "XFS (loop0): Metadata corruption detected at xfs_agf_verify+0x1/0x2, xfs_agf block 0x1",
                     "XFS (loop0): Internal error i != 1 at line 1 of file fs/xfs/libxfs/xfs_alloc.c."):
            console = f"[    1.000000] {line}\n"
            self.assertEqual(len(guest.complaints(console, ())), 1, line)
            self.assertEqual(guest.complaints(console, (re.escape(line[:12]),)), [], line)
            self.assertEqual(guest.complaints(f"{line}\n", ()), [], line)  # no line of the kernel's

    def test_no_complaint(self):
        for line in ("kmemleak: Kernel memory leak detector initialized (mem pool available: 60864)",
                     "kmemleak: 0 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
                     "Running RCU self tests", "rcu: \tRCU lockdep checking is enabled.",
                     "Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar",
                     "EXT4-fs (loop9): mounted filesystem 89d187dd r/w without journal. Quota mode: disabled.",
                     "EXT4-fs (loop9): unmounting filesystem 89d187dd.",
                     "EXT4-fs (loop9): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
                     "SGI XFS with security attributes, no debug enabled", "XFS (loop0): Mounting V5 Filesystem 89d187dd",
                     "XFS (loop0): Ending clean mount", "VFS: DEBUG build", "CONFIG_DEBUG: y", "INFO: lockdep is on"):
            self.assertEqual(guest.complaints(f"[    1.000000] {line}\n", ()), [], line)

    def judge(self, result, console="[    1.000000] Linux version 1\n", reason=None):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "console.log"
            path.write_text(console, encoding="utf-8")
            guest.judge(result, reason, path, scenario.Scenario("x", path, "x"))
        return [c.text for c in result.checks if c.verdict == "not ok"]

    def test_verdicts(self):
        good = "ok 1 - one\nlab-exit 0\n"
        self.assertEqual(self.judge(self.read(good)), [])
        self.assertTrue(self.judge(self.read(good), reason="not finished"))
        self.assertTrue(self.judge(self.read(good), console=""))
        self.assertTrue(self.judge(self.read(good), console="[    1.000000] Kernel panic - not syncing\n"))
        self.assertTrue(self.judge(self.read("ok 1 - one\n")))
        self.assertTrue(self.judge(self.read("lab-exit 0\n")))
        self.assertTrue(self.judge(self.read("ok 1 - one\nlab-exit 2\n")))
        self.assertTrue(self.judge(self.read("Bail out! no cgroup2\nok 1 - one\nlab-exit 0\n")))

    def test_nodes(self):
        class Kernel:
            vmlinuz = "k"
        for nodes, possible in ((1, 0), (4, 6), (64, 64), (1, 64)):
            item = scenario.Scenario("x", Path("x"), "x", nodes=nodes, possible=possible)
            args = guest.command(Kernel, Path("i"), item, Path("d"))
            self.assertEqual(sum(a.startswith("node,") for a in args), max(nodes, possible))
            self.assertEqual(sum(a.startswith("nvdimm,") for a in args), max(0, possible - nodes))
        for nodes, possible in ((0, 0), (65, 0), (4, 65)):
            with self.assertRaises(LabError):
                guest.command(Kernel, Path("i"), scenario.Scenario("x", Path("x"), "x", nodes=nodes, possible=possible),
                              Path("d"))


class RootImage(unittest.TestCase):
    def test_a_change_makes_a_new_image(self):
        before = rootimage.image_hash("debian13")
        with mock.patch.dict(rootimage.ROOTS, debian13=rootimage.Root("trixie", ("systemd",))):
            self.assertNotEqual(rootimage.image_hash("debian13"), before)
        with mock.patch.object(rootimage, "FORMAT", 0):
            self.assertNotEqual(rootimage.image_hash("debian13"), before)
        self.assertEqual(rootimage.image_hash("debian13"), before)

    def test_prune(self):
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.object(kernels, "cache_directory", lambda: Path(directory)):
            root = rootimage.entry("debian13")
            for path in (root, root.with_name("debian13-old"), Path(directory) / "kernels/7.3-plain/here",
                         Path(directory) / "roots/vmlinux"):
                path.mkdir(parents=True)
            for name in ("7.3-plain-here", "7.3-plain-gone"):
                (Path(directory) / "roots/vmlinux" / name).touch()
            for name in ("roots/.building-killed", "roots/vmlinux/.building-killed/tree"):  # of runs that were killed
                (Path(directory) / name).mkdir(parents=True)
            (Path(directory) / "roots/stray").touch()
            rootimage.prune()
            left = {path.name for path in (Path(directory) / "roots").rglob("*")}
        self.assertEqual(left, {root.name, "vmlinux", "7.3-plain-here"})

    def test_unknown_names_are_told(self):
        with self.assertRaisesRegex(LabError, "no root image debian1: debian12, debian13"):
            rootimage.entry("debian1")

    def test_machine_options_hold_no_hooks(self):
        said = 'Acquire::http::Proxy "http://proxy.test:3142";\nDir::Etc::netrc "x";\nDPkg::Post-Invoke "rm -rf x";\n'
        with mock.patch.object(debian, "run", return_value=said):
            lines = rootimage.machine_apt_options().splitlines()
        self.assertIn('Acquire::http::Proxy "http://proxy.test:3142";', lines)
        self.assertFalse([line for line in lines if not line.startswith(("Acquire::http", "Dir::Etc::netrc"))])

    def test_command(self):
        command = rootimage.mmdebstrap_command(rootimage.ROOTS["debian13"], "http://mirror.test/debian", "/o", "/p")
        self.assertEqual(command[-3:-1], ["trixie", "-"])
        self.assertEqual(command[-1], f"deb [signed-by={debian.KEYRING}] http://mirror.test/debian trixie main")
        self.assertFalse([word for word in command if "unauthenticated" in word.lower() or "trusted=" in word])

    def test_files(self):
        files = {path: content for path, content, _ in rootimage.root_files()}
        self.assertEqual(files["/etc/systemd/system/getty.target"], "/dev/null")
        self.assertIn(b"ExecStart=/bin/sh /lab/root-run", files["/etc/systemd/system/lab.service"])
        self.assertEqual(len(files["/etc/machine-id"]), 33)

    def test_drives(self):
        class Kernel:
            vmlinuz = "k"
        args = guest.command(Kernel, Path("i"), scenario.Scenario("x", Path("x"), "x"), Path("d"), (("root", Path("/a,b")),))
        self.assertIn("if=none,id=root,format=raw,readonly=on,file=/a,,b", args)

    @unittest.skipUnless(initramfs.find_program("busybox"), "needs busybox")
    def test_carried_programs_have_libraries_of_their_own(self):
        file = io.BytesIO()
        cpio = initramfs.Cpio(file)
        program = initramfs.find_program("mount")
        initramfs._add_private_programs(cpio, {"/usr/local/bin/mount": program, "/usr/local/bin/run": str(Path(__file__).resolve().parent / "run")})
        cpio.close()
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([initramfs.find_program("busybox"), "cpio", "-id"], input=file.getvalue(), cwd=directory,
                           check=True, capture_output=True)
            top = Path(directory) / "lab/root"
            private = top / rootimage.PRIVATE.lstrip("/")
            self.assertTrue((top / "usr/local/bin/run").read_text().startswith("#!/usr/bin/env python3"))
            self.assertFalse((top / "usr/lib").exists())
            said = subprocess.run([private / "run/mount", "--argv0", "mount", "--library-path", private / "lib",
                                   private / "bin/mount", "--version"], check=True, capture_output=True, text=True).stdout
            self.assertRegex(said, "^mount from util-linux")
            script = (top / "usr/local/bin/mount").read_text()
            for word in re.findall(rf"{rootimage.PRIVATE}/\S+", script):
                self.assertTrue((top / word.lstrip("/")).exists(), word)


class SecondOpinion(unittest.TestCase):
    """drgn/compare.py, with readers that say what they are told to."""

    LOST = ValueError

    def setUp(self):
        stub = types.ModuleType("census")
        stub.drgn = types.SimpleNamespace(FaultError=self.LOST)
        spec = importlib.util.spec_from_file_location("compare", Path(__file__).resolve().parent / "drgn/compare.py")
        self.compare = importlib.util.module_from_spec(spec)
        with mock.patch.dict(sys.modules, census=stub):
            spec.loader.exec_module(self.compare)

    def reading(self, **changes):
        memcg = {"serial": 7, "parent_serial": 1, "id": 9, "path": "/a", "state": "dying", "offline": True, "level": 1,
                 "refs": 3, "units": 5, "slots": 6, "nodes": [{"node": 0, "units": 5, "slots": 6}]} | changes
        return {"host": dict.fromkeys(self.compare.HOST, 1), "memcgs": [memcg],
                "totals": dict.fromkeys(self.compare.TOTALS, 1) | {"duration_usec": 5, "seconds": 1.0, "load_seconds": 2.0}}

    def run_with(self, ours, theirs):
        """→ (exit status, what was printed)"""
        readings = iter(ours)
        self.compare.census.Kernel = lambda _: types.SimpleNamespace(census=mock.Mock(side_effect=theirs))
        with mock.patch.object(self.compare, "shrinkwatchctl", lambda: (next(readings), 0.1)), \
                mock.patch.object(self.compare.time, "sleep"), mock.patch.object(sys, "argv", ["compare"]), \
                contextlib.redirect_stdout(io.StringIO()) as said:
            return self.compare.main(), said.getvalue()

    def test_equal(self):
        same = self.reading()
        code, said = self.run_with([same, same], [same])
        self.assertEqual(code, 0)
        self.assertIn("compared 1 memcgs", said)

    def test_every_fact_is_compared(self):
        same = self.reading()
        for key in (*self.compare.MEMCG, "serial"):
            code, said = self.run_with([same, same], [self.reading(**{key: "other"})])
            self.assertEqual((code, key in said), (1, True), said)
        for nodes in ([], [{"node": 0, "units": 4, "slots": 6}], [{"node": 1, "units": 5, "slots": 6}]):
            self.assertEqual(self.run_with([same, same], [self.reading(nodes=nodes)])[0], 1)
        for part, keys in (("host", self.compare.HOST), ("totals", self.compare.TOTALS)):
            for key in keys:
                other = self.reading()
                other[part][key] = 2
                self.assertEqual(self.run_with([same, same], [other])[0], 1, key)

    def test_a_missing_or_additional_memcg_is_a_difference(self):
        same, none = self.reading(), self.reading() | {"memcgs": []}
        self.assertIn("absent by drgn", self.run_with([same, same], [none])[1])
        two = self.reading() | {"memcgs": same["memcgs"] + self.reading(serial=8)["memcgs"]}
        self.assertIn("absent by shrinkwatchctl", self.run_with([same, same], [two])[1])

    def test_unrest_is_looked_at_again_but_not_for_ever(self):
        one, two = self.reading(), self.reading(refs=4)
        self.assertEqual(self.run_with([one, two, two, two], [one, two])[0], 0)
        self.assertEqual(self.run_with([one, one, two, two], [self.LOST("fault"), two])[0], 0)
        self.assertEqual(self.run_with([one, two] * self.compare.TRIES, [one] * self.compare.TRIES)[0], 2)


class Lockless(unittest.TestCase):
    FIGURES = {
        "sampled": {"usec": 2_000_000, "touches": 100, "mounts": 50, "mounts_mean_usec": 2500, "lookups": 3, "samples": 400},
        "under": {"shrink_slab": 100},
        "self": {"b": 40, "a": 80},
        "counted": {"usec": 1_000_000, "passes": 2000, "skipped": 500, "slab_samples": 100, "frequency": 500, "touches": 50},
    }

    def test_rates(self):
        rates = lockless.rates(self.FIGURES)
        for name, value in (("touches / s", 50), ("mounts / s", 25), ("names looked up / s", 96), ("mount, mean, ms", 2.5),
                            ("in shrink_slab() and below, %", 25), ("passes / s", 2000), ("passes / touch", 40),
                            ("time of a pass, us", 100), ("passes skipped, %", 25)):
            self.assertAlmostEqual(rates[name], value, msg=name)
        self.assertNotIn("slab objects scanned / s", rates)  # not measured here: not zero
        self.assertEqual(lockless.rates({}), {})

    def test_table(self):
        self.assertEqual(lockless.table({("6.1", "boot"): guest.Result()}), [])
        half = self.FIGURES | {"sampled": self.FIGURES["sampled"] | {"touches": 50}}
        lines = lockless.table({("6.1", lockless.SCENARIO): guest.Result(figures=self.FIGURES),
                                ("7.3", lockless.SCENARIO): guest.Result(figures=half)})
        line = next(line for line in lines if line.startswith("touches / s"))
        self.assertEqual(line.split()[3:], ["50.0", "25.0", "x0.50"])
        self.assertIn("hot on 6.1, %: a 20.0, b 10.0", lines)


class Selftests(unittest.TestCase):
    def test_other_programs_are_not_ours(self):
        self.assertIsNone(selftests.get("busybox"))

    def test_base_list(self):
        names = []
        for line in (Path(__file__).resolve().parent / "selftests-base.txt").read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                name, *numbers = line.split()
                self.assertEqual(len(numbers), 3, line)
                self.assertGreater(sum(map(int, numbers)), 0, line)
                names.append(name)
        self.assertEqual(len(names), len(set(names)))

    def test_unpack(self):
        with tempfile.TemporaryDirectory() as directory:
            top = Path(directory)
            for name in ("linux/a/wanted.c", "linux/a/other.h", "linux/b/wanted.c"):
                (top / name).parent.mkdir(parents=True, exist_ok=True)
                (top / name).write_text(name, encoding="utf-8")
            (top / "deb/usr/src").mkdir(parents=True)
            (top / "deb/DEBIAN").mkdir()
            (top / "deb/DEBIAN/control").write_text(
                "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n", encoding="utf-8")
            subprocess.run(["tar", "-cJf", top / "deb/usr/src/linux.tar.xz", "-C", top, "linux"], check=True)
            subprocess.run(["dpkg-deb", "-b", top / "deb", top / "x.deb"], check=True, capture_output=True)
            (top / "out").mkdir()
            debian.unpack_source(top / "x.deb", top / "out", ("*/a/*.c",))
            self.assertEqual([str(p.relative_to(top / "out")) for p in (top / "out").rglob("*.*")], ["a/wanted.c"])
            with self.assertRaisesRegex(LabError, "tar failed"):
                debian.unpack_source(top / "x.deb", top / "out", ("*/c/*",))
            (top / "x.deb").write_bytes((top / "x.deb").read_bytes()[:200])
            with self.assertRaises(LabError):
                debian.unpack_source(top / "x.deb", top / "out")


class Cpio(unittest.TestCase):
    @unittest.skipUnless(initramfs.find_program("busybox"), "needs busybox")
    def test_another_cpio_reads_it(self):
        file = io.BytesIO()
        cpio = initramfs.Cpio(file)
        cpio.regular("/a/b/odd", b"12345", 0o755)
        cpio.regular("/a/b/odd", b"a second one is not taken")
        cpio.symlink("/a/link", "b/odd")
        cpio.regular("/a/empty", b"")
        cpio.close()
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([initramfs.find_program("busybox"), "cpio", "-id"], input=file.getvalue(), cwd=directory,
                           check=True, capture_output=True)
            self.assertEqual((Path(directory) / "a/link").read_bytes(), b"12345")
            self.assertEqual((Path(directory) / "a/b/odd").stat().st_mode & 0o777, 0o755)
            self.assertEqual((Path(directory) / "a/empty").stat().st_size, 0)


if __name__ == "__main__":
    unittest.main()
