#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem print what they print without it, with the same exit status.

    tests/programs/run.py --lib build/release/libhakmem.so bash         one program
    tests/programs/run.py --lib build/release/libhakmem.so              those of `make test`
    tests/programs/run.py --lib build/release/libhakmem.so --all        all, and a table of them
    tests/programs/run.py --list

Exit status 0: passed; 1: failed; 77: not installed, skipped (CTest's SKIP_RETURN_CODE). With CI in
the environment a program that is missing fails, unless it is optional.
Who runs it: CTest (one test for each case), `make programs`, or a person. It never leaves anything
behind.
"""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import report
from cases import CASES
from report import FAILED, PASSED, SKIPPED, Outcome
from stage import Case, Stage, StageError, Step, Usage, begin_plays, scratch_folder

SETUP = {False: "tools/setup-test.sh", True: "tools/setup-programs.sh"}


def missing_programs(case: Case) -> list[str]:
    return [name for name in case.needs if shutil.which(name) is None]


def play(case: Case, directory: Path, library: Path | None, measured: bool) -> tuple[str, Usage]:
    stage = Stage(directory, library, case.files, measured)
    if callable(case.play):
        case.play(stage)
    else:
        for step in case.play:
            stage.run(step)
    return stage.masked_record(case.mask), stage.usage


def check_malloc_is_ours(case: Case, scratch: Path, library: Path) -> None:
    """Asks the dynamic linker where malloc leads. A program may also name itself: its own jump to
    the library, whose address stands for malloc in programs that are not position-independent."""
    stage = Stage(scratch / "probe", library, case.files)
    stage.run(Step(case.probe, env={"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(scratch / "b")}))
    text = "".join(path.read_text(errors="replace") for path in scratch.glob("b.*"))
    bound = set(re.findall(r"to (\S+) \[\d+\]: normal symbol `malloc'", text))
    if {path for path in bound if ".so" in path} != {str(library)}:
        raise StageError(
            f"{' '.join(case.probe)}: malloc leads to {', '.join(sorted(bound)) or 'nowhere'}, "
            f"not to {library} alone"
        )


def compare(case: Case, without: str, under: str) -> None:
    for pattern in case.expect:
        if not re.search(pattern, without):
            raise StageError(f"without hakmem nothing matches {pattern!r}:\n{without[-3000:]}")
    if without != under:
        lines = difflib.unified_diff(
            without.splitlines(), under.splitlines(), "without hakmem", "under hakmem", lineterm=""
        )
        raise StageError("the outputs differ:\n" + "\n".join(list(lines)[:60]))


def play_case(case: Case, library: Path, measured: bool, outcome: Outcome) -> None:
    """Plays a case twice and takes note of how far it came."""
    with scratch_folder() as scratch:
        check_malloc_is_ours(case, scratch, library)
        outcome.taken_over = True
        begin = time.monotonic()
        without, outcome.without = play(case, scratch / "work", None, measured)
        middle = time.monotonic()
        under, outcome.under = play(case, scratch / "work", library, measured)
        outcome.seconds = (middle - begin, time.monotonic() - middle)
        outcome.ended_well = True
        compare(case, without, under)
        outcome.equal = True


def run_case(case: Case, library: Path, measured: bool) -> Outcome:
    outcome = Outcome(case)
    missing = missing_programs(case)
    if missing:
        failed = bool(os.environ.get("CI")) and not case.optional
        outcome.status = FAILED if failed else SKIPPED
        outcome.problem = f"not installed: {', '.join(missing)}"
        print(
            f"{case.name}: {'FAILED' if failed else 'skipped'}: {outcome.problem} "
            f"({SETUP[case.wide]} installs what the tests need)"
        )
        return outcome
    try:
        play_case(case, library, measured, outcome)
    except StageError as error:
        outcome.status = FAILED
        outcome.problem = str(error)
        print(f"{case.name}: FAILED: {error}", flush=True)
        return outcome
    outcome.status = PASSED
    before, after = outcome.seconds
    print(f"{case.name}: passed ({before:.1f} s without hakmem, {after:.1f} s with it)", flush=True)
    return outcome


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares real programs with and without hakmem.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the same")
    parser.add_argument("--all", action="store_true", help="those of `make programs` too")
    parser.add_argument(
        "--lib", "--library", type=Path, metavar="FILE", help="the libhakmem.so to preload"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    arguments.cases += arguments.only
    known = [case.name for case in CASES]
    for name in arguments.cases:
        if name not in known:
            parser.error(f"no case '{name}': there are {', '.join(known)}")
    if not arguments.list and (arguments.lib is None or not arguments.lib.is_file()):
        parser.error(
            f"--lib: {arguments.lib} is not a file; build it, then give build/release/libhakmem.so"
        )
    return arguments


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    if arguments.cases:
        return [case for case in CASES if case.name in arguments.cases]
    return [case for case in CASES if arguments.all or not case.wide]


def main() -> int:
    arguments = parse_arguments()
    chosen = chosen_cases(arguments)
    if arguments.list:
        print("\n".join(case.name for case in chosen))
        return 0
    begin_plays()
    library = arguments.lib.absolute()
    measured = arguments.all or arguments.table is not None
    outcomes = [run_case(case, library, measured) for case in chosen]
    if measured:
        print()
        print("\n".join(report.lines(outcomes)))
    if arguments.table is not None:
        arguments.table.write_text(report.page(outcomes), encoding="utf-8")
    results = [outcome.status for outcome in outcomes]
    if len(results) > 1:
        print(
            f"{results.count(PASSED)} passed, {results.count(FAILED)} failed, "
            f"{results.count(SKIPPED)} skipped"
        )
    return FAILED if FAILED in results else SKIPPED if set(results) == {SKIPPED} else PASSED


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"run.py: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
