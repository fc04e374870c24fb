# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the pictures of docs/benchmarks.md. The same rows give the same files."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from hakmem_tools.bench import summary
from hakmem_tools.bench.html import COLOURS
from hakmem_tools.bench.summary import Mean, Row


def save_picture(figure: Any, path: Path) -> Path:
    """Writes an SVG without a date and with steady ids."""
    with mpl.rc_context({"svg.hashsalt": "hakmem", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)
    return path


def colour(name: str) -> str:
    """The colour of an allocator."""
    return COLOURS.get(name, "#e377c2")


def means_picture(means: list[Mean], path: Path) -> Path:
    """Time against memory."""
    figure, axes = plt.subplots(figsize=(7, 5))
    for mean in summary.known(means):
        axes.scatter(mean.time, mean.rss, s=90, color=colour(mean.allocator))
        failed = f" ({mean.failed} failed)" if mean.failed else ""
        axes.annotate(
            mean.allocator + failed, (mean.time, mean.rss), xytext=(0, 8),
            textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
    axes.set_xlabel("time, relative to the best of each benchmark (geometric mean)")
    axes.set_ylabel("peak RSS, the same")
    axes.margins(0.15)
    axes.grid(alpha=0.3)
    return save_picture(figure, path)


def bars_picture(rows: list[Row], value: str, title: str, path: Path) -> Path:
    """A line for each benchmark: hakmem as a diamond, the others as dots, relative to the best."""
    benchmarks = list(dict.fromkeys(r.benchmark for r in rows if getattr(r, value)))
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.24 * len(benchmarks)))
    for position, benchmark in enumerate(benchmarks):
        here = [r for r in rows if r.benchmark == benchmark and getattr(r, value)]
        others = sorted(getattr(r, value) for r in here if r.allocator != "hakmem")
        for other in here:
            if other.allocator != "hakmem":
                axes.scatter(
                    min(getattr(other, value), 4),
                    position,
                    s=14,
                    color=colour(other.allocator),
                    zorder=2,
                )
        mine = [getattr(r, value) for r in here if r.allocator == "hakmem"]
        if mine:
            shown = min(mine[0], 4)
            best = not others or mine[0] <= others[0]
            axes.scatter(
                shown, position, s=60, marker="D", color="#2a9d5c" if best else "#d62728", zorder=3
            )
    names = list(dict.fromkeys(r.allocator for r in rows if r.allocator != "hakmem"))
    dots = [axes.scatter([], [], s=14, color=colour(name), label=name) for name in names]
    axes.legend(handles=dots, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=5, fontsize=7)
    axes.set_yticks(range(len(benchmarks)), benchmarks, fontsize=7)
    axes.set_ylim(len(benchmarks) - 0.4, -0.6)
    axes.set_xlim(0.95, 4.1)
    axes.set_xlabel(
        f"{title}, relative to the best (4 and more at the edge); diamond: hakmem, green where it is the best"
    )
    axes.grid(axis="x", alpha=0.3)
    return save_picture(figure, path)
