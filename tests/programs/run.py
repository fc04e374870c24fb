#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem print what they print without it, with the same exit status.

    tests/programs/run.py --library build/release/libhakmem.so bash      one program
    tests/programs/run.py --library build/release/libhakmem.so           all of them
    tests/programs/run.py --list

Exit status 0: passed; 1: failed; 77: not installed, skipped (CTest's SKIP_RETURN_CODE). With CI in
the environment a program that is missing fails, unless it is optional.
Who runs it: CTest (one test for each case), or a person. It never leaves anything behind.
"""

import argparse
import difflib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cases import CASES
from stage import Case, Stage, StageError, Step

PASSED, FAILED, SKIPPED = 0, 1, 77


def missing_programs(case: Case) -> list[str]:
    return [name for name in case.needs if shutil.which(name) is None]


def play(case: Case, directory: Path, library: Path | None) -> str:
    stage = Stage(directory, library, case.files)
    if callable(case.play):
        case.play(stage)
    else:
        for step in case.play:
            stage.run(step)
    return stage.masked_record(case.mask)


def check_malloc_is_ours(case: Case, scratch: Path, library: Path) -> None:
    """Asks the dynamic linker where malloc leads. A program may also name itself: its own jump to
    the library, whose address stands for malloc in programs that are not position-independent."""
    stage = Stage(scratch / "probe", library, ())
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


def run_case(case: Case, library: Path) -> int:
    missing = missing_programs(case)
    if missing:
        failed = bool(os.environ.get("CI")) and not case.optional
        print(
            f"{case.name}: {'FAILED' if failed else 'skipped'}: not installed: "
            f"{', '.join(missing)} (tools/setup-test.sh installs what the tests need)"
        )
        return FAILED if failed else SKIPPED
    with tempfile.TemporaryDirectory(prefix="hakmem-programs-") as name:
        scratch = Path(name).resolve()
        try:
            check_malloc_is_ours(case, scratch, library)
            begin = time.monotonic()
            without = play(case, scratch / "work", None)
            middle = time.monotonic()
            under = play(case, scratch / "work", library)
            end = time.monotonic()
            compare(case, without, under)
        except StageError as error:
            print(f"{case.name}: FAILED: {error}")
            return FAILED
    print(
        f"{case.name}: passed ({middle - begin:.1f} s without hakmem, {end - middle:.1f} s with it)"
    )
    return PASSED


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compares real programs with and without hakmem.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names (default: all)")
    parser.add_argument("--library", type=Path, metavar="FILE", help="the libhakmem.so to preload")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    known = [case.name for case in CASES]
    for name in arguments.cases:
        if name not in known:
            parser.error(f"no case '{name}': there are {', '.join(known)}")
    if not arguments.list and (arguments.library is None or not arguments.library.is_file()):
        parser.error(
            f"--library: {arguments.library} is not a file; build it, then give "
            "build/release/libhakmem.so"
        )
    return arguments


def main() -> int:
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(case.name for case in CASES))
        return 0
    os.environ.pop("LD_PRELOAD", None)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chosen = [case for case in CASES if not arguments.cases or case.name in arguments.cases]
    results = [run_case(case, arguments.library.absolute()) for case in chosen]
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
