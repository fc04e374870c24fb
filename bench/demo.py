#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the demonstration. Two programs of the system, unmodified, with and without hakmem.

It prints time, peak memory, page faults and memory system calls of each, compares their outputs,
and shows that hakmem really served them: its library in the process's map, and its own statistics.
Who runs it: bench/run-demo.sh, for `make run`. It never touches anything but temporary files.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "src"))

# Of the package only what needs nothing but the standard library.
from hakmem_tools.bench import allocators as alloc  # noqa: E402
from hakmem_tools.bench import measure, places  # noqa: E402
from hakmem_tools.bench.allocators import Allocator  # noqa: E402
from hakmem_tools.bench.measure import Run  # noqa: E402
from hakmem_tools.bench.places import BenchError  # noqa: E402

ROUNDS = 3
DEMO = ROOT / "bench" / "demo"
STATISTICS_LINES = 12


@dataclass(frozen=True)
class Program:
    """A program of the system with work for it."""

    name: str
    command: list[str]
    what: str


@dataclass
class Findings:
    """What one program did under one allocator."""

    runs: list[Run] = field(default_factory=list)
    output: str = ""
    calls: int | None = None


def programs() -> list[Program]:
    python, sqlite = "/usr/bin/python3", "/usr/bin/sqlite3"
    for path, package in ((python, "python3"), (sqlite, "sqlite3")):
        if not os.access(path, os.X_OK):
            raise BenchError(f"{path} is not installed: apt-get install {package}")
    return [
        Program(
            "python3",
            [python, str(DEMO / "workload.py"), "70"],
            "JSON and strings, every object from malloc (PYTHONMALLOC=malloc)",
        ),
        Program(
            "sqlite3",
            [sqlite, ":memory:", f".read {DEMO / 'workload.sql'}"],
            "an in-memory database: fill, index, join, update, delete",
        ),
    ]


def measure_program(
    program: Program, allocators: list[Allocator], launch: Path
) -> dict[str, Findings]:
    found = {a.name: Findings() for a in allocators}
    for _ in range(ROUNDS):
        for allocator in allocators:
            outcome = measure.measure(program.command, allocator, launch)
            run, output = outcome.run, outcome.output
            if run.problem:
                raise BenchError(f"{program.name} under {allocator.name}: {run.problem}")
            mine = found[allocator.name]
            if mine.output and mine.output != output:
                raise BenchError(f"{program.name} under {allocator.name}: its output changes")
            mine.output = output
            mine.runs.append(run)
    for allocator in allocators:
        counted = measure.count_calls(program.command, allocator)
        if "problem" not in counted:
            found[allocator.name].calls = sum(counted[name] for name in measure.MEMORY_CALLS)
    return found


def plain_table(headings: list[str], lines: list[list[str]]) -> list[str]:
    """A table of text; the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (headings, *lines)) for i in range(len(headings))]
    shown = []
    for line in (headings, *lines):
        rest = "  ".join(cell.rjust(widths[i]) for i, cell in enumerate(line) if i > 0)
        shown.append(f"  {line[0].ljust(widths[0])}  {rest}".rstrip())
    return shown


def table_of(found: dict[str, Findings]) -> list[str]:
    lines = []
    for name, findings in found.items():
        runs = findings.runs
        lines.append(
            [
                name,
                f"{statistics.median(r.wall_ns for r in runs) / 1e9:.2f}",
                f"{min(r.wall_ns for r in runs) / 1e9:.2f}",
                f"{statistics.median(r.maxrss_kb for r in runs) / 1000:.1f}",
                f"{statistics.median(r.minflt + r.majflt for r in runs):.0f}",
                "-" if findings.calls is None else str(findings.calls),
            ]
        )
    headings = ["", "time s", "best s", "peak RSS MB", "page faults", "memory calls"]
    return plain_table(headings, lines)


def library_in_maps(pid: int, library: str) -> str:
    """The line of the process's map with the code of the library; empty when it is not there."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line for line in lines if "x" in line.split()[1] and library in line), "")


def prove(program: Program, library: str) -> tuple[str, list[str]]:
    """Runs a program once more with statistics: its line in the maps, and what hakmem says."""
    environment = {**os.environ, "LD_PRELOAD": library, "HAKMEM_STATS": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            program.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        mapped = ""
        while process.poll() is None:
            mapped = mapped or library_in_maps(process.pid, library)
            time.sleep(0.05)
        errors.seek(0)
        said = [line for line in errors.read().splitlines() if line.startswith("hakmem:")]
    return mapped, said


def show_proof(program: Program, library: str) -> bool:
    mapped, said = prove(program, library)
    print(f"  in the map of {program.name}: {mapped or 'NOT FOUND'}")
    print("  what hakmem counted in it (HAKMEM_STATS=1):")
    for line in said[:STATISTICS_LINES]:
        print(f"    {line}")
    if len(said) > STATISTICS_LINES:
        print(f"    ... {len(said) - STATISTICS_LINES} more lines")
    if not said:
        print("    NOTHING: it did not run, or the program ended before it could say anything")
    return bool(mapped and said)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Two real programs with and without hakmem.")
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build" / "release",
        metavar="DIR",
        help="where libhakmem.so and bench/launch are (default build/release)",
    )
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    for name, value in (("LC_ALL", "C"), ("PYTHONHASHSEED", "0"), ("PYTHONMALLOC", "malloc")):
        os.environ[name] = value
    os.environ.pop("LD_PRELOAD", None)
    where = places.in_source(ROOT, arguments.build)
    hakmem, glibc = alloc.find("hakmem", where), alloc.find("glibc", where)
    assert isinstance(hakmem, Allocator) and isinstance(glibc, Allocator)
    if problem := alloc.check_preload(hakmem):
        raise BenchError(problem)
    print(
        f"Two programs of this system, {ROUNDS} rounds each, with the C library's malloc (glibc "
        f"{glibc.version})\nand with LD_PRELOAD={where.shown(hakmem.library)}\n"
    )
    good = True
    for program in programs():
        print(f"{program.name}: {program.what}", flush=True)
        found = measure_program(program, [glibc, hakmem], arguments.build / "bench" / "launch")
        print("\n".join(table_of(found)))
        same = found["glibc"].output == found["hakmem"].output != ""
        print(f"  output: {'the same' if same else 'DIFFERENT'}")
        good = show_proof(program, hakmem.library) and same and good
        print(flush=True)
    if not good:
        print("run-demo: hakmem did not prove itself, see above", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"run-demo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
