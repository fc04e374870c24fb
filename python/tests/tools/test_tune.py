# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem tune`: every arm and the defaults are replayed in turns, and the evidence says what they cost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hakmem_tools.common.errors import ToolError
from hakmem_tools.policy import model
from hakmem_tools.policy.model import PPM, Arm, Policy
from hakmem_tools.tune import search
from hakmem_tools.tune.search import Cost
from support import built, fake_command, with_command

# Answers as `hakmem replay` does; with the arm in CHEAP as its policy it takes a tenth less of the program's second.
REPLAY = """
echo "$HAKMEM_POLICY|$*" >>"$LOG"
[ -z "$REMOVED" ] || rm -rf "$REMOVED"
processor=500000000
if [ "$HAKMEM_POLICY" != off ] && grep -q "^arm $CHEAP " "$HAKMEM_POLICY"; then processor=400000000; fi
cat <<END
{"schema_version": ${VERSION:-1}, "trace": {"recorded_us": 1000000},
 "runs": [{"elapsed_ns": 600000000, "processor_ns": $processor, "end_bytes": 5,
           "sample_bytes": [0, 2097152, 4194304]}]}
END
"""


def tune(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs the tool with the command that is made up."""
    environment = with_command(
        fake_command(tmp_path, REPLAY),
        LOG=str(tmp_path / "log"),
        COLUMNS="100",
        **{"CHEAP": "none", **more},
    )
    arguments = [sys.executable, "-m", "hakmem_tools.tune", *words]
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )


@pytest.mark.parametrize("arm", search.ARMS)
def test_a_forced_arm_is_the_one_that_is_chosen(arm: tuple[str, str]) -> None:
    policy = model.parse(model.write(search.forced(arm)), "p")
    assert policy.best() == arm


def test_time_counts_against_the_program_and_memory_against_the_defaults() -> None:
    base = Cost(600_000, 500_000, 1000, 2_000_000)
    arm = Arm()
    search.add_run(arm, Cost(600_000, 300_000, 1100, 2_000_000), base)
    assert arm.numbers() == [1, 550_000, 5500**2, 900_000, 1_100_000, 0]
    search.add_run(arm, Cost(1, 9_500_000, 90_000, 2_000_000), base)
    assert (arm.plays, arm.reward) == (2, 550_000), "a reward is never negative"


def test_all_arms_are_tried_in_turns_and_the_better_one_is_used(tmp_path: Path) -> None:
    done = tune(tmp_path, "a.trace", "-o", "a.policy", "--rounds", "4", CHEAP="keep all")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("keep all is better by more than chance: HAKMEM_POLICY=a.policy\n")
    asked = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(asked) == 4 * (len(search.ARMS) + 1)
    assert len(set(asked[: len(search.ARMS) + 1])) == len(search.ARMS) + 1
    assert asked[0] == "off|replay --json --rounds=1 --only=hakmem --touch=pages a.trace"
    policy = model.read(tmp_path / "a.policy")
    assert policy.base == [4, 4 * 600_000, 4 * 500_000, 4 * 3072]
    assert policy.arms["keep", "all"].numbers() == [
        4,
        4 * 600_000,
        4 * 6000**2,
        4 * 900_000,
        4 * PPM,
        0,
    ]
    assert policy.best() == ("keep", "all")


def test_without_a_better_one_the_defaults_stay_and_a_file_is_added_to(tmp_path: Path) -> None:
    old = Policy(runs=[3, 50], arms={("grow", "double"): Arm(hints=2)})
    (tmp_path / "a.policy").write_text(model.write(old), encoding="ascii")
    done = tune(tmp_path, "a.trace", "-o", "a.policy", "--rounds", "3", "--touch", "all")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No setting is better than the defaults by more than chance." in done.stdout
    assert "--touch=all" in (tmp_path / "log").read_text(encoding="utf-8")
    policy = model.read(tmp_path / "a.policy")
    assert (policy.runs, policy.base[0], policy.best()) == ([3, 50], 3, ("", ""))
    assert policy.arms["grow", "double"].numbers()[::5] == [3, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "missing argument"),
        (["a.trace"], "missing option '-o'"),
        (["a.trace", "-o", "x", "--rounds", "2"], "greater than or equal to 3"),
        (["a.trace", "-o", "x", "--touch", "some"], "is not one of"),
        (["a.trace", "-o", "/nowhere/x"], "cannot write /nowhere/x"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    done = tune(tmp_path, *words)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("hakmem tune: ")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr.lower()
    assert not (tmp_path / "log").exists(), "it is told before anything is tried"


def test_what_was_found_is_shown_though_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = tune(tmp_path, "a.trace", "-o", "gone/a.policy", REMOVED="gone")
    assert done.returncode == 2
    assert done.stderr == ("hakmem tune: cannot write gone/a.policy: No such file or directory\n")
    assert "0 runs watched, 7 plays of the defaults as the measure" in done.stdout


def test_another_version_of_the_command_is_refused(tmp_path: Path) -> None:
    done = tune(tmp_path, "a.trace", "-o", "x", VERSION="2")
    assert (done.returncode, (tmp_path / "x").exists()) == (2, False)
    assert "another version" in done.stderr
    with pytest.raises(ToolError):
        search.parse("{}")


def test_a_real_trace(tmp_path: Path) -> None:
    """With the real command: memory that a policy has touched before shows in the evidence."""
    hakmem, trace = built("hakmem"), tmp_path / "a.trace"
    program = built("bench/lifetimes")
    recorded = [str(hakmem), "record", "-o", str(trace), "--", str(program), "random", "20000", "2"]
    subprocess.run(recorded, check=True, capture_output=True)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hakmem_tools.tune",
            str(trace),
            "-o",
            str(tmp_path / "p"),
            "--rounds=3",
        ],
        capture_output=True,
        text=True,
        check=False,
        env=with_command(hakmem),
    )
    assert (done.returncode, done.stderr) == (0, "")
    policy = model.read(tmp_path / "p")
    assert policy.base[0] == 3
    assert policy.arms["prewarm", "64m"].memory > 2 * 3 * PPM
    told = json.loads(
        subprocess.run(
            [str(hakmem), "replay", "--json", "--rounds=1", "--only=hakmem", str(trace)],
            capture_output=True,
            check=True,
        ).stdout
    )
    assert told["trace"]["most_live_blocks"] >= 20000
