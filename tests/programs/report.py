# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: the table of what came out, for the terminal and for docs/programs.md.

Who uses it: tests/programs/run.py. It runs only dpkg, for the programs' versions.
"""

import datetime
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from stage import Case, Usage

PASSED, FAILED, SKIPPED = 0, 1, 77
HEADINGS = (
    "program",
    "version",
    "equal output",
    "exit status",
    "takeover proved",
    "peak RSS",
    "page faults",
)


@dataclass
class Outcome:
    """What is known of a case after it was played."""

    case: Case
    status: int = FAILED
    problem: str = ""
    taken_over: bool = False
    ended_well: bool = False
    equal: bool = False
    without: Usage = field(default_factory=Usage)
    under: Usage = field(default_factory=Usage)
    seconds: tuple[float, float] = (0.0, 0.0)


def answer(words: tuple[str, ...]) -> str:
    """What a command prints, or nothing."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def version_of(case: Case) -> str:
    """Of the package that the program is from; for others what the program says itself."""
    path = shutil.which(case.needs[0])
    if path is None:
        return ""
    real = str(Path(path).resolve())
    for candidate in (path, real, path.removeprefix("/usr"), real.removeprefix("/usr")):
        package = answer(("dpkg-query", "-S", candidate)).split(":")[0].split(",")[0]
        if package:
            found = answer(("dpkg-query", "-W", "-f", "${Version}", package))
            return f"{package} {found}"
    said = answer((path, "--version")).split("\n", 1)[0]
    return f"{said} (no package)"


def mebibytes(kilobytes: int) -> str:
    return f"{kilobytes / 1024:.1f}" if kilobytes else "?"


def yes(value: bool) -> str:
    return "yes" if value else "NO"


def cells(outcome: Outcome) -> tuple[str, ...]:
    """A row without and with hakmem."""
    case = outcome.case
    if outcome.status == SKIPPED:
        return (case.name, outcome.problem, "", "", "", "", "")
    return (
        case.name,
        version_of(case),
        yes(outcome.equal),
        "the same" if outcome.ended_well else "NO",
        yes(outcome.taken_over),
        f"{mebibytes(outcome.without.peak_kb)} / {mebibytes(outcome.under.peak_kb)} MiB",
        f"{outcome.without.faults} / {outcome.under.faults}",
    )


def lines(outcomes: list[Outcome]) -> list[str]:
    """For the terminal."""
    rows = [HEADINGS, *(cells(outcome) for outcome in outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def geometric_mean(ratios: list[float]) -> float:
    product = 1.0
    for ratio in ratios:
        product *= ratio ** (1 / len(ratios))
    return product


def sums(outcomes: list[Outcome]) -> str:
    """The means over the programs that were measured."""
    done = [o for o in outcomes if o.equal and min(o.without.peak_kb, o.without.faults) > 0]
    if not done:
        return "Nothing was measured."
    peak = geometric_mean([o.under.peak_kb / o.without.peak_kb for o in done])
    faults = geometric_mean([max(o.under.faults, 1) / o.without.faults for o in done])
    return (
        f"Of {len(outcomes)} programs {sum(o.status == PASSED for o in outcomes)} passed. With hakmem, against "
        f"without: peak RSS {peak:.2f}, page faults {faults:.2f} (geometric means of {len(done)})."
    )


def today_and_here() -> str:
    """When and where programs were played, for a table's heading."""
    today = datetime.datetime.now(datetime.UTC).date()
    libc = " ".join(platform.libc_ver())
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{today}, {system}, {libc}, Linux {platform.release().partition('-')[0]}"


def page(outcomes: list[Outcome]) -> str:
    """docs/programs.md."""
    out = [
        "# Programs",
        "",
        "Made by `tests/programs/run.py --all --table docs/programs.md`; do not edit. `make programs` installs",
        "the programs and plays all of it. Each program does some work twice, without hakmem and with it",
        "(`LD_PRELOAD`), and has to print the same and end with the same status. That malloc",
        "leads to hakmem is asked of the dynamic linker (`LD_DEBUG=bindings`).",
        "",
        f"{today_and_here()}. {sums(outcomes)}",
        "",
        "Peak RSS is that of the largest process, page faults those of all processes (of servers and",
        "their children at the end); without hakmem / with it. One run each: differences of some percent are chance.",
        "",
        "| " + " | ".join(("work", *HEADINGS)) + " |",
        "|" + "---|" * (len(HEADINGS) + 1),
    ]
    for outcome in outcomes:
        name, *rest = cells(outcome)
        out.append("| " + " | ".join((outcome.case.what.replace("|", "\\|"), name, *rest)) + " |")
    out += ["", "## Programs with an allocator of their own", ""]
    out += [f"- {o.case.name}: {o.case.note}" for o in outcomes if o.case.note]
    failed = [o for o in outcomes if o.status == FAILED]
    if failed:
        out += ["", "## What failed", ""]
        out += [f"- {o.case.name}: {o.problem.splitlines()[0]}" for o in failed]
    return "\n".join(out) + "\n"
