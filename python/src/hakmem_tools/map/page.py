# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem map: the page. One HTML file with the figures, the style and the script in it.

Who uses it: cli. The page loads nothing; page.js draws what `hakmem map --json` has.
"""

import html
import json
from datetime import datetime
from importlib import resources

from hakmem_tools.common.text import size
from hakmem_tools.map.model import LEAST_KEPT_BYTES, NEARLY_EMPTY, Picture, as_json

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 1.5em; }}
h1 {{ font-size: 1.4em; margin: 0; }} p {{ margin: .3em 0 1em; max-width: 60em; }}
main {{ display: flex; flex-wrap: wrap; gap: 2em; }}
#picture {{ flex: 1 1 40em; min-width: 20em; }} aside {{ flex: 0 1 20em; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }}
td, th {{ padding: .1em .7em .1em 0; text-align: left; border-bottom: 1px solid var(--line);
 vertical-align: top; white-space: pre-line; }}
ul {{ list-style: none; padding: 0; font-size: 13px; columns: 10em; }}
i {{ display: inline-block; width: .8em; height: .8em; margin-right: .5em;
 border: 1px solid var(--line); }}
#tip {{ position: absolute; white-space: pre; padding: .3em .6em; font-size: 13px;
 background: Canvas; border: 1px solid var(--line); pointer-events: none; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{taken}. Each row is a superslab of 2 MiB, each cell a slot of 64 KiB; a cell of a size class is
filled as far as its slab is full of live blocks.</p>
<p><label>Colour by <select id="way"><option value="class">size class<option value="fill">fill
<option value="owner">owner<option value="age">age</select></label>
<label><input type="checkbox" id="pinned"> only superslabs that are nearly empty</label></p>
<main>
<div id="picture"><canvas id="canvas"></canvas><div id="tip" hidden></div></div>
<aside><table><tbody id="summary"></tbody></table><ul id="legend"></ul></aside>
</main>
<h2>What keeps superslabs that are nearly empty</h2>
<p>Less than {percent:.0%} of each is live, and {least} or more is in memory besides. It could go back to the system
if these blocks went.</p>
<p id="nopins">There are none.</p>
<table><thead><tr><th>superslab<th>live<th>resident<th>blocks<th>call sites</tr></thead>
<tbody id="pins"></tbody></table>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def embedded(value: object) -> str:
    """JSON that cannot end the element it is in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def render(picture: Picture) -> str:
    """The page as text."""
    process = picture.process
    moment = datetime.fromtimestamp(process["time_unix_ns"] / 1e9)
    return PAGE.format(
        title=html.escape(f"hakmem map: {process['name']} (pid {process['pid']})"),
        taken=html.escape(f"{moment:%Y-%m-%d %H:%M:%S}, hakmem {process['hakmem_version']}"),
        percent=NEARLY_EMPTY,
        least=size(LEAST_KEPT_BYTES),
        data=embedded(as_json(picture)),
        script=resources.files(__package__).joinpath("page.js").read_text(encoding="utf-8"),
    )
