# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: workloads that nobody has chosen: all about them is drawn from a number, the seed.

Seeds follow each other, so that none can be left out because of what came of it. A workload in
which somebody fails is in no mean with that allocator, and is named as a failure.
Who uses it: cli and drawn_text. What is said follows from the result alone; it never prints.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_tools.bench import stats, summary
from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.runner import Result, ask, built_program
from hakmem_tools.bench.suite import Benchmark
from hakmem_tools.bench.summary import Pair, Row

FIRST = 0
COUNT = 60
ROUNDS = 3
GROUP = "drawn"
OURS = "hakmem"

TIME = "time_ms"
RSS = "rss_kb"
"""The values of a row that are compared: the best other is the fastest, and the leanest."""


# ---- what is measured ----


def describe(program: str, seed: int) -> str:
    """What the program says it draws from a seed."""
    begin = f"drawn {seed}: "
    line = (ask(program, str(seed), "describe") or [""])[0]
    if not line.startswith(begin) or not line.removeprefix(begin).strip():
        raise BenchError(f"`drawn {seed} describe` does not say what it draws: '{line[:200]}'")
    return line.removeprefix(begin).strip()


def benchmarks(first: int, count: int, places: Places) -> list[Benchmark]:
    """The workloads of so many seeds, each described by the program itself."""
    program = built_program("drawn", places)
    return [
        Benchmark(
            f"drawn-{seed}", GROUP, describe(program, seed), ("drawn", str(seed)), (str(seed),)
        )
        for seed in range(first, first + count)
    ]


# ---- what came out ----


@dataclass(frozen=True)
class Workload:
    """What came out of one seed, of us and of the others."""

    seed: int
    what: str
    mine: Row
    others: tuple[Row, ...]

    def best(self, value: str) -> Row | None:
        """The other that needs least, of those that completed."""
        known = [row for row in self.others if getattr(row, value)]
        return min(known, key=lambda row: float(getattr(row, value)), default=None)

    def ratio(self, value: str) -> float | None:
        """Ours against the best other; None where one of the two is missing."""
        best, mine = self.best(value), getattr(self.mine, value)
        return float(mine / getattr(best, value)) if best and mine else None


def seed_of(name: str) -> int:
    """The seed that a workload is called after."""
    seed = re.fullmatch(rf"{GROUP}-([0-9]{{1,10}})", name)
    if seed is None:
        raise BenchError(f"the result is damaged: '{name}' is no name of a drawn workload")
    return int(seed.group(1))


def workloads(result: Result) -> list[Workload]:
    """All that are in a result, also those in which somebody failed."""
    found = []
    for benchmark in result["benchmarks"]:
        if benchmark["group"] != GROUP:
            continue
        name = benchmark["name"]
        rows = {row.allocator: row for row in summary.rows_of_benchmark(benchmark)}
        mine = rows.pop(OURS, Row(name, GROUP, OURS, "not measured"))
        found.append(Workload(seed_of(name), benchmark["what"], mine, tuple(rows.values())))
    return found


def left_out(found: Sequence[Workload]) -> int:
    """How many seeds between the first and the last are not there: 0, unless a result was changed."""
    seeds = {workload.seed for workload in found}
    return max(seeds) - min(seeds) + 1 - len(seeds) if seeds else 0


@dataclass(frozen=True)
class Other:
    """One allocator relative to us."""

    pair: Pair
    """Means over the workloads that both completed; above 1 it needs more than we do."""
    faster: int
    """Workloads, of these, in which it takes less time than we do."""
    leaner: int
    """In which its peak is smaller."""
    failed: int
    """Workloads in which it failed."""


def others(found: Sequence[Workload]) -> list[Other]:
    """Each other allocator, in the order of the result."""
    rows = [row for workload in found for row in (workload.mine, *workload.others)]
    relative = []
    for pair in summary.pairs(rows, OURS):
        both = [(w.mine, row) for w in found for row in w.others if row.allocator == pair.allocator]
        faster, leaner = (
            sum(
                bool(our := getattr(mine, value)) and bool(its := getattr(row, value)) and its < our
                for mine, row in both
            )
            for value in (TIME, RSS)
        )
        failed = sum(bool(row.problem) for _, row in both)
        relative.append(Other(pair, faster, leaner, failed))
    return relative


@dataclass(frozen=True)
class AgainstBest:
    """Us against the best other of each workload; below 1 we are ahead."""

    mean: float
    """Geometric."""
    median: float
    high: float
    """The 90th percentile: nine of ten workloads are not above it."""
    worst: float
    worst_seed: int
    count: int


def against_best(found: Sequence[Workload], value: str) -> AgainstBest | None:
    """Over all workloads that we and another completed; None if there is none."""
    ratios = {w.seed: ratio for w in found if (ratio := w.ratio(value))}
    if not ratios:
        return None
    every = list(ratios.values())
    worst = max(ratios, key=lambda seed: ratios[seed])
    mean, middle = stats.geometric_mean(every), stats.median(every)
    return AgainstBest(mean, middle, stats.percentile(every, 90), ratios[worst], worst, len(every))


def worst_first(found: Sequence[Workload], value: str) -> list[Workload]:
    """Sorted by us against the best other: first where we failed, last where all others did."""

    def key(workload: Workload) -> tuple[bool, float, int]:
        completed = bool(getattr(workload.mine, value))
        return completed, -(workload.ratio(value) or 0), workload.seed

    return sorted(found, key=key)
