"""Which values of a variable to try: for a grid, and for the largest that fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from jupyter_vram.errors import DryRunError
from jupyter_vram.model.estimate import Axis, Largest

MAX_CELLS = 64
"""Of a grid."""
_RANGE = re.compile(r"(\d+)\s*\.\.\s*(\d+)(?:\s*:\s*(\d+))?\Z")
_LIST = re.compile(r"\d+(?:\s*,\s*\d+)*\Z")
USAGE = (
    "Write --vary batch=1..64 (powers of two between the ends), batch=8..32:8 (every eighth), or"
    " batch=1,2,4."
)


def parse_vary(*texts: str) -> tuple[Axis, ...]:
    """``batch=1..64`` → a variable and its values; one or two of them.

    Raises:
        DryRunError: it is not written so, or asks for too many dry runs.
    """
    axes = tuple(_axis(text) for text in texts)
    if len(axes) > 2:
        raise DryRunError(f"One or two variables can be varied at a time, not {len(axes)}.")
    if len({axis.variable for axis in axes}) < len(axes):
        raise DryRunError(f"{axes[0].variable} is varied twice: once is enough.")
    cells = 1
    for axis in axes:
        cells *= len(axis.values)
    if cells > MAX_CELLS:
        raise DryRunError(
            f"That is {cells} dry runs, and {MAX_CELLS} at most are made: vary fewer values."
        )
    return axes


def _axis(text: str) -> Axis:
    variable, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not variable.isidentifier():
        raise DryRunError(f"{text!r} does not say what to vary. {USAGE}")
    if found := _RANGE.match(values):
        first, last, step = int(found[1]), int(found[2]), found[3]
        if first < 1 or last < first or (step is not None and int(step) < 1):
            raise DryRunError(f"{values!r} goes nowhere: from 1 or more, upwards. {USAGE}")
        chosen = (
            [*range(first, last, int(step)), last] if step else [*_doublings(first, last), last]
        )
    elif _LIST.match(values):
        chosen = [int(value) for value in values.split(",")]
        if 0 in chosen:
            raise DryRunError(f"0 is no value to try for {variable}. {USAGE}")
    else:
        raise DryRunError(f"{values!r} are no values for {variable}. {USAGE}")
    return Axis(variable, tuple(sorted(set(chosen))))


def _doublings(first: int, last: int) -> list[int]:
    values = [first]
    while values[-1] * 2 < last:
        # From 3 on: 3, 4, 8, …
        values.append(1 << values[-1].bit_length())
    return values


class Tried(NamedTuple):
    """A value, and whether the cell fits with it."""

    value: int
    size_bytes: int | None
    """``None``: the dry run failed."""


class Search:
    """The largest value that fits, for several limits: each value is tried once."""

    def __init__(
        self,
        variable: str,
        probe: Callable[[int], int | None],
        *,
        most: int,
        highest: int = 1 << 20,
    ) -> None:
        """
        Args:
            probe: value → bytes that it needs; ``None`` if that dry run failed.
            most: dry runs at most, in all.
            highest: larger values are not tried.
        """
        self._variable = variable
        self._probe = probe
        self._left = most
        self._highest = highest
        self._known: dict[int, int | None] = {}

    def know(self, value: int, size_bytes: int | None) -> None:
        """What a value needs, from a dry run that was made anyway."""
        self._known[value] = size_bytes

    def largest(self, start: int, limit_bytes: int) -> Largest | None:
        """The largest value whose need is within the limit, from `start` on in both directions.

        ``None`` where too few dry runs were left to tell.
        """
        low, high = 0, self._highest + 1
        """It fits with `low`, where that is not 0; it does not with `high`."""
        for value, size_bytes in self._known.items():
            if size_bytes is not None and size_bytes <= limit_bytes:
                low = max(low, value)
            else:
                high = min(high, value)
        value = start
        while low + 1 < high:
            value = self._next(low, high, start, limit_bytes)
            if self._left <= 0:
                return Largest(self._variable, low, at_least=True) if low else None
            self._left -= 1
            size_bytes = self._known[value] = self._probe(value)
            if size_bytes is not None and size_bytes <= limit_bytes:
                low = max(low, value)
            else:
                high = min(high, value)
        if not low:
            return Largest(self._variable, None)
        return Largest(self._variable, low, at_least=high > self._highest)

    def between(self, limit_bytes: int) -> Largest | None:
        """The same from what is known, without another dry run; ``None`` if that tells nothing."""
        fits = [v for v, size in self._known.items() if size is not None and size <= limit_bytes]
        fails = [v for v in self._known if v not in fits]
        if not fits:
            return Largest(self._variable, None) if 1 in fails else None
        low = max(fits)
        above = [value for value in fails if value > low]
        if not above:
            return Largest(self._variable, low, at_least=True)
        high = min(above)
        low_bytes, high_bytes = self._known[low], self._known[high]
        if high == low + 1:
            return Largest(self._variable, low)
        if high_bytes is None or low_bytes is None:
            return Largest(self._variable, low, at_least=True)
        share = (limit_bytes - low_bytes) / (high_bytes - low_bytes)
        return Largest(self._variable, low + int(share * (high - low)), approximate=True)

    def _next(self, low: int, high: int, start: int, limit_bytes: int) -> int:
        """Where memory, nearly linear in the value, would reach the limit; else halfway."""
        if high > self._highest:
            guess = self._line(limit_bytes) or (low * 2 if low else start)
            return min(max(guess, low + 1), max(low * 8, start), self._highest)
        guess = self._line(limit_bytes) or (low + high) // 2
        if not low < guess < high:
            guess = (low + high) // 2
        # A guess that only creeps towards the other end would take as many steps as there are.
        wide = high - low > 16
        return min(max(guess, low + 1 + wide * (high - low) // 16), high - 1)

    def _line(self, limit_bytes: int) -> int | None:
        points = sorted(
            (abs(size_bytes - limit_bytes), value, size_bytes)
            for value, size_bytes in self._known.items()
            if size_bytes is not None
        )[:2]
        if len(points) < 2:
            return None
        (_, first, first_bytes), (_, second, second_bytes) = points
        if first_bytes == second_bytes or first == second:
            return None
        slope = (second_bytes - first_bytes) / (second - first)
        return int(first + (limit_bytes - first_bytes) / slope) if slope > 0 else None
