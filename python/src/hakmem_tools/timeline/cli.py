# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem timeline`.

hakmem timeline PID            looks at a process again and again, and writes what it sees as it goes
hakmem timeline app.trace      a trace of `hakmem record`
hakmem timeline replay.json    what `hakmem replay --json` printed
"""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_tools.common import cli, files
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.timeline import events, live, recorded, replayed, trace

app = cli.new_app()

INTERVAL_SECONDS = 0.5
NO_SOURCE = "give the number of a process, a trace of `hakmem record`, or the JSON of `hakmem replay --json`"

EPILOG = cli.examples(
    ("hakmem timeline 4711", "until the process ends, or Ctrl-C"),
    ("hakmem timeline 4711 --interval 0.1 --for 60", "a minute, ten looks a second"),
    ("hakmem record -o app.trace -- ./app", "every allocation of a program"),
    ("hakmem timeline app.trace", "live bytes and threads: app.trace.timeline.json"),
    ("hakmem replay --json app.trace > replay.json", "the same under two allocators"),
    ("hakmem timeline replay.json", "the memory of each: replay.timeline.json"),
    more="Open the file in ui.perfetto.dev or chrome://tracing. A file that was named with -o is "
    "overwritten, one that was not is left alone.",
)


def check_output(named: Path | None, default: Path, source: Path | None = None) -> Path:
    """Where to; nothing is lost that was not named."""
    if named is None and default.exists():
        raise ToolError(f"{default} is there already; -o {default} overwrites it", USAGE)
    output = named or default
    if output == files.STDOUT:
        return output
    if source is not None and output.exists() and output.samefile(source):
        raise ToolError(f"{output} is what is read; name another file with -o", USAGE)
    if output.is_dir():
        raise ToolError(f"{output} is a directory; name a file with -o", USAGE)
    if not output.parent.is_dir():
        raise ToolError(f"cannot write {output}: there is no {output.parent}", USAGE)
    if not output.exists() and not os.access(output.parent, os.W_OK):
        raise ToolError(f"cannot write into {output.parent}; -o FILE writes elsewhere", USAGE)
    return output


def counted(count: int, what: str) -> str:
    """1 look, 2 looks."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def tell(output: Path, what: str) -> None:
    """Says what was written, unless that went to standard output, a pipe or a device."""
    if output != files.STDOUT and output.is_file():
        typer.echo(f"{output}: {what}")


def watch(pid: int, output: Path | None, interval: float, seconds: float | None) -> None:
    """A process, until something ends it. The file is there from the first look on."""
    path = check_output(output, Path(f"hakmem-timeline.{pid}.json"))
    recorder = live.Recorder(pid, interval, seconds)
    recorder.signals = live.block_signals()
    with events.EventFile(path) as file:
        if sys.stderr.isatty():
            name = recorder.look.frame.now["process"]["name"]
            print(f"looking at {name} (pid {pid}); Ctrl-C ends it", file=sys.stderr)
        why = recorder.run(file)
    if recorder.problem is not None:
        raise ToolError(f"{path} has {counted(recorder.looks, 'look')}; {recorder.problem}")
    tell(path, f"{counted(recorder.looks, 'look')} at process {pid}; {why}")


def load_json(path: Path) -> Any:
    """A file of JSON."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{path} is not JSON to its end: {error}") from None


def from_trace(path: Path, output: Path | None) -> None:
    """The timeline of a trace."""
    target = check_output(output, path.with_name(f"{path.name}.timeline.json"), path)
    read = trace.read(path)
    count = events.write_whole(target, recorded.make(read, path))
    lanes = counted(len(read.account.lanes), "thread")
    what = f"{counted(read.account.events, 'event')} of {lanes}"
    if read.is_cut:
        what += "; the trace is cut off within an event, and so is this"
    elif not read.header.is_whole:
        what += "; not to the program's end"
    tell(target, f"{what}, as {count:,}")


def from_replay(path: Path, output: Path | None) -> None:
    """The timeline of a replay."""
    stem = path.name.removesuffix(".json")
    target = check_output(output, path.with_name(f"{stem}.timeline.json"), path)
    replay = replayed.parse(load_json(path), str(path))
    events.write_whole(target, replayed.make(replay, str(path)))
    tell(target, f"memory of {', '.join(name for name, runs in replay.runs.items() if runs)}")


def from_file(path: Path, output: Path | None) -> None:
    """A trace or JSON, by its first bytes."""
    try:
        if not path.exists():
            raise ToolError(f"there is no {path}; {NO_SOURCE}", USAGE)
        if not path.is_file():
            raise ToolError(f"{path} is not a regular file; {NO_SOURCE}", USAGE)
        with path.open("rb") as file:
            begin = file.read(64)
    except OSError as error:
        raise ToolError(f"cannot read {path}: {error.strerror}", USAGE) from None
    if begin.startswith(trace.NAME):
        from_trace(path, output)
    elif begin.lstrip().startswith((b"{", b"[")):
        from_replay(path, output)
    else:
        raise ToolError(f"{path} is no trace and no JSON; {NO_SOURCE}", USAGE)


@app.command(epilog=EPILOG)
def timeline(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PID|FILE",
            show_default=False,
            help="A process, a trace, or the JSON of a replay.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=files.output,
            metavar="FILE",
            help="Where to, -: standard output; else hakmem-timeline.PID.json, or beside the FILE.",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.01,
            max=86400,
            show_default=False,
            help=f"Between two looks at a process; else {INTERVAL_SECONDS}.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for", metavar="SECONDS", min=0, help="End after so long.", show_default=False
        ),
    ] = None,
) -> None:
    """Writes memory over time as a trace for Perfetto or chrome://tracing."""
    if not source:
        raise ToolError(f"the name of the file is empty; {NO_SOURCE}", USAGE)
    if source.isdecimal():
        if not 0 < int(source) < 1 << 31:
            raise ToolError(f"{source} is not the number of a process", USAGE)
        watch(int(source), output, interval or INTERVAL_SECONDS, seconds)
        return
    if interval is not None or seconds is not None:
        raise ToolError("--interval and --for go with a process, not with a file", USAGE)
    from_file(Path(source), output)


def main() -> None:
    """The entry point."""
    cli.run(app, "timeline")
