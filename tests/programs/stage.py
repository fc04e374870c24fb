# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real programs under hakmem: where a program runs, and the record of what it printed.

Who uses it: tests/programs/cases.py (steps and plays) and tests/programs/run.py. A stage is an
empty directory and an environment that is the same in every run but for LD_PRELOAD; what runs on it
is recorded, so that two runs can be compared. It never decides whether a test has passed.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEP_SECONDS = 250
TIME, ENV = "/usr/bin/time", "/usr/bin/env"
TIME_FILE = "usage"


class StageError(Exception):
    """A program could not be run, or did what it must not; the message says which and what."""


@dataclass(frozen=True)
class Step:
    """A command of a case. Its output and exit status become part of the record."""

    command: tuple[str, ...]
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    status: int = 0


@dataclass(frozen=True)
class Case:
    """A program with work for it. Played twice, with and without hakmem: the records must agree."""

    name: str
    what: str
    needs: tuple[str, ...]
    """Programs (or absolute paths) that have to be installed."""
    play: "tuple[Step, ...] | Callable[[Stage], None]"
    expect: tuple[str, ...]
    """Regular expressions that must be found in the record: the program did its work."""
    probe: tuple[str, ...]
    """A short command of that program, to see that its malloc is hakmem's."""
    files: tuple[str, ...] = ()
    """Files of the repository to copy into the stage."""
    mask: tuple[tuple[str, str], ...] = ()
    """(pattern, replacement) for what differs from run to run, such as durations."""
    optional: bool = False
    """Whether the program may be missing in CI."""
    wide: bool = False
    """One of the many of `make programs`, not of `make test`."""
    note: str = ""
    """What the table says of it, such as an allocator that the program brings."""


@dataclass
class Usage:
    """What the processes of a stage used, where that was measured."""

    peak_kb: int = 0
    """Resident memory of the largest process at its peak."""
    faults: int = 0
    """Page faults of all, without those that had to read a file."""

    def add(self, peak_kb: int, faults: int) -> None:
        self.peak_kb = max(self.peak_kb, peak_kb)
        self.faults += faults


def base_environment(home: Path) -> dict[str, str]:
    """The same for every run; the caller's HAKMEM_ options pass, so that they can be tested too."""
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(home),
        "TMPDIR": str(home),
        "LC_ALL": "C",
        "TZ": "UTC",
        "TERM": "dumb",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": "2020-02-02T02:02:02Z",
        "GIT_COMMITTER_DATE": "2020-02-02T02:02:02Z",
    }
    environment |= {k: v for k, v in os.environ.items() if k.startswith("HAKMEM_")}
    return environment


def begin_plays() -> None:
    """For a runner, before the first play: what its programs must not inherit."""
    os.environ.pop("LD_PRELOAD", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder for stages, which goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="hakmem-programs-") as name:
        scratch = Path(name).resolve()
        scratch.chmod(0o755)  # for servers that run as somebody else
        yield scratch


class Stage:
    """A fresh directory, an environment, and the record of what ran there."""

    def __init__(
        self,
        directory: Path,
        library: Path | None,
        files: tuple[str, ...],
        measured: bool = False,
    ) -> None:
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir()
        for name in files:
            shutil.copy(ROOT / name, directory)
        self.directory = directory
        self.library = library
        self.environment = base_environment(directory)
        self.record: list[str] = []
        self.measured = measured
        self.usage = Usage()

    def preload_environment(self) -> dict[str, str]:
        if self.library is None:
            return self.environment
        return {**self.environment, "LD_PRELOAD": str(self.library)}

    def note(self, text: str) -> None:
        self.record.append(text)

    def add(self, other: "Stage") -> None:
        """Adds what another stage used."""
        self.usage.add(other.usage.peak_kb, other.usage.faults)

    def command(self, step: Step) -> tuple[list[str], dict[str, str]]:
        """What is started, and with which environment. Measured by time(1), which is not under
        hakmem itself, so that the runner's own memory is no part of it."""
        if not self.measured:
            return list(step.command), {**self.preload_environment(), **step.env}
        preload = f"LD_PRELOAD={self.library}" if self.library else "--unset=LD_PRELOAD"
        how = [TIME, "-q", "-f", "%M %R", "-o", str(self.directory.parent / TIME_FILE)]
        words = [*how, ENV, preload, *step.command]
        return words, {**self.environment, **step.env}

    def measure_step(self) -> None:
        """Adds what time(1) wrote."""
        path = self.directory.parent / TIME_FILE
        if self.measured and path.exists():
            peak, faults = path.read_text(encoding="ascii").split()[-2:]
            self.usage.add(int(peak), int(faults))
            path.unlink()

    def measure_process(self, pid: int) -> None:
        """Adds what a process that is still running has used, and its children."""
        directory = Path(f"/proc/{pid}")
        status = (directory / "status").read_text(encoding="utf-8")
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        faults = (directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[7:9]
        self.usage.add(int(peak.group(1)) if peak else 0, int(faults[0]) + int(faults[1]))
        for children in directory.glob("task/*/children"):
            for child in children.read_text(encoding="ascii").split():
                self.measure_process(int(child))

    def run(self, step: Step) -> str:
        """Runs a step and records it. Its standard output, for plays that need an answer."""
        words, environment = self.command(step)
        process = subprocess.Popen(
            words,
            cwd=self.directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(step.stdin, timeout=STEP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            raise StageError(
                f"{' '.join(step.command)}: not done after {STEP_SECONDS} s\n{output}{errors}"
            ) from None
        self.measure_step()
        self.note(f"$ {' '.join(step.command)}")
        self.note(output + errors + describe_status(process.returncode))
        if process.returncode != step.status:
            raise StageError(
                f"{' '.join(step.command)}: {describe_status(process.returncode)}, expected status "
                f"{step.status}\n{tail(output)}{tail(errors)}"
            )
        return output

    def masked_record(self, mask: tuple[tuple[str, str], ...]) -> str:
        text = "\n".join(self.record)
        for pattern, replacement in mask:
            text = re.sub(pattern, replacement, text)
        return text


def describe_status(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def tail(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[-30:])
