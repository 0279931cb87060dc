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
from jupyter_vram.recorders.profiler_walk import OUTSIDE, Change, Place
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
    told = _told(history, changes)
    ledger = Ledger(history.device, scene.root_calls)
    order: list[int] = []
    """The ledger's row → the history's."""
    for row in np.flatnonzero(history.blocks.alloc_event == NONE).tolist():
        ledger.add(Block(int(history.blocks.size_bytes[row]), int(address[row])))
        order.append(row)
    events = zip(
        history.time_ns.tolist(), history.change_bytes.tolist(), history.block.tolist(), strict=True
    )
    for event, (time_ns, change_bytes, row) in enumerate(events):
        at = int(address[row])
        known = told.get(event)
        root = known.root if known else NONE
        # Of a free that only the history saw, nothing is known but its time.
        place: Place | Context = known.place if known else OUTSIDE
        if change_bytes > 0:
            order.append(row)
            place = known.place if known else _own_context(history, row)
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
    assert len(order) == len(ledger.blocks), "every block of the history is one of the ledger"
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


def _told(history: Trace, changes: Iterable[Change]) -> dict[int, Change]:
    """By event of the history, what the profiler tells of it.

    The history is complete and the profiler is not: so each change looks for its event, the closest
    in time at its address, and not the other way round.
    """
    address = history.blocks.address
    assert address is not None
    at_address: dict[tuple[int, bool], tuple[list[int], list[int]]] = {}
    columns = (address[history.block], history.change_bytes > 0, history.time_ns)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for event, (at, is_alloc, time_ns) in enumerate(rows):
        times, events = at_address.setdefault((at, is_alloc), ([], []))
        times.append(time_ns)
        events.append(event)
    found: dict[int, Change] = {}
    for change in changes:
        key = (change.address, change.change_bytes > 0)
        times, events = at_address.get(key, ([], []))
        middle = bisect_left(times, change.time_ns)
        near = [
            row
            for row in range(max(0, middle - 1), min(len(times), middle + 1))
            if events[row] not in found and abs(times[row] - change.time_ns) <= CLOSE_NS
        ]
        if near:
            closest = min(near, key=lambda row: abs(times[row] - change.time_ns))
            found[events[closest]] = change
    return found
