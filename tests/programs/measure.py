#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem and under other allocators: the time that they take and what they hold.

    tests/programs/measure.py --lib hakmem=build/release/libhakmem.so --lib rpmalloc=build/peers/rpmalloc.so
                              [--rounds 3] [--table docs/programs-measured.md] [CASE...]

Each program of `make programs` is played without a library and under each (LD_PRELOAD), in turns,
in several rounds. Time is the processor time, user and system, of all processes that the play has
waited for, so that a server's waits count for nothing; memory is the largest process's peak. Both
are medians. Programs that are not installed, and those that fail without a library or under all,
are left out and named; what they print is others.py's affair. Exit status 0: done, whatever came
out; 1: nothing could be played.
Who runs it: a person, on a quiet machine, after tools/setup-bench.sh and tools/setup-programs.sh.
"""

import argparse
import os
import re
import resource
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import report
import stage
from cases import CASES
from others import add_libraries, libraries_of
from run import missing_programs, play
from stage import Case, StageError, begin_plays, scratch_folder

WITHOUT = "glibc"
LEAST_SECONDS = 0.02
"""Programs that take less are left out of what is said of time: noise would decide it."""


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cost_of(case: Case, library: Path | None) -> tuple[float, float] | None:
    """Seconds and kB of one play; None: it failed."""
    with scratch_folder() as scratch:
        before = cpu_seconds()
        try:
            usage = play(case, scratch / "work", library, True)[1]
        except (StageError, OSError):
            return None
        return cpu_seconds() - before, float(usage.peak_kb)


def measure(
    case: Case, libraries: dict[str, Path | None], rounds: int
) -> dict[str, tuple[float, float]]:
    """Medians for each library under which all rounds went well."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in libraries}
    for _ in range(rounds):
        for name, library in libraries.items():
            if WITHOUT in costs and name in costs:
                cost = cost_of(case, library)
                if cost is None:
                    del costs[name]
                else:
                    costs[name].append(cost)
    return {
        name: (
            statistics.median(c[0] for c in all_),
            statistics.median(c[1] for c in all_),
        )
        for name, all_ in costs.items()
        if all_
    }


def ratio(cost: float, least: float) -> str:
    return f"{cost / least:.2f}" if least > 0 else ""


Costs = Mapping[str, tuple[float, ...]]
"""What something took under each library."""


def mean_table(
    rows: Sequence[tuple[str, int, Sequence[Costs]]], names: list[str], base: str
) -> list[str]:
    """Geometric means relative to one library; a row: its heading, which of the costs, and whose."""
    out = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for heading, of, programs in rows:
        values = [
            statistics.geometric_mean(costs[name][of] / costs[base][of] for costs in programs)
            if programs
            else 0.0
            for name in names
        ]
        out.append(f"| {heading} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return out


def means(found: dict[str, dict[str, tuple[float, float]]], names: list[str]) -> list[str]:
    """Geometric means over the programs that went well under all."""
    whole = [costs for costs in found.values() if set(names) <= set(costs)]
    timed = [costs for costs in whole if costs[WITHOUT][0] >= LEAST_SECONDS]
    head = (
        f"Geometric means, relative to {WITHOUT}: time over the {len(timed)} programs that take "
        f"{LEAST_SECONDS * 1000:.0f} ms or more and ended well under all, memory over the {len(whole)} that did."
    )
    rows = (("processor time", 0, timed), ("peak RSS", 1, whole))
    return [head, "", *mean_table(rows, names, WITHOUT)]


def machine() -> str:
    """The processor's name, and how many there are."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", text)
    return f"{name[1] if name else 'unknown processor'}, {os.cpu_count()} of them"


def versions(libraries: dict[str, Path | None]) -> str:
    """What tools/build-peers.sh has written down beside the libraries."""
    known = []
    for name, library in libraries.items():
        file = library.with_suffix(".version") if library is not None else None
        if file is not None and file.is_file():
            known.append(f"{name} {file.read_text(encoding='utf-8').strip()}")
    return ", ".join(known)


def page(
    found: dict[str, dict[str, tuple[float, float]]],
    libraries: dict[str, Path | None],
    rounds: int,
    left_out: list[str],
) -> str:
    """The tables as Markdown."""
    names = list(libraries)
    others = [name for name in names if name != WITHOUT]
    out = [
        "# What programs take under each allocator",
        "",
        "Made by `tests/programs/measure.py` (its beginning says what is measured); do not edit. The programs of",
        "[programs.md](programs.md), each played without a library and under each (`LD_PRELOAD`), in turns.",
        "Whether what they print is the same is [programs-others.md](programs-others.md)'s affair.",
        "",
        f"{report.today_and_here()}, {machine()}; {rounds} rounds, medians; {len(found)} programs."
        + (f" Not measured: {', '.join(left_out)}." if left_out else ""),
        f"Versions: {versions(libraries)}.",
        "",
        *means(found, names),
        "",
        "## Each program",
        "",
        f"Processor time and peak RSS under {WITHOUT}; of the others both, relative to that. Empty: it failed there.",
        "",
        f"| program | {WITHOUT} | " + " | ".join(others) + " |",
        "|---|---:|" + "---:|" * len(others),
    ]
    for case, costs in found.items():
        seconds, peak = costs[WITHOUT]
        cells = [
            f"{ratio(costs[name][0], seconds)} / {ratio(costs[name][1], peak)}"
            if name in costs
            else ""
            for name in others
        ]
        out.append(
            f"| {case} | {seconds:.2f} s, {peak / 1024:.1f} MiB | " + " | ".join(cells) + " |"
        )
    return "\n".join(out) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures real programs under several allocators.")
    add_libraries(parser)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: there has to be one at least")
    libraries: dict[str, Path | None] = {
        WITHOUT: None,
        **libraries_of(parser, arguments),
    }
    begin_plays()
    stage.STEP_SECONDS = 120
    found, left_out = {}, []
    for case in CASES:
        asked_for = not arguments.cases or case.name in arguments.cases
        played = asked_for and not missing_programs(case)
        costs = measure(case, libraries, arguments.rounds) if played else {}
        if WITHOUT in costs and len(costs) > 1:
            found[case.name] = costs
            print(case.name, flush=True)
        else:
            left_out.append(case.name)
    if not found:
        print("nothing could be played: tools/setup-programs.sh installs the programs")
        return 1
    text = page(found, libraries, arguments.rounds, left_out)
    print(text)
    if arguments.table is not None:
        arguments.table.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
