# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Benchmarks: the shape of a result file, as docs/bench-format.md describes it.

Who uses it: summary and learning, which read results. What is here is what the other modules rely on;
a result may have more. It never reads a file.
"""

from typing import Any

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
METRIC = {
    "type": "array",
    "minItems": 2,
    "maxItems": 2,
    "prefixItems": [{"type": "number", "minimum": -(2**63), "maximum": 2**63}, TEXT],
}


def record(required: dict[str, Any]) -> dict[str, Any]:
    """An object with these members, and perhaps others."""
    return {"type": "object", "required": list(required), "properties": required}


def table(of: dict[str, Any]) -> dict[str, Any]:
    """An object whose members are all of one kind."""
    return {"type": "object", "additionalProperties": of}


MACHINE = (
    *("cpu", "cores", "memory", "kernel", "distribution", "transparent_huge_pages"),
    *("overcommit_memory", "compiler", "load_at_start"),
)
RUN = record(
    {
        **dict.fromkeys(("wall_ns", "user_us", "sys_us", "maxrss_kb", "minflt", "majflt"), COUNT),
        "elapsed_ns": COUNT,
        "checksum": TEXT,
        "problem": TEXT,
        "metrics": table(METRIC),
    }
)
BENCHMARK = record(
    {
        **dict.fromkeys(("name", "group", "what", "skipped"), TEXT),
        "command": {"type": "array", "items": TEXT},
        "repeats": {**COUNT, "minimum": 1},
        "results": table(record({"problem": TEXT, "runs": {"type": "array", "items": RUN}})),
    }
)
RESULT = record(
    {
        **dict.fromkeys(("tool", "date", "command", "set"), TEXT),
        "rounds": COUNT,
        "idle_ms": COUNT,
        "complete": {"type": "boolean"},
        "seconds": {"type": "number", "minimum": 0, "maximum": 2**63},
        "machine": record(dict.fromkeys(MACHINE, TEXT)),
        "allocators": table(
            record(
                {
                    **dict.fromkeys(("version", "library", "origin"), TEXT),
                    "environment": table(TEXT),
                }
            )
        ),
        "missing_allocators": table(TEXT),
        "benchmarks": {"type": "array", "items": BENCHMARK},
    }
)


LEARNING = record(
    {
        **dict.fromkeys(("date", "command", "set"), TEXT),
        "rounds": COUNT,
        "machine": record(dict.fromkeys(MACHINE, TEXT)),
        "workloads": {"type": "array", "items": record(dict.fromkeys(("name", "skipped"), TEXT))},
    }
)
LEARNED = record(
    {
        **dict.fromkeys(("name", "what", "problem"), TEXT),
        "command": {"type": "array", "items": TEXT},
        "learning": record({"learns": COUNT, "tries": COUNT, "policy": TEXT}),
        "ways": table({"type": "array", "items": RUN}),
        **dict.fromkeys(("figures", "ratios"), table(table({"type": "number"}))),
    }
)
"""A workload that was not skipped."""


def problem_of(result: object, shape: dict[str, Any] = RESULT) -> str:
    """What is wrong with a result and where; empty if nothing is."""
    import jsonschema  # it takes a while to load

    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(shape).iter_errors(result)
    )
    if error is None:
        return ""
    where = "/".join(str(step) for step in error.absolute_path)
    return f"{where or 'the whole'}: {error.message[:200]}"
