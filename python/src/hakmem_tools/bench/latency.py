# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: latency, how long single calls take, not on average but at worst.

Percentiles are the program's own, of all calls of a run. A workload in which somebody fails is in
no mean of that allocator, and is named as a failure.
Who uses it: cli and latency_text. What is said follows from the result alone; it never prints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem_tools.bench import stats, summary
from hakmem_tools.bench.drawn import OURS
from hakmem_tools.bench.named import Named
from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.runner import Result
from hakmem_tools.bench.suite import Benchmark
from hakmem_tools.bench.summary import Row

ROUNDS = 3
PROGRAM = Named("latency", prefix="latency-", one="workload")

TIME, PEAK, LEFT = "time", "peak", "left"
"""Values like the metrics: what the whole workload takes; resident at most, and when all is freed."""
CALLS = ("alloc", "free")
POINTS = ("p50", "p99", "p999", "p9999", "max", "slow")
METRICS = tuple(f"{calls}_{point}" for calls in CALLS for point in POINTS)
"""What the program measures: ns, and of `slow` percent."""
MEANS = (
    *("alloc_p99", "alloc_p999", "alloc_p9999", "free_p99", "free_p999", "free_p9999"),
    *("alloc_max", "free_max", TIME, PEAK, LEFT),
)
"""Of these there are means over all workloads."""
JUDGED = ("free_p9999", "free_max", "alloc_p9999")
"""In these ours is compared with the best other of each workload."""
LEAST = 1.0
"""What a ratio takes for less: where the clock is coarse a call can take 0 ns."""


# ---- what is measured ----


def benchmarks(names: Sequence[str], places: Places) -> list[Benchmark]:
    """The workloads of these names, or all, in the order of the program."""
    return PROGRAM.benchmarks(names, places)


# ---- what came out ----


@dataclass(frozen=True)
class Workload:
    """What came out of one workload."""

    name: str
    what: str
    rows: Mapping[str, Row]
    """By allocator."""

    def value(self, allocator: str, value: str) -> float | None:
        """The median over the rounds in ns, kB or percent; None where it did not complete."""
        row = self.rows.get(allocator)
        if row is None or row.time_ms is None:
            return None
        beside = {TIME: row.time_ms * 1e6, PEAK: row.rss_kb, LEFT: row.freed_kb}
        return beside[value] if value in beside else row.metrics[value][0]

    def ratio(self, value: str, allocator: str, base: str) -> float | None:
        """An allocator against another; None where one of the two did not complete."""
        its, below = self.value(allocator, value), self.value(base, value)
        if its is None or below is None:
            return None
        return max(its, LEAST) / max(below, LEAST)

    def best_other(self, value: str) -> str | None:
        """The other that takes least, of those that completed."""
        known = {
            name: its
            for name in self.rows
            if name != OURS and (its := self.value(name, value)) is not None
        }
        return min(known, key=lambda name: known[name], default=None)


def check(benchmark: dict[str, Any]) -> None:
    """Raises BenchError unless each run that completed has all metrics."""
    for entry in benchmark["results"].values():
        said = [run["metrics"] for run in entry["runs"]] or [{}]
        if not entry["problem"] and not all(
            metrics.get(name, (-1,))[0] >= 0 for metrics in said for name in METRICS
        ):
            raise BenchError(
                f"the result is damaged: in {benchmark['name']} a metric of latency is missing or "
                "below 0"
            )


def workloads(result: Result) -> list[Workload]:
    """All that are in a result, also those in which somebody failed."""
    found = []
    for benchmark in result["benchmarks"]:
        if benchmark["group"] == PROGRAM.program:
            check(benchmark)
            rows = {row.allocator: row for row in summary.rows_of_benchmark(benchmark)}
            found.append(Workload(PROGRAM.name_of(benchmark["name"]), benchmark["what"], rows))
    return found


def allocators(found: Sequence[Workload]) -> list[str]:
    """Ours, then the others in the order of the result."""
    return list(dict.fromkeys([OURS, *(name for workload in found for name in workload.rows)]))


@dataclass(frozen=True)
class Standing:
    """One allocator relative to ours."""

    allocator: str
    count: int
    """Workloads that both completed: the means are over these."""
    means: Mapping[str, float | None]
    """Geometric, by value; above 1 it takes longer than ours."""
    failed: int


def standing(name: str, found: Sequence[Workload]) -> Standing:
    """One allocator."""
    means, count = {}, 0
    for value in MEANS:
        known = [ratio for w in found if (ratio := w.ratio(value, name, OURS)) is not None]
        means[value] = stats.geometric_mean(known) or None
        count = len(known)
    failed = sum(name in w.rows and bool(w.rows[name].problem) for w in found)
    return Standing(name, count, means, failed)


def standings(found: Sequence[Workload]) -> list[Standing]:
    """Each allocator, ours first."""
    return [standing(name, found) for name in allocators(found)]


@dataclass(frozen=True)
class Compared:
    """Ours and the best other in one value of one workload."""

    workload: Workload
    value: str

    @property
    def best(self) -> str | None:
        """The best other."""
        return self.workload.best_other(self.value)

    @property
    def ratio(self) -> float | None:
        """Ours against it; None where one of the two is missing."""
        return self.workload.ratio(self.value, OURS, self.best) if self.best else None


def worst_first(found: Sequence[Workload]) -> list[Compared]:
    """Sorted by ours against the best other: first where ours failed, last where all others did."""

    def key(one: Compared) -> tuple[bool, float]:
        return one.workload.value(OURS, one.value) is not None, -(one.ratio or 0)

    return sorted((Compared(w, value) for w in found for value in JUDGED), key=key)


@dataclass(frozen=True)
class AgainstBest:
    """Ours against the best other of each workload; below 1 it is ahead."""

    mean: float
    """Geometric."""
    behind: int
    """Workloads in which it takes longer."""
    worst: float
    worst_workload: str
    count: int


def against_best(found: Sequence[Workload], value: str) -> AgainstBest | None:
    """Over all workloads that ours and another completed; None if there is none."""
    ratios = {w.name: ratio for w in found if (ratio := Compared(w, value).ratio) is not None}
    if not ratios:
        return None
    every = list(ratios.values())
    worst = max(ratios, key=lambda name: ratios[name])
    behind = sum(ratio > 1 for ratio in every)
    return AgainstBest(stats.geometric_mean(every), behind, ratios[worst], worst, len(every))
