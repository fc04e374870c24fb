#!/usr/bin/env python3
"""Gate: memory orders are named in one header, and each ordering has a tag and a partner.

    orders.py SRC

- Only src/base/atomics.h names memory_order_* or __ATOMIC_* or calls the compiler's atomic builtins.
- A call of an operation of that header that ends in _acquire, _release, _acq_rel or _seq_cst has a comment
  `ORDER: [tag]` beside it, in the same statement, or in the comment that ends on the line before; several
  tags may follow one another. Such a comment without such a call is an error too.
- Each tag has an operation that releases (_release, _acq_rel, _seq_cst) and one that acquires (_acquire,
  _acq_rel, _seq_cst).

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import gate

ATOMICS = "base/atomics.h"
ORDERS = r"(acquire|release|acq_rel|seq_cst)"
RAW = re.compile(r"\b(memory_order_\w+|__ATOMIC_\w+|__atomic_\w+|__sync_\w+|atomic_\w+(?=\s*\())")
ALLOWED_RAW = {"atomic_init"}  # initialisation before anybody else can see the object has no order
DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(hak_\w+_" + ORDERS + r")\b|\b(hak_\w+_" + ORDERS + r")[ \t]*\(",
                        re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
TAGS_AFTER_ORDER = re.compile(r"ORDER:((?:[\s,*/]*(?:and[\s*/]+)?\[[\w-]+\])+)")
TAG = re.compile(r"\[([\w-]+)\]")
RELEASES = {"release", "acq_rel", "seq_cst"}
ACQUIRES = {"acquire", "acq_rel", "seq_cst"}


@dataclass
class Sides:
    """Where the two sides of one tag are."""

    releases: list[str] = field(default_factory=list)
    acquires: list[str] = field(default_factory=list)


@dataclass
class OrderComment:
    """A comment with `ORDER: [tag]`."""

    first_line: int
    last_line: int
    trailing: bool  # code stands before it on its first line
    tags: list[str]
    used: bool = False


def operations(atomics: str) -> set[str]:
    """The names of the ordered operations that the atomics header defines."""
    return {match.group(1) or match.group(3) for match in DEFINITION.finditer(gate.blank_comments(atomics))}


def line_of(text: str, position: int) -> int:
    """The line number of a position."""
    return text.count("\n", 0, position) + 1


def order_comments(text: str, code: str) -> list[OrderComment]:
    """The comments of a file that carry tags; code is the text without its comments."""
    found = []
    for match in COMMENT.finditer(text):
        tags = [tag for order in TAGS_AFTER_ORDER.finditer(match.group()) for tag in TAG.findall(order.group(1))]
        if tags:
            line_start = text.rfind("\n", 0, match.start()) + 1
            trailing = bool(code[line_start:match.start()].strip())
            found.append(OrderComment(line_of(text, match.start()), line_of(text, match.end()), trailing, tags))
    return found


def statement_lines(code: str, position: int) -> tuple[int, int]:
    """The first and last line of the statement around a position."""
    start = max(code.rfind(mark, 0, position) for mark in ";{}") + 1
    start += len(code[start:position]) - len(code[start:position].lstrip())
    ends = [end for mark in ";{}" if (end := code.find(mark, position)) >= 0]
    return line_of(code, start), line_of(code, min(ends, default=len(code)))


def tags_of(code: str, position: int, comments: list[OrderComment]) -> list[str]:
    """The tags of the operation at a position: in its statement, or in the comment just above it."""
    first, last = statement_lines(code, position)
    tags = []
    for comment in comments:
        above = not comment.trailing and comment.last_line == first - 1
        if above or first <= comment.first_line <= last:
            comment.used = True
            tags += comment.tags
    return tags


def check_file(path: Path, name: str, calls: re.Pattern[str], tags: dict[str, Sides]) -> list[str]:
    """Problems of one file; adds what it finds to tags."""
    text = path.read_text(encoding="utf-8")
    code = gate.blank_comments(text)
    comments = order_comments(text, code)
    problems = []
    for match in RAW.finditer(code):
        if match.group(1) not in ALLOWED_RAW:
            where = f"{name}:{line_of(code, match.start())}"
            problems.append(f"{where}: {match.group(1)}: use an operation of src/{ATOMICS}")
    for match in calls.finditer(code):
        where = f"{name}:{line_of(code, match.start())}"
        found = tags_of(code, match.start(), comments)
        if not found:
            problems.append(f"{where}: {match.group(1)} has no comment ORDER: [tag] beside it or above it")
        for tag in found:
            sides = tags.setdefault(tag, Sides())
            if match.group(2) in RELEASES:
                sides.releases.append(where)
            if match.group(2) in ACQUIRES:
                sides.acquires.append(where)
    for comment in comments:
        if not comment.used:
            problems.append(f"{name}:{comment.first_line}: ORDER: [{comment.tags[0]}] stands at no ordered operation")
    return problems


def check(src: Path) -> tuple[list[str], int]:
    """All problems of the tree, and how many tags there are."""
    atomics = src / ATOMICS
    if not atomics.exists():
        return [f"src/{ATOMICS} does not exist"], 0
    names = operations(atomics.read_text(encoding="utf-8"))
    if not names:
        return [f"src/{ATOMICS} defines no ordered operation (hak_..._acquire and so on)"], 0
    calls = re.compile(rf"\b(?=(?:{'|'.join(sorted(names))})\b)(hak_\w+_{ORDERS})\s*\(")
    tags: dict[str, Sides] = {}
    problems = []
    for path in gate.sources(src):
        if path != atomics:
            problems += check_file(path, f"src/{path.relative_to(src)}", calls, tags)
    for tag, sides in sorted(tags.items()):
        if not sides.releases:
            problems.append(f"[{tag}] acquires at {', '.join(sides.acquires)} but nothing releases")
        if not sides.acquires:
            problems.append(f"[{tag}] releases at {', '.join(sides.releases)} but nothing acquires")
    return problems, len(tags)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks memory orders and their tags in src/.")
    parser.add_argument("src", type=Path)
    arguments = parser.parse_args()
    problems, count = check(arguments.src)
    return gate.report("orders", problems, f"{count} tags with both sides")


if __name__ == "__main__":
    sys.exit(main())
