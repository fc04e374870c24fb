# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A flame graph as one page that needs no network. Who uses it: cli.

plotly draws it as icicles: the outermost function on top, what it calls below, width by value; a
click enlarges. One figure of VALUES at a time is chosen by a menu.
"""

from dataclasses import dataclass, field
from html import escape

import plotly.graph_objects as go

from hakmem_tools.prof.stacks import VALUES, Stack, folded

TITLES = {
    "live_bytes": "live bytes",
    "live_objects": "live blocks",
    "allocated_bytes": "bytes allocated since the start",
    "allocated_objects": "blocks allocated since the start",
}


@dataclass
class Tree:
    """The boxes of a chart, parents before children."""

    ids: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def tree(sums: dict[tuple[str, ...], float]) -> Tree:
    """Boxes of stacks; each as wide as all that goes through it."""
    boxes: dict[tuple[str, ...], float] = {(): 0.0}
    for names, value in sums.items():
        for depth in range(len(names) + 1):
            boxes[names[:depth]] = boxes.get(names[:depth], 0.0) + value
    numbers = {names: str(number) for number, names in enumerate(boxes)}
    made = Tree()
    for names, value in boxes.items():
        made.ids.append(numbers[names])
        made.labels.append(escape(names[-1]) if names else "all")
        made.parents.append(numbers[names[:-1]] if names else "")
        made.values.append(value)
    return made


def icicle(stacks: list[Stack], value: str, visible: bool) -> go.Icicle:
    """The chart of one value."""
    boxes = tree(folded(stacks, value))
    return go.Icicle(
        ids=boxes.ids,
        labels=boxes.labels,
        parents=boxes.parents,
        values=boxes.values,
        branchvalues="total",
        sort=True,
        tiling={"orientation": "v"},
        root_color="lightgrey",
        visible=visible,
        name=TITLES[value],
        hovertemplate="%{label}<br>%{value:.5s} (%{percentRoot:.1%} of all)<extra></extra>",
    )


def page(stacks: list[Stack], title: str) -> str:
    """The page."""
    charts = [icicle(stacks, value, value == VALUES[0]) for value in VALUES]
    buttons = [
        {
            "label": TITLES[value],
            "method": "update",
            "args": [{"visible": [other == value for other in VALUES]}],
        }
        for value in VALUES
    ]
    figure = go.Figure(charts)
    figure.update_layout(
        title=escape(title),
        margin={"t": 80, "l": 8, "r": 8, "b": 8},
        updatemenus=[{"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.08}],
        height=900,
    )
    text: str = figure.to_html(
        full_html=True, include_plotlyjs=True, config={"displaylogo": False}
    )
    return text
