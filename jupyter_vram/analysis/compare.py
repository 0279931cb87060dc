"""Two reports beside each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from jupyter_vram.errors import RecordingError
from jupyter_vram.model.report_data import Change, Comparison, ReportData, Row

MOST_ROWS = 60


def compared(data: ReportData, before: ReportData) -> ReportData:
    """`data`, with what has changed since `before`.

    Raises:
        RecordingError: they count different bytes: those of tensors, those of the allocator.
    """
    if data.bytes_kind != before.bytes_kind:
        raise RecordingError(
            f"One report counts {data.bytes_kind} bytes (on {data.device}), the other"
            f" {before.bytes_kind} bytes (on {before.device}): they can't be compared."
        )
    return dataclasses.replace(data, comparison=_comparison(data, before))


def _comparison(data: ReportData, before: ReportData) -> Comparison:
    name = before.name or (
        f"In [{before.execution_count}]" if before.execution_count is not None else "before"
    )
    return Comparison(
        name=name,
        peak_bytes=before.peak_bytes,
        start_bytes=before.start_bytes,
        end_bytes=before.end_bytes,
        duration_s=before.duration_s,
        categories=_changes(_sums(before.by_category), _sums(data.by_category)),
        lines=_changes(_lines(before), _lines(data)),
        modules=_changes(_sums(before.by_module), _sums(data.by_module)),
    )


def _sums(rows: Iterable[Row]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row.name] = sums.get(row.name, 0) + row.bytes
    return sums


def _lines(data: ReportData) -> dict[str, int]:
    """By the text of the line, so that a line that has moved is the same line."""
    sums: dict[str, int] = {}
    for line in data.source:
        text = line.text.strip()
        if line.peak_bytes:
            sums[text] = sums.get(text, 0) + line.peak_bytes
    return sums


def _changes(before: dict[str, int], after: dict[str, int]) -> tuple[Change, ...]:
    """Largest difference first. What is beyond `MOST_ROWS` is summed up in one."""
    names = sorted(
        dict.fromkeys([*before, *after]),
        key=lambda name: (-abs(after.get(name, 0) - before.get(name, 0)), name),
    )
    rows = [Change(name, before.get(name, 0), after.get(name, 0)) for name in names]
    if len(rows) <= MOST_ROWS:
        return tuple(rows)
    rest = rows[MOST_ROWS - 1 :]
    summed = Change(
        f"({len(rest)} more)",
        sum(row.before_bytes for row in rest),
        sum(row.bytes for row in rest),
    )
    return (*rows[: MOST_ROWS - 1], summed)
