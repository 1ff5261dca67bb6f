# SPDX-License-Identifier: LGPL-2.1-or-later
"""Debian packages, fetched by an apt of our own.

The machine's apt is asked one question only, where its mirrors are. Lists, state and archives live in our cache; the
machine's sources, lists and hooks are neither used nor changed. Its proxies and credentials are used, since without
them many machines reach nothing.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from . import LabError

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHITECTURE = "amd64"

# The suites that tell a mirror of the main archive, and one of the security archive, from anything else configured.
# "updates" and "backports" of a release lie in the main archive.
MAIN_SUITE = re.compile(r"^(bookworm|trixie|forky|sid|(old)*stable|testing|unstable)(-updates|-backports)?$")
SECURITY_SUITE = re.compile(r"^(bookworm|trixie|forky|(old)*stable|testing)(-security|/updates)$")
INDEX_URI = re.compile(r"^'(?P<base>[^']+?)/dists/(?P<suite>[^']+?)/(In)?Release'")


def run(command, **kwargs):
    """Run a command to its end and return its stdout; LabError with its stderr on failure."""
    env = dict(os.environ, LC_ALL="C.UTF-8")
    try:
        done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, **kwargs)
    except FileNotFoundError as e:
        raise LabError(f"{command[0]} is not installed (tests/lab/packages lists what the lab needs)") from e
    if done.returncode != 0:
        raise LabError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n"
                       f"{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def parse_mirrors(print_uris):
    """'apt-get --print-uris update' → {"main": URI, "security": URI}, the first of each; either may be missing."""
    mirrors = {}
    for line in print_uris.splitlines():
        match = INDEX_URI.match(line)
        if not match:
            continue
        for archive, suites in (("main", MAIN_SUITE), ("security", SECURITY_SUITE)):
            if suites.match(match["suite"]):
                mirrors.setdefault(archive, match["base"])
    return mirrors


def find_mirrors():
    """The machine's own mirrors, in the machine's own words.

    --print-uris lets apt itself read one-line and deb822 sources alike, needs no downloaded lists, no network and no
    root. Environment variables win over it, for machines that are not Debian.
    """
    mirrors = parse_mirrors(run(["apt-get", "--print-uris", "update"]))
    for archive, variable in (("main", "SHRINKWATCH_MIRROR"), ("security", "SHRINKWATCH_SECURITY_MIRROR")):
        if os.environ.get(variable):
            mirrors[archive] = os.environ[variable].rstrip("/")
    return mirrors


def need_mirror(mirrors, archive):
    if archive not in mirrors:
        variable = "SHRINKWATCH_MIRROR" if archive == "main" else "SHRINKWATCH_SECURITY_MIRROR"
        raise LabError(
            f"this machine's apt knows no mirror of Debian's {archive} archive.\n"
            "Looked for: a source of bookworm, trixie or their -updates or -security suites, in\n"
            "/etc/apt/sources.list and /etc/apt/sources.list.d ('apt-get --print-uris update' shows what apt reads).\n"
            f"Add one there, or name the mirror: {variable}=URI tests/lab/fetch")
    return mirrors[archive]


class Apt:
    """An apt with its own directories. suites: (archive, suite) pairs, archive being "main" or "security"."""

    def __init__(self, directory, suites, mirrors=None, keyring=KEYRING):
        self.directory = Path(directory)
        if not os.path.exists(keyring):
            raise LabError(f"{keyring} is missing: install debian-archive-keyring")
        mirrors = find_mirrors() if mirrors is None else mirrors
        for name in ("lists/partial", "archives/partial", "state"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        (self.directory / "state/status").touch()
        (self.directory / "sources.list").write_text("".join(
            f"deb [arch={ARCHITECTURE} signed-by={keyring}] {need_mirror(mirrors, archive)} {suite} main\n"
            for archive, suite in suites))
        self.config = self.directory / "apt.conf"
        self.config.write_text(self._config_text())

    def _config_text(self):
        # apt reads the machine's apt.conf.d first and this file after it, so the #clear lines take away hooks
        # (container images clean the machine's archives in them) and every setting here wins.
        d = self.directory
        return f"""\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear APT::Default-Release;
#clear Dir::Cache::pkgcache;
#clear Dir::Cache::srcpkgcache;
APT::Architecture "{ARCHITECTURE}";
#clear APT::Architectures;
APT::Architectures {{ "{ARCHITECTURE}"; }};
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Check-Valid-Until "true";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "{d}/state";
Dir::State::lists "{d}/lists";
Dir::State::status "{d}/state/status";
Dir::Cache "{d}";
Dir::Cache::archives "{d}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{d}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"""

    def update(self):
        """Download the lists and verify their signatures; LabError if any suite fails."""
        run(["apt-get", "-c", self.config, "-qq", "update"])

    def newest(self, pattern):
        """The (name, version) of the newest package whose whole name matches; LabError if there is none."""
        names = [n for n in run(["apt-cache", "-c", self.config, "pkgnames", "linux-"]).split()
                 if re.fullmatch(pattern, n)]
        found = []
        if names:
            text = run(["apt-cache", "-c", self.config, "show", *names])
            for stanza in text.split("\n\n"):
                fields = dict(re.findall(r"^(Package|Version): (.+)$", stanza, re.M))
                if len(fields) == 2:
                    found.append((fields["Package"], fields["Version"]))
        if not found:
            raise LabError(f"no package matches {pattern} in the lists of {self.directory}/sources.list")
        return max(found, key=functools.cmp_to_key(compare_packages))

    def is_intact(self, name, version, path):
        """Whether a file downloaded earlier is still what the signed lists say it is."""
        text = run(["apt-cache", "-c", self.config, "show", f"{name}={version}"])
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        return f"SHA256: {digest}" in text.splitlines()

    def download(self, name, version, directory):
        """Fetch one .deb into directory (apt checks its hash against the signed lists) and return its path."""
        with tempfile.TemporaryDirectory(dir=directory, prefix=".download-") as temporary:
            run(["apt-get", "-c", self.config, "-qq", "download", f"{name}={version}"], cwd=temporary)
            debs = list(Path(temporary).glob("*.deb"))
            if len(debs) != 1:
                raise LabError(f"apt-get download {name}={version} left {len(debs)} packages instead of one")
            target = deb_path(directory, name, version)
            debs[0].rename(target)
            return target


def deb_path(directory, name, version):
    """Our own name for a downloaded package; apt's own escapes the epoch, which kernels have none of."""
    return Path(directory) / f"{name}_{version}_{ARCHITECTURE}.deb"


def unpack_source(deb, directory, members=()):
    """The one tar archive in a package of kernel source, without its first directory; members: shell patterns, all if none.

    Out of one archive and into the other, without a stop on disk.
    """
    patterns = ("--wildcards", *members) if members else ()
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as package:
        try:
            with tarfile.open(fileobj=package.stdout, mode="r|") as archive:
                for member in archive:
                    if member.isfile() and member.name.endswith(".tar.xz"):
                        _untar(deb, archive.extractfile(member), directory, patterns)
        except tarfile.TarError as e:
            raise LabError(f"{deb}: {e}") from e
    if package.returncode != 0:
        raise LabError(f"{deb}: dpkg-deb failed with {package.returncode}")


def _untar(deb, source, directory, patterns):
    with subprocess.Popen(["tar", "-xJ", "--strip-components=1", "-C", directory, *patterns],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        with contextlib.suppress(BrokenPipeError):  # it ended early: why is in its status and its stderr
            shutil.copyfileobj(source, child.stdin)
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        error = child.stderr.read().decode(errors="replace").strip()
    if child.returncode != 0:
        raise LabError(f"{deb}: tar failed with {child.returncode}: {error}")


def compare_packages(a, b):
    """Order (name, version) pairs by Debian's version order, then by the numbers in the name."""
    if a[1] != b[1]:
        older = subprocess.run(["dpkg", "--compare-versions", a[1], "lt", b[1]], check=False).returncode == 0
        return -1 if older else 1
    key_a, key_b = (tuple(int(n) for n in re.findall(r"\d+", x[0])) for x in (a, b))
    return (key_a > key_b) - (key_a < key_b)
