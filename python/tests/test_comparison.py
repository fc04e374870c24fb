# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of `hakmem bench compare`: what is a change, what is noise, what is the machine's drift."""

from io import StringIO
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from hakmem_tools.bench import comparison
from hakmem_tools.bench.places import BenchError
from rich.console import Console

STEADY = (100.0, 101.0, 99.0, 100.5, 99.5)


def entry(times: tuple[float, ...]) -> dict[str, Any]:
    return make_entry(*(make_run(t) for t in times))


def verdict(
    old: tuple[float, ...],
    new: tuple[float, ...],
    glibc_new: tuple[float, ...] = STEADY,
) -> str:
    before = make_result(make_benchmark(hakmem=entry(old), glibc=entry(STEADY)), hakmem="1")
    after = make_result(make_benchmark(hakmem=entry(new), glibc=entry(glibc_new)), hakmem="2")
    changes = comparison.compare(before, after, "hakmem", 0.03).changes
    return next(c.verdict for c in changes if c.what == "time")


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(t * factor for t in STEADY)


def test_a_clear_change_is_better_or_worse() -> None:
    assert verdict(STEADY, scaled(0.9)) == "better"
    assert verdict(STEADY, scaled(1.1)) == "worse"


def test_a_small_change_is_none_however_sure() -> None:
    assert verdict(STEADY, scaled(1.025)) == "same"


def test_a_change_within_the_scatter_is_noise() -> None:
    assert verdict((100, 130, 90, 120, 105), (110, 95, 140, 112, 125)) == "noise"


def test_a_change_that_glibc_has_too_is_the_machine() -> None:
    assert verdict(STEADY, scaled(1.12), glibc_new=scaled(1.12)) == "same"
    assert verdict(STEADY, scaled(1.17), glibc_new=scaled(1.12)) == "within drift"
    assert verdict(STEADY, scaled(1.4), glibc_new=scaled(1.12)) == "worse"
    assert verdict(STEADY, STEADY, glibc_new=scaled(1.3)) == "better"


def test_too_few_rounds_are_said() -> None:
    assert verdict(STEADY[:3], scaled(1.5)[:3]) == "too few rounds"


def test_a_new_failure_is_shown_and_an_old_one_remembered() -> None:
    good = make_result(make_benchmark(hakmem=entry(STEADY), glibc=entry(STEADY)))
    crash = make_entry(make_run(1, problem="killed by SIGSEGV"))
    bad = make_result(make_benchmark(hakmem=crash, glibc=entry(STEADY)))
    changes = comparison.compare(good, bad, "hakmem", 0.03)
    assert "FAILED now: killed by SIGSEGV" in changes.newly_failed[0]
    assert changes.changes == []
    back = comparison.compare(bad, good, "hakmem", 0.03)
    assert any("works now" in note for note in back.notes)


def test_what_cannot_be_compared_is_said() -> None:
    old = make_result(make_benchmark("a", hakmem=entry(STEADY)))
    new = make_result(make_benchmark("c", hakmem=entry(STEADY)))
    new["machine"]["cpu"] = "another"
    notes = " ".join(comparison.compare(old, new, "hakmem", 0.03).notes)
    assert "not the same machine" in notes
    assert "only: a, c" in notes
    assert "no other allocator" in notes
    with pytest.raises(BenchError, match="snmalloc is not in the old result"):
        comparison.compare(old, new, "snmalloc", 0.03)


def test_what_is_printed_names_the_test() -> None:
    old = make_result(make_benchmark(hakmem=entry(STEADY), glibc=entry(STEADY)), hakmem="1")
    new = make_result(make_benchmark(hakmem=entry(scaled(1.2)), glibc=entry(STEADY)), hakmem="2")
    out = StringIO()
    comparison.show(
        comparison.compare(old, new, "hakmem", 0.03), Console(file=out, width=160), everything=True
    )
    assert "Mann-Whitney" in out.getvalue()
    assert "worse" in out.getvalue()
    assert "the drift of glibc" in out.getvalue()
