"""A report as the mime bundle of a cell's output.

Jupyter front ends draw the one they know best: JSON (the labextension), HTML (VS Code, Colab, code
hosts), text. The output is saved in the notebook, so it is bounded, whatever was recorded.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from jupyter_vram.model.report_data import MIME_TYPE, Curve, ReportData
from jupyter_vram.model.report_json import to_json
from jupyter_vram.render import report_html as html
from jupyter_vram.render.report_fold import Limits, fold
from jupyter_vram.render.report_html import report_html
from jupyter_vram.render.report_text import report_text

MAX_BYTES = 300_000
"""Of a bundle in the notebook's file."""

LARGE = Limits(
    points=300,
    rows=100,
    source_lines=400,
    modules=300,
    name_chars=160,
    line_chars=300,
    notes=20,
    note_chars=500,
)
MEDIUM = Limits(
    points=200,
    rows=30,
    source_lines=120,
    modules=80,
    name_chars=120,
    line_chars=200,
    notes=12,
    note_chars=400,
)
SMALL = Limits(
    points=60,
    rows=8,
    source_lines=20,
    modules=16,
    name_chars=60,
    line_chars=80,
    notes=5,
    note_chars=160,
    depth=8,
)
LEVELS = ((LARGE, html.LIMITS), (MEDIUM, html.LIMITS), (MEDIUM, SMALL), (SMALL, SMALL))
"""Of JSON and HTML: the first that fits is taken. The last one always fits."""


def bundle(data: ReportData, *, plot: bool = True) -> dict[str, object]:
    """JSON, HTML and text of a report, at most `MAX_BYTES` as the notebook's file has them.

    Where something was folded, a note says so; the parts add up to the same bytes. Without `plot`
    there is no chart, and the JSON's curve is empty.
    """
    if not plot:
        data = dataclasses.replace(data, curve=Curve((), ()), spans=())
    text = report_text(data)
    result: dict[str, object] = {}
    for json_limits, html_limits in LEVELS:
        result = {
            MIME_TYPE: to_json(fold(data, json_limits)),
            "text/html": report_html(data, html_limits),
            "text/plain": text,
        }
        if size_bytes(result) <= MAX_BYTES:
            break
    return result


def size_bytes(content: Mapping[str, object]) -> int:
    """Of a bundle in a notebook's file: nbformat splits texts into lines, and indents."""
    lines = {
        mime: value.splitlines(keepends=True) if isinstance(value, str) else value
        for mime, value in content.items()
    }
    notebook = {"cells": [{"outputs": [{"data": lines}]}]}
    return len(json.dumps(notebook, ensure_ascii=False, indent=1).encode())
