"""The sentences of a report, for text and HTML alike. Names of the user's stand in backticks."""

from __future__ import annotations

import re

from jupyter_vram.model.report_data import (
    WITHIN,
    Allocator,
    Change,
    Comparison,
    Kept,
    ReportData,
    Row,
)
from jupyter_vram.render.text import format_bytes

MINUS = "\u2212"
BYTES_KIND = {"tensor": "tensor bytes", "block": "allocator blocks"}
RECORDER = {
    "cpu": "",
    "cuda": "",
    "snapshot": "from a memory snapshot",
    "dry_run": "",
}
AT_PEAK = "At the peak"
NO_HOLDER = "(no holder found)"
CELL_LINES = " lines of the cell"
_CELL_LINE = re.compile(r"line \d+")
NOTHING = "No memory was allocated on this device."


def headline(data: ReportData) -> str:
    """``peak 7.62 GiB, +5.10 GiB over the start; 1.21 GiB stayed: `cache`, line 4``."""
    bound = "" if data.exact else "≥ "
    peak = f"peak {bound}{format_bytes(data.peak_bytes)}"
    over = data.peak_bytes - data.start_bytes
    above = f"{format_change(over)} over the start" if over else "never above the start"
    return f"{peak}, {above}; {_stayed(data)}"


def _stayed(data: ReportData) -> str:
    if not data.retained_bytes:
        return "nothing stayed"
    stayed = f"{format_bytes(data.retained_bytes)} stayed"
    named = next((kept for kept in data.kept if kept.name is not None), None)
    if named is None:
        return stayed
    most = named.bytes >= data.retained_bytes
    line = "" if named.line is None else f", line {named.line}"
    lead = "" if most else "mostly " if 2 * named.bytes > data.retained_bytes else "among it "
    return f"{stayed}: {lead}`{named.name}`{line}"


def subtitle(data: ReportData) -> str:
    """What was recorded, where, how long, and in which bytes."""
    parts = [
        data.name and f"“{data.name}”",
        None if data.execution_count is None else f"cell [{data.execution_count}]",
        data.device if data.device_name is None else f"{data.device}, {data.device_name}",
        RECORDER[data.recorder],
        f"dry run of {format_seconds(data.duration_s)}: nothing was computed"
        if is_dry_run(data)
        else format_seconds(data.duration_s),
        f"{'exact' if data.exact else 'a lower bound'}, in {BYTES_KIND[data.bytes_kind]}",
    ]
    return " · ".join(filter(None, parts))


def is_dry_run(data: ReportData) -> bool:
    """Whether its times are those of the dry run, not of what ran."""
    return data.recorder == "dry_run"


def ended(data: ReportData) -> str | None:
    """How the cell ended, if not well."""
    if data.error is None:
        return None
    return f"The cell ended with {data.error}: the figures are those until then."


def remarks(data: ReportData) -> tuple[str, ...]:
    """All that must be said beside the figures."""
    cut = (
        "The recording's beginning was overwritten by later events: what was allocated then has no"
        " line or module."
    )
    asked = data.peak_requested_bytes
    rounding = None
    if asked is not None and asked != data.peak_bytes:
        rounding = (
            f"Of the peak, {format_bytes(asked)} were asked for;"
            f" {format_bytes(data.peak_bytes - asked)} are the allocator's rounding."
        )
    return tuple(
        filter(None, (cut if data.truncated else None, rounding, *data.notes)),
    )


def fragmentation(allocator: Allocator) -> str | None:
    """With its formula."""
    if allocator.fragmentation is None or allocator.inactive_split_bytes is None:
        return None
    return (
        f"{format_percent(allocator.fragmentation)} = inactive split"
        f" {format_bytes(allocator.inactive_split_bytes)} / reserved"
        f" {format_bytes(allocator.reserved_bytes)}"
    )


def allocator_rows(allocator: Allocator) -> list[tuple[str, str]]:
    """What the caching allocator tells; nothing for what it does not."""
    rows = [
        ("reserved at the end", format_bytes(allocator.reserved_bytes)),
        ("reserved at most", _known(allocator.peak_reserved_bytes)),
        ("fragmentation", fragmentation(allocator)),
        ("private pools", _known(allocator.private_pool_bytes)),
        ("retries (cache flushed)", _count(allocator.alloc_retries)),
        ("out of memory", _count(allocator.ooms)),
    ]
    return [(name, value) for name, value in rows if value is not None]


def comparison_rows(data: ReportData, other: Comparison) -> list[Change]:
    """The figures of both recordings as a whole."""
    return [
        Change("peak", other.peak_bytes, data.peak_bytes),
        Change("start", other.start_bytes, data.start_bytes),
        Change("end", other.end_bytes, data.end_bytes),
    ]


def change_headline(data: ReportData, other: Comparison) -> str:
    """``peak −2.00 GiB against “plain”: 9.62 → 7.62 GiB; 1.31 s → 1.84 s``."""
    return (
        f"peak {format_change(data.peak_bytes - other.peak_bytes)} against “{other.name}”:"
        f" {format_bytes(other.peak_bytes)} → {format_bytes(data.peak_bytes)};"
        f" {format_seconds(other.duration_s)} → {format_seconds(data.duration_s)}"
    )


def is_before(row: Row) -> bool:
    """Whether it was there before the recording: a row by line or by op."""
    return row.name.startswith("before: ")


def is_cell_line(row: Row) -> bool:
    """Whether a row by line is a line of the cell, or what it called; also the tail of many."""
    return bool(_CELL_LINE.fullmatch(row.name.partition(WITHIN)[0])) or (
        row.name.startswith("… ") and row.name.endswith(CELL_LINES)
    )


def before_rows(data: ReportData) -> tuple[Row, ...]:
    """The rows by line that are not beside a line of the source: what was there before, and code
    outside the cell. With the source's lines they add up to the peak."""
    return tuple(row for row in data.by_line if not (data.source and is_cell_line(row)))


def origin(kept: Kept) -> str:
    """``activation, 214 blocks, line 3``."""
    blocks = f"{kept.count:,} block{'' if kept.count == 1 else 's'}"
    return ", ".join([kept.category, blocks, *([] if kept.line is None else [f"line {kept.line}"])])


def format_change(change: int) -> str:
    """Signed, as bytes."""
    if not change:
        return "±0"
    return f"{'+' if change > 0 else MINUS}{format_bytes(abs(change))}"


def format_percent(share: float) -> str:
    """``63 %``, ``4.5 %``, ``< 0.1 %``."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "< 0.1 %"
    return f"{percent:.{0 if percent >= 9.95 or percent == 0 else 1}f} %"


def format_seconds(seconds: float) -> str:
    """``1.84 s``, ``2 min 3 s``, ``12 ms``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.{0 if seconds >= 0.00995 else 1}f} ms"
    if seconds < 99.95:
        return f"{seconds:.{2 if seconds < 9.995 else 1}f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def share_of(part: int, whole: int) -> float:
    """0 where there is no whole."""
    return part / whole if whole else 0.0


def _known(count: int | None) -> str | None:
    return None if count is None else format_bytes(count)


def _count(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"
