# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
#
# Sourced by tools/run and tools/test: installs what is missing, configures, builds. Everything for people goes to stderr.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${0##*/}

# Debian's own tools before any others: the packages below are meant, and bpftool lies in an sbin directory.
export PATH="/usr/sbin:/usr/bin:/sbin:/bin${PATH:+:$PATH}"
export LC_ALL=C.UTF-8

say() {
        printf '%s\n' "tools/$name: $*" >&2
}

die() {
        say "$@"
        exit 1
}

# packages COLUMN USE...: names in one column (2 Debian, 3 Fedora, 4 Arch, 5 openSUSE) of tools/packages.
packages() {
        local column=$1
        shift
        awk -v column="$column" -v uses=" $* " '!/^#/ && NF && index(uses, " " $1 " ") { print $column }' "$root/tools/packages"
}

lab_packages() {
        if [ -e "$root/tests/lab/packages" ]; then
                grep -v '^#' "$root/tests/lab/packages"
        fi
}

# The family of the distribution we are on: debian, fedora, arch, opensuse or "".
distribution() {
        local word id=
        id=$(. /etc/os-release 2>/dev/null && printf '%s' "$ID ${ID_LIKE-}") || true
        for word in $id; do
                case $word in
                debian) echo debian; return ;;
                fedora | rhel) echo fedora; return ;;
                arch) echo arch; return ;;
                *suse* | sles) echo opensuse; return ;;
                esac
        done
}

# need_packages USE...: installs what is missing on Debian. On other distributions: looks whether the tools are there anyway, and
# names the packages when they are not.
need_packages() {
        local family missing=() package tool
        local -A column=([fedora]=3 [arch]=4 [opensuse]=5)

        family=$(distribution)
        if [ "$family" = debian ]; then
                local wanted=() installed
                mapfile -t wanted < <({ packages 2 "$@"; case " $* " in *' test '*) lab_packages ;; esac; } | sort -u)
                # An error for names dpkg never heard of is fine: they are missing.
                installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null) || true
                for package in "${wanted[@]}"; do
                        grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
                done
                if [ ${#missing[@]} -eq 0 ]; then
                        return
                fi
                say "installing ${missing[*]}"
                say "this takes some minutes"
                install_debian "${missing[@]}" >&2 || die "could not install: ${missing[*]}"
                return
        fi

        for tool in cc meson ninja clang llvm-strip bpftool pkg-config; do
                command -v "$tool" >/dev/null || missing+=("$tool")
        done
        if [ ${#missing[@]} -eq 0 ] && pkg-config --exists libbpf libcgroup jansson smartcols; then
                return
        fi
        say "this is not Debian, so nothing was installed. These packages are needed:"
        for package in fedora arch opensuse; do
                if [ -z "$family" ] || [ "$family" = "$package" ]; then
                        say "  $package: $(packages "${column[$package]}" "$@" | sort -u | tr '\n' ' ')"
                fi
        done
        if [ -z "$family" ]; then
                say "  debian: $(packages 2 "$@" | sort -u | tr '\n' ' ')"
        fi
        die "install them, then run this again"
}

install_debian() {
        local log
        local -a get=(apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

        # Of prometheus promtool is wanted. Without these files its server does not start, now or at the next boot.
        get+=(-o 'DPkg::Options::=--path-exclude=*/systemd/system/prometheus*' -o 'DPkg::Options::=--path-exclude=/etc/init.d/prometheus')

        export DEBIAN_FRONTEND=noninteractive
        log=$(mktemp) || return 1
        # A list that is there may be old: when it does not do, fetch a new one and try again.
        if ! "${get[@]}" install --no-install-recommends "$@" >"$log" 2>&1 </dev/null; then
                if ! "${get[@]}" update >"$log" 2>&1 </dev/null ||
                        ! "${get[@]}" install --no-install-recommends "$@" >>"$log" 2>&1 </dev/null; then
                        tail -n 40 "$log"
                        rm -f "$log"
                        return 1
                fi
        fi
        rm -f "$log"
}

# need_root WHY LINE...: the lines tell what an ordinary user can do instead.
need_root() {
        local line
        if [ "$(id -u)" -ne 0 ]; then
                say "run it as root: it $1."
                shift
                for line in "$@"; do
                        say "$line"
                done
                exit 1
        fi
}

# One set-up at a time: two that install or build at once would trip over each other.
lock() {
        exec {lock_fd}<"$root"
        flock "$lock_fd"
}

unlock() {
        exec {lock_fd}<&-
}

# quietly COMMAND...: its output is shown when it fails, and then we stop.
quietly() {
        local output
        if ! output=$("$@" 2>&1 </dev/null); then
                printf '%s\n' "$output" >&2
                die "failed: $*"
        fi
}
