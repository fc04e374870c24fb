#!/usr/bin/env bash
# Makes sure that the build tools are there: installs them where that needs no question (as root on a system with
# apt), says how to install them otherwise.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail

missing=()
for tool in cmake ninja python3; do
    command -v "$tool" >/dev/null 2>&1 || missing+=("$tool")
done
command -v "${CC:-cc}" >/dev/null 2>&1 || missing+=("a C compiler (${CC:-cc})")
command -v "${CXX:-c++}" >/dev/null 2>&1 || missing+=("a C++ compiler (${CXX:-c++})")
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ "$(id -u)" -eq 0 ]] && command -v apt-get >/dev/null 2>&1; then
    exec "$(dirname "${BASH_SOURCE[0]}")/setup-build.sh"
fi
{
    printf 'missing:'
    printf ' %s;' "${missing[@]}"
    printf '\nTo install them on Debian or Ubuntu: tools/setup-build.sh (uses sudo)\n'
} >&2
exit 1
