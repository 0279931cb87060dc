"""What is varied, and the search for the largest value that fits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vram.analysis.variation import Search, parse_vary
from jupyter_vram.errors import DryRunError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=1..64", (1, 2, 4, 8, 16, 32, 64)),
        ("batch = 1 .. 48", (1, 2, 4, 8, 16, 32, 48)),
        ("batch=3..20", (3, 4, 8, 16, 20)),
        ("batch=8..32:8", (8, 16, 24, 32)),
        ("batch=4,1,4", (1, 4)),
        ("batch=7..7", (7,)),
    ],
)
def test_values(text: str, values: tuple[int, ...]) -> None:
    (axis,) = parse_vary(text)
    assert (axis.variable, axis.values) == ("batch", values)


@pytest.mark.parametrize(
    "texts",
    [
        ["batch"],
        ["=1..2"],
        ["a b=1"],
        ["batch=64..1"],
        ["batch=0..4"],
        ["batch=0,1"],
        ["batch=one"],
        ["batch=1..4:0"],
        ["batch=1..65:1"],
        ["a=1..16:1", "b=1..5:1"],
        ["a=1", "a=2"],
        ["a=1", "b=1", "c=1"],
    ],
)
def test_what_cannot_be_varied_is_refused(texts: list[str]) -> None:
    with pytest.raises(DryRunError):
        parse_vary(*texts)


@settings(max_examples=200, deadline=None)
@given(
    fixed=st.integers(0, 10**9),
    linear=st.integers(1, 10**7),
    square=st.integers(0, 10**4),
    step=st.integers(1, 10**6),
    limit=st.integers(1, 10**11),
    start=st.integers(1, 64),
)
def test_largest_is_the_largest(
    fixed: int, linear: int, square: int, step: int, limit: int, start: int
) -> None:
    asked: list[int] = []

    def need(value: int) -> int:
        asked.append(value)
        exact = fixed + linear * value + square * value * value
        return -(-exact // step) * step

    search = Search("batch", need, most=60, highest=4096)
    largest = search.largest(start, limit)
    assert largest is not None
    assert len(asked) == len(set(asked)) <= 40
    if largest.value is None:
        assert need(1) > limit
    else:
        assert need(largest.value) <= limit
        assert largest.at_least == (largest.value == 4096)
        if not largest.at_least:
            assert need(largest.value + 1) > limit


def test_several_limits_share_what_was_tried() -> None:
    asked: list[int] = []

    def need(value: int) -> int:
        asked.append(value)
        return 1000 + 100 * value

    search = Search("batch", need, most=60)
    search.know(8, 1800)
    assert [search.largest(8, limit).value for limit in (2000, 4000, 8000, 1050)] == [  # type: ignore[union-attr]
        *(10, 30, 70),
        None,
    ]
    assert len(asked) == len(set(asked)) <= 20


def test_values_that_fail_do_not_fit() -> None:

    largest = Search("seq", lambda value: 100 * value if value <= 1024 else None, most=60).largest(
        128, 10**12
    )
    assert largest is not None
    assert (largest.value, largest.at_least) == (1024, False)


def test_few_dry_runs_give_a_lower_bound_or_nothing() -> None:
    search = Search("batch", lambda value: value, most=2)
    largest = search.largest(1, 10**5)
    assert largest is not None
    assert largest.at_least
    assert Search("batch", lambda value: 10**9 * value, most=1).largest(64, 5) is None
