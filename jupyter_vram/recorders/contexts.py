"""Rows of a tracer's tables → contexts as the user of one recording reads them."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.model.trace import NONE, Context, Line, Module
from jupyter_vram.recorders.holders import Holders
from jupyter_vram.recorders.places import Places
from jupyter_vram.recorders.profiler_walk import Place


class Contexts:
    """Of one recording: what is "this cell" for it may be another cell for one around it."""

    def __init__(
        self,
        places: Places,
        label: Callable[[str], str | None],
        cell: CellCode | None,
        *seen: Holders,
    ) -> None:
        """`label`: a code's file name → how the user calls its cell; ``""`` for the recorded one,
        ``None`` for code that is not the user's. `seen`: what modules are called, latest last."""
        self._places = places
        self._label = label
        self._offset = cell.line_offset if cell is not None else 0
        self._names = {key: name for holders in seen for key, name in holders.module_names.items()}
        self._lines: dict[int, tuple[Line, ...]] = {NONE: ()}
        self._modules: dict[int, Module | None] = {NONE: None}

    def context(self, place: Place) -> Context:
        """What a place means to the user."""
        return Context(
            lines=self._line(place.line),
            module=self._module(place.module),
            op=place.op,
            phase=place.phase,
        )

    def _line(self, row: int) -> tuple[Line, ...]:
        known = self._lines.get(row)
        if known is None:
            caller, filename, number = self._places.line_table[row]
            known = self._line(caller)
            label = self._label(filename)
            if label is not None:
                known = (*known, Line(label, number if label else number + self._offset))
            self._lines[row] = known
        return known

    def _module(self, row: int) -> Module | None:
        if row in self._modules:
            return self._modules[row]
        caller, module_id, class_name = self._places.module_table[row]
        named = self._names.get(module_id)
        if named is not None and named[1] == class_name:
            module = Module(*named)
        else:
            outer = self._module(caller)
            path = f"{outer.path}.{class_name}" if outer is not None else class_name
            module = Module(path, class_name)
        self._modules[row] = module
        return module
