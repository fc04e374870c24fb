#!/usr/bin/env python3
"""Checks that docs/seccomp.md names the system calls that src/ makes, and no others.

    syscalls.py SRC PAGE

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import sys
from pathlib import Path

import gate

ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.M)


def check(src: Path, page: str) -> tuple[list[str], int]:
    """All problems, and the number of calls."""
    made: dict[str, str] = {}
    for path in gate.sources(src):
        for name in re.findall(r"\bSYS_(\w+)", gate.blank_comments(path.read_text(encoding="utf-8"))):
            made.setdefault(name, f"src/{path.relative_to(src)}")
    told = {name for row in ROW.findall(page) for name in re.findall(r"`(\w+)`", row)}
    problems = [
        f"{where}: {name} is not in docs/seccomp.md: say there what it is for"
        for name, where in sorted(made.items())
        if name not in told
    ]
    problems += [f"docs/seccomp.md: nothing in src calls {name}" for name in sorted(told - set(made))]
    return problems, len(made)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares the system calls of src/ with docs/seccomp.md.")
    parser.add_argument("src", type=Path)
    parser.add_argument("page", type=Path)
    arguments = parser.parse_args()
    problems, count = check(arguments.src, arguments.page.read_text(encoding="utf-8"))
    if count == 0:
        gate.give_up("syscalls", f"no system calls in {arguments.src}")
    return gate.report("syscalls", problems, f"{count} system calls")


if __name__ == "__main__":
    sys.exit(main())
