# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem prof`. Who uses it: the program hakmem-prof."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hakmem_tools.common import cli, command, files
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.prof import raw, stacks
from hakmem_tools.prof.symbols import Symbolizer

app = cli.new_app()

EPILOG = cli.examples(
    ("hakmem prof start 4711", "begin to sample the heap of process 4711"),
    ("hakmem prof top 4711", "which functions hold its memory"),
    ("hakmem prof dump 4711 -o a.prof", "keep the profile"),
    ("hakmem prof diff a.prof b.prof", "what grew from one to the other"),
    ("hakmem prof pprof a.prof -o a.pb.gz", "for go tool pprof"),
    more="A PROFILE is a file that the library or `dump` has written, the number of a process, or "
    "a core file. HAKMEM_PROF=1 in a program's environment samples from its start.",
)

Source = Annotated[str, typer.Argument(metavar="PROFILE", help="A file, a process, or a core.")]
Process = Annotated[str, typer.Argument(metavar="PROCESS", help="Its number, or its core file.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        parser=files.output,
        metavar="FILE",
        help="Where to; else standard output.",
    ),
]
Value = Annotated[
    str,
    typer.Option("--value", metavar="VALUE", help=f"What is counted: {', '.join(stacks.VALUES)}."),
]
Pid = Annotated[int, typer.Argument(metavar="PID", min=1, help="The process.")]
Wait = Annotated[
    int,
    typer.Option(metavar="SECONDS", min=0, max=86400, help="For the process to allocate."),
]
WAIT_SECONDS = 3


def check_value(value: str) -> str:
    """One of VALUES."""
    if value not in stacks.VALUES:
        raise ToolError(f"--value is one of {', '.join(stacks.VALUES)}, not {value!r}", USAGE)
    return value


def is_core(path: Path) -> bool:
    """True for an ELF file."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def load(source: str) -> raw.Profile:
    """A profile from wherever it is."""
    path = Path(source)
    try:
        if source.isdecimal() and not path.exists():
            profile = raw.parse(command.run("samples", source), f"the profile of process {source}")
            profile.process = int(source)
            return profile
        if is_core(path):
            return raw.parse(command.run("samples", source), f"the profile in {source}")
    except OSError as error:
        raise ToolError(f"cannot read {source}: {error.strerror}", USAGE) from None
    return raw.load(path)


def ask(pid: int, wait: int, *words: str) -> None:
    """Asks a process and waits for its answer."""
    command.run("ask", f"--wait={wait}", str(pid), "prof", *words, more_seconds=wait)


@app.command(epilog=EPILOG)
def start(
    pid: Pid,
    period: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            show_default=False,
            help="One sample for so many, on average: 512k. The first start sets it for good.",
        ),
    ] = "",
    wait: Wait = WAIT_SECONDS,
) -> None:
    """Ask a process to sample its heap. It does when it next allocates."""
    ask(pid, wait, "start", *([period] if period else []))


@app.command()
def stop(pid: Pid, wait: Wait = WAIT_SECONDS) -> None:
    """Ask a process to take no more samples. What it has stays."""
    ask(pid, wait, "stop")


@app.command()
def dump(source: Process, output: Output = None) -> None:
    """Write the profile of a process, or of its core file, as it is now."""
    files.write(output, command.run("samples", source))


@app.command("pprof")
def to_pprof(source: Source, output: Output = None) -> None:
    """Write a profile for go tool pprof (profile.proto, gzip)."""
    from hakmem_tools.prof import pprof  # not needed by the other commands

    profile = load(source)
    symbols = Symbolizer(profile)
    packed = pprof.Writer(profile, symbols).write(stacks.name_stacks(profile, symbols))
    files.write(output, packed)


@app.command("folded")
def to_folded(source: Source, output: Output = None, value: Value = "live_bytes") -> None:
    """Write folded stacks: outermost;...;innermost value."""
    sums = stacks.folded(stacks.read(load(source)), check_value(value))
    lines = (
        f"{';'.join(name.replace(';', ':') for name in names)} {round(total)}\n"
        for names, total in sorted(sums.items())
    )
    files.write(output, "".join(lines))


@app.command("html")
def to_html(
    source: Source,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", parser=files.output, metavar="FILE", help="Where to."),
    ] = Path("hakmem-prof.html"),
) -> None:
    """Write a flame graph: a page that needs no network."""
    from hakmem_tools.prof import page  # plotly takes a second to load

    profile = load(source)
    title = f"Heap of process {profile.pid}, one sample in {profile.period_bytes} bytes"
    files.write(output, page.page(stacks.read(profile), title))


def figure(value: float, name: str) -> str:
    """A figure of a column, with its unit."""
    if name.endswith("objects"):
        return f"{value:,.0f}"
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:,.0f} B" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} GiB"


def print_table(
    sums: dict[tuple[str, ...], float], whole: float, name: str, limit: int, title: str
) -> None:
    """Functions by what they allocated themselves and through others."""
    table = Table(box=None, pad_edge=False)
    for column in ("itself", "share", "with callees"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("function", overflow="fold")
    for row in stacks.rows(sums)[: limit or None]:
        share = f"{row.own / whole:.1%}" if whole else ""
        table.add_row(figure(row.own, name), share, figure(row.total, name), row.name)
    typer.echo(title)  # as wide as it is: a table folds its title to its own width
    cli.console().print(table, markup=False, highlight=False)


Limit = Annotated[int, typer.Option(min=0, metavar="N", help="Functions to show; 0: all.")]


@app.command()
def top(source: Source, value: Value = "live_bytes", limit: Limit = 20) -> None:
    """Print the functions that allocated most."""
    profile = load(source)
    sums = stacks.folded(stacks.read(profile), check_value(value))
    whole = sum(sums.values())
    kind = value.partition("_")[0]
    samples = sum(int(getattr(site, f"{kind}_samples")) for site in profile.sites)
    title = f"process {profile.pid}: {value.replace('_', ' ')} {figure(whole, value)}, {samples} samples"
    if samples == 0:  # not that the program had nothing
        period = figure(profile.period_bytes, "bytes")
        typer.echo(
            f"{title}: there is only what was allocated since sampling began, one sample for {period}"
        )
        return
    print_table(sums, whole, value, limit, title)


@app.command()
def diff(
    before: Source,
    after: Annotated[str, typer.Argument(metavar="PROFILE", help="The later one.")],
    value: Value = "live_bytes",
    limit: Limit = 20,
) -> None:
    """Print what grew and what shrank from one profile to another."""
    old, new = (
        stacks.folded(stacks.read(load(one)), check_value(value)) for one in (before, after)
    )
    changed = stacks.difference(old, new)
    grown = sum(changed.values())
    title = (
        f"{value.replace('_', ' ')}: {figure(sum(old.values()), value)} before, "
        f"{'+' if grown >= 0 else '-'}{figure(abs(grown), value)} since"
    )
    print_table(changed, sum(old.values()), value, limit, title)


def main() -> None:
    """Runs the command."""
    cli.run(app, "prof")
