# SPDX-License-Identifier: Apache-2.0 OR MIT
"""hakmem policy: reading as the library reads, merging, comparing; one line for each error."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hakmem_tools.common.errors import ToolError
from hakmem_tools.policy import model
from hakmem_tools.policy.model import GROUPS, KNOBS, PPM, Arm, Policy, Site
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT

REPLAY = (
    Path(os.environ.get("TEST_HAKMEM_BUILD", "/nowhere")) / "tests" / "policy" / "policy_replay"
)
SIZES = [16, 64, 128, 256, 1024, 4096, 65536]

sums = st.integers(min_value=0, max_value=1 << 40) | st.just(model.SUM_MOST)


@st.composite
def arms(draw: st.DrawFn) -> Arm:
    """Runs as they may have been: up to nine, each with a reward of its own."""
    rewards = draw(st.lists(st.integers(min_value=300_000, max_value=800_000), max_size=9))
    squares = sum((reward // 100) ** 2 for reward in rewards)
    hints = draw(st.integers(min_value=0 if rewards else 1, max_value=99))
    return Arm(len(rewards), sum(rewards), squares, draw(sums), draw(sums), hints)


@st.composite
def site_rules(draw: st.DrawFn) -> Site:
    """A rule for a call site."""
    sizes = sorted(draw(st.tuples(*[st.integers(min_value=1, max_value=65536)] * 2)))
    evidence = draw(st.integers(min_value=0, max_value=999))
    return Site(sizes[0], sizes[1], draw(st.sampled_from(GROUPS)), evidence)


policies = st.builds(
    Policy,
    runs=st.lists(sums, min_size=2, max_size=2),
    base=st.lists(sums, min_size=4, max_size=4),
    arms=st.dictionaries(
        st.sampled_from([(knob, name) for knob, names in KNOBS.items() for name in names[1:]]),
        arms(),
    ),
    bins=st.dictionaries(
        st.sampled_from(SIZES),
        st.tuples(st.integers(min_value=1, max_value=1 << 40), sums).map(list),
    ),
    sites=st.dictionaries(
        st.sampled_from(["0a0b+1c", "0a0b+1d", "ff+0", "token+1"]), site_rules(), max_size=4
    ),
)


@settings(max_examples=40)
@given(policies)
def test_what_is_written_reads_back(policy: Policy) -> None:
    assert model.parse(model.write(policy), "p") == policy


@settings(max_examples=40)
@given(policies, policies, policies)
def test_merging_is_associative_and_commutative(a: Policy, b: Policy, c: Policy) -> None:
    merge = model.merge
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])]) == merge([a, b, c])
    assert model.write(merge([a, b])) == model.write(merge([b, a]))


@given(policies, policies, policies)
def test_it_stays_so_where_there_are_more_rules_than_the_library_takes(
    a: Policy, b: Policy, c: Policy
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "SITES_MOST", 2)
        merge = model.merge
        one = merge([merge([a, b]), c])
        assert one.sites == merge([a, merge([b, c])]).sites == merge([a, b, c]).sites
        assert len(one.sites) <= 2


def replay(path: Path) -> tuple[dict[str, str], str]:
    """What the library's own code makes of a policy: the arms that it loads, and the file again."""
    command = [REPLAY, "frozen", os.devnull, path]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    decisions, _, written = out.partition(model.FIRST_LINE)
    loaded = [line.split(": ")[1].split(" ")[0] for line in decisions.splitlines()]
    return dict.fromkeys(loaded, "loaded"), model.FIRST_LINE + written


@pytest.mark.skipif(not REPLAY.exists(), reason="policy_replay is not built")
@settings(max_examples=15, deadline=None)
@given(policy=policies)
def test_the_library_reads_writes_and_chooses_alike(policy: Policy) -> None:
    path = Path(f"/tmp/hakmem-test-{os.getpid()}.policy")
    path.write_text(model.write(policy), encoding="ascii")
    try:
        loaded, written = replay(path)
    finally:
        path.unlink()
    assert set(loaded) == {k for k, names in KNOBS.items() if policy.chosen(k) != names[0]}
    # The lines of call sites are another part's of the library: tests/sites.
    assert written == model.write(dataclasses.replace(policy, sites={}))


def test_an_arm_is_chosen_when_it_is_better_by_more_than_chance() -> None:
    def chosen(*rewards: int) -> str:
        squares = sum((reward // 100) ** 2 for reward in rewards)
        return Policy(arms={("keep", "all"): Arm(len(rewards), sum(rewards), squares)}).chosen(
            "keep"
        )

    assert chosen(600_000, 600_000) == "quarter"
    assert chosen(600_000, 600_000, 600_000) == "all"
    assert chosen(505_000, 505_000, 505_000) == "quarter"
    assert chosen(900_000, 300_000, 600_000) == "quarter"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "first line"),
        ("hakmem-policy 2\n", "first line"),
        ("hakmem-policy 1", "line 1"),
        ("hakmem-policy 1\nruns 3\n", "line 2"),
        ("hakmem-policy 1\narm keep quarter 1 2 3 4 5 6\n", "line 2"),
        ("hakmem-policy 1\n\nwalks 1\n", "line 3"),
        ("hakmem-policy 1\nruns 1 \u0663\n", "line 2"),
        ("hakmem-policy 1\nbin 64 1 31\nbin 64 1 31\n", "line 3"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_line(text: str, line: str) -> None:
    with pytest.raises(ToolError, match=line):
        model.parse(text, "p")


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the tool."""
    words = [sys.executable, "-m", "hakmem_tools.policy", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src"), "COLUMNS": "100"}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def save(path: Path, reward: int, time: int = PPM) -> Path:
    """A policy of four runs with one arm."""
    arm = Arm(4, 4 * reward, 4 * (reward // 100) ** 2, 4 * time, 4 * PPM, 7)
    policy = Policy([5, 70], [3, 6000000, 3000000, 90000], {("keep", "all"): arm})
    path.write_text(model.write(policy), encoding="ascii")
    return path


def test_show_says_what_was_learned_and_what_is_used(tmp_path: Path) -> None:
    shown = command("show", save(tmp_path / "a", 600_000, 900_000))
    assert shown.returncode == 0
    assert "5 runs watched, 3 plays of the defaults as the measure: 2.00 s, 1.00 s" in shown.stdout
    words = shown.stdout.splitlines()[-1].split()
    assert words == ["keep", "all", "4", "0.900", "1.000", "0.600", "0.600", "7", "used"]


def test_help_says_in_whole_sentences_what_there_is() -> None:
    assert "..." not in command("--help").stdout.partition("Commands:")[2]


def test_diff_and_merge_and_check(tmp_path: Path) -> None:
    good, bad = save(tmp_path / "good", 600_000), save(tmp_path / "bad", 400_000)
    assert command("diff", good, good).returncode == 0
    changed = command("diff", bad, good)
    assert (changed.returncode, changed.stdout) == (1, "keep: quarter -> all\n")
    merged = command("merge", good, bad, "-o", tmp_path / "both")
    assert (merged.returncode, merged.stdout, merged.stderr) == (0, "", "")
    assert model.read(tmp_path / "both").arms["keep", "all"].plays == 8
    assert command("merge", good, bad).stdout == (tmp_path / "both").read_text(encoding="ascii")
    assert command("check", good, bad, tmp_path / "both").returncode == 0
    (tmp_path / "none").write_text("no policy\n", encoding="ascii")
    checked = command("check", good, tmp_path / "none", tmp_path / "absent")
    assert checked.returncode == 1
    assert len(checked.stderr.splitlines()) == 2


def test_a_file_without_an_end_is_refused() -> None:
    done = command("check", "/dev/zero")
    assert done.returncode == 1
    assert "larger than 65536 bytes" in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["show", "/nowhere/at/all"], ["merge"], ["sow", "x"], ["show"]])
def test_an_error_is_one_line(words: list[str]) -> None:
    done = command(*words)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("hakmem policy: ")
    assert len(done.stderr.splitlines()) == 1
