"""The timeline as static HTML: an SVG image without text, and the labels around it as HTML.

The SVG is an image in a data URI: inline, sanitisers would take it and leave its labels behind. It
stretches with the page; the labels keep their size.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from itertools import accumulate

from jupyter_vram.model.report_data import ReportData, Span
from jupyter_vram.render.colors import LINE, color_of
from jupyter_vram.render.html_parts import FAINT, element, escape
from jupyter_vram.render.report_words import format_seconds, is_dry_run
from jupyter_vram.render.text import format_bytes

WIDTH, HEIGHT = 1000, 200
"""Of the drawing, in units of its own."""
PIXELS = 170
GUTTER = "64px"
STRETCH_MIN = 0.09
"""A phase shorter than this share of the recording has no label of its own."""


def timeline_html(data: ReportData) -> str:
    """Nothing if there is no curve."""
    curve = data.curve
    if len(curve.time_s) < 2 or not curve.series:
        return ""
    axis = _Axis(data)
    ticks = " ".join(
        element(
            "span",
            f"position:absolute;left:-{GUTTER};width:56px;text-align:right;line-height:14px;"
            f"top:{100 * (1 - at / axis.top_bytes):.4g}%;margin-top:-7px;{FAINT}",
            _round_bytes(at),
        )
        for at in axis.ticks
    )
    image = (
        f'<img alt="{escape(_described(data))}" width="720" height="{PIXELS}"'
        f' src="data:image/svg+xml;base64,{b64encode(_svg(data, axis).encode()).decode()}"'
        ' style="display:block;width:100%;height:100%;max-width:none;margin:0;background:none">'
    )
    plot = element("div", f"position:relative;height:{PIXELS}px", f"{ticks} {image}")
    strip = " ".join(
        _phase(span, axis, timed=not is_dry_run(data))
        for span in data.spans
        if axis.share(span) >= STRETCH_MIN
    )
    ends = f"<span>0 s</span> <span>{format_seconds(axis.end_s)}</span>"
    if is_dry_run(data):
        ends = "<span></span> <span>order of operations →</span>"
    parts = [
        element("div", "position:relative;height:17px;line-height:15px", _peak(data, axis)),
        plot,
        element("div", "position:relative;height:17px;margin-top:3px", strip) if strip else "",
        element(
            "div", f"display:flex;justify-content:space-between;line-height:17px;{FAINT}", ends
        ),
    ]
    chart = element("div", f"margin-left:{GUTTER};font-size:12px", "".join(parts))
    return element("div", "margin:10px 0 0 0", chart + _totals(data, axis))


class _Axis:
    """Seconds and bytes → places in the drawing."""

    def __init__(self, data: ReportData) -> None:
        times = data.curve.time_s
        self.start_s = times[0]
        self.end_s = max(times[-1], times[0] + 1e-9)
        totals = map(sum, zip(*(one.bytes for one in data.curve.series), strict=True))
        self.ticks = ticks(max(data.peak_bytes, *totals, 1))
        self.top_bytes = self.ticks[-1]

    def part(self, seconds: float) -> float:
        """Of the width, from 0 to 1."""
        return min(1.0, max(0.0, (seconds - self.start_s) / (self.end_s - self.start_s)))

    def share(self, span: Span) -> float:
        return self.part(span.end_s) - self.part(span.start_s)

    def x(self, seconds: float) -> str:
        return f"{WIDTH * self.part(seconds):.5g}"

    def y(self, count: int) -> str:
        return f"{HEIGHT * (1 - count / self.top_bytes):.4g}"


def ticks(most: int) -> list[int]:
    """Round steps in the binary unit of `most`, from 0 to at least `most`: three to five."""
    unit = 1
    while unit * 1024 <= most:
        unit *= 1024
    scale = 1
    while True:
        for factor in (1, 2, 4, 5):
            step = max(1, factor * scale * unit // (1 if unit == 1 else 10))
            if step * 4 >= most:
                return [step * i for i in range(-(-most // step) + 1)]
        scale *= 10


def _svg(data: ReportData, axis: _Axis) -> str:
    """Shaded phases, bands, a line at the peak."""
    grid = "".join(
        f'<path d="M0 {axis.y(at)}H{WIDTH}" stroke="{LINE}" stroke-opacity=".4"'
        ' vector-effect="non-scaling-stroke"/>'
        for at in axis.ticks
    )
    shades = "".join(
        f'<rect x="{axis.x(span.start_s)}" width="{WIDTH * axis.share(span):.5g}" y="0"'
        f' height="{HEIGHT}" fill="{LINE}" fill-opacity="{_shade(span.name)}"/>'
        for span in data.spans
    )
    peak = f"M{axis.x(data.peak_s)} 0V{HEIGHT}"
    mark = "".join(
        f'<path d="{peak}" stroke="{color}" stroke-width="{width}" stroke-opacity="{opacity}"'
        ' vector-effect="non-scaling-stroke"/>'
        for color, width, opacity in (("#fff", 3.5, 0.7), ("#111", 1.5, 1))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' preserveAspectRatio="none" fill="none">{shades}{grid}{_bands(data, axis)}{mark}</svg>'
    )


def _bands(data: ReportData, axis: _Axis) -> str:
    """The highest first, each down to the axis: the next ones lie over it."""
    curve = data.curve
    tops = list(
        accumulate(
            (one.bytes for one in curve.series),
            lambda below, more: tuple(map(sum, zip(below, more, strict=True))),
        )
    )
    xs = [axis.x(seconds) for seconds in curve.time_s]
    return "".join(
        f'<path fill="{color_of(one.name)}" d="M{xs[0]} {HEIGHT}L'
        f"{' '.join(f'{x} {axis.y(count)}' for x, count in zip(xs, top, strict=True))}"
        f'V{HEIGHT}Z"/>'
        for one, top in reversed(list(zip(curve.series, tops, strict=True)))
    )


def _shade(phase: str) -> float:
    return {"forward": 0.1, "backward": 0.22, "recompute": 0.3}.get(phase, 0.1)


def _round_bytes(count: int) -> str:
    return re.sub(r"\.0+ ", " ", format_bytes(count)) if count else "0"


def _phase(span: Span, axis: _Axis, *, timed: bool) -> str:
    """A labelled box beneath its stretch of the chart."""
    style = (
        f"position:absolute;left:{100 * axis.part(span.start_s):.4g}%;box-sizing:border-box;"
        f"width:{100 * axis.share(span):.4g}%;overflow:hidden;text-overflow:ellipsis;"
        f"white-space:nowrap;line-height:17px;padding:0 0 0 5px;border-left:1px solid {LINE};"
        f"background-color:rgba(128,128,128,{_shade(span.name):.2g})"
    )
    words = f"{span.name} {format_seconds(span.end_s - span.start_s)}" if timed else span.name
    return element("span", style, escape(words), f' title="{escape(words)}"')


def _peak(data: ReportData, axis: _Axis) -> str:
    """A label over the line, on the side where there is room."""
    words = f"peak {format_bytes(data.peak_bytes)}"
    at = 100 * axis.part(data.peak_s)
    style = "position:absolute;white-space:nowrap;font-weight:bold;"
    if at <= 50:
        return element("span", f"{style}left:{at:.4g}%;margin-left:-5px", f"▼ {words}")
    return element("span", f"{style}right:{100 - at:.4g}%;margin-right:-5px", f"{words} ▼")


def _totals(data: ReportData, axis: _Axis) -> str:
    """How long each kind of phase took, where not every phase has a label."""
    if is_dry_run(data) or all(axis.share(span) >= STRETCH_MIN for span in data.spans):
        return ""
    seconds: dict[str, float] = {}
    for span in data.spans:
        seconds[span.name] = seconds.get(span.name, 0.0) + span.end_s - span.start_s
    count = Counter(span.name for span in data.spans)
    words = ", ".join(
        f"{name} {f'× {count[name]:,}: ' if count[name] > 1 else ''}{format_seconds(total)}"
        for name, total in seconds.items()
    )
    return element("div", f"margin-left:{GUTTER};font-size:12px", f"Phases: {escape(words)}")


def _described(data: ReportData) -> str:
    first, last = (
        sum(one.bytes[at] for one in data.curve.series) for at in (0, len(data.curve.time_s) - 1)
    )
    if is_dry_run(data):
        over, at = "in the order of operations", ""
    else:
        over, at = f"over {format_seconds(data.duration_s)}", f" at {format_seconds(data.peak_s)}"
    return (
        f"Memory {over}, stacked by category: {format_bytes(first)} at the start, peak"
        f" {format_bytes(data.peak_bytes)}{at}, {format_bytes(last)} at the end"
    )
