"""The columns of a tracer: thinned in place, without losing what could have allocated."""

from __future__ import annotations

import pytest

from jupyter_vram.recorders import time_line
from jupyter_vram.recorders.time_line import HOT_TIMES, SHORTEST_NS, TimeLine


def filled(durations: list[tuple[int, int]]) -> TimeLine:
    line = TimeLine()
    now = 0
    for id_, lasts in durations:
        line.times.append(now)
        line.ids.append(id_)
        now += lasts
    return line


def test_what_lasted_long_and_the_last_entry_stay() -> None:
    line = filled([(1, SHORTEST_NS), (2, 10), (3, SHORTEST_NS * 9), (4, 1)])
    append = line.times.append
    assert line.thin() == set()
    times, ids = line.columns()
    assert ids.tolist() == [1, 3, 4]
    assert times.tolist() == [0, SHORTEST_NS + 10, SHORTEST_NS * 10 + 10]
    append(10**9)
    assert len(line.times) == 4, "a writer's bound append still reaches the column"


def test_ids_that_are_always_short_are_named() -> None:
    short = [(1, 10), (2, SHORTEST_NS * 2)] * HOT_TIMES
    assert filled(short).thin() == {1}
    assert filled(short[: HOT_TIMES - 2]).thin() == set()
    # One that mostly is short, but not always.
    assert filled([*short, *[(1, SHORTEST_NS)] * (HOT_TIMES // 15)]).thin() == set()


def test_very_many_entries_are_thinned_more(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(time_line, "LIMIT", 100)
    line = filled([(1, SHORTEST_NS), (2, SHORTEST_NS * 64)] * 80)
    line.thin()
    assert len(line.times) <= 100
    assert set(line.ids) == {2}
