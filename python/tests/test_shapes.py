# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of shapes: what there is to choose from, what follows from a result, page and command."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from fake_build import LIST, bench, complete, terminal
from hakmem_tools.bench import runner, session, shapes, shapes_text, summary
from hakmem_tools.bench.places import BenchError, Places

BROKEN = make_run(1, problem="killed by SIGSEGV")
MUST_KB = 2000


def run(mb: float, ms: float = 10, must_kb: float = MUST_KB) -> dict[str, Any]:
    """A round with a peak and what must be held."""
    return {**make_run(ms, live_peak=must_kb), "maxrss_kb": round(mb * 1000)}


def entry(*mb: float, ms: float = 10) -> dict[str, Any]:
    """An allocator's rounds, of which each must hold 2 MB."""
    return make_entry(*(run(peak, ms) for peak in mb))


def shape(name: str, **entries: dict[str, Any]) -> dict[str, Any]:
    """A shape of a result."""
    benchmark = make_benchmark(f"shape-{name}", "shapes", **entries)
    return {**benchmark, "what": f"all that is {name}"}


def four() -> runner.Result:
    """hakmem is the leanest, 2.5 times it, 1.2 times, and fails; `fat` holds much, and fails once."""
    return make_result(
        shape("flat", glibc=entry(5), hakmem=entry(4), fat=entry(16, ms=20)),
        shape("long", glibc=entry(2), hakmem=entry(9, 5, 4), fat=entry(4)),
        shape("near", glibc=entry(5), hakmem=entry(6), fat=make_entry(BROKEN)),
        shape("torn", glibc=entry(2), hakmem=make_entry(run(2), BROKEN), fat=entry(4)),
    )


# ---- the evaluation ----


def test_each_allocator_is_held_against_what_it_must() -> None:
    found = shapes.shapes(four())
    assert [s.must_kb for s in found] == [MUST_KB] * 4
    ours, glibc, fat = shapes.standings(found)
    # 4/2, 5/2, 6/2; the last failed.
    assert (ours.allocator, ours.completed, ours.failed) == ("hakmem", 3, 1)
    assert ours.held == pytest.approx((2 * 2.5 * 3) ** (1 / 3))
    assert (ours.worst, ours.worst_shape, ours.double, ours.time) == (3.0, "near", 1, 1.0)
    # 5/2, 2/2, 5/2, 2/2.
    assert (glibc.allocator, glibc.completed, glibc.failed) == ("glibc", 4, 0)
    assert glibc.held == pytest.approx(2.5**0.5)
    assert (glibc.worst, glibc.worst_shape, glibc.double) == (2.5, "flat", 0)
    # 16/2, 4/2, 4/2; twice the leanest is not more than twice; times 20/10, 10/10.
    assert (fat.allocator, fat.completed, fat.failed) == ("fat", 3, 1)
    assert fat.held == pytest.approx((8 * 2 * 2) ** (1 / 3))
    assert (fat.worst, fat.worst_shape, fat.double) == (8.0, "flat", 1)
    assert fat.time == pytest.approx(2**0.5)


def test_the_worst_come_first_and_before_all_a_failure() -> None:
    found = shapes.worst_first(shapes.shapes(four()))
    assert [s.name for s in found] == ["torn", "long", "near", "flat"]
    assert [s.ratio("hakmem") for s in found] == [None, 2.5, 1.2, 1.0]


def test_the_sentence_counts_where_there_is_something_to_compare() -> None:
    found = shapes.shapes(four())
    assert shapes_text.leanest_line(found) == (
        "In 1 of 3 shapes hakmem is the leanest or within 10% of it, in 1 it holds more than 1.25 "
        "times as much as the leanest; the worst is long, 2.50 times as much. Not counted, because "
        "hakmem or all others did not complete them: torn."
    )
    bounds = make_result(
        shape("ten", hakmem=entry(11), o=entry(10)), shape("four", hakmem=entry(5), o=entry(4))
    )
    against = shapes.against_leanest(shapes.shapes(bounds))
    assert against == shapes.AgainstLeanest(2, near=1, far=0, worst=1.25, worst_shape="four")


def test_alone_hakmem_is_not_called_the_leanest() -> None:
    for result in (
        make_result(shape("a", hakmem=entry(4))),
        make_result(shape("a", hakmem=entry(4), o=make_entry(BROKEN))),
        make_result(shape("a", hakmem=make_entry(BROKEN), o=entry(4))),
    ):
        found = shapes.shapes(result)
        assert shapes.against_leanest(found) is None
        assert "nothing to compare" in shapes_text.leanest_line(found)


def test_what_nobody_completed_is_shown_without_figures() -> None:
    broken = {"hakmem": make_entry(BROKEN), "glibc": make_entry(BROKEN)}
    found = shapes.shapes(make_result(shape("a", **broken)))
    assert shapes_text.cells(found) == [["a", "-", "FAILED", "FAILED"]]
    assert shapes_text.held_lines(found) == [
        ["hakmem", "0", "-", "-", "0", "1", "-"],
        ["glibc", "0", "-", "-", "0", "1", "-"],
    ]


@pytest.mark.parametrize(
    "glibc",
    [
        make_entry(make_run(1)),
        make_entry(run(4, must_kb=0)),
        make_entry(run(4, must_kb=-1)),
        make_entry(run(4, must_kb=MUST_KB + 1)),
        make_entry(run(4), make_run(1), run(4)),
        make_entry(run(0)),
        make_entry(),
    ],
)
def test_a_result_that_does_not_say_what_must_be_held_is_damaged(glibc: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match="damaged: in shape-a the metric live_peak or a peak RSS"):
        shapes.shapes(make_result(shape("a", hakmem=entry(4), glibc=glibc)))


def test_a_failure_need_not_say_what_must_be_held() -> None:
    result = make_result(shape("a", hakmem=entry(4), glibc=make_entry(make_run(1), BROKEN)))
    assert shapes.shapes(result)[0].must_kb == MUST_KB


def test_only_shapes_count_and_their_names_say_so() -> None:
    other = make_benchmark("shape-b", "small", hakmem=make_entry(make_run(1)))
    found = shapes.shapes(make_result(other, shape("a", hakmem=entry(4))))
    assert [s.name for s in found] == ["a"]
    odd = make_benchmark("b", "shapes", hakmem=entry(4))
    with pytest.raises(BenchError, match="'b' is no name of a shape"):
        shapes.shapes(make_result(odd))


# ---- what is shown ----


def shown(result: runner.Result, width: int = 200) -> str:
    """What the terminal shows."""
    return terminal(shapes_text.show, result, width)


def test_the_terminal_shows_where_hakmem_is_behind() -> None:
    lines = [" ".join(line.split()) for line in shown(four()).splitlines()]
    assert "hakmem 3 2.47 3.00 (near) 1 1 1.00" in lines
    assert "fat 3 3.17 8.00 (flat) 1 1 1.41" in lines
    begin = lines.index("torn 2.0 FAILED 2.0 (1.00) 4.0 (2.00)")
    assert lines[begin + 1 : begin + 4] == [
        "long 2.0 5.0 (2.50) 2.0 (1.00) 4.0 (2.00)",
        "near 2.0 6.0 (1.20) 5.0 (1.00) FAILED",
        "flat 2.0 4.0 (1.00) 5.0 (1.25) 16.0 (4.00)",
    ]
    assert "long: all that is long" in lines
    assert "FAILED: shape-torn under hakmem: killed by SIGSEGV (in 1 of 2 rounds)" in lines
    assert "FAILED: shape-near under fat: killed by SIGSEGV (in 1 of 1 rounds)" in lines
    assert any("`shapes NAME`" in line for line in lines)
    assert "…" not in shown(four(), width=60)


def test_the_page_shows_all_shapes_and_is_the_same_each_time(tmp_path: Path) -> None:
    written = shapes_text.write(four(), tmp_path / "results" / "s.json", tmp_path)
    page = written.read_text(encoding="utf-8")
    assert written == tmp_path / "shapes.md"
    assert page == shapes_text.page(four(), "results/s.json")
    assert page.startswith(shapes_text.GENERATED)
    rows = [
        "|  | must hold MB | hakmem | glibc | fat |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| torn | 2.0 | FAILED | 2.0 (1.00) | 4.0 (2.00) |",
        "| long | 2.0 | 5.0 (2.50) | 2.0 (1.00) | 4.0 (2.00) |",
        "| near | 2.0 | 6.0 (1.20) | 5.0 (1.00) | FAILED |",
        "| flat | 2.0 | 4.0 (1.00) | 5.0 (1.25) | 16.0 (4.00) |",
    ]
    assert "\n".join(rows) in page
    assert "| hakmem | 3 | 2.47 | 3.00 (near) | 1 | 1 | 1.00 |\n| glibc | 4 | 1.58 |" in page
    assert "- **torn**: all that is torn\n- **long**: all that is long\n" in page
    assert "- shape-torn under hakmem: killed by SIGSEGV" in page
    assert "the worst is long, 2.50 times as much." in page
    assert "| gone | not measured: not built: no compiler |" in page
    assert "ended before" not in page


def test_the_page_says_if_the_last_was_not_reached() -> None:
    assert "ended before the last shape" in shapes_text.page({**four(), "complete": False}, "s")


# ---- the command ----


SCRIPT = f"""
{LIST}
case "$LD_PRELOAD" in *FAILS*) [ "$1" != last ] || exit 3 ;; esac
echo "shapes: 1.0 M ops/s, elapsed 1000000 ns, checksum 0123456789abcdef"
[ "$1" = thin_1 ] || echo "shapes: metric live_peak 100.5 kB"
"""


def fake_build(built: Places, folder: Path, fails: str) -> Path:
    """A build whose `shapes` does nothing, and fails in one of them under one library."""
    return complete(built, folder, "shapes", SCRIPT.replace("FAILS", fails))


@pytest.mark.parametrize(("fails", "status"), [("nobody", 0), ("libhakmem", 1), ("mine", 1)])
def test_the_status_says_whether_hakmem_or_a_library_failed(
    built: Places, tmp_path: Path, fails: str, status: int
) -> None:
    build, mine = fake_build(built, tmp_path, fails), tmp_path / "mine.so"
    mine.symlink_to(built.library)
    done = bench(
        *("shapes", "--rounds", "1", "--allocators", "hakmem,glibc", "--lib", f"own={mine}"),
        *("--build", str(build), "--output", str(tmp_path / "out"), "last", "wide"),
    )
    assert done.returncode == status, done.stdout + done.stderr
    name = {"libhakmem": "hakmem", "mine": "own"}.get(fails, "")
    assert (f"FAILED: shape-last under {name}: exit status 3" in done.stdout) == bool(status)
    result = summary.read_result(tmp_path / "out")
    assert [b["name"] for b in result["benchmarks"]] == ["shape-wide", "shape-last"]
    assert list(result["benchmarks"][0]["results"]) == ["hakmem", "glibc", "own"]
    made = bench("shapes-docs", str(tmp_path / "out"), "--folder", str(tmp_path))
    assert made.returncode == 0, made.stderr
    assert "- **wide**: pages, 3%: few" in (tmp_path / "shapes.md").read_text(encoding="utf-8")


def test_a_failure_of_a_peer_does_not_set_the_status() -> None:
    result = make_result(shape("a", hakmem=entry(4), fat=make_entry(BROKEN)))
    assert not session.failed_here(result, [])
    assert "FAILED: shape-a under fat" in shown(result)


def test_without_hakmem_or_a_shape_nothing_is_measured(built: Places, tmp_path: Path) -> None:
    build, out = fake_build(built, tmp_path, "nobody"), tmp_path / "out"
    for arguments, expected in (
        (["--allocators", "glibc"], "all is relative to hakmem"),
        (["--allocators", "hakmem", "thick"], "there are: wide, thin_1, last"),
    ):
        done = bench("shapes", *arguments, "--build", str(build), "--output", str(out))
        assert done.returncode == 2
        assert expected in done.stderr
    (build / "bench" / "shapes").unlink()
    done = bench("shapes", "--build", str(build), "--allocators", "hakmem", "--output", str(out))
    assert done.returncode == 2
    assert "shapes is not built: run `make bench-quick`" in done.stderr
    assert not out.exists()


def test_a_program_that_does_not_say_what_must_be_held_is_an_error(
    built: Places, tmp_path: Path
) -> None:
    build, out = fake_build(built, tmp_path, "nobody"), tmp_path / "out"
    done = bench(
        *("shapes", "--rounds", "1", "--allocators", "hakmem", "--build", str(build)),
        *("--output", str(out), "thin_1"),
    )
    assert done.returncode == 2
    assert "damaged: in shape-thin_1" in done.stderr
    assert (out / "result.json").is_file()


def test_a_result_of_something_else_makes_no_page(tmp_path: Path) -> None:
    for other in (
        make_result(make_benchmark("shape-a", "memory", hakmem=entry(1))),
        make_result(shape("a", glibc=entry(1))),
    ):
        (tmp_path / "result.json").write_text(json.dumps(other), encoding="utf-8")
        done = bench("shapes-docs", str(tmp_path), "--folder", str(tmp_path))
        assert done.returncode == 2
        assert "is no result of `hakmem bench shapes`" in done.stderr
        assert not (tmp_path / "shapes.md").exists()
