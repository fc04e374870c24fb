# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What each arm of each knob costs on a trace, as evidence for a policy file.

The rule is that of src/policy/evidence.c: the cost of a run is T + M / 2, T its processor time and
M its resident bytes over time, both against the defaults. A replay has the allocator's part of the
processor time alone, so T is what that part changes of the time that the program took when it
was recorded.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hakmem_tools.common import command
from hakmem_tools.common.errors import USAGE, ToolError
from hakmem_tools.policy import model
from hakmem_tools.policy.model import KNOBS, PPM, Arm, Policy

SCHEMA_VERSION = 1
REPLAY_SECONDS = 600.0
"""For one repetition of a trace."""

ARMS = [(knob, name) for knob, names in KNOBS.items() for name in names[1:]]
"""All but the defaults."""


@dataclass(frozen=True)
class Cost:
    """What one repetition took."""

    elapsed_us: int
    processor_us: int
    mean_bytes: int
    recorded_us: int


def forced(arm: tuple[str, str]) -> Policy:
    """A policy with which a run uses this arm: just so much evidence that it is chosen."""
    plays = model.CHOOSE_PLAYS
    square = (PPM // 100) ** 2
    return Policy(
        base=[plays, plays, plays, plays],
        arms={arm: Arm(plays, plays * PPM, plays * square, plays * PPM, plays * PPM)},
    )


def parse(text: str) -> Cost:
    """The one run that `hakmem replay --json --rounds 1 --only hakmem` has repeated."""
    told: dict[str, Any] = json.loads(text)
    if told.get("schema_version") != SCHEMA_VERSION:
        raise ToolError("hakmem replay is of another version than this tool", USAGE)
    (run,) = told["runs"]
    samples = [value for value in run["sample_bytes"] if value > 0] or [run["end_bytes"]]
    return Cost(
        elapsed_us=run["elapsed_ns"] // 1000,
        processor_us=run["processor_ns"] // 1000,
        mean_bytes=sum(samples) // len(samples),
        recorded_us=told["trace"]["recorded_us"],
    )


def repeat(trace: Path, policy: str, touch: str) -> Cost:
    """Repeats a trace under hakmem with a policy file; "off": with the defaults."""
    words = ["replay", "--json", "--rounds=1", "--only=hakmem", f"--touch={touch}", str(trace)]
    variables = {"HAKMEM_POLICY": policy}
    return parse(command.run(*words, more_seconds=REPLAY_SECONDS, variables=variables))


def add_run(arm: Arm, cost: Cost, base: Cost) -> None:
    """Adds a run of an arm, against one with the defaults of the same round."""
    whole_us = max(base.recorded_us, base.processor_us, 1)
    time = PPM + (cost.processor_us - base.processor_us) * PPM // whole_us
    memory = cost.mean_bytes * PPM // max(base.mean_bytes, 1)
    reward = min(max(2 * PPM - time - memory // 2, 0), PPM)
    arm.plays += 1
    arm.reward += reward
    arm.squares += (reward // 100) ** 2
    arm.time += max(time, 0)
    arm.memory += memory


def search(trace: Path, rounds: int, touch: str, step: Callable[[], None]) -> Policy:
    """Each arm and the defaults, in turns, so many times; `step` is called after each."""
    found = Policy(arms={arm: Arm() for arm in ARMS})
    with TemporaryDirectory(prefix="hakmem-tune-") as folder:
        files = {arm: Path(folder) / f"{arm[0]}-{arm[1]}.policy" for arm in ARMS}
        for arm, file in files.items():
            file.write_text(model.write(forced(arm)), encoding="ascii")
        for _ in range(rounds):
            base = repeat(trace, "off", touch)
            step()
            sums = (1, base.elapsed_us, base.processor_us, base.mean_bytes >> 10)
            found.base = [a + b for a, b in zip(found.base, sums, strict=True)]
            for arm, file in files.items():
                add_run(found.arms[arm], repeat(trace, str(file), touch), base)
                step()
    return found
