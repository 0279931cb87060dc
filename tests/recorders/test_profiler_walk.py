"""The profiler's events become changes, each with its place: also over threads."""

from __future__ import annotations

import numpy as np

from jupyter_vram.model.trace import NONE
from jupyter_vram.recorders.profiler_walk import ENGINE, Columns, Place, Walk, phase_spans, walk
from jupyter_vram.sources.torch_profiler import MARKER, MemoryEvent, OpEvent

MAIN, ENGINE_THREAD = 1, 7
Event = OpEvent | MemoryEvent


def columns(*pairs: tuple[int, int]) -> Columns:
    times, ids = zip(*pairs, strict=True) if pairs else ((), ())
    return Columns(np.array(times, np.int64), np.array(ids, np.int64))


def op(
    depth: int,
    name: str,
    start: int,
    end: int,
    sequence: int = NONE,
    thread: int = MAIN,
    *,
    backward: bool = False,
    user: bool = False,
) -> OpEvent:
    return OpEvent(depth, name, start, end, sequence, backward, user, thread)


def mem(depth: int, time: int, change: int, address: int = 1, thread: int = MAIN) -> MemoryEvent:
    return MemoryEvent(depth, time, change, address, "cpu", thread)


def walked(events: list[Event], lines: Columns, modules: Columns, last: int = 99) -> Walk:
    return walk([op(0, MARKER, 0, 0, user=True), *events], lines, modules, last)


def places(result: Walk) -> list[Place]:
    return [change.place for change in result.changes if isinstance(change.place, Place)]


def test_line_and_module_by_time_and_the_outermost_operation() -> None:
    events: list[Event] = [
        op(0, "aten::linear", 10, 20, 0),
        op(1, "aten::addmm", 11, 19, 1),
        mem(2, 12, 100),
        mem(0, 35, 50, 2),
    ]
    result = walked(events, columns((5, 3), (30, 4)), columns((8, 6), (25, NONE)))
    assert places(result) == [Place(3, 6, "aten::linear", "forward"), Place(4, NONE, "", "other")]
    assert [change.root for change in result.changes] == [0, NONE]
    assert (result.roots[0].first_sequence, result.roots[0].end_sequence) == (0, 99)


def test_backward_counts_for_its_forward() -> None:
    events: list[Event] = [
        op(0, "aten::mul", 10, 20, 4),
        op(0, "aten::sum", 30, 40, 5),
        op(0, f"{ENGINE}MulBackward0", 50, 60, 4),
        op(1, "MulBackward0", 51, 59, 4, backward=True),
        op(2, "aten::mul", 52, 58),
        mem(3, 53, 100),
    ]
    result = walked(events, columns((5, 1), (25, 2), (45, 3)), columns((8, 6), (25, NONE)))
    assert places(result) == [Place(1, 6, "MulBackward0", "backward")]
    assert result.roots[0].end_sequence == 5


def test_each_thread_has_sequence_numbers_of_its_own() -> None:
    """On a GPU, backward runs in a thread that numbers what it computes again from 0 on."""
    events: list[Event] = [
        op(0, "aten::mul", 10, 20, 0),
        op(0, f"{ENGINE}CheckpointBackward", 50, 60, 7, ENGINE_THREAD),
        op(1, "aten::exp", 51, 52, 0, ENGINE_THREAD),
        op(0, f"{ENGINE}MulBackward0", 70, 80, 0, ENGINE_THREAD),
        mem(1, 75, 100, thread=ENGINE_THREAD),
    ]
    result = walked(events, columns((5, 1), (45, 3)), columns((8, 6), (25, NONE)), last=1)
    assert places(result)[0] == Place(1, 6, "MulBackward0", "backward")
    assert (result.roots[0].first_sequence, result.roots[0].end_sequence) == (0, 1)
    assert result.other_thread_bytes == 0


def test_a_forward_within_backward_is_computed_again() -> None:
    events: list[Event] = [
        op(0, "aten::mul", 10, 20, 4),
        op(0, f"{ENGINE}MulBackward0", 50, 80, 4),
        op(1, "aten::linear", 55, 60, 9),
        mem(2, 56, 100),
    ]
    modules = columns((8, 6), (25, NONE), (54, 2), (62, NONE))
    result = walked(events, columns((5, 1), (45, 3)), modules)
    assert places(result) == [Place(1, 2, "aten::linear", "recompute")]
    spans = phase_spans(result, [(8, 25), (54, 62)])
    assert [(span.phase, span.start_ns) for span in spans] == [
        ("forward", 8),
        ("backward", 50),
        ("recompute", 54),
    ]


def test_other_threads_have_no_lines() -> None:
    events: list[Event] = [op(0, "aten::zeros", 10, 20, thread=3), mem(1, 12, 100, thread=3)]
    result = walked(events, columns((5, 1)), columns())
    assert places(result) == [Place(NONE, NONE, "aten::zeros", "other")]
    assert result.other_thread_bytes == 100


def test_the_optimizer_is_a_phase() -> None:
    events: list[Event] = [
        op(0, "Optimizer.step#SGD.step", 10, 30, user=True),
        op(1, "aten::mul", 12, 14),
        mem(2, 13, 8),
    ]
    result = walked(events, columns((5, 1)), columns())
    assert places(result) == [Place(1, NONE, "aten::mul", "optimizer")]


def test_phases_of_thousands_of_steps_are_found_at_once() -> None:
    """Quadratic, this would take minutes."""
    events: list[Event] = []
    calls = []
    for step in range(30_000):
        at = 100 * step + 10
        calls.append((at, at + 5))
        events.append(op(0, f"{ENGINE}MulBackward0", at + 10, at + 20, step))
    result = walked(events, columns(), columns())
    assert len(phase_spans(result, calls)) == 60_000
