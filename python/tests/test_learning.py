# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of `hakmem bench learn`: figures, promises, the page; and one small run on the build."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import make_run
from hakmem_tools.bench import learning, learning_cost, learning_text
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.schema import MACHINE


def learned_run(cpu_ms: int, peak: int, mean: int, **more: Any) -> dict[str, Any]:
    """A run with these figures."""
    run = make_run(1.0, checksum=more.get("checksum", "aa"), problem=more.get("problem", ""))
    return {**run, "user_us": cpu_ms * 1000, "sys_us": 0, "maxrss_kb": peak, "meanrss_kb": mean}


def make_workload(name: str, **ways: dict[str, Any]) -> dict[str, Any]:
    """A workload whose rounds are all alike."""
    entry: dict[str, Any] = {
        "name": name,
        "what": "it works",
        "command": [name, "1"],
        "skipped": "",
        "learning": {"learns": 1, "tries": 0, "policy": "site 0a+1 64 long 9\n", "problems": []},
        "ways": {way: [ways[way], ways[way]] for way in learning.WAYS},
    }
    entry["figures"] = {way: learning.figures_of(entry["ways"][way]) for way in learning.WAYS}
    entry["ratios"] = learning.ratios_of(entry["figures"])
    entry["problem"] = learning.problem_of(entry)
    return entry


def make_result(*workloads: dict[str, Any]) -> learning.Result:
    """A result with these workloads."""
    result: learning.Result = {
        "schema": learning.SCHEMA,
        "date": "2026-01-01T00:00:00+00:00",
        "command": "hakmem bench learn",
        "rounds": 2,
        "machine": dict.fromkeys(("cpu", "cores", "memory", "kernel"), "x"),
        "workloads": list(workloads),
    }
    result["verdict"] = learning.verdict(result)
    return result


FIXED = learned_run(100, 1000, 800)


def test_figures_are_relative_to_the_fixed_defaults() -> None:
    workload = make_workload(
        "a", fixed=FIXED, live=learned_run(101, 1010, 816), frozen=learned_run(104, 900, 400)
    )
    assert workload["ratios"]["live"] == {"cpu_s": 1.01, "peak_kb": 1.01, "mean_kb": 1.02}
    assert workload["ratios"]["frozen"]["mean_kb"] == 0.5
    assert learning.is_better(workload)
    assert workload["problem"] == ""


def test_a_tenth_in_time_or_mean_memory_counts_and_the_peak_does_not() -> None:
    for frozen, better, paid in (
        (learned_run(90, 1000, 800), True, False),
        (learned_run(91, 1000, 800), False, False),
        (learned_run(100, 500, 800), False, False),
        (learned_run(105, 1000, 720), True, False),
        (learned_run(134, 1000, 400), True, True),
        (learned_run(50, 1000, 848), True, True),
    ):
        workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=frozen)
        assert learning.is_better(workload) is better
        assert (better and learning.is_paid_for(workload)) is paid


def test_what_is_better_in_the_median_alone_is_chance() -> None:
    workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=learned_run(80, 1000, 800))
    assert learning.is_better(workload)
    workload["ways"]["frozen"][1] = learned_run(101, 1000, 800)
    assert not learning.is_better(workload)


def test_runs_too_short_to_be_a_measure_teach_nothing(tmp_path: Path) -> None:
    file = tmp_path / "p"
    assert learning.teaches_nothing(file)
    file.write_text("hakmem-policy 1\nruns 1 5\nbase 0 0 0 0\n", encoding="utf-8")
    assert learning.teaches_nothing(file)
    file.write_text("hakmem-policy 1\nruns 2 9\nbase 1 500000 1 1\n", encoding="utf-8")
    assert not learning.teaches_nothing(file)


def test_times_are_compared_within_a_round() -> None:
    workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED)
    workload["ways"]["fixed"][1] = learned_run(200, 1000, 800)
    workload["ways"]["live"][1] = learned_run(300, 1000, 800)
    workload["ways"]["frozen"][0] = learned_run(1, 1, 1, problem="killed")
    assert learning.spread_of(workload, "live") == pytest.approx((1.0, 1.5))
    assert learning.spread_of(workload, "frozen") == pytest.approx((0.5, 0.5))


def test_the_verdict_takes_the_worst_of_all_and_leaves_failures_out() -> None:
    good = make_workload("a", fixed=FIXED, live=learned_run(104, 1000, 808), frozen=FIXED)
    other = make_workload("b", fixed=FIXED, live=FIXED, frozen=learned_run(50, 1000, 800))
    failed = make_workload(
        "c", fixed=FIXED, live=learned_run(999, 1, 1, problem="killed"), frozen=FIXED
    )
    wrong = make_workload("d", fixed=FIXED, live=FIXED, frozen=learned_run(1, 1, 1, checksum="bb"))
    assert wrong["problem"] == "different results: aa, bb"
    found = make_result(good, other, failed, wrong)["verdict"]
    assert found["workloads"] == 2
    assert found["live_time_worst"] == 1.04
    assert found["live_mean_worst"] == 1.01
    assert found["frozen_better"] == ["b"]


def test_of_two_results_the_later_workload_counts() -> None:
    first = make_result(make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED))
    later = make_workload("a", fixed=FIXED, live=FIXED, frozen=learned_run(10, 1000, 800))
    both = learning.joined([first, make_result(later)])
    assert both["verdict"]["frozen_better"] == ["a"]
    assert len(both["workloads"]) == 1


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    result = make_result(
        make_workload("a", fixed=FIXED, live=FIXED, frozen=learned_run(50, 1000, 800))
    )
    notes = tmp_path / "notes.md"
    notes.write_text("## What was left out\n", encoding="utf-8")
    text = learning_text.write(result, notes, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| a | fixed | 0.10 s (0.10 to 0.10) |" in text
    assert "| 0.500 | 1.000 | 1.000 | 0.50 to 0.50 |" in text
    assert "1 of 1 (a)" in text
    assert "site 0a+1 64 long 9" in text
    assert text.rstrip().endswith("## What was left out")


def with_cost(workload: dict[str, Any], live: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The workload with pairs in which fixed is always the same."""
    counts = {"fixed": {"all": 200_000_000}, "live": {"all": 201_000_000}, "quick": True}
    workload["cost"] = {
        "instructions": counts,
        "calls": {"fixed": {"all": 50}, "live": {"all": 80}},
        "pairs": {"fixed": [FIXED] * len(live), "live": live},
        **more,
    }
    workload["cost"]["figures"] = learning_cost.figures(workload["cost"])
    return workload


def test_what_live_costs_is_an_interval_over_pairs() -> None:
    live = [learned_run(cpu, 1000, 800) for cpu in (90, 95, 100, 105, 140)]
    figures = learning_cost.figures(
        with_cost(make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED), live)["cost"]
    )
    assert figures["time"]["ratio"] == 1.0
    assert 0.9 <= figures["time"]["low"] < 1.0 < figures["time"]["high"] <= 1.4
    assert figures["mean"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    assert figures["instructions"] == 1.005


def test_a_pair_of_which_one_failed_does_not_count() -> None:
    live = [learned_run(100, 1000, 800), learned_run(1, 1, 1, problem="killed")]
    workload = with_cost(make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED), live)
    assert workload["cost"]["figures"]["time"] == {"ratio": 1.0, "low": 1.0, "high": 1.0}
    failed = [learned_run(1, 1, 1, problem="killed")]
    no_count = {"fixed": {"problem": "no"}, "live": {"all": 5}, "quick": True}
    figures = with_cost(workload, failed, instructions=no_count)["cost"]["figures"]
    assert figures["time"] is None
    assert figures["instructions"] is None


def test_only_an_interval_as_a_whole_above_the_limit_says_no() -> None:
    def named(name: str, *cpu: int) -> dict[str, Any]:
        workload = make_workload(name, fixed=FIXED, live=FIXED, frozen=FIXED)
        return with_cost(workload, [learned_run(c, 1000, 800) for c in cpu])

    result = make_result(
        named("fine", 99, 100, 100), named("unclear", 90, 102, 110), named("dear", 103, 104, 105)
    )
    cost = result["verdict"]["cost"]
    assert (cost["time_below"], cost["time_above"]) == (["fine"], ["dear"])
    assert cost["time_worst"] == 1.04
    said = "\n".join(learning_text.verdict_lines(result))
    assert "instructions relative to fixed: at most 1.0050" in said
    assert "processor time: the interval lies below 1.01 in 1 of 3, above it in 1 (dear)" in said


def test_each_comes_first_and_after_each_other() -> None:
    seen: list[str] = []

    def run(side: str, pair: int) -> dict[str, Any]:
        seen.append(f"{side}{pair}")
        return FIXED

    learning_cost.pairs(run, 2)
    assert seen == ["fixed0", "live0", "live1", "fixed1"]
    assert {learning.turns(number)[0] for number in range(3)} == set(learning.WAYS)


def test_a_program_that_executes_little_is_counted_with_its_own_arguments() -> None:
    def count(side: str, quick: bool) -> dict[str, Any]:
        return {"all": 1000 if quick else 2000}

    assert learning_cost.instructions(count, small=False)["live"] == {"all": 2000}
    assert learning_cost.instructions(count, small=True)["live"] == {"all": 1000}
    many = learning_cost.instructions(lambda side, quick: {"all": 10**9}, small=False)
    assert many["quick"]


def test_the_page_has_what_live_costs(tmp_path: Path) -> None:
    workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED)
    result = make_result(with_cost(workload, [FIXED] * 3))
    text = learning_text.page(result, "")
    assert "## What learning live costs" in text
    assert "| a | 200,000,000 | 1.0050 | 50 to 80 |" in text
    assert "1.000 (1.000 to 1.000)" in text
    without = make_result(make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED))
    assert "What learning live costs" not in learning_text.page(without, "")


def test_pairs_that_all_failed_are_said_to_be_none() -> None:
    workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED)
    failed = [learned_run(1, 1, 1, problem="killed")]
    lines = learning_text.verdict_lines(make_result(with_cost(workload, failed)))
    assert "learning live, processor time: not measured, as no pair of runs completed" in lines


def written(folder: Path, name: str, result: learning.Result, **machine: str) -> Path:
    """A file with a result of this machine."""
    path = folder / name
    whole = dict.fromkeys(MACHINE, "x") | machine
    path.write_text(json.dumps({**result, "set": "full", "machine": whole}), encoding="utf-8")
    return path


def test_results_of_other_machines_are_not_joined(tmp_path: Path) -> None:
    """The page says of all that it was measured on one machine."""
    result = make_result(make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED))
    later = {**result, "date": "2026-01-02T00:00:00+00:00"}
    here, there = written(tmp_path, "here", result), written(tmp_path, "there", later, cpu="y")
    again = written(tmp_path, "again", later)
    joined = learning.joined(learning.read_results([here, again]))
    assert "Measured 2026-01-02 on one machine: x" in learning_text.page(joined, "")
    with pytest.raises(BenchError, match=r"there cannot be joined with .*here: cpu is y, not x"):
        learning.read_results([here, there])
    more = written(tmp_path, "more", {**result, "rounds": 5})
    with pytest.raises(BenchError, match="rounds is 5, not 2"):
        learning.read_results([here, more])


def test_what_is_no_result_is_refused_with_the_reason(tmp_path: Path) -> None:
    for text, said in (
        ("{", "cannot read the result"),
        ("[]", "is no result of `hakmem bench learn`"),
        ('{"schema": 1, "workloads": []}', "is damaged: the whole: 'date' is a required property"),
        ('{"schema": 2, "workloads": []}', "is no result of `hakmem bench learn`"),
    ):
        path = tmp_path / "r.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BenchError, match=said):
            learning.read_result(path)
    workload = make_workload("a", fixed=FIXED, live=FIXED, frozen=FIXED)
    del workload["figures"]
    with pytest.raises(BenchError, match="'figures' is a required property"):
        learning.read_result(written(tmp_path, "r.json", make_result(workload)))


@pytest.mark.usefixtures("built")
def test_a_small_run_learns_and_measures_three_ways(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hakmem_tools.bench", "learn", "--quick", "--rounds", "1"),
            *("--only", "survivors", "--output", str(tmp_path / "out")),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result["complete"]
    (workload,) = result["workloads"]
    assert workload["learning"]["policy"].startswith("hakmem-policy 1\n")
    assert "site " in workload["learning"]["policy"]
    ends = result["verdict"]["survivors_end_ratio"]
    assert ends["frozen"] < ends["fixed"]
