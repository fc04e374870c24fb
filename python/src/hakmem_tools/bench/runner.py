# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: runs programs under allocators in turn, checks what they say, and makes the result.

Nothing is dropped: a crash, a time limit or a wrong result is in the result as such.
Who uses it: cli. It never prints; a listener hears what happens.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import machine, measure
from hakmem_tools.bench.allocators import Allocator, Missing
from hakmem_tools.bench.measure import Outcome, Run
from hakmem_tools.bench.places import HOW_TO_BUILD, BenchError, Places
from hakmem_tools.bench.suite import WARM_MIB, Benchmark

SCHEMA = 2
Result = dict[str, Any]

IDLE_MS = 2000
ASK_S = 60
# The same for all: locale and hash seeds that could change what a program does.
STEADY = {"LC_ALL": "C", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    benchmarks: Sequence[Benchmark]
    allocators: Sequence[Allocator]
    missing: Sequence[Missing]
    places: Places
    rounds: int
    quick: bool
    command: str
    seconds: float = 120
    idle_rounds: int = 1
    strace: bool = False
    callgrind: bool = False


class Listener:
    """Hears what happens; this one does nothing."""

    def begin(self, plan: Plan, steps: int) -> None:
        """Before the first run."""

    def step(self, benchmark: Benchmark, what: str) -> None:
        """Before each run."""

    def done(self, steps: int = 1) -> None:
        """After each run, or when runs are left out."""

    def result(self, result: Result) -> None:
        """When a benchmark is complete: the result so far."""


# ---- one benchmark ----


@dataclass
class Job:
    """A benchmark with its folder."""

    plan: Plan
    benchmark: Benchmark
    work: Path

    def command(self, quick: bool) -> list[str]:
        """The command line with folders filled in and the program's path in front."""
        if self.benchmark.folder is not None:
            return list(self.benchmark.command)
        places = self.plan.places
        folders = {
            "work": self.work,
            "real": places.real,
            "demo": places.demo,
            "sources": places.sources,
        }
        command = [part.format(**folders) for part in self.benchmark.command_for(quick)]
        return [program_path(self.benchmark, places), *command[1:]]

    def allocator(self, allocator: Allocator) -> Allocator:
        """The same allocator, but glibc as a library where the program brings another one along."""
        if self.benchmark.own_allocator and not allocator.library:
            return Allocator(allocator.name, alloc.libc_path(), allocator.version)
        return allocator


def built_program(name: str, places: Places) -> str:
    """A benchmark program of ours."""
    path = places.programs / name
    if not path.is_file():
        raise BenchError(f"{path} is not built: {HOW_TO_BUILD}")
    return str(path)


def program_path(benchmark: Benchmark, places: Places) -> str:
    """A benchmark program of ours, or a program of the system."""
    name = benchmark.command[0]
    return (shutil.which(name) or name) if benchmark.package else built_program(name, places)


def ask(program: str, *question: str) -> list[str]:
    """The lines that a program of ours answers to a question about what it would do."""
    try:
        done = subprocess.run(
            [program, *question], capture_output=True, text=True, check=False, timeout=ASK_S
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise BenchError(f"{program} does not run: {error}") from error
    if done.returncode != 0:
        asked = " ".join([Path(program).name, *question])
        raise BenchError(f"`{asked}` failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def missing_program(benchmark: Benchmark) -> str:
    """Why a benchmark cannot run here; empty if it can."""
    if not benchmark.package or shutil.which(benchmark.command[0]):
        return ""
    return (
        f"{benchmark.command[0]} is not installed: apt-get install {benchmark.package}, "
        "or run tools/setup-bench.sh"
    )


def refusal(benchmark: Benchmark, places: Places) -> str:
    """Why no library can be preloaded into a program; empty if one can, or nobody knows.

    What `hakmem run --check` says. Without it such a program would run with its own allocator in
    each line of the table.
    """
    if places.command is None or not os.access(places.command, os.X_OK):
        return ""
    words = [str(places.command), "run", "--check", "--", *benchmark.command]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=ASK_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    said = [line.removeprefix("hakmem: ") for line in done.stderr.splitlines()]
    reason = "; ".join(line for line in said if line and not line.startswith("hint: "))
    return (reason or f"hakmem run --check says {done.returncode}") if done.returncode else ""


def output_checksum(outcome: Outcome, job: Job) -> str:
    """A digest of what a real program printed and wrote."""
    digest = hashlib.sha256(outcome.output.encode())
    for name in job.benchmark.results:
        path = job.work / name
        digest.update(path.read_bytes() if path.is_file() else b"not written")
    return digest.hexdigest()[:16]


def run_server(job: Job, allocator: Allocator, quick: bool) -> Outcome:
    """Starts a server under an allocator, lets its client use it, and waits for its end."""
    assert job.benchmark.client is not None
    plan = job.plan
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-") as name:
        scratch = Path(name)
        launch = plan.places.programs / "launch"
        process = measure.start(
            measure.launch_command(launch, job.command(quick), allocator, scratch),
            measure.environment_for(allocator, {**STEADY, **job.benchmark.environment}),
            job.work,
        )
        try:
            elapsed, checked = job.benchmark.client(job.work, quick)
            problem = ""
        except (OSError, BenchError) as error:
            elapsed, checked, problem = 0, "", f"the client could not use it: {error}"
        outcome = measure.finish(
            measure.wait_or_kill(process, 1 if problem else plan.seconds), scratch, plan.seconds
        )
    if problem and (not outcome.run.problem or "not done" in outcome.run.problem):
        outcome.run.problem = problem
    outcome.run.elapsed_ns = elapsed
    outcome.run.checksum = hashlib.sha256(checked.encode()).hexdigest()[:16]
    return outcome


def warm_mib(plan: Plan, benchmark: Benchmark) -> int:
    """What the launcher touches and frees before each run."""
    return 0 if plan.quick else benchmark.warm_mib


def allocators_of(plan: Plan, benchmark: Benchmark) -> list[Allocator]:
    """Those that a benchmark is measured under. One given with --lib always is."""
    return [
        a
        for a in plan.allocators
        if not benchmark.under or a.name in benchmark.under or a.origin.startswith("given")
    ]


def run_once(job: Job, allocator: Allocator, idle: bool) -> Run:
    """One run of a benchmark under an allocator."""
    allocator = job.allocator(allocator)
    for name in job.benchmark.results:
        (job.work / name).unlink(missing_ok=True)
    if job.benchmark.client is not None:
        return run_server(job, allocator, job.plan.quick).run
    extra = {"BENCH_IDLE_MS": str(IDLE_MS)} if idle else {}
    time.sleep(0 if job.plan.quick else job.benchmark.rest_s)
    outcome = measure.measure(
        job.command(job.plan.quick),
        allocator,
        job.plan.places.programs / "launch",
        repeats=job.benchmark.repeats,
        seconds=job.plan.seconds,
        environment={**STEADY, **job.benchmark.environment, **extra},
        folder=job.work,
        warm_mib=warm_mib(job.plan, job.benchmark),
    )
    if not outcome.run.checksum and not outcome.run.problem:
        outcome.run.checksum = output_checksum(outcome, job)
    return outcome.run


# ---- judging ----


def expected_checksum(results: dict[str, Any]) -> str:
    """What glibc says, or without it what most of the runs say."""
    said = [r["checksum"] for r in results.get("glibc", {}).get("runs", []) if not r["problem"]]
    if not said:
        said = [r["checksum"] for e in results.values() for r in e["runs"] if not r["problem"]]
    return str(max(sorted(set(said)), key=said.count)) if said else ""


def wrong_result(checksum: str, expected: str) -> str:
    """What is said of a benchmark of ours, whose result is known to be the same each time."""
    return f"wrong result: checksum {checksum}, expected {expected}"


def other_output(checksum: str, expected: str) -> str:
    """The same of a program that was given, of which nobody knows that."""
    return (
        f"its output is not that of the other runs (checksum {checksum}, not {expected}); "
        "a program given with --program has to print the same each time"
    )


def judge(results: dict[str, Any], wrong: Callable[[str, str], str] = wrong_result) -> None:
    """Fills in `problem` of each allocator: the first failure, and how many of the rounds failed."""
    expected = expected_checksum(results)
    for entry in results.values():
        for run in entry["runs"]:
            if not run["problem"] and run["checksum"] != expected:
                run["problem"] = wrong(run["checksum"], expected)
        problems = [run["problem"] for run in entry["runs"] if run["problem"]]
        if problems:
            entry["problem"] = f"{problems[0]} (in {len(problems)} of {len(entry['runs'])} rounds)"


# ---- the whole ----


def rounds_of(plan: Plan, benchmark: Benchmark) -> int:
    """The number of rounds of a benchmark."""
    return min(plan.rounds, benchmark.rounds_most)


def waits_idle(plan: Plan, benchmark: Benchmark, number: int) -> bool:
    """Whether a round waits for RSS after idle. With little work only the one that is about it does."""
    if plan.quick:
        return benchmark.name == "return_peak" and number == 0
    return benchmark.idle and number < plan.idle_rounds


def order_of(allocators: Sequence[Allocator], number: int, rounds: int) -> list[Allocator]:
    """The order of a round: nobody is always the first, or always behind the same one.

    What a program leaves behind (huge pages free or in pieces, a fast or a slow processor) is for
    whoever comes next. A row of E. J. Williams' squares (1949): over as many rounds as there are
    allocators, an even number of them, each comes at each place and behind each other one once.
    """
    count = len(allocators)
    first = number * count // rounds
    zigzag = ((i + 1) // 2 if i % 2 else -(i // 2) for i in range(count))
    return [allocators[(first + step) % count] for step in zigzag]


def measure_rounds(job: Job, listener: Listener) -> dict[str, Any]:
    """All rounds of a benchmark. One that hit the time limit does not get another try."""
    plan = job.plan
    chosen = allocators_of(plan, job.benchmark)
    results: dict[str, Any] = {a.name: {"problem": "", "runs": []} for a in chosen}
    rounds = rounds_of(plan, job.benchmark)
    for number in range(rounds):
        idle = waits_idle(plan, job.benchmark, number)
        for allocator in order_of(chosen, number, rounds):
            runs = results[allocator.name]["runs"]
            if not (runs and runs[-1]["problem"].startswith("not done after")):
                what = f"round {number + 1} of {rounds}, {allocator.name}"
                listener.step(job.benchmark, what)
                runs.append(run_once(job, allocator, idle).as_dict())
            listener.done()
    judge(results, other_output if job.benchmark.group == "given" else wrong_result)
    return results


def count(job: Job, listener: Listener, how: Callable[..., Any], what: str) -> dict[str, Any]:
    """Calls a counter with the small arguments, for each allocator."""
    counted = {}
    counters = list(job.plan.allocators)
    bump = job.plan.places.programs / "libbump.so"
    if how is measure.count_instructions and bump.is_file():
        counters.append(Allocator("bump", str(bump), ""))
    for allocator in counters:
        listener.step(job.benchmark, f"{what}, {allocator.name}")
        counted[allocator.name] = how(
            job.command(quick=True),
            job.allocator(allocator),
            environment={**STEADY, **job.benchmark.environment},
            folder=job.work,
        )
        listener.done()
    return counted


def measure_benchmark(job: Job, listener: Listener) -> dict[str, Any]:
    """Everything about one benchmark."""
    plan, benchmark = job.plan, job.benchmark
    entry: dict[str, Any] = {
        "name": benchmark.name,
        "group": benchmark.group,
        "what": benchmark.what,
        "command": list(benchmark.command_for(plan.quick)),
        "repeats": benchmark.repeats,
        "warm_mib": warm_mib(plan, benchmark),
        "rest_s": 0 if plan.quick else benchmark.rest_s,
        "skipped": missing_program(benchmark),
        "results": {},
    }
    if entry["skipped"]:
        listener.done(steps_of(plan, benchmark))
        return entry
    if benchmark.prepare is not None:
        benchmark.prepare(job.work, plan.places)
    entry["results"] = measure_rounds(job, listener)
    if benchmark.client is None and plan.strace:
        entry["calls"] = count(job, listener, measure.count_calls, "system calls")
    if benchmark.client is None and plan.callgrind:
        entry["instructions"] = count(job, listener, measure.count_instructions, "instructions")
    if plan.strace or plan.callgrind:
        entry["count_command"] = list(benchmark.command_for(quick=True))
    return entry


def steps_of(plan: Plan, benchmark: Benchmark) -> int:
    """How many runs a benchmark has."""
    steps = rounds_of(plan, benchmark) * len(allocators_of(plan, benchmark))
    if benchmark.client is None:
        steps += len(plan.allocators) * plan.strace + (len(plan.allocators) + 1) * plan.callgrind
    return steps


RUN_S = (0.4, 0.8)
"""What a run of a benchmark of ours takes, with the waiting: of all of them on average, on machines
that are fast and on others (docs/results)."""


def forecast(plan: Plan) -> str:
    """What will be run, and how long that takes where it is long and anybody knows."""
    there = [b for b in plan.benchmarks if not missing_program(b)]
    runs = sum(rounds_of(plan, b) * len(allocators_of(plan, b)) for b in there)
    programs, allocators = len(there), len(plan.allocators)
    least, most = (runs * seconds / 60 for seconds in RUN_S)
    if plan.quick or most < 2 or any(b.group == "given" for b in there):
        return ""
    return (
        f"{programs} programs under {allocators} allocators, {plan.rounds} rounds: {runs:,} runs, "
        f"{least:.0f} to {most:.0f} minutes; --quick takes less than 3"
    )


def head_of(plan: Plan) -> Result:
    """The result without its benchmarks."""
    return {
        **machine.head(
            SCHEMA,
            plan.command,
            plan.quick,
            plan.rounds,
            idle_ms=IDLE_MS,
            warm_mib=0 if plan.quick else WARM_MIB,
        ),
        "allocators": {
            a.name: {
                "version": a.version,
                "library": plan.places.shown(a.library),
                "origin": a.origin,
                "environment": dict(a.environment),
            }
            for a in plan.allocators
        },
        "missing_allocators": {m.name: m.reason for m in plan.missing},
        "benchmarks": [],
    }


def run(plan: Plan, listener: Listener) -> Result:
    """Measures everything, or nothing where a program is not built."""
    for benchmark in plan.benchmarks:
        Job(plan, benchmark, Path()).command(plan.quick)
    result = head_of(plan)
    begin = time.monotonic()
    listener.begin(plan, sum(steps_of(plan, b) for b in plan.benchmarks))
    for benchmark in plan.benchmarks:
        with tempfile.TemporaryDirectory(prefix="hakmem-bench-work-") as folder:
            job = Job(plan, benchmark, benchmark.folder or Path(folder))
            result["benchmarks"].append(measure_benchmark(job, listener))
        result["seconds"] = round(time.monotonic() - begin, 1)
        result["complete"] = len(result["benchmarks"]) == len(plan.benchmarks)
        listener.result(result)
    return result


def failures(result: Result) -> list[tuple[str, str, str]]:
    """(benchmark, allocator, problem) of everything that failed."""
    found = []
    for benchmark in result["benchmarks"]:
        for name, entry in benchmark["results"].items():
            if entry["problem"]:
                found.append((benchmark["name"], name, entry["problem"]))
        for what in ("calls", "instructions"):
            for name, counted in benchmark.get(what, {}).items():
                if counted.get("problem"):
                    problem = f"{what} could not be counted: {counted['problem']}"
                    found.append((benchmark["name"], name, problem))
    return found
