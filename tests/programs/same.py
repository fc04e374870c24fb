#!/usr/bin/env python3
"""Runs two programs and fails unless both print the same on stdout and end with the same status.

    same.py PLAIN OTHER

PLAIN is linked without hakmem, OTHER with it. What only one of them can know they print on stderr, which is shown when
they differ. A PLAIN that prints nothing or fails proves nothing, and fails too.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import difflib
import subprocess
import sys
from pathlib import Path


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Its output and status."""
    return subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=100)


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: same.py PLAIN OTHER", file=sys.stderr)
        return 2
    plain, other = run(sys.argv[1]), run(sys.argv[2])
    names = [Path(program).name for program in sys.argv[1:]]
    if plain.returncode != 0 or not plain.stdout:
        print(f"{names[0]}: FAILED: status {plain.returncode}\n{plain.stdout}{plain.stderr}")
        return 1
    if (plain.returncode, plain.stdout) == (other.returncode, other.stdout):
        print(f"{names[1]}: the same {len(plain.stdout.splitlines())} lines and status as {names[0]}")
        return 0
    print(f"{names[1]}: FAILED: status {other.returncode}, without hakmem {plain.returncode}")
    print("\n".join(difflib.unified_diff(plain.stdout.splitlines(), other.stdout.splitlines(), *names, lineterm="")))
    print(other.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
