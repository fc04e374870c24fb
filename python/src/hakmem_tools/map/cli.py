# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem map`. Who uses it: the program hakmem-map."""

import json
from pathlib import Path
from typing import Annotated

import typer

from hakmem_tools.common import cli, command, files, sites
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.map import model, page, terminal
from hakmem_tools.map.model import Picture

app = cli.new_app()

WAYS = ("class", "fill", "age", "owner")
LIMIT = 48

EPILOG = cli.examples(
    ("hakmem map 4711", "superslabs of process 4711 on the terminal"),
    ("hakmem map 4711 --html -o map.html", "a page: colours by class, fill, owner or age"),
    ("hakmem map 4711 --png --by owner", "a picture: hakmem-map-4711.png"),
    ("hakmem map core.4711", "of a core file"),
    ("hakmem map 4711 --json | jq .pins", "what keeps superslabs that are nearly empty"),
    more="A superslab is 2 MiB of 32 slots of 64 KiB. One that is nearly empty cannot go back to "
    "the system while a block in it is live: the map says which.",
)


def text_of(picture: Picture, limit: int) -> None:
    """Prints the picture for a terminal."""
    console = cli.console()
    width = min(cli.width(80), 160)
    for line in terminal.show(picture, limit, width):
        if not cli.has(terminal.BARS):
            line.plain = line.plain.translate(terminal.PLAIN)
        console.print(line, no_wrap=True, crop=False, overflow="ignore", highlight=False)


def look(pid: str | None, load: Path | None) -> Picture:
    """The picture of a process, of its core file, or of a saved look at one."""
    if (pid is None) == (load is None):
        raise ToolError("give a PID or --load FILE; `hakmem top` lists processes", USAGE)
    if pid is not None and not pid.isdecimal() and not Path(pid).exists():
        raise ToolError(f"{pid!r} is neither the number of a process nor a core file", USAGE)
    stat = command.load(load) if load is not None else sites.Reader(pid or "").look("--superslabs")
    if "superslabs" not in stat:
        raise ToolError("there are no superslabs in it; save it with --superslabs", USAGE)
    return model.read(stat)


@app.command("map", epilog=EPILOG)
def show_map(
    pid: Annotated[
        str | None,
        typer.Argument(metavar="PID|CORE", show_default=False, help="The process or its core."),
    ] = None,
    as_png: Annotated[bool, typer.Option("--png", help="A picture.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="A page that needs no network.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=files.output,
            metavar="FILE",
            help="Where to, -: standard output; else there, or hakmem-map-PID.png or .html.",
        ),
    ] = None,
    way: Annotated[
        str, typer.Option("--by", metavar="WHAT", help=f"Colours of --png: {', '.join(WAYS)}.")
    ] = "class",
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Superslabs on a terminal; 0: all.")
    ] = LIMIT,
    load: Annotated[
        Path | None,
        typer.Option(
            parser=files.named,
            metavar="FILE",
            help="What `hakmem stat PID --json --superslabs` printed.",
        ),
    ] = None,
) -> None:
    """Draws a process's superslabs: each slot's class, fill, age and owner."""
    if as_png + as_html + as_json > 1:
        raise ToolError("choose one of --png, --html and --json", USAGE)
    if way not in WAYS:
        raise ToolError(f"--by is one of {', '.join(WAYS)}, not {way}", USAGE)
    if output is not None and not (as_png or as_html or as_json):
        raise ToolError("-o goes with --png, --html or --json", USAGE)
    picture = look(pid, load)
    default = Path(f"hakmem-map-{picture.process['pid'] or 'core'}")
    if as_json:
        files.write(output, json.dumps(model.as_json(picture), indent=1) + "\n")
        return
    if not (as_png or as_html):
        text_of(picture, limit)
        return
    target = output or default.with_suffix(".png" if as_png else ".html")
    if as_png:
        from hakmem_tools.map import png  # matplotlib takes a while to load

        files.write(target, png.draw(picture, way))
    else:
        files.write(target, page.render(picture))
    if output is None:
        typer.echo(str(target))


def main() -> None:
    """The entry point."""
    cli.run(app, "map")
