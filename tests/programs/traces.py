#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What real programs allocate, repeated without the programs under hakmem and other allocators.

    tests/programs/traces.py --lib rpmalloc=build/peers/rpmalloc.so [--lib ...] [--rounds 5] [--traces DIR]
                             [--table docs/programs-traces.md] [--json FILE] [CASE...]

Each program of `make programs` is played once with libhakmem-record.so (LD_PRELOAD), so that each
process that executes something leaves a trace. The trace with the most events of each case is
repeated by `hakmem replay` under hakmem, libc's allocator and each library, in turns, in several
rounds. Time is the best of the rounds, memory (private memory at most) and page faults are medians.
Cases that cannot be played, whose traces are too short to say anything, or too long, are left out
and named. With --traces the traces are kept, in a folder for each case, of each case those that may
have the most events; what is there already is not played again. Exit status 0: done, whatever came
out; 1: nothing could be measured.
Who runs it: a person, on a quiet machine, after tools/setup-bench.sh and tools/setup-programs.sh.
While a case is played, its traces may take 6 GB: 4 MiB for each process that ends by _exit.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from cases import CASES
from measure import machine, mean_table, ratio, versions
from others import add_libraries, libraries_of
from run import missing_programs, play
from stage import ROOT, Case, StageError, begin_plays, scratch_folder

HAKMEM, LIBC = "hakmem", "libc"
"""What `hakmem replay` calls its own two."""
DEFAULT_COMMAND = ROOT / "build/release/hakmem"
LEAST_EVENTS = 10_000
"""Fewer take well under a millisecond: noise would decide it."""
MOST_EVENTS = 15_000_000
NEAR = 1.1
"""What is within this factor of the best is told too."""
MOST_COUNTED = 8
"""So many of a case's traces are counted."""
REPLAY_SECONDS = 1800

# cmd/record/trace_format.h
MAGIC = b"hakmem-trace 1\n\0"
HEADER = struct.Struct("<16sQQQQ")
HEADER_BYTES = 4096
CHUNK_BYTES = 1 << 16


class LeftOutError(Exception):
    """A case has no row in the table; the message says why."""


@dataclass(frozen=True)
class Trace:
    path: Path
    events_bytes: int
    is_whole: bool


@dataclass(frozen=True)
class Row:
    """What came out for a case."""

    answer: dict[str, Any]
    """`hakmem replay --json`."""
    costs: dict[str, tuple[float, float, float]]
    """Seconds, bytes and page faults of each allocator that repeated the trace."""
    problems: dict[str, str]
    """Of the others."""


def events_end(path: Path) -> int:
    """Where the events end in a killed process's file, which is longer. No event has so many zeros."""
    with path.open("rb") as file:
        begin = file.seek(HEADER_BYTES)
        while chunk := file.read(CHUNK_BYTES):
            found = chunk.find(bytes(8))
            if found >= 0:
                return begin + found
            begin += len(chunk)
    return begin


def read_trace(path: Path) -> Trace | None:
    """None: nothing was recorded in it."""
    with path.open("rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    magic, _process, _started, _failed, whole = HEADER.unpack(header)
    end = path.stat().st_size if whole else events_end(path)
    return Trace(path, end - HEADER_BYTES, bool(whole)) if magic == MAGIC else None


def candidates(folder: Path) -> list[Trace]:
    """Those that may have the most events, the longest first. An event takes 3 to 6 bytes on
    average, so that a trace of less than half of the longest one's length has fewer."""
    traces = [trace for path in folder.glob("*.trace") if (trace := read_trace(path)) is not None]
    traces.sort(key=lambda trace: (trace.events_bytes, trace.is_whole), reverse=True)
    return [t for t in traces if 2 * t.events_bytes >= traces[0].events_bytes][:MOST_COUNTED]


def record(case: Case, recorder: Path, folder: Path) -> None:
    """Plays a case; the folder, which was not there, has the traces that may be chosen."""
    missing = missing_programs(case)
    if missing:
        raise LeftOutError(f"not installed: {', '.join(missing)}")
    playing = folder.with_name(f"{folder.name}.playing")  # so that an interrupted play is no other
    if playing.exists():
        shutil.rmtree(playing)
    playing.mkdir(parents=True)
    playing.chmod(0o1777)  # for servers that run as somebody else
    os.environ["HAKMEM_RECORD"] = str(playing / "%p.trace")
    try:
        with scratch_folder() as scratch:
            play(case, scratch / "work", recorder, False)
    except (StageError, OSError) as error:
        shutil.rmtree(playing)
        print(f"{case.name}: {error}", flush=True)
        raise LeftOutError("failed when it was recorded") from None
    finally:
        del os.environ["HAKMEM_RECORD"]
    kept = {trace.path for trace in candidates(playing)}
    for path in playing.iterdir():
        if path not in kept:
            path.unlink()
    playing.rename(folder)


def replay(command: Path, trace: Path, *options: str) -> dict[str, Any]:
    """What `hakmem replay --json` says."""
    process = subprocess.Popen(
        [command, "replay", "--json", *options, trace],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=REPLAY_SECONDS)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise LeftOutError(f"its trace was not repeated in {REPLAY_SECONDS} s") from None
        raise
    if process.returncode not in (0, 1) or not output:
        print(errors, end="", flush=True)
        raise LeftOutError(f"`hakmem replay` ended with status {process.returncode}")
    answer: dict[str, Any] = json.loads(output)
    return answer


def choose(command: Path, folder: Path, most_events: int) -> Path:
    """The trace with the most events; of several with as many a whole one."""
    counted, problem = [], "no process of it left a trace"
    for trace in candidates(folder):
        try:
            answer = replay(command, trace.path, "--only", LIBC, "--rounds", "1", "--touch", "none")
        except LeftOutError as error:
            problem = str(error)
        else:
            counted.append((int(answer["trace"]["events"]), trace.is_whole, trace.path))
    if not counted:
        raise LeftOutError(problem)
    events, _, path = max(counted)
    if events < LEAST_EVENTS:
        raise LeftOutError(f"{events:,} events at most, fewer than {LEAST_EVENTS:,}")
    if events > most_events:
        raise LeftOutError(f"{events:,} events, more than {most_events:,}")
    return path


def measure(command: Path, trace: Path, libraries: dict[str, Path], options: list[str]) -> Row:
    added = [word for name, path in libraries.items() for word in ("--lib", f"{name}={path}")]
    answer = replay(command, trace, *options, *added)
    costs, problems = {}, {}
    for allocator in answer["allocators"]:
        name = allocator["name"]
        if allocator["problem"] is not None:
            problems[name] = allocator["problem"]
            continue
        best = min(run["elapsed_ns"] for run in answer["runs"] if run["allocator"] == name)
        most, faults = (max(1.0, allocator[of]) for of in ("most_bytes", "page_faults"))
        costs[name] = (best / 1e9, most, faults)
    if LIBC not in costs:
        raise LeftOutError(f"libc's allocator: {problems[LIBC]}")
    return Row(answer, costs, problems)


def program_of(row: Row) -> str:
    words = row.answer["trace"]["command"]
    return Path(words[0]).name.replace("|", "\\|") if words else "?"


def amount(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"


def mebibytes(bytes_: float) -> str:
    return amount(bytes_ / (1 << 20), "MiB")


def absolute(cost: tuple[float, float, float]) -> str:
    return f"{amount(cost[0] * 1000, 'ms')}, {mebibytes(cost[1])}"


def relative(row: Row, name: str) -> str:
    cost, base = row.costs[name], row.costs[LIBC]
    return f"{ratio(cost[0], base[0])} / {ratio(cost[1], base[1])}"


def cells(row: Row, others: list[str]) -> list[str]:
    trace = row.answer["trace"]
    out = [program_of(row), f"{trace['events']:,}", str(trace["threads"])]
    out += [mebibytes(trace["most_live_bytes"]), absolute(row.costs[LIBC])]
    has_hakmem = HAKMEM in row.costs
    out.append(f"{absolute(row.costs[HAKMEM])}; {relative(row, HAKMEM)}" if has_hakmem else "")
    return out + [relative(row, name) if name in row.costs else "" for name in others]


def ranks(rows: list[Row]) -> str:
    """In how many rows hakmem is the best, or near it."""
    measured = [row for row in rows if HAKMEM in row.costs]
    counts = []
    for of in (0, 1):
        factors = [
            row.costs[HAKMEM][of] / min(cost[of] for cost in row.costs.values()) for row in measured
        ]
        counts.append((factors.count(1.0), sum(factor <= NEAR for factor in factors)))
    (fastest, fast), (leanest, lean) = counts
    return (
        f"Of {len(measured)} traces hakmem is the fastest in {fastest}, within {NEAR} of the fastest in {fast}; "
        f"the leanest in {leanest}, within {NEAR} of the leanest in {lean}."
    )


def means(rows: list[Row], names: list[str]) -> list[str]:
    """Geometric means over the traces that all have repeated."""
    whole = [row.costs for row in rows if set(names) <= set(row.costs)]
    if not whole:
        return ["No trace was repeated by all."]
    table = [(what, of, whole) for of, what in enumerate(("time", "memory", "page faults"))]
    return [
        f"Geometric means, relative to {LIBC}'s, over the {len(whole)} traces that all repeated:",
        "",
        *mean_table(table, names, LIBC),
    ]


def near_path(path: Path) -> str:
    """For a command that works on other machines too."""
    path = path.absolute()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def how_to_repeat(arguments: argparse.Namespace, libraries: dict[str, Path]) -> str:
    words = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("HAKMEM_")]
    words.append("tests/programs/traces.py")
    for name, path in libraries.items():
        words += ["--lib", f"{name}={near_path(path)}"]
    if arguments.hakmem != DEFAULT_COMMAND:
        words += ["--hakmem", near_path(arguments.hakmem)]
    words += ["--rounds", str(arguments.rounds)]
    if arguments.touch != "pages":
        words += ["--touch", arguments.touch]
    if arguments.most_events != MOST_EVENTS:
        words += ["--most-events", str(arguments.most_events)]
    if arguments.table is not None:
        words += ["--table", near_path(arguments.table)]
    return shlex.join([*words, *arguments.cases])


def huge_pages() -> str:
    """When the system gives huge pages: always, madvise or never."""
    try:
        text = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(encoding="ascii")
    except OSError:
        return "none"
    mode = re.search(r"\[(\w+)\]", text)
    return mode[1] if mode else "unknown"


def page(
    found: dict[str, Row],
    left_out: dict[str, str],
    libraries: dict[str, Path],
    arguments: argparse.Namespace,
) -> str:
    """The tables as Markdown."""
    names, rows = [LIBC, HAKMEM, *libraries], list(found.values())
    known = versions({**libraries})
    hakmem = report.answer((str(arguments.hakmem), "--version")).split("\n", 1)[0]
    headings = ["case", "program", "events", "threads", "live at most", *names]
    out = [
        "# What programs allocate, under each allocator",
        "",
        "Made by `tests/programs/traces.py` (its beginning says how); do not edit. The programs of",
        "[programs.md](programs.md), recorded once each; what the process with the most events allocates and frees is",
        "repeated by `hakmem replay` ([replay.md](replay.md)) under each allocator, in turns, without all that the",
        "program does besides. What whole programs take is [programs-measured.md](programs-measured.md)'s affair.",
        "",
        f"{report.today_and_here()}, {machine()}, transparent huge pages: {huge_pages()}. {len(found)} traces, "
        f"{arguments.rounds} rounds: time is the best of them, memory (private memory at most) and page faults are "
        f"medians. Of blocks `{arguments.touch}` is written (`--touch`).",
        f"Versions: {hakmem or HAKMEM}{', ' + known if known else ''}.",
        "",
        f"    {how_to_repeat(arguments, libraries)}",
        "",
        *means(rows, names),
        "",
        ranks(rows),
        "",
        "## Each program",
        "",
        f"Of {LIBC} and hakmem time and memory; of hakmem and the others both relative to {LIBC}'s. "
        "Empty: it failed there.",
        "",
        "| " + " | ".join(headings) + " |",
        "|---|---|" + "---:|" * (len(headings) - 2),
    ]
    for case, row in found.items():
        out.append(f"| {case} | " + " | ".join(cells(row, list(libraries))) + " |")
    problems = [(c, n, p) for c, row in found.items() for n, p in row.problems.items()]
    if problems:
        out += ["", "## What failed", "", *(f"- {c}: {n}: {p}" for c, n, p in problems)]
    if left_out:
        out += ["", "## Left out", "", *(f"- {case}: {why}" for case, why in left_out.items())]
    return "\n".join(out) + "\n"


def raw(
    found: dict[str, Row], left_out: dict[str, str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """The figures of each run, without memory over time."""
    cases = []
    for case, row in found.items():
        answer = row.answer
        trace = {key: value for key, value in answer["trace"].items() if key != "path"}
        allocators = {
            name: {"best_s": cost[0], "most_bytes": cost[1], "page_faults": cost[2]}
            for name, cost in row.costs.items()
        }
        runs = [{k: v for k, v in run.items() if k != "sample_bytes"} for run in answer["runs"]]
        cases.append(
            {
                "case": case,
                "trace": trace,
                "allocators": allocators,
                "problems": row.problems,
                "runs": runs,
            }
        )
    return {
        "schema_version": 1,
        "where": f"{report.today_and_here()}, {machine()}",
        "huge_pages": huge_pages(),
        "rounds": arguments.rounds,
        "touch": arguments.touch,
        "cases": cases,
        "left_out": [{"case": case, "why": why} for case, why in left_out.items()],
    }


def parse_arguments() -> tuple[argparse.Namespace, dict[str, Path]]:
    parser = argparse.ArgumentParser(
        description="Repeats what real programs allocate under several allocators."
    )
    add_libraries(parser, required=False)
    parser.add_argument(
        "--hakmem",
        type=Path,
        default=DEFAULT_COMMAND,
        metavar="FILE",
        help="the command, with libhakmem.so and libhakmem-record.so beside it",
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5")
    parser.add_argument(
        "--touch", choices=("none", "pages", "all"), default="pages", help="default: pages"
    )
    parser.add_argument(
        "--most-events",
        type=int,
        default=MOST_EVENTS,
        metavar="N",
        help="leave longer traces out",
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="keep the traces, and use them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    arguments = parser.parse_args()
    if not 1 <= arguments.rounds <= 99:
        parser.error(f"--rounds {arguments.rounds}: from 1 to 99")
    libraries = libraries_of(parser, arguments)
    for name in (HAKMEM, LIBC):
        if name in libraries:
            parser.error(f"--lib {name}=...: hakmem and libc are measured without being named")
    arguments.hakmem = arguments.hakmem.absolute()
    for path in (arguments.hakmem, recorder_of(arguments.hakmem)):
        if not path.is_file():
            parser.error(f"--hakmem: {path} is not a file; build it: make build")
    return arguments, libraries


def recorder_of(command: Path) -> Path:
    return command.parent / "libhakmem-record.so"


def measure_case(
    case: Case, traces: Path, arguments: argparse.Namespace, libraries: dict[str, Path]
) -> Row:
    folder = traces / case.name
    if not folder.is_dir():
        record(case, recorder_of(arguments.hakmem), folder)
    try:
        trace = choose(arguments.hakmem, folder, arguments.most_events)
        options = ["--rounds", str(arguments.rounds), "--touch", arguments.touch]
        return measure(arguments.hakmem, trace, libraries, options)
    finally:
        if arguments.traces is None:
            shutil.rmtree(folder)


def measure_all(
    traces: Path, arguments: argparse.Namespace, libraries: dict[str, Path]
) -> tuple[dict[str, Row], dict[str, str]]:
    found, left_out = {}, {}
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        try:
            row = measure_case(case, traces, arguments, libraries)
        except LeftOutError as error:
            left_out[case.name] = str(error)
            print(f"{case.name}: left out: {error}", flush=True)
        else:
            found[case.name] = row
            told = "".join(f"; {name}: {problem}" for name, problem in row.problems.items())
            events = row.answer["trace"]["events"]
            print(f"{case.name}: {program_of(row)}, {events:,} events{told}", flush=True)
    return found, left_out


def main() -> int:
    arguments, libraries = parse_arguments()
    begin_plays()
    with tempfile.TemporaryDirectory(prefix="hakmem-traces-") as name:
        traces = Path(name) if arguments.traces is None else arguments.traces
        traces.mkdir(parents=True, exist_ok=True)
        traces = traces.resolve()
        if arguments.traces is None:
            traces.chmod(0o755)  # for servers that run as somebody else
        found, left_out = measure_all(traces, arguments, libraries)
    if not found:
        print("nothing could be measured: tools/setup-programs.sh installs the programs")
        return 1
    text = page(found, left_out, libraries, arguments)
    print(text)
    if arguments.table is not None:
        arguments.table.write_text(text, encoding="utf-8")
    if arguments.json is not None:
        figures = json.dumps(raw(found, left_out, arguments), indent=1)
        arguments.json.write_text(figures + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
