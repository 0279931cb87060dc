"""A dry run's estimate as plain text."""

from __future__ import annotations

from textwrap import wrap

from jupyter_vram.model.estimate import Estimate, Grid
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
from jupyter_vram.render.text import format_bytes, table

WIDTH = 100


def estimate_text(estimate: Estimate) -> str:
    """From the headline to what was assumed."""
    sections = [
        f"{estimate_headline(estimate)}\n{estimate_subtitle(estimate)}",
        _parts(estimate),
        _fits(estimate),
        _grid(estimate.grid, estimate) if estimate.grid is not None else "",
        _assumptions(estimate),
    ]
    return "\n\n".join(filter(None, sections))


def _parts(estimate: Estimate) -> str:
    if len(estimate.parts) < 2:
        return ""
    rows = [
        (part.name, format_bytes(part.bytes), format_bytes(part.low_bytes), "–",
         format_bytes(part.high_bytes))
        for part in estimate.parts
    ]  # fmt: skip
    rows.append(
        ("device", format_bytes(estimate.peak_device_bytes), format_bytes(estimate.low_bytes), "–",
         format_bytes(estimate.high_bytes))
    )  # fmt: skip
    return table(("From tensors to the device", "bytes", "from", "", "to"), rows)


def _fits(estimate: Estimate) -> str:
    if not estimate.fits:
        return ""
    names = variables(estimate)
    heads = ("Fits on", "memory", "", *(f"largest {name}" for name in names))
    rows = [
        (
            one.gpu,
            format_bytes(one.total_bytes),
            f"{MARKS[one.verdict]} {one.verdict}",
            *(largest_text(one, name) for name in names),
        )
        for one in estimate.fits
    ]
    return table(heads, rows)


def _grid(grid: Grid, estimate: Estimate) -> str:
    rows = [
        (value, *(text for text, _ in cells))
        for value, cells in grid_rows(grid, usable_bytes(estimate))
    ]
    lines = [grid_caption(grid, estimate), table(tuple(grid_heads(grid)), rows)]
    return "\n".join([*lines, *(line for text in grid.failures for line in wrap(text, WIDTH))])


def _assumptions(estimate: Estimate) -> str:
    if not estimate.assumptions:
        return ""
    lines = ["Assumed"]
    for one in estimate.assumptions:
        lines += wrap(
            f"• {one.text} {one.effect}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
    return "\n".join(lines)
