# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the statistics, against values that were worked out by hand or are in tables."""

import pytest
from hakmem_tools.bench import stats


def test_medians_means_and_spread() -> None:
    assert stats.median([3, 1, 2]) == 2
    assert stats.geometric_mean([1, 4]) == pytest.approx(2)
    assert stats.geometric_mean([]) == 0
    assert stats.spread([10, 12, 9]) == pytest.approx(0.3)


def test_equal_values_share_a_rank() -> None:
    assert stats.ranks([10, 20, 20, 5]) == [2, 3.5, 3.5, 1]


def test_exact_p_values_of_the_rank_sum_test() -> None:
    assert stats.mann_whitney_p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert stats.mann_whitney_p([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    # U = 4 of 5 and 5: P(U <= 4) = 12 / 252 in the tables
    assert stats.mann_whitney_p([1, 2, 3, 6, 7], [4, 5, 8, 9, 10]) == pytest.approx(24 / 252)


def test_equal_samples_are_no_evidence() -> None:
    assert stats.mann_whitney_p([5, 5, 5], [5, 5, 5]) == 1
    assert stats.mann_whitney_p([1, 2, 3, 4], [1, 2, 3, 4]) == pytest.approx(1, abs=0.02)


def test_large_samples_use_the_normal_distribution() -> None:
    old = [float(i) for i in range(30)]
    assert stats.mann_whitney_p(old, [v + 100 for v in old]) < 1e-6
    assert stats.mann_whitney_p(old, [v + 0.5 for v in old]) > 0.5


def test_the_least_p_value_says_when_there_are_too_few_rounds() -> None:
    assert stats.least_p(5, 5) == pytest.approx(2 / 252)
    assert stats.least_p(3, 3) == pytest.approx(0.1)
    assert stats.least_p(0, 3) == 1


def test_the_bootstrap_interval_holds_the_ratio_and_is_repeatable() -> None:
    old, new = [100, 101, 99, 100, 102], [110, 111, 109, 110, 112]
    low, high = stats.bootstrap_ratio(old, new)
    assert low <= 1.1 <= high
    assert low > 1.05
    assert (low, high) == stats.bootstrap_ratio(old, new)
