# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the tests share: results that are made up, and the programs of the build."""

import os
from pathlib import Path
from typing import Any

import pytest
from hakmem_tools.bench import places, runner
from hakmem_tools.bench.places import Places


def make_run(
    ms: float, checksum: str = "aa", problem: str = "", **metrics: float
) -> dict[str, Any]:
    """One round: so many milliseconds, 2 MB, 100 page faults."""
    return {
        "wall_ns": int(ms * 2e6),
        "user_us": 1000,
        "sys_us": 500,
        "maxrss_kb": 2000,
        "minflt": 100,
        "majflt": 0,
        "elapsed_ns": int(ms * 1e6),
        "checksum": checksum,
        "metrics": {name: [value, "kB"] for name, value in metrics.items()},
        "problem": problem,
    }


def make_entry(*runs: dict[str, Any]) -> dict[str, Any]:
    """One allocator in one benchmark, not judged yet."""
    return {"problem": "", "runs": list(runs)}


def make_benchmark(
    name: str = "b", group: str = "small", **entries: dict[str, Any]
) -> dict[str, Any]:
    """One benchmark, judged."""
    runner.judge(entries)
    return {
        "name": name,
        "group": group,
        "what": "what it does",
        "command": [name, "1"],
        "repeats": 1,
        "skipped": "",
        "results": entries,
    }


def make_result(*benchmarks: dict[str, Any], **versions: str) -> runner.Result:
    """A result with these benchmarks."""
    names = dict.fromkeys(name for b in benchmarks for name in b["results"])
    return {
        "schema": runner.SCHEMA,
        "tool": "hakmem bench 0",
        "date": "2026-01-01T00:00:00+00:00",
        "command": "hakmem bench --rounds 2",
        "set": "full",
        "rounds": 2,
        "idle_ms": 2000,
        "complete": True,
        "seconds": 12.0,
        "machine": {
            "cpu": "a <fast> one",
            "cores": "2",
            "memory": "4 GiB",
            "kernel": "Linux 6",
            "distribution": "Debian",
            "transparent_huge_pages": "madvise",
            "overcommit_memory": "0",
            "compiler": "cc 12",
            "load_at_start": "0.00",
        },
        "allocators": {
            n: {"version": versions.get(n, "1"), "library": "", "origin": "here", "environment": {}}
            for n in names
        },
        "missing_allocators": {"gone": "not built: no compiler"},
        "benchmarks": list(benchmarks),
    }


@pytest.fixture
def built() -> Places:
    """The places of the build that CTest tests, or build/release."""
    root = places.source_tree()
    assert root is not None
    build = Path(os.environ.get("HAKMEM_BENCH_BUILD", str(root / "build" / "release")))
    where = places.in_source(root, build)
    assert (where.programs / "launch").is_file(), "build the target hakmem_bench first"
    return where
