# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: allocators, the machine, and one measured run of a command.

Who uses it: bench/compare.py and bench/demo.py. It never decides what to measure and never prints.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOW_TO_BUILD = "run `cmake --preset release` and `cmake --build --preset release`"
MEMORY_CALLS = ("mmap", "munmap", "madvise", "mremap", "brk", "mprotect")

# name: Debian package, file name; found in the directories that the dynamic linker knows.
PEERS = {
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2.0"),
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
}


class HarnessError(Exception):
    """Something that the person who started the measurement can mend; says how."""


@dataclass(frozen=True)
class Allocator:
    """A library to preload; an empty path stands for the C library's own malloc."""

    name: str
    library: str
    version: str

    def shown_library(self) -> str:
        """The path as a report names it: relative to the repository where it is inside."""
        path = Path(self.library)
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else self.library


@dataclass
class Run:
    """What one measurement cost; `problem` is empty when it ended well."""

    wall_ns: int = 0
    user_us: int = 0
    sys_us: int = 0
    maxrss_kb: int = 0
    minflt: int = 0
    majflt: int = 0
    elapsed_ns: int = 0
    checksum: str = ""
    metrics: dict[str, tuple[float, str]] = field(default_factory=dict)
    problem: str = ""


# ---- allocators ----


def linker_directories() -> list[Path]:
    return [
        Path(p) for p in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
    ]


def package_version(package: str) -> str:
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    if shutil.which(query[0]) is None:
        return "unknown"
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def library_version(library: Path) -> str:
    """hakmem's own word for its version, and a digest that tells two builds apart."""
    digest = hashlib.sha256(library.read_bytes()).hexdigest()[:12]
    code = (
        "import ctypes; f = ctypes.CDLL(None).hakmem_version; f.restype = ctypes.c_char_p;"
        "print(f().decode())"
    )
    done = subprocess.run(
        [shutil.which("python3", path="/usr/bin:/bin") or "python3", "-c", code],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.strip() if done.returncode == 0 else ""
    return f"{said} (sha256 {digest})" if said else f"sha256 {digest}"


def find_allocator(spec: str, build: Path) -> Allocator | None:
    """An allocator by name, or NAME=LIBRARY. None: a peer that is not installed."""
    name, equals, path = spec.partition("=")
    if equals:
        library = Path(path).absolute()
        if not library.is_file():
            raise HarnessError(f"{path}: no such library (given as --allocators {spec})")
        return Allocator(name, str(library), library_version(library))
    if name == "glibc":
        return Allocator(name, "", package_version("libc6"))
    if name == "hakmem":
        library = (build / "libhakmem.so").absolute()
        if not library.is_file():
            raise HarnessError(f"{build}/libhakmem.so is not built: {HOW_TO_BUILD}")
        return Allocator(name, str(library), library_version(library))
    if name not in PEERS:
        raise HarnessError(
            f"unknown allocator '{name}': give glibc, hakmem, {', '.join(PEERS)} or NAME=LIBRARY.so"
        )
    package, file_name = PEERS[name]
    for directory in linker_directories():
        if (directory / file_name).is_file():
            return Allocator(name, str(directory / file_name), package_version(package))
    return None


def check_preload(allocator: Allocator) -> None:
    """The dynamic linker only warns when it cannot preload; a measurement must not go on."""
    if not allocator.library:
        return
    maps = subprocess.run(
        ["cat", "/proc/self/maps"],
        env={**os.environ, "LD_PRELOAD": allocator.library},
        capture_output=True,
        text=True,
        check=False,
    )
    if str(Path(allocator.library).resolve()) not in maps.stdout:
        raise HarnessError(
            f"{allocator.library} cannot be preloaded (status {maps.returncode}): "
            f"{maps.stderr.strip() or 'no message'}"
        )


# ---- the machine ----


def first_match(path: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip() if found else "unknown"


def machine() -> dict[str, str]:
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": first_match("/proc/meminfo", r"^MemTotal:\s*(.*)$"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": first_match("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "transparent_huge_pages": first_match(
            "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"
        ),
        "compiler": first_line(["cc", "--version"]),
    }


def first_line(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return "unknown"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


# ---- runs ----


def program_path(name: str, bench: Path) -> str:
    """A benchmark program of ours, else a program of the system."""
    path = bench / name
    if path.is_file():
        return str(path)
    found = shutil.which(name)
    if found is None or name != "true":
        raise HarnessError(f"{bench}/{name} is not built: {HOW_TO_BUILD}")
    return found


def read_report(text: str, run: Run) -> None:
    """Takes the elapsed time, the checksum and the metrics from what a program printed."""
    line = re.search(r"elapsed (\d+) ns, checksum ([0-9a-f]{16})", text)
    if line:
        run.elapsed_ns = int(line.group(1))
        run.checksum = line.group(2)
    for name, value, unit in re.findall(r": metric (\w+) (-?[\d.]+) (\w+)$", text, re.MULTILINE):
        run.metrics[name] = (float(value), unit)


def problem_of(cost: dict[str, int], errors: str) -> str:
    last = errors.strip().splitlines()[-1:] or [""]
    if cost["signal"]:
        return f"killed by {signal.Signals(cost['signal']).name} {last[0]}".strip()
    if cost["exit"]:
        return f"exit status {cost['exit']}: {last[0]}"
    return ""


def wait_or_kill(process: subprocess.Popen[str], seconds: float) -> str | None:
    """The output, or None after the time limit; then the whole process group is ended."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def measure(
    command: list[str], library: str, launch: Path, *, runs: int = 1, seconds: float = 300
) -> tuple[Run, str, str]:
    """Runs a command under a library: what it cost, its standard output and its errors."""
    if not launch.is_file():
        raise HarnessError(f"{launch} is not built: {HOW_TO_BUILD}")
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as scratch:
        output, errors = Path(scratch) / "out", Path(scratch) / "err"
        preload = ["-p", library] if library else []
        process = subprocess.Popen(
            [str(launch), "-n", str(runs), *preload, "-o", output, "-e", errors, "--", *command],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        said = wait_or_kill(process, seconds)
        printed = output.read_text(errors="replace") if output.exists() else ""
        complained = errors.read_text(errors="replace") if errors.exists() else ""
    if said is None:
        return Run(problem=f"not done after {seconds:.0f} s"), printed, complained
    cost = json.loads(said)
    run = Run(
        wall_ns=cost["wall_ns"],
        user_us=cost["user_us"],
        sys_us=cost["sys_us"],
        maxrss_kb=cost["maxrss_kb"],
        minflt=cost["minflt"],
        majflt=cost["majflt"],
        problem=problem_of(cost, complained),
    )
    read_report(printed, run)
    return run, printed, complained


def run_as_dict(run: Run) -> dict[str, object]:
    return asdict(run)


# ---- counting ----


def need_tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise HarnessError(f"{name} is not installed: apt-get install {name}")
    return path


def count_instructions(command: list[str], library: str, seconds: float = 600) -> int | None:
    """Instructions of a whole run under callgrind; None when the program failed there."""
    valgrind = need_tool("valgrind")
    done = subprocess.run(
        [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
        env={**os.environ, **({"LD_PRELOAD": library} if library else {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    counted = re.search(r"Collected : (\d+)", done.stderr)
    return int(counted.group(1)) if counted and done.returncode == 0 else None


def count_memory_calls(
    command: list[str], library: str, seconds: float = 600
) -> dict[str, int] | None:
    """How often a command and its children made each memory system call; None when it failed."""
    strace = need_tool("strace")
    with tempfile.NamedTemporaryFile(prefix="hakmem-strace-", suffix=".txt") as table:
        preload = ["-E", f"LD_PRELOAD={library}"] if library else []
        traced = f"trace={','.join(MEMORY_CALLS)}"
        options = ["-f", "-qq", "-c", "-o", table.name, "-e", traced, *preload]
        done = subprocess.run(
            [strace, *options, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=seconds,
        )
        rows = Path(table.name).read_text(encoding="utf-8").splitlines()
    if done.returncode != 0:
        return None
    counts = dict.fromkeys(MEMORY_CALLS, 0)
    for row in rows:
        columns = row.split()
        if len(columns) >= 5 and columns[-1] in counts:
            counts[columns[-1]] = int(columns[3])
    return counts
