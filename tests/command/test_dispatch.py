# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The hakmem command itself: help, version, unknown commands, and programs hakmem-NAME."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import support
from support import CommandCase

ROOT = Path(__file__).resolve().parent.parent.parent


class TestDispatch(CommandCase):
    """Commands, and programs hakmem-NAME in their place."""

    def test_no_command(self) -> None:
        done = self.hakmem()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^Usage: hakmem ")

    def test_help(self) -> None:
        for words in (("--help",), ("-h",), ("help",)):
            done = self.hakmem(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for command in ("run", "version", "help"):
                self.assertRegex(done.stdout, f"(?m)^  {command} ")

    def test_help_of_a_command(self) -> None:
        for words in (("run", "--help"), ("help", "run")):
            done = self.hakmem(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for option in ("--stats", "--lib", "--check", "--dry-run", "--force"):
                self.assertIn(option, done.stdout)
        self.assertRegex(self.hakmem("help", "version").stdout, "^Usage: hakmem version")
        self.assertRegex(self.hakmem("version", "--help").stdout, "^Usage: hakmem version")

    def test_help_among_other_words(self) -> None:
        for words in (("ask", "--wait", "3", "--help"), ("ask", "--help", "1"), ("samples", "--help", "1"),
                      ("doctor", "--help", "ls"), ("stat", "--help", "1"), ("explain", "--help", "1")):
            done = self.hakmem(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            self.assertRegex(done.stdout, f"^Usage: hakmem {words[0]} ")

    def test_version(self) -> None:
        for word in ("--version", "-V", "version"):
            done = self.hakmem(word)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^hakmem \d+\.\d+\.\d+\S*\nlibrary \S+ \({re.escape(str(self.library))}\)")
        if self.real_library:
            own, library = (line.split()[1] for line in done.stdout.splitlines())
            self.assertEqual(own, library)
            self.assertNotIn("another version", done.stdout)

    def test_version_of_another_library(self) -> None:
        library = self.compile("other.so", support.STAND_IN, "-shared", "-fPIC")
        done = self.hakmem("--version", env={"HAKMEM_LIBRARY": str(library)})
        self.assertIn(f"library 9.8.7 ({library}), another version than the command\n", done.stdout)

    def test_version_of_a_library_that_crashes(self) -> None:
        source = support.STAND_IN + "__attribute__((constructor)) static void die(void) { __builtin_trap(); }"
        library = self.compile("crash.so", source, "-shared", "-fPIC")
        done = self.hakmem("--version", env={"HAKMEM_LIBRARY": str(library)})
        self.assertEqual(done.returncode, 0)
        self.assertIn("does not tell its version", done.stdout)

    def test_unknown_command(self) -> None:
        for word, nearest in (("rnu", "run"), ("versoin", "version"), ("hlep", "help")):
            done = self.hakmem(word)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^hakmem: '{word}' is not a command.*did you mean '{nearest}'")
        done = self.hakmem("photograph")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("did you mean", done.stderr)

    def test_a_tool_that_is_not_installed(self) -> None:
        """The packages of Debian have no Python tools, but the manual page tells of them."""
        command = self.folder / "alone" / "hakmem"
        command.parent.mkdir()
        shutil.copy(self.command, command)
        python = (ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8")
        tools = re.findall(r"(?m)^hakmem-(\w+) = ", python)
        self.assertIn("top", tools)
        for name in tools:
            for words in ((name, "1"), ("help", name)):
                done = subprocess.run([command, *words], env={"PATH": "/nowhere"}, capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, f"^hakmem: '{name}' is a program of its own, hakmem-{name}, .*not installed")

    def test_unknown_options(self) -> None:
        done = self.hakmem("--nonsense")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--nonsense'", done.stderr)
        done = self.hakmem("run", "--stat", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("did you mean '--stats'", done.stderr)
        self.assertEqual(self.hakmem("version", "extra").returncode, 2)
        for words in (("run",), ("run", "--"), ("run", "--stats"), ("run", "--lib"), ("run", "--lib=", "true")):
            done = self.hakmem(*words)
            self.assertEqual(done.returncode, 125, words)
            self.assertRegex(done.stderr, "^hakmem: run: ")

    def test_external_command(self) -> None:
        folder = self.write("path/hakmem-draw", '#!/bin/sh\nprintf "<%s>" "$0" "$@"\nexit 9\n').parent
        path = {"PATH": f"{folder}:{os.environ['PATH']}"}
        done = self.hakmem("draw", "a b", "--help", env=path)
        self.assertEqual((done.returncode, done.stdout), (9, f"<{folder}/hakmem-draw><a b><--help>"))
        done = self.hakmem("help", "draw", env=path)
        self.assertEqual((done.returncode, done.stdout), (9, f"<{folder}/hakmem-draw><--help>"))
        self.assertRegex(self.hakmem("help", env=path).stdout, "(?m)^  draw$")
        self.assertIn("did you mean 'draw'", self.hakmem("drwa", env=path).stderr)

    def test_external_command_beside_comes_first(self) -> None:
        self.write("hakmem-paint", "#!/bin/sh\necho beside\n")
        folder = self.write("path2/hakmem-paint", "#!/bin/sh\necho path\n").parent
        done = self.hakmem("paint", env={"PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stdout), (0, "beside\n"))

    def test_external_command_that_cannot_be_executed(self) -> None:
        folder = self.write("path3/hakmem-flat", "text\n", mode=0o644).parent
        self.assertEqual(self.hakmem("flat", env={"PATH": str(folder)}).returncode, 126)

    def test_external_name_is_no_path(self) -> None:
        self.write("hakmem-up/tool", "#!/bin/sh\necho wrong\n")
        done = self.hakmem("up/tool", env={"PATH": str(self.folder)}, cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_full_disk_is_an_error(self) -> None:
        for words in (("--version",), ("help",), ("run", "--check", "true"), ("run", "--help")):
            with open("/dev/full", "w") as full:
                done = subprocess.run(
                    [self.command, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
                )
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr, "^hakmem: cannot write the output: No space left")

    def test_closed_output_is_an_error(self) -> None:
        for closed in ("1>&-", "0<&- 1>&-"):
            for word in ("--version", "--help"):
                words = ["sh", "-c", f'exec "$0" "$1" {closed}', str(self.command), word]
                done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 1, words)
                self.assertRegex(done.stderr, "^hakmem: cannot write the output: Bad file descriptor")


if __name__ == "__main__":
    support.main()
