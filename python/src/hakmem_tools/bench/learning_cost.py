# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: what learning live costs, measured so that one per cent shows.

On a machine that others use, too, the times of equal runs differ by more than what learning may
cost. So it is counted: instructions (callgrind), page faults, system calls (strace), each without a
policy and learning from nothing. Beside the counts stand processor time and mean memory of many
short runs in pairs, in turns one and the other first, as an interval and not as one figure.
Who uses it: learning. It never prints.
"""

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hakmem_tools.bench.stats import bootstrap_pairs

SIDES = ("fixed", "live")
FEW_INSTRUCTIONS = 100_000_000
"""A program that executes fewer with small arguments is counted with its own: starting and ending
would be a large part of it."""

Runner = Callable[[str, int], dict[str, Any]]
"""Measures one way, in a given pair."""
Counter = Callable[[str, bool], dict[str, Any]]
"""Counts one way, with small arguments or not: {"all": number} or {"problem": why not}."""


def both(count: Counter, quick: bool) -> dict[str, dict[str, Any]]:
    """Both sides at the same time: a count is the same on a busy machine."""
    with ThreadPoolExecutor(len(SIDES)) as pool:
        return dict(zip(SIDES, pool.map(lambda side: count(side, quick), SIDES), strict=True))


def instructions(count: Counter, small: bool) -> dict[str, Any]:
    """Of both sides, with small arguments where those are enough; which ones is in the result."""
    counted: dict[str, Any] = both(count, quick=True)
    counted["quick"] = True
    if not small and all(0 < counted[side].get("all", 0) < FEW_INSTRUCTIONS for side in SIDES):
        counted = {**both(count, quick=False), "quick": False}
    return counted


def pairs(run: Runner, number: int) -> dict[str, list[dict[str, Any]]]:
    """Runs in pairs. Whoever comes first in a pair comes second in the next: what ran before, and
    what it left to the system, is part of a time."""
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for pair in range(number):
        for side in SIDES if pair % 2 == 0 else SIDES[::-1]:
            found[side].append(run(side, pair))
    return found


# ---- what it comes to ----


def ratio_of(counts: dict[str, Any]) -> float | None:
    """Live relative to fixed; None where one was not counted."""
    numbers = [counts.get(side, {}).get("all", 0) for side in SIDES]
    return round(numbers[1] / numbers[0], 4) if all(numbers) else None


def values_of(
    runs: dict[str, list[dict[str, Any]]], value: Callable[[dict[str, Any]], float]
) -> tuple[list[float], list[float]]:
    """Of the pairs of which both runs ended well: fixed, live."""
    good = [
        (fixed, live)
        for fixed, live in zip(runs["fixed"], runs["live"], strict=True)
        if not fixed["problem"] and not live["problem"]
    ]
    return [value(fixed) for fixed, _ in good], [value(live) for _, live in good]


def interval(old: Sequence[float], new: Sequence[float]) -> dict[str, float] | None:
    """The ratio of the medians and where it lies with 95% confidence."""
    if not old or min(old) <= 0:
        return None
    low, high = bootstrap_pairs(old, new)
    return {
        "ratio": round(statistics.median(new) / statistics.median(old), 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def figures(cost: dict[str, Any]) -> dict[str, Any]:
    """All ratios of a workload, live relative to fixed."""
    runs = cost["pairs"]
    fixed_faults, live_faults = values_of(runs, lambda run: run["minflt"])
    return {
        "instructions": ratio_of(cost["instructions"]),
        "calls": ratio_of(cost["calls"]),
        "faults": interval(fixed_faults, live_faults),
        "time": interval(*values_of(runs, lambda run: run["user_us"] + run["sys_us"])),
        "mean": interval(*values_of(runs, lambda run: run["meanrss_kb"])),
        "peak": interval(*values_of(runs, lambda run: run["maxrss_kb"])),
    }


def worst(found: Sequence[dict[str, Any]], name: str) -> float | None:
    """The largest ratio of all workloads."""
    ratios = [f[name]["ratio"] if isinstance(f[name], dict) else f[name] for f in found if f[name]]
    return max(ratios, default=None)


def above(found: dict[str, dict[str, Any]], name: str, limit: float) -> list[str]:
    """The workloads of which even the lower end of the interval is above a limit."""
    return [w for w, f in found.items() if f[name] is not None and f[name]["low"] > limit]


def below(found: dict[str, dict[str, Any]], name: str, limit: float) -> list[str]:
    """The workloads of which the upper end of the interval is not above a limit, too."""
    return [w for w, f in found.items() if f[name] is not None and f[name]["high"] <= limit]
