#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: runs the same programs under several allocators in turn and compares them.

    bench/compare.py                    the set "first", 5 rounds, all allocators found
    bench/compare.py --only random_mixed --rounds 3
    bench/compare.py --allocators hakmem,glibc,old=build/old/libhakmem.so
    bench/compare.py --set full --json result.json --markdown docs/benchmarks.md
    bench/compare.py --from result.json --markdown docs/benchmarks.md

A crash or a wrong checksum is shown in the table and makes the exit status 1.
Who runs it: a person, `make bench`, CI (set "quick"). It never changes the system's settings.
"""

import argparse
import datetime
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import harness
import report
import suite
from harness import ROOT, Allocator, HarnessError

DEFAULT_ALLOCATORS = ["hakmem", "glibc", *harness.PEERS]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Runs benchmark programs under several allocators and compares them."
    )
    parser.add_argument("--set", choices=suite.SETS, default="first", help="what to run")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only benchmarks whose name contains NAME (may be repeated)",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument(
        "--allocators",
        metavar="LIST",
        help="comma-separated: names, or NAME=LIBRARY.so (default: "
        f"{','.join(DEFAULT_ALLOCATORS)}, those that are installed)",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build" / "release",
        metavar="DIR",
        help="where libhakmem.so and bench/ are (default build/release)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300,
        metavar="SECONDS",
        help="limit for one run (default 300)",
    )
    parser.add_argument("--callgrind", action="store_true", help="also count instructions")
    parser.add_argument("--strace", action="store_true", help="also count memory system calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="read a result instead of measuring",
    )
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    if arguments.source and (arguments.callgrind or arguments.strace or arguments.json):
        parser.error(
            "--from only prints what was measured before: leave out --callgrind, "
            "--strace and --json"
        )
    return arguments


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def find_allocators(wanted: str | None, build: Path) -> list[Allocator]:
    found = []
    for spec in wanted.split(",") if wanted else DEFAULT_ALLOCATORS:
        allocator = harness.find_allocator(spec, build)
        if allocator is not None:
            harness.check_preload(allocator)
            found.append(allocator)
            continue
        package = harness.PEERS[spec][0]
        if wanted:
            raise HarnessError(f"{spec} is not installed: apt-get install {package}")
        say(f"{spec} is left out: not installed (package {package})")
    if len({a.name for a in found}) != len(found):
        raise HarnessError("two allocators have the same name: give them other names")
    return found


def expected_checksum(results: dict[str, Any]) -> str:
    """What glibc says, or without it what most of the runs say."""
    said = [r["checksum"] for r in results.get("glibc", {}).get("runs", []) if not r["problem"]]
    if not said:
        said = [r["checksum"] for e in results.values() for r in e["runs"] if not r["problem"]]
    return max(sorted(set(said)), key=said.count) if said else ""


def judge(results: dict[str, Any]) -> None:
    """Fills in `problem` of each allocator: the first failure, or a checksum that is wrong."""
    expected = expected_checksum(results)
    for entry in results.values():
        for number, run in enumerate(entry["runs"], 1):
            if not run["problem"] and run["checksum"] != expected:
                run["problem"] = f"wrong checksum {run['checksum']}, expected {expected}"
            if run["problem"] and not entry["problem"]:
                entry["problem"] = f"{run['problem']} (round {number} of {len(entry['runs'])})"


def measure_benchmark(
    benchmark: suite.Benchmark, allocators: list[Allocator], arguments: argparse.Namespace
) -> dict[str, Any]:
    bench = arguments.build / "bench"
    command = benchmark.command_for(arguments.set)
    program = harness.program_path(command[0], bench)
    results: dict[str, Any] = {a.name: {"problem": "", "runs": []} for a in allocators}
    rounds = min(arguments.rounds, benchmark.rounds_most)
    for number in range(rounds):
        say(f"{benchmark.name}: round {number + 1} of {rounds}")
        for allocator in allocators:
            run, _, _ = harness.measure(
                [program, *command[1:]],
                allocator.library,
                bench / "launch",
                runs=benchmark.runs,
                seconds=arguments.timeout,
            )
            results[allocator.name]["runs"].append(harness.run_as_dict(run))
    judge(results)
    return {
        "name": benchmark.name,
        "what": benchmark.what,
        "command": list(command),
        "repeats": benchmark.runs,
        "results": results,
    }


def count(
    benchmarks: list[suite.Benchmark], allocators: list[Allocator], bench: Path, how: Any
) -> dict[str, Any]:
    """Calls `how(command, library)` for each benchmark, with its small arguments, and allocator."""
    counted: dict[str, Any] = {}
    for benchmark in benchmarks:
        command = benchmark.command_for("quick")
        program = harness.program_path(command[0], bench)
        say(f"{benchmark.name}: counting ({' '.join(command)})")
        counted[" ".join(command)] = {
            a.name: how([program, *command[1:]], a.library) for a in allocators
        }
    return counted


def command_to_repeat(arguments: argparse.Namespace) -> str:
    """The options that decide what is measured; where the result goes does not matter."""
    words = ["bench/compare.py", "--set", arguments.set, "--rounds", str(arguments.rounds)]
    for name in arguments.only:
        words += ["--only", name]
    if arguments.allocators:
        words += ["--allocators", arguments.allocators]
    words += [f"--{n}" for n in ("callgrind", "strace") if getattr(arguments, n)]
    return shlex.join(words)


def measure_all(arguments: argparse.Namespace) -> report.Result:
    benchmarks = suite.select(arguments.set, arguments.only)
    if not benchmarks:
        names = ", ".join(b.name for b in suite.select(arguments.set, []))
        raise HarnessError(f"no benchmark of that name in set '{arguments.set}': it has {names}")
    allocators = find_allocators(arguments.allocators, arguments.build)
    result: report.Result = {
        "schema": 1,
        "date": datetime.date.today().isoformat(),
        "command": command_to_repeat(arguments),
        "rounds": arguments.rounds,
        "machine": harness.machine(),
        "allocators": {
            a.name: {"version": a.version, "library": a.shown_library()} for a in allocators
        },
    }
    result["benchmarks"] = [measure_benchmark(b, allocators, arguments) for b in benchmarks]
    bench = arguments.build / "bench"
    if arguments.callgrind:
        result["instructions"] = count(benchmarks, allocators, bench, harness.count_instructions)
    if arguments.strace:
        result["memory_calls"] = count(benchmarks, allocators, bench, harness.count_memory_calls)
    return result


def read_result(path: Path) -> report.Result:
    try:
        result: report.Result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"cannot read the result {path}: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != 1:
        raise HarnessError(f"{path} is not a result of this program (schema 1): measure again")
    return result


def main() -> int:
    arguments = parse_arguments()
    os.environ.pop("LD_PRELOAD", None)
    result = read_result(arguments.source) if arguments.source else measure_all(arguments)
    print(report.as_text(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if arguments.markdown:
        arguments.markdown.write_text(report.as_markdown(result), encoding="utf-8")
    failed = [
        f"{b['name']} under {name}: {entry['problem']}"
        for b in result["benchmarks"]
        for name, entry in b["results"].items()
        if entry["problem"]
    ]
    for line in failed:
        say(f"FAILED: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"compare.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
