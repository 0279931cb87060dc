"""Memory snapshots as ``torch.cuda.memory._dump_snapshot`` writes them, of any length, and traces
of the same kind: what a long training run leaves.

``python snapshots.py EVENTS PATH`` writes one. Blocks come from a free list per size, so addresses
are used again, as the caching allocator's are; the segments at the end agree with the events.
"""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_vram.model.trace import Trace

SIZES = tuple(512 << step for step in range(0, 16, 3))
"""In bytes; 512 B to 16 MiB."""
CONTEXTS = 400
DEPTH = 12
LIVE = 2_000
"""Blocks that are alive at a time, about."""
BASE_ADDRESS = 0x7F00_0000_0000
CLASS_BYTES = 1 << 40
"""Of the address space, per size."""

Json = dict[str, Any]


def snapshot(events: int, seed: int = 0) -> Json:
    """At least `events` events (at most two more), and the segments after them."""
    draw = random.Random(seed)
    contexts = _contexts()
    trace: list[Json] = []
    free: dict[int, list[int]] = {size: [] for size in SIZES}
    slots = dict.fromkeys(SIZES, 0)
    live: list[tuple[int, int, int, list[Json]]] = []
    time_us = 1_764_547_200_000_000
    while len(trace) < events:
        time_us += 3
        place = draw.randrange(len(contexts))
        frames = list(contexts[place])
        if len(live) < LIVE * draw.random() * 2:
            size = SIZES[place % len(SIZES)]
            if free[size]:
                address = free[size].pop()
            else:
                address = BASE_ADDRESS + SIZES.index(size) * CLASS_BYTES + slots[size] * size
                slots[size] += 1
            requested = size - draw.randrange(size // 2)
            live.append((address, size, requested, frames))
            trace.append(_event("alloc", address, requested, time_us, frames))
        else:
            # Mostly what came last, as backward frees what forward made.
            age = min(len(live) - 1, int(draw.expovariate(0.05)))
            address, size, requested, _ = live.pop(-1 - age)
            free[size].append(address)
            trace.append(_event("free_requested", address, requested, time_us, frames))
            trace.append(_event("free_completed", address, requested, time_us, frames))
    return {
        "segments": [_segment(size, slots[size], live) for size in SIZES if slots[size]],
        "device_traces": [trace],
        "allocator_settings": {},
        "external_annotations": [],
    }


def write(path: Path, events: int) -> None:
    with path.open("wb") as file:
        pickle.dump(snapshot(events), file)


def trace(events: int, seed: int = 0) -> Trace:
    """`events` changes as the recorders' columns: blocks of many lives, some that stay.

    Raises:
        ValueError: an odd number of events.
    """
    import numpy as np

    from jupyter_vram.model.trace import NONE, Blocks, Context, Line, Module, Owner, Trace

    if events % 2:
        raise ValueError(f"{events} events are not pairs")
    draw = np.random.default_rng(seed)
    count = events // 2
    began = np.arange(count, dtype=np.float64)
    ended = began + 0.5 + draw.exponential(1000, count) * draw.choice([0.01, 1, 20], count)
    order = np.argsort(np.concatenate([began, ended]), kind="stable")
    row = np.empty(events, np.int64)
    row[order] = np.arange(events)
    block = (order % count).astype(np.int32)
    sizes = np.array(SIZES)[draw.integers(0, len(SIZES), count)]
    stays = draw.random(count) < 0.001
    # What stays has its end, but nobody sees it: those events are taken out.
    seen = np.ones(events, bool)
    seen[row[count:][stays]] = False
    place = np.cumsum(seen) - 1
    changes = np.where(order < count, sizes[block], -sizes[block])[seen]
    contexts = tuple(
        Context(
            lines=(Line("", 1 + number % 40),),
            module=Module(f"model.layers.{number % 24}.{number % 7}", "Linear"),
            op=f"aten::op{number % 60}",
            phase="forward" if number % 2 else "backward",
        )
        for number in range(CONTEXTS)
    )
    return Trace(
        recorder="cuda",
        bytes_kind="block",
        device="cuda:0",
        start_ns=0,
        end_ns=3_000 * events,
        time_ns=np.arange(len(changes), dtype=np.int64) * 3_000,
        change_bytes=changes.astype(np.int64),
        block=block[seen],
        blocks=Blocks(
            size_bytes=sizes.astype(np.int64),
            requested_bytes=sizes.astype(np.int64),
            alloc_event=place[row[:count]],
            free_event=np.where(stays, NONE, place[row[count:]]),
            context=draw.integers(0, CONTEXTS, count).astype(np.int32),
            identity=np.full(count, NONE, np.int8),
            owner=np.where(stays, 0, NONE).astype(np.int32),
            within_op=draw.random(count) < 0.2,
            saved=draw.random(count) < 0.5,
        ),
        contexts=contexts,
        owners=(Owner("cache[0]"),),
    )


def _contexts() -> list[list[Json]]:
    """Stacks of the usual depth, which share their outer frames."""
    outer = [
        {"name": name, "filename": f"/home/user/{file}.py", "line": line}
        for name, file, line in (
            ("<module>", "train", 210),
            ("main", "train", 180),
            ("train_one_epoch", "engine", 77),
            ("_wrapped_call_impl", "torch/nn/modules/module", 1775),
            ("_call_impl", "torch/nn/modules/module", 1786),
        )
    ]
    return [
        [
            {
                "name": "forward",
                "filename": f"/home/user/model_{number % 7}.py",
                "line": number * DEPTH + depth,
            }
            for depth in range(DEPTH - len(outer))
        ]
        + outer[::-1]
        for number in range(CONTEXTS)
    ]


def _event(action: str, address: int, size: int, time_us: int, frames: list[Json]) -> Json:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "compile_context": "N/A",
        "user_metadata": "",
        "frames": frames,
    }


def _segment(size: int, slots: int, live: list[tuple[int, int, int, list[Json]]]) -> Json:
    start = BASE_ADDRESS + SIZES.index(size) * CLASS_BYTES
    held = {address: (requested, frames) for address, of, requested, frames in live if of == size}
    blocks = []
    for address in range(start, start + slots * size, size):
        requested, frames = held.get(address, (0, []))
        state = "active_allocated" if address in held else "inactive"
        blocks.append(
            {
                "address": address,
                "size": size,
                "requested_size": requested,
                "state": state,
                "frames": frames,
            }
        )
    allocated = size * len(held)
    return {
        "device": 0,
        "address": start,
        "total_size": slots * size,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(requested for requested, _ in held.values()),
        "stream": 0,
        "segment_type": "large" if size > 1 << 20 else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
