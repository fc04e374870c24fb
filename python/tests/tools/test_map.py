# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of hakmem map: what it computes, and that all its outputs say the same."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_up
import pytest
import support
from hakmem_tools.map import model, page, png, terminal
from matplotlib import image as images


@pytest.fixture
def stat() -> dict[str, Any]:
    """A process with one superslab of each kind."""
    return made_up.process()


def test_fill_is_the_live_part_of_the_slab(stat: dict[str, Any]) -> None:
    first, second, kept, huge, _ = model.read(stat).superslabs
    assert [first.slots[i].fill for i in (0, 28, 31)] == [1.0, 0.5, 0.5]
    assert first.live_bytes == 28 * 65536 + 4 * 65536 / 2
    assert first.used_slots == 32
    assert second.slots[1].fill == 2 / 512
    assert second.slots[6].fill == 1.0
    assert kept.live_bytes == 0
    assert huge.live_bytes == 3 << 20


def test_a_sampled_block_is_as_long_as_it_is(stat: dict[str, Any]) -> None:
    run = [{**slot, "sample_bytes": 66688} for slot in made_up.large(2)]
    stat["superslabs"] = [made_up.superslab(0, run)]
    (superslab,) = model.read(stat).superslabs
    assert [slot.state for slot in superslab.slots[:2]] == ["sampled", "sampled"]
    assert superslab.live_bytes == 66688


def test_pins_name_what_is_live_the_most_first(stat: dict[str, Any]) -> None:
    picture = model.read(stat)
    assert [pin.address for pin in picture.pins] == [made_up.BASE + model.SUPERSLAB_BYTES]
    (pin,) = picture.pins
    assert pin.holders == (
        "1 x large",
        "1 x 20096 bytes of io</script><b>",
        "3 x 128 bytes of (shared)",
        "2 x 128 bytes of io</script><b>",
    )
    assert pin.live_bytes == pytest.approx(65536 * (2 + 4 / 12 + 5 / 512))


@pytest.mark.parametrize(("kept", "is_pin"), [(-4096, False), (65535, False), (65536, True)])
def test_a_pin_keeps_memory(stat: dict[str, Any], kept: int, is_pin: bool) -> None:
    live = 2 * 65536 + 65536  # a large block, and slabs that are full by half
    given = made_up.superslab(0, made_up.large(2) + made_up.slab(64, 512, 1024, slots=2))
    stat["superslabs"] = [{**given, "resident_bytes": live + kept}]
    assert bool(model.read(stat).pins) == is_pin


def test_an_owner_that_others_share_is_named_with_them(stat: dict[str, Any]) -> None:
    owner = stat["threads"][1]
    nothing = {"live_bytes": 0, "slab_bytes": 0}
    stat["threads"] += [
        {**owner, **nothing, "heap": heap, "home": 2, "name": f"worker-{heap}"} for heap in (3, 4)
    ]
    picture = model.read(stat)
    assert picture.owners[2] == "io</script><b> +2 more"
    assert picture.owners[3] == "worker-3"
    assert picture.pins[0].holders[1] == "1 x 20096 bytes of io</script><b> +2 more"
    owner["state"] = "idle"
    assert model.read(stat).owners[2] == "(idle) +2 more"


def test_counts_are_those_of_the_answer(stat: dict[str, Any]) -> None:
    shown = model.as_json(model.read(stat))
    assert shown["superslab_counts"] == {"slots": 3, "retired": 1, "huge": 2, "waiting": 0}
    assert shown["slot_counts"] == {
        "class": 38,
        "empty": 2,
        "large": 2,
        "retired": 32,
        "unused": 54,
    }
    assert shown["resident_bytes"] == sum(s["resident_bytes"] for s in stat["superslabs"])
    json.dumps(shown)


def test_the_terminal_has_a_line_for_each_superslab(stat: dict[str, Any]) -> None:
    text = "\n".join(line.plain for line in terminal.show(model.read(stat), 0))
    assert f"{made_up.BASE:#14x} |{'█' * 28}{'▅' * 4}|   94%" in text
    assert f"{made_up.BASE + model.SUPERSLAB_BYTES:#14x} |▁▁▁▁▁▁LL·{' ' * 23}|" in text
    assert f"|{'-' * 32}|" in text
    assert "huge block, 4.0 MiB" in text
    assert "A superslab is nearly empty and keeps" in text
    assert "classes: 64 128 20096" in text
    for line in text.splitlines():
        assert len(line) <= 80
    assert "and 4 more" in "\n".join(line.plain for line in terminal.show(model.read(stat), 1))


def test_the_terminal_can_be_cut_to_its_width(stat: dict[str, Any]) -> None:
    lines = list(terminal.pins(model.read(stat), 10, 60))
    assert lines[1].plain.endswith("…")
    assert len(lines[1].plain) == 60


def test_the_page_cannot_be_broken_out_of(stat: dict[str, Any]) -> None:
    text = page.render(model.read(stat))
    assert text.count("</script>") == 2
    assert "io</script>" not in text
    data = text.partition('id="data">')[2].partition("</script>")[0]
    assert json.loads(data) == json.loads(json.dumps(model.as_json(model.read(stat))))


@pytest.mark.parametrize("way", png.WAYS)
def test_the_picture_has_a_cell_for_each_slot(
    stat: dict[str, Any], tmp_path: Path, way: str
) -> None:
    picture = model.read(stat)
    colours = png.Colours(picture, way)
    cells = png.cells(picture, colours)
    assert cells.shape == (5, 32, 3)
    assert tuple(cells[3, 0]) == pytest.approx(png.STATES["huge"][0])
    assert tuple(cells[1, 6]) == pytest.approx(png.STATES["large"][0])
    assert tuple(cells[1, 20]) == pytest.approx(png.STATES["unused"][0])
    if way in ("class", "fill"):
        assert tuple(cells[0, 0]) != pytest.approx(tuple(cells[0, 28]))
    path = tmp_path / "map.png"
    path.write_bytes(png.draw(picture, way))
    assert images.imread(path).shape[0] > 150


def test_many_superslabs_go_into_columns(stat: dict[str, Any]) -> None:
    stat["superslabs"] = [
        made_up.superslab(i, made_up.slab(64, i % 1024, 1024)) for i in range(200)
    ]
    picture = model.read(stat)
    assert png.cells(picture, png.Colours(picture, "fill")).shape == (64, 4 * 33 - 1, 3)


# --- as a program ---


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """hakmem map with arguments, in a folder with a recorded answer."""
    command = support.fake_command(folder, f'echo "$@" >{folder}/words; cat {folder}/stat.json')
    return subprocess.run(
        [sys.executable, "-B", "-m", "hakmem_tools.map", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env=support.with_command(command, COLUMNS="80"),
    )


@pytest.fixture
def folder(stat: dict[str, Any], tmp_path: Path) -> Path:
    """Where the programs run."""
    (tmp_path / "stat.json").write_text(json.dumps(stat))
    return tmp_path


def test_each_output_goes_where_it_should(folder: Path) -> None:
    pid = support.recorded()["process"]["pid"]
    done = run(folder, "4711")
    assert done.returncode == 0, done.stderr
    assert "superslabs of 2 MiB: 3 in use slot by slot" in done.stdout
    assert (folder / "words").read_text() == "stat --json --samples --superslabs 4711\n"
    done = run(folder, "4711", "--json")
    assert len(json.loads(done.stdout)["superslabs"]) == 5
    done = run(folder, "4711", "--png")
    assert done.stdout == f"hakmem-map-{pid}.png\n", done.stderr
    head = (folder / f"hakmem-map-{pid}.png").read_bytes()[:8]
    assert head == struct.pack("B7s", 0x89, b"PNG\r\n\x1a\n")
    done = run(folder, "--load", "stat.json", "--html", "-o", "page.html")
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
    assert (folder / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a PID or --load FILE"),
        (["no-such-core"], "'no-such-core' is neither the number of a process nor a core file"),
        (["1", "--load", "stat.json"], "give a PID or --load FILE"),
        (["1", "--png", "--html"], "choose one of"),
        (["1", "--by", "luck"], "--by is one of class, fill, age, owner"),
        (["1", "-o", "x"], "-o goes with"),
        (["--load", "nothing.json"], "cannot read nothing.json"),
        (["--load", "bare.json"], "save it with --superslabs"),
        (["1", "--html", "-o", "no/where.html"], "cannot write"),
    ],
)
def test_wrong_usage_says_what_to_do(folder: Path, arguments: list[str], message: str) -> None:
    bare = support.recorded()
    bare.pop("superslabs", None)
    (folder / "bare.json").write_text(json.dumps(bare))
    done = run(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
