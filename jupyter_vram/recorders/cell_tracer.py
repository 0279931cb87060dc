"""Sees which line of the user's cells runs, and which module, through `sys.settrace`.

For Python before 3.12; `cell_monitor` does the same by `sys.monitoring`. It traces the frames of
cells, and of no other code: a call elsewhere costs one look into a dictionary. A module's call is
seen as the call of ``Module._call_impl``, so no hook is installed and nothing of torch is patched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jupyter_vram.recorders.places import MAX_DEPTH, Places


class _Code(NamedTuple):
    """A code object, kept so that its id stays its own, and what its call leads to."""

    code: CodeType
    on_call: Callable[[FrameType], Any] | None


class CellTracer:
    """Traces the thread that calls `start`, until that thread calls `stop`."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._codes: dict[int, _Code] = {}
        self._running = False
        if places.module_call is not None:
            self._codes[id(places.module_call)] = _Code(places.module_call, self._enter_module)
        for code in places.watched:
            self._codes[id(code)] = _Code(code, self._watcher(code))
        self._adopted: list[FrameType] = []
        self._hook = self._on_call

    def start(self) -> bool:
        """Begin; ``False`` if something else (a debugger) traces this thread, which is let be."""
        if sys.gettrace() is not None:
            return False
        self._running = True
        sys.settrace(self._hook)
        return True

    def adopt(self, frame: FrameType) -> None:
        """Trace frames that run already: `frame` and its callers, where they are a cell's."""
        # A recording within another may call more code a cell's.
        for key, code in list(self._codes.items()):
            if code.on_call is None:
                del self._codes[key]
        found: list[FrameType] = []
        outer: FrameType | None = frame
        while outer is not None and len(found) < MAX_DEPTH:
            is_cell = self._known(outer.f_code).on_call == self._enter_cell
            if is_cell and outer.f_trace is None:
                found.append(outer)
            outer = outer.f_back
        self._adopted += found
        for cell_frame in reversed(found):
            cell_frame.f_trace = self._enter_cell(cell_frame)
            cell_frame.f_trace(cell_frame, "line", None)

    def stop(self) -> bool:
        """End, whatever is on the stack; ``False`` if another tracer took our place, and stays."""
        undisturbed = not self._running or sys.gettrace() is self._hook
        if self._running and undisturbed:
            sys.settrace(None)
        self._running = False
        # They may run on for long, and would keep all that a tracer knows.
        for frame in self._adopted:
            frame.f_trace = None
        self._adopted.clear()
        self._places.end()
        return undisturbed

    # --- what sys.settrace calls -----------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        known = self._codes.get(id(frame.f_code)) or self._known(frame.f_code)
        return known.on_call and known.on_call(frame)

    def _known(self, code: CodeType) -> _Code:
        known = self._codes.get(id(code))
        if known is None:
            is_cell = self._places.is_cell(code.co_filename)
            known = self._codes[id(code)] = _Code(code, self._enter_cell if is_cell else None)
        return known

    def _enter_cell(self, frame: FrameType) -> Any:
        places = self._places
        if not self._running or len(places.callers) >= MAX_DEPTH:
            return None
        code = frame.f_code
        caller = places.line
        places.callers.append(caller)
        rows = places.rows_of(caller, code)
        # Local names: this runs at each line of the user's loops.
        row_at, clock, lines = rows.get, time.time_ns, places.lines
        add_time, add_id, times = lines.times.append, lines.ids.append, lines.times

        def on_event(frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG001
            if event == "line":
                row = row_at(frame.f_lineno)
                if row is None:
                    row = places.new_row(rows, caller, code, frame.f_lineno)
                if row != places.line:
                    places.line = row
                    add_time(clock())
                    add_id(row)
                    if len(times) >= lines.limit:
                        self._thin()
            elif event == "return":
                places.leave_cell()
                if not self._running:
                    return None
            return on_event

        return on_event

    def _thin(self) -> None:
        """A function whose lines all are too short to allocate is traced no more."""
        hot = self._places.lines.thin()
        for (_, code_id), rows in self._places.line_rows():
            known = self._codes.get(code_id)
            if known is not None and rows and hot.issuperset(rows.values()):
                self._codes[code_id] = _Code(known.code, None)

    def _enter_module(self, frame: FrameType) -> Any:
        if not self._running:
            return None
        self._places.enter_module(frame)
        frame.f_trace_lines = False
        return self._in_module

    def _in_module(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == "return":
            self._places.leave_module()
        return self._in_module

    def _watcher(self, code: CodeType) -> Callable[[FrameType], Any]:
        show = self._places.show

        def on_return(frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG001
            if event == "return" and self._running:
                show(code, frame, "return")
            return on_return

        def on_call(frame: FrameType) -> Any:
            if not self._running:
                return None
            show(code, frame, "call")
            frame.f_trace_lines = False
            return on_return

        return on_call
