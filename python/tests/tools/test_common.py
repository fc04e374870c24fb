# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of what the tools share: the command and its failures, processes, figures as text."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import support
from hakmem_tools.common import command, processes, text
from hakmem_tools.common.errors import FAILED, USAGE, ToolError


def use(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """Has the tools run a script as the hakmem command."""
    monkeypatch.setenv("HAKMEM_COMMAND", str(support.fake_command(folder, script)))


def test_the_answer_is_parsed_and_gets_the_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use(monkeypatch, tmp_path, f'echo "$@" >{tmp_path}/words; echo \'{{"schema_version": 1}}\'')
    assert command.stat(7, "--samples") == {"schema_version": 1}
    assert (tmp_path / "words").read_text() == "stat --json --samples 7\n"


def test_the_command_is_not_preloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, tmp_path, 'echo "{\\"schema_version\\": 1, \\"preload\\": \\"$LD_PRELOAD\\"}"')
    monkeypatch.setenv("LD_PRELOAD", "")
    assert "LD_PRELOAD" not in command.environment()
    assert command.stat(7)["preload"] == ""


@pytest.mark.parametrize(
    ("script", "message", "status"),
    [
        (
            "echo hakmem: no process 7 >&2; echo hakmem: hint: ps >&2; exit 1",
            "^no process 7; ps$",
            1,
        ),
        ("exit 3", "did not say why", FAILED),
        ("echo '{'", "not JSON", FAILED),
        ("echo '[1]'", "no schema_version", FAILED),
        ("echo '{\"schema_version\": 99}'", "schema version 99", USAGE),
    ],
)
def test_a_failure_is_one_line_in_the_words_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, message: str, status: int
) -> None:
    use(monkeypatch, tmp_path, script)
    with pytest.raises(ToolError, match=message) as caught:
        command.stat(7)
    assert caught.value.status == status
    assert "\n" not in str(caught.value)


def test_a_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, tmp_path, "exec sleep 60")
    monkeypatch.setattr(command, "SECONDS", 0.2)
    with pytest.raises(ToolError, match="took longer"):
        command.stat(7)


def test_a_missing_command_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAKMEM_COMMAND", str(tmp_path / "nowhere"))
    with pytest.raises(ToolError, match="cannot be executed"):
        command.find()
    monkeypatch.delenv("HAKMEM_COMMAND")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="not on PATH"):
        command.find()


@pytest.mark.parametrize("tool", ["top", "map"])
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--nonsense"], USAGE, r"No such option: --nonsense.*; see 'hakmem \w+ --help'"),
        (["minus-one"], USAGE, "Invalid value|neither the number of a process"),
        (["7", "--load", "x", "--once", "--view", "y"], USAGE, "No such option|no view"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, tool: str, arguments: list[str], status: int, message: str
) -> None:
    fake = support.fake_command(tmp_path, "exit 1")
    done = subprocess.run(
        [sys.executable, "-m", f"hakmem_tools.{tool}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=support.with_command(fake),
    )
    assert done.returncode == status, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"hakmem {tool}: ")
    assert re.search(message, done.stderr), done.stderr


@pytest.mark.parametrize(
    ("template", "tool"), [("python/hakmem-tool.in", "top"), ("bench/hakmem-bench.in", "bench")]
)
def test_a_python_that_is_there_and_cannot_be_executed_is_said(
    tmp_path: Path, template: str, tool: str
) -> None:
    text = (support.ROOT / template).read_text(encoding="utf-8").replace("@tool@", tool)
    program = tmp_path / "program"
    program.write_text(text.replace("@PROJECT_SOURCE_DIR@", str(tmp_path)), encoding="utf-8")

    def said() -> str:
        done = subprocess.run(["sh", program], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        return done.stderr

    assert f"hakmem {tool}: the Python packages are not there: run {tmp_path}/tools/" in said()
    python = tmp_path / "build" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(tmp_path / "of-somebody-else" / "python3")
    assert said() == (
        f"hakmem {tool}: this user cannot execute {python}, which is {tmp_path}/of-somebody-else/python3\n"
    )
    python.unlink()
    python.touch(0o644)
    assert said() == f"hakmem {tool}: this user cannot execute {python}, which is {python}\n"


def test_processes_are_those_with_the_library(tmp_path: Path) -> None:
    maps = {
        "12": "7f00-7f01 r-xp 0 fe:0 1 /opt/lib/libhakmem.so.0.1.0\n",
        "13": "7f00-7f01 r-xp 0 fe:0 1 /usr/lib/libc.so.6\n7f02-7f03 rw-p 0 0:0 0 /tmp/libhakmem.txt\n",
        "14": "7f00-7f01 r-xp 0 fe:0 1 /opt/lib/libhakmem-hardened.so\n7f04-7f05 rw-p 0 0:0 0\n",
        "self": "7f00-7f01 r-xp 0 fe:0 1 /opt/lib/libhakmem.so\n",
    }
    for pid, content in maps.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "maps").write_text(content)
        (tmp_path / pid / "status").write_text(f"Name:\tserver{pid}\nVmRSS:\t {pid} kB\n")
        (tmp_path / pid / "cmdline").write_bytes(b"server\0--port\x001\0")
    (tmp_path / "15").mkdir()  # ended meanwhile
    found = processes.running(tmp_path)
    assert [(p.pid, p.name, p.rss_bytes) for p in found] == [
        (14, "server14", 14 * 1024),
        (12, "server12", 12 * 1024),
    ]
    assert found[0].command == "server --port 1"
    assert found[0].library == "libhakmem-hardened.so"


@pytest.mark.parametrize(
    ("count", "short", "long"),
    [
        (0, "0", "0 B"),
        (999, "999", "999 B"),
        (1000, "1.0K", "1000 B"),
        (1024, "1.0K", "1.0 KiB"),
        (1023 * 1024, "1.0M", "1023 KiB"),
        (102400, "100K", "100.0 KiB"),
        (1 << 21, "2.0M", "2.0 MiB"),
        (-(3 << 30), "-3.0G", "-3.0 GiB"),
    ],
)
def test_sizes(count: int, short: str, long: str) -> None:
    assert text.compact(count) == short
    assert text.size(count) == long


def test_sizes_never_outgrow_their_column() -> None:
    for shift in range(50):
        for count in ((1 << shift) - 1, 1 << shift, (1 << shift) * 3 // 2):
            assert len(text.compact(count)) <= 5, count
            assert len(text.signed_compact(-count)) <= 6, count
            assert len(text.number(count)) <= 7, count


def test_other_figures() -> None:
    assert text.signed_compact(2048) == "+2.0K"
    assert text.signed_size(-2048) == "-2.0 KiB"
    assert text.rate(0.25) == "0.2"
    assert text.percent(1, 0) == "-"
    assert [text.duration(s * 1e9) for s in (0.02, 3, 600, 9e3, 1e6)] == [
        "20 ms",
        "3.0 s",
        "10 min",
        "2 h",
        "12 d",
    ]
    assert text.cut("abcdef", 4) == "abc…"


def test_a_saved_answer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stat.json"
    path.write_text(json.dumps(support.recorded()))
    assert command.load(path)["process"]["pid"] == support.recorded()["process"]["pid"]
    with pytest.raises(ToolError, match="cannot read"):
        command.load(tmp_path / "nothing")
