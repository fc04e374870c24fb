# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: what changed between two results of one allocator, and whether it is more than noise.

The machine is not equally fast at all times. How much it drifted is seen from the allocators whose
library is the same in both results (the controls): the median of their changes in the benchmark. It
is divided out of times, which leaves the net change. Memory does not drift; there, what the
controls changed by is taken for chance. A net change counts when three things hold:
    1. the rounds differ: two-sided Mann-Whitney test, exact, p < 0.01 (five rounds against five reach
       p = 0.008 only if all of one side are better than all of the other; fewer rounds never do);
    2. the medians differ by at least the least effect (3% unless told otherwise);
    3. they differ by more than the controls differ among themselves, and by more than half of the
       drift, since a disturbance does not hit all alike.
Who uses it: cli. It never measures.
"""

import statistics
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_tools.bench import stats
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Result
from hakmem_tools.bench.summary import time_ns

ALPHA = 0.01
WHAT = ("time", "peak RSS", "RSS after idle")


@dataclass(frozen=True)
class Change:
    """One figure of one benchmark, before and after."""

    benchmark: str
    what: str
    old: float
    new: float
    low: float
    high: float
    """95% bootstrap interval of the net change."""
    p: float
    drift: float
    """New against old of the controls."""
    verdict: str

    @property
    def ratio(self) -> float:
        """New against old, as measured."""
        return self.new / self.old

    @property
    def net(self) -> float:
        """New against old without the drift."""
        return self.ratio / self.drift

    @property
    def worse(self) -> bool:
        """Whether it is a change for the worse."""
        return self.verdict == "worse"


@dataclass
class Changes:
    """All of it."""

    allocator: str
    least: float
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    newly_failed: list[str] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)


def values(benchmark: dict[str, Any], allocator: str, what: str) -> list[float]:
    """The figure in each round; empty where it was not measured or the allocator failed."""
    entry = benchmark["results"].get(allocator)
    if entry is None or entry["problem"]:
        return []
    if what == "time":
        return [time_ns(run, benchmark["repeats"]) for run in entry["runs"]]
    if what == "peak RSS":
        return [float(run["maxrss_kb"]) for run in entry["runs"]]
    return [run["metrics"]["rss_idle"][0] for run in entry["runs"] if "rss_idle" in run["metrics"]]


def controls(old: Result, new: Result, allocator: str) -> list[str]:
    """The other allocators that are the same in both results."""
    return [
        name
        for name, entry in old["allocators"].items()
        if name != allocator and new["allocators"].get(name, {}).get("version") == entry["version"]
    ]


def drift_of(
    old: dict[str, Any], new: dict[str, Any], names: list[str], what: str
) -> tuple[float, float]:
    """The median change of the controls, and how uncertain it is as a part of one."""
    ratios = [
        stats.median(after) / stats.median(before)
        for name in names
        if (before := values(old, name, what)) and (after := values(new, name, what))
    ]
    if not ratios:
        return 1.0, 0.0
    if what != "time":
        return 1.0, max(abs(ratio - 1) for ratio in ratios)
    drift = statistics.median(ratios)
    scatter = statistics.median(abs(ratio / drift - 1) for ratio in ratios)
    return drift, max(scatter, abs(drift - 1) / 2)


def verdict_of(net: float, p: float, reachable: float, least: float, uncertain: float) -> str:
    """better, worse, same, or why it cannot be told."""
    if abs(net - 1) < least:
        return "same"
    if abs(net - 1) < uncertain:
        return "within drift"
    if reachable >= ALPHA:
        return "too few rounds"
    if p >= ALPHA:
        return "noise"
    return "worse" if net > 1 else "better"


def change_of(
    old: dict[str, Any], new: dict[str, Any], changes: Changes, what: str
) -> Change | None:
    """The change of one figure; None where one of the results does not have it."""
    before, after = (values(b, changes.allocator, what) for b in (old, new))
    if not before or not after or min(before) <= 0:
        return None
    drift, uncertain = drift_of(old, new, changes.controls, what)
    corrected = [value / drift for value in after]
    net = stats.median(corrected) / stats.median(before)
    p = stats.mann_whitney_p(before, corrected)
    low, high = stats.bootstrap_ratio(before, corrected)
    reachable = stats.least_p(len(before), len(after))
    verdict = verdict_of(net, p, reachable, changes.least, uncertain)
    middles = (stats.median(before), stats.median(after))
    return Change(old["name"], what, *middles, low, high, p, drift, verdict)


def note_failures(old: dict[str, Any], new: dict[str, Any], changes: Changes) -> None:
    """A failure in one of the results is said, never passed over."""
    name = changes.allocator
    was = old["results"].get(name, {}).get("problem", "not measured")
    now = new["results"].get(name, {}).get("problem", "not measured")
    if now and not was:
        changes.newly_failed.append(f"{old['name']}: FAILED now: {now}")
    elif was and not now:
        changes.notes.append(f"{old['name']}: works now; before: {was}")
    elif was and now:
        changes.notes.append(f"{old['name']}: failed before ({was}) and now ({now})")


def note_differences(old: Result, new: Result, changes: Changes) -> None:
    """What makes the results hard to compare."""
    for key in ("cpu", "cores", "kernel", "transparent_huge_pages"):
        was, now = old["machine"].get(key), new["machine"].get(key)
        if was != now:
            changes.notes.append(f"not the same machine: {key} was {was}, is {now}")
    for which, result in (("old", old), ("new", new)):
        if not result["complete"]:
            changes.notes.append(f"the {which} run was not completed")
    if not changes.controls:
        changes.notes.append(
            "no other allocator is in both results: a drift of the machine is not seen"
        )
    names = {b["name"] for b in old["benchmarks"]} ^ {b["name"] for b in new["benchmarks"]}
    if names:
        changes.notes.append(f"in one of the results only: {', '.join(sorted(names))}")


def compare(old: Result, new: Result, allocator: str, least: float) -> Changes:
    """Everything that changed for one allocator."""
    for which, result in (("old", old), ("new", new)):
        if allocator not in result["allocators"]:
            names = ", ".join(result["allocators"])
            raise BenchError(f"{allocator} is not in the {which} result, which has {names}")
    changes = Changes(allocator, least, controls=controls(old, new, allocator))
    note_differences(old, new, changes)
    after = {b["name"]: b for b in new["benchmarks"]}
    for before in old["benchmarks"]:
        now = after.get(before["name"])
        if now is None:
            continue
        if before["command"] != now["command"]:
            changes.notes.append(f"{before['name']}: not compared, its arguments are others")
            continue
        note_failures(before, now, changes)
        found = (change_of(before, now, changes, what) for what in WHAT)
        changes.changes += [change for change in found if change is not None]
    return changes


STYLES = {"better": "green", "worse": "red", "same": "dim", "noise": "dim"}


def figure(change: Change, value: float) -> str:
    """A figure with its unit."""
    return f"{value / 1e6:,.1f} ms" if change.what == "time" else f"{value / 1000:,.1f} MB"


def table_of(shown: list[Change]) -> Table:
    """The changes as a table."""
    table = Table(box=box.SIMPLE)
    table.add_column("benchmark", no_wrap=True)
    table.add_column("")
    for heading in ("old", "new", "new/old", "drift", "net", "95% interval", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for c in shown:
        interval, cells = f"{c.low:.3f}-{c.high:.3f}", (figure(c, c.old), figure(c, c.new))
        ratios = (f"{c.ratio:.3f}", f"{c.drift:.3f}", f"{c.net:.3f}")
        figures = (*cells, *ratios, interval, f"{c.p:.3f}")
        table.add_row(
            c.benchmark, c.what, *figures, c.verdict, style=STYLES.get(c.verdict, "yellow")
        )
    return table


def show(changes: Changes, console: Console, everything: bool = False) -> None:
    """Prints what changed, the means, and the test that was used."""
    quiet = ("same", "noise")
    shown = [c for c in changes.changes if everything or c.verdict not in quiet]
    console.print(f"{changes.allocator}: new against old, below 1 is better", style="bold cyan")
    if shown:
        console.print(table_of(shown))
    for what in WHAT:
        mine = [c for c in changes.changes if c.what == what]
        if mine:
            mean = stats.geometric_mean([c.net for c in mine])
            counted = {v: sum(c.verdict == v for c in mine) for v in ("better", "worse")}
            rest = len(mine) - sum(counted.values())
            console.print(
                f"{what}: net geometric mean {mean:.3f} over {len(mine)}; {counted['better']} better, "
                f"{counted['worse']} worse, {rest} without a change that can be told from noise"
            )
    for line in changes.newly_failed:
        console.print(f"[red]{escape(line)}[/]")
    for line in changes.notes:
        console.print(f"[yellow]{escape(line)}[/]")
    console.print(
        f"test: Mann-Whitney on the rounds, two-sided, p < {ALPHA}; at least {changes.least:.1%} "
        f"between the medians after the drift of {', '.join(changes.controls) or 'nobody'} is divided "
        "out, more than half of that drift and than its scatter",
        style="dim",
    )
