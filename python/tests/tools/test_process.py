# SPDX-License-Identifier: Apache-2.0 OR MIT
"""top and map on a process that runs with hakmem, started as people start them: `hakmem top`, `hakmem map`."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import support
from hakmem_tools.common import processes

sys.path.insert(0, str(support.ROOT / "tools"))
import examples

ENTRIES = 3000


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """The server of the examples, small."""
    assert (examples.BUILD / "hakmem").is_file(), "build it first, or set TEST_HAKMEM_BUILD"
    with examples.workload(ENTRIES) as pid:
        yield pid


def hakmem(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The hakmem command of the build."""
    return subprocess.run(
        [str(examples.BUILD / "hakmem"), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_the_recorded_answer_is_of_the_present_format() -> None:
    schema = json.loads((support.ROOT / "docs" / "schema" / "stat.schema.json").read_text())
    jsonschema.validate(support.recorded(), schema)


def test_the_process_is_found(server: int) -> None:
    found = {process.pid: process for process in processes.running()}
    assert found[server].name == "server"
    assert found[server].library.startswith("libhakmem.so")
    assert os.getpid() not in found


@pytest.mark.parametrize("view", ["classes", "threads", "stages", "memory", "locks", "sites"])
def test_top_shows_it(server: int, view: str) -> None:
    done = hakmem("top", "--once", "--view", view, str(server))
    assert done.returncode == 0, done.stderr
    assert f"server (pid {server})" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    if view == "threads":
        for thread in ("server", "worker-1", "worker-2", "worker-3", "(shared)"):
            assert thread in done.stdout


def test_top_sees_work(server: int) -> None:
    done = hakmem("top", "-b", "-n", "2", "-d", "1.5", "--view", "threads", str(server))
    assert done.returncode == 0, done.stderr
    second = done.stdout.split("hakmem top - ")[2]
    rates = [float(line.split()[-2]) for line in second.splitlines() if "worker-" in line]
    assert len(rates) == 3
    assert max(rates) > 0


def test_the_map_is_what_stat_says(server: int, tmp_path: Path) -> None:
    done = hakmem("map", "--json", str(server))
    assert done.returncode == 0, done.stderr
    picture = json.loads(done.stdout)
    stat = json.loads(hakmem("stat", "--json", "--superslabs", str(server)).stdout)
    addresses = {superslab["address"] for superslab in stat["superslabs"]}
    assert {superslab["address"] for superslab in picture["superslabs"]} <= addresses
    assert picture["superslab_counts"]["slots"] > 1
    assert 0 < picture["live_bytes"] < picture["resident_bytes"] * 2
    assert any("of worker-" in holder for pin in picture["pins"] for holder in pin["holders"])
    for option, kind in (("--png", b"\x89PNG"), ("--html", b"<!doctype html>")):
        target = tmp_path / "picture"
        done = hakmem("map", option, "-o", str(target), str(server))
        assert done.returncode == 0, done.stderr
        assert target.read_bytes().startswith(kind)
    text = hakmem("map", str(server))
    assert "superslabs of 2 MiB" in text.stdout
    assert text.stderr == ""


@pytest.mark.parametrize("tool", ["top", "map"])
def test_a_process_that_cannot_be_read_is_one_line(tool: str) -> None:
    options = ["--once"] if tool == "top" else []
    for pid in (str(os.getpid()), "999999999"):
        done = hakmem(tool, *options, pid)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith(f"hakmem {tool}: ")
        assert pid in done.stderr


@pytest.mark.parametrize("tool", ["top", "map"])
def test_completion_offers_the_options_that_there_are(tool: str) -> None:
    text = hakmem(tool, "--help").stdout
    options = {word.rstrip(",") for line in text.splitlines() for word in line.split()[:2]}
    known = {word for word in options if word.startswith("--")}
    completion = support.ROOT / "cmd" / "hakmem" / "completion.bash"
    script = f"""source {completion}
COMP_WORDS=(hakmem {tool} --) COMP_CWORD=2
_hakmem
printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == known


@pytest.mark.parametrize("tool", ["top", "map"])
def test_completion_offers_processes(server: int, tool: str) -> None:
    completion = support.ROOT / "cmd" / "hakmem" / "completion.bash"
    script = f"""source {completion}
COMP_WORDS=(hakmem {tool} '') COMP_CWORD=2
_hakmem
printf '%s\\n' "${{COMPREPLY[@]}}" """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert str(server) in done.stdout.split()


HOLD = """
#include <stdio.h>
#include <stdlib.h>
static void *volatile held[1000];
__attribute__((noinline)) static void hold(void)
{
    for (int i = 0; i < 1000; i++)
        held[i] = malloc(1000);
}
int main(void)
{
    hold();
    puts("ready");
    fflush(stdout);
    return getchar();
}
"""


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A process that takes a sample of about every third of its blocks."""
    folder = tmp_path_factory.mktemp("sampled")
    (folder / "hold.c").write_text(HOLD)
    flags = ["-g", "-O1", "-fno-omit-frame-pointer", "-fno-builtin"]
    subprocess.run(["cc", *flags, "-o", "hold", "hold.c"], cwd=folder, check=True)
    with subprocess.Popen(
        [str(examples.BUILD / "hakmem"), "run", "--", str(folder / "hold")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "HAKMEM_PROF": "1", "HAKMEM_PROF_SAMPLE_BYTES": "2500"},
    ) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "ready\n"
            yield running.pid
        finally:
            running.kill()


def test_top_shows_call_sites(sampled: int) -> None:
    done = hakmem("top", "--once", "--view", "sites", str(sampled))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "hold (hold.c:8) < main" in line]
    live, blocks = line.split()[:2]
    live_bytes = float(live[:-1]) * (1 << {"K": 10, "M": 20}[live[-1]])
    assert 500_000 < live_bytes < 2_000_000  # some 330 samples: hardly off by a fifth
    assert 500 < float(blocks.replace(",", "")) < 2000


def test_the_map_names_call_sites(sampled: int) -> None:
    stat = json.loads(hakmem("stat", "--json", "--superslabs", "--samples", str(sampled)).stdout)
    schema = json.loads((support.ROOT / "docs" / "schema" / "stat.schema.json").read_text())
    jsonschema.validate(stat, schema)
    assert stat["samples"]["sampling"] is True
    assert stat["samples"]["period_bytes"] == 2500
    blocks = [block for block in stat["samples"]["blocks"] if block["bytes"] == 1040]
    assert 100 < len(blocks) < 600
    picture = json.loads(hakmem("map", "--json", str(sampled)).stdout)
    named = [site for pin in picture["pins"] for site in pin["sites"]]
    inside = [
        pin["address"] <= block["address"] < pin["address"] + (2 << 20)
        for pin in picture["pins"]
        for block in blocks
    ]
    assert sum(inside) == sum(
        int(site.split()[0]) for site in named if "hold (hold.c:8) < main" in site
    )


def read_until(terminal: int, wanted: str, seconds: float = 120) -> str:
    """What a program writes to its terminal, up to a text; a test that waits in vain fails."""
    seen, end = "", time.monotonic() + seconds
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0))
        assert ready, f"no {wanted!r} in {seen!r}"
        seen += os.read(terminal, 65536).decode(errors="replace")
    return seen


@pytest.mark.parametrize(
    ("end", "status"), [("q", 0), ("\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_screen_on_a_terminal(server: int, end: str | signal.Signals, status: int) -> None:
    """80 columns: the figures come, another view does, keys or signals end it and put the terminal back."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [str(examples.BUILD / "hakmem"), "top", "-d", "0.2", str(server)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    ) as running:
        os.close(theirs)
        try:
            read_until(ours, "GROWTH/s")
            os.write(ours, b"2")
            read_until(ours, "worker-2")
            if isinstance(end, str):
                os.write(ours, end.encode())
            else:
                running.send_signal(end)
            seen = read_until(ours, "\x1b[?1049l")  # the screen from before
            for mode in ("\x1b[?1000l", "\x1b[?25h"):  # no mouse, the cursor
                seen = seen if mode in seen else seen + read_until(ours, mode)
            assert running.wait(60) == status
        finally:
            running.kill()
            os.close(ours)
