# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of where the tools write to: outputs that are closed, full, narrow or of another encoding, and files."""

import os
import subprocess
import sys
from pathlib import Path

import made_trace
import pytest
import support
from hakmem_tools.common import files
from hakmem_tools.common.errors import FAILED, USAGE, ToolError
from hakmem_tools.map.terminal import BARS

MAP = f"map --load {support.DATA}/stat.json"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A hakmem command that knows one process."""
    return support.fake_command(tmp_path, f"cat {support.DATA}/stat.json")


def tool(
    command: Path, line: str, redirected: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """A tool with arguments, started by a shell with redirections."""
    name, _, arguments = line.partition(" ")
    return subprocess.run(
        f"{sys.executable} -B -m hakmem_tools.{name} {arguments} {redirected}",
        shell=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=120,
        cwd=command.parent,
        env=support.with_command(command, **variables),
    )


@pytest.mark.parametrize(
    "line", [MAP, f"{MAP} --json", "top --once 1", "top --help", "bench list", "bench --help"]
)
@pytest.mark.parametrize(
    ("redirected", "why"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")]
)
def test_an_output_that_cannot_be_written_is_one_line(
    command: Path, line: str, redirected: str, why: str
) -> None:
    done = tool(command, line, redirected)
    assert done.returncode == FAILED
    name = line.partition(" ")[0]
    assert done.stderr == f"hakmem {name}: cannot write to standard output: {why}\n"


def test_nobody_asks_for_an_output_that_is_not_used(command: Path) -> None:
    done = tool(command, f"{MAP} --json -o map.json", ">&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert (command.parent / "map.json").stat().st_size > 1000
    done = tool(command, "map --nonsense", "2>&-")
    assert (done.returncode, done.stdout) == (USAGE, "")


@pytest.mark.parametrize("columns", ["", "abc", "0", "-1", "7", "9" * 30])
def test_any_number_of_columns_will_do(command: Path, columns: str) -> None:
    usual = tool(command, MAP, COLUMNS="80").stdout
    for line in (MAP, "top --once 1", "bench list"):
        done = tool(command, line, COLUMNS=columns)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout) > 500
    assert tool(command, MAP, COLUMNS=columns).stdout.splitlines()[:20] == usual.splitlines()[:20]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_does_not_have_is_shown_without(command: Path, encoding: str) -> None:
    there = tool(command, MAP).stdout
    done = tool(command, MAP, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    at = there.index(BARS[3])
    assert done.stdout[at] == "4"
    assert len(done.stdout) == len(there)
    done = tool(command, "top --once --view memory 1", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("old")
    path.chmod(0o600)
    files.write(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600

    def full(beside: Path, content: bytes) -> int:
        beside.touch()
        raise OSError(28, os.strerror(28), str(beside))

    monkeypatch.setattr(Path, "write_bytes", full)
    for name in ("a.html", "b.html"):
        with pytest.raises(ToolError, match=f"cannot write .*{name}: No space left") as caught:
            files.write(tmp_path / name, "newer")
        assert caught.value.status == USAGE
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert path.read_text() == "new"


def test_a_link_a_pipe_and_a_device_are_written_as_they_are(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    files.write(link, "text")
    assert link.is_symlink() and (tmp_path / "real").read_text() == "text"
    with pytest.raises(ToolError, match="cannot write /dev/full: No space left on device"):
        files.write(Path("/dev/full"), "text")
    with pytest.raises(ToolError, match="Is a directory"):
        files.write(tmp_path, "text")
    assert Path("/dev/full").is_char_device()


def test_a_minus_is_standard_output(command: Path, made: Path) -> None:
    for line in (f"{MAP} --html", f"{MAP} --json", f"timeline {made}"):
        done = tool(command, f"{line} -o -")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(("<!doctype", "{", "["))
        assert done.stdout.endswith(("</html>\n", "}\n", "]\n"))
        tool(command, f"{line} -o -", ">>both")
    assert (command.parent / "both").read_text().count("<!doctype html>") == 1
    assert "schema_version" in (command.parent / "both").read_text()
    done = tool(command, f"tune {made} -o -")
    assert (done.returncode, "not to standard output" in done.stderr) == (USAGE, True)
    done = tool(command, f"timeline {made} -o -", ">&-")
    assert done.returncode == USAGE
    assert "cannot write /dev/stdout" in done.stderr
    assert not (command.parent / "-").exists()


@pytest.mark.parametrize(
    "line", [f"{MAP} --json -o ''", "map --load ''", "timeline ''", "tune '' -o x", "tune x -o ''"]
)
def test_a_file_without_a_name_is_said(command: Path, line: str) -> None:
    done = tool(command, line)
    assert done.returncode == USAGE
    assert "empty; " in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A trace."""
    path = tmp_path / "app.trace"
    path.write_bytes(made_trace.anything(1, 20).data)
    return path
