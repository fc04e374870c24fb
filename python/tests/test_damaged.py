# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Result files that are damaged anywhere: refused with a reason, or good enough for every reader."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import make_benchmark, make_entry, make_result, make_run
from hakmem_tools.bench import comparison, html, schema, summary
from hakmem_tools.bench.places import BenchError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

GOOD = make_result(
    make_benchmark(
        "one",
        "small",
        hakmem=make_entry(make_run(1, rss_idle=5.0), make_run(2)),
        glibc=make_entry(make_run(3)),
    ),
    make_benchmark("two", "large", hakmem=make_entry(make_run(4, problem="lost"))),
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every container in it with each of its keys."""
    keys: list[Any] = (
        list(value)
        if isinstance(value, dict)
        else list(range(len(value)))
        if isinstance(value, list)
        else []
    )
    return [(value, key) for key in keys] + [
        found for key in keys for found in places_in(value[key])
    ]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A result with one to three members replaced or gone, or a text that was cut off."""
    result = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        where, key = draw(st.sampled_from(places_in(result)))
        if draw(st.booleans()) and isinstance(where, dict):
            del where[key]
        else:
            where[key] = draw(anything)
    text = json.dumps(result)
    return text if draw(st.integers(0, 9)) else text[: draw(st.integers(0, len(text)))]


@settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(text=damaged())
def test_damaged_results(tmp_path: Path, text: str) -> None:
    """Every reader works on what read_result lets through, or says why not."""
    path = tmp_path / "result.json"
    path.write_text(text, encoding="utf-8")
    try:
        result = summary.read_result(path)
        rows = summary.rows_of(result)
        summary.geometric_means(rows)
        summary.wins_and_losses(rows)
        html.render(result)
        comparison.compare(result, GOOD, "hakmem", 0.03)
    except BenchError as error:
        assert str(error).strip()


def test_good_results_pass(tmp_path: Path) -> None:
    """The made-up result, and the one in docs/results."""
    assert schema.problem_of(GOOD) == ""
    kept = sorted((Path(__file__).parents[2] / "docs" / "results").glob("20*.json"))
    assert kept
    for path in kept:
        summary.read_result(path)


@pytest.mark.parametrize("member", sorted(GOOD))
def test_a_missing_member_is_named(tmp_path: Path, member: str) -> None:
    """Except the schema's number, which makes it another kind of file."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps({k: v for k, v in GOOD.items() if k != member}), encoding="utf-8")
    with pytest.raises(BenchError, match=member):
        summary.read_result(path)
