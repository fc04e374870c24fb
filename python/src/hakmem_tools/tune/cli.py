# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem tune`.

hakmem tune TRACE -o FILE    tries the arms of all knobs on a trace; FILE is a policy with the evidence
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hakmem_tools.common import cli, files
from hakmem_tools.common.errors import ToolError
from hakmem_tools.policy import model
from hakmem_tools.policy.cli import show_policy
from hakmem_tools.tune import search

app = cli.new_app()


class Touch(StrEnum):
    """What a replay writes of a block."""

    NONE = "none"
    PAGES = "pages"
    ALL = "all"


def progress() -> Progress:
    """On standard error, and only for somebody who looks at it."""
    console = Console(stderr=True)
    columns = (TextColumn("replays"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def policy_file(text: str) -> Path:
    """What -o names: it is read first."""
    if text == "-":
        raise typer.BadParameter("the policy goes to a file, not to standard output.")
    return files.named(text)


@app.command(
    epilog=cli.examples(
        ("hakmem record -o app.trace -- ./app", "what the program allocates"),
        ("hakmem tune app.trace -o app.policy", "which setting suits it"),
        ("HAKMEM_POLICY=app.policy hakmem run -- ./app", "with that setting"),
    )
)
def tune(
    trace: Annotated[Path, typer.Argument(parser=files.named, metavar="TRACE", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            parser=policy_file,
            metavar="FILE",
            help="The policy file; one that exists is added to.",
        ),
    ],
    rounds: Annotated[
        int,
        typer.Option(
            metavar="N", min=model.CHOOSE_PLAYS, max=1000, help="How often each is tried."
        ),
    ] = 7,
    touch: Annotated[
        Touch, typer.Option(help="What is written of a block: see 'hakmem replay --help'.")
    ] = Touch.PAGES,
) -> None:
    """Try each setting that a policy can have on a recorded trace, and write the evidence.

    A setting is used later only if it was better than the defaults by more than chance: a
    hundredth of the time is worth two of the memory.
    """
    if not os.access(output.parent, os.W_OK):
        raise ToolError(f"cannot write {output}: its directory is not there, or not to be written")
    before = model.read(output) if output.exists() else model.Policy()
    with progress() as bar:
        task = bar.add_task("replays", total=rounds * (len(search.ARMS) + 1))
        found = search.search(trace, rounds, touch, lambda: bar.advance(task))
    found = model.merge([before, found])
    show_policy(found)
    files.write(output, model.write(found))
    knob, arm = found.best()
    out = cli.console()
    if knob:
        said = f"{knob} {arm} is better by more than chance: HAKMEM_POLICY={os.fspath(output)}"
        out.print(said, markup=False)
    else:
        out.print("No setting is better than the defaults by more than chance.")


def main() -> None:
    """The entry point."""
    cli.run(app, "tune")
