"""The cell's own text, with what each line holds at the peak and keeps at the end."""

from __future__ import annotations

import numpy as np

from jupyter_vram.analysis.attribution import cell_line
from jupyter_vram.analysis.live import alive
from jupyter_vram.model.report_data import SourceLine
from jupyter_vram.model.trace import NONE, CellSource, Trace


def source_lines(trace: Trace, source: CellSource, peak: int) -> tuple[SourceLine, ...]:
    """Every line of the cell. `peak`: the event of the peak."""
    at_peak, at_end = _by_line(trace, peak), _by_line(trace, len(trace.change_bytes))
    return tuple(
        SourceLine(number, text, at_peak.get(number, 0), at_end.get(number, 0))
        for number, text in enumerate(_lines(source.text), 1)
    )


def _lines(text: str) -> list[str]:
    """As Python and editors count them: a form feed, say, ends none."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _by_line(trace: Trace, event: int) -> dict[int, int]:
    """Line number → bytes that it allocated and that live after an event."""
    blocks = trace.blocks
    mask = alive(trace, event) & (blocks.context != NONE)
    sums = np.zeros(len(trace.contexts), np.int64)
    np.add.at(sums, blocks.context[mask], blocks.size_bytes[mask])
    found: dict[int, int] = {}
    for context, size in zip(trace.contexts, sums.tolist(), strict=True):
        line = cell_line(context)
        if line is not None and size:
            found[line.number] = found.get(line.number, 0) + size
    return found
