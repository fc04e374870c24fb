# Sourced by the set-up scripts: installs Debian packages that are missing, and nothing else.
# Works as root or through sudo. Never starts a service, never removes or upgrades a package that is there.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# shellcheck disable=SC2034  # the lists are for the scripts that source this file

PACKAGES_BUILD=(cmake ninja-build gcc g++ make binutils libc6-dev python3)
PACKAGES_RUN=(procps sqlite3 strace time)
PACKAGES_TEST=(
    golang-go systemtap-sdt-dev
    g++-aarch64-linux-gnu g++-riscv64-linux-gnu qemu-user musl-tools build-essential debhelper dpkg-dev lintian
    bc chromium-headless-shell clang-19 clang-format-19 clang-tidy-19 gdb git libc6-dbg libcmocka-dev libpython3-stdlib mandoc
    libpython3.11-testsuite python3-jsonschema python3-prometheus-client
    libclang-rt-19-dev libjemalloc2 openssl perl pkg-config redis-server redis-tools shellcheck spin util-linux
    valgrind xz-utils z3
)

PACKAGES_FUZZ=(afl++ clang-19 libclang-rt-14-dev libclang-rt-19-dev llvm)
PACKAGES_PROGRAMS=(
    7zip bc bind9 bind9-dnsutils binutils bison brotli bzip2 cargo clang-19 curl dash diffutils doxygen emacs-nox
    erlang-base ffmpeg file fish flex gawk gdb gforth gfortran ghostscript gnupg gnuplot-nox golang-go graphviz groff
    guile-3.0 haproxy imagemagick jq ksh librsvg2-bin libxml2-utils lighttpd lua5.4 luajit lz4 m4 mariadb-server
    memcached mercurial nasm nginx-light ninja-build ocaml-nox openssh-client pari-gp patch php-cli poppler-utils
    postgresql python3-numpy r-base-core rsync ruby rustc sbcl sox subversion swi-prolog-nox tcl tmux unzip vim-nox
    xsltproc zip zsh zstd
)
PACKAGES_GLIBC=(bison gawk glibc-source)
PACKAGES_VENV=(python3-venv)
PACKAGES_BENCH=(
    clang-19 ghostscript git libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 lua5.4 perl redis-server redis-tools
    sqlite3 strace valgrind z3
)

# Debian 12 has a newer cargo beside its first one, which cannot read all packages that the benchmarks' peers come in.
PACKAGES_CARGO=cargo
if grep -qsx 'ID=debian' /etc/os-release && grep -qsx 'VERSION_ID="12"' /etc/os-release; then
    PACKAGES_CARGO=cargo-web
fi

# Large ones, of which any version from anywhere will do: package, and the command by which it is known.
PACKAGES_TEST_COMMANDS=("$PACKAGES_CARGO:cargo" default-jdk-headless:javac nodejs:node)
PACKAGES_BENCH_COMMANDS=("$PACKAGES_CARGO:cargo" nodejs:node)

packages_fail() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

# Also where its newer form is (cargo-web, rustc-web), which it would replace.
packages_is_installed() {
    local name
    for name in "$1" "$1-web"; do
        [[ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" == installed ]] && return 0
    done
    return 1
}

# Prints those of the named packages that are not installed.
packages_missing() {
    local name
    for name in "$@"; do
        packages_is_installed "$name" || printf '%s\n' "$name"
    done
}

# Of PACKAGE:COMMAND pairs, prints the packages whose command is not to be found.
packages_missing_commands() {
    local pair
    for pair in "$@"; do
        command -v "${pair#*:}" >/dev/null 2>&1 || printf '%s\n' "${pair%%:*}"
    done
}

packages_as_root() {
    if [[ "$(id -u)" -eq 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        packages_fail "these packages are missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}"
    fi
}

# Somebody else's apt may hold the lock of the lists, which apt does not wait for.
packages_update() {
    local attempt
    for attempt in 1 2 3; do
        packages_as_root apt-get update -qq && return 0
        printf 'set-up: apt-get update failed (attempt %d of 3)\n' "$attempt" >&2
        sleep 5
    done
    packages_fail "apt-get update failed three times. Check the network and /etc/apt/sources.list."
}

# A file that tells the packages' scripts not to start services while they are installed.
PACKAGES_POLICY=/usr/sbin/policy-rc.d
packages_policy_made=no

packages_forbid_services() {
    [[ -e "$PACKAGES_POLICY" ]] && return 0
    printf '#!/bin/sh\nexit 101\n' | packages_as_root tee "$PACKAGES_POLICY" >/dev/null
    packages_policy_made=yes
    packages_as_root chmod 755 "$PACKAGES_POLICY"
}

packages_allow_services() {
    [[ "$packages_policy_made" == no ]] || packages_as_root rm -f "$PACKAGES_POLICY"
    packages_policy_made=no
}

packages_install() {
    local missing
    mapfile -t missing < <(packages_missing "$@")
    [[ ${#missing[@]} -gt 0 ]] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        packages_fail "no apt-get here. Install with your package manager: ${missing[*]}"
    printf 'set-up: installing %s\n' "${missing[*]}"
    trap packages_allow_services EXIT
    packages_update
    packages_forbid_services
    packages_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >/dev/null ||
        packages_fail "could not install ${missing[*]}. apt's messages are above."
    packages_allow_services
}

# Debian's python3 with its own test-suite, whatever minor version this release has.
packages_python_testsuite() {
    local version
    [[ -x /usr/bin/python3 ]] || return 0
    version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    printf 'libpython%s-testsuite\n' "$version"
}
