"""What the gates share: how they report, and the order of the layers.

A gate is a script that looks at the tree or at what was built, prints what is wrong, one line each with a
hint what to do, and exits with 1; or prints one line with what it saw and exits with 0.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

# Bottom to top. A layer may include and call those to its left.
LAYERS = ["base", "os", "space", "slab", "pool", "large", "cache", "telemetry", "policy", "heap", "hard", "api"]

SOURCE_SUFFIXES = {".c", ".h", ".cc"}


def report(gate: str, problems: list[str], seen: str) -> int:
    """Prints the outcome; returns the exit status."""
    for problem in problems:
        print(f"{gate}: {problem}")
    if problems:
        print(f"{gate}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
        return 1
    print(f"{gate}: ok, {seen}")
    return 0


def give_up(gate: str, message: str) -> NoReturn:
    """Ends the gate with an error when it cannot even look."""
    sys.exit(f"{gate}: {message}")


def run(*command: str | Path) -> str:
    """Runs a tool and returns what it printed; an error that says what failed otherwise."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"gate: {words[0]} not found. tools/setup-test.sh installs it.")
    if done.returncode != 0:
        sys.exit(f"gate: {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def preloaded(shared: Path) -> dict[str, str]:
    """Our environment without options of hakmem, and with the library, which prints a summary at the end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}
    return {**clean, "LD_PRELOAD": str(shared.resolve()), "HAKMEM_STATS": "1"}


def sources(src: Path) -> list[Path]:
    """All C and C++ files below src, sorted."""
    return sorted(path for path in src.rglob("*") if path.suffix in SOURCE_SUFFIXES)


def blank_comments(text: str) -> str:
    """The text with comments and string literals blanked out; line numbers stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
