"""What recordings of one thread share, since torch has one profiler and a thread one tracer.

A recording within another cuts the profiler's session in two: what happened in each piece belongs
to all recordings that were open then.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from jupyter_vram.errors import RecordingError
from jupyter_vram.recorders.cell_monitor import CellMonitor
from jupyter_vram.recorders.cell_tracer import CellTracer
from jupyter_vram.recorders.holders import StorageOf, storage_of
from jupyter_vram.recorders.places import Places
from jupyter_vram.recorders.sightings import Sightings
from jupyter_vram.sources.torch_profiler import ProfilerSession

ALREADY_PROFILED = (
    "torch's profiler is already on in this kernel, and there is only one: stop it"
    " (torch.profiler.profile.stop(), or leave its `with` block), then record."
)
OTHER_THREAD = (
    "Another thread of this kernel is recording, and torch has one profiler: wait until it has"
    " ended."
)

Pieces = list[ProfilerSession | None]
"""The profiler's sessions of one recording, by time."""
IsCell = Callable[[str], bool]
"""Whether a recording tells the lines of a file name's code apart."""

_lock = threading.Lock()
_current: Session | None = None


_EMPTY = "<empty lines of jupyter_vram>"
_EMPTY_LINES = compile("for _ in range(200):\n    a = 1\n    b = 2\n    c = 3\n", _EMPTY, "exec")


def tracer_of(places: Places) -> CellTracer | CellMonitor:
    """What sees lines and modules in this version of Python."""
    return CellMonitor(places) if sys.version_info >= (3, 12) else CellTracer(places)


def empty_line_ns() -> int:
    """What an empty line takes under the tracer: the median of some hundred."""
    places = Places(_EMPTY.__eq__)
    tracer = tracer_of(places)
    if not tracer.start():
        return 0
    try:
        exec(_EMPTY_LINES, {})
    finally:
        tracer.stop()
    times = sorted(map(int.__sub__, places.lines.times[1:], places.lines.times))
    return times[len(times) // 2]


class Session:
    """The one session of this process: its profiler, its tracer, and the pieces of time."""

    def __init__(self, torch: Any, storage_of: StorageOf = storage_of) -> None:
        self.thread = threading.get_ident()
        self.sightings = Sightings(torch, storage_of)
        self.places = Places(
            self._is_cell,
            module_call=self.sightings.module_call,
            on_root=self.sightings.on_root,
            watched=self.sightings.watched(),
        )
        self.tracer = tracer_of(self.places)
        self.traces_lines = False
        self._open: list[Pieces] = []
        self._cells: list[IsCell] = []
        self._profiler: ProfilerSession | None = None

    def join(self, pieces: Pieces, is_cell: IsCell, frame: FrameType | None) -> None:
        """Record into `pieces` from now on. A piece that another profiler took over is ``None``."""
        first = not self._open
        self._end_piece()
        self._open.append(pieces)
        self._cells.append(is_cell)
        try:
            self._begin_piece()
            if first:
                self.places.lines.calibrate(empty_line_ns())
                self.traces_lines = self.tracer.start()
            if frame is not None and self.traces_lines:
                self.tracer.adopt(frame)
        except BaseException:  # an interrupt, at any of these lines
            self.leave(pieces)
            raise

    def leave(self, pieces: Pieces) -> None:
        """Record into `pieces` no more; the last one to leave ends the session."""
        try:
            if len(self._open) == 1:
                self.traces_lines = self.tracer.stop() and self.traces_lines
        finally:
            try:
                self._end_piece()
            finally:
                for at, other in enumerate(self._open):
                    if other is pieces:
                        del self._open[at], self._cells[at]
                        break
                if self._open:
                    self._begin_piece()
                else:
                    _forget(self)

    def _is_cell(self, filename: str) -> bool:
        return any(is_cell(filename) for is_cell in self._cells)

    def _begin_piece(self) -> None:
        # While a profiler of the user's is on, nothing is known.
        self._profiler = None if ProfilerSession.is_active() else ProfilerSession()
        if self._profiler is not None:
            self._profiler.start()

    def _end_piece(self) -> None:
        if not self._open:
            return
        profiler, self._profiler = self._profiler, None
        ended = profiler if profiler is not None and profiler.stop() else None
        for pieces in self._open:
            pieces.append(ended)


def enter(
    torch: Any,
    is_cell: IsCell,
    pieces: Pieces,
    frame: FrameType | None,
    storage_of: StorageOf = storage_of,
) -> Session:
    """The session of this thread, begun if there is none, recording into `pieces`.

    Raises:
        RecordingError: torch's profiler is on, or another thread records.
    """
    global _current
    with _lock:
        session = _current
        if session is None:
            ProfilerSession.end_leftover()
            if ProfilerSession.is_active():
                raise RecordingError(ALREADY_PROFILED)
            session = Session(torch, storage_of)
        elif session.thread != threading.get_ident():
            raise RecordingError(OTHER_THREAD)
        _current = session
        session.join(pieces, is_cell, frame)
    return session


def _forget(session: Session) -> None:
    global _current
    if _current is session:
        _current = None
