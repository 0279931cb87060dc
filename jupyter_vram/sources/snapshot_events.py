"""A memory snapshot of torch's CUDA allocator as columns: `collect` turns torch's own dict into a
`Snapshot`, whichever release made it, and refuses what is none.

Events are read in chunks, and may be emptied behind the reader: a million of torch's dicts take
450 MB, their columns 40 MB.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import eq, itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.errors import SnapshotError

ALLOC, FREE_REQUESTED, FREE_COMPLETED = 0, 1, 2
SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP = 3, 4, 5, 6
OOM, OTHER = 7, 8
ACTIONS = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE_COMPLETED,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_map": SEGMENT_MAP,
    "segment_unmap": SEGMENT_UNMAP,
    "oom": OOM,
}
INACTIVE, ACTIVE, WAITING = 0, 1, 2
STATES = {
    "inactive": INACTIVE,
    "active_allocated": ACTIVE,
    "active_awaiting_free": WAITING,
    "active_pending_free": WAITING,
}
NO_TIME = -1
NO_STACK = -1
CHUNK = 20_000
MAX_DEVICES = 1024

OWN_KEY = "jupyter_vram"
"""Marks the snapshots that this package exports; torch's viewer passes over it."""

Frames = list[Any]
"""torch's frames, the innermost first: dicts with filename, line, name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventColumns:
    """One device's events, oldest first. All columns have the same length."""

    action: NDArray[np.int8]
    address: NDArray[np.int64]
    """0 where an event has none (oom)."""
    size_bytes: NDArray[np.int64]
    """For allocations and frees: what was requested."""
    time_us: NDArray[np.int64]
    """Since the epoch; `NO_TIME` where torch was too old to tell."""
    stack: NDArray[np.int32]
    """Row of `stacks`; `NO_STACK` but for allocations."""
    stacks: tuple[Frames, ...] = ()

    def __len__(self) -> int:
        return len(self.action)

    def rows(self, chosen: NDArray[Any] | slice) -> EventColumns:
        """Some of the events."""
        return EventColumns(
            action=self.action[chosen],
            address=self.address[chosen],
            size_bytes=self.size_bytes[chosen],
            time_us=self.time_us[chosen],
            stack=self.stack[chosen],
            stacks=self.stacks,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumns:
    """Segments of all devices."""

    device: NDArray[np.int64]
    address: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    private: NDArray[np.bool_]
    """In a pool of its own: a CUDA graph's, or the user's."""
    expandable: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockColumns:
    """Blocks of all segments, in their order."""

    segment: NDArray[np.int64]
    """Row of `SegmentColumns`."""
    address: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    requested_bytes: NDArray[np.int64]
    """Of a block in use only: torch leaves stale figures in the others."""
    state: NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What `torch.cuda.memory._snapshot` tells, checked."""

    segments: SegmentColumns
    blocks: BlockColumns
    traces: tuple[EventColumns, ...]
    """By device ordinal; may be shorter or longer than the devices in use."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """torch's ``allocator_settings``; empty before 2.3."""
    final_sizes: Literal["block", "tensor"] | None = None
    """Of our own export only: events carry these bytes, where torch's carry what was requested."""


STACKS_AT_ONCE = 1000
_Key = tuple[int, ...]
_PROBES = (0, 1, 4, 7)
"""Frames that mostly tell stacks apart: a call of a module adds three."""
_NOTHING: tuple[Frames | None, int] = (None, NO_STACK)


def _key(frames: Frames) -> _Key:
    return (len(frames), *(id(frames[probe]) for probe in _PROBES if probe < len(frames)))


class EventCollector:
    """Events of one device → columns, chunk by chunk.

    `consume` empties each event once it is read: for events that nobody else will look at.
    """

    def __init__(self, *, consume: bool = False) -> None:
        self._consume = consume
        self._chunks: list[tuple[NDArray[Any], ...]] = []
        self._likely: dict[_Key, tuple[Frames | None, int]] = {}
        self._rows: dict[tuple[int, ...], int] = {}
        self._stacks: list[Frames] = []

    def extend(self, events: list[Any]) -> None:
        """Append events. Raises `SnapshotError` for what is none."""
        try:
            for start in range(0, len(events), CHUNK):
                self._add(events[start : start + CHUNK])
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise SnapshotError(
                "The snapshot holds an event that torch would not have written"
                f" ({type(error).__name__}: {str(error)[:100]}): the file is damaged."
            ) from error

    def columns(self) -> EventColumns:
        """All events so far."""
        columns = [np.concatenate(parts) for parts in zip(*self._chunks, strict=True)]
        if not columns:
            columns = [np.empty(0, kind) for kind in ("i1", "i8", "i8", "i8", "i4")]
        action, address, size, time, stack = columns
        return EventColumns(
            action=action,
            address=address,
            size_bytes=size,
            time_us=time,
            stack=stack,
            stacks=tuple(self._stacks),
        )

    def _add(self, events: list[dict[str, Any]]) -> None:
        n = len(events)
        action = np.fromiter(
            map(ACTIONS.get, map(itemgetter("action"), events), repeat(OTHER)), np.int8, n
        )
        allocs = action == ALLOC
        self._chunks.append(
            (
                action,
                _integers(events, "addr", 0),
                _integers(events, "size", 0),
                _integers(events, "time_us", NO_TIME),
                self._intern(list(compress(events, allocs.tolist())), allocs),
            )
        )
        if self._consume:
            deque(map(dict.clear, events), maxlen=0)

    def _intern(self, events: list[dict[str, Any]], allocs: NDArray[np.bool_]) -> NDArray[np.int32]:
        """The row of each allocation's stack. torch makes a list for each, of shared frames."""
        stack = np.full(len(allocs), NO_STACK, np.int32)
        try:
            lists = list(map(itemgetter("frames"), events))
        except KeyError:
            lists = [event.get("frames") or [] for event in events]
        rows: list[int] = []
        for start in range(0, len(lists), STACKS_AT_ONCE):
            rows.extend(self._stack_rows(lists[start : start + STACKS_AT_ONCE]))
        stack[allocs] = rows
        return stack

    def _stack_rows(self, lists: list[Frames]) -> list[int]:
        lengths = list(map(len, lists))
        if min(lengths) <= _PROBES[-1]:
            keys: list[_Key] = [_key(frames) for frames in lists]
        else:
            probes = (map(id, map(itemgetter(probe), lists)) for probe in _PROBES)
            keys = list(zip(lengths, *probes, strict=True))
        likely = list(map(self._likely.get, keys, repeat(_NOTHING)))
        # Compares identities first: cheap where frames are shared.
        same = map(eq, lists, map(itemgetter(0), likely))
        return [
            known[1] if is_same else self._row(key, frames)
            for known, is_same, key, frames in zip(likely, same, keys, lists, strict=True)
        ]

    def _row(self, key: _Key, frames: Frames) -> int:
        if not isinstance(frames, list):
            raise TypeError("frames are no list")
        identities = tuple(map(id, frames))
        row = self._rows.get(identities)
        if row is None:
            row = self._rows[identities] = len(self._stacks)
            self._stacks.append(frames)
        self._likely[key] = (frames, row)
        return row


def _integers(events: list[dict[str, Any]], key: str, missing: int) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(itemgetter(key), events), np.int64, len(events))
    except KeyError:
        values = (event.get(key, missing) for event in events)
        return np.fromiter(values, np.int64, len(events))


def collect(
    raw: object,
    *,
    consume: bool = False,
    max_items: int | None = None,
    read: Callable[[list[Any]], EventColumns | None] | None = None,
) -> Snapshot:
    """torch's snapshot (or a bare list of its segments) → `Snapshot`.

    `max_items` bounds segments, blocks and events together; `read` may know the columns of a list
    of events already. Raises `SnapshotError`.
    """
    if isinstance(raw, list):
        raw = {"segments": raw}
    if not isinstance(raw, dict) or not isinstance(raw.get("segments"), list):
        raise SnapshotError(
            "This is no memory snapshot of torch: it has no list of segments. Write one with"
            " torch.cuda.memory._dump_snapshot()."
        )
    traces = raw.get("device_traces")
    traces = [] if traces is None else traces
    if not isinstance(traces, list) or not all(isinstance(trace, list) for trace in traces):
        raise _damaged("its traces are not lists")
    if len(traces) > MAX_DEVICES:
        raise _damaged(f"it has traces of {len(traces)} devices")
    budget = _Budget(max_items)
    segments, blocks = _segments(raw["segments"], budget)
    columns = []
    for trace in traces:
        known = read(trace) if read else None
        if known is None:
            budget.spend(len(trace))
            collector = EventCollector(consume=consume)
            collector.extend(trace)
            known = collector.columns()
        columns.append(known)
    settings = raw.get("allocator_settings")
    return Snapshot(
        segments=segments,
        blocks=blocks,
        traces=tuple(columns),
        settings=settings if isinstance(settings, dict) else {},
        final_sizes=_final_sizes(raw.get(OWN_KEY)),
    )


def _final_sizes(mark: object) -> Literal["block", "tensor"] | None:
    kind = mark.get("sizes") if isinstance(mark, dict) else None
    if kind == "block":
        return "block"
    return "tensor" if kind == "tensor" else None


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the garbage collector: a million new containers make it search them all, over and
    over (2 s of 3)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _damaged(what: str) -> SnapshotError:
    return SnapshotError(f"This memory snapshot is damaged: {what}. Dump it again.")


class _Budget:
    """A small file can name one list many times over."""

    def __init__(self, items: int | None) -> None:
        self._left = items

    def spend(self, items: int) -> None:
        if self._left is None:
            return
        self._left -= items
        if self._left < 0:
            raise _damaged("it names the same lists over and over")


def _segments(raw: Sequence[Any], budget: _Budget) -> tuple[SegmentColumns, BlockColumns]:
    segments: list[tuple[int, int, int, bool, bool]] = []
    blocks: list[tuple[int, int, int, int, int]] = []
    try:
        for row, segment in enumerate(raw):
            own = segment.get("blocks") or []
            if not isinstance(own, list):
                raise TypeError("blocks are no list")
            budget.spend(1 + len(own))
            address = int(segment.get("address") or 0)
            segments.append(
                (
                    int(segment.get("device", 0)),
                    address,
                    int(segment["total_size"]),
                    tuple(segment.get("segment_pool_id") or (0, 0)) != (0, 0),
                    bool(segment.get("is_expandable", False)),
                )
            )
            blocks.extend(_blocks(row, address, own))
        return (
            _segment_columns(segments),
            _block_columns(blocks),
        )
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _damaged(f"a segment is not as torch writes it ({type(error).__name__})") from error


def _blocks(
    row: int, address: int, blocks: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[int, int, int, int, int]]:
    for block in blocks:
        size = int(block["size"])
        # torch 2.0 gives no addresses: blocks fill their segment in order.
        address = int(block.get("address", address))
        requested = block.get("requested_size")
        if requested is None:
            history = block.get("history") or ()
            requested = history[0]["real_size"] if history else size
        state = STATES.get(block["state"], INACTIVE)
        yield row, address, size, int(requested) if state else 0, state
        address += size


def _segment_columns(rows: list[tuple[int, int, int, bool, bool]]) -> SegmentColumns:
    table = np.array(rows, np.int64).reshape(-1, 5)
    return SegmentColumns(
        device=table[:, 0],
        address=table[:, 1],
        size_bytes=table[:, 2],
        private=table[:, 3].astype(np.bool_),
        expandable=table[:, 4].astype(np.bool_),
    )


def _block_columns(rows: list[tuple[int, int, int, int, int]]) -> BlockColumns:
    table = np.array(rows, np.int64).reshape(-1, 5)
    return BlockColumns(
        segment=table[:, 0],
        address=table[:, 1],
        size_bytes=table[:, 2],
        requested_bytes=table[:, 3],
        state=table[:, 4].astype(np.int8),
    )
