"""A figure, its goal and its verdict."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results import (
    Part,
    Result,
    aligned,
    figure,
    median_interval,
    percentile,
    table,
    write,
)

floats = st.floats(min_value=-1e6, max_value=1e6)


def result(value: float | None, **fields: object) -> Result:
    return Result(part="tick", name="size", value=value, unit="B", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "fields", "verdict"),
    [
        (None, {"goal": 10}, "not measured"),
        (9, {}, ""),
        (10, {"goal": 10}, "met"),
        (10.1, {"goal": 10}, "missed"),
        (0.0, {"goal": 10}, "met"),
        (9, {"goal": 10, "low": 8, "high": 10}, "met"),
        (9, {"goal": 10, "low": 8, "high": 12}, "unresolved"),
        (11, {"goal": 10, "low": 8, "high": 12}, "unresolved"),
        (12, {"goal": 10, "low": 11, "high": 13}, "missed"),
    ],
)
def test_verdict(value: float | None, fields: dict[str, float], verdict: str) -> None:
    assert result(value, **fields).verdict == verdict


def test_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7], 1) == 7


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_percentile_of_nothing(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match=r"no .* of"):
        percentile(values, percent)


@given(st.lists(floats, min_size=1, max_size=50), st.floats(min_value=0.1, max_value=100))
def test_percentile_bounds(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    at_most = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert below / len(values) < percent / 100 <= at_most / len(values) + 1e-9


@given(st.lists(floats, min_size=1, max_size=60))
def test_median_interval_encloses_the_median(values: list[float]) -> None:
    low, high = median_interval(values)
    ordered = sorted(values)
    assert low <= ordered[(len(ordered) - 1) // 2] <= ordered[len(ordered) // 2] <= high


@pytest.mark.parametrize("count", range(1, 80))
def test_median_interval_holds_in_95_percent_of_cases_and_is_no_wider(count: int) -> None:
    low, high = median_interval(range(count))
    left_out = int(low)
    assert left_out == count - 1 - high

    def covers(rank: int) -> float:
        return 1 - sum(math.comb(count, k) for k in range(rank + 1)) / float(2 ** (count - 1))

    if count >= 6:
        assert covers(left_out) >= 0.95
    else:
        assert left_out == 0
    assert covers(left_out + 1) < 0.95


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.01234, "0.0123"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (-56.78, "-56.8"),
    ],
)
def test_figure(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_table_shows_what_was_missed_and_what_is_unknown() -> None:
    lines = table([result(2500, goal=2000), result(None, goal=2000), result(3, low=1, high=5)])
    assert len({len(line.rstrip()) for line in lines.splitlines()[:2]}) <= 2
    head, _, missed, unknown, spread = lines.splitlines()
    assert head.startswith("figure")
    assert "2,500 B" in missed
    assert missed.endswith("missed")
    assert "–" in unknown
    assert unknown.endswith("not measured")
    assert "1.00 … 5.00" in spread


def test_columns_are_aligned() -> None:
    lines = aligned([("a", "b", "c"), ("long name", "1", "met")]).splitlines()
    assert lines == ["a          b  c", "---------  -  ---", "long name  1  met"]


def part(*found: Result) -> Part:
    return Part(results=found, raw=[1], date="2026-01-02", took_s=1 / 3, load_average=0.5)


def test_written_results_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write(path, {"cpu": "some"}, {"tick": part(result(1 / 3, goal=1), result(None))})
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["hardware"] == {"cpu": "some"}
    (written,) = content["parts"].values()
    assert written["took_s"] == 0.333333
    assert written["raw"] == [1]
    first, second = written["results"]
    assert first == {
        "part": "tick", "name": "size", "value": 0.333333, "unit": "B", "goal": 1, "verdict": "met",
    }  # fmt: skip
    assert second["value"] is None
    assert second["verdict"] == "not measured"


def test_parts_of_another_run_stay_if_the_machine_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file.json"

    def parts() -> dict[str, int]:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: len(part["results"]) for name, part in content["parts"].items()}

    write(path, {"cpu": "some"}, {"tick": part(result(1)), "kernel": part(result(2))})
    write(path, {"cpu": "some"}, {"kernel": part(result(3), result(4))})
    assert parts() == {"tick": 1, "kernel": 2}
    write(path, {"cpu": "another"}, {"kernel": part()})
    assert parts() == {"kernel": 0}
