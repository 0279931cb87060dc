"""Rows over time in compact columns, some of which come and go."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

Key = str | tuple[str, str]
Row = Mapping[Key, float | None]

TRIM_SHARE = 0.05
"""Rows too old are dropped once they make up this share of the span: not at every append."""


class Table:
    """Rows of the last `span_s` seconds, by growing time. Unknown is NaN inside."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._columns: dict[Key, array[float]] = {}
        self.times = array("d")
        """Of the rows: seconds since the epoch, growing."""
        self._last_set: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        """Bytes of all figures held."""
        return 8 * len(self.times) * (len(self._columns) + 1)

    @property
    def keys(self) -> Collection[Key]:
        """The columns that there are now."""
        return self._columns.keys()

    def append(self, time: float, row: Row) -> None:
        """Add a row. If the clock was set back, the rows of times to come are dropped."""
        self._cut_from(bisect_left(self.times, time))
        for key, value in row.items():
            if value is not None:
                self._last_set[key] = time
                if key not in self._columns:
                    self._columns[key] = array("d", (math.nan,)) * len(self.times)
        self.times.append(time)
        for key, column in self._columns.items():
            value = row.get(key)
            column.append(math.nan if value is None else value)
        if self.times[0] < time - self._span_s * (1 + TRIM_SHARE):
            self._trim(time - self._span_s)

    def last_set(self, key: Key) -> float:
        """When a column last had a value."""
        return self._last_set[key]

    def fold(self, key: Key, into: Key) -> None:
        """Remove the column `key`, its values added to those of the column `into`."""
        column = self._columns.pop(key)
        last_set = self._last_set.pop(key)
        self._last_set[into] = max(last_set, self._last_set.get(into, last_set))
        target = self._columns.setdefault(into, array("d", (math.nan,)) * len(self.times))
        for position, value in enumerate(column):
            if not math.isnan(value):
                before = target[position]
                target[position] = value if math.isnan(before) else before + value

    def used_since(self, since: float) -> tuple[Key, ...]:
        """The columns with a value at or after `since`."""
        return tuple(key for key, time in self._last_set.items() if time >= since)

    def rows_from(self, since: float) -> range:
        """The positions of the rows at or after `since`."""
        return range(bisect_left(self.times, since), len(self.times))

    def take(self, key: Key, positions: Iterable[int]) -> list[float | None]:
        """The values of one column at `positions`; all unknown if there is no such column."""
        column = self._columns.get(key)
        if column is None:
            return [None for _ in positions]
        return [None if math.isnan(value := column[p]) else value for p in positions]

    def _cut_from(self, position: int) -> None:
        if position < len(self.times):
            del self.times[position:]
            for column in self._columns.values():
                del column[position:]

    def _trim(self, oldest: float) -> None:
        count = bisect_left(self.times, oldest)
        del self.times[:count]
        for key, column in list(self._columns.items()):
            if self._last_set.get(key, 0.0) < oldest:
                del self._columns[key]
                self._last_set.pop(key, None)
            else:
                del column[:count]


def extremes(times: Sequence[float], values: Sequence[float | None], width_s: float) -> list[int]:
    """Thin rows out: for each `width_s` of time, the positions of the least and the greatest value.

    Whole rows are chosen, so what added up in a row still does. Where no value of a stretch is
    known, its first row stands for it. `times` grow.
    """
    chosen: list[int] = []
    start = 0
    while start < len(times):
        bucket = times[start] // width_s
        end = start
        low = high = start
        while end < len(times) and times[end] // width_s == bucket:
            value = values[end]
            if value is not None:
                lowest, highest = values[low], values[high]
                if lowest is None or value < lowest:
                    low = end
                if highest is None or value > highest:
                    high = end
            end += 1
        chosen.extend(sorted({low, high}))
        start = end
    return chosen
