# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of drawn workloads: how they are described, what follows from a result, page and command."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from fake_build import bench, complete, places_of, program, terminal
from hakmem_tools.bench import drawn, drawn_text, runner, session, stats, summary
from hakmem_tools.bench.drawn import RSS, TIME
from hakmem_tools.bench.places import BenchError, Places

BROKEN = make_run(1, problem="killed by SIGSEGV")


def entry(*ms: float, mb: float = 2) -> dict[str, Any]:
    """An allocator's rounds, each with the same peak."""
    return make_entry(*({**make_run(t), "maxrss_kb": round(mb * 1000)} for t in ms))


def workload(seed: int, **entries: dict[str, Any]) -> dict[str, Any]:
    """A workload of a result."""
    benchmark = make_benchmark(f"drawn-{seed}", "drawn", **entries)
    return {**benchmark, "what": f"{seed} threads, any first"}


def three() -> runner.Result:
    """Behind `fast` twice (2, 1.5), ahead of all once (0.5); `lean` is lean, and fails once."""
    return make_result(
        workload(4, hakmem=entry(10, mb=4), fast=entry(20, mb=8), lean=entry(40, mb=2)),
        workload(5, hakmem=entry(90, 20, 10, mb=2), fast=entry(10, mb=4), lean=entry(80, mb=1)),
        workload(6, hakmem=entry(30, mb=6), fast=entry(20, mb=3), lean=make_entry(BROKEN)),
    )


# ---- the evaluation ----


def test_others_are_relative_to_hakmem_over_what_both_completed() -> None:
    fast, lean = drawn.others(drawn.workloads(three()))
    # Times 20/10, 10/20, 20/30; memory 8/4, 4/2, 3/6.
    assert (fast.pair.allocator, fast.pair.count, fast.failed) == ("fast", 3, 0)
    assert fast.pair.time == pytest.approx((2 * 0.5 * 2 / 3) ** (1 / 3))
    assert fast.pair.rss == pytest.approx(2 ** (1 / 3))
    assert (fast.faster, fast.leaner) == (2, 1)
    # Times 40/10, 80/20; memory 2/4, 1/2; the third failed.
    assert (lean.pair.allocator, lean.pair.count, lean.failed) == ("lean", 2, 1)
    assert (lean.pair.time, lean.pair.rss) == (pytest.approx(4), pytest.approx(0.5))
    assert (lean.faster, lean.leaner) == (0, 2)


def test_equally_fast_is_not_faster() -> None:
    (other,) = drawn.others(drawn.workloads(make_result(workload(1, hakmem=entry(5), o=entry(5)))))
    assert (other.faster, other.leaner, other.pair.time) == (0, 0, pytest.approx(1))


def test_hakmem_is_compared_with_the_best_of_each_workload() -> None:
    found = drawn.workloads(three())
    assert [w.ratio(TIME) for w in found] == [0.5, 2.0, 1.5]
    time, rss = drawn.against_best(found, TIME), drawn.against_best(found, RSS)
    assert time is not None and rss is not None
    assert (time.mean, time.median) == (pytest.approx(1.5 ** (1 / 3)), 1.5)
    assert (time.high, time.worst, time.worst_seed, time.count) == (2.0, 2.0, 5, 3)
    # 4/2 and 2/1 of `lean`, which failed in the third: 6/3 of `fast`.
    assert [w.ratio(RSS) for w in found] == [2.0, 2.0, 2.0]
    assert (rss.mean, rss.worst_seed) == (pytest.approx(2), 4)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (9, 9), (10, 9), (11, 10), (60, 54)])
def test_nine_of_ten_are_not_above_the_percentile(count: int, expected: int) -> None:
    assert stats.percentile(list(range(count, 0, -1)), 90) == expected


def test_the_worst_come_first() -> None:
    found = drawn.workloads(three())
    assert [w.seed for w in drawn.worst_first(found, TIME)] == [5, 6, 4]
    assert [w.seed for w in drawn.worst_first(found, RSS)] == [4, 5, 6]


def test_a_failure_of_hakmem_is_worse_than_all_and_in_no_figure() -> None:
    result = make_result(
        workload(1, hakmem=entry(30), glibc=entry(10)),
        workload(2, hakmem=make_entry(make_run(1), BROKEN), glibc=entry(10, 10)),
        workload(3, hakmem=entry(10), glibc=make_entry(BROKEN)),
    )
    found = drawn.workloads(result)
    assert [w.seed for w in drawn.worst_first(found, TIME)] == [2, 1, 3]
    best = drawn.against_best(found, TIME)
    assert best is not None and (best.count, best.worst) == (1, 3.0)
    (glibc,) = drawn.others(found)
    assert (glibc.pair.count, glibc.failed, glibc.faster) == (1, 1, 1)


def test_without_another_that_completed_there_is_nothing_to_compare() -> None:
    found = drawn.workloads(make_result(workload(1, hakmem=entry(1), glibc=make_entry(BROKEN))))
    assert drawn.against_best(found, TIME) is None
    assert "nothing to compare" in drawn_text.best_line(found)


def test_only_drawn_workloads_count_and_their_names_say_the_seed() -> None:
    other = make_benchmark("drawn-9", "small", hakmem=entry(1))
    assert [w.seed for w in drawn.workloads(make_result(other, workload(3, hakmem=entry(1))))] == [
        3
    ]
    odd = make_benchmark("drawn-x", "drawn", hakmem=entry(1))
    with pytest.raises(BenchError, match="'drawn-x' is no name"):
        drawn.workloads(make_result(odd))


# ---- the description ----


def test_the_program_says_what_is_drawn(tmp_path: Path) -> None:
    script = '[ "$2" = describe ] && echo "drawn $1: $(($1 * 2)) threads; 3% handed" && echo more'
    found = drawn.benchmarks(7, 2, places_of(program(tmp_path, "drawn", script)))
    assert [(b.name, b.what) for b in found] == [
        ("drawn-7", "14 threads; 3% handed"),
        ("drawn-8", "16 threads; 3% handed"),
    ]
    assert {b.group for b in found} == {"drawn"}
    for quick in (False, True):
        assert found[1].command_for(quick) == ("drawn", "8")
    assert not found[0].idle


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no such seed >&2; exit 2", "`drawn 7 describe` failed: no such seed"),
        ("echo 'drawn 8: 1 threads'", "does not say what it draws: 'drawn 8: 1 threads'"),
        ("echo 'drawn 7: '", "does not say what it draws"),
        ("true", "does not say what it draws: ''"),
    ],
)
def test_a_program_that_does_not_say_it_is_an_error(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(BenchError) as error:
        drawn.benchmarks(7, 1, places_of(program(tmp_path, "drawn", script)))
    assert said in str(error.value)


def test_a_program_that_is_not_built_or_does_not_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"bench/drawn is not built: run `make bench-quick`"):
        drawn.benchmarks(0, 1, places_of(tmp_path))
    program(tmp_path, "drawn", "true").joinpath("bench", "drawn").chmod(0o644)
    with pytest.raises(BenchError, match="does not run"):
        drawn.benchmarks(0, 1, places_of(tmp_path))


# ---- what is shown ----


def shown(result: runner.Result, width: int = 200, worst: int = drawn_text.WORST) -> str:
    """What the terminal shows."""
    return terminal(functools.partial(drawn_text.show, worst=worst), result, width)


def test_the_terminal_shows_where_hakmem_is_furthest_behind() -> None:
    lines = shown(three(), worst=2).splitlines()
    (behind,) = (i for i, line in enumerate(lines) if "the fastest other: the worst 2 of 3" in line)
    (lean,) = (i for i, line in enumerate(lines) if "the leanest: the worst 2 of 3" in line)
    cells = [line.split() for line in lines if line.split()]
    assert ["fast", "3", "0.87", "2", "1.26", "1", "-"] in cells
    assert ["lean", "2", "4.00", "0", "0.50", "2", "1"] in cells
    numbers = [line.split()[0] for line in lines[behind:lean] if line.strip()[:1].isdigit()]
    assert numbers == ["5", "6"]
    row = next(line for line in lines[behind:] if line.split()[:1] == ["5"])
    expected = "5 20 10 (fast) 2.00 2.0 1.0 (lean) 2.00 5 threads, any first"
    assert " ".join(row.split()) == expected
    assert "FAILED: drawn-6 under lean: killed by SIGSEGV (in 1 of 1 rounds)" in lines
    assert any("`drawn SEED`" in line for line in lines)


def test_a_narrow_terminal_shows_what_was_drawn_below() -> None:
    said = shown(three(), width=100, worst=1)
    assert said.count("  5: 5 threads, any first\n") == 1
    assert "what was drawn" not in said
    assert "the worst" not in shown(three(), worst=0)
    assert "…" not in shown(three(), width=60)


def test_the_page_names_all_seeds_and_is_the_same_each_time(tmp_path: Path) -> None:
    written = drawn_text.write(three(), tmp_path / "results" / "d.json", tmp_path)
    page = written.read_text(encoding="utf-8")
    assert written == tmp_path / "drawn.md"
    assert page == drawn_text.page(three(), "results/d.json")
    assert page.startswith(drawn_text.GENERATED)
    rows = [
        "| 5 | 20 | 10 (fast) | 2.00 | 2.0 | 1.0 (lean) | 2.00 | 5 threads, any first |",
        "| 6 | 30 | 20 (fast) | 1.50 | 6.0 | 3.0 (fast) | 2.00 | 6 threads, any first |",
        "| 4 | 10 | 20 (fast) | 0.50 | 4.0 | 2.0 (lean) | 2.00 | 4 threads, any first |",
    ]
    assert "\n".join(rows) in page
    assert "| lean | 2 | 4.00 | 0 | 0.50 | 2 | 1 |" in page
    assert (
        "time 1.14 (median 1.50, 90th percentile 2.00, worst 2.00 with seed 5; 3 of 3 workloads)"
        in page
    )
    assert "peak RSS 2.00 (median 2.00, 90th percentile 2.00, worst 2.00 with seed 4; 3 of" in page
    assert "- drawn-6 under lean: killed by SIGSEGV" in page
    assert "The seeds follow each other from 4 to 6, none is left out;" in page


def test_the_page_shows_a_failure_of_hakmem_first() -> None:
    result = make_result(
        workload(1, hakmem=entry(90), glibc=entry(10)),
        workload(2, hakmem=make_entry(BROKEN), glibc=entry(10)),
    )
    page = drawn_text.page(result, "d.json")
    failed = page.index("| 2 | FAILED | 10 (glibc) | - | FAILED | 2.0 (glibc) | - | 2 threads")
    assert failed < page.index("| 1 | 90 |")
    assert "- drawn-2 under hakmem: killed by SIGSEGV" in page


def test_the_page_says_if_seeds_are_left_out_or_were_not_reached() -> None:
    result = make_result(workload(3, hakmem=entry(1)), workload(6, hakmem=entry(1)))
    result["complete"] = False
    page = drawn_text.page(result, "d.json")
    assert "from 3 to 6, but 2 of them are LEFT OUT; the measurement was ended before" in page


# ---- the command ----


SCRIPT = """
[ "$2" = describe ] && echo "drawn $1: nothing much" && exit
case "$LD_PRELOAD" in *FAILS*) [ "$1" != 5 ] || exit 3 ;; esac
echo "drawn: 1.0 M ops/s, elapsed 1000000 ns, checksum 000000000000000$1"
"""


def fake_build(built: Places, folder: Path, fails: str) -> Path:
    """A build whose `drawn` does nothing, and fails with seed 5 under one library."""
    return complete(built, folder, "drawn", SCRIPT.replace("FAILS", fails))


@pytest.mark.parametrize(("fails", "status"), [("nobody", 0), ("libhakmem", 1), ("mine", 1)])
def test_the_status_says_whether_hakmem_or_a_library_failed(
    built: Places, tmp_path: Path, fails: str, status: int
) -> None:
    build, mine = fake_build(built, tmp_path, fails), tmp_path / "mine.so"
    mine.symlink_to(built.library)
    done = bench(
        *("drawn", "--first", "4", "--count", "2", "--rounds", "1", "--allocators", "hakmem,glibc"),
        *("--lib", f"own={mine}", "--build", str(build), "--output", str(tmp_path / "out")),
    )
    assert done.returncode == status, done.stdout + done.stderr
    name = {"libhakmem": "hakmem", "mine": "own"}.get(fails, "")
    assert (f"FAILED: drawn-5 under {name}: exit status 3" in done.stdout) == bool(status)
    result = summary.read_result(tmp_path / "out")
    assert [(b["name"], b["what"]) for b in result["benchmarks"]] == [
        ("drawn-4", "nothing much"),
        ("drawn-5", "nothing much"),
    ]
    assert list(result["benchmarks"][0]["results"]) == ["hakmem", "glibc", "own"]
    made = bench("drawn-docs", str(tmp_path / "out"), "--folder", str(tmp_path))
    assert made.returncode == 0, made.stderr
    assert "nothing much" in (tmp_path / "drawn.md").read_text(encoding="utf-8")


def test_a_failure_of_a_peer_is_shown_and_does_not_set_the_status() -> None:
    assert not session.failed_here(three(), [])
    assert session.failed_here(three(), ["lean=/tmp/lean.so"])
    assert "FAILED: drawn-6 under lean" in shown(three())


def test_without_hakmem_or_the_program_nothing_is_measured(built: Places, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = bench("drawn", "--allocators", "glibc", "--output", str(out))
    assert done.returncode == 2
    assert "all is relative to hakmem" in done.stderr
    build = fake_build(built, tmp_path, "nobody")
    (build / "bench" / "drawn").unlink()
    done = bench("drawn", "--build", str(build), "--allocators", "hakmem", "--output", str(out))
    assert done.returncode == 2
    assert "drawn is not built: run `make bench-quick`" in done.stderr
    assert not out.exists()


def test_a_result_of_something_else_makes_no_page(tmp_path: Path) -> None:
    for other in (
        make_result(make_benchmark("drawn-1", "memory", hakmem=entry(1))),
        make_result(workload(1, glibc=entry(1))),
    ):
        (tmp_path / "result.json").write_text(json.dumps(other), encoding="utf-8")
        done = bench("drawn-docs", str(tmp_path), "--folder", str(tmp_path))
        assert done.returncode == 2
        assert "is no result of `hakmem bench drawn`" in done.stderr
        assert not (tmp_path / "drawn.md").exists()
