# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`hakmem timeline` of traces and replays: the counters say what the source says, whatever is in the file."""

import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hakmem_tools.common.errors import FAILED, USAGE, ToolError
from hakmem_tools.timeline import events, recorded, replayed, trace
from hakmem_tools.timeline.trace import Account, Clock, Span
from made_trace import BASE, Maker, anything
from support import ROOT, built, with_command

Events = list[dict[str, Any]]


def timeline(
    folder: Path, *words: str, command: Path = Path("/bin/false")
) -> subprocess.CompletedProcess[str]:
    """Runs the tool in a folder."""
    return subprocess.run(
        [sys.executable, "-B", "-m", "hakmem_tools.timeline", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=folder,
        env=with_command(command, COLUMNS="80"),
    )


def check(found: Events) -> Events:
    """What each file holds to: every event can be shown, and series stay the same."""
    series: dict[tuple[int, str], set[str]] = {}
    last: dict[tuple[int, str], float] = {}
    for event in found:
        assert {"ts", "ph", "pid", "name"} <= event.keys()
        assert event["ph"] in ("C", "X", "M", "i")
        assert type(event["pid"]) is int and event["pid"] > 0
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], int | float) and event["ts"] >= 0
        if event["ph"] == "C":
            key = event["pid"], event["name"]
            values = event["args"]
            assert values
            assert all(type(v) in (int, float) and v >= 0 for v in values.values()), event
            assert series.setdefault(key, set(values)) == set(values)
            assert last.get(key, 0) <= event["ts"], event
            last[key] = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["tid"] > 0
        if event["ph"] == "i":
            assert event["s"] in ("p", "t") and (event["s"] == "p") == ("tid" not in event)
    assert found[0]["name"] == events.ABOUT
    assert found[0]["args"]["hakmem_timeline"] == events.VERSION
    return found


def load(path: Path) -> Events:
    """A file that was written: an event a line."""
    text = path.read_text(encoding="ascii")
    found: Events = json.loads(text)
    assert len(text.splitlines()) == len(found) + 2
    return check(found)


def values(found: Events, name: str) -> list[dict[str, float]]:
    """Of one counter."""
    return [event["args"] for event in found if event["ph"] == "C" and event["name"] == name]


def made(maker: Maker) -> Events:
    """The events of a trace that was made up."""
    return check(list(recorded.make(trace.parse(bytes(maker.data), "t"), Path("t"))))


def replay_of(path: Path, *words: str) -> dict[str, Any]:
    """What the command says of a trace, whose events it repeats in their order."""
    command = [str(built("hakmem")), "replay", "--json", *words, str(path)]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


# --- traces ---


@pytest.mark.parametrize("seed", range(6))
def test_counts_are_those_of_replay(tmp_path: Path, seed: int) -> None:
    """Every rule about blocks that are not known, come again, move or stay."""
    maker = anything(seed, 3000, threads=1 + seed)
    file = tmp_path / "a.trace"
    file.write_bytes(maker.data)
    told = replay_of(file, "--rounds=1", "--only=libc", "--touch=none")
    found = made(maker)
    about = found[0]["args"]
    for name, value in told["trace"].items():
        if name not in ("path", "command"):
            assert about[name] == value, name
    assert about["command"] == "app --x 'a b'"
    assert about["unknown_frees"] > 0 and about["unseen_frees"] > 0 and about["reallocs"] > 0
    assert values(found, "bytes")[-1] == {"live": told["trace"]["end_live_bytes"]}
    most = max(value["live"] for value in values(found, "bytes"))
    assert most == told["trace"]["most_live_bytes"]


def test_a_real_program(tmp_path: Path) -> None:
    """Three threads, a large block, a block that one thread hands to another."""
    program = """
import threading
large = bytearray(50_000_001)
kept = []
def work():
    kept.append([bytes(i) for i in range(3000)])
for _ in range(3):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
kept.clear()
"""
    file = tmp_path / "a.trace"
    record = [str(built("hakmem")), "record", "-o", str(file), "--", "/usr/bin/python3", "-c"]
    subprocess.run([*record, program], check=True, capture_output=True)
    done = timeline(tmp_path, "a.trace")
    assert (done.returncode, done.stderr) == (0, "")
    found = load(tmp_path / "a.trace.timeline.json")
    told = replay_of(file, "--rounds=1", "--only=libc")["trace"]
    assert done.stdout.startswith(f"a.trace.timeline.json: {told['events']:,} events of 4 threads")
    assert values(found, "bytes")[-1] == {"live": told["end_live_bytes"]}
    assert max(value["live"] for value in values(found, "bytes")) == told["most_live_bytes"]
    assert values(found, "blocks")[-1]["live"] == found[0]["args"]["end_live_blocks"]

    slices = [event for event in found if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [f"thread {i}" for i in range(4)]
    assert sum(event["args"]["allocations"] for event in slices) == told["allocations"]
    assert sum(event["args"]["frees"] for event in slices) == told["frees"]
    assert slices[0]["args"]["frees_of_other_threads_blocks"] > 5000
    names = {e["tid"]: e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert names == {i + 1: f"thread {i}" for i in range(4)}
    assert next(e for e in found if e["name"] == "process_name")["args"]["name"] == "python3"

    large = [event for event in found if event["ph"] == "i"][1:]
    assert len(large) == trace.LARGEST
    (most,) = [event for event in large if event["args"]["bytes"] >= 50_000_001]
    assert most["name"].startswith("47.7 MiB from ")
    assert most["tid"] == 1

    assert found[0]["args"]["times"] == recorded.WITH_TIMES
    assert found[0]["args"]["is_whole"] is True
    end = found[0]["args"]["recorded_us"]
    assert total(found, "allocations a second", end) == pytest.approx(
        told["allocations"] + told["reallocs"], rel=0.01
    )
    assert total(found, "frees a second", end) == pytest.approx(
        told["frees"] + told["unknown_frees"], rel=0.01
    )


def total(found: Events, name: str, end: float) -> float:
    """What the rates of a counter come to over the whole time."""
    points = [event for event in found if event["ph"] == "C" and event["name"] == name]
    assert points[-1]["ts"] == end and sum(points[-1]["args"].values()) == 0
    return sum(
        sum(one["args"].values()) * (two["ts"] - one["ts"]) / 1e6 for one, two in pairwise(points)
    )


def test_a_trace_without_times_counts_events() -> None:
    maker = Maker("app", process=0).malloc(100, BASE).thread(1).malloc(50, BASE + 64).free(BASE)
    found = made(maker)
    assert found[0]["args"]["times"] == recorded.WITHOUT_TIMES
    assert {event["pid"] for event in found} == {1}
    live = [(e["ts"], e["args"]["live"]) for e in found if e["name"] == "bytes"]
    assert live == [(0, 0), (0, 100), (1, 150), (2, 50)]
    assert not [event for event in found if event["name"].endswith("a second")]
    assert [(e["ts"], e["dur"]) for e in found if e["ph"] == "X"] == [(0, 0), (1, 1)]
    assert made(Maker("app").time(5).malloc(1, BASE))[0]["args"]["times"] == recorded.WITHOUT_TIMES


def test_times_lie_between_those_of_the_file() -> None:
    clock = Clock([Span(0, 100), Span(10, 200), Span(20, 200), Span(30, 500)], 40)
    assert [clock.at(i) for i in (0, 5, 10, 15, 20, 25, 30)] == [100, 150, 200, 200, 200, 350, 500]
    assert clock.end == pytest.approx(500 + 10 * 400 / 30, abs=0.001)
    account = Account()
    account.time(7)
    account.time(3)
    assert [span.us for span in account.spans] == [7, 7], "it never goes back"


@pytest.mark.parametrize("events_each", [1, 7, 1000])
def test_points_are_few_and_no_peak_is_lost(events_each: int) -> None:
    """A thousand times as many events make no more points; a peak of one event is still there."""
    maker = Maker("app")
    for number in range(2500):
        maker.time(number * 10)
        for _ in range(events_each // 2):
            maker.malloc(64, BASE + 64).free(BASE + 64)
        maker.malloc(10, BASE + 1024 * (number + 1))
        if number == 1234:
            maker.malloc(1 << 40, BASE).free(BASE)
    maker.time(25_000)
    found = made(maker)
    live = [value["live"] for value in values(found, "bytes")]
    assert 1000 < len(live) <= 2 * trace.WINDOWS + 1
    assert max(live) == (1 << 40) + 10 * 1235
    assert live[-1] == 25_000
    assert len(values(found, "blocks")) <= trace.WINDOWS + 1
    assert values(found, "blocks")[-1] == {"live": 2500}
    assert len(values(found, "frees a second")) <= recorded.RATES + 2
    count = maker.events - sum(value["live"] for value in values(found, "blocks")[-1:])
    assert total(found, "frees a second", 25_000) == pytest.approx(count / 2, rel=0.01)


def test_the_largest_blocks_are_known_with_their_ends() -> None:
    maker = Maker("app").time(0)
    for number in range(50):
        maker.malloc(1000 + number, BASE + 4096 * number)
    maker.free(BASE + 4096 * 49)  # the largest
    maker.realloc(BASE + 4096 * 48, 5000, BASE + 4096 * 48)
    maker.realloc(BASE + 4096 * 47, 1, 0).time(550)  # failed: it stays
    found = made(maker)
    large = {e["args"]["bytes"]: e for e in found if e["ph"] == "i" and e["s"] == "t"}
    assert sorted(large) == [*range(1031, 1050), 5000]
    assert large[5000]["args"]["call"] == "realloc"
    assert [large[size]["args"]["freed_us"] for size in (1049, 1048, 1047, 5000)] == [
        500,
        520,
        None,
        None,
    ]


def test_a_trace_that_is_cut_is_good_up_to_the_cut() -> None:
    """At each byte: events up to there, and it is known when one is cut."""
    maker = anything(7, 300)
    whole = trace.parse(bytes(maker.data), "t")
    assert not whole.is_cut
    before, cuts = 0, 0
    for size in range(trace.HEADER_BYTES + 1, len(maker.data)):
        try:
            found = trace.parse(bytes(maker.data[:size]), "t")
        except ToolError as error:
            assert "no event" in str(error)
            continue
        assert before <= found.account.events <= before + 1
        before, cuts = found.account.events, cuts + found.is_cut
        if size % 97 == 0:
            check(list(recorded.make(found, Path("t"))))
    assert cuts > maker.events / 2
    zeros = bytes(maker.data[:-1]) + bytes(5000)  # as a recorder that was killed leaves it
    assert not trace.parse(zeros, "t").is_cut


def test_a_damaged_trace_is_refused_or_makes_sense() -> None:
    """Each byte replaced by others: no traceback, whatever it is."""
    maker = anything(8, 100)
    refused = 0
    for at in range(trace.HEADER_BYTES, len(maker.data)):
        for value in (0x07, 0x3F, 0x87, 0xFF, maker.data[at] ^ 0x10):
            data = bytearray(maker.data)
            data[at] = value
            try:
                check(list(recorded.make(trace.parse(bytes(data), "t"), Path("t"))))
            except ToolError as error:
                refused += 1
                assert str(error).startswith("t is damaged: ") or "no event" in str(error)
    assert refused > 50


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        (Maker("x").thread(1).malloc(1, BASE), "do not begin in the order of their numbers"),
        (Maker("x").thread(1 << 20), "too many threads"),
        (Maker("x").time(1 << 60), "too late a time"),
        (Maker("x").control(5, 1), "not known"),
        (Maker("x").malloc(1, BASE).plain(trace.REALLOC_BEGIN, BASE).realloc(8, 1, 8), "within"),
        (Maker("x").sized(trace.REALLOC_END, 1, 8), "without its beginning"),
        (Maker("x").malloc(1 << 47, BASE), "larger than an address space"),
        (Maker("x").aligned(1, 47, BASE), "alignment larger"),
        (Maker("x").malloc(1, 0), "address 0"),
        (Maker("x").plain(trace.FREE | 8, BASE), "not known"),
    ],
)
def test_what_is_wrong_is_said(maker: Maker, said: str) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        trace.parse(bytes(maker.data), "a.trace")
    assert caught.value.status == FAILED
    assert str(caught.value).startswith("a.trace is damaged: ")


def test_a_number_of_more_than_64_bits_is_damage() -> None:
    maker = Maker("x")
    maker.data += b"\x01" + b"\xff" * 12
    with pytest.raises(ToolError, match="more than 64 bits"):
        trace.parse(bytes(maker.data), "t")


# --- replays ---


def made_replay(**more: Any) -> dict[str, Any]:
    """As the command prints it, with four samples."""
    summary = dict.fromkeys(replayed.KEPT, 5)
    run = {"is_done": True, "failed_allocations": 0}
    return {
        "schema_version": 1,
        "trace": {"path": "a.trace", "command": ["a"], "events": 400, "recorded_us": 1000},
        "rounds": 3,
        "window": 1000,
        "touch": "pages",
        "sample_live_bytes": [10, 20, 30, 40],
        "sample_us": [100, 100, 500, 500],
        "allocators": [
            {"name": "hakmem", "problem": None, **summary},
            {"name": "bad", "problem": "ended by signal 11", **summary},
        ],
        "runs": [
            {"allocator": "hakmem", **run, "sample_bytes": [100, 200, 300, 400]},
            {"allocator": "hakmem", **run, "sample_bytes": [300, 200, 0, 500]},
            {"allocator": "hakmem", **run, "sample_bytes": [200, 0, 0, 600]},
            {"allocator": "bad", **run, "is_done": False, "sample_bytes": [1, 0, 0, 0]},
        ],
        **more,
    }


def replay_events(told: Any) -> Events:
    """The events of a replay."""
    return check(replayed.make(replayed.parse(told, "r.json"), "r.json"))


def test_each_allocator_has_the_median_of_its_runs() -> None:
    found = replay_events(made_replay())
    assert [e["ts"] for e in found if e["name"] == "live"] == [100, 300, 500, 750]
    assert values(found, "live") == [{"bytes": live} for live in (10, 20, 30, 40)]
    assert values(found, "memory of hakmem") == [{"bytes": b} for b in (200, 200, 300, 500)]
    assert not values(found, "memory of bad")
    about = found[0]["args"]
    assert about["problems"] == {"bad": "ended by signal 11"}
    assert about["trace"]["events"] == 400
    assert (about["rounds"], about["touch"]) == (3, "pages")


def test_a_replay_of_a_recording_without_times_counts_events() -> None:
    summary = {"path": "a.trace", "events": 400, "recorded_us": 0}
    found = replay_events(made_replay(trace=summary, sample_us=[0, 0, 0, 0]))
    assert [e["ts"] for e in found if e["name"] == "live"] == [100, 200, 300, 400]
    assert found[0]["args"]["times"] == replayed.WITHOUT_TIMES


@pytest.mark.parametrize(
    ("told", "said", "status"),
    [
        ([], "not what `hakmem replay --json` prints", USAGE),
        ({"schema_version": 1, "waterfall": []}, "not what", USAGE),
        (made_replay(schema_version=2), "another version", USAGE),
        (made_replay(trace={}), "'events' is missing", FAILED),
        (made_replay(trace=3), "not as", FAILED),
        (made_replay(sample_us=[1, 2]), "equally many", FAILED),
        (made_replay(sample_us=[1, 2, 3, -4]), "not whole numbers", FAILED),
        (made_replay(sample_live_bytes=["1", 2, 3, 4]), "not whole numbers", FAILED),
        (made_replay(allocators=[{"name": "hakmem"}]), "is missing", FAILED),
        (made_replay(runs=[{"allocator": "x"}]), "is missing", FAILED),
        (made_replay(runs=None), "not as", FAILED),
        (made_replay(runs=[]), r"nothing to write \(bad: ended by signal 11\)", FAILED),
        (made_replay(sample_live_bytes=[], sample_us=[], runs=[]), "nothing to write", FAILED),
    ],
)
def test_other_json_is_refused(told: Any, said: str, status: int) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        replay_events(told)
    assert caught.value.status == status


def test_a_real_replay(tmp_path: Path) -> None:
    file = tmp_path / "a.trace"
    program = "x = [bytes(i % 4000) for i in range(20000)]; del x[::2]"
    record = [str(built("hakmem")), "record", "-o", str(file), "--", "/usr/bin/python3", "-c"]
    subprocess.run([*record, program], check=True, capture_output=True)
    told = replay_of(file, "--rounds=3")
    (tmp_path / "replay.json").write_text(json.dumps(told))
    done = timeline(tmp_path, "replay.json")
    said = "replay.timeline.json: memory of hakmem, libc\n"
    assert (done.returncode, done.stderr, done.stdout) == (0, "", said)
    found = load(tmp_path / "replay.timeline.json")
    live = [value["bytes"] for value in values(found, "live")]
    assert live == told["sample_live_bytes"]
    for name in ("hakmem", "libc"):
        runs = [run["sample_bytes"] for run in told["runs"] if run["allocator"] == name]
        shown = [value["bytes"] for value in values(found, f"memory of {name}")]
        taken = [[bytes_ for bytes_ in sample if bytes_] for sample in zip(*runs, strict=True)]
        assert shown == [round(statistics.median(sample)) for sample in taken if sample]
        assert max(shown) > max(live) / 2
    assert found[0]["args"]["trace"]["end_live_bytes"] == told["trace"]["end_live_bytes"]


# --- files ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With one file of each kind."""
    (tmp_path / "a.trace").write_bytes(anything(1, 500).data)
    (tmp_path / "replay.json").write_text(json.dumps(made_replay()))
    return tmp_path


def test_what_was_not_named_is_not_overwritten(folder: Path) -> None:
    assert timeline(folder, "a.trace").returncode == 0
    first = load(folder / "a.trace.timeline.json")
    done = timeline(folder, "a.trace")
    assert done.returncode == USAGE
    assert "a.trace.timeline.json is there already; -o a.trace.timeline.json" in done.stderr
    (folder / "o.json").write_text("old")
    (folder / "link.json").symlink_to("o.json")
    assert timeline(folder, "a.trace", "-o", "link.json").returncode == 0
    assert load(folder / "o.json") == first
    assert (folder / "link.json").is_symlink()


def test_what_fails_leaves_nothing_behind(folder: Path) -> None:
    (folder / "o.json").write_text("old")
    (folder / "bad.json").write_text(json.dumps(made_replay(runs=[])))
    before = sorted(path.name for path in folder.iterdir())
    assert timeline(folder, "bad.json", "-o", "o.json").returncode == FAILED
    assert timeline(folder, "a.trace", "-o", "a.trace").returncode == USAGE
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "o.json").read_text() == "old"
    assert (folder / "a.trace").read_bytes().startswith(trace.NAME)


def test_a_device_or_a_pipe_gets_the_events_alone(folder: Path) -> None:
    done = timeline(folder, "a.trace", "-o", "/dev/stdout")
    assert (done.returncode, done.stderr) == (0, "")
    check(json.loads(done.stdout))
    assert timeline(folder, "replay.json", "-o", "/dev/null").stdout == ""
    assert Path("/dev/null").is_char_device()
    full = timeline(folder, "a.trace", "-o", "/dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (USAGE, 1)
    assert "cannot write /dev/full: No space left" in full.stderr


def test_a_file_that_is_cut_by_a_full_disk_ends_with_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "o.json"
    one = events.counter(1, 2, "a", {"b": 3})
    real = events.os.write
    with events.EventFile(path) as file:
        file.add([one])
        monkeypatch.setattr(events.os, "write", lambda fd, text: real(fd, text[:5]))
        file.add([one])  # several writes are as good as one
        calls = iter([5])

        def fails(fd: int, text: memoryview) -> int:
            try:
                return real(fd, text[: next(calls)])
            except StopIteration:
                raise OSError(28, "No space left on device") from None

        monkeypatch.setattr(events.os, "write", fails)
        with pytest.raises(ToolError, match=r"cannot write .*o.json: No space left"):
            file.add([one])
    assert json.loads(path.read_text() + "]") == [one, one]


def test_the_end_of_a_trace_is_told(folder: Path) -> None:
    data = anything(1, 500).data
    (folder / "cut.trace").write_bytes(data[:-1])
    done = timeline(folder, "cut.trace")
    assert done.returncode == 0
    assert "the trace is cut off within an event, and so is this" in done.stdout
    about = load(folder / "cut.trace.timeline.json")[0]["args"]
    assert (about["is_cut_within_an_event"], about["is_whole"]) == (True, False)
    (folder / "killed.trace").write_bytes(Maker("x", whole=0).malloc(1, BASE).data)
    assert "; not to the program's end, as" in timeline(folder, "killed.trace").stdout


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        ([], "missing argument", USAGE),
        (["0"], "0 is not the number of a process", USAGE),
        (["99999999999"], "not the number of a process", USAGE),
        (["no.trace"], "there is no no.trace; give the number of a process, a trace", USAGE),
        (["."], ". is not a regular file", USAGE),
        (["text"], "text is no trace and no json; give", USAGE),
        (["empty"], "empty is no trace and no json; give", USAGE),
        (["begin.trace"], "begin.trace is cut off within its header", FAILED),
        (["new.trace"], "another version than this tool reads (1)", USAGE),
        (["nothing.trace"], "nothing.trace has no event, so there is nothing to write", FAILED),
        (["bad.trace"], "bad.trace is damaged: it has a block at address 0", FAILED),
        (["half.json"], "half.json is not json to its end", FAILED),
        (["other.json"], "other.json is json, but not what `hakmem replay --json` prints", USAGE),
        (["a.trace", "-o", "no/where"], "cannot write no/where: there is no no", USAGE),
        (["a.trace", "-o", "."], ". is a directory", USAGE),
        (["a.trace", "--for", "3"], "--interval and --for go with a process", USAGE),
        (["1", "--interval", "0"], "greater than or equal", USAGE),
        (["1", "--for", "-1"], "greater than or equal", USAGE),
        (["1", "--interval", "often"], "--interval", USAGE),
        (["--nonsense"], "no such option", USAGE),
    ],
)
def test_an_error_is_one_line(folder: Path, words: list[str], said: str, status: int) -> None:
    good = (folder / "a.trace").read_bytes()
    (folder / "text").write_text("just text\n")
    (folder / "empty").touch()
    (folder / "begin.trace").write_bytes(good[:4000])
    (folder / "new.trace").write_bytes(good.replace(b"hakmem-trace 1", b"hakmem-trace 2", 1))
    (folder / "nothing.trace").write_bytes(Maker("x").data)
    (folder / "bad.trace").write_bytes(Maker("x").malloc(1, 0).data)
    (folder / "half.json").write_text('{"runs": [')
    (folder / "other.json").write_text('[{"ph": "C"}]')
    done = timeline(folder, *words)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("hakmem timeline: ")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr.lower()


def test_completion_and_the_manual_know_the_options() -> None:
    text = timeline(ROOT, "--help").stdout
    words = {word.rstrip(",") for line in text.splitlines() for word in line.split()[:2]}
    options = {word for word in words if word.startswith("--")}
    assert options == {"--output", "--interval", "--for", "--help"}
    script = f"""source {ROOT / "cmd" / "hakmem" / "completion.bash"}
COMP_WORDS=(hakmem timeline --) COMP_CWORD=2
_hakmem
printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == options
    page = (ROOT / "man" / "hakmem.1").read_text(encoding="utf-8")
    described = page.partition(".It Cm timeline")[2].partition(".It Cm policy")[0]
    for option in options - {"--help"}:
        assert f"Fl Fl {option.removeprefix('--')}" in described
    shown = (ROOT / "docs" / "timeline.md").read_text(encoding="utf-8")
    assert text.strip() in shown, "tools/examples.py timeline-help"
