"""A trace → a snapshot in the format of `torch.cuda.memory._snapshot`, for torch's viewer
(pytorch.org/memory_viz) and its `torch.cuda._memory_viz`.

A trace knows no addresses, so blocks are laid out anew: in one segment, an address free again goes
to the next block of its size. Times, sizes, lines and what was live are those of the recording;
sizes are the ones that the report counts, so the viewer's peak is the report's.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, Context, Trace
from jupyter_vram.model.units import CATEGORIES

OWN_KEY = "jupyter_vram"
CELL = "cell"
_BASE = 1 << 40
_SLOT = 512

Categories = NDArray[np.int8]
"""Per block: row of `CATEGORIES`, or `NONE`."""


def dumps(trace: Trace, categories: Categories | None = None) -> bytes:
    """The snapshot as a pickle, which needs no class to be read."""
    return pickle.dumps(to_snapshot(trace, categories), protocol=4)


def to_snapshot(trace: Trace, categories: Categories | None = None) -> dict[str, Any]:
    """The snapshot as torch would give it; `categories` colour the viewer's blocks."""
    device = _ordinal(trace.device)
    stacks = [_frames(context) for context in trace.contexts]
    address, end = _layout(trace)
    names = _names(trace, categories)
    events = _events(trace, stacks, address, names)
    return {
        "segments": _segments(trace, device, stacks, address, end),
        "device_traces": [*([] for _ in range(device)), events],
        "allocator_settings": {},
        "external_annotations": [],
        OWN_KEY: {"version": 1, "sizes": trace.bytes_kind, "device": trace.device},
    }


def _ordinal(device: str) -> int:
    number = device.partition(":")[2]
    return int(number) if number.isdigit() else 0


def _frames(context: Context) -> list[dict[str, Any]]:
    """The innermost first, as torch has them."""
    frames = [
        {"filename": line.source or CELL, "name": "", "line": line.number}
        for line in reversed(context.lines)
    ]
    if context.module is not None:
        frames.insert(
            0, {"filename": context.module.class_name, "name": context.module.path, "line": 0}
        )
    if context.op:
        frames.insert(0, {"filename": "??", "name": context.op, "line": 0})
    return frames


def _names(trace: Trace, categories: Categories | None) -> list[str] | None:
    if categories is None:
        return None
    if len(categories) != len(trace.blocks):
        raise ValueError("categories need one row for each block")
    return [CATEGORIES[row] if row != NONE else "unknown" for row in categories.tolist()]


def _layout(trace: Trace) -> tuple[list[int], int]:
    """Where each block lies, and where the segment ends."""
    blocks = trace.blocks
    slots = (np.maximum(blocks.size_bytes, 1) + _SLOT - 1) // _SLOT * _SLOT
    slot = slots.tolist()
    address = [0] * len(slot)
    end = _BASE
    for row in np.flatnonzero(blocks.alloc_event == NONE).tolist():
        address[row] = end
        end += slot[row]
    free: dict[int, list[int]] = {}
    begins = (blocks.alloc_event[trace.block] == np.arange(len(trace.block))).tolist()
    for row, begin in zip(trace.block.tolist(), begins, strict=True):
        size = slot[row]
        if not begin:
            free.setdefault(size, []).append(address[row])
            continue
        spare = free.get(size)
        if spare:
            address[row] = spare.pop()
        else:
            address[row] = end
            end += size
    return address, end


def _events(
    trace: Trace,
    stacks: list[list[dict[str, Any]]],
    address: list[int],
    names: list[str] | None,
) -> list[dict[str, Any]]:
    blocks = trace.blocks
    size, context = blocks.size_bytes.tolist(), blocks.context.tolist()
    begins = (blocks.alloc_event[trace.block] == np.arange(len(trace.block))).tolist()
    times = (trace.time_ns // 1000).tolist()
    events: list[dict[str, Any]] = []
    for row, begin, time_us in zip(trace.block.tolist(), begins, times, strict=True):
        event = {
            "action": "alloc" if begin else "free_requested",
            "addr": address[row],
            "size": size[row],
            "stream": 0,
            "time_us": time_us,
            "frames": stacks[context[row]] if context[row] != NONE else [],
        }
        if names is not None:
            event["category"] = names[row]
        events.append(event)
        if not begin:
            events.append({**event, "action": "free_completed"})
    return events


def _segments(
    trace: Trace, device: int, stacks: list[list[dict[str, Any]]], address: list[int], end: int
) -> list[dict[str, Any]]:
    if end == _BASE:
        return []
    blocks = trace.blocks
    told: list[dict[str, Any]] = []
    at = _BASE

    def gap(until: int) -> None:
        if until > at:
            told.append(_block(at, until - at, 0, "inactive", []))

    live = np.flatnonzero((blocks.free_event == NONE) & (blocks.size_bytes > 0)).tolist()
    for row in sorted(live, key=address.__getitem__):
        gap(address[row])
        context = int(blocks.context[row])
        size = int(blocks.size_bytes[row])
        frames = stacks[context] if context != NONE else []
        requested = int(blocks.requested_bytes[row])
        told.append(_block(address[row], size, requested, "active_allocated", frames))
        at = address[row] + size
    gap(end)
    active = [block for block in told if block["state"] != "inactive"]
    allocated = sum(block["size"] for block in active)
    return [
        {
            "device": device,
            "address": _BASE,
            "total_size": end - _BASE,
            "allocated_size": allocated,
            "active_size": allocated,
            "requested_size": sum(block["requested_size"] for block in active),
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": told,
        }
    ]


def _block(
    address: int, size: int, requested: int, state: str, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": frames,
    }
