# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page as a browser sees it: Chromium without a window loads it, runs its scripts and prints what became of it.

The browser has no network and a profile of its own. What scripts say on the console is on its standard error.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CONSOLE = re.compile(r":CONSOLE[:(]\d+\)?\] (.*)")
VOID = {"meta", "br", "input", "link", "hr", "img", "option"}


def find() -> str | None:
    """The browser, if one is installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Elements(HTMLParser):
    """The text of elements with an id, rows of their tables, and the attributes of the body."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str | None] = []
        self.text: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.table = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("id")
        self.attributes[name or tag] = given
        if name:
            self.text[name] = ""
        if tag == "tbody":
            self.table = name or ""
            self.rows[self.table] = []
        if tag == "tr" and self.table in self.rows:
            self.rows[self.table].append([])
        if tag in ("td", "th") and self.rows.get(self.table):
            self.rows[self.table][-1].append("")
        if tag not in VOID:
            self.open.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self.table = ""
        if tag not in VOID and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for name in self.open:
            if name:
                self.text[name] += data
        if self.rows.get(self.table) and self.rows[self.table][-1]:
            self.rows[self.table][-1][-1] += data


@dataclass(frozen=True)
class Seen:
    """What the browser made of a page."""

    html: str
    console: list[str]
    elements: Elements


def look(page: Path, width: int = 1200) -> Seen:
    """Loads a page and waits until its scripts have run."""
    program = find()
    assert program is not None, "no Chromium: tools/setup-test.sh installs chromium-headless-shell"
    done = subprocess.run(
        [
            *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND"),
            *(f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},900"),
            *("--virtual-time-budget=5000", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    console = [match.group(1) for match in map(CONSOLE.search, done.stderr.splitlines()) if match]
    elements = Elements()
    elements.feed(done.stdout)
    return Seen(done.stdout, console, elements)
