"""Stacks of a memory snapshot → contexts: lines of the user's code, the operation, the phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jupyter_vram.model.trace import Context, Line
from jupyter_vram.model.units import Phase

CELL = "cell"
_CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\]|^<ipython-input|^<timed ")
_CELL_LABEL = re.compile(r"cell$|In \[\d+\]$")
"""As our own export names cells."""
_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/lib/python3|/Lib/|/torchinductor_|/torch/(_|nn|optim|autograd|utils|cuda)"
)
_TORCH = re.compile(r"(?:^|/)(torch/(?:[^/]+/)*[^/]+)\.py$")
_CALLS = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward", "decorate_context"})
"""torch's own, in whatever file: a shared dump may have lost its paths."""
_ATEN = re.compile(r"\bat::_ops::(\w+?)::(?:call|redispatch)\b")
_NODE = re.compile(r"\btorch::autograd::(?:generated::)?(\w+Backward\d*)::apply\b")


class ContextTable:
    """Contexts without repetition. By file name, `labels` says what the user calls a source, and
    `line_offsets` what to add to its line numbers."""

    def __init__(
        self,
        labels: Mapping[str, str] | None = None,
        line_offsets: Mapping[str, int] | None = None,
    ) -> None:
        self._labels = labels or {}
        self._offsets = line_offsets or {}
        self._rows: dict[Context, int] = {}
        self._lines: dict[tuple[str, int], Line | None] = {}

    @property
    def contexts(self) -> tuple[Context, ...]:
        """By row."""
        return tuple(self._rows)

    def row(self, context: Context) -> int:
        """The row of a context, added if it is new."""
        return self._rows.setdefault(context, len(self._rows))

    def of_stack(self, frames: Iterable[Any]) -> int:
        """The row of the context that a stack tells. torch gives the innermost frame first."""
        outermost_first = [frame for frame in frames if isinstance(frame, dict)][::-1]
        lines: list[Line] = []
        for frame in outermost_first:
            line = self._line(frame)
            # A comprehension or a wrapper repeats its line.
            if line is not None and (not lines or lines[-1] != line):
                lines.append(line)
        return self.row(
            Context(
                lines=tuple(lines), op=_operation(outermost_first), phase=_phase(outermost_first)
            )
        )

    def _line(self, frame: Mapping[str, Any]) -> Line | None:
        file, number = frame.get("filename"), frame.get("line")
        if not isinstance(file, str) or not isinstance(number, int) or number < 1:
            return None
        if frame.get("name") in _CALLS:
            return None
        key = (file, number)
        if key not in self._lines:
            label = self._label(file)
            number += self._offsets.get(file, 0)
            self._lines[key] = None if label is None else Line(label, number)
        return self._lines[key]

    def _label(self, file: str) -> str | None:
        """How the user calls a file; ``None`` if it is not the user's."""
        if file in self._labels:
            return self._labels[file]
        if _CELL_FILE.search(file):
            return CELL
        if _CELL_LABEL.match(file):
            return file
        plain = file.replace("\\", "/")
        if not plain.endswith(".py") or plain.startswith("<") or _LIBRARY.search(plain):
            return None
        return plain.rpartition("/")[2]


def _operation(outermost_first: list[dict[str, Any]]) -> str:
    """The outermost torch operation: by its C++ frame, else by torch's innermost Python frame."""
    for frame in outermost_first:
        name = str(frame.get("name", ""))
        if "::" not in name:
            continue
        node = _NODE.search(name)
        if node:
            return node[1]
        operation = _ATEN.search(name)
        if operation:
            return f"aten::{operation[1]}"
    for frame in reversed(outermost_first):
        file = str(frame.get("filename", "")).replace("\\", "/")
        if not file.endswith(".py"):
            continue
        module = _TORCH.search(file)
        if module is None or frame.get("name") in _CALLS:
            return ""
        return f"{module[1].replace('/', '.')}.{frame.get('name', '')}"
    return ""


def _phase(outermost_first: list[dict[str, Any]]) -> Phase:
    phase: Phase = "other"
    for frame in outermost_first:
        name = str(frame.get("name", ""))
        file = str(frame.get("filename", "")).replace("\\", "/")
        if "/torch/optim/" in file:
            return "optimizer"
        if "torch::autograd::Engine" in name or (
            name == "backward" and ("/torch/_tensor.py" in file or "/torch/autograd/" in file)
        ):
            phase = "backward"
        elif file.endswith("/torch/utils/checkpoint.py"):
            if phase == "backward" or name in {"unpack_hook", "recompute_fn"}:
                return "recompute"
        elif phase == "other" and name in _CALLS:
            phase = "forward"
    return phase
