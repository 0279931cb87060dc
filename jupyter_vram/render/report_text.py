"""A report as plain text, for terminals and ``text/plain``: at most 100 columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap

from jupyter_vram.model.report_data import By, Change, ModuleNode, ReportData, Row
from jupyter_vram.render.estimate_text import estimate_text
from jupyter_vram.render.report_fold import Limits, fold
from jupyter_vram.render.report_words import (
    AT_PEAK,
    NO_HOLDER,
    NOTHING,
    allocator_rows,
    before_rows,
    change_headline,
    ended,
    format_change,
    format_percent,
    format_seconds,
    headline,
    is_dry_run,
    origin,
    remarks,
    share_of,
    subtitle,
)
from jupyter_vram.render.text import format_bytes

__all__ = ["LIMITS", "WIDTH", "bar", "fit", "headline", "report_text", "width_of"]

WIDTH = 100
LIMITS = Limits(
    points=5,
    rows=12,
    source_lines=60,
    modules=24,
    name_chars=160,
    line_chars=160,
    notes=12,
    note_chars=400,
    depth=5,
)
NAME, BAR, FIGURE = 52, 20, 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


def report_text(data: ReportData) -> str:
    """The whole report; long tables folded, with sums that hold."""
    data = fold(data, LIMITS)
    sections: list[Iterable[str]] = (
        [] if data.estimate is None else [[estimate_text(data.estimate)]]
    )
    sections.append(_head(data))
    if data.peak_bytes:
        sections += [_PARTS[by](data) for by in _order(data.detail)]
    sections += [_kept(data), _allocator(data), _devices(data), _comparison(data)]
    sections += [_bullets(remarks(data))]
    return "\n\n".join(filter(None, ("\n".join(lines) for lines in sections)))


def bar(part: int, whole: int, width: int = BAR) -> str:
    """A bar of at most `width` columns in steps of an eighth; of what is not 0, at least one."""
    if part <= 0 or whole <= 0:
        return ""
    full, rest = divmod(max(1, min(8 * width, round(8 * width * part / whole))), 8)
    return "█" * full + _EIGHTHS[rest].strip()


def width_of(text: str) -> int:
    """Columns in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def fit(text: str, width: int) -> str:
    """Exactly `width` columns: padded, or cut with an ellipsis."""
    if width_of(text) > width:
        while width_of(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - width_of(text))


def rows_text(rows: Sequence[Row], whole: int) -> str:
    """A table of the parts of a whole: name, bytes, share, bar, blocks."""
    return "\n".join(_row(row, whole) for row in rows)


def changes_text(rows: Sequence[Change]) -> str:
    """A table of differences: name, before, now, change."""
    return "\n".join(
        f"  {fit(row.name, NAME)}{format_bytes(row.before_bytes):>{FIGURE}}"
        f"{format_bytes(row.bytes):>{FIGURE + 2}}{format_change(row.bytes - row.before_bytes):>14}"
        for row in rows
    )


def _head(data: ReportData) -> list[str]:
    lines = [*_wrapped(headline(data)), *_wrapped(subtitle(data))]
    end = ended(data)
    if end:
        lines += _wrapped(end)
    if not data.peak_bytes:
        lines.append(NOTHING)
    return lines


def _row(row: Row, whole: int) -> str:
    share = format_percent(share_of(row.bytes, whole))
    return (
        f"  {fit(row.name, NAME)}{format_bytes(row.bytes):>{FIGURE}}{share:>9}"
        f"  {bar(row.bytes, whole)}"
    ).rstrip()


def _categories(data: ReportData) -> list[str]:
    when = AT_PEAK if is_dry_run(data) else f"{AT_PEAK}, {format_seconds(data.peak_s)}"
    title = f"{fit(when, NAME + 2)}{format_bytes(data.peak_bytes):>{FIGURE}}"
    return [title, *(_row(row, data.peak_bytes) for row in data.by_category)]


def _operations(data: ReportData) -> list[str]:
    if not data.by_op:
        return []
    return ["Operations at the peak", *(_row(row, data.peak_bytes) for row in data.by_op)]


def _source(data: ReportData) -> list[str]:
    """The cell with its bytes; then what no line of it allocated, so that it adds up."""
    rows = [row for row in before_rows(data) if row.bytes]
    if not data.source and not rows:
        return []
    most = max([line.peak_bytes for line in data.source] + [row.bytes for row in rows], default=0)
    digits = max((len(str(line.number)) for line in data.source), default=1)
    any_kept = any(line.kept_bytes for line in data.source)
    title = f"{fit('Cell', NAME + 2)}{'at peak':>{FIGURE}}{'stayed' if any_kept else '':>11}"
    lines = [title.rstrip()]
    for line in data.source:
        code = fit(line.text, NAME - digits - 1)
        lines.append(
            f"  {line.number:>{digits}} {code}{_some(line.peak_bytes):>{FIGURE}}"
            f"{_some(line.kept_bytes):>11}  {bar(line.peak_bytes, most)}".rstrip()
        )
    lines += [
        f"  {fit(row.name, NAME)}{format_bytes(row.bytes):>{FIGURE}}{'':>11}"
        f"  {bar(row.bytes, most)}".rstrip()
        for row in rows
    ]
    return lines


def _some(count: int) -> str:
    return format_bytes(count) if count else ""


def _modules(data: ReportData) -> list[str]:
    if not data.modules:
        return []
    lines = ["Modules at the peak"]
    pending: list[tuple[int, ModuleNode]] = [(0, node) for node in reversed(data.modules)]
    while pending:
        depth, node = pending.pop()
        times = f" × {node.repeats:,}" if node.repeats > 1 else ""
        kind = f"  {node.class_name}" if node.class_name else ""
        row = Row(f"{'  ' * depth}{node.name}{times}{kind}", node.bytes, 0)
        lines.append(_row(row, data.peak_bytes))
        pending += [(depth + 1, child) for child in reversed(node.children)]
    return lines


_PARTS: dict[By, Callable[[ReportData], list[str]]] = {
    "category": _categories,
    "line": _source,
    "module": _modules,
    "op": _operations,
}


def _order(detail: By | None) -> list[By]:
    """The dimension asked for comes first. Operations are many: only if asked for."""
    usual: list[By] = ["category", "line", "module"]
    return usual if detail is None else [detail, *(by for by in usual if by != detail)]


def _kept(data: ReportData) -> list[str]:
    if not data.kept:
        return []
    lines = [f"{fit('Stayed', NAME + 2)}{format_bytes(data.retained_bytes):>{FIGURE}}"]
    for kept in data.kept:
        name = NO_HOLDER if kept.name is None else kept.name
        end = f"  {origin(kept)}"
        room = WIDTH - NAME - 2 - FIGURE
        lines.append(f"  {fit(name, NAME)}{format_bytes(kept.bytes):>{FIGURE}}{fit(end, room)}")
        if kept.hint:
            lines += _wrapped(f"→ {kept.hint}", "      ")
    return [line.rstrip() for line in lines]


def _allocator(data: ReportData) -> list[str]:
    if data.allocator is None:
        return []
    rows = allocator_rows(data.allocator)
    return ["Allocator", *(f"  {fit(name, 26)}{value}" for name, value in rows)]


def _devices(data: ReportData) -> list[str]:
    if not data.other_devices:
        return []
    rows = [
        f"  {fit(one.device, 26)}peak {format_bytes(one.peak_bytes)},"
        f" {format_change(one.peak_bytes - one.start_bytes)} over the start;"
        f" {format_bytes(one.end_bytes)} at the end"
        for one in data.other_devices
    ]
    return ["Other devices", *rows]


def _comparison(data: ReportData) -> list[str]:
    other = data.comparison
    if other is None:
        return []
    heads = f"{'before':>{FIGURE}}{'now':>{FIGURE + 2}}{'change':>14}"
    lines = [*_wrapped(f"Compared: {change_headline(data, other)}")]
    for what, rows in (
        ("Categories", other.categories),
        ("Lines", other.lines),
        ("Modules", other.modules),
    ):
        if rows:
            lines += [f"{fit(what, NAME + 2)}{heads}", changes_text(rows)]
    return lines


def _bullets(notes: Sequence[str]) -> list[str]:
    return [line for note in notes for line in _wrapped(f"• {note}", "  ", "")]


def _wrapped(text: str, indent: str = "", first: str | None = None) -> list[str]:
    lead = indent if first is None else first
    lines = wrap(text, WIDTH, initial_indent=lead, subsequent_indent=indent)
    # What is wider than its number of characters is cut, not wrapped.
    return [fit(line, WIDTH).rstrip() for line in lines]
