"""A report as self-contained static HTML: no script, no style sheet, no id, nothing fetched.

It takes colour and font of the page around it, light or dark, and stays readable when a sanitiser
removes its styles (`jupyter_vram.render.html_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_vram.model.report_data import Change, Kept, ModuleNode, ReportData, Row, SourceLine
from jupyter_vram.render.colors import KEPT, LINE, PEAK, color_of
from jupyter_vram.render.estimate_html import estimate_html
from jupyter_vram.render.html_parts import (
    CELL,
    FAINT,
    FIGURE,
    MONO,
    RULE,
    bar,
    bar_cell,
    bytes_title,
    code,
    disclosure,
    element,
    escape,
    faint,
    figure_cell,
    marked,
    row,
    section,
    swatch,
    table,
)
from jupyter_vram.render.html_timeline import timeline_html
from jupyter_vram.render.report_fold import Limits, fold
from jupyter_vram.render.report_words import (
    AT_PEAK,
    NO_HOLDER,
    NOTHING,
    allocator_rows,
    before_rows,
    change_headline,
    comparison_rows,
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

LIMITS = Limits(
    points=200,
    rows=20,
    source_lines=80,
    modules=60,
    name_chars=160,
    line_chars=240,
    notes=12,
    note_chars=400,
    depth=12,
)
OPEN_LEVELS = 2
ROW = ' scope="row" align="left"'
BAR_CELL = f"{CELL};padding-top:7px;width:26%"
FIGURE_HEAD = f"{FIGURE};width:68px;padding-left:6px"


def report_html(data: ReportData, limits: Limits = LIMITS) -> str:
    """The whole report; long tables folded, with sums that hold."""
    data = fold(data, limits)
    estimate = "" if data.estimate is None else estimate_html(data.estimate)
    parts = [estimate, _head(data), timeline_html(data)]
    if data.peak_bytes:
        parts += _at_peak(data)
    parts += [_kept(data), _comparison(data), _more(data), _notes(data)]
    style = "max-width:920px;font-size:13px;line-height:1.45;color:inherit;overflow-x:auto"
    return element("div", style, "".join(parts))


def _head(data: ReportData) -> str:
    peak, rest = headline(data).split(",", 1)
    peak = element("strong", "font-size:15px", escape(peak[:1].upper() + peak[1:]))
    end = ended(data)
    lines = [
        f"{peak},{marked(rest)}",
        faint(subtitle(data)),
        escape(end) if end else "",
        "" if data.peak_bytes else NOTHING,
    ]
    return "".join(element("div", "margin:0", line) for line in lines if line)


def _at_peak(data: ReportData) -> list[str]:
    """All dimensions; the one that was asked for first."""
    pair = [_categories(data), _modules(data)]
    if data.detail == "module":
        pair.reverse()
    beside = "flex:1 1 340px;min-width:0"
    columns = "".join(element("div", beside, part) for part in pair if part)
    parts = [section(columns, style="display:flex;flex-wrap:wrap;gap:14px 28px"), _source(data)]
    if data.detail == "line":
        parts.reverse()
    if data.detail == "op":
        parts.insert(0, section(_operations(data, opened=True)))
    return parts


def _categories(data: ReportData) -> str:
    whole = data.peak_bytes
    moment = "" if is_dry_run(data) else f"{format_seconds(data.peak_s)}, "
    when = f"{AT_PEAK} {faint(f'{moment}{format_bytes(whole)}')}"
    rows = [
        row(
            element("th", CELL, swatch(color_of(one.name)) + escape(one.name), ROW),
            element("td", BAR_CELL, bar(one.bytes, whole, color_of(one.name))),
            figure_cell(one.bytes),
            element("td", f"{FIGURE};{FAINT}", format_percent(share_of(one.bytes, whole))),
        )
        for one in data.by_category
    ]
    return table(when, (), rows)


def _modules(data: ReportData) -> str:
    if not data.modules:
        return ""
    title = element("div", "font-weight:bold;padding:0 0 3px 0", "Modules at the peak")
    return title + _module_list(data.modules, data.peak_bytes, 0)


def _module_list(nodes: Sequence[ModuleNode], whole: int, depth: int) -> str:
    indent = "14px" if depth else "0"
    items = "".join(element("li", "margin:0", _module(node, whole, depth)) for node in nodes)
    return element("ul", f"list-style:none;margin:0;padding:0 0 0 {indent}", items)


def _module(node: ModuleNode, whole: int, depth: int) -> str:
    """Bytes and bar to the right, over all levels at the same place; then the name."""
    times = f" × {node.repeats:,}" if node.repeats > 1 else ""
    kind = faint(f" {node.class_name}") if node.class_name else ""
    figure = element(
        "span",
        "float:right;width:74px;text-align:right",
        format_bytes(node.bytes),
        bytes_title(node.bytes),
    )
    length = element(
        "span", "float:right;width:64px;padding:5px 0 0 8px", bar(node.bytes, whole, PEAK)
    )
    line = f"{figure} {length} {escape(node.name)}{times}{kind}"
    if not node.children:
        return element("div", "padding:1px 0 1px 14px;overflow:hidden", line)
    inner = _module_list(node.children, whole, depth + 1)
    return disclosure(line, inner, opened=depth < OPEN_LEVELS)


def _source(data: ReportData) -> str:
    """The cell with its bytes; then what no line of it allocated, so that it adds up."""
    rows = [one for one in before_rows(data) if one.bytes]
    if not data.source and not rows:
        return ""
    kept = max((line.kept_bytes for line in data.source), default=0)
    most = max(kept, *(line.peak_bytes for line in data.source), *(one.bytes for one in rows), 0)
    digits = max((len(str(line.number)) for line in data.source), default=1)
    heads = [
        ("", f"{CELL};width:{8 * digits + 2}px"),
        ("<strong>Cell</strong>", CELL),
        (swatch(PEAK) + faint("at peak"), f"{FIGURE};width:{27 if kept else 36}%"),
    ]
    if kept:
        heads.append((swatch(KEPT) + faint("stayed"), f"{FIGURE};width:24%"))
    body = [_source_line(line, most, kept) for line in data.source]
    body += [_before(one, most, kept) for one in rows]
    return section(table("", heads, body, fixed=True))


def _source_line(line: SourceLine, most: int, kept: int) -> str:
    return row(
        element("td", f"{CELL};{MONO};{FAINT};text-align:right", f"{line.number}"),
        element("td", CELL, code(line.text)),
        bar_cell(line.peak_bytes, most, PEAK),
        bar_cell(line.kept_bytes, most, KEPT) if kept else "",
    )


def _before(one: Row, most: int, kept: int) -> str:
    return row(
        element("td", CELL, ""),
        element("td", CELL, element("em", FAINT, escape(one.name))),
        bar_cell(one.bytes, most, LINE),
        element("td", FIGURE, "") if kept else "",
    )


def _kept(data: ReportData) -> str:
    if not data.kept:
        return ""
    title = f"<strong>Stayed</strong> {faint(format_bytes(data.retained_bytes))}"
    heads = [(title, CELL), ("", f"{FIGURE};width:36%")]
    rows = [_kept_row(kept, data.retained_bytes) for kept in data.kept]
    return section(table("", heads, rows, fixed=True))


def _kept_row(kept: Kept, whole: int) -> str:
    name = faint(NO_HOLDER) if kept.name is None else code(kept.name)
    hint = element("div", FAINT, f"→ {marked(kept.hint)}") if kept.hint else ""
    words = f"{name} {faint(origin(kept))}{hint}"
    return row(element("td", CELL, words), bar_cell(kept.bytes, whole, KEPT))


def _comparison(data: ReportData) -> str:
    other = data.comparison
    if other is None:
        return ""
    title = element(
        "div", "margin:0", f"<strong>Compared</strong> {marked(change_headline(data, other))}"
    )
    tables = [
        ("Memory", comparison_rows(data, other)),
        ("Categories", other.categories),
        ("Lines", other.lines),
        ("Modules", other.modules),
    ]
    parts = [_changes(what, rows) for what, rows in tables if rows]
    return section(title, *parts, style=f"border-top:{RULE};padding:10px 0 0 0;overflow-x:auto")


def _changes(what: str, rows: Sequence[Change]) -> str:
    most = max(max(one.before_bytes, one.bytes) for one in rows)
    heads = [
        (f"<strong>{what}</strong>", CELL),
        (swatch(LINE) + faint("before"), FIGURE_HEAD),
        (swatch(PEAK) + faint("now"), FIGURE_HEAD),
        (faint("change"), FIGURE_HEAD),
    ]
    body = [
        row(
            element("th", CELL, _change_name(what, one, most), ROW),
            figure_cell(one.before_bytes),
            figure_cell(one.bytes),
            element(
                "td", FIGURE, f"<strong>{format_change(one.bytes - one.before_bytes)}</strong>"
            ),
        )
        for one in rows
    ]
    return section(table("", heads, body, fixed=True, style="font-size:12px"))


def _change_name(what: str, one: Change, most: int) -> str:
    """With both bars beneath: one above the other, they compare best."""
    name = code(one.name) if what == "Lines" else escape(one.name)
    return f"{name} {bar(one.before_bytes, most, LINE, 5)} {bar(one.bytes, most, PEAK, 5)}"


def _more(data: ReportData) -> str:
    """What few look at: closed."""
    operations = "" if data.detail == "op" else _operations(data, opened=False)
    parts = [operations, _allocator(data), _devices(data)]
    return section(*filter(None, parts)) if any(parts) else ""


def _operations(data: ReportData, *, opened: bool) -> str:
    if not data.by_op:
        return ""
    heads = [("", CELL), (faint("blocks"), f"{FIGURE};width:72px"), ("", f"{FIGURE};width:36%")]
    rows = [
        row(
            element("th", CELL, code(one.name), ROW),
            element("td", FIGURE, f"{one.count:,}"),
            bar_cell(one.bytes, data.peak_bytes, PEAK),
        )
        for one in data.by_op
    ]
    inner = table("", heads, rows, fixed=True)
    return disclosure("<strong>Operations at the peak</strong>", inner, opened=opened)


def _allocator(data: ReportData) -> str:
    if data.allocator is None:
        return ""
    shown = allocator_rows(data.allocator)
    brief = faint(f"{format_bytes(data.allocator.reserved_bytes)} reserved")
    rows = [
        row(
            element("th", f"{CELL};width:12em", escape(name), ROW),
            element("td", CELL, escape(value)),
        )
        for name, value in shown
    ]
    return disclosure(f"<strong>Allocator</strong> {brief}", table("", (), rows), opened=True)


def _devices(data: ReportData) -> str:
    if not data.other_devices:
        return ""
    heads = [("", CELL), *((faint(head), FIGURE) for head in ("start", "peak", "end"))]
    rows = [
        row(
            element("th", CELL, escape(one.device), ROW),
            *(figure_cell(count) for count in (one.start_bytes, one.peak_bytes, one.end_bytes)),
        )
        for one in data.other_devices
    ]
    return disclosure("<strong>Other devices</strong>", table("", heads, rows), opened=True)


def _notes(data: ReportData) -> str:
    items = "".join(element("li", "margin:0", marked(note)) for note in remarks(data))
    style = f"margin:12px 0 0 0;padding:0 0 0 18px;font-size:12px;{FAINT}"
    return element("ul", style, items) if items else ""
