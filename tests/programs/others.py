#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem and under other allocators: which of them still do what they do.

    tests/programs/others.py --lib hakmem=build/release/libhakmem.so --lib rpmalloc=build/peers/rpmalloc.so
                             [--table docs/programs-others.md] [CASE...]

Each program of `make programs` is played once without any of the libraries and once under each
(LD_PRELOAD); its output and exit status have to be the same. Programs that are not installed are
left out and named. Exit status 0: done, whatever came out; 1: nothing could be played.
Who runs it: a person, after tools/setup-bench.sh and tools/setup-programs.sh. It takes some minutes
for each library, and never leaves anything behind.
"""

import argparse
import re
import sys
from pathlib import Path

import report
import stage
from cases import CASES
from run import compare, missing_programs, play
from stage import Case, StageError, begin_plays, scratch_folder

SAME = "the same"
# What is behind the cases that came out differently so far.
REASONS = {
    "g++": "a `new` that cannot be served has to throw std::bad_alloc; libraries built from C sources alone end the "
    "process or return NULL",
    "clang": "as g++: the compiled program, not the compiler",
    "gdb": "a breakpoint at a function named `depth` finds one in the library too",
    "php": "its modules are loaded with RTLD_DEEPBIND, so that libc frees what php has allocated; `php --version` "
    "ends so too",
}
OUTCOMES = (SAME, "killed by a signal", "another exit status", "other output", "not done in time")


def outcome_of(error: Exception) -> str:
    """What a play's error means, one of OUTCOMES."""
    first = str(error).splitlines()[0]
    if "not done after" in first:
        return OUTCOMES[4]
    if "killed by" in first or re.search(r": status 1[3-5]\d, expected status", first):
        return OUTCOMES[1]  # a shell says 128 and the signal's number
    return OUTCOMES[2] if ", expected status" in first else OUTCOMES[3]


def play_under(case: Case, scratch: Path, library: Path, without: str) -> str:
    """One of OUTCOMES."""
    try:
        compare(case, without, play(case, scratch / "work", library, False)[0])
    except (StageError, OSError) as error:
        return outcome_of(error)
    return SAME


def play_case(case: Case, libraries: dict[str, Path]) -> dict[str, str] | None:
    """Under each library; None: not even without one."""
    with scratch_folder() as scratch:
        try:
            without = play(case, scratch / "work", None, False)[0]
        except StageError as error:
            print(f"{case.name}: without any library: {error}", flush=True)
            return None
        found = {n: play_under(case, scratch, library, without) for n, library in libraries.items()}
    told = ", ".join(f"{n} {outcome}" for n, outcome in found.items() if outcome != SAME)
    print(f"{case.name}: {told or 'all the same'}", flush=True)
    return found


def page(found: dict[str, dict[str, str]], libraries: dict[str, Path], left_out: list[str]) -> str:
    """The table as Markdown."""
    played = f"{len(found)} programs." + (
        f" Not played: {', '.join(left_out)}." if left_out else ""
    )
    out = [
        "# Programs under other allocators",
        "",
        "Made by `tests/programs/others.py` (its beginning says how); do not edit. The programs of",
        "[programs.md](programs.md), each played once without and once under each library (`LD_PRELOAD`):",
        "output and exit status have to be the same.",
        "",
        f"{report.today_and_here()}; {played}",
        "",
        "| library | " + " | ".join(OUTCOMES) + " |",
        "|---|" + "---:|" * len(OUTCOMES),
    ]
    for name in libraries:
        results = [by_library[name] for by_library in found.values()]
        out.append(
            f"| {name} | " + " | ".join(str(results.count(outcome)) for outcome in OUTCOMES) + " |"
        )
    out += [
        "",
        "## Which, and how",
        "",
        "| program | " + " | ".join(libraries) + " |",
        "|---|" + "---|" * len(libraries),
    ]
    differ = {case: by for case, by in found.items() if set(by.values()) != {SAME}}
    for case, by_library in differ.items():
        outcomes = [by_library[name] for name in libraries]
        out.append(f"| {case} | " + " | ".join("" if o == SAME else o for o in outcomes) + " |")
    out += ["", *(f"- {case}: {REASONS[case]}." for case in REASONS if case in differ)]
    return "\n".join(out) + "\n"


def add_libraries(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """What to play, under what, and where to write it."""
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names (default: all)")
    parser.add_argument(
        "--lib",
        action="append",
        default=[],
        required=required,
        metavar="NAME=FILE",
        help="a library to preload",
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table as Markdown")


def libraries_of(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Path]:
    """The libraries that were asked for. Ends the program if one, or a case, is not there."""
    libraries = {}
    for word in arguments.lib:
        name, _, file = word.partition("=")
        if not name or not Path(file).is_file():
            parser.error(
                f"--lib {word}: give a name and a library that exists, as in rpmalloc=build/peers/rpmalloc.so"
            )
        libraries[name] = Path(file).absolute()
    unknown = sorted(set(arguments.cases) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no case '{unknown[0]}': `tests/programs/run.py --list --all` names them")
    return libraries


def main() -> int:
    parser = argparse.ArgumentParser(description="Plays real programs under several allocators.")
    add_libraries(parser)
    arguments = parser.parse_args()
    libraries = libraries_of(parser, arguments)
    begin_plays()
    stage.STEP_SECONDS = 120
    found, left_out = {}, []
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        results = None if missing_programs(case) else play_case(case, libraries)
        if results is None:
            left_out.append(case.name)
        else:
            found[case.name] = results
    text = page(found, libraries, left_out)
    print(text)
    if arguments.table is not None:
        arguments.table.write_text(text, encoding="utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
