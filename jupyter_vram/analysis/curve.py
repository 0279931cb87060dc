"""Live bytes over time, by category, thinned to what a chart can show."""

from __future__ import annotations

import numpy as np

from jupyter_vram.analysis.live import live_bytes, peak_event, seconds
from jupyter_vram.model.report_data import Curve, Series, Span
from jupyter_vram.model.trace import NONE, Int8, Int64, Trace
from jupyter_vram.model.units import CATEGORIES

BUCKETS = 160
"""Stretches of time; each keeps its highest and its lowest point."""


def curve(trace: Trace, category: Int8, buckets: int = BUCKETS) -> Curve:
    """At most ``2 * buckets + 3`` points; the first, the last and the peak are among them."""
    live = live_bytes(trace)
    events = _chosen(trace, live, buckets)
    duration = max(0.0, (trace.end_ns - trace.start_ns) / 1e9)
    times = [0.0, *(min(duration, seconds(trace, event)) for event in events), duration]
    blocks = trace.blocks
    before = blocks.alloc_event == NONE
    of_event = category[trace.block] if len(trace.block) else np.zeros(0, np.int8)
    series = []
    for row, name in enumerate(CATEGORIES):
        start = int(blocks.size_bytes[before & (category == row)].sum())
        total = start + np.cumsum(np.where(of_event == row, trace.change_bytes, 0))
        values = [start, *(int(total[event]) for event in events)]
        values.append(values[-1] if not len(total) else int(total[-1]))
        if any(values):
            series.append(Series(name, tuple(values)))
    return Curve(tuple(round(time, 6) for time in times), tuple(series))


def _chosen(trace: Trace, live: Int64, buckets: int) -> list[int]:
    count = len(trace.time_ns)
    if count <= 2 * buckets:
        return list(range(count))
    edges = np.linspace(int(trace.time_ns[0]), int(trace.time_ns[-1]) + 1, buckets + 1)
    bounds = np.searchsorted(trace.time_ns, edges)
    chosen = {0, count - 1, max(0, peak_event(trace))}
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if high > low:
            part = live[low + 1 : high + 1]
            chosen |= {low + int(part.argmax()), low + int(part.argmin())}
    return sorted(chosen)


def spans(trace: Trace, most: int = 200) -> tuple[Span, ...]:
    """The phases on the curve's time axis. Of very many, the longest."""
    found = [
        Span(
            span.phase,
            max(0.0, (span.start_ns - trace.start_ns) / 1e9),
            max(0.0, (span.end_ns - trace.start_ns) / 1e9),
        )
        for span in trace.phases
        if span.phase != "other" and span.end_ns > trace.start_ns
    ]
    longest = sorted(found, key=lambda span: span.start_s - span.end_s)[:most]
    return tuple(sorted(longest, key=lambda span: (span.start_s, span.name)))
