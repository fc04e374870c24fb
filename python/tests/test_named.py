# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of programs that say themselves which workloads they have: shapes and latency."""

from pathlib import Path

import pytest
from fake_build import LIST, places_of, program
from hakmem_tools.bench import latency, shapes
from hakmem_tools.bench.named import Named
from hakmem_tools.bench.places import BenchError

BOTH = pytest.mark.parametrize("what", [shapes.PROGRAM, latency.PROGRAM])


@BOTH
def test_the_program_says_what_there_is(tmp_path: Path, what: Named) -> None:
    where = places_of(program(tmp_path, what.program, LIST))
    found = what.benchmarks([], where)
    assert [(b.name, b.what) for b in found] == [
        (f"{what.prefix}wide", "pages, 3%: few"),
        (f"{what.prefix}thin_1", "one"),
        (f"{what.prefix}last", "two"),
    ]
    assert {b.group for b in found} == {what.program}
    for quick in (False, True):
        assert found[1].command_for(quick) == (what.program, "thin_1")
    chosen = what.benchmarks(["last", "wide", "last"], where)
    assert [what.name_of(b.name) for b in chosen] == ["wide", "last"]


@BOTH
def test_an_unknown_name_is_an_error_that_names_those_that_exist(
    tmp_path: Path, what: Named
) -> None:
    with pytest.raises(BenchError) as error:
        what.benchmarks(["wide", "thin"], places_of(program(tmp_path, what.program, LIST)))
    assert str(error.value) == f"there is no {what.one} 'thin'; there are: wide, thin_1, last"


@BOTH
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no list >&2; exit 2", "failed: no list"),
        ("echo 'a: b'; echo 'c d: e'", "does not say what there is: 'c d: e'"),
        ("echo 'a: '", "does not say what there is: 'a: '"),
        ("true", "does not say what there is: ''"),
    ],
)
def test_a_program_that_does_not_say_it_is_an_error(
    tmp_path: Path, what: Named, script: str, said: str
) -> None:
    with pytest.raises(BenchError) as error:
        what.benchmarks([], places_of(program(tmp_path, what.program, script)))
    assert f"`{what.program} list` {said}" in str(error.value)
