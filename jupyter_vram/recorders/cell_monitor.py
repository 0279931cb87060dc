"""Sees which line of the user's cells runs, and which module, through `sys.monitoring`.

For Python 3.12 and newer; `cell_tracer` does the same for older ones. Code that is not a cell's is
seen once and never again; a line that is left too soon to have allocated, again and again, too. So
it costs nothing where nothing happens, and debuggers and coverage tools go on undisturbed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from jupyter_vram.recorders.places import MAX_DEPTH, Places

TOOL_NAME = "jupyter_vram"
TOOL_IDS = (4, 3, 2)
"""Those that `sys.monitoring` leaves to anybody, and the profilers'."""


class CellMonitor:
    """Watches the thread that calls `start`, until `stop`."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._tool: int | None = None
        self._thread = threading.get_ident()
        self._cells: dict[int, tuple[CodeType, bool]] = {}
        """id of a code → the code, and whether it is a cell's."""
        self._instrumented: dict[int, CodeType] = {}
        self._on_line: Callable[[CodeType, int], Any] = _nothing
        self._rows: list[dict[int, int] | None] = [None]
        """Of each cell frame on the stack; the last is of the one that runs."""
        self._running: list[CodeType] = []
        """Of each traced cell frame on the stack."""
        self._callbacks: tuple[int, ...] = ()
        self._untraced = 0
        """Cell frames on the stack beyond `MAX_DEPTH`."""
        self._watched = {id(code) for code in places.watched}
        self._quiet: set[int] = set()
        """Rows that are not worth a record."""

    def start(self) -> bool:
        """Begin; ``False`` if no tool may be added."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool = next((tool for tool in TOOL_IDS if not monitoring.get_tool(tool)), None)
        if self._tool is None:
            return False
        self._thread = threading.get_ident()
        events = self._events = monitoring.events
        monitoring.use_tool_id(self._tool, TOOL_NAME)
        self._disable = monitoring.DISABLE
        self._on_line = self._line_callback()
        callbacks = {
            events.PY_START: self._on_start,
            events.PY_RESUME: self._on_start,
            events.PY_THROW: self._on_throw,
            events.PY_RETURN: self._on_return,
            events.PY_YIELD: self._on_return,
            events.PY_UNWIND: self._on_unwind,
            events.LINE: self._on_line,
        }
        self._callbacks = tuple(callbacks)
        for event, callback in callbacks.items():
            monitoring.register_callback(self._tool, event, callback)
        # What an earlier recording disabled is to be seen again.
        monitoring.restart_events()
        monitoring.set_events(
            self._tool,
            events.PY_START | events.PY_RESUME | events.PY_THROW | events.PY_UNWIND,
        )
        return True

    def adopt(self, frame: FrameType) -> None:
        """Watch frames that run already: `frame` and its callers, where they are a cell's."""
        # A recording within another may call more code a cell's.
        for key, (_, is_cell) in list(self._cells.items()):
            if not is_cell:
                del self._cells[key]
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.restart_events()
        found: list[FrameType] = []
        outer: FrameType | None = frame
        while outer is not None and len(found) < MAX_DEPTH:
            if self._is_cell(outer.f_code) and outer.f_code not in self._running:
                found.append(outer)
            outer = outer.f_back
        for cell_frame in reversed(found):
            self._enter(cell_frame.f_code)
            self._on_line(cell_frame.f_code, cell_frame.f_lineno)

    def stop(self) -> bool:
        """End, whatever is on the stack. Nothing can take its place: ``True``."""
        tool, self._tool = self._tool, None
        if tool is not None:
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            monitoring.set_events(tool, 0)
            for code in self._instrumented.values():
                monitoring.set_local_events(tool, code, 0)
            # Before Python 3.14, freeing the tool keeps them.
            for event in self._callbacks:
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)
        self._places.end()
        return True

    # --- what sys.monitoring calls ---------------------------------------------------------------

    def _is_cell(self, code: CodeType) -> bool:
        known = self._cells.get(id(code))
        if known is None:
            known = self._cells[id(code)] = (code, self._places.is_cell(code.co_filename))
        return known[1]

    def _on_start(self, code: CodeType, offset: int) -> Any:  # noqa: ARG002
        places = self._places
        if self._is_cell(code):
            return self._enter(code) if threading.get_ident() == self._thread else None
        if code is not places.module_call and id(code) not in self._watched:
            return self._disable
        if threading.get_ident() == self._thread:
            self._instrument(code)
            frame = sys._getframe(1)  # noqa: SLF001
            if code is places.module_call:
                places.enter_module(frame)
            else:
                places.show(code, frame, "call")
        return None

    def _on_throw(self, code: CodeType, offset: int, error: BaseException) -> None:  # noqa: ARG002
        self._on_start(code, offset)  # this event can't be disabled

    def _enter(self, code: CodeType) -> Any:
        places = self._places
        if len(places.callers) >= MAX_DEPTH:
            self._untraced += 1
            self._rows.append(None)
            return None
        rows = places.rows_of(places.line, code)
        if rows and self._quiet.issuperset(rows.values()) and code not in self._running:
            # A function whose lines all are too short to allocate is seen no more.
            self._cells[id(code)] = (code, False)
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            monitoring.set_local_events(self._tool, code, 0)
            return self._disable
        self._instrument(code, self._events.LINE)
        self._rows.append(rows)
        self._running.append(code)
        places.callers.append(places.line)
        return None

    def _instrument(self, code: CodeType, more: int = 0) -> None:
        if id(code) not in self._instrumented:
            self._instrumented[id(code)] = code
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            events = self._events
            monitoring.set_local_events(self._tool, code, events.PY_RETURN | events.PY_YIELD | more)

    def _line_callback(self) -> Callable[[CodeType, int], Any]:
        # Local names: this runs at each line of the user's loops.
        places, stack, quiet, disable = self._places, self._rows, self._quiet, self._disable
        thread, get_ident, clock, lines = (
            self._thread,
            threading.get_ident,
            time.time_ns,
            places.lines,
        )
        add_time, add_id, times = lines.times.append, lines.ids.append, lines.times

        def on_line(code: CodeType, number: int) -> Any:
            rows = stack[-1]
            if rows is None or get_ident() != thread:
                return None
            row = rows.get(number)
            if row is None:
                row = places.new_row(rows, places.callers[-1], code, number)
            elif row in quiet:
                return disable
            if row != places.line:
                places.line = row
                add_time(clock())
                add_id(row)
                if len(times) >= lines.limit:
                    quiet.update(lines.thin())
            return None

        return on_line

    def _on_return(self, code: CodeType, offset: int, value: object) -> None:  # noqa: ARG002
        self._leave(code)

    def _on_unwind(self, code: CodeType, offset: int, error: BaseException) -> None:  # noqa: ARG002
        self._leave(code)

    def _leave(self, code: CodeType) -> None:
        if threading.get_ident() != self._thread:
            return
        places = self._places
        if code is places.module_call:
            places.leave_module()
        elif id(code) in self._watched:
            # The callback's caller is the frame that returns.
            places.show(code, sys._getframe(2), "return")  # noqa: SLF001
        elif self._is_cell(code):
            # The lowest stands for what ran before the recording.
            if len(self._rows) > 1:
                self._rows.pop()
            if self._untraced:
                self._untraced -= 1
            else:
                if self._running:
                    self._running.pop()
                places.leave_cell()


def _nothing(code: CodeType, number: int) -> None: ...
