#!/usr/bin/env bash
# Benchmarks: the demonstration. Runs two real programs, python3 and sqlite3, with and without hakmem and
# prints what changed. `make run` calls it; set-up and build come first. It takes less than a minute.
#
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ $# -eq 0 ]]; then
    if ! messages=$(cmake --build "$root/build/release" --target bench_launch 2>&1); then
        printf '%s\nrun-demo: the launcher could not be built, see above\n' "$messages" >&2
        exit 1
    fi
fi
exec /usr/bin/env python3 -B "$root/bench/demo.py" "$@"
