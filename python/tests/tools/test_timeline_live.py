# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem timeline` of processes: the file is good whatever ends the recording, and says what the process says."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hakmem_tools.common import processes
from hakmem_tools.common.processes import Usage
from hakmem_tools.timeline import live
from hakmem_tools.timeline.live import Look
from hakmem_tools.top import frame as frames
from support import ROOT, built, fake_command, later, recorded, with_command
from test_timeline import check, load, timeline, values

PROGRAM = """
import sys
kept = [bytes(i % 3000) for i in range(20000)]
del kept[::2]
large = bytearray(3_000_000)
print("ready", flush=True)
sys.stdin.read()
"""
SAMPLES = {"HAKMEM_PROF": "1", "HAKMEM_PROF_FILE": "/dev/null"}


class Program:
    """A program that runs with hakmem until it is told to end."""

    def __init__(self, **variables: str) -> None:
        library = str(built("libhakmem.so").resolve())
        self.running = subprocess.Popen(
            ["/usr/bin/python3", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": library, "PYTHONMALLOC": "malloc", **variables},
        )
        assert self.running.stdout is not None
        assert self.running.stdout.readline() == "ready\n"

    @property
    def pid(self) -> str:
        return str(self.running.pid)

    def end(self) -> None:
        self.running.kill()
        self.running.communicate()


@pytest.fixture
def program() -> Iterator[Program]:
    """A process to look at."""
    made = Program()
    yield made
    made.end()


def looks(found: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The waterfall of each look, which adds up to what is resident."""
    memory, process = values(found, "memory"), values(found, "process")
    assert len(memory) == len(process)
    for lines, whole in zip(memory, process, strict=True):
        assert sum(lines.values()) == whole["resident"]
    return memory


def tool(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The tool at work."""
    return subprocess.Popen(
        [sys.executable, "-B", "-m", "hakmem_tools.timeline", *words, "-o", "o.json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=with_command(built("hakmem")),
    )


def wait_for_looks(path: Path, count: int) -> None:
    """Until a file has so many looks; a test that waits in vain fails."""
    end = time.monotonic() + 120
    while not path.exists() or path.read_text().count('"name":"memory"') < count:
        assert time.monotonic() < end, "no looks"
        time.sleep(0.02)


def test_the_figures_are_those_of_stat(program: Program, tmp_path: Path) -> None:
    """The process sleeps: each look says what `hakmem stat` says."""
    done = timeline(
        tmp_path, program.pid, "--interval", "0.05", "--for", "0.3", command=built("hakmem")
    )
    assert (done.returncode, done.stderr) == (0, "")
    name = f"hakmem-timeline.{program.pid}.json"
    assert done.stdout.startswith(f"{name}: ")
    assert done.stdout.endswith(f"at process {program.pid}; the time was over\n")
    found = load(tmp_path / name)
    stat = json.loads(
        subprocess.run(
            [built("hakmem"), "stat", "--json", program.pid], capture_output=True, check=True
        ).stdout
    )
    memory = looks(found)
    assert list(memory[0]) == [line["name"] for line in stat["waterfall"]]
    assert memory[-1]["live"] > 10_000_000
    assert sum(values(found, "blocks")[-1].values()) == stat["counters"]["live.blocks"]
    assert values(found, "blocks")[-1]["huge"] == stat["huge"]["blocks"] == 1
    superslabs = values(found, "superslabs")[-1]
    counters = stat["counters"]
    assert sum(superslabs.values()) == (
        counters["pool.mapped_superslabs"] - counters["pool.unmapped_superslabs"]
    )
    assert values(found, "heaps")[-1]["with_a_thread"] == 1
    assert {event["pid"] for event in found} == {int(program.pid)}
    assert found[0]["args"]["name"] == "python3"
    assert found[-1]["args"] == {"because": "the time was over"}
    assert not values(found, "allocations a second, estimated")
    assert timeline(tmp_path, program.pid, command=built("hakmem")).returncode == 2, "not named"


def test_one_look_is_enough(program: Program, tmp_path: Path) -> None:
    done = timeline(tmp_path, program.pid, "--for", "0", "-o", "o.json", command=built("hakmem"))
    assert done.stdout == f"o.json: 1 look at process {program.pid}; the time was over\n"
    found = load(tmp_path / "o.json")
    assert len(looks(found)) == 1
    assert not values(found, "refills a second")


def test_it_ends_with_the_process(tmp_path: Path) -> None:
    """A process that takes samples, so that allocations are estimated."""
    program = Program(**SAMPLES)
    try:
        with tool(tmp_path, program.pid, "--interval", "0.05") as running:
            wait_for_looks(tmp_path / "o.json", 3)
            program.end()
            output, errors = running.communicate(timeout=120)
    finally:
        program.end()
    assert (running.returncode, errors) == (0, "")
    assert output.endswith("; the process ended\n")
    found = load(tmp_path / "o.json")
    assert len(looks(found)) >= 3
    assert found[-1]["args"] == {"because": "the process ended"}
    for name in ("page faults a second", "refills a second", "allocations a second, estimated"):
        assert len(values(found, name)) == len(values(found, "memory")) - 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_can_be_stopped(program: Program, tmp_path: Path, number: signal.Signals) -> None:
    with tool(tmp_path, program.pid, "--interval", "0.05") as running:
        wait_for_looks(tmp_path / "o.json", 2)
        running.send_signal(number)
        output, errors = running.communicate(timeout=120)
    assert (running.returncode, errors) == (0, "")
    assert output.endswith("; it was stopped\n")
    found = load(tmp_path / "o.json")
    assert len(looks(found)) >= 2
    assert found[-1]["args"] == {"because": "it was stopped"}


def test_killed_it_has_lost_nothing(program: Program, tmp_path: Path) -> None:
    with tool(tmp_path, program.pid, "--interval", "0.05") as running:
        wait_for_looks(tmp_path / "o.json", 2)
        running.kill()
        running.communicate(timeout=120)
    text = (tmp_path / "o.json").read_text(encoding="ascii")
    assert text.startswith("[\n{") and text.endswith("}")
    found = check(json.loads(text + "]"))
    assert len(looks(found)) >= 2


def test_a_process_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for pid, said in (("999999999", "no process 999999999"), (str(os.getpid()), "not use hakmem")):
        done = timeline(tmp_path, pid, command=built("hakmem"))
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing is written, so nothing is overwritten"


def test_a_process_that_becomes_another_program(tmp_path: Path) -> None:
    """It goes on without hakmem: the file has what was seen."""
    with subprocess.Popen(["/bin/sleep", "600"]) as sleeping:
        try:
            stat = recorded()
            stat["process"]["pid"] = sleeping.pid
            (tmp_path / "stat.json").write_text(json.dumps(stat))
            once = (
                f"mv {tmp_path}/stat.json {tmp_path}/told 2>/dev/null && exec cat {tmp_path}/told"
            )
            script = f"{once}\necho hakmem: stat: process does not use hakmem >&2; exit 1"
            command = fake_command(tmp_path, script)
            words = (str(sleeping.pid), "-o", "o.json", "--interval", "0.01")
            done = timeline(tmp_path, *words, command=command)
        finally:
            sleeping.kill()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hakmem timeline: o.json has 1 look; stat: process does not use hakmem\n"
    found = load(tmp_path / "o.json")
    assert found[-1]["args"]["because"].startswith("it could not be read any more: ")


# --- counters, from looks that were recorded ---


def two_looks(change: Callable[[dict[str, Any]], None] = lambda stat: None) -> Look:
    """A look at a process and one two seconds later."""
    first = recorded()
    second = later(first, 2)
    second["process"]["uptime_ns"] += 2_000_000_000
    change(second)
    before = Usage("S", 100, 0, 7)
    return Look(frames.follow(frames.begin(first), second), Usage("S", 300, 6, 7), before)


def test_rates_lie_between_the_two_looks() -> None:
    def change(stat: dict[str, Any]) -> None:
        stat["threads"][1]["refills"] += 50
        stat["threads"].append({**stat["threads"][1], "heap": 99, "refills": 1_000_000})
        stat["stages"]["fresh"] += 4
        stat["counters"]["bins.drained"] = 10
        stat["locks"]["heaps"]["contended"] += 2

    look = two_looks(change)
    found = live.sample(look)
    rate = {e["name"]: e for e in found if e["name"].endswith("a second")}
    assert rate["refills a second"]["args"] == {"refills": 25}, "a new heap has no before"
    assert rate["slots a second"]["args"]["fresh"] == 2
    assert rate["drained blocks a second"]["args"] == {"drained": 5}
    assert rate["waits for locks a second"]["args"] == {"waits": 1}
    assert rate["page faults a second"]["args"] == {"minor": 100, "major": 3}
    assert {event["ts"] for event in rate.values()} == {look.ts_before}
    assert {e["ts"] for e in found if e["name"] in ("memory", "blocks")} == {look.ts}
    assert look.ts == look.ts_before + 2_000_000


def test_counts_that_begin_anew_are_no_negative_rates() -> None:
    def change(stat: dict[str, Any]) -> None:
        stat["stages"] = dict.fromkeys(stat["stages"], 0)

    rates = [e for e in live.sample(two_looks(change)) if e["name"] == "slots a second"]
    assert set(rates[0]["args"].values()) == {0}


def test_failures_are_instants_with_their_reason() -> None:
    def change(stat: dict[str, Any]) -> None:
        stat["failures"]["map"] += 2
        stat["failures"]["last"] = [
            {"text": f"no {i}", "size_bytes": i, "reason": "map", "age_ns": (3 - i) * 10**9}
            for i in range(3)
        ]

    look = two_looks(change)
    failed = [event for event in live.sample(look) if event["name"] == "allocation failed"]
    assert [event["args"]["text"] for event in failed] == ["no 1", "no 2"]
    assert [event["ts"] for event in failed] == [look.ts - 2_000_000, look.ts - 1_000_000]
    assert values(live.sample(look), "failed allocations")[0]["map"] == 2


def test_what_the_kernel_counts(tmp_path: Path) -> None:
    usage = processes.usage(os.getpid())
    assert usage is not None and usage.runs
    assert usage.minor_faults > 0
    assert processes.usage(999999999) is None
    (tmp_path / "7").mkdir()
    line = f"7 (a) b) Z 1 {' '.join(str(i) for i in range(5, 53))}"
    (tmp_path / "7" / "stat").write_text(line)
    assert processes.usage(7, tmp_path) == Usage("Z", 10, 12, 22)
    assert not Usage("Z", 0, 0, 0).runs


def test_a_number_that_another_process_has_now_is_no_longer_the_same() -> None:
    recorder = live.Recorder.__new__(live.Recorder)
    recorder.pid = os.getpid()
    recorder.look = Look(frames.begin(recorded()), processes.usage(os.getpid()), None)
    assert not recorder.has_ended()
    recorder.look = Look(recorder.look.frame, Usage("S", 0, 0, 1), None)
    assert recorder.has_ended()


def test_the_recorded_look_is_of_the_present_format() -> None:
    assert (ROOT / "docs" / "timeline.md").is_file()
    found = check([*live.first_events(two_looks(), 1), *live.sample(two_looks())])
    documented = (ROOT / "docs" / "timeline.md").read_text(encoding="utf-8")
    for event in found:
        if event["ph"] == "C":
            assert f"`{event['name']}`" in documented, event["name"]
