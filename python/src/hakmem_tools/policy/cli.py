# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command `hakmem policy`.

    hakmem policy show FILE          what was learned, and what a frozen run uses
    hakmem policy diff OLD NEW       what a frozen run does differently; exit status 1 if it does
    hakmem policy merge FILE... -o   one file of many runs and machines
    hakmem policy check FILE...      whether the library would take them
    hakmem policy write PID          ask a process that learns to add what it has to its file

All but the last read and write files only; docs/learning.md has their form.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hakmem_tools.common import cli, command, files
from hakmem_tools.common.errors import FAILED, ToolError
from hakmem_tools.policy import model
from hakmem_tools.policy.model import KNOBS, PPM, Arm, Policy

app = cli.new_app()

File = Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)]


@app.callback()
def about() -> None:
    """Shows, compares, merges and checks what HAKMEM_POLICY has learned."""


def share(total: int, plays: int) -> str:
    """A mean ratio against the defaults."""
    return f"{total / plays / PPM:.3f}" if plays else ""


def arm_row(policy: Policy, knob: str, name: str) -> list[str]:
    """An arm's line of the table."""
    arm = policy.arms.get((knob, name), Arm())
    used = "used" if policy.chosen(knob) == name else ""
    least = f"{arm.worth() / PPM:.3f}" if arm.plays > 1 else ""
    return [
        knob,
        name,
        str(arm.plays or ""),
        share(arm.time, arm.plays),
        share(arm.memory, arm.plays),
        share(arm.reward, arm.plays),
        least,
        str(arm.hints or ""),
        used,
    ]


@app.command(epilog=cli.examples(("hakmem policy show my.policy", "what my runs have taught")))
def show(file: File) -> None:
    """What was learned: a line for each arm that was tried or hinted at."""
    show_policy(model.read(file))


def show_policy(policy: Policy) -> None:
    """Prints a policy as `hakmem policy show` does."""
    table = Table(box=None, pad_edge=False)
    for head in ("knob", "arm", "runs", "time", "memory", "reward", "at least", "hints", ""):
        text = head in ("knob", "arm", "")
        table.add_column(head, justify="left" if text else "right", no_wrap=True)
    for knob, names in KNOBS.items():
        for name in names[1:]:
            if (knob, name) in policy.arms:
                table.add_row(*arm_row(policy, knob, name))
    out = cli.console()
    plays = policy.base[0]
    out.print(
        f"{policy.runs[0]} runs watched, {plays} plays of the defaults as the measure", end=""
    )
    if plays:
        seconds, cpu, kib = (total / plays for total in policy.base[1:])
        costs = f"{seconds / 1e6:.2f} s, {cpu / 1e6:.2f} s of processor time, {kib / 1024:.1f} MiB"
        out.print(f": {costs}", end="")
    out.print()
    if table.row_count:
        out.print(table)
    if policy.bins:
        out.print(f"first bins of {len(policy.bins)} classes")
    if policy.sites:
        out.print(f"groups of {len(policy.sites)} call sites")


def settings(policy: Policy) -> dict[str, str]:
    """What a frozen run uses, by name."""
    used = {knob: policy.chosen(knob) for knob in KNOBS}
    for size, (weight, total) in policy.bins.items():
        used[f"bin {size}"] = f"{total // weight} blocks"
    for place, site in policy.sites.items():
        used[f"site {place}"] = site.group
    return used


@app.command(epilog=cli.examples(("hakmem policy diff old.policy new.policy", "what has changed")))
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", show_default=False)],
    new: Annotated[Path, typer.Argument(metavar="NEW", show_default=False)],
) -> int:
    """What a frozen run would do differently with NEW. Exit status 1 if anything."""
    before, after = settings(model.read(old)), settings(model.read(new))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for name in changed:
        typer.echo(f"{name}: {before.get(name, 'as it grows')} -> {after.get(name, 'as it grows')}")
    return FAILED if changed else 0


@app.command(epilog=cli.examples(("hakmem policy merge */run.policy -o all", "of many machines")))
def merge(
    paths: Files,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", parser=files.output, metavar="FILE", help="Not standard output."
        ),
    ] = None,
) -> None:
    """Adds what files say. Every run counts alike, in whatever order they are given."""
    text = model.write(model.merge([model.read(path) for path in paths]))
    files.write(output, text)


@app.command(epilog=cli.examples(("hakmem policy check my.policy", "before it is installed")))
def check(paths: Files) -> int:
    """Whether the library would take these files. A line for each that it would not."""
    wrong = 0
    for path in paths:
        try:
            model.read(path)
        except ToolError as error:
            typer.echo(str(error), err=True)
            wrong += 1
    return FAILED if wrong else 0


@app.command(epilog=cli.examples(("hakmem policy write 4711", "of a server that does not end")))
def write(
    pid: Annotated[int, typer.Argument(metavar="PID", show_default=False)],
) -> None:
    """Asks a process that learns to add what it has to its file now.

    It does when it next allocates; at its end it adds what came after that. It learns if it was
    started with HAKMEM_POLICY=learn:FILE or try:FILE.
    """
    command.run("ask", str(pid), "policy", "write")


def main() -> None:
    """The entry point."""
    cli.run(app, "policy")
