"""The profiler's events, joined by time with the lines and modules that ran: → columns of changes.

A backward operation counts for the line and module of the forward operation whose gradient it
computes, which autograd's sequence number tells.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from jupyter_vram.model.trace import NONE, Context, Int64, PhaseSpan
from jupyter_vram.model.units import Phase
from jupyter_vram.sources.torch_profiler import MARKER, MemoryEvent, OpEvent

_LAST_NS = 1 << 62
ENGINE = "autograd::engine::evaluate_function: "
STEP = "Optimizer.step#"
ZERO_GRAD = "Optimizer.zero_grad#"


class Place(NamedTuple):
    """Where a change happened. Rows of the tracer's tables, or `NONE`."""

    line: int
    module: int
    op: str
    phase: Phase


OUTSIDE = Place(NONE, NONE, "", "other")


class Change(NamedTuple):
    """A change of memory, with all that is known of its moment."""

    time_ns: int
    change_bytes: int
    address: int
    device: str
    place: Place | Context
    root: int
    """The outermost operation that it happened in, counted from 0; `NONE` outside of one."""


@dataclass(slots=True)
class Root:
    """An outermost operation. The sequence numbers of the autograd nodes that it created are in
    ``range(first_sequence, end_sequence)``: none for one that autograd did not record."""

    start_ns: int
    end_ns: int
    phase: Phase
    first_sequence: int = NONE
    end_sequence: int = NONE


@dataclass(slots=True)
class Walk:
    """What the walk brings back."""

    changes: list[Change] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    other_thread_bytes: int = 0
    """Allocated in threads whose lines are not known."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A time line of the tracer: ids that are current from a time on."""

    times: Int64
    ids: Int64


class _Cursor:
    """Reads a time line along with events whose times rise."""

    def __init__(self, columns: Columns) -> None:
        self._times = columns.times.tolist()
        self._ids = columns.ids.tolist()
        self._at = -1

    def at(self, time_ns: int) -> int:
        times, at = self._times, self._at
        while at + 1 < len(times) and times[at + 1] <= time_ns:
            at += 1
        self._at = at
        return int(self._ids[at]) if at >= 0 else NONE


class _Open(NamedTuple):
    depth: int
    place: Place
    root: int
    engine: bool
    """It is a node that backward runs, or within one."""


def walk(
    events: Iterable[OpEvent | MemoryEvent], lines: Columns, modules: Columns, last_sequence: int
) -> Walk:
    """Read all events once. `last_sequence`: autograd's next number at the end."""
    result = Walk()
    line_at, module_at = _Cursor(lines), _Cursor(modules)
    forward: dict[tuple[int, int], Place] = {}
    """Thread and sequence number (each thread counts its own) → the forward operation with it."""
    stack: list[_Open] = []
    thread = NONE
    """The recorded one: it set the marker."""
    open_roots: dict[int, list[int]] = {}
    """By thread: forward roots that still lack the end of their sequence numbers."""

    for event in events:
        while stack and stack[-1].depth >= event.depth:
            stack.pop()
        outer = stack[-1] if stack else None
        if isinstance(event, OpEvent):
            if event.name == MARKER and event.is_user:
                thread = event.thread
                continue
            ours = event.thread == thread
            start = event.start_ns
            engine = event.is_backward or event.name.startswith(ENGINE)
            if engine:
                # Mostly a node of the recorded thread; of its own, where it computes again.
                made = forward.get((thread, event.sequence)) or forward.get(
                    (event.thread, event.sequence)
                )
                place = _engine_place(event, outer, made, line_at.at(start) if ours else NONE)
            else:
                line = line_at.at(start) if ours else NONE
                module = module_at.at(start) if ours else NONE
                place = _place(event, outer, line, module)
            is_op = not event.is_user
            root = outer.root if outer else NONE
            if is_op and root == NONE:
                root = len(result.roots)
                result.roots.append(Root(start, event.end_ns, place.phase))
            if event.sequence >= 0 and not engine:
                mine = open_roots.setdefault(event.thread, [])
                for known in mine:
                    result.roots[known].end_sequence = event.sequence
                mine.clear()
                if root != NONE:
                    own = result.roots[root]
                    if own.first_sequence == NONE:
                        own.first_sequence = event.sequence
                    mine.append(root)
                forward[event.thread, event.sequence] = place
            stack.append(_Open(event.depth, place, root, engine or bool(outer and outer.engine)))
        else:
            ours = event.thread == thread
            if outer is not None and (outer.root != NONE or not ours):
                place = outer.place
            else:
                line = line_at.at(event.time_ns) if ours else NONE
                module = module_at.at(event.time_ns) if ours else NONE
                phase: Phase = outer.place.phase if outer else "forward" if module >= 0 else "other"
                place = Place(line, module, "", phase)
            if not ours and event.change_bytes > 0 and place.line == NONE:
                result.other_thread_bytes += event.change_bytes
            result.changes.append(
                Change(
                    event.time_ns,
                    event.change_bytes,
                    event.address,
                    event.device,
                    place,
                    outer.root if outer else NONE,
                )
            )
    for known in open_roots.get(thread, ()):
        result.roots[known].end_sequence = last_sequence
    return result


def _engine_place(event: OpEvent, outer: _Open | None, made: Place | None, line: int) -> Place:
    """A node of backward, or its evaluation: as the forward operation that created it."""
    name = event.name.removeprefix(ENGINE)
    if made is not None and event.sequence >= 0:
        return Place(made.line, made.module, name, "backward")
    if outer is not None and outer.engine:
        return outer.place
    return Place(line, NONE, name.removeprefix("torch::autograd::"), "backward")


def _place(event: OpEvent, outer: _Open | None, line: int, module: int) -> Place:
    name = event.name
    if event.is_user:
        phase: Phase = outer.place.phase if outer else "other"
        if name.startswith((STEP, ZERO_GRAD)):
            phase = "optimizer"
        return Place(line, module, outer.place.op if outer else "", phase)
    if outer is None:
        return Place(line, module, name, "forward" if module >= 0 else "other")
    if outer.engine:
        # Within a node of backward: its own arithmetic, or a forward that is computed again.
        if module >= 0:
            return Place(outer.place.line, module, name, "recompute")
        return outer.place
    op = outer.place.op or name
    phase = outer.place.phase
    if phase == "other" and module >= 0:
        phase = "forward"
    return Place(line, module, op, phase)


def phase_spans(walked: Walk, root_calls: list[tuple[int, int]]) -> tuple[PhaseSpan, ...]:
    """Stretches of forward (calls of the outermost modules), recompute, backward, optimizer.

    Neighbours of one phase with nothing else between them are one stretch.
    """
    backward = sorted(
        (root.start_ns, root.end_ns) for root in walked.roots if root.phase == "backward"
    )
    spans: list[PhaseSpan] = []
    for start, end in root_calls:
        # Outermost operations do not overlap: the last to begin before it is the one.
        at = bisect_right(backward, (start, _LAST_NS)) - 1
        inside = at >= 0 and start <= backward[at][1]
        spans.append(PhaseSpan("recompute" if inside else "forward", start, end))
    spans.extend(
        PhaseSpan(root.phase, root.start_ns, root.end_ns)
        for root in walked.roots
        if root.phase in ("backward", "optimizer")
    )
    spans.sort(key=lambda span: span.start_ns)
    return _merged(spans)


def _merged(spans: list[PhaseSpan]) -> tuple[PhaseSpan, ...]:
    merged: list[PhaseSpan] = []
    nested = [span for span in spans if span.phase == "recompute"]
    for span in spans:
        if span.phase == "recompute":
            continue
        if merged and merged[-1].phase == span.phase:
            merged[-1] = PhaseSpan(
                span.phase, merged[-1].start_ns, max(merged[-1].end_ns, span.end_ns)
            )
        else:
            merged.append(span)
    return tuple(sorted([*merged, *nested], key=lambda span: span.start_ns))
