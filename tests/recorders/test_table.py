"""Rows in columns: unknown stays unknown, columns come and go, old rows go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.recorders.table import Table, extremes


def test_a_column_that_comes_late_is_unknown_before() -> None:
    table = Table(100)
    table.append(1, {"a": 10})
    table.append(2, {"a": 11, ("k", "process"): 5})
    table.append(3, {"a": None})
    rows = table.rows_from(0)
    assert table.take("a", rows) == [10, 11, None]
    assert table.take(("k", "process"), rows) == [None, 5, None]
    assert table.take("b", rows) == [None, None, None]


def test_old_rows_and_columns_without_a_value_go() -> None:
    table = Table(10)
    table.append(0, {"a": 1, "gone": 1})
    for moment in range(1, 31):
        table.append(moment, {"a": moment})
    assert table.times[0] >= 30 - 10 * 1.1
    assert list(table.keys) == ["a"]
    assert len(table) == len(table.take("a", table.rows_from(0)))


def test_a_clock_set_back_drops_what_is_in_the_future() -> None:
    table = Table(100)
    for moment in (10, 20, 30):
        table.append(moment, {"a": moment})
    table.append(15, {"a": 15})
    assert list(table.times) == [10, 15]
    assert table.take("a", table.rows_from(0)) == [10, 15]


def test_folding_keeps_the_sum() -> None:
    table = Table(100)
    table.append(1, {"other_bytes": 1, ("k", "process"): 5})
    table.append(2, {"other_bytes": 2})
    table.append(3, {"other_bytes": None, ("k", "process"): 7})
    table.fold(("k", "process"), into="other_bytes")
    assert table.take("other_bytes", table.rows_from(0)) == [6, 2, 7]
    assert list(table.keys) == ["other_bytes"]


def test_what_was_folded_lives_as_long_as_its_rows() -> None:
    table = Table(100)
    table.append(1, {})
    table.append(60, {("k", "process"): 5})
    table.fold(("k", "process"), into="other_bytes")
    assert table.used_since(60) == ("other_bytes",)
    table.append(110, {})
    assert table.take("other_bytes", table.rows_from(0)) == [5, None]


VALUES = st.lists(st.none() | st.integers(0, 1000), min_size=1, max_size=200)


@given(VALUES, st.floats(0.5, 50))
def test_extremes_keep_the_least_and_the_greatest(
    values: list[float | None], width_s: float
) -> None:
    times = [float(position) for position in range(len(values))]
    chosen = extremes(times, values, width_s)
    assert chosen == sorted(set(chosen))
    known = [value for value in values if value is not None]
    kept = [value for p in chosen if (value := values[p]) is not None]
    if known:
        assert (min(kept), max(kept)) == (min(known), max(known))
    buckets = [times[p] // width_s for p in chosen]
    assert set(buckets) == {time // width_s for time in times}
    assert all(buckets.count(bucket) <= 2 for bucket in buckets)


@pytest.mark.parametrize("values", [[], [None]])
def test_extremes_of_nothing(values: list[float | None]) -> None:
    assert extremes([0.0] * len(values), values, 10) == list(range(len(values)))
