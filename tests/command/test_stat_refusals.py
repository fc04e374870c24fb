# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem stat`: what it refuses, its help, and the example in docs/."""

from __future__ import annotations

import os
import re
import subprocess
import time
import unittest
from pathlib import Path

import support
from stat_support import ROOT, StatCase
from support import SANITIZED


class TestRefusals(StatCase):
    """One line that says what is wrong, one that says what to do."""

    def assert_says(self, status: int, message: str, *arguments: str | Path, **options: object) -> None:
        done = self.hakmem("stat", *arguments, **options)  # type: ignore[arg-type]
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, message)
        self.assertTrue(all(line.startswith("hakmem: ") for line in done.stderr.splitlines()), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1 if status == 2 else 2, done.stderr)

    def test_arguments(self) -> None:
        self.assert_says(2, "no process given; for example: hakmem stat 1234")
        self.assert_says(2, "did you mean '--json'", "--jsn", "1")
        self.assert_says(2, "options come before the process", "1", "--json")
        self.assert_says(2, "'ls' is neither .*: No such file", "ls")
        for more in ("--json", "--superslabs", "--samples"):
            self.assert_says(2, "--openmetrics is another form", more, "--openmetrics", "1")
            self.assert_says(2, "--openmetrics is another form", "--openmetrics", more, "1")
        self.assert_says(2, "a command comes behind --", "ls", "x")
        self.assert_says(2, "one process at a time", "1", "2")
        self.assert_says(2, "whole seconds", "--watch=0", "1")
        self.assert_says(2, "no command given", "--")
        self.assert_says(2, "--watch is for a running process", "--watch", "--", "true")
        self.assert_says(2, "--output needs", "--output")
        self.assert_says(2, "--peak is for a command", "--peak", "1")

    def test_no_such_process(self) -> None:
        self.assert_says(1, "there is no process 2000000000", "2000000000")

    @support.needs_root
    @unittest.skipIf(SANITIZED, "sanitizers read /proc")
    def test_a_process_that_proc_does_not_show(self) -> None:
        def hidden() -> None:
            support.other_proc(b"hidepid=2")
            support.as_nobody()
        try:
            self.assert_says(1, f"process {os.getpid()} cannot be looked at: /proc is not mounted\n.*mount -t proc",
                             str(os.getpid()), preexec=lambda: support.other_proc(None))
            self.assert_says(1, f"process {os.getpid()} cannot be looked at: .*hidepid.*\n.*as root", str(os.getpid()),
                             preexec=hidden)
            self.assert_says(1, "there is no process 2000000000", "2000000000", preexec=hidden)
        except subprocess.SubprocessError as error:
            self.skipTest(f"nothing can be mounted: {error}")

    def test_without_memory(self) -> None:
        """A process that has ended, and that nobody has waited for; as root a kernel thread is the same."""
        process = subprocess.Popen(["true"])
        self.addCleanup(process.wait)
        while " Z " not in Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8"):
            time.sleep(0.01)
        self.assert_says(1, f"memory of process {process.pid} cannot be read: it has none .*\n.*a running program",
                         str(process.pid))

    def test_no_hakmem(self) -> None:
        process = subprocess.Popen(["sleep", "100"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assert_says(1, rf"process {process.pid} \(sleep\) does not use hakmem\n.*hakmem run -- COMMAND",
                         str(process.pid))

    def test_no_hakmem_and_a_large_file(self) -> None:
        """Whoever looks for the library in a file's pages does not bring all of them into the process's memory."""
        source = "#include <sys/mman.h>\n#include <fcntl.h>\n#include <unistd.h>\nint main(int argc, char **argv) { " \
                 "int file = open(argv[1], O_RDWR | O_CREAT, 0600);\n" \
                 "if (ftruncate(file, 512 << 20) < 0 || mmap(0, 512 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) " \
                 "== MAP_FAILED) return argc; write(1, \"x\", 1); pause(); return 0; }\n"
        process = subprocess.Popen([self.compile("maps", source), self.folder / "large"], stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(os.read(process.stdout.fileno(), 1), b"x")
        self.assert_says(1, "does not use hakmem", str(process.pid))
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        self.assertLess(int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)), 64 << 10)

    @support.needs_root
    def test_another_user(self) -> None:
        process = self.running("sleep", "100")
        self.wait_until_mapped(process, self.library)
        self.assert_says(1, "cannot be read: Permission denied\nhakmem: hint: run the command as root",
                         str(process.pid), preexec=support.as_nobody)

    def test_other_layout(self) -> None:
        """A library whose records look different is recognised, and nothing of it is believed."""
        data = bytearray(Path(self.library).read_bytes())
        at = data.index(b"\x7fhakmem root\r\n\x1a\x01")
        data[at + 32] += 1
        other = self.folder / "libhakmem-other.so"
        other.write_bytes(data)
        process = self.running("sleep", "100", library=other)
        self.wait_until_mapped(process, other)
        self.assert_says(1, r"uses hakmem \d+\.\d+\.\d+, whose records this command", str(process.pid))

    def test_not_a_core(self) -> None:
        self.assert_says(1, "is not a core file", self.write("text", "nothing\n"))

    def test_no_regular_file(self) -> None:
        """Nobody waits for the writer of a pipe."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for file, what in ((pipe, "a pipe"), (self.folder, "a directory"), (Path("/dev/null"), "a device or a socket")):
            for command, status in (("stat", 1), ("explain", 1), ("samples", 1), ("replay", 125)):
                done = self.hakmem(command, file)
                self.assertEqual((done.returncode, done.stdout), (status, ""), (command, file))
                self.assertIn(f"{file} is not a regular file, but {what}", done.stderr)

    def test_help(self) -> None:
        for words in (("stat", "--help"), ("help", "stat")):
            done = self.hakmem(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith("Usage: hakmem stat "))


@unittest.skipIf(SANITIZED, "once is enough")
class TestExample(StatCase):
    """What docs/ shows."""

    def test_example_is_valid(self) -> None:
        self.validate((ROOT / "docs" / "examples" / "stat.json").read_text(encoding="utf-8"))

if __name__ == "__main__":
    support.main()
