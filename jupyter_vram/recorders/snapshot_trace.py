"""A memory snapshot → a `Trace` per device.

* ``allocated`` falls when a free is requested; the address is taken until it has completed.
* What was live at first is what is live at the end less what the events changed. So a ring that
  lost its oldest events still gives true totals.
* Sizes are block bytes, as `torch.cuda.memory_allocated` counts them: see `block_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, AllocatorFigures, Blocks, Int64, PhaseSpan, Trace
from jupyter_vram.model.units import RecorderKind
from jupyter_vram.recorders import block_sizes, snapshot_notes
from jupyter_vram.recorders.event_pairs import Pairs, pair
from jupyter_vram.recorders.snapshot_contexts import ContextTable
from jupyter_vram.sources import snapshot_events as se
from jupyter_vram.sources.snapshot_events import Snapshot

MAX_SPANS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """How to read a snapshot. All times are nanoseconds since the epoch."""

    recorder: RecorderKind = "snapshot"
    start_ns: int | None = None
    """Events before it count as having been."""
    end_ns: int | None = None
    max_entries: int | None = None
    """Of the ring, where known: a trace of that many events has lost some."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the user calls a source, by its file name: ``{"/tmp/ipykernel_1/2.py": "In [3]"}``."""
    line_offsets: Mapping[str, int] = field(default_factory=dict)
    """By file name: what to add to a line's number, so that it is as the user sees it."""
    before: Snapshot | None = None
    """Taken at the start: gives the true sizes of what was there before."""
    notes: tuple[str, ...] = ()
    """To stand before those of the trace."""


DEFAULTS = TraceOptions()


def traces_from_snapshot(snapshot: Snapshot, options: TraceOptions = DEFAULTS) -> tuple[Trace, ...]:
    """A trace of each device that held memory or has events, by ordinal."""
    used = set(snapshot.segments.device.tolist())
    used.update(i for i, trace in enumerate(snapshot.traces) if len(trace))
    return tuple(_DeviceTrace(snapshot, device, options).trace() for device in sorted(used))


class _DeviceTrace:
    def __init__(self, snapshot: Snapshot, device: int, options: TraceOptions) -> None:
        self._snapshot = snapshot
        self._device = device
        self._options = options
        self._notes: list[str] = list(options.notes)
        self._rounding = block_sizes.Rounding(snapshot.settings)
        events = snapshot.traces[device] if device < len(snapshot.traces) else None
        if events is None:
            events = se.EventCollector().columns()
        self._ring = len(events)
        self._timed = bool(len(events)) and bool((events.time_us != se.NO_TIME).all())
        if options.start_ns is not None and self._timed:
            events = events.rows(events.time_us * 1000 >= options.start_ns // 1000 * 1000)
        self._events = events
        segments, blocks = snapshot.segments, snapshot.blocks
        self._own = np.flatnonzero(segments.device == device)
        mine = segments.device[blocks.segment] == device
        self._live_rows = np.flatnonzero(mine & (blocks.state == se.ACTIVE))
        self._held_rows = np.flatnonzero(mine & (blocks.state != se.INACTIVE))
        self._idle_rows = np.flatnonzero(mine & (blocks.state == se.INACTIVE))

    def trace(self) -> Trace:
        events, blocks = self._events, self._snapshot.blocks
        pairs = pair(events)
        n_alloc, n_freed = len(pairs.alloc), len(pairs.before_free)

        # Live at the end: blocks in the segments, each by its last allocation or from before.
        live_address = blocks.address[self._live_rows]
        open_rows = np.flatnonzero(pairs.free == NONE)
        open_address = events.address[pairs.alloc[open_rows]]
        live_sorted = np.argsort(live_address, kind="stable")
        found = np.searchsorted(live_address[live_sorted], open_address)
        found = np.minimum(found, max(len(live_address) - 1, 0))
        held = np.zeros(len(open_rows), np.bool_)
        if len(live_address):
            held = live_address[live_sorted][found] == open_address
        live_row = live_sorted[found[held]] if len(live_address) else np.empty(0, np.int64)
        from_before = np.ones(len(live_address), np.bool_)
        from_before[live_row] = False
        stayed = self._live_rows[from_before]

        # Allocated, not freed, and yet not there: its free was not recorded.
        lost = open_rows[~held] if len(self._own) else np.empty(0, np.int64)
        free = pairs.free.copy()
        end_position = len(events)
        free[lost] = end_position

        requested = np.concatenate(
            [
                events.size_bytes[pairs.alloc],
                events.size_bytes[pairs.before_free],
                blocks.requested_bytes[stayed],
            ]
        )
        sizes = np.concatenate(
            [
                self._sizes(pairs, stayed),
                self._sizes_before(pairs.before_free),
                blocks.size_bytes[stayed],
            ]
        )
        if len(live_address):
            sizes[open_rows[held]] = blocks.size_bytes[self._live_rows[live_row]]

        total = len(sizes)
        alloc_rows = np.arange(n_alloc)
        freed_rows = np.flatnonzero(free != NONE)
        before_rows = np.arange(n_alloc, n_alloc + n_freed)
        position = np.concatenate([pairs.alloc, free[freed_rows], pairs.before_free])
        row = np.concatenate([alloc_rows, freed_rows, before_rows])
        # At one position, what ends comes before what begins.
        rank = position * 2
        rank[:n_alloc] += 1
        order = np.argsort(rank, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        alloc_event = np.full(total, NONE, np.int64)
        free_event = np.full(total, NONE, np.int64)
        alloc_event[:n_alloc] = place[:n_alloc]
        free_event[freed_rows] = place[n_alloc : n_alloc + len(freed_rows)]
        free_event[before_rows] = place[n_alloc + len(freed_rows) :]
        change = sizes[row]
        change[n_alloc:] *= -1

        time_ns, start_ns, end_ns = self._times()
        event_time = np.append(time_ns, end_ns)[position[order]]
        table, context = self._contexts(pairs)
        self._tell(pairs, len(lost))
        full_context = np.full(total, NONE, np.int32)
        full_context[:n_alloc] = context
        return Trace(
            recorder=self._options.recorder,
            bytes_kind=self._snapshot.final_sizes or "block",
            # A file of ours can tell of tensors on the CPU.
            device="cpu" if self._snapshot.final_sizes == "tensor" else f"cuda:{self._device}",
            start_ns=start_ns,
            end_ns=end_ns,
            time_ns=event_time,
            change_bytes=change[order],
            block=row[order].astype(np.int32),
            blocks=Blocks(
                size_bytes=sizes,
                requested_bytes=requested,
                alloc_event=alloc_event,
                free_event=free_event,
                context=full_context,
                identity=np.full(total, NONE, np.int8),
                owner=np.full(total, NONE, np.int32),
                within_op=np.zeros(total, np.bool_),
                saved=np.zeros(total, np.bool_),
                address=np.concatenate(
                    [
                        events.address[pairs.alloc],
                        events.address[pairs.before_free],
                        blocks.address[stayed],
                    ]
                ),
            ),
            contexts=table.contexts,
            phases=_spans(table, context, time_ns[pairs.alloc], end_ns),
            allocator=self._figures(),
            truncated=self._truncated(pairs, int(sizes[alloc_event == NONE].sum())),
            notes=tuple(self._notes),
        )

    def _times(self) -> tuple[Int64, int, int]:
        """Per event, and the recording's start and end."""
        options, n = self._options, len(self._events)
        if self._timed:
            times = np.maximum.accumulate(self._events.time_us) * 1000
        else:
            first = options.start_ns or 0
            times = np.arange(first, first + n, dtype=np.int64)
        start = options.start_ns if options.start_ns is not None else int(times[0]) if n else 0
        end = options.end_ns if options.end_ns is not None else int(times[-1]) if n else start
        end = max(end, start, int(times[-1]) if n else start)
        return np.maximum(times, start), start, end

    def _sizes(self, pairs: Pairs, stayed: Int64) -> Int64:
        """Block bytes of each allocation of the trace."""
        events = self._events
        sizes = self._rounded(pairs.alloc)
        if self._snapshot.final_sizes or self._expandable():
            return sizes
        large = sizes > block_sizes.SMALL_BYTES
        segment_events = (events.action == se.SEGMENT_ALLOC) | (events.action == se.SEGMENT_FREE)
        if not large.any() or not (len(self._own) or segment_events.any()):
            return sizes
        before = events.address[pairs.before_free]
        waiting = events.address[pairs.lone_release]
        blocks = self._snapshot.blocks
        pending = self._held_rows[blocks.state[self._held_rows] == se.WAITING]
        unseen = np.setdiff1d(
            blocks.address[pending], np.concatenate([events.address[pairs.alloc], before])
        )
        starts = np.concatenate([blocks.address[stayed], before, waiting, unseen])
        kinds, places, amounts, when = [], [], [], []

        def add(kind: int, at: Int64, amount: Int64 | None = None) -> None:
            kinds.append(np.full(len(at), kind, np.int64))
            places.append(events.address[at])
            amounts.append(np.zeros(len(at), np.int64) if amount is None else amount)
            when.append(at)

        large_rows = np.flatnonzero(large)
        released = pairs.release[large_rows]
        add(block_sizes.TAKE, pairs.alloc[large_rows], sizes[large_rows])
        add(block_sizes.RELEASE, released[released != NONE])
        add(block_sizes.RELEASE, pairs.before_release[pairs.before_release != NONE])
        add(block_sizes.RELEASE, pairs.lone_release)
        opened = np.flatnonzero(events.action == se.SEGMENT_ALLOC)
        closed = np.flatnonzero(events.action == se.SEGMENT_FREE)
        add(block_sizes.OPEN, opened, events.size_bytes[opened])
        add(block_sizes.CLOSE, closed, events.size_bytes[closed])
        order = np.argsort(np.concatenate(when), kind="stable")
        steps = block_sizes.Steps(
            np.concatenate(kinds)[order],
            np.concatenate(places)[order],
            np.concatenate(amounts)[order],
        )
        sizes[large] = block_sizes.taken_sizes(
            starts,
            np.array(self._first_ends(opened, closed), np.int64),
            steps,
            max_split_bytes=self._rounding.max_split_bytes,
        )
        return sizes

    def _rounded(self, at: Int64) -> Int64:
        sizes = self._events.size_bytes[at]
        return sizes if self._snapshot.final_sizes else self._rounding.round(sizes)

    def _expandable(self) -> bool:
        """torch notes the setting from 2.3 on."""
        return (
            bool(self._snapshot.settings.get("expandable_segments", False))
            or bool(self._snapshot.segments.expandable[self._own].any())
            or bool((self._events.action == se.SEGMENT_MAP).any())
        )

    def _first_ends(self, opened: Int64, closed: Int64) -> list[int]:
        """Where segments ended before the first event: those of the end, less what came since, and
        what went since."""
        events, segments = self._events, self._snapshot.segments
        first: dict[int, int] = {}
        for row in self._own.tolist():
            address = int(segments.address[row])
            first[address] = address + int(segments.size_bytes[row])
        changes = sorted([*opened.tolist(), *closed.tolist()], reverse=True)
        for at in changes:
            address, size = int(events.address[at]), int(events.size_bytes[at])
            if events.action[at] == se.SEGMENT_ALLOC:
                first.pop(address, None)
            else:
                first[address] = address + size
        return list(first.values())

    def _sizes_before(self, freed: Int64) -> Int64:
        """Of blocks from before that were freed: by a snapshot at the start, else rounded."""
        events, before = self._events, self._options.before
        sizes = self._rounded(freed)
        if before is None or not len(freed):
            return sizes
        mine = before.segments.device[before.blocks.segment] == self._device
        rows = np.flatnonzero(mine & (before.blocks.state == se.ACTIVE))
        if not len(rows):
            return sizes
        address = before.blocks.address[rows]
        order = np.argsort(address)
        at = np.minimum(np.searchsorted(address[order], events.address[freed]), len(rows) - 1)
        hit = address[order][at] == events.address[freed]
        return np.where(hit, before.blocks.size_bytes[rows[order[at]]], sizes)

    def _contexts(self, pairs: Pairs) -> tuple[ContextTable, NDArray[np.int32]]:
        """Per allocation: the row of its context."""
        events = self._events
        table = ContextTable(self._options.labels, self._options.line_offsets)
        stack = events.stack[pairs.alloc]
        by_stack = np.full(len(events.stacks) + 1, NONE, np.int32)
        for row in np.unique(stack).tolist():
            frames = events.stacks[row] if row != se.NO_STACK else ()
            by_stack[row] = table.of_stack(frames)
        context = by_stack[stack]
        return table, context

    def _figures(self) -> AllocatorFigures | None:
        events, snapshot = self._events, self._snapshot
        sizes = snapshot.segments.size_bytes[self._own]
        reserved = int(sizes.sum())
        if snapshot.final_sizes == "tensor" or (not len(self._own) and not len(events)):
            return None
        grows = (events.action == se.SEGMENT_ALLOC) | (events.action == se.SEGMENT_MAP)
        shrinks = (events.action == se.SEGMENT_FREE) | (events.action == se.SEGMENT_UNMAP)
        change = np.where(grows, events.size_bytes, 0) - np.where(shrinks, events.size_bytes, 0)
        # Backwards from the end, so that a full ring gives true figures, too.
        later = int(change.sum()) - np.cumsum(change)
        peak = max(reserved, int((reserved - later).max(initial=0)))
        if len(events):
            peak = max(peak, reserved - int(change.sum()))
        rows = self._idle_rows
        segment = snapshot.blocks.segment[rows]
        blocks_in = np.bincount(snapshot.blocks.segment, minlength=len(snapshot.segments.device))
        split = (blocks_in[segment] > 1) & ~snapshot.segments.expandable[segment]
        private = int(sizes[snapshot.segments.private[self._own]].sum())
        if private:
            self._notes.append(snapshot_notes.GRAPHS.format(mib=round(private / (1 << 20))))
        return AllocatorFigures(
            reserved_bytes=reserved,
            peak_reserved_bytes=peak if len(events) else None,
            inactive_split_bytes=int(snapshot.blocks.size_bytes[rows][split].sum()),
            private_pool_bytes=private,
            ooms=int((events.action == se.OOM).sum()) if len(events) else None,
        )

    def _truncated(self, pairs: Pairs, start_bytes: int) -> bool:
        options, early = self._options, len(pairs.before_free) + len(pairs.lone_release)
        if options.max_entries is not None:
            if self._ring < options.max_entries or len(self._events) < self._ring:
                return False
            self._notes.append(snapshot_notes.RING_FULL)
            return True
        if options.before is not None:
            if start_bytes == _allocated(options.before, self._device) or not self._timed:
                return False
            self._notes.append(snapshot_notes.RING_FULL)
            return True
        if not early:
            return False
        if self._ring >= 1000 and self._ring % 1000 == 0 and len(self._events) == self._ring:
            self._notes.append(snapshot_notes.RING_ROUND.format(events=self._ring))
            return True
        if options.recorder == "snapshot":
            self._notes.append(snapshot_notes.BEGINS_LATE.format(count=early))
        return False

    def _tell(self, pairs: Pairs, lost: int) -> None:
        if not self._ring:
            self._notes.append(snapshot_notes.NO_EVENTS)
        elif not self._timed:
            self._notes.append(snapshot_notes.NO_TIMES)
            if self._options.start_ns is not None and self._options.max_entries is None:
                self._notes.append(snapshot_notes.NO_BRACKET)
        if pairs.unmatched + lost:
            self._notes.append(snapshot_notes.MISSING.format(count=pairs.unmatched + lost))


def _allocated(snapshot: Snapshot, device: int) -> int:
    blocks = snapshot.blocks
    mine = snapshot.segments.device[blocks.segment] == device
    return int(blocks.size_bytes[mine & (blocks.state == se.ACTIVE)].sum())


def _spans(
    table: ContextTable, context: NDArray[np.int32], time_ns: Int64, end_ns: int
) -> tuple[PhaseSpan, ...]:
    """Runs of one phase, as far as stacks tell; each lasts until the next begins."""
    phases = [known.phase for known in table.contexts]
    kinds = sorted(set(phases) - {"other"})
    if not kinds or not len(context):
        return ()
    code = np.array([kinds.index(p) if p != "other" else NONE for p in phases], np.int32)
    per_event = code[context]
    told = np.flatnonzero(per_event != NONE)
    starts = told[np.flatnonzero(np.diff(per_event[told], prepend=NONE))]
    if not len(starts) or len(starts) > MAX_SPANS:
        return ()
    last = np.append(told[np.searchsorted(told, starts[1:]) - 1], told[-1])
    return tuple(
        PhaseSpan(kinds[per_event[first]], int(time_ns[first]), min(int(time_ns[end]), end_ns))
        for first, end in zip(starts.tolist(), last.tolist(), strict=True)
    )
