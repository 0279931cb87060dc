"""The recorded cell, as the tracer of its lines needs to know it: which code is the cell's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CellCode:
    """A cell's text, and where its compiled code runs.

    Code whose ``co_filename`` is none of `filenames` is not the cell's: a function of a library,
    or of an earlier cell (``kernel.cell_recording.cell_labels`` names those).
    """

    text: str
    """As the user sees it, the ``%%vram`` line included."""
    execution_count: int | None = None
    """``None`` if the run is not stored in the history."""
    line_offset: int = 0
    """A line's number in `text` is its number in the code plus this. Both count from 1."""
    filenames: frozenset[str] = frozenset()
    """``/tmp/ipykernel_PID/HASH.py``; under ``%%time`` instead ``<timed exec>``."""
