"""A dry run's estimate as static HTML (`jupyter_vram.render.html_parts`)."""

from __future__ import annotations

from jupyter_vram.model.estimate import Estimate, Grid
from jupyter_vram.render.colors import DOES_NOT_FIT, FITS, LINE, PART_COLORS, TIGHT
from jupyter_vram.render.estimate_words import (
    MARKS,
    estimate_headline,
    estimate_subtitle,
    grid_caption,
    grid_heads,
    grid_rows,
    largest_text,
    usable_bytes,
    variables,
)
from jupyter_vram.render.html_parts import (
    CELL,
    FAINT,
    FIGURE,
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
from jupyter_vram.render.text import format_bytes

VERDICT_COLORS = {"fits": FITS, "tight": TIGHT, "does not fit": DOES_NOT_FIT}
ROW = ' scope="row" align="left"'


def estimate_html(estimate: Estimate) -> str:
    """From the headline to what was assumed."""
    head = [
        element("strong", "font-size:15px", escape(estimate_headline(estimate))),
        faint(estimate_subtitle(estimate)),
    ]
    parts = [
        *(element("div", "margin:0", line) for line in head),
        _bar(estimate),
        section(_parts(estimate)) if len(estimate.parts) > 1 else "",
        section(_fits(estimate)) if estimate.fits else "",
        section(_grid(estimate.grid, estimate)) if estimate.grid is not None else "",
        _assumptions(estimate),
    ]
    return element("div", "margin:0 0 18px 0", "".join(parts))


def _bar(estimate: Estimate) -> str:
    """The parts side by side, on the scale of the GPU's memory."""
    if len(estimate.parts) < 2:
        return ""
    whole = max(estimate.total_bytes or 0, estimate.high_bytes, 1)
    pieces = [
        element(
            "span",
            f"display:block;height:14px;width:{100 * part.bytes / whole:.4g}%;"
            f"background-color:{PART_COLORS.get(part.name, LINE)}",
            "",
            f' title="{escape(part.name)}: {format_bytes(part.bytes)}"',
        )
        for part in estimate.parts
        if part.bytes
    ]
    box = f"display:flex;border:1px solid {LINE};border-radius:3px;overflow:hidden;margin:8px 0 0 0"
    return element("div", box, "".join(pieces))


def _parts(estimate: Estimate) -> str:
    heads = [
        ("<strong>From tensors to the device</strong>", f"{CELL};width:30%"),
        (faint("bytes"), f"{FIGURE};width:12%"),
        (faint("between"), f"{FIGURE};width:24%"),
        ("", f"{CELL};width:34%"),
    ]
    rows = [
        row(
            element("th", CELL, swatch(PART_COLORS.get(part.name, LINE)) + escape(part.name), ROW),
            figure_cell(part.bytes),
            element("td", f"{FIGURE};{FAINT}", _between(part.low_bytes, part.high_bytes)),
            element("td", f"{CELL};padding-left:16px;font-size:11px;{FAINT}", marked(part.source)),
        )
        for part in estimate.parts
    ]
    whole = "<strong>device</strong>"
    rows.append(
        row(
            element("th", CELL, whole, ROW),
            figure_cell(estimate.peak_device_bytes),
            element("td", FIGURE, _between(estimate.low_bytes, estimate.high_bytes)),
            element("td", CELL, ""),
        )
    )
    return table("", heads, rows, fixed=True)


def _between(low: int, high: int) -> str:
    return "exact" if low == high else f"{format_bytes(low)} – {format_bytes(high)}"


def _fits(estimate: Estimate) -> str:
    names = variables(estimate)
    heads = [
        ("<strong>Fits on</strong>", CELL),
        (faint("memory"), FIGURE),
        ("", f"{CELL};padding-left:16px"),
        *((faint(f"largest {name}"), FIGURE) for name in names),
    ]
    rows = [
        row(
            element(
                "th",
                f"{CELL};font-weight:{'bold' if one.gpu == estimate.gpu else 'normal'}",
                escape(one.gpu),
                ROW,
            ),
            figure_cell(one.total_bytes),
            element(
                "td",
                f"{CELL};padding-left:16px;color:{VERDICT_COLORS[one.verdict]}",
                f"{MARKS[one.verdict]} {one.verdict}",
            ),
            *(element("td", FIGURE, escape(largest_text(one, name))) for name in names),
        )
        for one in estimate.fits
    ]
    return table("", heads, rows)


def _grid(grid: Grid, estimate: Estimate) -> str:
    corner, *columns = grid_heads(grid)
    heads = [(faint(corner), CELL), *((escape(name), FIGURE) for name in columns)]
    rows = []
    for value, cells in grid_rows(grid, usable_bytes(estimate)):
        shaded = [
            element("td", f"{FIGURE};padding-right:8px;{_shade(share)}", escape(text))
            for text, share in cells
        ]
        rows.append(row(element("th", CELL, value, ROW), *shaded))
    failures = "".join(
        element("div", f"margin:0;font-size:12px;{FAINT}", marked(text)) for text in grid.failures
    )
    return table(escape(grid_caption(grid, estimate)), heads, rows) + failures


def _shade(share: float) -> str:
    """A background that deepens with the share of the GPU."""
    if share > 1:
        return "background-color:rgba(214,69,69,.30)"
    return f"background-color:rgba(59,125,221,{0.08 + 0.35 * share:.2f})"


def _assumptions(estimate: Estimate) -> str:
    if not estimate.assumptions:
        return ""
    items = "".join(
        element("li", "margin:0", f"{marked(one.text)} {faint(one.effect)}")
        for one in estimate.assumptions
    )
    title = element("div", "font-weight:bold;padding:0 0 3px 0", "Assumed")
    return section(title + element("ul", "margin:0;padding:0 0 0 18px", items))
