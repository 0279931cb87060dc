"""Allocations and frees of a snapshot's events, matched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jupyter_vram.model.trace import NONE, Int64
from jupyter_vram.sources import snapshot_events as se
from jupyter_vram.sources.snapshot_events import EventColumns


@dataclass(slots=True)
class Pairs:
    """Allocations and frees, matched by address. All are positions in a device's events."""

    alloc: Int64
    """Allocations, in order."""
    free: Int64
    """By allocation: where it ended; `NONE`: it did not."""
    release: Int64
    """By allocation: where its address was free again; `NONE`: it was not."""
    before_free: Int64
    """Frees of blocks that were there before."""
    before_release: Int64
    """By these: where the address was free again."""
    lone_release: Int64
    """Completions of frees that were requested before the first event."""
    unmatched: int


def pair(events: EventColumns) -> Pairs:
    """Match by address: at each, events alternate between allocation, free and completion."""
    chosen = np.flatnonzero(events.action <= se.FREE_COMPLETED)
    address = events.address[chosen]
    order = np.argsort(address, kind="stable")
    at, address = chosen[order], address[order]
    action = events.action[at]
    n = len(at)
    same = np.zeros(n, np.bool_)
    same[1:] = address[1:] == address[:-1]
    previous = np.full(n, NONE, np.int8)
    previous[1:] = np.where(same[1:], action[:-1], NONE)
    following = np.full(n, NONE, np.int8)
    following[:-1] = np.where(same[1:], action[1:], NONE)

    is_alloc = action == se.ALLOC
    is_free = action == se.FREE_REQUESTED
    is_done = action == se.FREE_COMPLETED
    ends = (is_free | is_done) & (previous == se.ALLOC)
    after_end = is_done & (previous == se.FREE_REQUESTED)

    next_at = np.full(n, NONE, np.int64)
    next_at[:-1] = at[1:]
    second_at = np.full(n, NONE, np.int64)
    second_at[:-2] = at[2:]
    next_ends = np.zeros(n, np.bool_)
    next_ends[:-1] = ends[1:]
    next_done = np.zeros(n, np.bool_)
    next_done[:-1] = after_end[1:]
    second_done = np.zeros(n, np.bool_)
    second_done[:-2] = after_end[2:]
    next_is_completion = np.zeros(n, np.bool_)
    next_is_completion[:-1] = is_done[1:]

    # An allocation at an address in use: the free between was not recorded.
    overtaken = is_alloc & (following == se.ALLOC)
    free = np.where(next_ends | overtaken, next_at, NONE)
    release = np.where(
        next_ends & (next_is_completion | overtaken),
        next_at,
        np.where(next_ends & second_done, second_at, NONE),
    )
    release = np.where(overtaken, next_at, release)
    first_free = is_free & ~same
    before_release = np.where(next_done, next_at, NONE)
    unmatched = (is_free | is_done) & same & ~ends & ~after_end

    allocs = np.flatnonzero(is_alloc)
    by_time = np.argsort(at[allocs], kind="stable")
    allocs = allocs[by_time]
    befores = np.flatnonzero(first_free)
    befores = befores[np.argsort(at[befores], kind="stable")]
    return Pairs(
        alloc=at[allocs],
        free=free[allocs],
        release=release[allocs],
        before_free=at[befores],
        before_release=before_release[befores],
        lone_release=at[is_done & ~same],
        unmatched=int(unmatched.sum()) + int(overtaken.sum()),
    )
