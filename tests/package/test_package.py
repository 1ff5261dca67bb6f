#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Debian packages: built in a throw-away root, then installed, replaced, removed and purged in another.

    tests/package/test_package.py [bookworm] [trixie]

SHRINKWATCH_DEBS=DIRECTORY takes packages that are built already, for one of them.
Needs root, mmdebstrap and a Debian mirror that this machine's apt knows; some minutes and 2 GB of TMPDIR each. systemd is not running
there: a stand-in for systemctl writes down what it is asked, and asks the bus for the service's name as the service would.
"""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lab"))
from labhost import LabError, debian, rootimage  # noqa: E402  (the path comes first)

SUITES = ("bookworm", "trixie")
BUILDER = 65534  # nobody
PROGRAMS = ("shrinkwatchd", "shrinkwatchctl")
UNIT = "shrinkwatchd.service"
# Not looked at: what is not on a disk, what dpkg and apt keep for themselves, logs and caches.
NOT_LOOKED_AT = ("proc", "sys", "dev", "run", "tmp", "var/tmp", "var/cache", "var/log", "var/lib/dpkg", "var/lib/apt")
# The user stays: Debian's policy. Nothing else in there may change.
ACCOUNTS = {f"etc/{name}{old}" for name in ("passwd", "group", "shadow", "gshadow") for old in ("", "-")}
# What comes with an installation and is in no package.
MADE = re.compile(r"^(etc/systemd/system/(multi-user\.target\.wants/shrinkwatchd|dbus-org\.shrinkwatch1)\.service|var/lib/shrinkwatch(/.*)?"
                  r"|var/lib/systemd/deb-systemd-helper-enabled(/.*)?|var/lib/systemd/catalog/database)$")

STAND_IN = """#!/bin/sh
# In the place of systemctl: what is for a service manager it writes down; what is about links in /etc the real one does.
for word; do
    case $word in
    -*) continue ;;
    is-active) test -e /run/active; exit ;;
    daemon-reload | stop | clean) echo "$word" >>/run/asked ;;
    start | restart)
        echo "$word" >>/run/asked
        touch /run/active
        # As the service would: its state, and its name on the bus, which says 1 to the owner
        install -d -m 0750 -o shrinkwatch -g shrinkwatch /var/lib/shrinkwatch
        [ -e /var/lib/shrinkwatch/ages ] || echo 1 >/var/lib/shrinkwatch/ages
        setpriv --reuid=shrinkwatch --regid=shrinkwatch --clear-groups \\
            busctl call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus RequestName su org.shrinkwatch1 0 >>/run/asked 2>&1
        ;;
    *) SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl "$@" ;;
    esac
    exit 0
done
"""


class Tap:
    """Points as they come; a plan at the end, as TAP allows."""

    def __init__(self):
        self.n = self.failed = 0

    def check(self, name, good, *why):
        self.n += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.n} - {name}")
        if not good:
            for line in "\n".join(map(str, why)).splitlines()[-60:]:
                print(f"# {line}")
        sys.stdout.flush()
        return good

    def equal(self, name, got, want):
        return self.check(name, got == want, f"got  {got!r}", f"want {want!r}")

    def skip(self, name, reason):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {reason}")


def inside(root, *command, network=False, user=None, **env):
    """Run a command in the root, in namespaces of its own, so that nothing of it outlives it. → status and output"""
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    spaces = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", *([] if network else ["--net"])]
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        ["unshare", *spaces, f"--root={root}", "--wd=/", "--mount-proc", *who, "env", "-i", f"PATH={path}", "LC_ALL=C.UTF-8", "HOME=/nonexistent",
         "DEBIAN_FRONTEND=noninteractive", *(f"{key}={value}" for key, value in env.items()), *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return done.returncode, done.stdout


def make_root(directory, name, suite, *, packages=(), hooks=()):
    """A root directory of the suite. LabError with the end of mmdebstrap's log when there is none."""
    mirror = debian.need_mirror(debian.find_mirrors(), "main")
    options, root = directory / "apt.conf", directory / name
    options.write_text(rootimage.machine_apt_options(), encoding="utf-8")
    machine = "\"$1\"/etc/apt/apt.conf.d/99machine"
    debian.run(["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--components=main", f"--include={','.join(packages)}",
                "--aptopt=APT::Install-Recommends \"false\"", "--dpkgopt=force-unsafe-io",
                f"--setup-hook=mkdir -p \"$1\"/etc/apt/apt.conf.d && cp '{options}' {machine}", *(f"--customize-hook={hook}" for hook in hooks),
                f"--customize-hook=rm -f {machine}", suite, root, f"deb [signed-by={debian.KEYRING}] {mirror} {suite} main"])
    return root


def source_files():
    out = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, check=False).stdout
    return [os.fsdecode(name) for name in out.split(b"\0") if name and (ROOT / os.fsdecode(name)).exists()]


def export(target):
    for name in source_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def own(directory, uid):
    for path in (directory, *directory.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def look(root):
    """path → kind, mode, owner and contents of all that is there"""
    found = {}
    for where, directories, names in os.walk(root):
        here = os.path.relpath(where, root)
        directories[:] = [name for name in directories if os.path.normpath(os.path.join(here, name)) not in NOT_LOOKED_AT]
        for name in directories + names:
            path = os.path.join(where, name)
            s = os.lstat(path)
            contents = ""
            if stat.S_ISLNK(s.st_mode):
                contents = os.readlink(path)
            elif stat.S_ISREG(s.st_mode):
                contents = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            found[os.path.normpath(os.path.join(here, name))] = (oct(s.st_mode), s.st_uid, s.st_gid, contents)
    return found


def differences(before, after):
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def accounts(root):
    """The lines of the accounts that are not the service's"""
    return {path: [line for line in (root / path).read_text().splitlines() if not line.startswith("shrinkwatch:")]
            for path in ACCOUNTS if not path.endswith("-") and (root / path).exists()}


def build(tap, suite, directory):
    """→ the packages, or None"""
    source = directory / "source"
    export(source)
    root = make_root(directory, "build", suite, packages=("build-essential", "fakeroot", "lintian"), hooks=[
        f"APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get build-dep -y --no-install-recommends -o DPkg::Chroot-Directory=\"$1\" '{source}'"])
    there = root / "tmp" / "shrinkwatch-builds-here"
    shutil.copytree(source, there / "shrinkwatch", symlinks=True)
    own(there, BUILDER)
    status, log = inside(root, "sh", "-c", f"cd /tmp/{there.name}/shrinkwatch && dpkg-buildpackage -us -uc",
                         user=BUILDER, DEB_BUILD_OPTIONS=f"parallel={len(os.sched_getaffinity(0))}")
    if not tap.check("the packages build for an ordinary user without a network", status == 0, log):
        return None
    tests = re.search(r"^Ok:\s+(\d+)\s*$", log, re.MULTILINE)
    tap.check("with the unit tests", tests and int(tests[1]) >= 30 and re.search(r"^Fail:\s+0\s*$", log, re.MULTILINE), tests and tests[0])

    # Compilers that make code for BPF know none of these, or make programs of it that no kernel takes.
    flags = re.compile(r"-fstack|-D_FORTIFY_SOURCE|-fcf-protection|-mbranch-protection|-flto|-fPI[CE]|-O[013]")
    bpf = [line for line in log.splitlines() if "-target bpf" in line and " -c " in line]
    other = [line for line in log.splitlines() if re.search(r"\] cc .* -c .*daemon/census\.c", line)]
    tap.check("no flag of dpkg-buildflags reaches the BPF programs", bpf and not any(flags.search(line) for line in bpf), *bpf)
    tap.check("and they reach the rest", other and all("-fstack-protector-strong" in line and "-D_FORTIFY_SOURCE" in line for line in other), *other)

    status, said = inside(root, "sh", "-c", f"cd /tmp/{there.name} && lintian --fail-on warning shrinkwatch_*.changes", user=BUILDER)
    tap.check("lintian has nothing to say", status == 0 and not said.strip(), said)

    debs = {}
    for name in PROGRAMS:
        [found] = there.glob(f"{name}_*.deb")
        debs[name] = directory / found.name
        shutil.copy2(found, debs[name])
        program = subprocess.run(["dpkg-deb", "--fsys-tarfile", debs[name]], stdout=subprocess.PIPE, check=True).stdout
        tap.check(f"{name} does not say where it was built", there.name.encode() not in program)
    shutil.rmtree(root)
    return debs


def given_debs(directory):
    return {name: next(pathlib.Path(directory).glob(f"{name}_*.deb")) for name in PROGRAMS}


def field(deb, name):
    return debian.run(["dpkg-deb", "-f", deb, name]).strip()


def next_version(directory, debs):
    """The same packages as a version above."""
    made = {}
    for name, deb in debs.items():
        version, tree = field(deb, "Version"), directory / f"next-{name}"
        debian.run(["dpkg-deb", "-R", deb, tree])
        control = tree / "DEBIAN" / "control"
        control.write_text(re.sub(rf"(^Version: |\(= ){re.escape(version)}", rf"\g<0>+next", control.read_text(), flags=re.MULTILINE))
        made[name] = directory / f"{name}_next.deb"
        debian.run(["dpkg-deb", "-b", tree, made[name]])
    return made


class Host:
    """A root with what the packages depend on, a bus, and the stand-in for systemctl."""

    def __init__(self, suite, directory, debs):
        names = {"dbus", "util-linux"}
        for deb in debs.values():
            for clause in field(deb, "Depends").split(","):
                names.add(re.split(r"[\s(|:]", clause.strip())[0])
        self.root = make_root(directory, "host", suite, packages=sorted(names - set(debs)))
        stand_in = self.root / "usr/local/bin/systemctl"
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
        for path in ("run/systemd/system", "run/dbus"):
            (self.root / path).mkdir(parents=True, exist_ok=True)

    def asked(self):
        path = self.root / "run/asked"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text.split("\n")[:-1]

    def dpkg(self, *arguments):
        return inside(self.root, "dpkg", *arguments, network=True)  # the bus is in the network namespace that has no name

    def install(self, debs):
        for deb in debs.values():
            shutil.copy2(deb, self.root / "tmp")
        return self.dpkg("-i", *(f"/tmp/{deb.name}" for deb in debs.values()))

    @contextlib.contextmanager
    def bus(self):
        with subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={self.root}", "--mount-proc", "dbus-daemon", "--system",
                               "--nofork", "--nopidfile"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
            try:
                for _ in range(100):
                    if (self.root / "run/dbus/system_bus_socket").exists():
                        break
                    time.sleep(0.1)
                yield
            finally:
                daemon.kill()


def life(tap, suite, directory, debs):
    """Install, upgrade, downgrade, remove, purge."""
    host = Host(suite, directory, debs)
    root, newer = host.root, next_version(directory, debs)
    before, others = look(root), accounts(root)
    with host.bus():
        status, log = host.install(debs)
        if not tap.check("they install", status == 0, log):
            return
        tap.equal("the service is started, and the bus lets its user have the name", host.asked(), ["daemon-reload", "start", "u 1"])
        status, log = inside(root, "sh", "-c", "systemctl is-enabled shrinkwatchd.service && shrinkwatchd --check-config && shrinkwatchctl --version"
                                               " && journalctl --list-catalog | grep -c shrinkwatch:")
        tap.check("it is enabled, the configuration is good, the catalog has its texts", status == 0, log)
        owned = set(inside(root, "dpkg", "-L", *debs)[1].split())
        # Before Debian 13 a package may have its unit in /lib, which is a link.
        names = {os.path.relpath(os.path.realpath(f"{root}{path}"), os.path.realpath(root)) for path in owned if path.startswith("/")}
        strange = [path for path in differences(before, look(root)) if path not in names | ACCOUNTS and not MADE.match(path)]
        tap.equal("nothing came that is not theirs", strange, [])
        uid = (root / "var/lib/shrinkwatch").stat().st_uid
        conf = root / "etc/shrinkwatch/shrinkwatchd.conf"
        conf.write_text(conf.read_text() + "[History]\nHistory=no\n")
        (root / "var/lib/shrinkwatch/ages").write_text("an age\n")

        for what, packages in (("upgrade", newer), ("downgrade", debs)):
            status, log = host.install(packages)
            tap.check(f"{what}: it goes well", status == 0, log)
            tap.equal(f"{what}: the service is restarted, and never stopped", host.asked(), ["daemon-reload", "restart", "u 1"])
            tap.equal(f"{what}: ages stay", (root / "var/lib/shrinkwatch/ages").read_text(), "an age\n")
            tap.equal(f"{what}: whose they are stays", (root / "var/lib/shrinkwatch").stat().st_uid, uid)
            tap.check(f"{what}: what was configured stays", conf.read_text().endswith("History=no\n"))

        status, log = host.dpkg("--remove", *debs)
        tap.check("they can be removed", status == 0, log)
        tap.equal("the service is stopped, then lets go of the BPF programs", host.asked(), ["stop", "clean", "daemon-reload"])
        left = [path for path in differences(before, look(root)) if path not in ACCOUNTS and not MADE.match(path)]
        tap.equal("the configuration is all of theirs that remains", left, ["etc/shrinkwatch", "etc/shrinkwatch/shrinkwatchd.conf"])

        status, log = host.install(debs)
        # To dpkg that is an upgrade: it remembers the version that was configured.
        tap.equal("they come back", (status, host.asked()), (0, ["daemon-reload", "restart", "u 1"]))
        status, log = host.dpkg("--purge", *debs)
        tap.check("they can be purged", status == 0, log)
        left = [path for path in differences(before, look(root)) if path not in ACCOUNTS]
        tap.equal("nothing is left but the user", left, [])
        tap.equal("the accounts of others are as they were", accounts(root), others)


def main():
    suites = sys.argv[1:] or SUITES
    if not set(suites) <= set(SUITES):
        print(f"choose from {', '.join(SUITES)}", file=sys.stderr)
        return 2
    reason = None
    if os.geteuid() != 0:
        reason = "not root, which makes root directories of Debian"
    for program in ("mmdebstrap", "dpkg-deb", "apt-get", "unshare", "setpriv", "git"):
        if not reason and not shutil.which(program):
            reason = f"no {program}"
    if not reason and not os.path.exists(debian.KEYRING):
        reason = "no keyring of Debian's archive (debian-archive-keyring)"
    if not reason and not source_files():
        reason = "no git repository: what belongs to the source is not known"
    if reason:
        print(f"1..0 # SKIP {reason}")
        return 77

    tap = Tap()
    for suite in suites:
        print(f"# {suite}")
        with tempfile.TemporaryDirectory(prefix="shrinkwatch-package-") as temporary:
            directory = pathlib.Path(temporary)
            directory.chmod(0o755)
            try:
                given = os.environ.get("SHRINKWATCH_DEBS")
                debs = given_debs(given) if given else build(tap, suite, directory)
                if debs:
                    life(tap, suite, directory, debs)
            except LabError as e:
                tap.check(f"{suite}: its roots can be made", False, e)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
