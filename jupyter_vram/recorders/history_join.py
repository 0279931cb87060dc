"""The CUDA allocator's history, joined with what torch's profiler tells of the same allocations.

The history has every allocation of the process, its block and its request; the profiler has the
operation, and by the tracer's time lines the line and the module, also of backward, which has no
Python stack. Both name the address, so each allocation of the one finds itself in the other.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from jupyter_vram.model.trace import NONE, NOWHERE, AllocatorFigures, Context, Trace
from jupyter_vram.recorders.ledger import Block, Ledger
from jupyter_vram.recorders.profiler_walk import Change, Place
from jupyter_vram.recorders.trace_builder import Scene, columns, identify

CLOSE_NS = 5_000_000
"""Two tellings of one allocation lie closer: the history's clock counts microseconds."""


def join(
    history: Trace, changes: Iterable[Change], scene: Scene, retries: int | None = None
) -> Trace:
    """The history's trace of one device, with contexts, identities and owners.

    Args:
        history: with addresses (`Blocks.address`).
        changes: what the profiler saw of this device, by time.
        retries: of the allocator, during the recording.
    """
    address = history.blocks.address
    assert address is not None, "the history tells addresses"
    told = _Told(changes)
    ledger = Ledger(history.device, scene.root_calls)
    order: list[int] = []
    """The ledger's row → the history's."""
    for row in np.flatnonzero(history.blocks.alloc_event == NONE).tolist():
        ledger.add(Block(int(history.blocks.size_bytes[row]), int(address[row])))
        order.append(row)
    events = zip(
        history.time_ns.tolist(), history.change_bytes.tolist(), history.block.tolist(), strict=True
    )
    for time_ns, change_bytes, row in events:
        at = int(address[row])
        known = told.take(at, time_ns, is_alloc=change_bytes > 0)
        place: Place | Context = known.place if known else _own_context(history, row)
        root = known.root if known else NONE
        if change_bytes > 0:
            order.append(row)
        ledger.write(Change(time_ns, change_bytes, at, history.device, place, root))
    identify(ledger, scene)
    joined = columns(
        ledger,
        scene,
        recorder=history.recorder,
        bytes_kind=history.bytes_kind,
        allocator=_with_retries(history.allocator, retries),
        exact=history.exact,
        notes=history.notes,
    )
    requested = history.blocks.requested_bytes[np.array(order, np.int64)]
    return dataclasses.replace(
        joined,
        blocks=dataclasses.replace(
            joined.blocks, requested_bytes=requested, address=address[np.array(order, np.int64)]
        ),
        truncated=history.truncated,
    )


def _own_context(history: Trace, row: int) -> Context:
    context = int(history.blocks.context[row])
    return history.contexts[context] if context != NONE else NOWHERE


def _with_retries(figures: AllocatorFigures | None, retries: int | None) -> AllocatorFigures | None:
    if figures is None or retries is None:
        return figures
    return dataclasses.replace(figures, alloc_retries=retries)


class _Told:
    """The profiler's changes by address, each to be taken once."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._by_address: dict[tuple[int, bool], list[Change]] = {}
        for change in changes:
            key = (change.address, change.change_bytes > 0)
            self._by_address.setdefault(key, []).append(change)

    def take(self, address: int, time_ns: int, *, is_alloc: bool) -> Change | None:
        """The closest in time at that address; ``None`` if the profiler did not see it."""
        found = self._by_address.get((address, is_alloc))
        if not found:
            return None
        at = bisect_left(found, time_ns, key=lambda change: change.time_ns)
        near = range(max(0, at - 1), min(len(found), at + 1))
        best = min(near, key=lambda row: abs(found[row].time_ns - time_ns))
        if abs(found[best].time_ns - time_ns) > CLOSE_NS:
            return None
        return found.pop(best)
