# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the statistics. Pure functions of lists of numbers.

Who uses it: summary and comparison. It never knows where numbers come from.
"""

import itertools
import math
import random
import statistics
from collections.abc import Sequence

EXACT_MOST = 200_000
"""Up to so many ways of dealing out the ranks the test is exact."""


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return float(statistics.median(values))


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of the values that so many percent of them are not above."""
    return sorted(values)[-(-percent * len(values) // 100) - 1]


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios; 0 for none."""
    if not values or any(v <= 0 for v in values):
        return 0.0
    return math.exp(statistics.fmean(math.log(v) for v in values))


def spread(values: Sequence[float]) -> float:
    """The distance of the extremes as a part of the median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for position in range(at, end + 1):
            result[order[position]] = (at + end) / 2 + 1
        at = end + 1
    return result


def mann_whitney_p(old: Sequence[float], new: Sequence[float]) -> float:
    """The two-sided p-value of the Mann-Whitney rank sum test: exact with ties for small samples."""
    both = ranks([*old, *new])
    n, m = len(old), len(new)
    if n == 0 or m == 0:
        return 1.0
    centre = n * (n + m + 1) / 2
    observed = abs(sum(both[:n]) - centre)
    if math.comb(n + m, n) <= EXACT_MOST:
        far = sum(
            abs(sum(chosen) - centre) >= observed - 1e-9
            for chosen in itertools.combinations(both, n)
        )
        return far / math.comb(n + m, n)
    mean_square = statistics.fmean((r - (n + m + 1) / 2) ** 2 for r in both)
    deviation = math.sqrt(n * m * mean_square / (n + m - 1))
    if deviation == 0:
        return 1.0
    return math.erfc(max(0.0, observed - 0.5) / deviation / math.sqrt(2))


def least_p(n: int, m: int) -> float:
    """The smallest p-value that samples of these sizes can have."""
    return min(1.0, 2 / math.comb(n + m, n)) if n and m else 1.0


def bootstrap_ratio(
    old: Sequence[float], new: Sequence[float], samples: int = 2000, seed: int = 1
) -> tuple[float, float]:
    """A 95% interval of median(new) / median(old), by drawing rounds with replacement."""
    dice = random.Random(seed)
    ratios = sorted(
        median(dice.choices(new, k=len(new))) / median(dice.choices(old, k=len(old)))
        for _ in range(samples)
    )
    return ratios[int(0.025 * samples)], ratios[int(0.975 * samples) - 1]


def bootstrap_pairs(
    old: Sequence[float], new: Sequence[float], samples: int = 2000, seed: int = 1
) -> tuple[float, float]:
    """The same where old[i] and new[i] were measured one after the other: drawn together."""
    dice = random.Random(seed)
    ratios = []
    for _ in range(samples):
        drawn = dice.choices(range(len(old)), k=len(old))
        ratios.append(median([new[i] for i in drawn]) / median([old[i] for i in drawn]))
    ratios.sort()
    return ratios[int(0.025 * samples)], ratios[int(0.975 * samples) - 1]
