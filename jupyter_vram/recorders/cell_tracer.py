"""Which line of the user's cells runs, and which module: two time lines of one thread.

It traces (`sys.settrace`) the frames of cells, and of no other code: a call elsewhere costs one
look into a dictionary. A module's call is seen as the call of ``Module._call_impl``, so no hook is
installed and nothing of torch is patched.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np

from jupyter_vram.model.trace import NONE, Int64

MAX_DEPTH = 16
"""Cell frames on the stack; deeper calls (a recursion) count for the line that calls them."""
BUFFER = 200_000
"""Entries between two thinnings."""
LIMIT = 1_000_000
"""Entries kept at most, of 16 bytes each."""
SHORTEST_NS = 1_000
"""A torch operation takes longer, so a line left sooner allocated nothing."""
HOT_CALLS = 20_000
"""A function of a cell called so often, and always left within `SHORTEST_NS`, is not traced on."""

_clock = time.time_ns


class TimeLine:
    """What was current from when to when: ``(time_ns, id)``, appended in the order of time."""

    def __init__(self) -> None:
        self.times = array("q")
        self.ids = array("q")
        self.shortest_ns = SHORTEST_NS
        self._next_thinning = BUFFER

    def add(self, id_: int) -> None:
        """From now on it is `id_`."""
        self.times.append(_clock())
        self.ids.append(id_)
        if len(self.times) >= self._next_thinning:
            self.thin()

    def thin(self) -> None:
        """Drop what was current for too short a time to have allocated."""
        times = np.frombuffer(self.times, np.int64).copy()
        ids = np.frombuffer(self.ids, np.int64).copy()
        while True:
            lasted = np.diff(times, append=np.iinfo(np.int64).max)
            kept = lasted >= self.shortest_ns
            times, ids = times[kept], ids[kept]
            if len(times) <= LIMIT:
                break
            self.shortest_ns *= 2
        self.times, self.ids = array("q", times.tobytes()), array("q", ids.tobytes())
        self._next_thinning = len(times) + BUFFER

    def columns(self) -> tuple[Int64, Int64]:
        """Times and ids, of equal length."""
        return np.array(self.times, np.int64), np.array(self.ids, np.int64)


@dataclass(slots=True)
class _Code:
    """What is known of a code object. It is kept, so that its id stays its own."""

    code: CodeType
    on_call: Callable[[FrameType, _Code], Any] | None
    label: str = ""
    calls: int = 0
    started_ns: int = 0


class CellTracer:
    """Traces the thread that calls `start`, until that thread calls `stop`.

    Ids of `lines` are rows of `line_table`, ids of `modules` rows of `module_table`; `NONE` is
    "outside". A row is ``(row of the caller or NONE, what)``.
    """

    def __init__(
        self,
        label: Callable[[str], str | None],
        *,
        module_call: CodeType | None = None,
        on_root: Callable[[Any, tuple[Any, ...], dict[str, Any]], None] | None = None,
        watched: dict[CodeType, Callable[[FrameType, str], None]] | None = None,
    ) -> None:
        """`label`: a code's file name → the short name of its cell; ``None``: not a cell's.

        `module_call`: the code of ``Module._call_impl``. `on_root` is called with a module that no
        other called, and its arguments, before it runs. `watched`: codes whose frame is shown to
        their function at ``"call"`` and ``"return"``.
        """
        self.lines = TimeLine()
        self.modules = TimeLine()
        self.line_table: list[tuple[int, str, int]] = []
        """(caller's row, cell's label, line)"""
        self.module_table: list[tuple[int, int, str]] = []
        """(caller's row, id of the module, its class)"""
        self.root_spans: list[tuple[int, int]] = []
        """Start and end of the calls of modules that no other module called."""
        self._label = label
        self._on_root = on_root
        self._watched = watched or {}
        self._codes: dict[int, _Code] = {}
        self._line_rows: dict[tuple[int, int, int], int] = {}
        self._module_rows: dict[tuple[int, int], int] = {}
        self._line = NONE
        self._callers: list[int] = []
        self._module = NONE
        self._outer_modules: list[int] = []
        self._root_started_ns = 0
        self._running = False
        if module_call is not None:
            self._codes[id(module_call)] = _Code(module_call, self._enter_module)
        for code in self._watched:
            self._codes[id(code)] = _Code(code, self._enter_watched)

    def start(self) -> bool:
        """Begin; ``False`` if something else (a debugger) traces this thread, which is let be."""
        if sys.gettrace() is not None:
            return False
        self._running = True
        sys.settrace(self._on_call)
        return True

    def adopt(self, frame: FrameType | None) -> None:
        """Trace frames that run already: `frame` and its callers, where they are a cell's."""
        found: list[FrameType] = []
        while frame is not None and len(found) < MAX_DEPTH:
            known = self._known(frame.f_code)
            if known.on_call == self._enter_cell:
                found.append(frame)
            frame = frame.f_back
        for cell_frame in reversed(found):
            self._callers.append(self._line)
            self._line = self._line_row(self._line, cell_frame.f_code, cell_frame.f_lineno)
            cell_frame.f_trace = self._in_cell
        self.lines.add(self._line)

    def stop(self) -> None:
        """End, whatever is on the stack."""
        if self._running:
            self._running = False
            # A user's own tracer that took our place stays.
            if sys.gettrace() == self._on_call:
                sys.settrace(None)
        if self._outer_modules:
            self.root_spans.append((self._root_started_ns, _clock()))
            self._outer_modules.clear()

    # --- what sys.settrace calls -----------------------------------------------------------------

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        known = self._codes.get(id(frame.f_code)) or self._known(frame.f_code)
        if known.on_call is None:
            return None
        return known.on_call(frame, known)

    def _known(self, code: CodeType) -> _Code:
        known = self._codes.get(id(code))
        if known is None:
            label = self._label(code.co_filename)
            known = _Code(code, None if label is None else self._enter_cell, label or "")
            self._codes[id(code)] = known
        return known

    def _enter_cell(self, frame: FrameType, known: _Code) -> Any:  # noqa: ARG002
        if not self._running or len(self._callers) >= MAX_DEPTH:
            return None
        known.calls += 1
        if known.calls > HOT_CALLS:
            lasted = _clock() - known.started_ns
            if known.calls == HOT_CALLS + 1 and lasted < HOT_CALLS * 4 * SHORTEST_NS:
                known.on_call = None
                return None
        elif known.calls == 1:
            known.started_ns = _clock()
        self._callers.append(self._line)
        return self._in_cell

    def _in_cell(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == "line":
            callers = self._callers
            line = self._line_row(callers[-1] if callers else NONE, frame.f_code, frame.f_lineno)
            if line != self._line:
                self._line = line
                self.lines.add(line)
        elif event == "return" and self._callers:
            self._line = self._callers.pop()
            self.lines.add(self._line)
        return self._in_cell if self._running else None

    def _line_row(self, caller: int, code: CodeType, number: int) -> int:
        key = (caller, id(code), number)
        row = self._line_rows.get(key)
        if row is None:
            row = self._line_rows[key] = len(self.line_table)
            self.line_table.append((caller, self._known(code).label, number))
        return row

    def _enter_module(self, frame: FrameType, known: _Code) -> Any:  # noqa: ARG002
        if not self._running:
            return None
        values = frame.f_locals
        module = values["self"]
        if not self._outer_modules:
            self._root_started_ns = _clock()
            if self._on_root is not None:
                self._on_root(module, values.get("args", ()), values.get("kwargs", {}))
        self._outer_modules.append(self._module)
        key = (self._module, id(module))
        row = self._module_rows.get(key)
        if row is None:
            row = self._module_rows[key] = len(self.module_table)
            self.module_table.append((self._module, id(module), type(module).__name__))
        self._module = row
        self.modules.add(row)
        frame.f_trace_lines = False
        return self._in_module

    def _in_module(self, frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG002
        if event == "return" and self._outer_modules:
            self._module = self._outer_modules.pop()
            self.modules.add(self._module)
            if not self._outer_modules:
                self.root_spans.append((self._root_started_ns, _clock()))
        return self._in_module

    def _enter_watched(self, frame: FrameType, known: _Code) -> Any:
        if not self._running:
            return None
        show = self._watched[known.code]
        show(frame, "call")
        frame.f_trace_lines = False

        def on_return(frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG001
            if event == "return" and self._running:
                show(frame, "return")
            return on_return

        return on_return
