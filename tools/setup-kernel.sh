#!/usr/bin/env bash
# Sets up what the tests in a virtual machine need: qemu, and the kernel of this Debian in build/kernel. The kernel is not
# installed, as its package would make a boot image and a boot entry. Where one of them cannot be had this says so and
# succeeds: those tests are skipped then.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
source tools/packages.sh

folder=build/kernel
log=$PWD/build/logs/setup-kernel.log

without() {
    printf 'set-up: %s; the tests in a virtual machine are skipped\n' "$*" >&2
    exit 0
}

# The package that the release's newest kernel for virtual machines is in: any kernel does, and that one is small.
kernel_package() {
    apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1
}

# Downloads and unpacks it in a folder of its own, so that a half one is never found.
fetch_kernel() {
    local package made
    package=$(kernel_package)
    [[ -n "$package" ]] || return 1
    made=$(mktemp -d "$folder.XXXXXX")
    if (cd "$made" && apt-get download -q "$package" && dpkg-deb --fsys-tarfile ./*.deb >files.tar &&
        tar -xf files.tar --wildcards './boot/vmlinuz-*') >>"$log" 2>&1; then
        mkdir -p "$folder/boot"
        mv "$made"/boot/vmlinuz-* "$folder/boot/"
        rm -rf "$made"
        return 0
    fi
    rm -rf "$made"
    return 1
}

grep -qsx 'ID=debian' /etc/os-release || without 'this is not Debian'
[[ "$(dpkg --print-architecture)" == amd64 ]] || without 'this is not amd64'
if ! command -v qemu-system-x86_64 >/dev/null 2>&1; then
    (packages_install qemu-system-x86) || without 'qemu-system-x86 could not be installed'
fi
compgen -G "$folder/boot/vmlinuz-*" >/dev/null && exit 0

mkdir -p build/logs
: >"$log"
printf 'set-up: a kernel into %s ... ' "$folder"
# The lists may be missing, or name a version that is gone.
if fetch_kernel || { (packages_update) >>"$log" 2>&1 && fetch_kernel; }; then
    echo ok
else
    echo none
    without "apt has no linux-image-cloud-amd64 that can be fetched ($log)"
fi
