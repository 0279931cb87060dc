"""Pieces of static HTML that every front end shows, whatever its sanitiser leaves of it.

JupyterLab keeps tables, ``<details>``, images and inline styles of untrusted output, and takes SVG,
``<style>`` and ids; code hosts take all styles as well. So each bar is a box drawn by an inline
style and, hidden by that style, the same bar in block characters: it shows where styles are gone.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from jupyter_vram.render.report_text import bar as text_bar
from jupyter_vram.render.text import format_bytes

MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
FAINT = "opacity:.75"
RULE = "1px solid rgba(128,128,128,.3)"
TABLE = (
    "border-collapse:collapse;table-layout:{};width:100%;margin:0;font-size:inherit;border:none;"
    "color:inherit"
)
CELL = "padding:2px 8px 2px 0;text-align:left;vertical-align:top;font-weight:normal"
FIGURE = (
    "padding:2px 0 2px 12px;text-align:right;vertical-align:top;white-space:nowrap;"
    "font-weight:normal"
)
_CODE = re.compile("`([^`]+)`")
TEXT_BAR = 12


def escape(text: str) -> str:
    """For text and quoted attributes."""
    return html.escape(text, quote=True)


def marked(text: str) -> str:
    """Escaped, with what stands in backticks as code."""
    return _CODE.sub(lambda found: code(html.unescape(found[1])), escape(text))


def code(text: str) -> str:
    """A name or an expression. No background of the front end's: it may not fit the theme."""
    style = f"{MONO};background-color:transparent;color:inherit;padding:0;font-size:95%"
    return element("code", f"{style};overflow-wrap:break-word;white-space:pre-wrap", escape(text))


def element(tag: str, style: str, inner: str, attributes: str = "") -> str:
    """One with an inline style."""
    return f'<{tag}{attributes} style="{style}">{inner}</{tag}>'


def faint(text: str) -> str:
    """Escaped, and less prominent."""
    return element("span", FAINT, escape(text))


def bytes_title(count: int) -> str:
    """The exact figure, for who points at it."""
    return f' title="{count:,} bytes"'


def figure_cell(count: int) -> str:
    """A cell with bytes."""
    return element("td", FIGURE, format_bytes(count), bytes_title(count))


def bar_cell(count: int, whole: int, color: str) -> str:
    """A cell with a bar and its bytes; the bar goes above where there is no room beside it."""
    if not count:
        return element("td", FIGURE, "")
    length = element("span", "display:block;flex:1 1 50px", bar(count, whole, color))
    figure = element("span", "display:block;flex:0 0 68px;margin-left:auto", format_bytes(count))
    both = element("span", "display:flex;flex-wrap:wrap;align-items:center", f"{length} {figure}")
    return element("td", FIGURE, both, bytes_title(count))


def bar(part: int, whole: int, color: str, height_px: int = 8) -> str:
    """A bar as long as a part of its box; nothing for 0."""
    if part <= 0 or whole <= 0:
        return ""
    percent = max(0.5, min(100.0, 100 * part / whole))
    size = f"width:{percent:.4g}%;height:{height_px}px;margin:0 0 1px 0;border-radius:2px"
    style = f"display:block;background-color:{color};{size}"
    return element("span", style, element("span", "display:none", text_bar(part, whole, TEXT_BAR)))


def swatch(color: str) -> str:
    """A square of a band's colour, before its name."""
    style = (
        f"display:inline-block;width:10px;height:10px;border-radius:2px;background-color:{color}"
    )
    return element("span", f"{style};margin-right:7px", "")


def row(*cells: str) -> str:
    """A table's row, without the front end's stripes."""
    return f'<tr style="background-color:transparent">{"".join(cells)}</tr>'


def table(
    caption: str,
    heads: Sequence[tuple[str, str]],
    rows: Iterable[str],
    *,
    fixed: bool = False,
    style: str = "",
) -> str:
    """`caption` and each head are HTML, a head with its cell's style; no head row without any.

    Columns as wide as their contents, or `fixed` by the heads: then long words break.
    """
    cells = [
        element("th", form, head, ' scope="col" align="left"') if head else element("td", form, "")
        for head, form in heads
    ]
    title = "caption-side:top;text-align:left;padding:0 0 3px 0;font-weight:bold;color:inherit"
    forms = [
        TABLE.format("fixed" if fixed else "auto"),
        *(["overflow-wrap:break-word"] if fixed else []),
        *([style] if style else []),
    ]
    return element(
        "table",
        ";".join(forms),
        f"{element('caption', title, caption) if caption else ''}"
        f"{f'<thead>{row(*cells)}</thead>' if heads else ''}<tbody>{''.join(rows)}</tbody>",
    )


def section(*parts: str, style: str = "") -> str:
    """A block with room above."""
    return element("div", f"margin:14px 0 0 0{';' if style else ''}{style}", "".join(parts))


def disclosure(summary: str, inner: str, *, opened: bool) -> str:
    """What opens and closes without a script. `summary` and `inner` are HTML."""
    state = " open" if opened else ""
    head = element("summary", "cursor:pointer;padding:1px 0", summary)
    return f"<details{state}>{head}{inner}</details>"
