# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A textual application's screen as lines of text, as one would read them."""

from collections import defaultdict
from typing import Any
from xml.etree import ElementTree

from textual.app import App

TEXT = "{http://www.w3.org/2000/svg}text"
CELL = 12.2
"""The width of a character in textual's own pictures of its screens."""


def lines(app: App[Any]) -> list[str]:
    """The screen from the top to the bottom, without blanks at the ends of lines."""
    rows: dict[float, list[tuple[float, str]]] = defaultdict(list)
    for element in ElementTree.fromstring(app.export_screenshot()).iter(TEXT):
        if "title" not in element.get("class", ""):
            at, left = float(element.get("y", "0")), float(element.get("x", "0"))
            rows[at].append((left, (element.text or "").replace("\N{NO-BREAK SPACE}", " ")))
    shown = []
    for at in sorted(rows):
        line = ""
        for left, text in sorted(rows[at]):
            line = line.ljust(round(left / CELL)) + text
        shown.append(line.rstrip())
    return shown
