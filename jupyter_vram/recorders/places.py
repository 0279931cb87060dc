"""What a tracer writes: which line of the user's cells is current, and which module.

Ids of `lines` are rows of `line_table`, ids of `modules` rows of `module_table`; `NONE` is
"outside". Each row names its caller's row, so a row is a whole stack.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from jupyter_vram.model.trace import NONE
from jupyter_vram.recorders.time_line import TimeLine

MAX_DEPTH = 16
"""Cell frames on the stack; deeper calls (a recursion) count for the line that calls them."""

OnRoot = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
Watch = Callable[[FrameType, str], None]


class Places:
    """The stacks of one thread, and their time lines."""

    def __init__(
        self,
        is_cell: Callable[[str], bool],
        *,
        module_call: CodeType | None = None,
        on_root: OnRoot | None = None,
        watched: dict[CodeType, Watch] | None = None,
    ) -> None:
        """`is_cell`: whether the code of a file name is a cell's.

        `module_call`: the code of ``Module._call_impl``. `on_root` is called with a module that no
        other called, and its arguments, before it runs. `watched`: codes whose frame is shown to
        their function at ``"call"`` and ``"return"``.
        """
        self.lines = TimeLine()
        self.modules = TimeLine()
        self.line_table: list[tuple[int, str, int]] = []
        """(caller's row, file name of the code, line)"""
        self.module_table: list[tuple[int, int, str]] = []
        """(caller's row, id of the module, its class)"""
        self.root_spans: list[tuple[int, int]] = []
        """Start and end of the calls of modules that no other module called."""
        self.module_call = module_call
        self.watched = watched or {}
        self.is_cell = is_cell
        self.faults = 0
        """Looks at modules and optimizers that failed: the user's classes may raise anything."""
        self.line = NONE
        """The current row."""
        self.callers: list[int] = []
        """For each cell frame on the stack, the row that called it."""
        self._on_root = on_root
        self._line_rows: dict[tuple[int, int], dict[int, int]] = {}
        self._codes: list[CodeType] = []
        self._module_rows: dict[tuple[int, int, str], int] = {}
        self._module = NONE
        self._outer_modules: list[int] = []
        self._root_started_ns = 0

    def rows_of(self, caller: int, code: CodeType) -> dict[int, int]:
        """Line number → row, of one code called from one place; `new_row` fills it."""
        key = (caller, id(code))
        rows = self._line_rows.get(key)
        if rows is None:
            rows = self._line_rows[key] = {}
            self._codes.append(code)  # kept, so that its id stays its own
        return rows

    def line_rows(self) -> Iterable[tuple[tuple[int, int], dict[int, int]]]:
        """(caller's row, id of a code) and the rows of its lines."""
        return self._line_rows.items()

    def new_row(self, rows: dict[int, int], caller: int, code: CodeType, number: int) -> int:
        """The row of a line that runs for the first time."""
        row = rows[number] = len(self.line_table)
        self.line_table.append((caller, code.co_filename, number))
        return row

    def set_line(self, row: int) -> None:
        """From now on, `row` is current."""
        if row != self.line:
            self.line = row
            self.lines.times.append(time.time_ns())
            self.lines.ids.append(row)

    def leave_cell(self) -> None:
        """The innermost cell frame returns, yields or is left by an exception."""
        if self.callers:
            self.set_line(self.callers.pop())

    def enter_module(self, frame: FrameType) -> None:
        """A module is called: `frame` runs `module_call`."""
        values = frame.f_locals
        module = values["self"]
        if not self._outer_modules:
            self._root_started_ns = time.time_ns()
            if self._on_root is not None:
                self._look(self._on_root, module, values.get("args", ()), values.get("kwargs", {}))
        self._outer_modules.append(self._module)
        key = (self._module, id(module), type(module).__name__)
        row = self._module_rows.get(key)
        if row is None:
            row = self._module_rows[key] = len(self.module_table)
            self.module_table.append(key)
        self._set_module(row)

    def show(self, code: CodeType, frame: FrameType, event: str) -> None:
        """Let whoever watches `code` look at its frame."""
        self._look(self.watched[code], frame, event)

    def _look(self, look: Callable[..., None], *seen: Any) -> None:
        try:
            look(*seen)
        except Exception:  # noqa: BLE001 - it runs within the user's call, and must not fail that
            self.faults += 1

    def leave_module(self) -> None:
        """The innermost module returns, or is left by an exception."""
        if self._outer_modules:
            self._set_module(self._outer_modules.pop())
            if not self._outer_modules:
                self.root_spans.append((self._root_started_ns, time.time_ns()))

    def end(self) -> None:
        """Whatever is on the stack: nothing more comes."""
        if self._outer_modules:
            self.root_spans.append((self._root_started_ns, time.time_ns()))
            self._outer_modules.clear()
        self.callers.clear()

    def _set_module(self, row: int) -> None:
        self._module = row
        modules = self.modules
        modules.times.append(time.time_ns())
        modules.ids.append(row)
        if len(modules.times) >= modules.limit:
            modules.thin()
