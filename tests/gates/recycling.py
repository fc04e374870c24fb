#!/usr/bin/env python3
"""Gate: how much a small program that allocates and frees for long asks of the system.

    recycling.py --shared libhakmem.so --program random_mixed

random_mixed with 200,000 cycles over 4,096 slots lives on a little over 1 MiB: what is freed has to serve again. The
superslabs mapped are the library's own count; the system calls are strace's, and are all of the process, those of the
loader among them. Where strace is missing or may not trace, only the superslabs are judged.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gate

ARGUMENTS = ("200000", "4096", "1234567")
MOST_SUPERSLABS = 4
MOST_CALLS = 60
TOTAL = r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?total$"  # in strace's table: share, time, each, calls, errors
CALLS = "mmap,munmap,madvise,mremap,brk,mprotect"


def superslabs(shared: Path, program: Path) -> int:
    """What the library says at the exit of the program."""
    done = subprocess.run([program, *ARGUMENTS], env=gate.preloaded(shared), capture_output=True, text=True, check=False)
    found = re.search(r"^hakmem: superslabs mapped (\d+)$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or found is None:
        gate.give_up("recycling", f"{program.name} ended with {done.returncode} and no summary:\n{done.stderr}")
    return int(found.group(1))


def can_trace() -> bool:
    """False where strace is not installed, or the system does not let it trace."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-f", "-c", "-e", f"trace={CALLS}", "-o", os.devnull, "true"],
                          capture_output=True, check=False).returncode == 0


def system_calls(shared: Path, program: Path) -> int:
    """The memory system calls of the process."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "calls"
        variables = gate.preloaded(shared)
        preload = variables.pop("LD_PRELOAD")  # for the program, not for strace
        done = subprocess.run(["strace", "-f", "-c", "-o", str(table), "-e", f"trace={CALLS}",
                               "-E", f"LD_PRELOAD={preload}", str(program), *ARGUMENTS],
                              env=variables, capture_output=True, text=True, check=False)
        found = re.search(TOTAL, table.read_text(encoding="utf-8"), re.MULTILINE)
    if done.returncode != 0 or found is None:
        gate.give_up("recycling", f"strace ended with {done.returncode} and no table:\n{done.stderr}")
    return int(found.group(1))


def main() -> int:
    """Runs the program twice and compares."""
    parser = argparse.ArgumentParser(description="Counts the superslabs and memory system calls of random_mixed.")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    arguments = parser.parse_args()
    problems = []
    mapped = superslabs(arguments.shared, arguments.program)
    seen = f"{mapped} superslabs mapped"
    if mapped > MOST_SUPERSLABS:
        problems.append(f"{mapped} superslabs mapped, allowed are {MOST_SUPERSLABS}: freed slots do not serve again")
    if not can_trace():
        return gate.report("recycling", problems, f"{seen}; system calls not counted: strace cannot run here")
    calls = system_calls(arguments.shared, arguments.program)
    if calls > MOST_CALLS:
        problems.append(f"{calls} memory system calls, allowed are {MOST_CALLS}: run strace -f -e trace={CALLS}")
    return gate.report("recycling", problems, f"{seen}, {calls} memory system calls")


if __name__ == "__main__":
    sys.exit(main())
