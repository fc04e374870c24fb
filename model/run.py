#!/usr/bin/env python3
"""Checks the models of the lock-free protocols with Spin: what is right holds, what is broken is caught.

    run.py [--quick] [--only TEXT]      --quick: a minute at most; otherwise larger models too, in some minutes
    run.py --markdown                   brings the tables in docs/model.md up to date

One line a case: states, time, verdict. A mistake has to be caught by the property that is named for it in cases.py; a
search that ends before all states were seen counts as a failure. The exit status is 0 only if all is as expected.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cases import CASES, Case

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "model.md"
BEGIN, END = "<!-- cases -->\n", "<!-- end of cases -->\n"
JOBS = min(2, os.cpu_count() or 1)
ERROR = re.compile(r"^pan:1: (.*) \(at depth \d+\)$", re.M)
PROPERTY = re.compile(r"\|\|(\w+)\)$")
STATES = re.compile(r"^ *([\d.e+]+) states, stored", re.M)


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    optimise: str  # of gcc: small models are run faster than they are optimised
    memory_mib: int
    table: int  # bits of the first hash table; it grows
    depth: int
    seconds: int


QUICK = Limits("-O0", 1000, 18, 100_000, 60)
FULL = Limits("-O2", 8000, 24, 5_000_000, 1200)


@dataclass
class Result:
    """What came out."""

    verdict: str  # "holds", the name of a property, or what went wrong
    states: int
    seconds: float
    log: str


def execute(command: list[str], folder: Path, seconds: int) -> str:
    """Runs a command and returns what it printed; raises an exception with that text when it fails."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def read_verdict(case: Case, log: str) -> str:
    """The verdict in the verifier's output."""
    found = ERROR.search(log)
    if found:
        text = found.group(1)
        if text == "acceptance cycle":
            return case.formula
        name = PROPERTY.search(text)
        return name.group(1) if name else text
    incomplete = ("max search depth too small", "Search not completed", "reached -DMEMLIM", "out of memory")
    for text in incomplete:
        if text in log:
            return f"not all states were seen: {text}"
    return "holds" if "errors: 0" in log else "no result"


def verify(case: Case, limits: Limits, folder: Path) -> tuple[str, str]:
    """Makes and runs the verifier of one case. Returns the verdict and the output."""
    source = HERE / f"{case.model}.pml"
    for path in HERE.glob("*.pml"):
        shutil.copy(path, folder)
    execute(["spin", *(f"-D{macro}" for macro in case.macros), "-a", source.name], folder, limits.seconds)
    flags = [] if case.formula else ["-DSAFETY", "-DNOCLAIM"]
    pack = ["-DCOLLAPSE"] if case.full else []  # slower, but states take a third of the memory
    execute(["gcc", limits.optimise, "-w", *flags, *pack, f"-DMEMLIM={limits.memory_mib}", "-o", "pan", "pan.c"],
            folder, limits.seconds)
    arguments = ["-a", "-f", "-N", case.formula] if case.formula else []
    log = execute(["./pan", f"-m{limits.depth}", f"-w{limits.table}", *arguments], folder, limits.seconds)
    return read_verdict(case, log), log


def run_case(case: Case, limits: Limits) -> Result:
    """The same with time and number of states, whatever happens."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hakmem-model-") as folder:
        try:
            verdict, log = verify(case, limits, Path(folder))
        except subprocess.CalledProcessError as error:
            verdict, log = f"{error.cmd[0]} failed (status {error.returncode})", str(error.output)
        except subprocess.TimeoutExpired as error:
            verdict, log = f"{error.cmd[0]} took more than {limits.seconds} s", str(error.output)
    states = STATES.search(log)
    return Result(verdict, int(float(states.group(1))) if states else 0, time.monotonic() - begin, log)


def report(case: Case, result: Result) -> bool:
    """Prints a case's line; the verifier's output too, when it is not what was expected."""
    expected = case.expect or "holds"
    good = result.verdict == expected
    kind = "mistake" if case.broken else "correct"
    verdict = f"caught by {result.verdict}" if good and case.broken else result.verdict
    print(f"{case.model:6} {kind:7} {case.name:26} {verdict:34} {result.states:>10,} states {result.seconds:6.1f} s  "
          f"{'ok' if good else 'NOT AS EXPECTED: ' + expected}", flush=True)
    if not good:
        print("\n".join(f"    {line}" for line in result.log.splitlines()[-40:]), flush=True)
        macros = " ".join(f"-D{macro}" for macro in case.macros)
        print(f"    by hand, in model/: spin {macros} -a {case.model}.pml; gcc pan.c; ./pan; spin -t -p", flush=True)
    return good


def table() -> str:
    """The tables of docs/model.md."""
    lines = ["| model | must hold | what happens in it |", "|---|---|---|"]
    lines += [f"| {c.model} | `{c.name}`{' (full run)' if c.full else ''} | {c.what} |" for c in CASES if not c.broken]
    lines += ["", "| model | mistake (`-DBROKEN=`) | what is wrong | caught by |", "|---|---|---|---|"]
    lines += [f"| {c.model} | `{c.name}` | {c.what} | `{c.expect}` |" for c in CASES if c.broken]
    return "\n".join(lines) + "\n"


def document_with_tables() -> str:
    """docs/model.md as it should be."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"run.py: docs/model.md has no lines {BEGIN.strip()} and {END.strip()}")
    return text[:text.index(BEGIN) + len(BEGIN)] + table() + text[text.index(END):]


def check_tools() -> None:
    """Says what is missing and where it comes from."""
    for tool, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(tool) is None:
            sys.exit(f"model: {tool} not found. It is in the Debian package {package}; "
                     "tools/setup-test.sh installs it.")


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the models of the lock-free protocols with Spin.")
    parser.add_argument("--quick", action="store_true", help="the small models and all mistakes only")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose model or name contains this")
    parser.add_argument("--markdown", action="store_true", help="write the tables into docs/model.md, check nothing")
    arguments = parser.parse_args()
    if arguments.markdown:
        DOCUMENT.write_text(document_with_tables(), encoding="utf-8")
        return 0
    check_tools()
    cases = [c for c in CASES if not (c.full and arguments.quick) and arguments.only in f"{c.model}/{c.name}"]
    if not cases:
        sys.exit(f"model: no case contains '{arguments.only}'")
    begin = time.monotonic()
    good = 0
    with ThreadPoolExecutor(JOBS) as executor:
        limits = [FULL if c.full else QUICK for c in cases]
        for case, result in zip(cases, executor.map(run_case, cases, limits)):
            good += report(case, result)
    bad = len(cases) - good
    if document_with_tables() != DOCUMENT.read_text(encoding="utf-8"):
        print("docs/model.md is not up to date; run model/run.py --markdown")
        bad += 1
    print(f"{good} as expected, {bad} not ({time.monotonic() - begin:.0f} s)")
    return 0 if bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
