#!/usr/bin/env bash
# Formats the C and C++ sources, or with --check says which are not formatted.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=${CLANG_FORMAT:-clang-format-19}
command -v "$formatter" >/dev/null 2>&1 || {
    echo "format: $formatter not found. tools/setup-test.sh installs it." >&2
    exit 1
}

mapfile -d '' files < <(find src include cmd tests bench \
    \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cpp' -o -name '*.hpp' \) -print0 2>/dev/null | sort -z)
[[ ${#files[@]} -gt 0 ]] || {
    echo 'format: no sources found' >&2
    exit 1
}

if [[ "${1:-}" == --check ]]; then
    # One process for all files: a process for each is mostly its start.
    mapfile -t unformatted < <("$formatter" --dry-run "${files[@]}" 2>&1 |
        sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: .*/not formatted: \1/p' | sort -u)
    [[ ${#unformatted[@]} -eq 0 ]] || printf '%s\n' "${unformatted[@]}"
    echo "${#unformatted[@]} of ${#files[@]} files not formatted"
    [[ ${#unformatted[@]} -eq 0 ]] || {
        echo 'make format mends it'
        exit 1
    }
elif [[ $# -eq 0 ]]; then
    "$formatter" -i "${files[@]}"
else
    echo 'usage: tools/format.sh [--check]' >&2
    exit 2
fi
