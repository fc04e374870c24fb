# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of judging and summing up: nothing that failed is taken for a figure."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from fake_build import places_of
from hakmem_tools.bench import runner, suite, summary, text
from hakmem_tools.bench.allocators import Allocator
from hakmem_tools.bench.places import BenchError


def test_agreeing_runs_have_no_problem() -> None:
    b = make_benchmark(glibc=make_entry(make_run(10)), hakmem=make_entry(make_run(5)))
    assert [e["problem"] for e in b["results"].values()] == ["", ""]


def test_a_wrong_result_is_a_problem_of_that_allocator_only() -> None:
    b = make_benchmark(
        hakmem=make_entry(make_run(5), make_run(6, "bb")),
        glibc=make_entry(make_run(9), make_run(9)),
    )
    assert "wrong result: checksum bb, expected aa" in b["results"]["hakmem"]["problem"]
    assert "in 1 of 2 rounds" in b["results"]["hakmem"]["problem"]
    assert b["results"]["glibc"]["problem"] == ""


def test_a_missing_checksum_is_wrong_too() -> None:
    b = make_benchmark(hakmem=make_entry(make_run(5, "")), glibc=make_entry(make_run(9)))
    assert "wrong result" in b["results"]["hakmem"]["problem"]


def test_a_long_measurement_says_how_long(tmp_path: Path) -> None:
    plan = runner.Plan(
        benchmarks=suite.select(["small", "large"], []),
        allocators=[Allocator(name, "", "") for name in "abcdefghij"],
        missing=[],
        places=places_of(tmp_path),
        rounds=5,
        quick=False,
        command="hakmem bench",
    )
    said = runner.forecast(plan)
    count = len(plan.benchmarks)
    runs = sum(
        runner.rounds_of(plan, b) * len(runner.allocators_of(plan, b)) for b in plan.benchmarks
    )
    assert said.startswith(f"{count} programs under 10 allocators, 5 rounds: {runs:,} runs, ")
    assert said.endswith(f"{runs / 150:.0f} to {runs / 75:.0f} minutes; --quick takes less than 3")
    assert runner.forecast(replace(plan, quick=True)) == ""
    assert runner.forecast(replace(plan, benchmarks=plan.benchmarks[:1], rounds=1)) == ""
    assert runner.forecast(replace(plan, benchmarks=[suite.given("x=sort a")], rounds=500)) == ""


def test_other_output_of_a_program_that_was_given_is_not_called_wrong() -> None:
    entries = {"hakmem": make_entry(make_run(1, "bb")), "glibc": make_entry(make_run(1, "aa"))}
    runner.judge(entries, runner.other_output)
    assert not entries["glibc"]["problem"]
    problem = entries["hakmem"]["problem"]
    assert problem.startswith("its output is not that of the other runs (checksum bb, not aa);")
    assert "wrong" not in problem


def test_without_glibc_the_majority_is_right() -> None:
    b = make_benchmark(
        x=make_entry(make_run(1)), y=make_entry(make_run(1, "bb")), z=make_entry(make_run(1))
    )
    assert [bool(e["problem"]) for e in b["results"].values()] == [False, True, False]


def test_a_row_has_median_spread_and_what_is_relative_to_the_best() -> None:
    b = make_benchmark(
        hakmem=make_entry(make_run(10), make_run(20)),
        glibc=make_entry(make_run(30), make_run(30)),
        broken=make_entry(make_run(1, problem="killed by SIGSEGV")),
    )
    mine, glibc, broken = summary.rows_of_benchmark(b)
    assert (mine.time_ms, mine.best_ms, mine.time_rel) == (15, 10, 1)
    assert mine.spread == pytest.approx(10 / 15)
    assert glibc.time_rel == pytest.approx(2)  # not relative to the millisecond before the crash
    assert broken.problem.startswith("killed by SIGSEGV")
    assert broken.time_ms is None


def test_metrics_with_a_meaning_become_columns() -> None:
    run = make_run(10, rss_freed=900, rss_idle=500, live_peak=1000, rss_full=7)
    row = summary.rows_of_benchmark(make_benchmark(hakmem=make_entry(run, make_run(10))))[0]
    assert (row.freed_kb, row.idle_kb) == (900, 500)
    assert row.rss_over_live == pytest.approx(2)
    assert row.faults_over_live == pytest.approx(100 / 250)
    assert text.metric_lines([row]) == ["rss_full (kB): hakmem 7"]


def test_counts_become_columns_and_the_bump_allocator_a_limit() -> None:
    b = make_benchmark(hakmem=make_entry(make_run(10)))
    b["calls"] = {"hakmem": {"mmap": 3, "brk": 1, "all": 30}}
    b["instructions"] = {"hakmem": {"all": 150}, "bump": {"all": 100}}
    row = summary.rows_of_benchmark(b)[0]
    assert (row.calls, row.memory_calls) == (30, 4)
    assert row.instructions_over_bump == pytest.approx(1.5)
    headings = [c.heading for c in text.columns_for([row])]
    assert "/bump" in headings
    assert "/bump" not in [c.heading for c in text.columns_for([row], narrow=True)]


def test_a_count_that_failed_is_shown_as_failed() -> None:
    b = make_benchmark(hakmem=make_entry(make_run(10)))
    b["instructions"] = {"hakmem": {"problem": "killed by SIGILL"}, "bump": {"all": 100}}
    row = summary.rows_of_benchmark(b)[0]
    columns = {c.heading: c.show(row) for c in text.columns_for([row])}
    assert columns["instr M"] == "FAILED"
    reason = "instructions could not be counted: killed by SIGILL"
    assert runner.failures(make_result(b)) == [("b", "hakmem", reason)]


def test_means_count_failures_beside_and_never_as_fast() -> None:
    first = make_benchmark("first", hakmem=make_entry(make_run(10)), glibc=make_entry(make_run(20)))
    second = make_benchmark(
        "second",
        hakmem=make_entry(make_run(1, problem="killed by SIGBUS")),
        glibc=make_entry(make_run(80)),
    )
    hakmem, glibc = summary.geometric_means(summary.rows_of(make_result(first, second)))
    assert (hakmem.time, hakmem.done, hakmem.total, hakmem.failed) == (1, 1, 2, 1)
    assert glibc.time == pytest.approx(2**0.5)
    assert (glibc.done, glibc.failed) == (2, 0)


def test_against_the_best_other_being_ahead_counts() -> None:
    first = make_benchmark(
        "first", hakmem=make_entry(make_run(10)), glibc=make_entry(make_run(20)),
        mimalloc2=make_entry(make_run(40)),
    )  # fmt: skip
    second = make_benchmark(
        "second", hakmem=make_entry(make_run(32)), glibc=make_entry(make_run(8))
    )
    alone = make_benchmark("alone", hakmem=make_entry(make_run(9)))
    failed = make_benchmark(
        "failed",
        hakmem=make_entry(make_run(1, problem="killed by SIGBUS")),
        glibc=make_entry(make_run(8)),
    )
    found = {f.what: f for f in summary.against_others(
        summary.rows_of(make_result(first, second, alone, failed)))}  # fmt: skip
    time = found["time"]
    assert time.mean == pytest.approx(2**0.5)
    assert (time.worst, time.worst_benchmark, time.count) == (4, "second", 2)


def test_the_best_rounds_are_compared_beside_the_medians() -> None:
    b = make_benchmark(
        hakmem=make_entry(make_run(8), make_run(20), make_run(20)),
        glibc=make_entry(make_run(10), make_run(10), make_run(11)),
    )
    found = {f.what: f.mean for f in summary.against_others(summary.rows_of(make_result(b)))}
    assert found["time"] == pytest.approx(2)
    assert found["time of the best rounds"] == pytest.approx(0.8)


def test_all_others_relative_to_one_over_what_both_completed() -> None:
    first = make_benchmark(
        "first", hakmem=make_entry(make_run(10)), glibc=make_entry(make_run(20)),
        mimalloc2=make_entry(make_run(10, rss_idle=5)),
    )  # fmt: skip
    second = make_benchmark(
        "second", "real", hakmem=make_entry(make_run(32)), glibc=make_entry(make_run(4)),
        mimalloc2=make_entry(make_run(1, problem="killed by SIGBUS")),
    )  # fmt: skip
    rows = summary.rows_of(make_result(first, second))
    glibc, mimalloc2 = summary.pairs(rows, "hakmem")
    assert (glibc.allocator, glibc.time, glibc.rss) == ("glibc", pytest.approx(0.5), 1)
    assert (glibc.count, glibc.idle) == (2, None)
    assert (mimalloc2.time, mimalloc2.count, mimalloc2.idle) == (1, 1, None)
    glibc, mimalloc2 = summary.pairs(rows, "hakmem", "real")
    assert (glibc.time, mimalloc2.time) == (pytest.approx(0.125), None)
    assert [p.time for p in summary.pairs(rows, "glibc")] == [pytest.approx(2), pytest.approx(0.5)]


def test_two_threads_against_one() -> None:
    one = make_benchmark("random_mixed-256-1t", hakmem=make_entry(make_run(10)))
    two = make_benchmark("random_mixed-256-2t", hakmem=make_entry(make_run(11)))
    derived = summary.scaling(summary.rows_of(make_result(one, two)))
    assert derived == [("random_mixed-256", {"hakmem": pytest.approx(20 / 11)})]


def test_an_old_or_broken_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text("{")
    with pytest.raises(BenchError, match="cannot read the result"):
        summary.read_result(file)
    file.write_text(json.dumps({"schema": 1}))
    with pytest.raises(BenchError, match="schema 2"):
        summary.read_result(tmp_path)


def test_the_list_is_consistent() -> None:
    everything = suite.all_benchmarks()
    names = [b.name for b in everything]
    assert len(names) == len(set(names))
    elsewhere = {"given", "bounds", "drawn", "shapes", "latency"}
    assert {b.group for b in everything} == set(suite.GROUPS) - elsewhere
    for _, one, two in suite.SCALING:
        assert {one, two} <= set(names)


def test_benchmarks_are_chosen_by_part_pattern_and_group() -> None:
    assert [b.name for b in suite.select(["lifetimes-l*"], [])] == ["lifetimes-lifo"]
    assert {b.group for b in suite.select(["real"], [])} == {"real"}
    assert "redis" not in {b.name for b in suite.select(["real"], ["redis"])}
    with pytest.raises(BenchError, match="no benchmark matches 'nothing'"):
        suite.select(["nothing"], [])
    with pytest.raises(BenchError, match="nothing is left"):
        suite.select(["redis"], ["real"])
