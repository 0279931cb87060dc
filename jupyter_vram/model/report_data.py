"""What a user sees of a recording, as values: the figures, no events. Its JSON form (`to_json`,
`from_json`: `jupyter_vram.model.report_json`) is the mime type that the front end draws.

All bytes are integers; which bytes they are stands in `ReportData.bytes_kind`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from jupyter_vram.model.estimate import Estimate
from jupyter_vram.model.units import BytesKind, RecorderKind

MIME_TYPE = "application/vnd.jupyter-vram.report+json"
SCHEMA_MAJOR = 1
SCHEMA_MINOR = 1

By = Literal["category", "line", "module", "op"]
WITHIN = " › "
"""In the name of a row by line: "line 5 › In [1]:7" is what line 5 of the cell allocated in a
function that another cell defines."""
DIMENSIONS: tuple[By, ...] = ("category", "line", "module", "op")


@dataclass(frozen=True, slots=True)
class Row:
    """A part of the peak."""

    name: str
    """``activation``, ``line 4``, ``model.transformer.h.0.mlp``, ``aten::linear``. What was there
    before the recording has an owner, never a line: ``before: parameter`` by line and op."""
    bytes: int
    count: int
    """Blocks."""


@dataclass(frozen=True, slots=True)
class Series:
    """One band of the timeline: a category."""

    name: str
    bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Live bytes over time, thinned to some hundred points; the peak's moment is always one."""

    time_s: tuple[float, ...]
    """Since the recording began."""
    series: tuple[Series, ...]
    """From the bottom. At each point they add up to the live bytes."""


@dataclass(frozen=True, slots=True)
class Span:
    """A phase on the time axis: ``forward``, ``backward``, ``recompute``, ``optimizer``."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the cell, with its bar."""

    number: int
    text: str
    peak_bytes: int
    """Allocated by it during the recording and alive at the peak."""
    kept_bytes: int
    """Allocated by it and alive at the end."""


@dataclass(frozen=True, slots=True)
class ModuleNode:
    """A module at the peak: what it and its children hold. Equal siblings are folded into one
    node (`repeats` > 1), named ``h.*``."""

    name: str
    class_name: str
    bytes: int
    repeats: int = 1
    children: tuple[ModuleNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """Allocated during the recording and alive at its end, by holder."""

    name: str | None
    """The expression that holds it: ``cache[0]``; ``None`` if no holder was found."""
    bytes: int
    count: int
    category: str
    line: int | None
    """Of the cell, where it was allocated."""
    hint: str | None = None
    """What to do, where something can be said: ``append loss.item()``."""


@dataclass(frozen=True, slots=True)
class Allocator:
    """The caching allocator at the end. `fragmentation` = inactive split / reserved."""

    reserved_bytes: int
    peak_reserved_bytes: int | None
    inactive_split_bytes: int | None
    fragmentation: float | None
    private_pool_bytes: int | None
    alloc_retries: int | None
    ooms: int | None


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Another device that the recording used."""

    device: str
    start_bytes: int
    peak_bytes: int
    end_bytes: int


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a comparison."""

    name: str
    before_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """This report beside an earlier one, at their peaks. Rows by the largest difference."""

    name: str
    peak_bytes: int
    start_bytes: int
    end_bytes: int
    duration_s: float
    categories: tuple[Change, ...]
    lines: tuple[Change, ...]
    """By the text of the line, so that a line moved is the same line."""
    modules: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """All figures of one recording on one device."""

    recorder: RecorderKind
    bytes_kind: BytesKind
    exact: bool
    """False where not every change was seen, so that the peak may have been higher."""
    device: str
    device_name: str | None
    name: str | None
    execution_count: int | None
    duration_s: float
    start_bytes: int
    peak_bytes: int
    peak_s: float
    """When, since the recording began."""
    end_bytes: int
    retained_bytes: int
    """Allocated during the recording and alive at its end."""
    peak_requested_bytes: int | None
    """What the blocks alive at the peak had asked for, where it differs from their size."""
    curve: Curve
    spans: tuple[Span, ...]
    by_category: tuple[Row, ...]
    by_line: tuple[Row, ...]
    by_module: tuple[Row, ...]
    by_op: tuple[Row, ...]
    source: tuple[SourceLine, ...]
    modules: tuple[ModuleNode, ...]
    kept: tuple[Kept, ...]
    allocator: Allocator | None = None
    other_devices: tuple[DevicePeak, ...] = ()
    comparison: Comparison | None = None
    error: str | None = None
    """How the cell ended, if not well."""
    truncated: bool = False
    notes: tuple[str, ...] = ()
    estimate: Estimate | None = None
    """Of a dry run: from tensor bytes to the device."""
    detail: By | None = None
    """The dimension that the user asked for (``--detail``): it is shown first."""

    def rows(self, by: By) -> tuple[Row, ...]:
        """The parts of the peak, largest first; they add up to `peak_bytes`."""
        return {
            "category": self.by_category,
            "line": self.by_line,
            "module": self.by_module,
            "op": self.by_op,
        }[by]

    def walk_modules(self) -> Iterator[ModuleNode]:
        """All nodes of the module tree, parents first."""
        pending = list(reversed(self.modules))
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))
