# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes what the tests compare with: looks at a real process, and the pages that hakmem top makes of them.

    build/venv/bin/python python/tests/tools/record.py [--pages]

Needs build/release with the hakmem command, libhakmem.so and the benchmark program that examples.py runs. With --pages
the looks stay as they are and only the pages are made anew: after a change of how they look. See the changes with git.
"""

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools"), str(HERE.parents[1] / "src")]


def looks() -> None:
    """A look at a process with its superslabs, small enough to be kept."""
    import examples
    import support

    support.DATA.mkdir(exist_ok=True)
    with examples.workload(3000) as pid:
        text = examples.hakmem("stat", "--json", "--superslabs", str(pid))
    (support.DATA / "stat.json").write_text(text, encoding="utf-8")


def pages() -> None:
    """The pages of two looks, as the tests make them."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    import test_top

    test_top.PAGES.mkdir(exist_ok=True)
    for name in test_top.BY_NAME:
        text = test_top.page(name, test_top.two_looks())
        (test_top.PAGES / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--pages" not in sys.argv[1:]:
        looks()
    pages()
