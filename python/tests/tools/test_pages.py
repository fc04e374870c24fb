# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The HTML pages in a browser: they render, say nothing on the console, and show the figures of the JSON."""

import json
import re
from pathlib import Path
from typing import Any

import browser
import made_up
import pytest
import support
from conftest import make_benchmark, make_entry, make_result, make_run
from hakmem_tools.bench import html as bench_html
from hakmem_tools.common.text import size
from hakmem_tools.map import model, page
from hakmem_tools.prof import page as prof_page
from hakmem_tools.prof.raw import Site
from hakmem_tools.prof.stacks import Stack
from hakmem_tools.prof.symbols import Function


def seen(folder: Path, text: str, width: int = 1200) -> browser.Seen:
    """What the browser makes of a page; no script may have complained."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    shown = browser.look(path, width)
    assert shown.console == []
    return shown


def test_the_browser_tells_of_errors(tmp_path: Path) -> None:
    """Or the tests below could not fail."""
    path = tmp_path / "bad.html"
    path.write_text("<body><p id=a></p><script>a.textContent = nothing.at.all</script></body>")
    assert any("ReferenceError" in line for line in browser.look(path).console)


def check_map(shown: browser.Seen, given: dict[str, Any]) -> None:
    """The page says what hakmem map --json says."""
    assert shown.elements.attributes["body"]["data-ready"] == "yes"
    summary = {name: value for name, value in shown.elements.rows["summary"]}
    counts, slots = given["superslab_counts"], given["slot_counts"]
    assert summary == {
        "resident": size(given["resident_bytes"]),
        "in live blocks": size(given["live_bytes"]),
        "superslabs in use slot by slot": str(counts["slots"]),
        "superslabs kept for later": str(counts["retired"]),
        "superslabs in huge blocks": str(counts["huge"]),
        "slots of size classes": str(slots.get("class", 0)),
        "slots of large blocks": str(slots.get("large", 0)),
        "empty slots": str(slots.get("empty", 0)),
        "unused slots": str(slots.get("unused", 0)),
    }
    drawn = sum(len(superslab["slots"]) or 32 for superslab in given["superslabs"])
    assert shown.elements.attributes["body"]["data-drawn"] == str(drawn)
    pins = [
        [hex(pin["address"]), size(pin["live_bytes"]), size(pin["resident_bytes"])]
        for pin in given["pins"]
    ]
    assert [row[:3] for row in shown.elements.rows["pins"]] == pins
    assert [row[3] for row in shown.elements.rows["pins"]] == [
        ", ".join(pin["holders"]) for pin in given["pins"]
    ]


@pytest.mark.parametrize("width", [320, 1200])
def test_the_map_of_made_up_superslabs(
    tmp_path: Path,
    width: int,
) -> None:
    picture = model.read(made_up.process())
    shown = seen(tmp_path, page.render(picture), width)
    check_map(shown, json.loads(json.dumps(model.as_json(picture))))
    legend = shown.elements.text["legend"]
    for expected in ("64 bytes", "20096 bytes", "large block", "huge block"):
        assert expected in legend


def test_the_map_of_a_process(tmp_path: Path) -> None:
    picture = model.read(support.recorded())
    check_map(seen(tmp_path, page.render(picture)), json.loads(json.dumps(model.as_json(picture))))


@pytest.mark.parametrize("way", ["fill", "owner", "age"])
def test_the_map_in_other_colours(
    tmp_path: Path,
    way: str,
) -> None:
    choose = f"""<script>
const way = document.getElementById("way");
way.value = "{way}";
way.dispatchEvent(new Event("change"));
document.getElementById("pinned").click();
document.getElementById("canvas").dispatchEvent(new MouseEvent("mousemove",
  {{clientX: document.getElementById("canvas").getBoundingClientRect().left + 5,
    clientY: document.getElementById("canvas").getBoundingClientRect().top + 5}}));
</script></body>"""
    shown = seen(tmp_path, page.render(model.read(made_up.process())).replace("</body>", choose))
    assert shown.elements.attributes["body"]["data-drawn"] == "32"
    assert "3 of 512 blocks live" in shown.elements.text["tip"]
    assert "heap 1 (shared)" in shown.elements.text["tip"]
    expected = {"fill": "50 % of the slab is live", "owner": "heap 1 (shared)", "age": "kept for"}
    assert expected[way] in shown.elements.text["legend"]


def test_the_report_of_benchmarks(tmp_path: Path) -> None:
    result = make_result(
        make_benchmark(
            "first", hakmem=make_entry(make_run(10), make_run(12)), glibc=make_entry(make_run(20))
        ),
        make_benchmark("second", hakmem=make_entry(make_run(31)), glibc=make_entry(make_run(20))),
    )
    shown = seen(tmp_path, bench_html.render(result))
    drawn = len(re.findall(r'class="main-svg"', shown.html))
    assert drawn >= 2, "plotly has drawn nothing"
    body = shown.html[shown.html.index("<body>") :]
    for figure in ("11", "20", "31"):
        assert f"<td>{figure}</td>" in body or f">{figure}<" in body


def test_the_flame_graph(tmp_path: Path) -> None:
    def stack(live: int, *names: str) -> Stack:
        site = Site((1,), float(live // 10), live, 1, float(live), 2 * live, 2)
        return Stack((1,), tuple(Function(name) for name in names), site)

    stacks = [stack(3000, "leaf<T>", "work", "main"), stack(5000, "other", "main")]
    script = """<p id="figures"></p><script>
const plot = document.querySelector(".js-plotly-plot");
async function chart(number) {
  await Plotly.restyle(plot, {visible: plot.data.map((_, i) => i === number)});
  const one = plot._fullData[number];
  return Array.from(one.labels, (label, i) => [label, one.values[i]]);
}
(async () => {
  const charts = [await chart(2), await chart(0)];
  document.getElementById("figures").textContent = JSON.stringify(charts);
})();
</script></body>"""
    shown = seen(tmp_path, prof_page.page(stacks, "a <b>").replace("</body>", script))
    boxes = [dict(chart) for chart in json.loads(shown.elements.text["figures"])]
    live = {"all": 8000, "main": 8000, "work": 3000, "leaf&lt;T&gt;": 3000, "other": 5000}
    assert boxes == [{name: 2 * value for name, value in live.items()}, live]
    drawn = re.findall(r'class="slicetext"[^>]*>(.*?)</text>', shown.html, re.DOTALL)
    assert any("leaf&lt;T&gt;" in text for text in drawn), drawn
