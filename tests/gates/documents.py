#!/usr/bin/env python3
"""Checks the documents: links lead to files and headings, code spans to files and make's targets, tables have heads.

    documents.py ROOT

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import re
import sys
from pathlib import Path

import gate

LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)#?([^)\s]*)\)")
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:bench|cmake|cmd|docs|include|man|model|python|rust|src|tests|tools)/[\w./-]*[\w-]\.\w+")
TARGET = re.compile(r"^make ([a-z][a-z-]*)\b")


def without_code(text: str) -> str:
    """The text with fenced blocks blanked out; line numbers stay."""
    return re.sub(r"^```.*?^```$", lambda block: re.sub(r"[^\n]", "", block.group()), text, flags=re.M | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_line(line: str, page: Path, root: Path, targets: set[str]) -> list[str]:
    problems = []
    for name, anchor in LINK.findall(line):
        there = page.parent / name if name else page
        if not there.exists():
            problems.append(f"the link to {name} leads nowhere")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there):
            problems.append(f"{there.name} has no heading #{anchor}")
    for span in SPAN.findall(line):
        named = [name for name in FILE.findall(span) if "NAME" not in name]
        problems += [f"there is no {name}" for name in named if not (root / name).exists()]
        problems += [f"make has no target {name}" for name in TARGET.findall(span) if name not in targets]
    return problems


def check_tables(lines: list[str]) -> list[tuple[int, str]]:
    """A blank line within a table ends it: what follows is shown as it stands."""
    starts = [i for i, line in enumerate(lines) if line.startswith("|") and not (i and lines[i - 1].startswith("|"))]
    return [(i + 1, "this table has no head") for i in starts
            if not re.fullmatch(r"\|[ :|-]+\|", lines[i + 1] if i + 1 < len(lines) else "")]


def check(root: Path) -> tuple[list[str], int]:
    """All problems, and the number of pages."""
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.M))
    pages = [page for folder in (".", "docs", "rust") for page in sorted((root / folder).glob("*.md"))]
    problems = []
    for page in pages:
        lines = without_code(page.read_text(encoding="utf-8")).split("\n")
        found = [(n, text) for n, line in enumerate(lines, 1) for text in check_line(line, page, root, targets)]
        problems += [f"{page.relative_to(root)}:{n}: {text}" for n, text in sorted(found + check_tables(lines))]
    return problems, len(pages)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks what the documents refer to.")
    parser.add_argument("root", type=Path)
    problems, count = check(parser.parse_args().root)
    if count == 0:
        gate.give_up("documents", "no documents")
    return gate.report("documents", problems, f"{count} pages")


if __name__ == "__main__":
    sys.exit(main())
