# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of latency: what there is to choose from, what follows from a result, page and command."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from fake_build import LIST, bench, complete, terminal
from hakmem_tools.bench import latency, latency_text, runner, session, summary, text
from hakmem_tools.bench.places import BenchError, Places

BROKEN = make_run(1, problem="killed by SIGSEGV")


def run(
    ms: float = 10, peak: float = 2000, freed: float = 1000, **metrics: float
) -> dict[str, Any]:
    """A round in which what is not named is 100 ns, or 1 percent; memory in kB."""
    said = {name: 1 if name.endswith("slow") else 100 for name in latency.METRICS} | metrics
    units = {name: "percent" if name.endswith("slow") else "ns" for name in said}
    values = {name: [said[name], units[name]] for name in said} | {"rss_freed": [freed, "kB"]}
    return {**make_run(ms), "maxrss_kb": peak, "metrics": values}


def entry(
    ms: float = 10, peak: float = 2000, freed: float = 1000, **metrics: float
) -> dict[str, Any]:
    """An allocator's only round."""
    return make_entry(run(ms, peak, freed, **metrics))


def workload(name: str, **entries: dict[str, Any]) -> dict[str, Any]:
    """A workload of a result."""
    benchmark = make_benchmark(f"latency-{name}", "latency", **entries)
    return {**benchmark, "what": f"all that is {name}"}


def four() -> runner.Result:
    """hakmem is ahead, behind, alone with who fails, and fails; `fat` fails once."""
    return make_result(
        workload(
            "calm",
            glibc=entry(30, 6000, 9000, free_p9999=800, free_max=5e6, alloc_p99=50),
            hakmem=entry(10, free_p9999=200, free_max=1e6, alloc_p9999=400),
            fat=entry(40, free_p9999=400, free_max=2e6, alloc_p9999=1600),
        ),
        workload(
            "busy",
            glibc=entry(10, free_p9999=100, alloc_p99=25),
            hakmem=make_entry(
                run(10, free_p9999=300), run(20, free_p9999=70), run(90, free_p9999=9000)
            ),
            fat=make_entry(BROKEN),
        ),
        workload("lone", hakmem=entry(), glibc=make_entry(BROKEN), fat=make_entry(BROKEN)),
        workload("torn", hakmem=make_entry(run(), BROKEN), glibc=entry(), fat=entry()),
    )


# ---- the evaluation ----


def test_each_allocator_is_relative_to_hakmem_over_what_both_completed() -> None:
    ours, glibc, fat = latency.standings(latency.workloads(four()))
    assert (ours.allocator, ours.count, ours.failed) == ("hakmem", 3, 1)
    assert set(ours.means) == set(latency.MEANS)
    assert all(mean == pytest.approx(1) for mean in ours.means.values())
    # Of calm and busy: 800/200, 100/300, as hakmem's median of 70, 300, 9000 is 300.
    assert (glibc.allocator, glibc.count, glibc.failed) == ("glibc", 2, 1)
    assert glibc.means["free_p9999"] == pytest.approx((4 / 3) ** 0.5)
    assert glibc.means["free_max"] == pytest.approx(5**0.5)
    assert glibc.means["alloc_p99"] == pytest.approx((0.5 * 0.25) ** 0.5)
    assert glibc.means["alloc_p9999"] == pytest.approx(0.25**0.5)
    assert glibc.means["free_p99"] == pytest.approx(1)
    # Times 30/10, 10/20.
    assert glibc.means["time"] == pytest.approx(1.5**0.5)
    # Memory of calm three and nine times hakmem's, of busy the same.
    assert glibc.means["peak"] == pytest.approx(3**0.5)
    assert glibc.means["left"] == pytest.approx(3)
    # Of calm alone.
    assert (fat.allocator, fat.count, fat.failed) == ("fat", 1, 2)
    assert fat.means["alloc_p9999"] == pytest.approx(4)
    assert fat.means["time"] == pytest.approx(4)


def test_what_took_0_ns_counts_as_1() -> None:
    (found,) = latency.workloads(
        make_result(
            workload("a", hakmem=entry(free_max=0), glibc=entry(free_max=0), o=entry(free_max=30))
        )
    )
    assert found.ratio("free_max", "o", "hakmem") == 30
    assert found.ratio("free_max", "hakmem", "o") == pytest.approx(1 / 30)
    assert found.ratio("free_max", "glibc", "hakmem") == 1
    assert found.best_other("free_max") == "glibc"
    assert latency_text.shown(found, "hakmem", "free_max") == "0 ns"


def test_the_worst_come_first_before_all_a_failure_and_last_who_is_alone() -> None:
    found = latency.worst_first(latency.workloads(four()))
    said = [(one.workload.name, one.value, one.best, one.ratio) for one in found]
    assert said == [
        ("torn", "free_p9999", "glibc", None),
        ("torn", "free_max", "glibc", None),
        ("torn", "alloc_p9999", "glibc", None),
        ("calm", "alloc_p9999", "glibc", 4.0),
        ("busy", "free_p9999", "glibc", 3.0),
        ("busy", "free_max", "glibc", 1.0),
        ("busy", "alloc_p9999", "glibc", 1.0),
        ("calm", "free_p9999", "fat", 0.5),
        ("calm", "free_max", "fat", 0.5),
        ("lone", "free_p9999", None, None),
        ("lone", "free_max", None, None),
        ("lone", "alloc_p9999", None, None),
    ]


def test_hakmem_is_compared_with_the_best_of_each_workload() -> None:
    found = latency.workloads(four())
    # 200/400 and 300/100; the others have nothing to compare.
    best = latency.against_best(found, "free_p9999")
    assert best is not None
    assert best.mean == pytest.approx(1.5**0.5)
    assert (best.behind, best.worst, best.worst_workload, best.count) == (1, 3.0, "busy", 2)
    assert latency_text.best_line(found) == (
        "hakmem against the best other allocator of each workload, geometric means, below 1.00 it "
        "is ahead: free p99.99 1.22 (longer in 1 of 2 workloads, worst 3.00, busy); free max 0.71 "
        "(longer in 0 of 2 workloads, worst 1.00, busy); alloc p99.99 2.00 (longer in 1 of 2 "
        "workloads, worst 4.00, calm)."
    )


def test_alone_hakmem_is_not_called_the_best() -> None:
    for result in (
        make_result(workload("a", hakmem=entry())),
        make_result(workload("a", hakmem=entry(), o=make_entry(BROKEN))),
        make_result(workload("a", hakmem=make_entry(BROKEN), o=entry())),
    ):
        found = latency.workloads(result)
        assert latency.against_best(found, "free_max") is None
        assert "nothing to compare" in latency_text.best_line(found)


def test_what_nobody_completed_is_shown_without_figures() -> None:
    broken = {"hakmem": make_entry(BROKEN), "glibc": make_entry(BROKEN)}
    found = latency.workloads(make_result(workload("a", **broken)))
    assert latency_text.cells(found[0]) == [["hakmem", "FAILED"], ["glibc", "FAILED"]]
    nothing = ["-"] * len(latency.MEANS)
    assert latency_text.means_lines(found) == [
        ["hakmem", "0", *nothing, "1"],
        ["glibc", "0", *nothing, "1"],
    ]
    assert latency_text.best_lines(found)[0] == ["a", "free p99.99", "FAILED", "-", "-"]


def test_what_was_not_measured_did_not_fail() -> None:
    result = make_result(workload("a", glibc=entry()), workload("b", hakmem=entry(), glibc=entry()))
    found = latency.workloads(result)
    assert latency_text.cells(found[0])[0] == ["hakmem", "-"]
    assert latency_text.best_lines(found)[0] == ["a", "free p99.99", "-", "100 ns (glibc)", "-"]
    assert [(s.count, s.failed) for s in latency.standings(found)] == [(1, 0), (1, 0)]


def without(name: str) -> dict[str, Any]:
    """A round that does not say one value."""
    said = run()
    del said["metrics"][name]
    return said


@pytest.mark.parametrize(
    "glibc",
    [
        *(make_entry(without(name)) for name in latency.METRICS),
        make_entry(run(), without("free_p50"), run()),
        entry(alloc_max=-1),
        entry(free_slow=float("nan")),
        make_entry(),
    ],
)
def test_a_result_without_a_metric_is_damaged(glibc: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match="damaged: in latency-a a metric of latency is missing"):
        latency.workloads(make_result(workload("a", hakmem=entry(), glibc=glibc)))


def test_a_failure_need_not_have_metrics() -> None:
    result = make_result(workload("a", hakmem=entry(), glibc=make_entry(make_run(1), BROKEN)))
    assert latency.workloads(result)[0].value("glibc", "free_max") is None


def test_only_latency_counts_and_names_say_so() -> None:
    other = make_benchmark("latency-b", "small", hakmem=make_entry(make_run(1)))
    found = latency.workloads(make_result(other, workload("a", hakmem=entry())))
    assert [w.name for w in found] == ["a"]
    odd = make_benchmark("b", "latency", hakmem=entry())
    with pytest.raises(BenchError, match="'b' is no name of a workload"):
        latency.workloads(make_result(odd))


# ---- what is shown ----


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        *((None, "-"), (0, "0 ns"), (231, "231 ns"), (999.4, "999 ns"), (999.5, "1.0 us")),
        *((4_567, "4.6 us"), (99_949, "99.9 us"), (99_950, "100 us"), (999_499, "999 us")),
        *((999_500, "1.00 ms"), (1_204_000, "1.20 ms"), (9_994_000, "9.99 ms")),
        *((9_995_000, "10.0 ms"), (99_950_000, "100 ms"), (1_234_500_000, "1,234 ms")),
    ],
)
def test_a_time_has_the_unit_of_its_size(ns: float | None, said: str) -> None:
    assert text.nanoseconds(ns) == said


def shown(result: runner.Result, width: int = 240) -> str:
    """What the terminal shows."""
    return terminal(latency_text.show, result, width)


def test_the_terminal_shows_where_hakmem_is_behind() -> None:
    lines = [" ".join(line.split()) for line in shown(four()).splitlines()]
    begin = lines.index("calm: all that is calm")
    assert lines[begin + 2] == (
        "elapsed ms peak MB freed MB alloc p50 alloc p99 alloc p99.9 alloc p99.99 alloc max alloc slow "
        "free p50 free p99 free p99.9 free p99.99 free max free slow"
    )
    assert lines[begin + 4 : begin + 7] == [
        "hakmem 10 2.0 1.0 100 ns 100 ns 100 ns 400 ns 100 ns 1.0% "
        "100 ns 100 ns 100 ns 200 ns 1.00 ms 1.0%",
        "glibc 30 6.0 9.0 100 ns 50 ns 100 ns 100 ns 100 ns 1.0% "
        "100 ns 100 ns 100 ns 800 ns 5.00 ms 1.0%",
        "fat 40 2.0 1.0 100 ns 100 ns 100 ns 1.6 us 100 ns 1.0% "
        "100 ns 100 ns 100 ns 400 ns 2.00 ms 1.0%",
    ]
    assert "fat FAILED" in lines
    begin = lines.index("torn alloc p99.99 FAILED 100 ns (glibc) -")
    assert lines[begin + 1 : begin + 3] == [
        "calm alloc p99.99 400 ns 100 ns (glibc) 4.00",
        "busy free p99.99 300 ns 100 ns (glibc) 3.00",
    ]
    assert "lone free p99.99 100 ns - -" in lines
    assert "glibc 2 0.35 1.00 0.50 1.00 1.00 1.15 1.00 2.24 1.22 1.73 3.00 1" in lines
    assert "FAILED: latency-torn under hakmem: killed by SIGSEGV (in 1 of 2 rounds)" in lines
    assert "FAILED: latency-busy under fat: killed by SIGSEGV (in 1 of 1 rounds)" in lines
    assert any("`latency NAME`" in line for line in lines)


def test_a_narrow_terminal_shows_allocations_and_frees_apart() -> None:
    lines = [" ".join(line.split()) for line in shown(four(), width=100).splitlines()]
    assert lines.count("calm: all that is calm") == 2
    assert "hakmem 10 2.0 1.0 100 ns 100 ns 100 ns 400 ns 100 ns 1.0%" in lines
    assert "hakmem 10 2.0 1.0 100 ns 100 ns 100 ns 200 ns 1.00 ms 1.0%" in lines
    assert "…" not in shown(four(), width=60)


def test_the_page_shows_all_workloads_and_is_the_same_each_time(tmp_path: Path) -> None:
    written = latency_text.write(four(), tmp_path / "results" / "l.json", tmp_path)
    page = written.read_text(encoding="utf-8")
    assert written == tmp_path / "latency.md"
    assert page == latency_text.page(four(), "results/l.json")
    assert page.startswith(latency_text.GENERATED)
    means = [
        "|  | workloads | alloc p99 | alloc p99.9 | alloc p99.99 | free p99 | free p99.9 | "
        "free p99.99 | alloc max | free max | time | peak RSS | RSS freed | failed in |",
        "| --- |" + " ---: |" * 13,
        "| hakmem | 3 |" + " 1.00 |" * 11 + " 1 |",
        "| glibc | 2 | 0.35 | 1.00 | 0.50 | 1.00 | 1.00 | 1.15 | 1.00 | 2.24 | 1.22 | 1.73 | 3.00 | 1 |",
        "| fat | 1 | 1.00 | 1.00 | 4.00 | 1.00 | 1.00 | 2.00 | 1.00 | 2.00 | 4.00 | 1.00 | 1.00 | 2 |",
    ]
    assert "\n".join(means) in page
    assert (
        "| torn | alloc p99.99 | FAILED | 100 ns (glibc) | - |\n"
        "| calm | alloc p99.99 | 400 ns | 100 ns (glibc) | 4.00 |\n"
        "| busy | free p99.99 | 300 ns | 100 ns (glibc) | 3.00 |\n"
    ) in page
    busy = page.index(
        "### busy\n\nall that is busy: `latency busy`.\n\n|  | elapsed ms | peak MB |"
    )
    assert page.index("### calm") < busy < page.index("### lone")
    alloc, free = " | ".join(["100 ns"] * 5), "100 ns | 100 ns | 100 ns | 300 ns | 100 ns"
    assert f"| hakmem | 20 | 2.0 | 1.0 | {alloc} | 1.0% | {free} | 1.0% |" in page
    assert "| fat | FAILED |  |  |" in page
    assert "- latency-torn under hakmem: killed by SIGSEGV" in page
    assert "free p99.99 1.22 (longer in 1 of 2 workloads, worst 3.00, busy)" in page
    assert "| gone | not measured: not built: no compiler |" in page
    assert "The raw figures are in `results/l.json`" in page
    assert "build/release/hakmem bench --rounds 2" in page
    assert "ended before" not in page


def test_the_page_says_what_the_figures_cannot_say() -> None:
    page = latency_text.page(four(), "s")
    for limit in ("interrupts a program", "reading, about 20 to 30 ns", "Huge pages", "1 ns"):
        assert limit in page


def test_the_page_says_if_the_last_was_not_reached() -> None:
    page = latency_text.page({**four(), "complete": False}, "s")
    assert "ended before the last workload" in page


# ---- the command ----


SCRIPT = f"""
{LIST}
case "$LD_PRELOAD" in *FAILS*) [ "$1" != last ] || exit 3 ;; esac
echo "latency: 1.0 M ops/s, elapsed 1000000 ns, checksum 0123456789abcdef"
for calls in alloc free; do
    for point in p50 p99 p999 p9999 max; do
        echo "latency: metric ${{calls}}_$point 1500.0 ns"
    done
    [ "$1" = thin_1 ] || echo "latency: metric ${{calls}}_slow 2.5 percent"
done
echo "latency: metric rss_freed 7000.0 kB"
"""


def fake_build(built: Places, folder: Path, fails: str) -> Path:
    """A build whose `latency` does nothing, and fails in one of them under one library."""
    return complete(built, folder, "latency", SCRIPT.replace("FAILS", fails))


@pytest.mark.parametrize(("fails", "status"), [("nobody", 0), ("libhakmem", 1), ("mine", 1)])
def test_the_status_says_whether_hakmem_or_a_library_failed(
    built: Places, tmp_path: Path, fails: str, status: int
) -> None:
    build, mine = fake_build(built, tmp_path, fails), tmp_path / "mine.so"
    mine.symlink_to(built.library)
    done = bench(
        *("latency", "--rounds", "1", "--allocators", "hakmem,glibc", "--lib", f"own={mine}"),
        *("--build", str(build), "--output", str(tmp_path / "out"), "last", "wide"),
    )
    assert done.returncode == status, done.stdout + done.stderr
    name = {"libhakmem": "hakmem", "mine": "own"}.get(fails, "")
    assert (f"FAILED: latency-last under {name}: exit status 3" in done.stdout) == bool(status)
    result = summary.read_result(tmp_path / "out")
    assert [b["name"] for b in result["benchmarks"]] == ["latency-wide", "latency-last"]
    assert list(result["benchmarks"][0]["results"]) == ["hakmem", "glibc", "own"]
    made = bench("latency-docs", str(tmp_path / "out"), "--folder", str(tmp_path))
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "latency.md").read_text(encoding="utf-8")
    assert "### wide\n\npages, 3%: few: `latency wide`." in page
    values = r" \| ".join([r"1\.5 us"] * 5)
    assert re.search(
        rf"\| glibc \| 1 \| \d+\.\d \| 7\.0 \| {values} \| 2\.5% \| {values} \| 2\.5% \|",
        page,
    )


def test_a_failure_of_a_peer_does_not_set_the_status() -> None:
    result = make_result(workload("a", hakmem=entry(), fat=make_entry(BROKEN)))
    assert not session.failed_here(result, [])
    assert "FAILED: latency-a under fat" in shown(result)


def test_without_hakmem_or_a_workload_nothing_is_measured(built: Places, tmp_path: Path) -> None:
    build, out = fake_build(built, tmp_path, "nobody"), tmp_path / "out"
    for arguments, expected in (
        (["--allocators", "glibc"], "all is relative to hakmem"),
        (["--allocators", "hakmem", "thick"], "there are: wide, thin_1, last"),
    ):
        done = bench("latency", *arguments, "--build", str(build), "--output", str(out))
        assert done.returncode == 2
        assert expected in done.stderr
    (build / "bench" / "latency").unlink()
    done = bench("latency", "--build", str(build), "--allocators", "hakmem", "--output", str(out))
    assert done.returncode == 2
    assert "latency is not built: run `make bench-quick`" in done.stderr
    assert not out.exists()


def test_a_program_that_does_not_say_a_metric_is_an_error(built: Places, tmp_path: Path) -> None:
    build, out = fake_build(built, tmp_path, "nobody"), tmp_path / "out"
    done = bench(
        *("latency", "--rounds", "1", "--allocators", "hakmem", "--build", str(build)),
        *("--output", str(out), "thin_1"),
    )
    assert done.returncode == 2
    assert "damaged: in latency-thin_1" in done.stderr
    assert (out / "result.json").is_file()


def test_a_result_of_something_else_makes_no_page(tmp_path: Path) -> None:
    for other in (
        make_result(make_benchmark("latency-a", "memory", hakmem=entry())),
        make_result(workload("a", glibc=entry())),
    ):
        (tmp_path / "result.json").write_text(json.dumps(other), encoding="utf-8")
        done = bench("latency-docs", str(tmp_path), "--folder", str(tmp_path))
        assert done.returncode == 2
        assert "is no result of `hakmem bench latency`" in done.stderr
        assert not (tmp_path / "latency.md").exists()
