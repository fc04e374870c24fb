# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the page. One HTML file with everything in it, plots by plotly; it loads nothing.

Who uses it: cli. It never measures.
"""

import html as escaping
from collections.abc import Callable, Collection

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from hakmem_tools.bench import summary, text
from hakmem_tools.bench.runner import Result, failures
from hakmem_tools.bench.suite import GROUPS
from hakmem_tools.bench.summary import Mean, Row

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c22; --mine: #2a7; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5em; border-bottom: 1px solid var(--line); }
h3 { margin: 1.8em 0 .2em; } p.what { margin: 0 0 .5em; opacity: .8; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } tr.mine { font-weight: 600; }
tr.failed td, .failed { color: var(--bad); text-align: left; } td.best { color: var(--mine); }
.scroll { overflow-x: auto; } dt { font-weight: 600; } code { font-size: 13px; }
summary { cursor: pointer; }
"""

# The same colour for an allocator everywhere; hakmem's stands out.
COLOURS = {
    "hakmem": "#d62728", "glibc": "#7f7f7f", "jemalloc": "#9edae5", "jemalloc531": "#17becf",
    "mimalloc2": "#98df8a", "mimalloc3": "#2ca02c", "snmalloc": "#ff7f0e", "rpmalloc": "#8c564b",
    "tcmalloc": "#1f77b4", "tcmalloc-minimal": "#aec7e8", "mimalloc-debian": "#c7e9c0",
}  # fmt: skip


def esc(value: object) -> str:
    """Text for HTML."""
    return escaping.escape(str(value))


def html_table(
    headings: list[str], lines: list[tuple[str, list[str]]], best: Collection[str] = ()
) -> str:
    """A table; each line has a class and its cells. Below the headings `best` 1.00 is the best."""
    head = "".join(f"<th>{esc(h)}</th>" for h in headings)
    body = []
    for kind, cells in lines:
        inner = f"<td>{esc(cells[0])}</td>"
        if kind == "failed" and len(cells) == 2:
            inner += f'<td colspan="{len(headings) - 1}">{esc(cells[1])}</td>'
        else:
            inner += "".join(
                f"<td{' class=best' if h in best and c == '1.00' else ''}>{esc(c)}</td>"
                for h, c in zip(headings[1:], cells[1:], strict=False)
            )
        body.append(f'<tr class="{kind}">{inner}</tr>')
    rows = "".join(body)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def kind_of(name: str, failed: bool = False) -> str:
    """The class of a line."""
    return "failed" if failed else "mine" if name == "hakmem" else ""


def means_html(means: list[Mean]) -> str:
    """Geometric means."""
    lines = [
        (
            kind_of(m.allocator),
            [m.allocator, text.ratio(m.time), text.ratio(m.rss), text.ratio(m.idle)]
            + [f"{m.done} of {m.total}", f"{m.failed} FAILED" if m.failed else text.NOTHING],
        )
        for m in means
    ]
    relative = ["time", "peak RSS", "RSS after idle"]
    return html_table(["allocator", *relative, "completed", "failed"], lines, relative)


# ---- plots ----


class Plots:
    """Figures with ids of their own, so that a page is the same for the same result."""

    def __init__(self) -> None:
        self.count = 0

    def show(self, figure: go.Figure, height: int) -> str:
        """A figure as HTML."""
        self.count += 1
        figure.update_layout(
            height=height,
            margin={"l": 10, "r": 10, "t": 40, "b": 10},
            template="plotly_white",
            legend={"orientation": "h", "y": -0.05},
        )
        return str(
            figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                div_id=f"plot{self.count}",
                config={"displaylogo": False, "responsive": True},
            )
        )

    def means(self, means: list[Mean]) -> str:
        """Time against memory, a point for each allocator: the lower left corner is best."""
        figure = go.Figure()
        for mean in summary.known(means):
            figure.add_trace(
                go.Scatter(
                    x=[mean.time],
                    y=[mean.rss],
                    mode="markers+text",
                    text=[mean.allocator + (f" ({mean.failed} failed)" if mean.failed else "")],
                    textposition="top center",
                    name=mean.allocator,
                    marker={"size": 14, "color": COLOURS.get(mean.allocator, "#e377c2")},
                )
            )
        figure.update_layout(
            title="Geometric means, relative to the best of each benchmark",
            xaxis_title="time",
            yaxis_title="peak RSS",
            showlegend=False,
        )
        return self.show(figure, 420)

    def relative(
        self, rows: list[Row], names: list[str], value: Callable[[Row], float | None], title: str
    ) -> str:
        """A heat map: benchmarks down, allocators across; a cell that failed says so."""
        benchmarks = list(dict.fromkeys(r.benchmark for r in rows if value(r)))
        if not benchmarks:
            return ""
        at = {(r.benchmark, r.allocator): r for r in rows}
        numbers, words = [], []
        for benchmark in benchmarks:
            line = [at.get((benchmark, name)) for name in names]
            numbers.append([None if r is None else value(r) for r in line])
            words.append(
                ["" if r is None else "FAILED" if r.problem else text.ratio(value(r)) for r in line]
            )
        figure = go.Figure(
            go.Heatmap(
                z=[[None if n is None else min(n, 4) for n in line] for line in numbers],
                x=names,
                y=benchmarks,
                text=words,
                texttemplate="%{text}",
                hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
                colorscale=[[0, "#2a9d5c"], [0.15, "#a6d96a"], [0.4, "#fee08b"], [1, "#d73027"]],
                zmin=1,
                zmax=4,
                showscale=False,
            )
        )
        figure.update_layout(title=title, yaxis={"autorange": "reversed"}, xaxis={"side": "top"})
        return self.show(figure, 110 + 24 * len(benchmarks))

    def rounds(self, benchmark: dict[str, object], rows: list[Row], result: Result) -> str:
        """All rounds of a benchmark as points: the spread that the medians hide."""
        entry = next(b for b in result["benchmarks"] if b["name"] == benchmark["name"])
        figure = go.Figure()
        for row in rows:
            runs = entry["results"][row.allocator]["runs"]
            times = [
                summary.time_ns(run, entry["repeats"]) / 1e6 for run in runs if not run["problem"]
            ]
            figure.add_trace(
                go.Box(
                    x=times,
                    name=row.allocator,
                    boxpoints="all",
                    jitter=0,
                    pointpos=0,
                    marker={"color": COLOURS.get(row.allocator, "#e377c2")},
                )
            )
        figure.update_layout(
            title="time of each round, ms", showlegend=False, yaxis={"autorange": "reversed"}
        )
        figure.update_xaxes(rangemode="tozero")
        return self.show(figure, 90 + 26 * len(rows))


# ---- parts of the page ----


def head_part(result: Result) -> str:
    """What was measured, on what."""
    machine = result["machine"]
    facts = [
        ("machine", f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}"),
        ("system", f"{machine['distribution']}, {machine['kernel']}, {machine['compiler']}"),
        ("transparent huge pages", machine["transparent_huge_pages"]),
        ("command", result["command"]),
        (
            "rounds",
            f"{result['rounds']}, interleaved; set {result['set']}; {result['seconds']:.0f} s",
        ),
        ("made by", result["tool"]),
    ]
    listed = "".join(
        f"<tr><td>{esc(k)}</td><td style='text-align:left'>{esc(v)}</td></tr>" for k, v in facts
    )
    warning = "" if result["complete"] else "<p class=failed>This run was not completed.</p>"
    return f"<h1>hakmem bench</h1><p>{esc(result['date'])}</p>{warning}<table>{listed}</table>"


def allocators_part(result: Result) -> str:
    """Versions, and who is missing."""
    lines = [
        (kind_of(name), [name, a["version"], a["origin"], a["library"] or text.NOTHING]
         + [" ".join(f"{k}={v}" for k, v in a["environment"].items())])
        for name, a in result["allocators"].items()
    ]  # fmt: skip
    lines += [
        ("failed", [name, f"not measured: {r}"]) for name, r in result["missing_allocators"].items()
    ]
    headings = ["allocator", "version", "from", "library", "environment"]
    return "<h2>Allocators</h2>" + html_table(headings, lines)


def failures_part(result: Result) -> str:
    """Everything that did not work, in one place."""
    lines = [("failed", [f"{b} under {a}", problem]) for b, a, problem in failures(result)]
    skipped = [(b["name"], b["skipped"]) for b in result["benchmarks"] if b["skipped"]]
    lines += [("failed", [name, f"skipped: {why}"]) for name, why in skipped]
    if not lines:
        return "<h2>Failures</h2><p>None: all allocators completed all benchmarks with equal results.</p>"
    return "<h2>Failures</h2>" + html_table(["what", "why"], lines)


def scaling_part(rows: list[Row]) -> str:
    """Two threads against one."""
    derived = summary.scaling(rows)
    if not derived:
        return ""
    names = list(dict.fromkeys(name for _, found in derived for name in found))
    lines = [("", [b, *(text.ratio(found.get(n)) for n in names)]) for b, found in derived]
    return (
        "<h2>Two threads</h2><p>How much work two threads that share nothing do in the time of one: "
        "2.00 is perfect.</p>" + html_table(["benchmark", *names], lines)
    )


def benchmark_part(benchmark: dict[str, object], result: Result, plots: Plots) -> str:
    """One benchmark: table, what the program measured, the rounds."""
    command = " ".join(str(part) for part in benchmark["command"])  # type: ignore[attr-defined]
    title = f"<h3 id='{esc(benchmark['name'])}'>{esc(benchmark['name'])}</h3>"
    title += f"<p class=what>{esc(benchmark['what'])}: <code>{esc(command)}</code></p>"
    if benchmark["skipped"]:
        return f"{title}<p class=failed>skipped: {esc(benchmark['skipped'])}</p>"
    rows = summary.rows_of_benchmark(benchmark)
    columns = text.columns_for(rows)
    lines = [
        (kind_of(row.allocator, bool(row.problem)), [row.allocator, *text.cells(row, columns)])
        for row in rows
    ]
    metrics = "".join(f"<li>{esc(line)}</li>" for line in text.metric_lines(rows))
    body = html_table(["allocator", *(c.heading for c in columns)], lines, ["relative"])
    plot = plots.rounds(benchmark, rows, result)
    return f"{title}{body}<ul>{metrics}</ul><details><summary>rounds</summary>{plot}</details>"


def explained_part() -> str:
    """What the columns mean."""
    inner = "".join(f"<dt>{esc(k)}</dt><dd>{esc(v)}</dd>" for k, v in text.EXPLAINED)
    return f"<details><summary>What the columns mean</summary><dl>{inner}</dl></details>"


def overview_part(result: Result, rows: list[Row], plots: Plots) -> str:
    """Means and heat maps."""
    names = list(result["allocators"])
    means = summary.geometric_means(rows)
    out = "<h2>Overview</h2>" + means_html(means)
    out += (
        "<p>Geometric means of what is relative to the best of each benchmark. An allocator that failed "
        "somewhere is averaged over what it completed.</p>"
    )
    out += plots.means(means)
    out += plots.relative(rows, names, lambda r: r.time_rel, "Time, relative to the best")
    out += plots.relative(rows, names, lambda r: r.rss_rel, "Peak RSS, relative to the best")
    out += plots.relative(
        rows, names, lambda r: r.idle_rel, "RSS 2 s after the work is freed, relative to the best"
    )
    return out


def render(result: Result) -> str:
    """The page."""
    rows, plots = summary.rows_of(result), Plots()
    parts = [head_part(result)]
    if rows:
        parts += [overview_part(result, rows, plots), scaling_part(rows)]
    parts += [failures_part(result), allocators_part(result)]
    for group, title in GROUPS.items():
        mine = [b for b in result["benchmarks"] if b["group"] == group]
        if mine:
            parts.append(f"<h2>{esc(title)}</h2>")
            parts += [explained_part()] if mine[0] is result["benchmarks"][0] else []
            parts += [benchmark_part(b, result, plots) for b in mine]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>hakmem bench, {esc(result['date'])}</title><style>{STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body>{''.join(parts)}</body></html>\n"
    )
