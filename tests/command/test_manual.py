# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The manual page and the completion name every command and every option that the command's own help names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import support
from support import CommandCase

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "man" / "hakmem.1"
COMPLETION = ROOT / "cmd" / "hakmem" / "completion.bash"


def named(text: str) -> set[str]:
    """The long options that a text names."""
    return set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text))


class Manual(CommandCase):
    """What the page says, against what the command says."""

    def commands(self) -> list[str]:
        """Those of the command itself, from its help."""
        text = self.hakmem("help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
        return [line.split()[0] for line in text.splitlines()]

    def test_every_command_is_in_the_synopsis_and_described(self) -> None:
        page = PAGE.read_text(encoding="utf-8")
        synopsis = page.partition(".Sh SYNOPSIS")[2].partition(".Sh ")[0]
        described = page.partition(".Sh DESCRIPTION")[2]
        self.assertGreaterEqual(len(self.commands()), 4)
        for command in self.commands():
            self.assertRegex(synopsis, rf"(?m)^\.Cm {command}$")
            self.assertRegex(described, rf"(?m)^\.It Cm {command}\b")

    def test_every_option_of_the_synopsis_has_two_dashes(self) -> None:
        """A bar ends what `Fl` began: behind it, it has to be said again."""
        synopsis = PAGE.read_text(encoding="utf-8").partition(".Sh SYNOPSIS")[2].partition(".Sh ")[0]
        self.assertEqual(re.findall(r"(?m)^.*Fl Fl [\w-]+ \| (?!Fl ).*$", synopsis), [])

    def test_every_option_is_named(self) -> None:
        # In the page an option is `Fl Fl name`, and so are those that follow behind a bar or a comma.
        page = re.sub(r"[|,]", " ", PAGE.read_text(encoding="utf-8"))
        for command in self.commands():
            for option in named(self.hakmem("help", command).stdout) - {"help", "version"}:
                found = re.search(rf"Fl Fl ([a-z-]+ +)*{option}\b", page)
                self.assertIsNotNone(found, f"{PAGE.name} does not name --{option} of hakmem {command}")

    def test_completion_offers_every_command_and_option(self) -> None:
        offered = self.completed("hakmem", "")
        for command in self.commands():
            self.assertIn(command, offered)
            options = {f"--{option}" for option in named(self.hakmem("help", command).stdout)} - {"--version"}
            if options - {"--help"}:
                self.assertEqual(options - set(self.completed("hakmem", command, "-")), set(), f"of {command}")

    def completed(self, *words: str) -> list[str]:
        """What is offered for the last of the words."""
        quoted = " ".join(f"'{word}'" for word in words)
        script = f"source {COMPLETION}; COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}; _hakmem"
        script += "; printf '%s\\n' \"${COMPREPLY[@]}\""
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.split()


if __name__ == "__main__":
    support.main()
