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
MAX_LOOKS = 20
"""Per block: with more places to look up, the walk is cheaper."""

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
    """As `replay`, at a fraction of its cost, without a walk through all steps.

    A block is taken whole only if something begins or ends within 1 MiB behind it. These places are
    few; for each, it is looked up whether it was in use when the block was taken.
    """
    taken = steps.kind == TAKE
    sizes: Int64 = steps.size_bytes[taken]
    opens = (steps.kind == OPEN) | (steps.kind == CLOSE)
    place = np.where(opens, steps.address + steps.size_bytes, steps.address)
    edges, index = np.unique(np.concatenate([starts, ends, place]), return_inverse=True)
    end = place[taken] + sizes
    at = np.searchsorted(edges, end, side="left")
    limit = np.searchsorted(edges, end + SMALL_BYTES, side="right")
    doubtful = np.flatnonzero(limit > np.searchsorted(edges, end, side="right"))
    whole_always = bool((sizes >= max_split_bytes).any())
    if whole_always or int((limit - at)[doubtful].sum()) > MAX_LOOKS * len(sizes):
        walk = zip(
            steps.kind.tolist(), steps.address.tolist(), steps.size_bytes.tolist(), strict=True
        )
        told = replay(starts.tolist(), ends.tolist(), walk, max_split_bytes=max_split_bytes)
        return np.array(told, np.int64)
    if not len(doubtful):
        return sizes
    first = len(starts) + len(ends)
    in_use = _InUse(len(edges), index[:first], index[first:], steps.kind)
    when = np.flatnonzero(taken)[doubtful]
    at, limit = at[doubtful], limit[doubtful]
    while len(doubtful):
        used = in_use.at(at, when)
        hit = doubtful[used]
        sizes[hit] = edges[at[used]] - (end[hit] - sizes[hit])
        at += 1
        left = ~used & (at < limit)
        doubtful, when, at, limit = doubtful[left], when[left], at[left], limit[left]
    return sizes


class _InUse:
    """Where, and at which step, a block begins or a segment ends."""

    def __init__(self, edges: int, first: Int64, index: Int64, kind: Int64) -> None:
        self._steps = len(kind)
        self._first = np.bincount(first, minlength=edges)
        comes = (kind == TAKE) | (kind == PLACE) | (kind == OPEN)
        # By edge, then by step.
        order = np.argsort(index, kind="stable")
        self._keys = index[order] * self._steps + order
        self._level = np.concatenate([[0], np.cumsum(np.where(comes, 1, -1)[order])])
        self._begin = np.searchsorted(self._keys, np.arange(edges) * self._steps)

    def at(self, edge: Int64, step: Int64) -> NDArray[np.bool_]:
        """Whether each edge was there just before a step."""
        until = np.searchsorted(self._keys, edge * self._steps + step)
        count = self._first[edge] + self._level[until] - self._level[self._begin[edge]]
        there: NDArray[np.bool_] = count > 0
        return there


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
