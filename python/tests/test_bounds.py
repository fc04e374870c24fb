# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of figures with a bound: what is judged and how, the page, and a run of one workload."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from hakmem_tools.bench import bounds, bounds_text, runner, summary
from hakmem_tools.bench.allocators import Allocator
from hakmem_tools.bench.bounds import BEST, FAILS, HOLDS, LEAST, NOISE, Bound
from hakmem_tools.bench.places import BenchError, Places


def judged(bound: Bound, **entries: dict[str, Any]) -> bounds.Verdict:
    verdict = bounds.judge(make_result(make_benchmark("w", "bounds", **entries)), bound)
    assert verdict is not None
    return verdict


def times(*ms: float) -> dict[str, Any]:
    return make_entry(*(make_run(t) for t in ms))


def test_an_absolute_value_is_the_median_of_all_rounds() -> None:
    entry = make_entry(*(make_run(1, left=kb) for kb in (900, 10, 20)))
    assert judged(Bound("w", "left", 20, "left"), hakmem=entry).word == HOLDS
    verdict = judged(Bound("w", "left", 19, "left"), hakmem=entry)
    assert (verdict.word, verdict.mine, verdict.ratio) == (FAILS, 20, None)


def test_the_best_other_is_taken_and_one_that_failed_is_not() -> None:
    broken = make_entry(make_run(1, problem="killed by SIGSEGV"))
    verdict = judged(
        Bound("w", "time", 1.1, "time", BEST),
        hakmem=times(12),
        glibc=times(20),
        fast=times(10),
        broken=broken,
    )
    assert (verdict.word, verdict.other, verdict.ratio) == (FAILS, "fast", 1.2)


def test_a_named_allocator_is_taken_though_another_is_better() -> None:
    verdict = judged(
        Bound("w", "time", 0.2, "time", "copies"), hakmem=times(2), copies=times(10), fast=times(1)
    )
    assert (verdict.word, verdict.other) == (HOLDS, "copies")
    gone = judged(Bound("w", "time", 0.2, "time", "copies"), hakmem=times(2), fast=times(1))
    assert gone.word == "not measured: nothing of copies"


@pytest.mark.parametrize(
    ("mine", "word"),
    [
        ((10, 10, 11, 10, 10), HOLDS),
        ((9, 12, 12, 9, 12), NOISE),  # the median is above, not all of what may be drawn
        ((12, 12, 13, 12, 12), FAILS),
        ((9, 12, 12), FAILS),  # too few to speak of noise
    ],
)
def test_noise_is_told_from_more(mine: tuple[float, ...], word: str) -> None:
    theirs = times(*(10 for _ in mine))
    verdict = judged(Bound("w", "time", 1.0, "time", BEST), hakmem=times(*mine), glibc=theirs)
    assert verdict.word == word


def test_page_faults_and_peaks_are_known_by_name() -> None:
    both = {"hakmem": times(1), "glibc": times(1)}
    for value in ("faults", "peak"):
        assert judged(Bound("w", value, 1.0, value, LEAST), **both).ratio == 1.0
    verdict = judged(Bound("w", "rss_growth", 5, "growth"), hakmem=times(1))
    assert verdict.word == "not measured"


def test_what_failed_or_was_skipped_is_said() -> None:
    broken = make_entry(make_run(1, problem="killed by SIGSEGV"))
    verdict = judged(Bound("w", "time", 1, "time", BEST), hakmem=broken, glibc=times(1))
    assert verdict.word == "not measured: killed by SIGSEGV (in 1 of 1 rounds)"
    skipped = make_benchmark("w", "bounds")
    skipped["skipped"] = "z3 is not installed: apt-get install z3"
    verdict = bounds.judge(make_result(skipped), Bound("w", "time", 1, "time", BEST))
    assert verdict is not None and verdict.word.endswith("apt-get install z3")


def test_each_bound_is_of_a_workload_and_each_workload_has_one() -> None:
    names = [w.name for w in bounds.WORKLOADS]
    assert sorted(set(names)) == sorted(names)
    assert {bound.workload for bound in bounds.BOUNDS} == set(names)
    for workload in bounds.WORKLOADS:
        assert not workload.under or bounds.OURS in workload.under
    for bound in bounds.BOUNDS:
        under = next(w.under for w in bounds.WORKLOADS if w.name == bound.workload)
        assert not under or bound.to in ("", BEST, LEAST, *under)


def test_workloads_are_chosen_by_name() -> None:
    assert [w.name for w in bounds.select(["z3-20"])] == ["z3-20-warmed", "z3-20-rested"]
    assert len(bounds.select([])) == len(bounds.WORKLOADS)
    with pytest.raises(BenchError, match="no workload matches 'nothing': there are free_all"):
        bounds.select(["nothing"])


def test_the_page_says_what_does_not_hold(tmp_path: Path) -> None:
    name = "return_peak-rested"
    benchmark = make_benchmark(name, "bounds", hakmem=times(13, 12, 14), mimalloc2=times(10, 11, 9))
    benchmark |= {"rest_s": 3.0, "warm_mib": 0}
    result = make_result(benchmark)
    written = bounds_text.write(result, tmp_path / "results" / "b.json", tmp_path)
    page = written.read_text(encoding="utf-8")
    assert f"| {name} | time | 13 ms | 10 ms (mimalloc2) | 1.30 | 1.10 of the best other |" in page
    assert "1 bounds: 0 holds, 0 not above it by more than noise, 1 does NOT hold" in page
    assert "`results/b.json`" in page
    assert "after 3 s of rest" in page


def test_a_workload_is_measured_only_under_those_that_it_names(built: Places) -> None:
    workload = bounds.Benchmark(
        "w", "bounds", "", ("pair_loop", "1000"), ("1000",), under=("glibc",), warm_mib=1
    )
    libc = Allocator("glibc", "", "")
    other = Allocator("other", "", "")
    given = Allocator("mine", "", "", "given with --lib")
    plan = runner.Plan([workload], [libc, other, given], [], built, 1, False, "")
    measured = runner.run(plan, runner.Listener())["benchmarks"][0]
    assert list(measured["results"]) == ["glibc", "mine"]
    assert (measured["warm_mib"], measured["rest_s"]) == (1, 0)


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """hakmem bench with arguments."""
    command = [sys.executable, "-m", "hakmem_tools.bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_command_measures_and_says_whether_it_holds(built: Places, tmp_path: Path) -> None:
    done = bench(
        *("bounds", "--rounds", "1", "--only", "free_all-owner", "--allocators", "hakmem"),
        *("--build", str(built.programs.parent), "--output", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    assert "2 bounds: 2 holds" in done.stdout
    result = summary.read_result(tmp_path)
    assert [b["name"] for b in result["benchmarks"]] == ["free_all-owner"]


def test_a_workload_that_fails_under_hakmem_is_no_success(built: Places, tmp_path: Path) -> None:
    done = bench(
        *("bounds", "--rounds", "1", "--only", "threads-8", "--allocators", "hakmem"),
        *("--timeout", "1", "--build", str(built.programs.parent), "--output", str(tmp_path)),
    )
    assert done.returncode == 1, done.stdout
    assert "not measured: not done after 1 s" in done.stdout


def test_a_result_of_something_else_makes_no_page(tmp_path: Path) -> None:
    other = make_result(make_benchmark("free_all-owner", "memory", hakmem=times(1)))
    (tmp_path / "result.json").write_text(json.dumps(other), encoding="utf-8")
    done = bench("bounds-docs", str(tmp_path), "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "is no result of `hakmem bench bounds`" in done.stderr
    assert not (tmp_path / "bounds.md").exists()
