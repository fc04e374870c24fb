# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem run` where nothing stands in its way: the program is taken over, and all else is as without it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

import support
from support import SANITIZED, CommandCase

# Writes to the file that is its first argument which descriptors are open, but that file's own.
DESCRIPTORS = """
#include <fcntl.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char open_ones[256];
    for (int fd = 0; fd < 256; fd++)
        open_ones[fd] = fcntl(fd, F_GETFD) >= 0;
    FILE *out = fopen(argv[argc - 1], "w");
    for (int fd = 0; fd < 256; fd++)
        if (open_ones[fd])
            fprintf(out, "%d\\n", fd);
    return fclose(out);
}
"""

TWO_ALLOCATORS = unittest.skipIf(SANITIZED, "the command itself would have the sanitizer's malloc and another")


class TestPassedOn(CommandCase):
    """What the program and its caller see is what they see without hakmem."""

    def test_takes_over(self) -> None:
        self.assert_taken_over("--", self.probe)

    def test_maps_show_the_library(self) -> None:
        done = self.hakmem("run", "cat", "/proc/self/maps")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"r-xp .* {re.escape(str(self.library))}\n")

    def test_hardened(self) -> None:
        """The other library beside the command; HAKMEM_LIBRARY does not stand in for it."""
        hardened = self.folder / "libhakmem-hardened.so"
        environment = {"HAKMEM_LIBRARY": str(self.library)}
        missing = self.hakmem("run", "--hardened", "true", env=environment)
        self.assertEqual(missing.returncode, 125)
        self.assertIn("libhakmem-hardened.so was not found", missing.stderr)
        shutil.copy(self.library, hardened)
        self.addCleanup(hardened.unlink)
        done = self.hakmem("run", "--hardened", "cat", "/proc/self/maps", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"r-xp .* {re.escape(str(hardened))}\n")
        both = self.hakmem("run", "--hardened", "--lib", self.library, "true")
        self.assertEqual(both.returncode, 125)
        self.assertIn("give one", both.stderr)

    def test_says_nothing(self) -> None:
        done = self.hakmem("run", "cat", stdin=b"text\0\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "text\0\n", ""))

    def test_exit_status(self) -> None:
        for status in (0, 1, 2, 77, 124, 255):
            self.assertEqual(self.hakmem("run", "--", "sh", "-c", f"exit {status}").returncode, status)

    def test_death_by_signal(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
            done = self.hakmem("run", "--", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, -number)

    def test_signal_reaches_the_program(self) -> None:
        script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
        with self.start("run", "sh", "-c", script) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=30)
        self.assertEqual((output, process.returncode), ("caught\n", 3))

    def test_process_id(self) -> None:
        with self.start("run", self.probe) as process:
            output, _ = process.communicate(timeout=30)
        self.assertIn(f"pid {process.pid}\n", output)

    def test_signal_dispositions(self) -> None:
        words = ["sh", "-c", 'trap "" USR1 PIPE; exec "$@" grep ^Sig[A-P] /proc/self/status', "sh"]
        # SigBlk, SigCgt, SigIgn, SigPnd; SigQ counts what is queued for all of the user's processes.
        plain = subprocess.run(words, capture_output=True, text=True, check=True)
        ours = subprocess.run([*words, self.command, "run"], capture_output=True, text=True, check=True)
        ignored = re.search(r"SigIgn:\s*([0-9a-f]+)\n", plain.stdout)
        assert ignored is not None
        self.assertEqual(int(ignored[1], 16) & 0x1200, 0x1200)  # more of them where the tests' own parent ignores some
        self.assertEqual(ours.stdout, plain.stdout)

    def test_ignored_sigchld(self) -> None:
        done = subprocess.run(
            ["sh", "-c", 'trap "" CHLD; exec "$0" run "$1"', self.command, self.probe],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertIn(f"malloc {self.library}\n", done.stdout)

    def test_arguments(self) -> None:
        words = ["a b", "", "--", "--stats", "$HOME", "new\nline", "\u00fc"]
        done = self.assert_taken_over("--", self.probe, *words)
        self.assertIn("".join(f"argument {word}\n" for word in [str(self.probe), *words]), done.stdout)

    def test_options_end_at_the_program(self) -> None:
        done = self.assert_taken_over(self.probe, "--stats", "--nonsense")
        self.assertIn("argument --stats\nargument --nonsense\n", done.stdout)

    def test_program_that_begins_with_a_dash(self) -> None:
        shutil.copy(self.probe, self.folder / "-probe")
        self.assert_taken_over("--", "-probe", env={"PATH": str(self.folder)})

    def test_found_on_path(self) -> None:
        done = self.assert_taken_over("probe", env={"PATH": f"/nonexistent:{self.folder}"})
        self.assertIn("argument probe\n", done.stdout)  # argv[0] is the name as it was given

    def test_empty_path_element_is_the_current_directory(self) -> None:
        self.assert_taken_over("probe", env={"PATH": "/nonexistent:"}, cwd=self.folder)

    def test_not_executable_on_path_is_passed_over(self) -> None:
        other = self.write("other/probe", "not for execution\n", mode=0o644).parent
        self.assert_taken_over("probe", env={"PATH": f"{other}:{self.folder}"})

    def test_environment(self) -> None:
        def seen(*words: str | Path) -> dict[str, str]:
            done = subprocess.run([*words, "env", "-0"], env=env, capture_output=True, text=True, check=True)
            return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)

        env = {"PATH": os.environ["PATH"], "ODD": "a=b\nc", "EMPTY": ""}
        expected = seen() | {"LD_PRELOAD": str(self.library)}
        self.assertEqual(seen(self.command, "run"), expected)
        self.assertEqual(seen(self.command, "run", "--stats"), expected | {"HAKMEM_STATS": "1"})

    def test_descriptors(self) -> None:
        program = self.compile("descriptors", DESCRIPTORS)
        for closed in ([], [0], [1], [2], [0, 1], [0, 1, 2]):
            out = self.folder / "open.txt"
            shell = "exec " + " ".join(f"{fd}<&-" if fd == 0 else f"{fd}>&-" for fd in closed) + '; exec "$@"'
            listings = []
            for words in ([program], [self.command, "run", program]):
                out.unlink(missing_ok=True)
                subprocess.run(["sh", "-c", shell, "sh", *words, out], check=True, capture_output=True)
                listings.append(out.read_text().split())
            self.assertEqual(listings[0], [str(fd) for fd in range(3) if fd not in closed])
            self.assertEqual(listings[1], listings[0])

    def test_refuses_with_all_files_closed(self) -> None:
        done = subprocess.run(["sh", "-c", 'exec 0<&- 1>&- 2>&-; exec "$0" run ./none', self.command])
        self.assertEqual(done.returncode, 127)


class TestLdPreload(CommandCase):
    """What the environment preloads already stays, behind the library."""

    others: list[Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.others = [cls.compile(f"lib{n}.so", f"int {n};", "-shared", "-fPIC") for n in ("one", "two")]

    def preload_of(self, given: str) -> str:
        done = self.hakmem("run", "printenv", "LD_PRELOAD", env={"LD_PRELOAD": given})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.rstrip("\n")

    def test_kept_behind_in_order(self) -> None:
        one, two = self.others
        expected = f"{self.library}:{two}:{one}"
        for given in (f"{two}:{one}", f"{two} {one}", f":{two}::{one} "):
            self.assertEqual(self.preload_of(given), expected)

    def test_empty(self) -> None:
        self.assertEqual(self.preload_of(""), str(self.library))

    @TWO_ALLOCATORS
    def test_not_twice(self) -> None:
        one, two = self.others
        link = self.folder / "alias.so"
        link.symlink_to(self.library)
        for given in (f"{one}:{self.library}:{two}", f"{link}:{one}:{one}:{two}"):
            self.assertEqual(self.preload_of(given), f"{self.library}:{one}:{two}")

    @TWO_ALLOCATORS
    def test_another_hakmem_gives_way(self) -> None:
        other = self.folder / "elsewhere" / "libhakmem.so.0"
        other.parent.mkdir()
        shutil.copy(self.library, other)
        self.assertEqual(self.preload_of(f"{other}:{self.others[0]}"), f"{self.library}:{self.others[0]}")

    @TWO_ALLOCATORS
    def test_nested(self) -> None:
        done = self.assert_taken_over(self.command, "run", self.probe)
        self.assertEqual(done.stderr, "")


class TestStats(CommandCase):
    def test_stats(self) -> None:
        if not self.real_library:
            self.skipTest("the stand-in has no statistics")
        done = self.assert_taken_over("--stats", self.probe)
        lines = done.stderr.splitlines()
        self.assertGreater(len(lines), 0)
        self.assertTrue(all(line.startswith("hakmem:") for line in lines), done.stderr)


class TestFindLibrary(CommandCase):
    """The library is found beside the command and in the usual places around it."""

    def install(self, name: str, library: str | None) -> Path:
        binary = self.folder / name / "bin" / "hakmem"
        binary.parent.mkdir(parents=True)
        shutil.copy(self.command, binary)
        if library:
            target = self.folder / name / library
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.library, target)
        return binary

    def assert_uses(self, library: Path, command: Path, *options: str | Path, **others: object) -> None:
        done = self.hakmem("run", *options, self.probe, command=command, **others)  # type: ignore[arg-type]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"malloc {library}\n", done.stdout)

    def test_places(self) -> None:
        places = ("bin", "lib", "lib/x86_64-linux-gnu", "lib64")
        for number, place in enumerate(places):
            name = f"place{number}"
            command = self.install(name, f"{place}/libhakmem.so")
            self.assert_uses(self.folder / name / place / "libhakmem.so", command)

    def test_name_with_major_version(self) -> None:
        version = self.hakmem("version").stdout.split()[1]
        name = f"libhakmem.so.{version.split('.')[0]}"
        self.assert_uses(self.folder / "major/lib" / name, self.install("major", f"lib/{name}"))

    def test_command_through_a_link(self) -> None:
        link = self.folder / "links" / "hakmem"
        link.parent.mkdir()
        link.symlink_to(self.command)
        self.assert_uses(self.library, link)

    def test_missing(self) -> None:
        command = self.install("without", None)
        self.assert_refused(125, "libhakmem.so was not found.*\n.*hint: .*--lib", self.probe, command=command)
        done = self.hakmem("--version", command=command)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "^hakmem [0-9.]+\nno library: libhakmem.so was not found")

    def test_option_and_variable(self) -> None:
        command = self.install("named", None)
        other = self.folder / "named" / "other.so"
        shutil.copy(self.library, other)
        variable = {"HAKMEM_LIBRARY": str(other)}
        self.assert_uses(other, command, "--lib", other)
        self.assert_uses(other, command, f"--lib={other}")
        self.assert_uses(other, command, env=variable)
        self.assert_uses(self.library, command, "--lib", self.library, env=variable)
        self.assert_uses(self.library, self.command, env={"HAKMEM_LIBRARY": ""})

    def test_relative_path_becomes_absolute(self) -> None:
        self.assert_uses(self.library, self.command, "--lib", "libhakmem.so", cwd=self.folder)
        self.assert_uses(self.library, self.command, "--lib", "./other/../libhakmem.so", cwd=self.folder)

    def setUp(self) -> None:
        (self.folder / "other").mkdir(exist_ok=True)


class TestCheck(CommandCase):
    def test_prints_and_does_not_start(self) -> None:
        mark = self.folder / "started"
        for option in ("--check", "--dry-run"):
            done = self.hakmem("run", option, "--stats", "touch", mark)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, "(?m)^command +/.*/touch$")
            self.assertRegex(done.stdout, "(?m)^loader +/.*ld-linux")
            self.assertRegex(done.stdout, f"(?m)^LD_PRELOAD +{re.escape(str(self.library))}$")
            self.assertRegex(done.stdout, "(?m)^set +HAKMEM_STATS=1$")
            self.assertRegex(done.stdout, "(?m)^result +can be taken over$")
            self.assertFalse(mark.exists())


if __name__ == "__main__":
    support.main()
