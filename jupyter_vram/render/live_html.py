"""Figures of one process over time → the HTML of a live view: text and an inline SVG, no script."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jupyter_vram.model.kernel_report import AllocatorStats
from jupyter_vram.render.text import UNKNOWN, format_bytes

WIDTH, HEIGHT = 600, 110
POINTS = 240
"""No curve has more than twice as many: of each stretch the highest values are kept."""
ALLOCATED_COLOR = "#3b7ddd"
RESERVED_COLOR = "#8a8a8a"

_SMALL = "font-size: 11px; opacity: 0.8"


@dataclass(frozen=True, slots=True)
class LiveSample:
    """This process at one moment. `time`: seconds, of any clock that only moves forward."""

    time: float
    rss_bytes: int | None
    devices: tuple[AllocatorStats, ...] = ()


def live_html(samples: Sequence[LiveSample], *, window_s: float, note: str = "") -> str:
    """The last `window_s` up to the latest sample, a chart for each device that torch uses.

    Without one: the process's resident memory, said to be that. `note` is a sentence beneath.
    """
    charts = _device_charts(samples, window_s)
    if not charts:
        charts = [_resident_chart(samples, window_s)]
    beneath = f'<div style="{_SMALL}">{html.escape(note)}</div>' if note else ""
    return f'<div style="max-width: {WIDTH}px">{"".join(charts)}{beneath}</div>'


def live_text(sample: LiveSample) -> str:
    """The latest figures, for where no HTML is shown."""
    lines = [_device_figures(stats) for stats in sample.devices]
    return "\n".join(lines or [_resident_figures(sample)])


def _device_charts(samples: Sequence[LiveSample], window_s: float) -> list[str]:
    latest = {stats.ordinal: stats for sample in samples for stats in sample.devices}
    return [
        _chart(
            samples,
            window_s,
            _device_figures(latest[ordinal]),
            (_of_device(ordinal, "allocated_bytes"), ALLOCATED_COLOR),
            (_of_device(ordinal, "reserved_bytes"), RESERVED_COLOR),
        )
        for ordinal in sorted(latest)
    ]


def _resident_chart(samples: Sequence[LiveSample], window_s: float) -> str:
    figures = _resident_figures(samples[-1]) if samples else UNKNOWN
    return _chart(samples, window_s, figures, (lambda sample: sample.rss_bytes, ALLOCATED_COLOR))


def _device_figures(stats: AllocatorStats) -> str:
    return (
        f"cuda:{stats.ordinal}: allocated {format_bytes(stats.allocated_bytes)}"
        f" · reserved {format_bytes(stats.reserved_bytes)}"
        f" · peak allocated {format_bytes(stats.peak_allocated_bytes)}"
    )


def _resident_figures(sample: LiveSample) -> str:
    resident = format_bytes(sample.rss_bytes)
    return f"No GPU memory in use by torch; this process's resident memory: {resident}"


Figure = Callable[[LiveSample], int | None]


def _of_device(ordinal: int, name: str) -> Figure:
    def figure(sample: LiveSample) -> int | None:
        for stats in sample.devices:
            if stats.ordinal == ordinal:
                value: int = getattr(stats, name)
                return value
        return None

    return figure


def _chart(
    samples: Sequence[LiveSample], window_s: float, figures: str, *series: tuple[Figure, str]
) -> str:
    """The first series is filled; all are scaled to the highest value of any."""
    now = samples[-1].time if samples else 0.0
    seen = [sample for sample in samples if sample.time >= now - window_s]
    columns = [[figure(sample) for sample in seen] for figure, _ in series]
    top = max((value for column in columns for value in column if value is not None), default=0)
    scale = (HEIGHT - 6) / max(top, 1)
    drawn: list[str] = []
    for (_, color), column in zip(series, columns, strict=True):
        known = [
            (WIDTH * (1 - (now - sample.time) / window_s), value)
            for sample, value in zip(seen, column, strict=True)
            if value is not None
        ]
        points = [(x, HEIGHT - scale * value) for x, value in _thinned(known)]
        drawn.append(_curve(points, color, filled=not drawn))
    label = html.escape(figures, quote=True)
    return (
        f'<div style="margin-top: 4px">{html.escape(figures)}</div>'
        f'<div style="{_SMALL}">{format_bytes(top)}</div>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{label}" style="width: 100%; height: {HEIGHT}px; display: block;'
        f' border-bottom: 1px solid {RESERVED_COLOR}">{"".join(drawn)}</svg>'
        f'<div style="{_SMALL}; display: flex; justify-content: space-between">'
        f"<span>−{window_s:g} s</span>{_key(len(series))}<span>now</span></div>"
    )


def _key(count: int) -> str:
    if count == 1:
        return f'<span style="color: {ALLOCATED_COLOR}">resident</span>'
    return (
        f'<span><span style="color: {ALLOCATED_COLOR}">■ allocated</span>'
        f' <span style="color: {RESERVED_COLOR}">— reserved</span></span>'
    )


def _thinned(points: list[tuple[float, int]]) -> list[tuple[float, int]]:
    if len(points) <= 2 * POINTS:
        return points
    size = len(points) // POINTS
    stretches = [points[i : i + size] for i in range(0, len(points), size)]
    return [max(stretch, key=lambda point: point[1]) for stretch in stretches[:-1]] + points[-1:]


def _curve(points: list[tuple[float, float]], color: str, *, filled: bool) -> str:
    if not points:
        return ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    line = (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"'
        ' vector-effect="non-scaling-stroke"/>'
    )
    if not filled:
        return line
    area = f"{points[0][0]:.1f},{HEIGHT} {path} {points[-1][0]:.1f},{HEIGHT}"
    return f'<polygon points="{area}" fill="{color}" fill-opacity="0.25"/>{line}'
