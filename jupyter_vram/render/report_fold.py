"""A report made small, by limits: tails of tables folded into one row, long sources, deep module
trees and long texts cut, the curve thinned. The parts still add up to the same bytes, exactly.

All texts leave here printable: what a terminal, a parser of HTML or a JSON file would take for
something else than text is replaced.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jupyter_vram.model.report_data import (
    Change,
    Comparison,
    DevicePeak,
    Kept,
    ReportData,
    Row,
    SourceLine,
    Span,
)
from jupyter_vram.render.fold_curve import thin
from jupyter_vram.render.fold_modules import prune
from jupyter_vram.render.report_words import CELL_LINES, is_before, is_cell_line

SEVERAL = "several"
"""The category of a folded row whose parts had different ones."""

# Controls, lone surrogates, and marks that reverse the direction of what follows.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a report is shown; each counts what is left after folding."""

    points: int
    rows: int
    """Of each table; of its three parts each, where what was there before, lines of the cell, and
    other code stand in one."""
    source_lines: int
    modules: int
    """Nodes of the tree."""
    name_chars: int
    line_chars: int
    """Of a line of the source."""
    notes: int
    note_chars: int
    depth: int = 24
    """Levels of the module tree."""


def clean(text: str) -> str:
    """Printable, on one line."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\n", " ").replace("\t", " "))


def fold(data: ReportData, limits: Limits) -> ReportData:
    """`data` within `limits`. A last note tells what was folded, if anything was."""
    return _Folding(limits).report(data)


class _Folding:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.folded: Counter[str] = Counter()

    def report(self, data: ReportData) -> ReportData:
        modules, hidden = prune(data.modules, self.limits.modules, self.limits.depth, self.name)
        self.folded["modules"] += hidden
        folded = dataclasses.replace(
            data,
            device=self.name(data.device),
            device_name=self.optional_name(data.device_name),
            name=self.optional_name(data.name),
            curve=thin(data.curve, self.limits.points, data.peak_s, self.name),
            spans=self.spans(data.spans, data.duration_s),
            by_category=self.rows(data.by_category),
            by_line=self.rows_by_owner(data.by_line, lines=bool(data.source)),
            by_module=self.rows(data.by_module),
            by_op=self.rows_by_owner(data.by_op, lines=False),
            source=self.source(data.source),
            modules=modules,
            kept=self.kept(data.kept),
            other_devices=self.devices(data.other_devices),
            comparison=data.comparison and self.comparison(data.comparison),
            error=None if data.error is None else self.note(data.error),
        )
        return dataclasses.replace(folded, notes=self.notes(data.notes))

    def name(self, text: str) -> str:
        """Cut in the middle: the end of a module's path tells most."""
        text, limit = clean(text), self.limits.name_chars
        if len(text) <= limit:
            return text
        head = limit // 2
        return f"{text[:head]}…{text[head + 1 - limit :]}"

    def optional_name(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def note(self, text: str) -> str:
        return _cut(clean(text), self.limits.note_chars)

    def tail(
        self, items: Sequence[_T], what: str, merge: Callable[[Sequence[_T]], _T]
    ) -> tuple[_T, ...]:
        limit = self.limits.rows
        if len(items) <= limit:
            return tuple(items)
        rest = items[limit - 1 :]
        self.folded[what] += len(rest)
        return (*items[: limit - 1], merge(rest))

    def rows(self, rows: Sequence[Row], what: str = "") -> tuple[Row, ...]:
        def merge(rest: Sequence[Row]) -> Row:
            name = _more(rest) + what
            return Row(name, sum(r.bytes for r in rest), sum(r.count for r in rest))

        return self.rows_as_they_are(self.tail(rows, "rows", merge))

    def rows_by_owner(self, rows: Sequence[Row], *, lines: bool) -> tuple[Row, ...]:
        """What was there before, lines of the cell and others in tails of their own: a reader adds
        them up apart. `lines`: the cell's stand beside its source."""
        before: list[Row] = []
        cell: list[Row] = []
        others: list[Row] = []
        for row in rows:
            part = before if is_before(row) else cell if lines and is_cell_line(row) else others
            part.append(row)
        if max(map(len, (before, cell, others))) <= self.limits.rows:
            return self.rows_as_they_are(rows)
        folded = [*self.rows(before), *self.rows(cell, CELL_LINES), *self.rows(others)]
        return tuple(sorted(folded, key=lambda row: -row.bytes))

    def rows_as_they_are(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(dataclasses.replace(row, name=self.name(row.name)) for row in rows)

    def kept(self, rows: Sequence[Kept]) -> tuple[Kept, ...]:
        def merge(rest: Sequence[Kept]) -> Kept:
            categories = {row.category for row in rest}
            category = categories.pop() if len(categories) == 1 else SEVERAL
            return Kept(
                _more(rest),
                sum(row.bytes for row in rest),
                sum(row.count for row in rest),
                category,
                None,
            )

        return tuple(
            dataclasses.replace(
                row,
                name=self.optional_name(row.name),
                category=self.name(row.category),
                hint=None if row.hint is None else self.note(row.hint),
            )
            for row in self.tail(rows, "rows", merge)
        )

    def changes(self, rows: Sequence[Change]) -> tuple[Change, ...]:
        def merge(rest: Sequence[Change]) -> Change:
            before = sum(row.before_bytes for row in rest)
            return Change(_more(rest), before, sum(row.bytes for row in rest))

        kept = self.tail(rows, "rows", merge)
        return tuple(dataclasses.replace(row, name=self.name(row.name)) for row in kept)

    def comparison(self, comparison: Comparison) -> Comparison:
        return dataclasses.replace(
            comparison,
            name=self.name(comparison.name),
            categories=self.changes(comparison.categories),
            lines=self.changes(comparison.lines),
            modules=self.changes(comparison.modules),
        )

    def devices(self, devices: Sequence[DevicePeak]) -> tuple[DevicePeak, ...]:
        self.folded["other devices"] += max(0, len(devices) - self.limits.rows)
        return tuple(
            dataclasses.replace(one, device=self.name(one.device))
            for one in devices[: self.limits.rows]
        )

    def spans(self, spans: Sequence[Span], duration_s: float) -> tuple[Span, ...]:
        """Too many: without those that no chart could show, then the longest."""
        limit = self.limits.rows
        chosen = list(spans)
        if len(chosen) > limit:
            chosen = [span for span in chosen if span.end_s - span.start_s >= duration_s / 500]
            chosen.sort(key=lambda span: span.start_s - span.end_s)
            chosen = sorted(chosen[:limit], key=lambda span: span.start_s)
            self.folded["phases"] += len(spans) - len(chosen)
        return tuple(dataclasses.replace(span, name=self.name(span.name)) for span in chosen)

    def source(self, source: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
        """The lines with most bytes and their neighbours; the gaps as one line each."""
        shown = _lines_to_show(source, self.limits.source_lines)
        lines: list[SourceLine] = []
        for index, line in enumerate(source):
            if index in shown:
                text = _UNPRINTABLE.sub("\ufffd", line.text.rstrip("\r\n").expandtabs(4))
                text = _cut(text, self.limits.line_chars)
                lines.append(dataclasses.replace(line, text=text))
                continue
            self.folded["lines of the source"] += 1
            peak, kept, number, count = line.peak_bytes, line.kept_bytes, line.number, 1
            if index and index - 1 not in shown:
                gap = lines.pop()
                peak, kept = peak + gap.peak_bytes, kept + gap.kept_bytes
                count, number = index - self._gap_start + 1, gap.number
            else:
                self._gap_start = index
            lines.append(SourceLine(number, f"… {count:,} lines", peak, kept))
        return tuple(lines)

    _gap_start = 0

    def notes(self, notes: Sequence[str]) -> tuple[str, ...]:
        limit = self.limits.notes
        shown = [self.note(note) for note in notes[:limit]]
        self.folded["notes"] += len(notes) - len(shown)
        told = [f"{count:,} {what}" for what, count in self.folded.items() if count]
        if told:
            shown.append(f"Folded here, to stay small: {', '.join(told)}. The sums are unchanged.")
        return tuple(shown)


def _more(rest: Sequence[object]) -> str:
    return f"… {len(rest):,} more"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _lines_to_show(source: Sequence[SourceLine], limit: int) -> set[int]:
    count = len(source)
    if count <= limit:
        return set(range(count))
    # Each line shown can have a gap behind it.
    room = (limit - 1) // 2
    by_bytes = sorted(range(count), key=lambda i: -source[i].peak_bytes - source[i].kept_bytes)
    loaded = [i for i in by_bytes[:room] if source[i].peak_bytes or source[i].kept_bytes]
    near = [j for i in loaded for j in (i - 1, i + 1) if 0 <= j < count]
    shown = set(list(dict.fromkeys([*loaded, *near, *range(room)]))[:room])
    alone = {i for i in range(1, count - 1) if i - 1 in shown and i + 1 in shown}
    return shown | alone
