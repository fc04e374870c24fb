# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: one measured run of a command under an allocator.

The small program `launch` starts the command, because Linux counts the memory of the process that
calls exec into the peak of the new program. Who uses it: runner and bench/demo.py. Standard library
only; it never decides what to measure and never prints.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hakmem_tools.bench.allocators import Allocator
from hakmem_tools.bench.places import HOW_TO_BUILD, BenchError

MEMORY_CALLS = ("mmap", "munmap", "madvise", "mremap", "brk", "mprotect")


@dataclass
class Run:
    """What one measurement cost; `problem` is empty when it ended well."""

    wall_ns: int = 0
    user_us: int = 0
    sys_us: int = 0
    maxrss_kb: int = 0
    meanrss_kb: int = 0
    """Mean over time; 0 where nobody looked."""
    minflt: int = 0
    majflt: int = 0
    elapsed_ns: int = 0
    """The program's own measure of its work, 0 if it has none."""
    checksum: str = ""
    metrics: dict[str, tuple[float, str]] = field(default_factory=dict)
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Outcome:
    """A run and what the command printed."""

    run: Run
    output: str
    errors: str


# ---- what a program says ----


def read_report(text: str, run: Run) -> None:
    """Takes the elapsed time, the checksum and the metrics from what a program of ours printed."""
    line = re.search(r"elapsed (\d+) ns, checksum ([0-9a-f]{16})", text)
    if line:
        run.elapsed_ns = int(line.group(1))
        run.checksum = line.group(2)
    for name, value, unit in re.findall(r": metric (\w+) (-?[\d.]+) (\w+)$", text, re.MULTILINE):
        run.metrics[name] = (float(value), unit)


def signal_name(number: int) -> str:
    """SIGSEGV rather than 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def problem_of(cost: Mapping[str, int], errors: str) -> str:
    """Why a run failed, in one line; empty if it did not."""
    last = (errors.strip().splitlines()[-1:] or [""])[0][:200]
    if cost["signal"]:
        return f"killed by {signal_name(cost['signal'])}{': ' if last else ''}{last}"
    if cost["exit"]:
        return f"exit status {cost['exit']}{': ' if last else ''}{last}"
    return ""


def run_of(cost: Mapping[str, int], errors: str) -> Run:
    """The launcher's line of JSON as a run."""
    run = Run(problem=problem_of(cost, errors))
    for name in ("wall_ns", "user_us", "sys_us", "maxrss_kb", "minflt", "majflt"):
        setattr(run, name, cost[name])
    run.meanrss_kb = cost.get("meanrss_kb", 0)
    return run


# ---- runs ----


def environment_for(allocator: Allocator, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a run.

    Without LD_PRELOAD, which the launcher sets, and without HAKMEM_STATS, whose report is not part
    of any result, and what was set for this tool. None is set to 0 either: a process that reads a
    setting touches 250 kB of file more than one that finds none.
    """
    left_out = re.compile("LD_PRELOAD|HAKMEM_STATS|HAKMEM_BENCH_.*")
    own = {k: v for k, v in os.environ.items() if not left_out.fullmatch(k)}
    return {**own, **allocator.environment, **(extra or {})}


def launch_command(
    launch: Path,
    command: Sequence[str],
    allocator: Allocator,
    scratch: Path,
    repeats: int = 1,
    look_ms: int = 0,
    warm_mib: int = 0,
) -> list[str]:
    """The command line that starts a command under an allocator, its output to files in scratch.

    With look_ms the launcher looks at the command's resident memory so often, for the mean. With
    warm_mib it touches and frees so much memory first.
    """
    if not launch.is_file():
        raise BenchError(f"{launch} is not built: {HOW_TO_BUILD}")
    preload = ["-p", allocator.library] if allocator.library else []
    look = ["-m", str(look_ms)] if look_ms else []
    warm = ["-w", str(warm_mib)] if warm_mib else []
    files = ["-o", str(scratch / "stdout"), "-e", str(scratch / "stderr")]
    return [str(launch), "-n", str(repeats), *warm, *look, *preload, *files, "--", *command]


def start(
    command: list[str], environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[str]:
    """Starts the launcher in a process group of its own."""
    return subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[str]) -> None:
    """Ends the launcher and everything it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_or_kill(process: subprocess.Popen[str], seconds: float) -> str | None:
    """The output, or None after the time limit; then the whole process group is ended."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        kill_group(process)
        return None
    except BaseException:
        kill_group(process)
        raise


def read_file(path: Path) -> str:
    """The text of a file, empty where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def finish(said: str | None, scratch: Path, seconds: float) -> Outcome:
    """What the launcher said, as an outcome."""
    output, errors = read_file(scratch / "stdout"), read_file(scratch / "stderr")
    if said is None:
        return Outcome(Run(problem=f"not done after {seconds:g} s"), output, errors)
    try:
        run = run_of(json.loads(said), errors)
    except ValueError:
        return Outcome(Run(problem=f"the launcher failed: {said.strip()}"), output, errors)
    read_report(output, run)
    return Outcome(run, output, errors)


def measure(
    command: Sequence[str],
    allocator: Allocator,
    launch: Path,
    *,
    repeats: int = 1,
    seconds: float = 300,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    look_ms: int = 0,
    warm_mib: int = 0,
) -> Outcome:
    """Runs a command under an allocator: what it cost and what it printed."""
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as name:
        scratch = Path(name)
        process = start(
            launch_command(launch, command, allocator, scratch, repeats, look_ms, warm_mib),
            environment_for(allocator, environment),
            folder or Path.cwd(),
        )
        return finish(wait_or_kill(process, seconds), scratch, seconds)


# ---- counting ----


def need_tool(name: str) -> str:
    """The path of a tool of the system."""
    path = shutil.which(name)
    if path is None:
        raise BenchError(f"{name} is not installed: apt-get install {name}")
    return path


Count = dict[str, Any]
"""What was counted by name, or {"problem": why not}."""


def run_tool(
    command: list[str], environment: Mapping[str, str], folder: Path | None, seconds: float
) -> tuple[str, str]:
    """Runs a counting tool: its standard error, and why it failed (empty if it did not)."""
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        errors = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        kill_group(process)
        return "", f"not done after {seconds:g} s"
    except BaseException:
        kill_group(process)
        raise
    status = process.returncode
    if status < 0 or status > 128:
        return errors, f"killed by {signal_name(-status if status < 0 else status - 128)}"
    return errors, f"exit status {status}" if status else ""


def count_instructions(
    command: Sequence[str],
    allocator: Allocator,
    *,
    seconds: float = 600,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Count:
    """Instructions of a whole run with its children under callgrind, as {"all": number}."""
    options = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=yes"]
    merged = environment_for(allocator, environment)
    if allocator.library:
        merged["LD_PRELOAD"] = allocator.library
    tool = [need_tool("valgrind"), *options]
    errors, problem = run_tool([*tool, *command], merged, folder, seconds)
    counted = [int(number) for number in re.findall(r"Collected : (\d+)", errors)]
    if not problem and not counted:
        problem = "callgrind counted nothing"
    return {"problem": problem} if problem else {"all": sum(counted)}


def read_strace(table: str) -> dict[str, int]:
    """The memory calls by name, and all calls ("all"), from what `strace -c` wrote."""
    counts = {**dict.fromkeys(MEMORY_CALLS, 0), "all": 0}
    for row in table.splitlines():
        columns = row.split()
        if len(columns) < 5 or not columns[3].isdigit() or columns[-1] == "total":
            continue
        counts["all"] += int(columns[3])
        if columns[-1] in MEMORY_CALLS:
            counts[columns[-1]] += int(columns[3])
    return counts


def count_calls(
    command: Sequence[str],
    allocator: Allocator,
    *,
    seconds: float = 600,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Count:
    """How often a command and its children made each memory call, and any ("all")."""
    strace = need_tool("strace")
    with tempfile.NamedTemporaryFile(prefix="hakmem-strace-", suffix=".txt") as table:
        preload = ["-E", f"LD_PRELOAD={allocator.library}"] if allocator.library else []
        options = ["-f", "-qq", "-c", "-o", table.name, *preload]
        merged = environment_for(allocator, environment)
        _, problem = run_tool([strace, *options, "--", *command], merged, folder, seconds)
        text = Path(table.name).read_text(encoding="utf-8")
    return {"problem": problem} if problem else dict(read_strace(text))
