# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: shapes, ways of using memory in which an allocator may hold much more than it must.

What it must hold the program says itself (live_peak). A shape in which somebody fails is in no
mean of that allocator, and is named as a failure.
Who uses it: cli and shapes_text. What is said follows from the result alone; it never prints.
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
PROGRAM = Named("shapes", prefix="shape-", one="shape")
DOUBLE = 2.0
"""Above so many times the leanest a shape is counted against any allocator."""
NEAR = 1.10
FAR = 1.25
"""What is said of ours: in how many shapes it is not above the first, and above the second."""


# ---- what is measured ----


def benchmarks(names: Sequence[str], places: Places) -> list[Benchmark]:
    """The shapes of these names, or all, in the order of the program."""
    return PROGRAM.benchmarks(names, places)


# ---- what came out ----


@dataclass(frozen=True)
class Shape:
    """What came out of one shape."""

    name: str
    what: str
    must_kb: float | None
    """What any allocator must hold; None where all failed."""
    rows: Mapping[str, Row]
    """By allocator; `rss_rel` is relative to the leanest of those that completed."""

    def ratio(self, allocator: str) -> float | None:
        """An allocator's peak RSS against the leanest's, which may be its own."""
        return self.rows[allocator].rss_rel if allocator in self.rows else None

    def held(self, allocator: str) -> float | None:
        """An allocator's peak RSS against what it must hold."""
        rss = self.rows[allocator].rss_kb if allocator in self.rows else None
        return rss / self.must_kb if rss and self.must_kb else None


def must_hold(benchmark: dict[str, Any]) -> float | None:
    """What the program says in all rounds of all allocators that completed."""
    said: set[float] = set()
    for entry in benchmark["results"].values():
        if not entry["problem"]:
            runs = entry["runs"]
            said |= {run["metrics"].get("live_peak", (0,))[0] for run in runs} or {0}
            said |= {0 for run in runs if not run["maxrss_kb"]}
    if len(said) > 1 or min(said, default=1) <= 0:
        raise BenchError(
            f"the result is damaged: in {benchmark['name']} the metric live_peak or a peak RSS is "
            "missing or 0, or live_peak is not the same in all runs"
        )
    return next(iter(said), None)


def shapes(result: Result) -> list[Shape]:
    """All that are in a result, also those in which somebody failed."""
    found = []
    for benchmark in result["benchmarks"]:
        if benchmark["group"] == PROGRAM.program:
            rows = {row.allocator: row for row in summary.rows_of_benchmark(benchmark)}
            name, what = PROGRAM.name_of(benchmark["name"]), benchmark["what"]
            found.append(Shape(name, what, must_hold(benchmark), rows))
    return found


def allocators(found: Sequence[Shape]) -> list[str]:
    """Ours, then the others in the order of the result."""
    return list(dict.fromkeys([OURS, *(name for shape in found for name in shape.rows)]))


@dataclass(frozen=True)
class Standing:
    """One allocator."""

    allocator: str
    completed: int
    held: float | None
    """Geometric mean of what it holds against what it must, over the shapes that it completed."""
    worst: float | None
    worst_shape: str
    double: int
    """Shapes in which it holds more than twice as much as the leanest."""
    failed: int
    time: float | None
    """Relative to ours, over the shapes that both completed."""


def standing(name: str, found: Sequence[Shape], time: float | None) -> Standing:
    """One allocator, whose time is known."""
    held = {shape.name: held for shape in found if (held := shape.held(name))}
    worst = max(held, key=lambda shape: held[shape], default="")
    return Standing(
        allocator=name,
        completed=len(held),
        held=stats.geometric_mean(list(held.values())) or None,
        worst=held.get(worst),
        worst_shape=worst,
        double=sum((shape.ratio(name) or 0) > DOUBLE for shape in found),
        failed=sum(name in shape.rows and bool(shape.rows[name].problem) for shape in found),
        time=time,
    )


def standings(found: Sequence[Shape]) -> list[Standing]:
    """Each allocator, ours first."""
    rows = [row for shape in found for row in shape.rows.values()]
    time = {pair.allocator: pair.time for pair in summary.pairs(rows, OURS)}
    if any(shape.held(OURS) for shape in found):
        time[OURS] = 1.0
    return [standing(name, found, time.get(name)) for name in allocators(found)]


@dataclass(frozen=True)
class AgainstLeanest:
    """Ours against the leanest of each shape that it and another completed."""

    count: int
    near: int
    far: int
    worst: float
    worst_shape: str


def comparable(shape: Shape) -> bool:
    """Whether we completed it, and another did."""
    return bool(shape.ratio(OURS)) and any(shape.ratio(name) for name in shape.rows if name != OURS)


def against_leanest(found: Sequence[Shape]) -> AgainstLeanest | None:
    """None if there is nothing to compare."""
    ratios = {s.name: ratio for s in found if comparable(s) and (ratio := s.ratio(OURS))}
    if not ratios:
        return None
    worst = max(ratios, key=lambda shape: ratios[shape])
    return AgainstLeanest(
        count=len(ratios),
        near=sum(ratio <= NEAR for ratio in ratios.values()),
        far=sum(ratio > FAR for ratio in ratios.values()),
        worst=ratios[worst],
        worst_shape=worst,
    )


def worst_first(found: Sequence[Shape]) -> list[Shape]:
    """Sorted by ours against the leanest; first where ours did not complete."""
    return sorted(found, key=lambda shape: -(shape.ratio(OURS) or float("inf")))
