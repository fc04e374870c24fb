# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the whole command on the build: a small run, and an allocator that fails."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from fake_build import places_of
from hakmem_tools.bench import runner, session, suite
from hakmem_tools.bench.places import Places

BREAKING = """
#include <stdlib.h>
#include <string.h>
/* Breaks its program as soon as it asks for a block of the benchmark's size. */
void *calloc(size_t count, size_t size)
{
    static char pool[1 << 20];
    static size_t used;
    if (count == 256)
        abort();
    void *block = pool + used;
    used += (count * size + 15) & ~(size_t)15;
    return used > sizeof pool ? NULL : memset(block, 0, count * size);
}
void free(void *block) { (void)block; }
"""


def bench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """hakmem bench with arguments."""
    return subprocess.run(
        [sys.executable, "-m", "hakmem_tools.bench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=120,
        env={**os.environ, "COLUMNS": "200"},
    )


@pytest.mark.parametrize("complete", [0, 1])
def test_an_interruption_says_where_what_is_complete_is(
    complete: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In whatever it interrupts; what an earlier run has left is not meant."""

    def interrupted(plan: runner.Plan, listener: runner.Listener) -> runner.Result:
        for _ in range(complete):
            listener.result(make_result())
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "run_plan", interrupted)
    (tmp_path / "result.json").write_text("an earlier one", encoding="utf-8")
    os.utime(tmp_path / "result.json", (1, 1))
    plan = runner.Plan([], [], [], places_of(tmp_path), 1, True, "")
    with pytest.raises(SystemExit) as end:
        session.measure_and_show(plan, tmp_path, lambda result, console: None)
    assert end.value.code == 130
    where = (
        f"what was complete is in {tmp_path}/result.json" if complete else "nothing was complete"
    )
    assert capsys.readouterr().err.endswith(f"hakmem bench: interrupted; {where}\n")


@pytest.mark.usefixtures("built")
def test_a_small_run_writes_result_and_report(tmp_path: Path) -> None:
    done = bench(
        *("--quick", "--rounds", "2", "--only", "lifetimes-lifo", "--only", "true", "--strace"),
        *("--allocators", "hakmem,glibc", "--output", str(tmp_path / "out")),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["schema"] == 2
    assert result["complete"]
    assert [b["name"] for b in result["benchmarks"]] == ["lifetimes-lifo", "true"]
    first = result["benchmarks"][0]
    assert len(first["results"]["hakmem"]["runs"]) == 2
    assert first["calls"]["glibc"]["all"] > first["calls"]["glibc"]["mmap"] > 0
    assert "--output" not in result["command"]
    assert (tmp_path / "out" / "report.html").stat().st_size > 1_000_000
    assert "lifetimes-lifo" in done.stdout
    again = bench("compare", str(tmp_path / "out"), str(tmp_path / "out"), cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "geometric mean 1.000" in again.stdout


def test_an_allocator_that_crashes_is_shown_and_sets_the_status(
    built: Places, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    source, library = tmp_path / "breaking.c", tmp_path / "breaking.so"
    source.write_text(BREAKING)
    flags = ["-shared", "-fPIC", "-O1", "-fno-builtin", "-o", str(library), str(source)]
    subprocess.run([compiler, *flags], check=True)
    done = bench(
        *("--quick", "--rounds", "1", "--only", "random_mixed-256-1t", "--allocators", "glibc"),
        *("--lib", f"breaking={library}", "--output", str(tmp_path / "out")),
        cwd=tmp_path,
    )
    text = library_text(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: random_mixed-256-1t under breaking" in done.stdout
    assert "in 1 of 1 rounds" in done.stdout
    assert "FAILED" in text
    assert built.programs.is_dir()


@pytest.mark.usefixtures("built")
def test_a_program_that_is_given_runs_where_the_command_does(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("b\na\n")
    done = bench(
        *("--program", "sorts=sort in.txt", "--program", "braces=sh -c 'echo {1} | cat'"),
        *("--rounds", "1", "--allocators", "hakmem,glibc", "--output", str(tmp_path / "out")),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [(b["name"], b["group"]) for b in result["benchmarks"]] == [
        ("sorts", "given"),
        ("braces", "given"),
    ]
    assert result["benchmarks"][1]["command"] == ["sh", "-c", "echo {1} | cat"]
    for benchmark, printed in zip(result["benchmarks"], ("a\nb\n", "{1}\n"), strict=True):
        for allocator in ("hakmem", "glibc"):
            (run,) = benchmark["results"][allocator]["runs"]
            assert run["checksum"] == hashlib.sha256(printed.encode()).hexdigest()[:16]
            assert run["maxrss_kb"] > 0
    assert "Programs that were given" in library_text(tmp_path)
    changing = bench(
        *("--program", "changes=sh -c 'echo $$'", "--rounds", "1"),
        *("--allocators", "hakmem,glibc", "--output", str(tmp_path / "out2")),
        cwd=tmp_path,
    )
    assert changing.returncode == 1
    assert "--program has to print the same each time" in changing.stdout


@pytest.mark.usefixtures("built")
def test_a_program_that_no_allocator_can_enter_is_refused(tmp_path: Path) -> None:
    source = "int main(void) { return 0; }"
    flags = ["-static", "-x", "c", "-", "-o", str(tmp_path / "program")]
    subprocess.run(["cc", *flags], input=source, text=True, check=True)
    done = bench("--program", "st=./program", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("hakmem bench: --program st: cannot take over ./program: it is ")
    assert "statically linked" in done.stderr
    assert done.stderr.endswith("; no allocator can be measured\n")
    assert len(done.stderr.splitlines()) == 1


def test_what_nobody_knows_of_a_program_is_not_in_the_way(tmp_path: Path) -> None:
    sort = suite.given("x=sort big.txt")
    where = places_of(tmp_path)
    assert runner.refusal(sort, where) == ""
    command = tmp_path / "hakmem"
    assert runner.refusal(sort, replace(where, command=command)) == ""
    command.write_text('#!/bin/sh\n[ "$*" = "run --check -- sort big.txt" ] || exit 3\n')
    command.chmod(0o755)
    assert runner.refusal(sort, replace(where, command=command)) == ""
    other = suite.given("x=sort other.txt")
    assert "hakmem run --check says 3" in runner.refusal(other, replace(where, command=command))


def library_text(folder: Path) -> str:
    """The page's body."""
    page = (folder / "out" / "report.html").read_text()
    return page[page.index("<body>") :]


def test_wrong_usage_says_what_to_do(tmp_path: Path) -> None:
    for arguments, expected in (
        (["--only", "nothing-like-it"], "hakmem bench list"),
        (["--allocators", "nobody"], "unknown allocator 'nobody'"),
        (["--program", "sort big.txt"], "is not NAME=COMMAND"),
        (["--program", "my sort=sort big.txt"], "the name of letters, digits and . _ + - alone"),
        (["--program", "x=sh 'a"], "No closing quotation"),
        (["--program", "x=not-there big.txt"], "there is no program not-there"),
        (["--program", "true=sleep 0"], "a benchmark has this name"),
        (["--program", "x=sh", "--program", "x=sh"], "is given twice"),
        (["--nonsense"], "No such option: --nonsense; see 'hakmem bench --help'"),
        (["drawn", "--count", "0"], "see 'hakmem bench drawn --help'"),
        (["compare", "nowhere.json", "nowhere.json"], "cannot read the result"),
    ):
        done = bench(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert expected in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("hakmem bench: ")


def test_the_list_names_benchmarks_and_allocators(tmp_path: Path) -> None:
    done = bench("list", cwd=tmp_path)
    assert done.returncode == 0
    assert "random_mixed-256-1t" in done.stdout
    assert "tcmalloc-minimal" in done.stdout


def test_a_report_shows_all_others_relative_to_one(tmp_path: Path) -> None:
    fast, slow = make_entry(make_run(10)), make_entry(make_run(25))
    result = make_result(make_benchmark(hakmem=fast, glibc=slow), hakmem="1", glibc="2")
    (tmp_path / "result.json").write_text(json.dumps(result))
    shown = bench("report", ".", "--against", "hakmem", "--markdown", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "| glibc | 1 | 2.50 | 1.00 | - |" in shown.stdout
    terminal = bench("report", ".", "--against", "glibc", cwd=tmp_path)
    assert "relative to glibc" in terminal.stdout
    assert "0.40" in terminal.stdout


def test_a_report_relative_to_what_is_not_there_says_what_is(tmp_path: Path) -> None:
    result = make_result(make_benchmark(hakmem=make_entry(make_run(1))), hakmem="1")
    (tmp_path / "result.json").write_text(json.dumps(result))
    refused = bench("report", ".", "--against", "jemalloc", cwd=tmp_path)
    assert refused.returncode != 0
    assert "there is no 'jemalloc'" in refused.stderr
    assert "hakmem" in refused.stderr
    refused = bench("report", ".", "--page", "no/where.html", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.endswith("cannot write no/where.html: No such file or directory\n")
    refused = bench("report", ".", "--markdown", cwd=tmp_path)
    assert "--against NAME" in refused.stderr
