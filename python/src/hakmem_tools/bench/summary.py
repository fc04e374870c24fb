# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: what a result says: one row for each benchmark and allocator, means, derived figures.

Who uses it: table, html, docs, comparison. It never measures: all follows from the result alone.
"""

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hakmem_tools.bench import schema, stats
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import SCHEMA, Result
from hakmem_tools.bench.suite import SCALING

if TYPE_CHECKING:
    import polars as pl

PAGE_KB = 4.0


@dataclass
class Row:
    """One benchmark under one allocator. None: not measured, or failed."""

    benchmark: str
    group: str
    allocator: str
    problem: str = ""
    rounds: int = 0
    time_ms: float | None = None
    best_ms: float | None = None
    spread: float | None = None
    cpu_ms: float | None = None
    rss_kb: float | None = None
    faults: float | None = None
    freed_kb: float | None = None
    idle_kb: float | None = None
    live_kb: float | None = None
    calls: int | None = None
    memory_calls: int | None = None
    instructions: int | None = None
    bump_instructions: int | None = None
    metrics: dict[str, tuple[float, str]] = field(default_factory=dict)
    count_problems: dict[str, str] = field(default_factory=dict)
    """Why calls or instructions could not be counted."""
    time_rel: float | None = None
    rss_rel: float | None = None
    idle_rel: float | None = None

    @property
    def rss_over_live(self) -> float | None:
        """Peak RSS against the bytes that the program had live at its peak."""
        return self.rss_kb / self.live_kb if self.rss_kb and self.live_kb else None

    @property
    def faults_over_live(self) -> float | None:
        """Page faults against the pages that the live bytes fill."""
        return self.faults / (self.live_kb / PAGE_KB) if self.faults and self.live_kb else None

    @property
    def instructions_over_bump(self) -> float | None:
        """Instructions against those with an allocator that frees nothing."""
        if not self.instructions or not self.bump_instructions:
            return None
        return self.instructions / self.bump_instructions


def time_ns(run: dict[str, Any], repeats: int) -> float:
    """A program's own measure where it has one, else the launcher's, for one start."""
    return float(run["elapsed_ns"] or run["wall_ns"] / repeats)


def metric_medians(runs: list[dict[str, Any]]) -> dict[str, tuple[float, str]]:
    """What the program itself measured, over the rounds in which it did."""
    found: dict[str, tuple[float, str]] = {}
    for name in dict.fromkeys(name for run in runs for name in run["metrics"]):
        values = [run["metrics"][name] for run in runs if name in run["metrics"]]
        found[name] = (statistics.median(v[0] for v in values), values[0][1])
    return found


def fill_counts(row: Row, benchmark: dict[str, Any]) -> None:
    """System calls and instructions, where they were counted."""
    calls = benchmark.get("calls", {}).get(row.allocator, {})
    instructions = benchmark.get("instructions", {})
    for counted, what in ((calls, "calls"), (instructions.get(row.allocator, {}), "instructions")):
        if counted.get("problem"):
            row.count_problems[what] = counted["problem"]
    if "all" in calls:
        row.calls = calls["all"]
        row.memory_calls = sum(n for name, n in calls.items() if name != "all")
    row.instructions = instructions.get(row.allocator, {}).get("all")
    row.bump_instructions = instructions.get("bump", {}).get("all")


def row_of(benchmark: dict[str, Any], allocator: str, entry: dict[str, Any]) -> Row:
    """One row, without what is relative to others."""
    row = Row(benchmark["name"], benchmark["group"], allocator, entry["problem"])
    runs, repeats = entry["runs"], benchmark["repeats"]
    row.rounds = len(runs)
    if row.problem or not runs:
        return row
    times = [time_ns(run, repeats) / 1e6 for run in runs]
    row.time_ms, row.best_ms = stats.median(times), min(times)
    row.spread = stats.spread(times)
    row.cpu_ms = min(run["user_us"] + run["sys_us"] for run in runs) / 1e3 / repeats
    row.rss_kb = stats.median([run["maxrss_kb"] for run in runs])
    row.faults = stats.median([run["minflt"] + run["majflt"] for run in runs]) / repeats
    row.metrics = metric_medians(runs)
    for name, target in (
        ("rss_freed", "freed_kb"),
        ("rss_idle", "idle_kb"),
        ("live_peak", "live_kb"),
    ):
        if name in row.metrics:
            setattr(row, target, row.metrics[name][0])
    fill_counts(row, benchmark)
    return row


def fill_relative(rows: list[Row]) -> None:
    """Relative to the best of one benchmark; a failed row is never the best."""
    for value, target in (("time_ms", "time_rel"), ("rss_kb", "rss_rel"), ("idle_kb", "idle_rel")):
        known = [getattr(row, value) for row in rows if getattr(row, value)]
        for row in rows:
            if known and getattr(row, value):
                setattr(row, target, getattr(row, value) / min(known))


def rows_of_benchmark(benchmark: dict[str, Any]) -> list[Row]:
    """The rows of one benchmark, in the order of the allocators."""
    rows = [row_of(benchmark, name, entry) for name, entry in benchmark["results"].items()]
    fill_relative(rows)
    return rows


def rows_of(result: Result) -> list[Row]:
    """All rows."""
    return [row for benchmark in result["benchmarks"] for row in rows_of_benchmark(benchmark)]


# ---- means ----


@dataclass(frozen=True)
class Mean:
    """Geometric means of one allocator, relative to the best of each benchmark."""

    allocator: str
    time: float
    rss: float
    idle: float
    done: int
    """Benchmarks that it completed."""
    total: int
    failed: int


FRAME = (
    *("benchmark", "group", "allocator", "problem", "rounds", "time_ms", "best_ms", "spread"),
    *("cpu_ms", "rss_kb", "faults", "freed_kb", "idle_kb", "live_kb", "time_rel", "rss_rel"),
    *("idle_rel", "calls", "memory_calls", "instructions", "bump_instructions"),
)


def frame_of(rows: list[Row]) -> "pl.DataFrame":
    """The rows as a table of polars, for those who want to reckon with them."""
    import polars as pl  # it takes a while to load

    return pl.DataFrame(
        {name: [getattr(row, name) for row in rows] for name in FRAME}, infer_schema_length=None
    )


def geometric_means(rows: list[Row], group: str = "") -> list[Mean]:
    """For each allocator, over the benchmarks that it completed; failures are counted beside."""
    import polars as pl  # as above

    frame = frame_of([row for row in rows if not group or row.group == group])
    if frame.is_empty():
        return []
    frame = frame.with_columns(
        pl.col("time_rel", "rss_rel", "idle_rel").cast(pl.Float64).log(), pl.col("problem") != ""
    )
    table = frame.group_by("allocator", maintain_order=True).agg(
        pl.col("time_rel").mean().exp().alias("time"),
        pl.col("rss_rel").mean().exp().alias("rss"),
        pl.col("idle_rel").mean().exp().alias("idle"),
        pl.col("time_rel").count().alias("done"),
        pl.len().alias("total"),
        pl.col("problem").sum().alias("failed"),
    )
    means = []
    for row in table.to_dicts():
        ratios = {name: float(row[name] or 0) for name in ("time", "rss", "idle")}
        counts = {name: int(row[name]) for name in ("done", "total", "failed")}
        means.append(Mean(row["allocator"], **ratios, **counts))  # type: ignore[arg-type]
    return means


def known(means: list[Mean]) -> list[Mean]:
    """Those that completed something: the others have no place in a picture."""
    return [mean for mean in means if mean.done]


@dataclass(frozen=True)
class Against:
    """One allocator against the best of the others, benchmark by benchmark."""

    what: str
    mean: float
    """The geometric mean; below 1 the allocator is ahead."""
    worst: float
    worst_benchmark: str
    count: int


AGAINST = (
    ("time", "time_ms"),
    ("time of the best rounds", "best_ms"),
    ("peak RSS", "rss_kb"),
    ("RSS after idle", "idle_kb"),
)


def others_of(row: Row, rows: list[Row]) -> list[Row]:
    """The rows of the other allocators in the same benchmark."""
    return [r for r in rows if r.benchmark == row.benchmark and r.allocator != row.allocator]


def best_other(row: Row, rows: list[Row], value: str) -> float | None:
    """The smallest value of the other allocators in the same benchmark."""
    return min((v for r in others_of(row, rows) if (v := getattr(r, value))), default=None)


def against_others(rows: list[Row], name: str = "hakmem") -> list[Against]:
    """What AGAINST names against the best other, where there is one.

    In `geometric_means` nobody is below 1. Here being ahead counts as well.
    """
    found = []
    for what, value in AGAINST:
        ratios = {
            row.benchmark: getattr(row, value) / best
            for row in rows
            if row.allocator == name
            and getattr(row, value)
            and (best := best_other(row, rows, value))
        }
        if ratios:
            worst = max(ratios, key=lambda benchmark: ratios[benchmark])
            mean = stats.geometric_mean(list(ratios.values()))
            found.append(Against(what, mean, ratios[worst], worst, len(ratios)))
    return found


@dataclass(frozen=True)
class Pair:
    """One allocator relative to another: geometric means over what both completed."""

    allocator: str
    time: float | None
    """Above 1 it takes longer than the other; None: nothing that both completed says."""
    rss: float | None
    idle: float | None
    count: int
    """Benchmarks in which the times of both are known."""


def pairs(rows: list[Row], base: str, group: str = "") -> list[Pair]:
    """All other allocators relative to `base`, in the order of the result; of one group or of all."""
    rows = [row for row in rows if not group or row.group == group]
    of_base = {row.benchmark: row for row in rows if row.allocator == base}
    found = []
    for name in dict.fromkeys(row.allocator for row in rows if row.allocator != base):
        mine = [row for row in rows if row.allocator == name and row.benchmark in of_base]
        time, rss, idle = (
            [
                getattr(row, value) / below
                for row in mine
                if getattr(row, value) and (below := getattr(of_base[row.benchmark], value))
            ]
            for value in ("time_ms", "rss_kb", "idle_kb")
        )
        means = [stats.geometric_mean(ratios) if ratios else None for ratios in (time, rss, idle)]
        found.append(Pair(name, means[0], means[1], means[2], len(time)))
    return found


def scaling(rows: list[Row]) -> list[tuple[str, dict[str, float]]]:
    """How much work two threads that share nothing do in the time of one: 2.00 is perfect."""
    times = {(row.benchmark, row.allocator): row.time_ms for row in rows if row.time_ms}
    names = list(dict.fromkeys(row.allocator for row in rows))
    derived = []
    for name, one, two in SCALING:
        found = {
            a: 2 * one_ms / two_ms
            for a in names
            if (one_ms := times.get((one, a))) and (two_ms := times.get((two, a)))
        }
        if found:
            derived.append((name, found))
    return derived


def wins_and_losses(rows: list[Row], name: str = "hakmem") -> tuple[list[Row], list[Row]]:
    """Where an allocator is within 2% of the fastest, and where it is not, the worst first."""
    mine = [row for row in rows if row.allocator == name and row.time_rel]
    wins = [row for row in mine if (row.time_rel or 0) <= 1.02]
    losses = [row for row in mine if (row.time_rel or 0) > 1.02]
    return wins, sorted(losses, key=lambda row: -(row.time_rel or 0))


# ---- reading ----


def read_result(path: Path) -> Result:
    """A result from a file or from the folder of a run."""
    if path.is_dir():
        path = path / "result.json"
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BenchError(f"cannot read the result {path}: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise BenchError(
            f"{path} is not a result of schema {SCHEMA}: measure again with this `hakmem bench`"
        )
    problem = schema.problem_of(result)
    if problem:
        raise BenchError(f"{path} is damaged: {problem}")
    return result
