# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: tests of the harness: what it takes from a run, how it judges and shows it.

Who runs it: CTest (bench_harness). It never runs a benchmark program at full size.
"""

import copy
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

import compare
import harness
import report
import suite

LAUNCH = Path(os.environ.get("HAKMEM_BENCH_DIR", "build/release/bench")) / "launch"


def run(
    milliseconds: float, checksum: str = "00000000000000aa", problem: str = ""
) -> dict[str, Any]:
    cost = harness.Run(elapsed_ns=int(milliseconds * 1e6), wall_ns=int(milliseconds * 2e6))
    cost.maxrss_kb, cost.minflt, cost.user_us, cost.checksum = 2000, 100, 1000, checksum
    cost.problem, cost.metrics = problem, {"rss": (12.5, "kB")}
    return harness.run_as_dict(cost)


def entry(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"problem": "", "runs": list(runs)}


def result_of(results: dict[str, Any]) -> report.Result:
    compare.judge(results)
    return {
        "schema": 1,
        "date": "2026-01-01",
        "command": "bench/compare.py --set first",
        "rounds": 2,
        "machine": dict.fromkeys(harness.machine(), "a machine"),
        "allocators": {name: {"version": "1", "library": ""} for name in results},
        "benchmarks": [
            {"name": "b", "what": "w", "command": ["b", "1"], "repeats": 1, "results": results}
        ],
    }


class Judging(unittest.TestCase):
    def test_agreeing_runs_have_no_problem(self) -> None:
        results = {"glibc": entry(run(10), run(12)), "hakmem": entry(run(5), run(6))}
        compare.judge(results)
        self.assertEqual([e["problem"] for e in results.values()], ["", ""])

    def test_a_wrong_checksum_is_a_problem_of_that_allocator_only(self) -> None:
        results = {
            "hakmem": entry(run(5), run(6, "00000000000000bb")),
            "glibc": entry(run(9), run(9)),
        }
        compare.judge(results)
        self.assertIn("wrong checksum 00000000000000bb", results["hakmem"]["problem"])
        self.assertIn("round 2 of 2", results["hakmem"]["problem"])
        self.assertEqual(results["glibc"]["problem"], "")

    def test_a_missing_checksum_is_wrong_too(self) -> None:
        results = {"hakmem": entry(run(5, "")), "glibc": entry(run(9))}
        compare.judge(results)
        self.assertIn("wrong checksum", results["hakmem"]["problem"])

    def test_without_glibc_the_majority_is_right(self) -> None:
        results = {"a": entry(run(1)), "b": entry(run(1, "00000000000000bb")), "c": entry(run(1))}
        compare.judge(results)
        self.assertEqual([bool(e["problem"]) for e in results.values()], [False, True, False])


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.result = result_of(
            {
                "hakmem": entry(run(10), run(20)),
                "glibc": entry(run(30), run(30)),
                "broken": entry(run(1, problem="killed by SIGSEGV")),
            }
        )

    def test_rows_have_median_best_and_spread(self) -> None:
        row = report.rows_of(self.result["benchmarks"][0])[0]
        self.assertEqual((row.time_ms, row.best_ms), (15.0, 10.0))
        self.assertAlmostEqual(row.spread, 10 / 15)

    def test_a_crash_is_shown_and_does_not_count_as_the_fastest(self) -> None:
        for text in (report.as_text(self.result), report.as_markdown(self.result)):
            self.assertIn("FAILED: killed by SIGSEGV", text)
            self.assertIn("2.00", text)  # glibc: 30 ms against hakmem's 15

    def test_means_leave_out_benchmarks_in_which_somebody_failed(self) -> None:
        self.assertEqual(report.geometric_means(self.result), [])
        whole = copy.deepcopy(self.result)
        del whole["benchmarks"][0]["results"]["broken"], whole["allocators"]["broken"]
        self.assertEqual(
            report.geometric_means(whole), [["hakmem", "1.00", "1.00"], ["glibc", "2.00", "1.00"]]
        )

    def test_the_page_says_how_to_repeat_it(self) -> None:
        page = report.as_markdown(self.result)
        self.assertIn("    bench/compare.py --set first\n", page)
        self.assertIn("rss (kB): hakmem 12.5, glibc 12.5", page)


class Running(unittest.TestCase):
    def test_a_report_line_is_read(self) -> None:
        got = harness.Run()
        harness.read_report(
            "x: 1 M ops/s, elapsed 77 ns, checksum 00c0ffee00c0ffee\nx: metric rss -1.5 kB\n", got
        )
        self.assertEqual((got.elapsed_ns, got.checksum), (77, "00c0ffee00c0ffee"))
        self.assertEqual(got.metrics, {"rss": (-1.5, "kB")})

    def test_a_crash_an_exit_status_and_a_time_limit_are_problems(self) -> None:
        for script, expected in (
            ("kill -SEGV $$", "killed by SIGSEGV"),
            ("echo broken >&2; exit 7", "exit status 7: broken"),
        ):
            got, _, _ = harness.measure(["sh", "-c", script], "", LAUNCH)
            self.assertEqual(got.problem, expected)
        got, _, _ = harness.measure(["sleep", "30"], "", LAUNCH, seconds=0.2)
        self.assertIn("not done after", got.problem)

    def test_the_launcher_does_not_hand_down_the_memory_of_its_parent(self) -> None:
        ballast = b"x" * 100_000_000
        got, _, _ = harness.measure(["true"], "", LAUNCH, runs=3)
        self.assertGreater(len(ballast), 0)
        self.assertLess(got.maxrss_kb, 20_000)
        self.assertGreater(got.minflt, 3 * 10)

    def test_a_library_that_cannot_be_preloaded_is_refused(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=".so") as empty:
            with self.assertRaisesRegex(harness.HarnessError, "cannot be preloaded"):
                harness.check_preload(harness.Allocator("empty", empty.name, "0"))

    def test_names_of_benchmarks_are_unique(self) -> None:
        names = [b.name for b in suite.BENCHMARKS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
