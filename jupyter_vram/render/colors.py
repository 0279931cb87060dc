"""The colours of a report. Each has a contrast of at least 3 : 1 with white and with the dark
backgrounds of JupyterLab and VS Code: static HTML does not know on which of them it is shown."""

from __future__ import annotations

from jupyter_vram.model.units import CATEGORIES, Category

CATEGORY_COLORS: dict[Category, str] = {
    "parameter": "#6f7f95",
    "buffer": "#9a7b4f",
    "gradient": "#1b9677",
    "optimizer state": "#c27a12",
    "activation": "#3b7ddd",
    "input": "#a566c4",
    "temporary": "#d2527f",
    "unknown": "#8a8a8a",
}
PEAK = "#3b7ddd"
"""Bars of bytes at the peak."""
KEPT = "#d64545"
"""Bars of bytes that stayed."""
LINE = "#808080"
"""Axes, marks, shading."""

_OTHER = CATEGORY_COLORS["unknown"]


def color_of(category: str) -> str:
    """The colour of a band or row; what is no category has that of *unknown*."""
    return _COLORS.get(category, _OTHER)


_COLORS: dict[str, str] = {name: CATEGORY_COLORS[name] for name in CATEGORIES}

PART_COLORS: dict[str, str] = {
    "tensors": CATEGORY_COLORS["activation"],
    "rounding": CATEGORY_COLORS["buffer"],
    "library workspaces": CATEGORY_COLORS["input"],
    "reserved but free": CATEGORY_COLORS["unknown"],
    "CUDA context": CATEGORY_COLORS["optimizer state"],
}
"""Of what a device holds in a dry run."""
FITS, TIGHT, DOES_NOT_FIT = "#1b9677", "#c27a12", "#d64545"
