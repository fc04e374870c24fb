#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""traces.py makes a table of traces, names what it leaves out, and records a real program.

The command comes from the build through TEST_HAKMEM_COMMAND, with its libraries beside it; a library
without malloc, which no trace can be repeated under, through TEST_NO_MALLOC.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

from traces import HEADER, HEADER_BYTES, MAGIC, candidates

SCRIPT = Path(__file__).resolve().parent / "traces.py"
MALLOC, FREE = bytes([1 | 16 << 3, 0]), bytes([4])  # 16 bytes
UP, SAME = bytes([4]), bytes([0])  # addresses: 16 bytes after the one before, and the same
END = 4 << 20


def write_trace(path: Path, pairs: int, command: str, is_whole: bool = True) -> None:
    """Blocks that are freed at once. Of a process that was killed the file is longer than that."""
    header = HEADER.pack(MAGIC, 1, 0, 0, is_whole) + command.encode() + bytes(2)
    data = header.ljust(HEADER_BYTES, b"\0") + (MALLOC + UP + FREE + SAME) * pairs
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if is_whole else data.ljust(END, b"\0"))


class Traces(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hakmem-test-traces-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        self.folder.chmod(0o755)
        self.traces = self.folder / "traces"

    def run_script(self, *words: str, status: int = 0) -> str:
        command = ["--hakmem", os.environ["TEST_HAKMEM_COMMAND"], "--rounds", "2"]
        done = subprocess.run(
            [sys.executable, "-B", str(SCRIPT), *command, *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def measure(self, *words: str) -> tuple[str, dict[str, Any]]:
        """The table and the figures."""
        table, figures = self.folder / "table.md", self.folder / "figures.json"
        self.run_script("--table", str(table), "--json", str(figures), *words)
        return table.read_text(encoding="utf-8"), json.loads(figures.read_text(encoding="utf-8"))

    def check_figures(self, case: dict[str, Any], *names: str) -> None:
        self.assertEqual(sorted(case["allocators"]), sorted(names))
        for name in names:
            for figure, value in case["allocators"][name].items():
                self.assertGreater(value, 0, f"{name}: {figure}")

    def test_a_table_is_made_of_traces(self) -> None:
        write_trace(self.traces / "dash/1.trace", 6_000, "/usr/bin/dash")
        write_trace(self.traces / "dash/2.trace", 7_000, "/usr/bin/dash-of-most", False)
        write_trace(self.traces / "dash/3.trace", 10, "/bin/sh", False)
        write_trace(self.traces / "zsh/1.trace", 4_000, "zsh")
        write_trace(self.traces / "lua/1.trace", 10_000, "lua5.4")
        (self.traces / "lua/2.trace").write_bytes(b"something else")
        (self.traces / "ksh").mkdir()
        words = ["--traces", str(self.traces), "--most-events", "15000"]
        words += ["--lib", f"none={os.environ['TEST_NO_MALLOC']}"]
        table, figures = self.measure(*words, "dash", "zsh", "lua", "ksh")
        self.assertRegex(
            table, r"\n\| dash \| dash-of-most \| 14,000 \| 1 \| 0\.00 MiB \| .* \|  \|"
        )
        self.assertRegex(table, "\n- dash: none: .*no malloc\n")
        self.assertIn("\n- zsh: 8,000 events at most, fewer than 10,000\n", table)
        self.assertIn("\n- lua: 20,000 events, more than 15,000\n", table)
        self.assertIn("\n- ksh: no process of it left a trace\n", table)
        self.assertEqual(figures["schema_version"], 1)
        self.assertEqual([case["case"] for case in figures["cases"]], ["dash"])
        self.check_figures(figures["cases"][0], "hakmem", "libc")
        left_out = {case["case"] for case in figures["left_out"]}
        self.assertEqual(left_out, {"zsh", "lua", "ksh"})

    def test_of_equal_traces_a_whole_one_is_first(self) -> None:
        write_trace(self.traces / "1.trace", 100, "killed", False)
        write_trace(self.traces / "2.trace", 100, "whole")
        write_trace(self.traces / "3.trace", 100, "killed", False)
        write_trace(self.traces / "4.trace", 20, "short")
        names = [trace.path.name for trace in candidates(self.traces)]
        self.assertEqual(names[0], "2.trace")
        self.assertEqual(sorted(names), ["1.trace", "2.trace", "3.trace"])

    @unittest.skipUnless(shutil.which("dash"), "dash is not installed")
    def test_a_program_is_recorded_once(self) -> None:
        words = ["--traces", str(self.traces), "dash"]
        table, figures = self.measure(*words)
        self.assertRegex(table, r"\n\| dash \| dash \| \d{3},\d{3} \| 1 \|")
        self.assertRegex(table, "Of 1 traces hakmem is the fastest in [01]")
        self.check_figures(figures["cases"][0], "hakmem", "libc")
        kept = [(path, path.stat().st_mtime_ns) for path in self.traces.glob("*/*")]
        self.assertEqual(len(kept), 1)
        again = self.measure(*words)[1]
        self.assertEqual(again["cases"][0]["trace"], figures["cases"][0]["trace"])
        self.assertEqual(
            kept, [(path, path.stat().st_mtime_ns) for path in self.traces.glob("*/*")]
        )

    def test_nothing_to_measure_is_a_failure(self) -> None:
        write_trace(self.traces / "dash/1.trace", 10, "dash")
        printed = self.run_script("--traces", str(self.traces), "dash", status=1)
        self.assertIn("dash: left out: 20 events at most", printed)
        self.assertIn("--lib hakmem", self.refusal("--lib", f"hakmem={SCRIPT}"))

    def refusal(self, *words: str) -> str:
        command = [sys.executable, "-B", str(SCRIPT), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        return done.stderr


if __name__ == "__main__":
    unittest.main(verbosity=2)
