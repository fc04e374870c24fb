# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: what learning is worth: fixed defaults, learning live, learned and frozen.

Each workload is first run to learn, which makes a policy file; then it is measured in three ways,
interleaved: without a policy (`fixed`), learning from nothing (`live`), and with the file
(`frozen`). Time is processor time, as the workloads pause; the mean of resident memory is over all
of the run. Who uses it: cli. It never prints.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem_tools.bench import allocators as alloc
from hakmem_tools.bench import learning_cost, machine, measure, real, schema
from hakmem_tools.bench.allocators import Allocator, Missing
from hakmem_tools.bench.measure import Run
from hakmem_tools.bench.places import BenchError, Places
from hakmem_tools.bench.runner import STEADY, Job, Plan, missing_program, output_checksum
from hakmem_tools.bench.suite import Benchmark, ours

SCHEMA = 1
WAYS = ("fixed", "live", "frozen")
LOOK_MS = 5
LIVE_TIME, LIVE_MEMORY = 1.01, 1.02
"""What learning may cost."""
BETTER = 0.90
"""What a frozen policy is to reach in time or in mean memory, in half of the workloads."""
WORSE = 1.05
"""With more than this in the other it is said to be paid for."""
END_RATIO = 1.3
"""What `survivors` may hold at its end, relative to what lives."""
REAL = ("python3-objects", "perl", "lua")

Result = dict[str, Any]
Say = Callable[[str], None]

OURS = (
    ours(
        "survivors",
        "memory",
        "survivors 4000000 10 9000",
        "1000000 10 1500",
        "one in a hundred of 64-byte objects lives on, 10 phases of 256 MB, then 9 s of service",
    ),
    ours(
        "cache_server",
        "memory",
        "cache_server 200000 160000",
        "40000 9000",
        "a server fills a cache of 38 MB out of ten times as many parsed tokens, then serves",
    ),
    ours(
        "compiler_like",
        "memory",
        "compiler_like 60 5000",
        "6 300",
        "trees die with the function, code with the module, symbols with the program",
    ),
    ours(
        "idle_threads",
        "threads",
        "idle_threads 8 12 80",
        "4 9 20",
        "threads that work in bursts, keep a few sessions and rest",
    ),
    ours(
        "skewed_sites",
        "memory",
        "skewed_sites 300000 10",
        "100000 3",
        "sixteen call sites, each half as frequent as the one before; the rare ones' blocks live on",
    ),
    ours(
        "grow_shrink",
        "large",
        "grow_shrink 64 12 300",
        "64 12 150",
        "buffers that grow to 64 MiB and shrink, tables and messages, every 0.3 s",
    ),
    ours(
        "batch_jobs",
        "memory",
        "batch_jobs 64 16 300",
        "64 12 150",
        "jobs of 64 MiB in blocks of 512 bytes to 16 KiB, 0.3 s apart",
    ),
)


def workloads() -> tuple[Benchmark, ...]:
    """Ours, and three real programs."""
    return OURS + tuple(b for b in real.REAL if b.name in REAL)


@dataclass(frozen=True)
class LearningPlan:
    """What to measure."""

    workloads: Sequence[Benchmark]
    places: Places
    rounds: int
    quick: bool
    learns: int
    """Runs that only watch."""
    tries: int
    """Runs in each of which one knob is tried."""
    command: str
    seconds: float = 300
    pairs: int = 0
    """Short runs, fixed and live in turns, for intervals; with them instructions and system calls
    are counted, too."""


def select(only: Sequence[str]) -> list[Benchmark]:
    """The workloads whose names contain one of the words; all without words."""
    chosen = [w for w in workloads() if not only or any(word in w.name for word in only)]
    if not chosen:
        names = ", ".join(w.name for w in workloads())
        raise BenchError(f"no workload matches; there are {names}")
    return chosen


def job_of(plan: LearningPlan, workload: Benchmark, library: Allocator, work: Path) -> Job:
    """The runner's job for a workload."""
    inner = Plan([workload], [library], [], plan.places, 1, plan.quick, plan.command)
    return Job(inner, workload, work)


def run_once(plan: LearningPlan, job: Job, library: Allocator, policy: str, quick: bool) -> Run:
    """One run with a policy, or without one."""
    environment = {**STEADY, **job.benchmark.environment}
    if policy:
        environment["HAKMEM_POLICY"] = policy
    outcome = measure.measure(
        job.command(quick),
        library,
        plan.places.programs / "launch",
        seconds=plan.seconds,
        environment=environment,
        folder=job.work,
        look_ms=LOOK_MS,
    )
    if not outcome.run.checksum:
        outcome.run.checksum = output_checksum(outcome, job)
    return outcome.run


def learn(
    plan: LearningPlan, job: Job, library: Allocator, file: Path, say: Say
) -> tuple[int, list[str]]:
    """Runs that make the policy file; how many of them tried something, and what went wrong."""
    problems = []
    tried = 0
    for number in range(plan.learns + plan.tries):
        how = "learn" if number < plan.learns else "try"
        say(f"{job.benchmark.name}: {how} {number + 1} of {plan.learns + plan.tries}")
        run = run_once(plan, job, library, f"{how}:{file}", plan.quick or how == "try")
        tried += how == "try"
        if run.problem:
            problems.append(f"{how}: {run.problem}")
        if tried == 2 and teaches_nothing(file):
            break
    return tried, problems


def teaches_nothing(file: Path) -> bool:
    """Whether no run that tried was long enough to be a measure (three ticks)."""
    return not file.is_file() or "\nbase 0 " in file.read_text(encoding="utf-8")


def seconds_of(run: dict[str, Any]) -> float:
    """Processor time."""
    return float(run["user_us"] + run["sys_us"]) / 1e6


def figures_of(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over the rounds."""
    good = [run for run in runs if not run["problem"]]
    if not good:
        return {}
    found = {
        "cpu_s": statistics.median(seconds_of(run) for run in good),
        "peak_kb": statistics.median(run["maxrss_kb"] for run in good),
        "mean_kb": statistics.median(run["meanrss_kb"] for run in good),
        "faults": statistics.median(run["minflt"] for run in good),
    }
    for name in ("rss_per_live_percent",):
        values = [run["metrics"][name][0] for run in good if name in run["metrics"]]
        if values:
            found[name] = statistics.median(values)
    return found


def ratios_of(figures: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Live and frozen relative to fixed."""
    fixed = figures.get("fixed", {})
    return {
        way: {
            name: round(figures[way][name] / fixed[name], 4)
            for name in ("cpu_s", "peak_kb", "mean_kb")
            if fixed.get(name) and name in figures[way]
        }
        for way in WAYS[1:]
        if figures.get(way)
    }


def problem_of(entry: dict[str, Any]) -> str:
    """Why a workload does not count; empty if it does."""
    runs = [run for way in WAYS for run in entry["ways"][way]]
    found = [run["problem"] for run in runs if run["problem"]] + entry["learning"]["problems"]
    if found:
        return str(found[0])
    checksums = {run["checksum"] for run in runs}
    return "" if len(checksums) == 1 else f"different results: {', '.join(sorted(checksums))}"


def measure_workload(plan: LearningPlan, workload: Benchmark, say: Say) -> dict[str, Any]:
    """Everything about one workload."""
    library = alloc.find("hakmem", plan.places)
    if isinstance(library, Missing):
        raise BenchError(library.reason)
    entry: dict[str, Any] = {
        "name": workload.name,
        "what": workload.what,
        "command": list(workload.command_for(plan.quick)),
        "skipped": missing_program(workload),
        "learning": {
            "learns": plan.learns,
            "tries": plan.tries,
            "policy": "",
            "problems": [],
        },
        "ways": {way: [] for way in WAYS},
    }
    if entry["skipped"]:
        return entry
    with tempfile.TemporaryDirectory(prefix="hakmem-bench-learn-") as name:
        work = Path(name)
        job = job_of(plan, workload, library, work)
        if workload.prepare is not None:
            workload.prepare(work, plan.places)
        learned, fresh = work / "learned.policy", work / "fresh.policy"
        tried, problems = learn(plan, job, library, learned, say)
        entry["learning"] |= {"tries": tried, "problems": problems}
        if learned.is_file():
            entry["learning"]["policy"] = learned.read_text(encoding="utf-8")
        policies = {"fixed": "", "live": f"learn:{fresh}", "frozen": str(learned)}
        for number in range(plan.rounds):
            for way in turns(number):
                say(f"{workload.name}: {way}, round {number + 1} of {plan.rounds}")
                fresh.unlink(missing_ok=True)
                run = run_once(plan, job, library, policies[way], plan.quick)
                entry["ways"][way].append(run.as_dict())
        if plan.pairs:
            entry["cost"] = cost(plan, job, library, say)
    entry["figures"] = {way: figures_of(entry["ways"][way]) for way in WAYS}
    entry["ratios"] = ratios_of(entry["figures"])
    entry["problem"] = problem_of(entry)
    return entry


def turns(number: int) -> tuple[str, ...]:
    """The ways in the order of a round: each comes first, and after each other one. Memory that one
    has given back to the machine is slow to come by for the next."""
    first = number % len(WAYS)
    return WAYS[first:] + WAYS[:first]


def cost(plan: LearningPlan, job: Job, library: Allocator, say: Say) -> dict[str, Any]:
    """What learning live costs: counts, and short runs in pairs."""

    def policy_of(side: str, what: str) -> str:
        return f"learn:{job.work / f'{what}-{side}.policy'}" if side == "live" else ""

    def count(side: str, quick: bool, tool: Callable[..., measure.Count], what: str) -> Any:
        say(f"{job.benchmark.name}: {side}, {what}")
        policy = policy_of(side, what)
        (job.work / f"{what}-{side}.policy").unlink(missing_ok=True)
        return tool(
            job.command(quick),
            library,
            environment={
                **STEADY,
                **job.benchmark.environment,
                **({"HAKMEM_POLICY": policy} if policy else {}),
            },
            folder=job.work,
        )

    def run(side: str, pair: int) -> dict[str, Any]:
        if side == "fixed":
            say(f"{job.benchmark.name}: pair {pair + 1} of {plan.pairs}")
        (job.work / "pair-live.policy").unlink(missing_ok=True)
        return run_once(plan, job, library, policy_of(side, "pair"), quick=True).as_dict()

    found: dict[str, Any] = {
        "instructions": learning_cost.instructions(
            lambda side, quick: count(side, quick, measure.count_instructions, "instructions"),
            plan.quick,
        ),
        "calls": learning_cost.both(
            lambda side, quick: count(side, quick, measure.count_calls, "calls"), quick=True
        ),
        "pairs": learning_cost.pairs(run, plan.pairs),
    }
    found["figures"] = learning_cost.figures(found)
    return found


# ---- what it comes to ----


def read_result(path: Path) -> Result:
    """A result of `learn` from a file or from the folder of a run."""
    path = path / "result.json" if path.is_dir() else path
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BenchError(f"cannot read the result {path}: {error}") from error
    known = isinstance(result, dict) and result.get("schema") == SCHEMA and "workloads" in result
    if not known:
        raise BenchError(f"{path} is no result of `hakmem bench learn`")
    problem = schema.problem_of(result, schema.LEARNING)
    for workload in () if problem else result["workloads"]:
        if not workload["skipped"]:
            problem = problem or schema.problem_of(workload, schema.LEARNED)
    if problem:
        raise BenchError(f"{path} is damaged: {problem}")
    return result


SAME = ("cpu", "cores", "memory", "kernel", "transparent_huge_pages")
"""Of the machine: without these figures do not belong on one page."""


def read_results(paths: Sequence[Path]) -> list[Result]:
    """Results that can be joined, as what is said of the first holds for all of them."""
    results = [read_result(path) for path in paths]
    first = results[0]
    for path, result in zip(paths, results, strict=True):
        pairs = [(key, first["machine"][key], result["machine"][key]) for key in SAME]
        pairs += [(key, first[key], result[key]) for key in ("set", "rounds")]
        for key, its, other in pairs:
            if its != other:
                raise BenchError(
                    f"{path} cannot be joined with {paths[0]}: {key} is {other}, not {its}"
                )
    return results


def joined(results: Sequence[Result]) -> Result:
    """One result of several: of a workload that is in more than one, the last."""
    workloads = {w["name"]: w for result in results for w in result["workloads"]}
    total = {**results[0], "workloads": list(workloads.values())}
    total["command"] = "`, `".join(result["command"] for result in results)
    total["date"] = max(result["date"] for result in results)
    total["verdict"] = verdict(total)
    return total


def counted(result: Result) -> list[dict[str, Any]]:
    """The workloads that count."""
    return [w for w in result["workloads"] if not w["skipped"] and not w["problem"]]


def is_better(workload: dict[str, Any]) -> bool:
    """Frozen is at least 10% better in time or in mean memory, in the median and in no round worse:
    once by chance is not enough."""
    frozen = workload["ratios"].get("frozen", {})
    return any(
        frozen.get(name, 1.0) <= BETTER and (spread_of(workload, "frozen", value) or (2, 2))[1] < 1
        for name, value in (("cpu_s", seconds_of), ("mean_kb", mean_of))
    )


def is_paid_for(workload: dict[str, Any]) -> bool:
    """It is more than 5% worse in the other."""
    frozen = workload["ratios"].get("frozen", {})
    return bool(max(frozen.get("cpu_s", 1.0), frozen.get("mean_kb", 1.0)) > WORSE)


def mean_of(run: dict[str, Any]) -> float:
    """Resident memory over time."""
    return float(run["meanrss_kb"])


def spread_of(
    workload: dict[str, Any], way: str, value: Callable[[dict[str, Any]], float] = seconds_of
) -> tuple[float, float] | None:
    """The least and the most, of all rounds, of a way's value relative to fixed in that round."""
    pairs = zip(workload["ways"]["fixed"], workload["ways"][way], strict=True)
    found = [
        value(run) / value(fixed)
        for fixed, run in pairs
        if not run["problem"] and not fixed["problem"] and value(fixed) > 0
    ]
    return (min(found), max(found)) if found else None


def cost_verdict(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What learning live costs, of all workloads; nothing when nobody measured it."""
    figures = {w["name"]: w["cost"]["figures"] for w in found if "cost" in w}
    if not figures:
        return {}
    limits = {"time": LIVE_TIME, "mean": LIVE_MEMORY, "peak": LIVE_MEMORY}
    return {
        "workloads": len(figures),
        "instructions_worst": learning_cost.worst(list(figures.values()), "instructions"),
        **{f"{name}_worst": learning_cost.worst(list(figures.values()), name) for name in limits},
        **{f"{k}_above": learning_cost.above(figures, k, limit) for k, limit in limits.items()},
        **{f"{k}_below": learning_cost.below(figures, k, limit) for k, limit in limits.items()},
    }


def verdict(result: Result) -> dict[str, Any]:
    """The promises of docs/learning.md, as measured."""
    found = counted(result)
    live = [w["ratios"].get("live", {}) for w in found]
    survivors = next((w for w in found if w["name"] == "survivors"), None)
    figures = survivors["figures"] if survivors else {}
    return {
        "workloads": len(found),
        "live_time_worst": max((r.get("cpu_s", 1.0) for r in live), default=None),
        "live_peak_worst": max((r.get("peak_kb", 1.0) for r in live), default=None),
        "live_mean_worst": max((r.get("mean_kb", 1.0) for r in live), default=None),
        "cost": cost_verdict(found),
        "frozen_better": [w["name"] for w in found if is_better(w)],
        "frozen_paid_for": [w["name"] for w in found if is_better(w) and is_paid_for(w)],
        "survivors_end_ratio": {
            way: figures[way]["rss_per_live_percent"] / 100
            for way in WAYS
            if "rss_per_live_percent" in figures.get(way, {})
        },
    }


def run(plan: LearningPlan, say: Say, save: Callable[[Result], None]) -> Result:
    """Measures everything."""
    result: Result = {
        **machine.head(
            SCHEMA, plan.command, plan.quick, plan.rounds, learns=plan.learns, tries=plan.tries
        ),
        "workloads": [],
    }
    begin = time.monotonic()
    for workload in plan.workloads:
        result["workloads"].append(measure_workload(plan, workload, say))
        result["seconds"] = round(time.monotonic() - begin, 1)
        result["complete"] = len(result["workloads"]) == len(plan.workloads)
        result["verdict"] = verdict(result)
        save(result)
    return result
