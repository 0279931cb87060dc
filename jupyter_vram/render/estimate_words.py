"""The sentences of a dry run's estimate, for text and HTML alike."""

from __future__ import annotations

from jupyter_vram.model.estimate import Estimate, GpuFit, Grid, Largest
from jupyter_vram.render.text import format_bytes

MARKS = {"fits": "✓", "tight": "≈", "does not fit": "✗"}
VARIES = "What it needs with other values"


def estimate_headline(estimate: Estimate) -> str:
    """``Dry run: 9.15 GiB of the RTX 4090's 24.0 GiB: fits``."""
    needs = f"Dry run: {format_bytes(estimate.peak_device_bytes)}"
    if estimate.gpu is None or estimate.total_bytes is None:
        return f"{needs} on a GPU" if len(estimate.parts) > 1 else f"{needs} on the CPU"
    whole = format_bytes(estimate.total_bytes)
    verdict = estimate.fits[0].verdict if estimate.fits else ""
    return f"{needs} of the {estimate.gpu}'s {whole}" + (f": {verdict}" if verdict else "")


def estimate_subtitle(estimate: Estimate) -> str:
    """How sure it is."""
    between = f"between {format_bytes(estimate.low_bytes)} and {format_bytes(estimate.high_bytes)}"
    return f"A prediction, {between}: nothing was computed, and no memory of a GPU was used."


def variables(estimate: Estimate) -> list[str]:
    """Those whose largest values are told."""
    return list(dict.fromkeys(largest.variable for one in estimate.fits for largest in one.largest))


def largest_text(fit: GpuFit, variable: str) -> str:
    """``24``, ``≥ 64``, ``≈ 11``, ``none``; nothing where it is not known."""
    found = next((one for one in fit.largest if one.variable == variable), None)
    return "" if found is None else _value(found)


def _value(largest: Largest) -> str:
    if largest.value is None:
        return "none"
    sign = "≥ " if largest.at_least else "≈ " if largest.approximate else ""
    return f"{sign}{largest.value:,}"


def grid_rows(grid: Grid, usable_bytes: int | None) -> list[tuple[str, list[tuple[str, float]]]]:
    """By value of the first variable: each cell's text, and its share of what is usable (0 where
    that, or the cell, is not known)."""
    columns = len(grid.axes[1].values) if len(grid.axes) > 1 else 1
    rows = []
    for index, value in enumerate(grid.axes[0].values):
        cells = []
        for size_bytes in grid.device_bytes[index * columns : (index + 1) * columns]:
            if size_bytes is None:
                cells.append(("–", 0.0))
                continue
            share = size_bytes / usable_bytes if usable_bytes else 0.0
            mark = " ✗" if share > 1 else ""
            cells.append((f"{format_bytes(size_bytes)}{mark}", share))
        rows.append((f"{value:,}", cells))
    return rows


def grid_heads(grid: Grid) -> list[str]:
    """The corner, then the columns' values."""
    rows = grid.axes[0].variable
    if len(grid.axes) == 1:
        return [rows, "needs"]
    columns = grid.axes[1]
    return [f"{rows} ↓  {columns.variable} →", *(f"{value:,}" for value in columns.values)]


def grid_caption(grid: Grid, estimate: Estimate) -> str:
    """What the figures are."""
    del grid
    if estimate.gpu is None:
        return f"{VARIES}, in bytes of the device"
    return f"{VARIES}; ✗ does not fit the {estimate.gpu}"


def usable_bytes(estimate: Estimate) -> int | None:
    """Of the GPU that was asked for."""
    return estimate.fits[0].usable_bytes if estimate.gpu is not None and estimate.fits else None
