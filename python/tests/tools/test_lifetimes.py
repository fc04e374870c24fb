# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long blocks of a call site live, in top and map: of a program that learns it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import support
from hakmem_tools.common import sites
from hakmem_tools.map import model, terminal
from hakmem_tools.top import frame as frames

BUILD = Path(os.environ.get("TEST_HAKMEM_BUILD", support.ROOT / "build" / "release"))

# Some blocks are kept; in the end all of them go but those that the library watches, which have slots of their own and
# so are where no small block is: at an offset below a page in 64 KiB.
SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *kept[60000], *some[2000];
__attribute__((noinline)) char *keep(void)
{
    char *p = malloc(1000);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
__attribute__((noinline)) char *drop(void)
{
    char *p = malloc(1000);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
int main(void)
{
    int count = 0;
    for (int i = 0; i < 500; i++) {
        for (int j = 0; j < 2000; j++) {
            some[j] = drop();
            if (j % 20 == 0)
                memset(kept[count++] = keep(), 1, 1000);
        }
        for (int j = 0; j < 2000; j++)
            free(some[j]);
    }
    for (int i = 0; i < count; i++)
        if ((uintptr_t)kept[i] % 65536 >= 4096)
            free(kept[i]);
    if (write(1, "ready\n", 6) == 6)
        pause();
    return 0;
}
"""


@pytest.fixture(scope="module")
def pid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The program above, at its end."""
    folder = tmp_path_factory.mktemp("lives")
    program = folder / "lives"
    command = ["gcc", "-O1", "-g", "-fno-builtin", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=SOURCE, text=True, check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HAKMEM_", "LD_"))}
    env = {
        **kept,
        "LD_PRELOAD": str(BUILD / "libhakmem.so"),
        "HAKMEM_POLICY": f"learn:{folder}/policy",
    }
    with subprocess.Popen([program], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def run(tool: str, *words: str) -> str:
    """What a tool prints, in 80 columns."""
    done = subprocess.run(
        [sys.executable, "-m", f"hakmem_tools.{tool}", *words],
        env=support.with_command(BUILD / "hakmem", COLUMNS="80"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reader(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAKMEM_COMMAND", str(BUILD / "hakmem"))
    stat = sites.Reader(pid).look("--superslabs")
    found = {site.name.split()[0]: site for site in sites.lifetimes(stat)}
    keep, drop = found["keep"], found["drop"]
    line = SOURCE.splitlines().index("    char *p = malloc(1000);") + 1
    assert keep.name == f"keep (<stdin>:{line})"
    assert (keep.least_bytes, keep.most_bytes, keep.group) == (1000, 1000, "short")
    assert keep.life_bytes > 4 * drop.life_bytes
    assert len(keep.blocks) == keep.live_samples > 0
    [row] = [row for row in frames.lifetime_rows(frames.begin(stat)) if row["name"] == keep.name]
    assert (row["life"], row["sizes"]) == (keep.life_bytes, "1000-1000")
    block = keep.blocks[0]
    assert any(": keep " in text for text in sites.in_range(stat, block, block + 1))
    assert not any(": keep " in text for text in sites.in_range(stat, block + 1, block + 2))


def shown(process: int | Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What map shows, with superslabs too that keep next to nothing: one has only blocks that are watched."""
    monkeypatch.setenv("HAKMEM_COMMAND", str(BUILD / "hakmem"))
    monkeypatch.setattr(model, "LEAST_KEPT_BYTES", 0)
    picture = model.read(sites.Reader(str(process)).look("--superslabs"))
    return "\n".join(line.plain for line in terminal.show(picture, 0, 80))


@pytest.mark.skipif(shutil.which("gcore") is None, reason="gdb is not installed")
def test_map_of_a_core_file(pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows what the process shows."""
    made = ["gcore", "-o", str(tmp_path / "core"), str(pid)]
    subprocess.run(made, capture_output=True, check=True)
    core = tmp_path / f"core.{pid}"
    assert "superslabs are nearly empty" in run("map", "--limit", "0", str(core))
    live, dead = shown(pid, monkeypatch), shown(core, monkeypatch)
    watched = [
        [line for line in text.splitlines() if "watched, lives" in line] for text in (live, dead)
    ]
    assert watched[0] == watched[1] != []


def test_top_and_map(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run("top", "--once", "--view", "lifetimes", str(pid)).splitlines()
    assert all(len(line) <= 80 for line in lines)
    at = next(i for i, line in enumerate(lines) if "CALL SITE" in line)
    assert " keep (" in lines[at + 1], lines  # the longest first
    assert any(" drop (" in line for line in lines[at + 2 :])
    text = shown(pid, monkeypatch)
    assert "watched, lives " in text
    assert ": keep (" in text
