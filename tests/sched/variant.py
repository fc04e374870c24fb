"""Variants of the scheduler's program: one source file of the allocator changed, compiled and linked as the build does.

Used by run.py. A change that no longer fits the source is an error: the texts that it replaces must be there once.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import json
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SRC = HERE.parent.parent / "src"
FAILED = re.compile(r"^FAILED (\S+) seed (\d+) after (\d+) seeds: (.*)$", re.M)
SECONDS = 900  # for one run of a program, on a slow machine


class VariantError(Exception):
    """A change does not fit the source, or what it makes does not compile."""


@dataclass(frozen=True)
class Found:
    """A seed under which a variant fails."""

    scenario: str
    seed: int
    seeds: int  # that were tried
    message: str


def changed(file: str, edits: tuple[tuple[str, str], ...]) -> str:
    """The text of src/`file` with each text replaced by another."""
    text = (SRC / file).read_text(encoding="utf-8")
    for old, new in edits:
        count = text.count(old)
        if count != 1:
            raise VariantError(f"src/{file}: the text to be replaced is there {count} times, not once:\n{old}")
        text = text.replace(old, new)
    return text


class Builder:
    """Compiles and links variants in a build folder in which the target `sched` has been built."""

    def __init__(self, build: Path, work: Path) -> None:
        self.build = build
        self.work = work
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        self.commands = {}
        for entry in commands:
            arguments = shlex.split(entry["command"])
            output = arguments[arguments.index("-o") + 1]
            if "sched_allocator.dir" in output:
                name = str(Path(entry["file"]).resolve().relative_to(SRC))
                self.commands[name] = (arguments, output)
        self.own = sorted(str(path) for path in build.glob("tests/sched/CMakeFiles/sched_own.dir/**/*.o"))
        if not self.commands or not self.own:
            raise VariantError(f"{build}: build the target sched first")
        wrapped = (HERE / "wrap.txt").read_text(encoding="utf-8").split()
        self.link_flags = ["-no-pie", *(f"-Wl,--wrap={name}" for name in wrapped)]

    def make(self, name: str, file: str, text: str) -> Path:
        """Builds the program with src/`file` replaced by `text`."""
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / "src" / file
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text, encoding="utf-8")
        arguments, _ = self.commands[file]
        replaced = folder / "replaced.o"
        compile_command = [str(source) if a.endswith("/src/" + file) else a for a in arguments]
        compile_command[compile_command.index("-o") + 1] = str(replaced)
        self.execute([a for a in compile_command if a != "-Werror"], name)
        others = [str(self.build / o) for f, (_, o) in self.commands.items() if f != file]
        program = folder / "sched"
        compiler = arguments[0]
        self.execute([compiler, *self.link_flags, "-o", str(program), *self.own, str(replaced), *others], name)
        return program

    def execute(self, command: list[str], name: str) -> None:
        """Runs a compiler."""
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise VariantError(f"{name}: {command[0]} failed:\n{done.stderr}")


def hunt(program: Path, scenario: str, seeds: int, which: str) -> Found | None:
    """Runs a scenario until a seed fails. `which`: "--weak" or "--strong" seeds only; "": all."""
    command = [str(program), "--scenario", scenario, "--seeds", str(seeds), *([which] if which else [])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    match = FAILED.search(done.stdout)
    if match:
        return Found(match.group(1), int(match.group(2)), int(match.group(3)), match.group(4))
    if done.returncode != 0:
        raise VariantError(f"{program}: status {done.returncode}: {done.stdout}{done.stderr}")
    return None
