# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: figures with a bound: what the pool was built for, and whether it holds here.

Each bound is about one value of one workload: a number of bytes, or a ratio to a named allocator or
to the best of the others. Workloads whose time depends on what huge pages cost are measured twice:
after memory was touched and freed, and after a rest, in which the host of a virtual machine may
have taken free memory back. Bounds that are exact are tests and not here (gate_recycling,
unit_cache_churn). Who uses it: cli. What is said follows from the result alone; it never prints.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hakmem_tools.bench import stats
from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.real import queens
from hakmem_tools.bench.runner import Result
from hakmem_tools.bench.suite import Benchmark, matches, words
from hakmem_tools.bench.summary import time_ns

REST_S = 3.0
ROUNDS = 9
SURE_FROM = 5
"""Rounds from which on a median has an interval; with fewer a ratio is judged as it is."""
GROUP = "bounds"
OURS = "hakmem"
BEST = "the best other"
LEAST = "the leanest other"


@dataclass(frozen=True)
class Bound:
    """At most so much of a value: kB, or where it is relative to something a ratio."""

    workload: str
    value: str
    """`time`, `faults`, `peak`, or a metric of the program in kB."""
    limit: float
    what: str
    """For a reader, what the value is."""
    to: str = ""
    """The allocator that it is relative to, or BEST or LEAST; empty: absolute."""


# ---- what is measured ----


def workload(name: str, command: str, what: str, **more: Any) -> Benchmark:
    """A program of ours, always with the same arguments."""
    line = words(command)
    return Benchmark(name, GROUP, what, line, line[1:], **more)


def in_both(benchmark: Benchmark) -> tuple[Benchmark, Benchmark]:
    """The same with memory warmed, and after a rest."""
    rested = replace(benchmark, name=f"{benchmark.name}-rested", warm_mib=0, rest_s=REST_S)
    return replace(benchmark, name=f"{benchmark.name}-warmed"), rested


def make_boards(work: Path, _: Places) -> None:
    """Two problems for the solver: under glibc 8,900 page faults and 47 MB, 11,500 and 57 MB."""
    for size in (20, 28):
        (work / f"queens{size}.smt2").write_text(queens(size), encoding="utf-8")


def solver(size: int) -> Benchmark:
    """z3 places queens."""
    return workload(
        f"z3-{size}",
        f"z3 {{work}}/queens{size}.smt2",
        f"z3 places {size} queens on a board",
        package="z3",
        prepare=make_boards,
        under=(OURS, "glibc", "mimalloc2", "mimalloc3", "snmalloc", "rpmalloc", "jemalloc531"),
    )


COPIES = "jemalloc531"
"""An allocator that copies, if not at each step: those that do take minutes."""
WORKLOADS: tuple[Benchmark, ...] = (
    workload(
        "free_all-owner",
        "free_all owner 1600000 240 2000",
        "1.6 million blocks of 240 bytes, freed by the thread that has allocated them",
        rounds_most=3,
    ),
    workload(
        "free_all-other",
        "free_all other 1600000 240 2000",
        "the same freed by another thread, while the first sleeps",
        rounds_most=3,
    ),
    workload(
        "producers-64",
        "producers 1000 64 64",
        "four threads allocate 64 bytes at a time, a fifth only frees",
    ),
    workload("producers-mixed", "producers 600 16 1000", "the same with 16 to 1,000 bytes"),
    workload(
        "threads-1",
        "thread_churn 100000",
        "100,000 threads one after the other, each with 100 blocks, of which the next gets 20",
        rounds_most=3,
    ),
    workload(
        "threads-8",
        "thread_churn 100000 8",
        "the same eight at a time",
        rounds_most=3,
    ),
    *in_both(
        workload(
            "replace_huge",
            "replace_huge 2000",
            "2,000 replacements of blocks of 5 to 25 MiB, each written",
            under=(OURS, "glibc", "mimalloc2", "mimalloc3", "mimalloc-debian", "snmalloc"),
            rounds_most=5,
        )
    ),
    *in_both(
        workload(
            "realloc_grow",
            "realloc_grow 1024",
            "a block grows from 1 MiB to 1 GiB by 1 MiB, only the new part is written",
            under=(OURS, "glibc", COPIES),
            rounds_most=5,
            warm_mib=1200,
        )
    ),
    *in_both(
        workload(
            "return_peak",
            "return_peak 400 20",
            "400 MB filled and emptied twenty times",
            under=(OURS, "glibc", "mimalloc2", "mimalloc3", "snmalloc", "jemalloc531", "tcmalloc"),
            rounds_most=5,
        )
    ),
    *in_both(solver(20)),
    *in_both(solver(28)),
)

MB = 1000.0
"""kB of the programs and of the launcher in an MB of this module: both count as they are said."""


def relative(names: Sequence[str], value: str, limit: float, to: str, what: str) -> list[Bound]:
    """The same bound for several workloads."""
    return [Bound(name, value, limit, what, to) for name in names]


def both_names(*names: str) -> list[str]:
    """With memory warmed, and after a rest."""
    return [f"{name}-{how}" for name in names for how in ("warmed", "rested")]


BOUNDS: tuple[Bound, ...] = (
    Bound("free_all-owner", "rss_at_once", 35 * MB, "resident at once"),
    Bound("free_all-owner", "rss_quiet", 20 * MB, "resident 2 s later, without a call"),
    Bound("free_all-other", "rss_at_once", 45 * MB, "resident at once"),
    *relative(["producers-64", "producers-mixed"], "peak", 1.25, LEAST, "peak RSS"),
    Bound("threads-1", "rss_growth", 1024, "growth after the first tenth"),
    Bound("threads-8", "rss_growth", 1024, "growth after the first tenth"),
    *relative(both_names("replace_huge"), "faults", 1.5, LEAST, "page faults"),
    *relative(both_names("replace_huge"), "time", 1.1, BEST, "time"),
    *relative(both_names("realloc_grow"), "time", 0.2, COPIES, "time"),
    *relative(both_names("return_peak"), "time", 1.1, BEST, "time"),
    *relative(both_names("z3-20", "z3-28"), "faults", 1 / 3, "glibc", "page faults"),
    *relative(both_names("z3-20", "z3-28"), "peak", 1.15, "glibc", "peak RSS"),
    *relative(both_names("z3-20", "z3-28"), "time", 1.0, BEST, "time"),
)


def select(only: Sequence[str]) -> list[Benchmark]:
    """The workloads that match, or all."""
    chosen = [w for w in WORKLOADS if not only or matches(w, only)]
    if not chosen:
        names = ", ".join(w.name for w in WORKLOADS)
        raise BenchError(f"no workload matches '{', '.join(only)}': there are {names}")
    return chosen


# ---- what came out ----


@dataclass(frozen=True)
class Verdict:
    """A bound and what was measured: medians, and where the ratio lies with 95% confidence (the
    ratio itself where there are too few rounds to say)."""

    bound: Bound
    word: str
    mine: float | None = None
    theirs: float | None = None
    other: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


HOLDS = "holds"
NOISE = "not above it by more than noise"
FAILS = "does NOT hold"


def value_of(run: dict[str, Any], name: str) -> float | None:
    """One value of one run: ms, a number, kB."""
    if name == "time":
        return time_ns(run, 1) / 1e6
    if name == "faults":
        return float(run["minflt"] + run["majflt"])
    if name == "peak":
        return float(run["maxrss_kb"])
    found = run["metrics"].get(name)
    return None if found is None else float(found[0])


def values_of(entry: dict[str, Any], name: str) -> list[float]:
    """Of all rounds; empty if one failed or did not say."""
    values = [value_of(run, name) for run in entry["runs"]]
    if entry["problem"] or None in values:
        return []
    return [v for v in values if v is not None]


def other_of(results: dict[str, Any], bound: Bound) -> str:
    """The allocator to compare with; empty if there is none."""
    if bound.to not in (BEST, LEAST):
        return bound.to if values_of(results.get(bound.to, NOTHING), bound.value) else ""
    medians = {
        name: stats.median(values)
        for name, entry in results.items()
        if name != OURS and (values := values_of(entry, bound.value))
    }
    return min(medians, key=lambda name: medians[name]) if medians else ""


NOTHING: dict[str, Any] = {"problem": "", "runs": []}


def judge_ratio(bound: Bound, mine: list[float], theirs: list[float], other: str) -> Verdict:
    """A bound that is relative."""
    middle, reference = stats.median(mine), stats.median(theirs)
    if reference <= 0:
        return Verdict(bound, "not measured")
    ratio = middle / reference
    low = high = ratio
    if min(len(mine), len(theirs)) >= SURE_FROM:
        paired = len(mine) == len(theirs)
        low, high = (stats.bootstrap_pairs if paired else stats.bootstrap_ratio)(theirs, mine)
    word = HOLDS if ratio <= bound.limit else NOISE if low <= bound.limit else FAILS
    return Verdict(bound, word, middle, reference, other, ratio, low, high)


def judge(result: Result, bound: Bound) -> Verdict | None:
    """Whether a bound holds; None where its workload is not in the result."""
    here = (b for b in result["benchmarks"] if (b["group"], b["name"]) == (GROUP, bound.workload))
    found = next(here, None)
    if found is None:
        return None
    results = found["results"]
    mine = values_of(results.get(OURS, NOTHING), bound.value)
    if not mine:
        problem = found["skipped"] or results.get(OURS, NOTHING)["problem"]
        return Verdict(bound, f"not measured{': ' if problem else ''}{problem}")
    if not bound.to:
        middle = stats.median(mine)
        return Verdict(bound, HOLDS if middle <= bound.limit else FAILS, middle)
    other = other_of(results, bound)
    if not other:
        return Verdict(bound, f"not measured: nothing of {bound.to}")
    return judge_ratio(bound, mine, values_of(results[other], bound.value), other)


def verdicts(result: Result) -> list[Verdict]:
    """All bounds of which the workload is in the result."""
    return [v for v in (judge(result, bound) for bound in BOUNDS) if v is not None]


def before_note(benchmark: dict[str, Any]) -> str:
    """What came before each run."""
    if benchmark["rest_s"]:
        return f"after {benchmark['rest_s']:g} s of rest"
    return f"after {benchmark['warm_mib']} MiB were touched and freed"
