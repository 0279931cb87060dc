"""Stacks of a memory snapshot → contexts: lines of the user's code, the operation, the phase."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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


_OPERATION = re.compile(r"aten::\w+|\w+Backward\d*")
"""As our own export names operations."""
_Role = Literal["optimizer", "backward", "recompute", "checkpoint", "call", ""]


@dataclass(frozen=True, slots=True)
class _Told:
    """What one frame says."""

    line: Line | None
    native: str
    """The operation, if it is one's C++ frame."""
    python: str | None
    """torch's function; empty if it is another Python function; ``None`` if it is none."""
    role: _Role


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
        self._frames: dict[int, _Told] = {}
        self._files: dict[str, str | None] = {}
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
        told = [self._told(frame) for frame in frames if isinstance(frame, dict)]
        lines: list[Line] = []
        for frame in reversed(told):
            # A comprehension or a wrapper repeats its line.
            if frame.line is not None and (not lines or lines[-1] != frame.line):
                lines.append(frame.line)
        return self.row(Context(lines=tuple(lines), op=_operation(told), phase=_phase(told)))

    def _told(self, frame: Mapping[str, Any]) -> _Told:
        # torch shares frames between stacks, and the snapshot keeps them alive.
        known = self._frames.get(id(frame))
        if known is None:
            name = str(frame.get("name", ""))
            file = str(frame.get("filename", "")).replace("\\", "/")
            known = self._frames[id(frame)] = _Told(
                line=self._line(frame),
                native=_native(name, file),
                python=_python(name, file),
                role=_role(name, file),
            )
        return known

    def _line(self, frame: Mapping[str, Any]) -> Line | None:
        file, number = frame.get("filename"), frame.get("line")
        if not isinstance(file, str) or not isinstance(number, int) or number < 1:
            return None
        if frame.get("name") in _CALLS:
            return None
        key = (file, number)
        if key not in self._lines:
            if file not in self._files:
                self._files[file] = self._label(file)
            label = self._files[file]
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


def _native(name: str, file: str) -> str:
    if "::" in name:
        node = _NODE.search(name)
        if node:
            return node[1]
        operation = _ATEN.search(name)
        if operation:
            return f"aten::{operation[1]}"
    return name if file == "??" and _OPERATION.fullmatch(name) else ""


def _python(name: str, file: str) -> str | None:
    if not file.endswith(".py"):
        return None
    module = _TORCH.search(file)
    if module is None or name in _CALLS:
        return ""
    return f"{module[1].replace('/', '.')}.{name}"


def _role(name: str, file: str) -> _Role:
    if "/torch/optim/" in file:
        return "optimizer"
    if "torch::autograd::Engine" in name:
        return "backward"
    if name == "backward" and ("/torch/_tensor.py" in file or "/torch/autograd/" in file):
        return "backward"
    if file.endswith("/torch/utils/checkpoint.py"):
        return "recompute" if name in {"unpack_hook", "recompute_fn"} else "checkpoint"
    return "call" if name in _CALLS else ""


def _operation(innermost_first: list[_Told]) -> str:
    """The outermost torch operation: by its C++ frame, else by torch's innermost Python frame."""
    for frame in reversed(innermost_first):
        if frame.native:
            return frame.native
    for frame in innermost_first:
        if frame.python is not None:
            return frame.python
    return ""


def _phase(innermost_first: list[_Told]) -> Phase:
    phase: Phase = "other"
    for frame in reversed(innermost_first):
        role = frame.role
        if role in {"optimizer", "recompute"}:
            return "optimizer" if role == "optimizer" else "recompute"
        if role == "backward":
            phase = "backward"
        elif role == "checkpoint" and phase == "backward":
            return "recompute"
        elif role == "call" and phase == "other":
            phase = "forward"
    return phase
