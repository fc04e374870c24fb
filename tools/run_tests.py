#!/usr/bin/env python3
"""Runs the tests: builds the variants, runs ctest in each, the gates, and the checkers.

    run_tests.py all|variants|quick|lint

One line a step on the terminal; everything else goes to build/logs. A step that fails shows the end of its log and the
rest goes on, except what needs it. What failed is said again at the end, in a few lines each. The last line is
`N passed, N failed`: tests of ctest, and steps without tests of their own (a build, a checker) as one each. The exit
status is 0 only if nothing failed and something passed.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "logs"
VARIANTS = ("release", "debug", "asan", "tsan")
# What only `all` runs: labels of what is not the allocator's or the command's, or needs another kernel; and tests of the
# tests, and python's own.
APART = ("bench", "python", "vm")
APART_TESTS = "^(gate_selftest|conformance.check_tests|sched_(mistakes|orders)|programs_python-tests-.*)$"
TAIL_LINES = 60
AGAIN_LINES = 10
FAILED_LINE = re.compile(r"error\b|\b(fail(s|ed|ure)?|hangs?|abort|invalid)\b|\bassert", re.I)
MESSAGE = re.compile(r"\b(error|warning)\b.*:|: undefined reference|^not formatted|CMake Error|^In .* line \d")
JOBS = str(min(4, os.cpu_count() or 1))


@dataclass
class Totals:
    """What was run so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Totals") -> None:
        """Adds the counts of another run."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.problems += other.problems

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def say(text: str, end: str = "\n") -> None:
    """Prints at once."""
    print(text, end=end, flush=True)


def log_lines(log: Path, messages_only: bool = False) -> list[str]:
    """The end of a log, or of the compilers' and checkers' messages in it where there are any."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if messages_only:
        lines = list(dict.fromkeys(line for line in lines if MESSAGE.search(line))) or lines
    return lines[-TAIL_LINES:]


def show_log(log: Path, messages_only: bool = False) -> None:
    """Prints that end, and where the rest is."""
    say("\n".join(f"    {line}" for line in log_lines(log, messages_only)))
    say(f"    all of it: {log.relative_to(ROOT)}")


def problem(name: str, lines: list[str]) -> str:
    """A failure as it is said again at the end."""
    return "\n".join([f"failed: {name}", *(f"    {line}" for line in lines[-AGAIN_LINES:])])


def execute(what: str, log_name: str, command: list[str]) -> tuple[int, Path]:
    """Runs a command into a log; prints its line without the outcome."""
    say(f"{what} ... ", end="")
    log = LOGS / f"{log_name}.log"
    LOGS.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        try:
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, check=False)
            return done.returncode, log
        except FileNotFoundError:
            out.write(f"{command[0]} not found. tools/setup-test.sh installs it.\n")
            return 127, log


def step(totals: Totals, what: str, log_name: str, command: list[str]) -> bool:
    """A command that passes or fails as a whole; only that it failed is counted."""
    begin = time.monotonic()
    status, log = execute(what, log_name, command)
    if status == 0:
        say(f"ok ({time.monotonic() - begin:.0f} s)")
        return True
    say(f"failed (status {status})")
    show_log(log, messages_only=True)
    totals.add(Totals(failed=1, problems=[problem(what, log_lines(log, messages_only=True))]))
    return False


def counted_step(totals: Totals, what: str, log_name: str, command: list[str]) -> bool:
    """The same, counted as one test."""
    passed = step(totals, what, log_name, command)
    totals.add(Totals(passed=int(passed)))
    return passed


def read_junit(path: Path) -> Totals:
    """The counts in ctest's JUnit file."""
    suite = ElementTree.parse(path).getroot()
    count = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "disabled", "skipped")}
    skipped = count["disabled"] + count["skipped"]
    return Totals(count["tests"] - count["failures"] - skipped, count["failures"], skipped)


def show_failed_tests(preset: str, junit: Path) -> list[str]:
    """What the failed tests printed themselves: of each the lines that say what went wrong, else the last ones.
    Returns what is said again."""
    cases = ElementTree.parse(junit).getroot().iter("testcase") if junit.exists() else ()
    problems = []
    for case in cases:
        if case.get("status") != "fail":
            continue
        lines = case.findtext("system-out", "").rstrip().splitlines()
        messages = [line for line in lines if FAILED_LINE.search(line)] or lines
        say("\n".join(f"    {case.get('name')}: {line}" for line in messages[-TAIL_LINES:]))
        problems.append(problem(f"{preset}: {case.get('name')}", messages))
    return problems


def ctest(totals: Totals, preset: str, what: str, log_name: str, *arguments: str) -> None:
    """A run of ctest. Ending badly without a failed test, or running no test, is a failure too."""
    junit = LOGS / f"{log_name}.xml"
    junit.unlink(missing_ok=True)
    begin = time.monotonic()
    command = ["ctest", "--preset", preset, "--output-on-failure", "--no-tests=error",
               "--output-junit", str(junit), *arguments]
    status, log = execute(f"{what}: tests", log_name, command)
    result = read_junit(junit) if junit.exists() else Totals()
    if status != 0 and result.failed == 0 or result.passed == 0 and result.failed == 0:
        result.failed += 1
    say(f"{result} ({time.monotonic() - begin:.0f} s)")
    totals.add(result)
    if result.failed:
        totals.problems += show_failed_tests(preset, junit) or [problem(what, log_lines(log))]
        show_log(log)


def build(totals: Totals, preset: str, require_tools: bool = True) -> bool:
    """Configures and builds a preset, counted as one test."""
    required = "ON" if require_tools else "OFF"
    configure = ["cmake", "--preset", preset, f"-DHAKMEM_REQUIRE_TEST_TOOLS={required}"]
    if not step(totals, f"{preset}: configure", f"configure-{preset}", configure):
        return False
    return counted_step(totals, f"{preset}: build", f"build-{preset}",
                        ["cmake", "--build", "--preset", preset, "--", "-k", "0"])


def shell_scripts() -> list[str]:
    """All shell scripts of the project. What lies in a folder named data is input of a test."""
    candidates = [ROOT / ".ci" / "run"]
    for folder in ("tools", "bench", "tests", "cmd"):
        candidates += sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".sh", ".bash"))
    return [str(path.relative_to(ROOT)) for path in candidates if path.exists() and "data" not in path.parts]


def lint_python(totals: Totals) -> None:
    """The Python package and what else is checked like it."""
    scripts = ["tools/gdb", "tests/gdb", "tools/examples.py", "tools/examples_workload.py",
               "tests/glibc", "tests/vm"]
    ruff = ["build/venv/bin/ruff", "--config", "python/pyproject.toml"]
    counted_step(totals, "ruff", "ruff", [*ruff, "check", "--no-cache", "python", *scripts])
    counted_step(totals, "ruff: format", "ruff-format", [*ruff, "format", "--no-cache", "--check", "python"])
    counted_step(totals, "mypy", "mypy", ["build/venv/bin/mypy", "--config-file", "python/pyproject.toml",
                                          "--cache-dir", "build/mypy", "python/src"])


def tidy_commands() -> Path:
    """A folder with the compile commands of src and cmd, one of each file: clang-tidy would look at a file once for
    each library that it is part of. The first is that of the default library where there is one."""
    entries = json.loads((ROOT / "build" / "clang" / "compile_commands.json").read_text(encoding="utf-8"))
    chosen: dict[str, dict[str, str]] = {}
    for entry in entries:
        if entry["file"].startswith((f"{ROOT}/src/", f"{ROOT}/cmd/")):
            chosen.setdefault(entry["file"], entry)
    folder = ROOT / "build" / "clang" / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(chosen.values()), indent=1), encoding="utf-8")
    return folder


def lint(totals: Totals) -> None:
    """Formatting, clang-tidy, shellcheck, manual pages, Python. clang-tidy needs the compile commands of clang."""
    pages = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "man").iterdir())
    counted_step(totals, "man", "man", ["mandoc", "-T", "lint", "-W", "warning", *pages])
    lint_python(totals)
    counted_step(totals, "format", "format", ["tools/format.sh", "--check"])
    counted_step(totals, "shellcheck", "shellcheck", ["shellcheck", "--external-sources", *shell_scripts()])
    # Each time, so that files are seen which are newer than the last build by clang.
    if step(totals, "clang: configure", "configure-clang", ["cmake", "--preset", "clang"]):
        counted_step(totals, "clang-tidy", "clang-tidy",
                     ["run-clang-tidy-19", "-quiet", "-p", str(tidy_commands()), "-j", JOBS])


def run_clang(totals: Totals) -> None:
    """The product compiled by clang: of its tests those of each layer, where other code comes of the same source."""
    if build(totals, "clang"):
        ctest(totals, "clang", "clang", "test-clang", "-L", "^unit$")


def run_rust(totals: Totals) -> None:
    """The crate, compiled of the same sources, with its own tests."""
    counted_step(totals, "rust: tests", "test-rust", ["cargo", "test", "--target-dir", "build/rust"])


def run_package(totals: Totals) -> None:
    """The Debian packages, as lintian and a program under what they install see them."""
    counted_step(totals, "debian: packages", "test-package",
                 [sys.executable, "-B", "tests/package/run.py", "build/debian"])


def run_musl(totals: Totals) -> None:
    """The product for musl, beside this system's C library."""
    if build(totals, "musl", require_tools=False):
        ctest(totals, "musl", "musl", "test-musl")


def run_emulated(totals: Totals) -> None:
    """The product for other processors, by cross compilers, under an emulator."""
    for machine in ("aarch64", "riscv64"):
        if build(totals, machine, require_tools=False):
            counted_step(totals, f"{machine}: tests", f"test-{machine}",
                         [sys.executable, "-B", "tests/emulated/run.py", f"build/{machine}"])


def run_variants(totals: Totals, everything: bool) -> None:
    """The allocator and the command: each variant with its tests."""
    for preset in VARIANTS:
        left_out = [] if everything else list(APART)
        if preset != "release": # the gates with the release variant, to which most of them belong
            left_out.append("gate")
        chosen = [] if everything else ["-E", APART_TESTS]
        if left_out:
            chosen += ["-LE", f"^({'|'.join(left_out)})$"]
        if build(totals, preset):
            ctest(totals, preset, preset, f"test-{preset}", *chosen)


def run_all(totals: Totals) -> None:
    """Everything."""
    run_variants(totals, everything=True)
    run_clang(totals)
    run_rust(totals)
    run_package(totals)
    run_musl(totals)
    run_emulated(totals)
    lint(totals)


def run_quick(totals: Totals) -> None:
    """The release variant with the gates."""
    if build(totals, "release", require_tools=False):
        ctest(totals, "release", "release", "test-quick")


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tests of hakmem.")
    parser.add_argument("what", choices=("all", "variants", "quick", "lint"))
    arguments = parser.parse_args()
    if shutil.which("cmake") is None:
        sys.exit("cmake not found. tools/setup-test.sh installs it.")
    totals = Totals()
    steps = {"all": run_all, "variants": lambda t: run_variants(t, everything=False), "quick": run_quick, "lint": lint}
    steps[arguments.what](totals)
    for text in totals.problems:
        say(text)
    say(str(totals))
    return 0 if totals.failed == 0 and totals.passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
