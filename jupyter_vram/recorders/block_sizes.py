"""What the caching allocator sets aside for a request, by its own rules.

Exact, given the segments and their history:

* A request is rounded up to 512 bytes (or as ``roundup_power2_divisions`` says).
* Up to 1 MiB, and in expandable segments, a block is always split to that size.
* Larger, a free block is taken whole if no more than 1 MiB would be left of it (or if
  ``max_split_size`` forbids the split). Its end is the start of the next block in use, or the end
  of its segment: free neighbours are always merged. So `replay` follows where blocks begin.

What was there before the first event and is freed later has a known beginning, not a known end: it
counts as rounded, which may be up to 1 MiB too little for each such block above 1 MiB.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

MIN_BLOCK_BYTES = 512
SMALL_BYTES = 1 << 20
_MIB_LOG = 20
_DIVISION_STEPS = 16
_UNLIMITED = 1 << 62

PLACE, TAKE, RELEASE, OPEN, CLOSE = 0, 1, 2, 3, 4
"""Steps of `replay`: a block of known size begins; one whose size is asked begins; one is free
again; a segment comes; one goes."""


class Rounding:
    """The rules under one configuration (torch's ``allocator_settings``)."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        settings = settings or {}
        divisions = settings.get("roundup_power2_divisions")
        self._divisions = _divisions(divisions) if isinstance(divisions, dict) else []
        limit = settings.get("max_split_size")
        self.max_split_bytes = limit if isinstance(limit, int) and limit > 0 else _UNLIMITED

    def round(self, requested: Int64) -> Int64:
        """Rounded bytes of each request."""
        rounded = (np.maximum(requested, 1) + MIN_BLOCK_BYTES - 1) & ~(MIN_BLOCK_BYTES - 1)
        if any(division > 1 for division in self._divisions):
            sizes, inverse = np.unique(requested, return_inverse=True)
            by_size = np.array([self._round_one(int(size)) for size in sizes], np.int64)
            rounded = by_size[inverse].reshape(rounded.shape)
        return rounded

    def _round_one(self, size: int) -> int:
        if size < MIN_BLOCK_BYTES:
            return MIN_BLOCK_BYTES
        step = min(max(size.bit_length() - 1 - _MIB_LOG, 0), _DIVISION_STEPS - 1)
        divisions = self._divisions[step]
        if divisions > 1 and size > MIN_BLOCK_BYTES * divisions:
            if size & (size - 1) == 0:
                return size
            floor = 1 << (size.bit_length() - 1)
            part = floor >> (divisions.bit_length() - 1)
            if part == 0:
                return floor << 1
            return -(-size // part) * part
        return -(-size // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES


def _divisions(setting: Mapping[Any, Any]) -> list[int]:
    """By powers of two from 1 MiB on."""
    steps = [0] * _DIVISION_STEPS
    for key, value in setting.items():
        try:
            mib, divisions = int(key), int(value)
        except (TypeError, ValueError):
            continue
        if mib > 0:
            steps[min(mib.bit_length() - 1, _DIVISION_STEPS - 1)] = divisions
    return steps


@dataclass(frozen=True, slots=True)
class Steps:
    """What `replay` takes, as columns, in order."""

    kind: Int64
    address: Int64
    size_bytes: Int64


def taken_sizes(
    starts: Int64, ends: Int64, steps: Steps, *, max_split_bytes: int = _UNLIMITED
) -> Int64:
    """As `replay`, at a fraction of its cost: most blocks can't have been taken whole, as nothing
    ever began or ended within 1 MiB behind them; only the surroundings of the others are followed.
    """
    taken = steps.kind == TAKE
    sizes: Int64 = steps.size_bytes[taken]
    opens = (steps.kind == OPEN) | (steps.kind == CLOSE)
    place = np.where(opens, steps.address + steps.size_bytes, steps.address)
    edges = np.unique(np.concatenate([starts, ends, place]))
    end = place[taken] + sizes
    first = np.searchsorted(edges, end, side="right")
    last = np.searchsorted(edges, end + SMALL_BYTES, side="right")
    doubtful = (last > first) | (sizes >= max_split_bytes)
    if not doubtful.any():
        return sizes
    if (sizes >= max_split_bytes).any():
        near = np.ones(len(edges), np.bool_)
    else:
        depth = np.zeros(len(edges) + 1, np.int64)
        np.add.at(depth, np.searchsorted(edges, end[doubtful], side="left"), 1)
        np.add.at(depth, last[doubtful], -1)
        near = np.cumsum(depth)[:-1] > 0

    def kept(places: Int64) -> NDArray[np.bool_]:
        chosen: NDArray[np.bool_] = near[np.searchsorted(edges, places)]
        return chosen

    kind = steps.kind.copy()
    asked = np.zeros(len(kind), np.bool_)
    asked[np.flatnonzero(taken)[doubtful]] = True
    kind[taken & ~asked] = PLACE
    rows = asked | kept(place)
    sizes[doubtful] = replay(
        starts[kept(starts)].tolist(),
        ends[kept(ends)].tolist(),
        zip(
            kind[rows].tolist(),
            steps.address[rows].tolist(),
            steps.size_bytes[rows].tolist(),
            strict=True,
        ),
        max_split_bytes=max_split_bytes,
    )
    return sizes


def replay(
    starts: Iterable[int],
    ends: Iterable[int],
    steps: Iterable[tuple[int, int, int]],
    *,
    max_split_bytes: int = _UNLIMITED,
) -> list[int]:
    """The size of each block that is taken (step `TAKE`), in order.

    `starts`: where blocks in use begin; `ends`: where segments end, both at first. Steps are (kind,
    address, bytes): rounded bytes for `TAKE`, the segment's for `OPEN` and `CLOSE`.
    """
    edges = sorted([*starts, *ends])
    sizes: list[int] = []
    append, insert = sizes.append, edges.insert
    for kind, address, size in steps:
        if kind == TAKE:
            at = bisect_right(edges, address)
            left = edges[at] - address - size if at < len(edges) else 0
            whole = left > 0 and (left <= SMALL_BYTES or size >= max_split_bytes)
            append(size + left if whole else size)
            insert(at, address)
        elif kind == RELEASE:
            at = bisect_left(edges, address)
            if at < len(edges) and edges[at] == address:
                del edges[at]
        elif kind == PLACE:
            insert(bisect_right(edges, address), address)
        elif kind == OPEN:
            end = address + size
            insert(bisect_right(edges, end), end)
        else:
            at = bisect_left(edges, address + size)
            if at < len(edges) and edges[at] == address + size:
                del edges[at]
    return sizes
