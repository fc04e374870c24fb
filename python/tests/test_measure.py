# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of one measured run: parsers, failures, the launcher, counting."""

import contextlib
import dataclasses
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hakmem_tools.bench import allocators, measure, runner, suite
from hakmem_tools.bench.allocators import Allocator
from hakmem_tools.bench.places import BenchError, Places

GLIBC = Allocator("glibc", "", "")


def test_the_report_of_a_program_is_read() -> None:
    run = measure.Run()
    measure.read_report(
        "x: 1 M ops/s, elapsed 77 ns, checksum 00c0ffee00c0ffee\nx: metric rss_idle -1.5 kB\n", run
    )
    assert (run.elapsed_ns, run.checksum) == (77, "00c0ffee00c0ffee")
    assert run.metrics == {"rss_idle": (-1.5, "kB")}


def test_a_program_that_is_not_built_is_said_before_anything_is_measured(built: Places) -> None:
    first = suite.all_benchmarks()[0]
    missing = dataclasses.replace(first, name="not_there", command=("not_there",))
    plan = runner.Plan([first, missing], [GLIBC], [], built, 1, True, "")
    heard: list[str] = []

    class Ear(runner.Listener):
        def begin(self, plan: runner.Plan, steps: int) -> None:
            heard.append("begin")

    with pytest.raises(BenchError, match="not_there is not built: run"):
        runner.run(plan, Ear())
    assert heard == []


def test_the_table_of_strace_is_read() -> None:
    table = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 50.00    0.000010           1         7           mmap
 25.00    0.000005           0        20         3 openat
 25.00    0.000005           0         2           munmap
------ ----------- ----------- --------- --------- ----------------
100.00    0.000020           0        29         3 total
"""
    counts = measure.read_strace(table)
    assert [counts[name] for name in ("mmap", "munmap", "brk", "all")] == [7, 2, 0, 29]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("echo first >&2; echo broken >&2; exit 7", "exit status 7: broken"),
        ("exit 0", ""),
    ],
)
def test_a_crash_and_an_exit_status_are_problems(built: Places, script: str, expected: str) -> None:
    outcome = measure.measure(["sh", "-c", script], GLIBC, built.programs / "launch")
    assert outcome.run.problem == expected


def are_running(words: str) -> bool:
    """Whether there is a process of this command, one that is not just waiting to be reaped."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().replace(b"\0", b" ").strip() == words.encode():
                return True
    return False


def test_a_time_limit_is_a_problem_and_leaves_no_process(built: Places) -> None:
    sleep = f"sleep 60.{os.getpid()}"
    launch = built.programs / "launch"
    outcome = measure.measure(["sh", "-c", f"{sleep} & wait"], GLIBC, launch, seconds=2)
    assert outcome.run.problem == "not done after 2 s"
    end = time.monotonic() + 10
    while are_running(sleep) and time.monotonic() < end:
        time.sleep(0.02)
    assert not are_running(sleep)


def test_the_launcher_does_not_hand_down_the_memory_of_its_parent(built: Places) -> None:
    ballast = b"x" * 100_000_000
    outcome = measure.measure(["true"], GLIBC, built.programs / "launch", repeats=3)
    assert len(ballast) > 0
    assert outcome.run.maxrss_kb < 20_000
    assert outcome.run.minflt > 3 * 10


def test_memory_that_is_warmed_before_a_run_is_not_counted(built: Places) -> None:
    launch = built.programs / "launch"
    begin = time.monotonic_ns()
    outcome = measure.measure(["true"], GLIBC, launch, repeats=2, warm_mib=64)
    assert time.monotonic_ns() - begin > outcome.run.wall_ns
    assert outcome.run.problem == ""
    assert 100 < outcome.run.maxrss_kb < 20_000
    assert outcome.run.minflt < 64 * 256


def test_a_library_that_cannot_be_preloaded_is_told() -> None:
    with tempfile.NamedTemporaryFile(suffix=".so") as empty:
        problem = allocators.check_preload(Allocator("empty", empty.name, "0"))
    assert "cannot be preloaded" in problem


def test_wrong_names_of_allocators_are_refused_with_advice(built: Places) -> None:
    with pytest.raises(BenchError, match="unknown allocator 'jmalloc'"):
        allocators.choose(["jmalloc"], [], built)
    with pytest.raises(BenchError, match="NAME=PATH"):
        allocators.choose(["glibc"], ["/tmp/x.so"], built)
    with pytest.raises(BenchError, match="no file"):
        allocators.choose(["glibc"], ["x=/nowhere/x.so"], built)


def test_a_peer_that_was_not_built_is_missing_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "peers.json").write_text(
        '{"schema": 1, "peers": [{"name": "rpmalloc", "package": "p 1", "problem": "no compiler"}]}'
    )
    answer = allocators.find_built("rpmalloc", tmp_path)
    assert isinstance(answer, allocators.Missing)
    assert "no compiler" in answer.reason
    unknown = allocators.find_built("snmalloc", tmp_path)
    assert isinstance(unknown, allocators.Missing)
    assert "setup-bench.sh" in unknown.reason


def test_the_bump_allocator_needs_fewer_instructions_than_glibc(built: Places) -> None:
    command = [str(built.programs / "pair_loop"), "20000"]
    bump = Allocator("bump", str(built.programs / "libbump.so"), "")
    least = measure.count_instructions(command, bump)
    glibc = measure.count_instructions(command, GLIBC)
    assert 0 < least["all"] < glibc["all"]


def test_children_are_counted_and_a_failure_has_its_reason(built: Places) -> None:
    pairs = [str(built.programs / "pair_loop"), "20000"]
    alone = measure.count_instructions(pairs, GLIBC)
    shell = measure.count_instructions(["sh", "-c", f"{pairs[0]} 20000; {pairs[0]} 20000"], GLIBC)
    assert shell["all"] > 2 * alone["all"]
    crash = ["sh", "-c", "kill -SEGV $$"]
    assert "SIGSEGV" in measure.count_instructions(crash, GLIBC)["problem"]
    assert "SIGSEGV" in measure.count_calls(crash, GLIBC)["problem"]


def test_each_round_has_another_order() -> None:
    """Over all rounds each allocator is first as often as any other, and behind each other once."""
    names = [Allocator(name, "", "") for name in "ABCDEFGHIJ"]
    rounds = [[a.name for a in runner.order_of(names, number, 10)] for number in range(10)]
    assert all(sorted(order) == list("ABCDEFGHIJ") for order in rounds)
    for place in range(10):
        assert len({order[place] for order in rounds}) == 10
    assert len({pair for order in rounds for pair in pairwise(order)}) == 90
    assert [runner.order_of(names[:4], n, 8)[0].name for n in range(8)] == list("AABBCCDD")
