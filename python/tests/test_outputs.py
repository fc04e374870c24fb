# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of what is shown: a failure is in every output, the page loads nothing, the document is made."""

import re
from io import StringIO
from pathlib import Path

import fake_build
import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from hakmem_tools.bench import allocators, bounds_text, docs, html, learning_text, summary, table
from hakmem_tools.bench.places import BenchError
from hakmem_tools.bench.runner import Result
from rich.console import Console


@pytest.fixture
def result() -> Result:
    first = make_benchmark(
        "first",
        hakmem=make_entry(make_run(10, rss_idle=500), make_run(12)),
        glibc=make_entry(make_run(20, rss_idle=900), make_run(21)),
        broken=make_entry(make_run(1, problem="killed by SIGSEGV: <oh>"), make_run(1)),
    )
    second = make_benchmark(
        "second",
        hakmem=make_entry(make_run(30)),
        glibc=make_entry(make_run(20)),
        broken=make_entry(make_run(25)),
    )
    third = make_benchmark("third")
    third["skipped"] = "node is not installed: apt-get install nodejs"
    return make_result(first, second, third)


def terminal(result: Result, width: int = 200) -> str:
    out = StringIO()
    table.show(result, Console(file=out, width=width))
    return out.getvalue()


def test_the_terminal_shows_failures_skips_and_missing_allocators(result: Result) -> None:
    said = terminal(result)
    assert "broken FAILED: killed by SIGSEGV: <oh> (in 1 of 2 rounds)" in said
    assert "FAILED: first under broken" in said
    assert "skipped: node is not installed" in said
    assert "not measured: gone: not built" in said


def test_a_table_of_which_all_failed_is_a_title_and_its_failures() -> None:
    failed = make_benchmark(hakmem=make_entry(make_run(1, problem="lost")))
    lines = terminal(make_result(failed)).splitlines()
    assert lines[:2] == ["b: what it does", "  hakmem FAILED: lost (in 1 of 1 rounds)"]


def test_a_narrow_terminal_cuts_nothing_off(result: Result) -> None:
    assert "…" not in terminal(result, width=80)


def test_the_page_shows_the_same(result: Result) -> None:
    page = html.render(result)
    body = page[page.index("<body>") :]
    assert "killed by SIGSEGV: &lt;oh&gt;" in body
    assert "skipped: node is not installed" in body
    assert "not measured: not built: no compiler" in body
    assert "a &lt;fast&gt; one" in body


def test_the_page_is_complete_in_itself(result: Result) -> None:
    page = html.render(result)
    assert not re.search(r"<(script|img|iframe|source)[^>]*\ssrc\s*=", page)
    assert not re.search(r"<link\b", page)
    assert not re.search(r"@import|url\(\s*['\"]?https?:", page[: page.index("<script>")])
    assert "Plotly.newPlot" in page
    assert page.count("<script>") >= 1


def test_the_page_of_nothing_is_made() -> None:
    assert "<h2>Failures</h2>" in html.render(make_result())


def test_the_document_shows_losses_as_plainly_as_wins(result: Result, tmp_path: Path) -> None:
    source = tmp_path / "results" / "one.json"
    source.parent.mkdir()
    source.write_text("{}")
    files = docs.write(result, source, tmp_path)
    assert [f.name for f in files] == ["benchmarks.md", "means.svg", "time.svg", "rss.svg"]
    page = files[0].read_text()
    losing = page[page.index("## Where hakmem is not") : page.index("## Where hakmem is the")]
    winning = page[page.index("## Where hakmem is the") : page.index("## Failures")]
    assert "| second | 30 ms | 20 ms (glibc) | 1.50 |" in losing
    assert "| first | 11 ms | 20.5 ms (glibc) | 0.54 |" in winning
    assert "- first under broken: killed by SIGSEGV" in page
    assert "FAILED: killed by SIGSEGV" in page
    assert "build/release/hakmem bench --rounds 2" in page
    assert "`results/one.json`" in page
    assert "madvise" in page


def test_the_document_has_the_others_relative_to_hakmem(result: Result, tmp_path: Path) -> None:
    page = docs.write(result, tmp_path / "r.json", tmp_path)[0].read_text()
    assert "Each other allocator relative to hakmem" in page
    ratio = (20.5 / 11 * 20 / 30) ** 0.5
    assert f"| glibc | 2 | {ratio:.2f} | " in page


def test_nothing_is_relative_to_what_was_not_measured(result: Result) -> None:
    assert docs.pairs_part(summary.rows_of(result), "jemalloc") == []


def test_the_document_is_the_same_every_time(result: Result, tmp_path: Path) -> None:
    first = [f.read_bytes() for f in docs.write(result, tmp_path / "r.json", tmp_path / "a")]
    second = [f.read_bytes() for f in docs.write(result, tmp_path / "r.json", tmp_path / "b")]
    assert first == second


def test_a_run_that_was_ended_is_said_to_be(result: Result) -> None:
    for complete in (True, False):
        result["complete"] = complete
        assert ("This run was not completed" in terminal(result)) is not complete
        assert ("This run was not completed" in html.render(result)) is not complete
        page = docs.page(result, "r.json", "pictures")
        assert ("ended before the last benchmark" in page) is not complete


def test_who_completed_nothing_is_in_no_picture() -> None:
    """At 0 it would be the best of all."""
    failed = make_entry(make_run(1, problem="lost"))
    rows = summary.rows_of(
        make_result(make_benchmark(hakmem=failed, glibc=make_entry(make_run(2))))
    )
    means = summary.geometric_means(rows)
    assert [mean.allocator for mean in summary.known(means)] == ["glibc"]
    assert ">hakmem (1 failed)<" not in html.Plots().means(means)
    assert '"hakmem (1 failed)"' not in html.Plots().means(means)


def test_where_hakmem_failed_it_is_not_the_fastest() -> None:
    failed = make_entry(make_run(1, problem="lost"))
    rows = summary.rows_of(
        make_result(make_benchmark(hakmem=failed, glibc=make_entry(make_run(2))))
    )
    assert "In 1 more it failed: see [Failures](#failures)." in docs.verdict_part(rows)[2]


def test_where_all_others_failed_hakmem_is_the_fastest() -> None:
    """With its figures, and nobody beside them."""
    failed = make_entry(make_run(1, problem="lost"))
    rows = summary.rows_of(
        make_result(make_benchmark(hakmem=make_entry(make_run(2)), glibc=failed))
    )
    part = docs.verdict_part(rows)
    assert part.index("| b | 2 ms | none |  | 2.0 MB | none |  |") > part.index(
        "## Where hakmem is the fastest, or within 2% of it"
    )


def test_only_what_is_relative_to_the_best_is_marked_as_best() -> None:
    """Two threads that do the work of one are the worst there is."""
    names = ("random_mixed-256-1t", "random_mixed-256-2t")
    both = [
        make_benchmark(name, hakmem=make_entry(make_run(ms)), glibc=make_entry(make_run(ms)))
        for name, ms in zip(names, (10, 20), strict=True)
    ]
    rows = summary.rows_of(make_result(*both))
    assert "<td>1.00</td>" in html.scaling_part(rows)
    assert "class=best" not in html.scaling_part(rows)
    assert html.means_html(summary.geometric_means(rows)).count("class=best") == 4


def test_what_a_program_printed_in_brackets_is_shown_as_it_is(result: Result) -> None:
    """An allocator may begin its messages so, and rich has a meaning for brackets."""
    said = "exit status 1: [/x] [red]no memory"
    failed = make_benchmark("producers-64", "bounds", hakmem=make_entry(make_run(1, problem=said)))
    shown = fake_build.terminal(bounds_text.show, make_result(failed), 400)
    assert shown.count(said) == 2
    skipped = {"name": "w", "skipped": said, "problem": ""}
    verdict = {"cost": {}, "live_time_worst": None, "frozen_better": [], "workloads": 0}
    learned = {
        "rounds": 1,
        "workloads": [skipped],
        "verdict": verdict | {"survivors_end_ratio": {}},
    }
    assert f"w: {said}" in fake_build.terminal(learning_text.show, learned, 400)
    assert said in terminal(make_result(failed))


@pytest.mark.parametrize("name", ["[/a]", "a b", ""])
def test_a_library_has_a_name_that_all_outputs_can_show(name: str, tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_text("")
    with pytest.raises(BenchError, match=r"NAME has letters, digits and . _ \+ - alone"):
        allocators.find_extra(f"{name}={tmp_path}/lib.so")
