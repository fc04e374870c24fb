#!/usr/bin/env python3
"""Gate: how many instructions malloc, calloc and free execute, and that they execute no locked one.

    instructions.py --shared libhakmem.so --program pair_loop --calloc-program calloc_loop

Callgrind counts the programs, loops of malloc(64) or calloc(1, 64) and free, under the library with 100,000 and
with 200,000 rounds. The difference has no start-up in it: instructions a pair, and in each of the functions
themselves. The disassembly of the functions is searched for lock prefixes and xchg with memory.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import gate

ROUNDS = 100_000
FUNCTIONS = ("malloc", "calloc", "free")


@dataclass
class Limits:
    """The most instructions that are allowed."""

    pair: float
    malloc: float
    calloc: float
    free: float


def self_costs(callgrind: str) -> dict[str, int]:
    """Instructions executed in each function itself, from the text of a callgrind.out file."""
    names: dict[str, str] = {}
    costs: dict[str, int] = {}
    current = ""
    skip = False
    for line in callgrind.splitlines():
        if match := re.match(r"c?fn=\((\d+)\)(?: (.*))?$", line):
            if match.group(2):
                names[match.group(1)] = match.group(2).split("'")[0]
            if line.startswith("fn="):
                current = names[match.group(1)]
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost
        elif match := re.match(r"[+\-*\d]\S* (\d+)$", line):
            if not skip:
                costs[current] = costs.get(current, 0) + int(match.group(1))
            skip = False
    return costs


def interpreter(program: Path) -> str:
    """The loader that a program asks for."""
    match = re.search(r"interpreter: (\S+)\]", gate.run("readelf", "-lW", program))
    return match.group(1) if match else gate.give_up("instructions", f"{program} has no dynamic loader")


def count(shared: Path, program: Path, rounds: int) -> dict[str, int]:
    """Runs the program under callgrind and the library. The loader's --preload, because `valgrind` may be a shell
    script, which LD_PRELOAD would run under the library too."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "callgrind.out"
        loaded = [interpreter(program), "--preload", str(shared.resolve()), str(program), str(rounds)]
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", *loaded]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not output.exists():
            gate.give_up("instructions", f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return self_costs(output.read_text(encoding="utf-8"))


def measure(shared: Path, program: Path, functions: tuple[str, ...] = ("malloc", "free")) -> dict[str, float]:
    """Instructions a round: of the whole program as `pair`, and of these functions."""
    once, twice = (count(shared, program, n * ROUNDS) for n in (1, 2))
    figures = {"pair": (sum(twice.values()) - sum(once.values())) / ROUNDS}
    for name in functions:
        both = (name, f"hakmem_{name}", f"__libc_{name}", "cfree" if name == "free" else name)
        figures[name] = sum(twice.get(n, 0) - once.get(n, 0) for n in dict.fromkeys(both)) / ROUNDS
    return figures


def check_figures(figures: dict[str, float], limits: Limits) -> list[str]:
    """Figures above their limits, and figures that cannot be true."""
    problems = []
    for name in ("pair", *FUNCTIONS):
        limit = getattr(limits, name)
        if figures[name] <= 0:
            problems.append(f"{name}: no instruction was counted; did the library take over?")
        elif figures[name] > limit:
            problems.append(f"{name}: {figures[name]:.2f} instructions, allowed are {limit:g}")
    return problems


def locked_instructions(disassembly: str) -> list[str]:
    """The locked instructions in objdump's output: a prefix, or xchg with memory, which locks by itself."""
    return [line.strip() for line in disassembly.splitlines()
            if re.search(r"\block\s+[a-z]", line) or re.search(r"\bxchg\b.*\(", line)]


def function_range(shared: Path, name: str) -> tuple[int, int] | None:
    """The addresses of an exported function."""
    for line in gate.run("nm", "-D", "--defined-only", "--print-size", shared).splitlines():
        words = line.split()
        if len(words) == 4 and words[3] == name:
            start = int(words[0], 16)
            return start, start + int(words[1], 16)
    return None


def check_locked(shared: Path) -> list[str]:
    """Searches the bodies of the functions; what is never inlined into them is not a fast path."""
    problems = []
    for name in FUNCTIONS:
        found = function_range(shared, name)
        if found is None or found[0] == found[1]:
            problems.append(f"{name}: {shared.name} exports no function of this name")
            continue
        limits = (f"--start-address={found[0]}", f"--stop-address={found[1]}")
        text = gate.run("objdump", "-d", "--no-show-raw-insn", *limits, shared)
        problems += [f"{name}: locked instruction in the fast path: {line}" for line in locked_instructions(text)]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Counts the instructions of malloc, calloc and free.")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--calloc-program", type=Path, required=True)
    parser.add_argument("--pair", type=float, default=48, help="the most instructions a pair (default 48)")
    parser.add_argument("--malloc", type=float, default=16, help="the most in malloc (default 16)")
    parser.add_argument("--calloc", type=float, default=34, help="the most in calloc (default 34)")
    parser.add_argument("--free", type=float, default=20, help="the most in free (default 20)")
    arguments = parser.parse_args()
    figures = measure(arguments.shared, arguments.program)
    figures["calloc"] = measure(arguments.shared, arguments.calloc_program, ("calloc",))["calloc"]
    shown = ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
    print(f"instructions: measured a round: {shown}")
    problems = check_figures(figures, Limits(arguments.pair, arguments.malloc, arguments.calloc, arguments.free))
    problems += check_locked(arguments.shared)
    return gate.report("instructions", problems, f"{shown}, nothing locked")


if __name__ == "__main__":
    sys.exit(main())
