#!/usr/bin/env python3
"""Plants mistakes in copies of the allocator, and weakens its memory orders; the scheduler must find each.

    run.py --build BUILD mistakes|orders [--only TEXT] [--seeds N] [--markdown]

BUILD is a build folder with the target `sched`. Mistakes are in mistakes.py; the orders are found in the source, and
orders_table.py says for each weaker form which scenario finds it, or why none does. One line a case says under how many
seeds it failed, and how. --markdown writes the figures into docs/scheduler.md. The exit status is 0 only if all was
found, and every order is accounted for.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import mistakes
import orders_table
import weaken
from variant import HERE, Builder, Found, VariantError, changed, hunt

DOCUMENT = HERE.parent.parent / "docs" / "scheduler.md"
JOBS = min(2, os.cpu_count() or 1)
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Case:
    """One variant and the scenario that has to find it."""

    name: str
    scenario: str
    file: str
    what: str

    @property
    def which(self) -> str:
        """The seeds that are tried: see variant.hunt."""
        raise NotImplementedError

    def text(self) -> str:
        """The changed file."""
        raise NotImplementedError


@dataclass(frozen=True)
class MistakeCase(Case):
    """A planted mistake."""

    edits: tuple[tuple[str, str], ...]
    strong: bool

    @property
    def which(self) -> str:
        return "--strong" if self.strong else ""

    def text(self) -> str:
        return changed(self.file, self.edits)


@dataclass(frozen=True)
class OrderCase(Case):
    """A weakened order."""

    weakening: weaken.Weakening

    @property
    def which(self) -> str:
        return "--weak"

    def text(self) -> str:
        return self.weakening.text()


def mistake_cases() -> list[Case]:
    """All of mistakes.py."""
    return [MistakeCase(m.name, m.scenario, m.file, m.what, m.edits, m.strong) for m in mistakes.MISTAKES]


def order_cases() -> tuple[list[Case], list[str]]:
    """The weakenings that must be found, and what is wrong with the table."""
    table = orders_table.ORDERS
    found = {w.key: w for w in weaken.weakenings()}
    problems = [f"{key}: not in orders_table.py: run the scheduler on it and say what comes out"
                for key in found if key not in table]
    problems += [f"{key}: in orders_table.py, but not in the source" for key in table if key not in found]
    cases: list[Case] = [OrderCase(key, table[key].scenario, w.file, ", ".join(w.tags), w)
                         for key, w in found.items() if key in table and table[key].scenario]
    return cases, problems


def run_case(builder: Builder, case: Case, number: int, seeds: int) -> tuple[Found | None, str]:
    """Builds and runs one; the second value says what went wrong."""
    try:
        program = builder.make(f"case-{number}", case.file, case.text())
        found = hunt(program, case.scenario, seeds, case.which)
        program.unlink()
    except VariantError as error:
        return None, str(error)
    return found, "" if found else f"not found in {seeds} seeds of {case.scenario}"


def table_of_mistakes(results: dict[str, Found]) -> str:
    """For docs/scheduler.md."""
    lines = ["| mistake | what is wrong | scenario | seeds | how it shows |", "|---|---|---|---|---|"]
    for m in mistakes.MISTAKES:
        found = results[m.name]
        lines.append(f"| `{m.name}` | {m.what} | `{m.scenario}` | {found.seeds} | {shortened(found.message)} |")
    return "\n".join(lines) + "\n"


def table_of_orders(results: dict[str, Found]) -> str:
    """For docs/scheduler.md."""
    lines = ["| tag | operation and weaker order | scenario | seeds | what happens |", "|---|---|---|---|---|"]
    rows = []
    for w in weaken.weakenings():
        entry = orders_table.ORDERS[w.key]
        tags = ", ".join(w.tags)
        if w.key in results:
            found = results[w.key]
            rows.append((tags, f"| {tags} | `{w.key}` | `{entry.scenario}` | {found.seeds} | "
                               f"{shortened(found.message)} |"))
        else:
            rows.append((tags, f"| {tags} | `{w.key}` | | | {entry.reason} |"))
    return "\n".join(lines + [row for _, row in sorted(rows, key=lambda row: row[0])]) + "\n"


def shortened(message: str) -> str:
    """A failure in a few words."""
    for kind in ("data race", "deadlock", "livelock"):
        if message.startswith(kind):
            return kind
    if message.startswith("not so"):
        parts = message.split(": ")
        message = ": ".join(parts[2:]) or parts[1]
    message = re.sub(r"0x[0-9a-f]+|: state [0-9a-f]+|hakmem: |: this is a bug in hakmem", "", message)
    return re.sub(r" +", " ", re.sub(r"\b(slot|superslab) \d+\b", r"a \1", message)).strip().replace("|", "/")


def write_document(what: str, table: str) -> None:
    """Replaces a table of docs/scheduler.md."""
    begin, end = f"<!-- {what} -->\n", f"<!-- end of {what} -->\n"
    text = DOCUMENT.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        sys.exit(f"run.py: docs/scheduler.md has no lines {begin.strip()} and {end.strip()}")
    DOCUMENT.write_text(text[:text.index(begin) + len(begin)] + table + text[text.index(end):], encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Planted mistakes and weakened orders that the scheduler must find.")
    parser.add_argument("what", choices=("mistakes", "orders"))
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS)
    parser.add_argument("--markdown", action="store_true", help="write the figures into docs/scheduler.md")
    arguments = parser.parse_args()
    weak = arguments.what == "orders"
    cases, problems = order_cases() if weak else (mistake_cases(), [])
    cases = [case for case in cases if arguments.only in case.name]
    if not cases:
        sys.exit(f"run.py: no case contains '{arguments.only}'")
    begin = time.monotonic()
    results: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="hakmem-sched-") as folder, ThreadPoolExecutor(JOBS) as executor:
        builder = Builder(arguments.build.resolve(), Path(folder))
        jobs = [executor.submit(run_case, builder, case, i, arguments.seeds) for i, case in enumerate(cases)]
        for case, job in zip(cases, jobs):
            found, problem = job.result()
            if found:
                results[case.name] = found
                print(f"found   {case.name:64} {found.scenario:16} {found.seeds:6} seeds  {shortened(found.message)}",
                      flush=True)
            else:
                problems.append(f"{case.name}: {problem}")
                print(f"MISSED  {case.name}: {problem}", flush=True)
    for problem in problems:
        print(f"problem: {problem}")
    if arguments.markdown and not problems and not arguments.only:
        write_document(arguments.what, (table_of_orders if weak else table_of_mistakes)(results))
    print(f"{len(results)} found, {len(problems)} problems ({time.monotonic() - begin:.0f} s)")
    return 0 if not problems else 1


if __name__ == "__main__":
    sys.exit(main())
