"""A report as a page of its own."""

from __future__ import annotations

import html

from jupyter_vram.model.report_data import ReportData
from jupyter_vram.render.report_html import report_html
from jupyter_vram.render.report_text import headline

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body style="font-family: system-ui, sans-serif; max-width: 70rem; margin: auto; padding: 1rem">
{body}
</body>
</html>
"""


def report_page(data: ReportData) -> str:
    """An HTML document that needs nothing else, and is light or dark as its reader prefers."""
    return _PAGE.format(title=html.escape(headline(data)), body=report_html(data))
