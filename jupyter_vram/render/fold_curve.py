"""A curve with fewer points that looks the same."""

from __future__ import annotations

from collections.abc import Callable

from jupyter_vram.model.report_data import Curve, Series

BANDS = 12
"""At most; the smallest of more are added up."""


def thin(curve: Curve, points: int, peak_s: float, rename: Callable[[str], str]) -> Curve:
    """At most `points` (at least 5) of its points: both ends, the peak, and of each stretch the
    lowest and the highest. Bands that are zero throughout are left out.
    """
    series = _bands([one for one in curve.series if any(one.bytes)])
    chosen = _chosen(curve.time_s, series, points, peak_s)
    return Curve(
        tuple(curve.time_s[i] for i in chosen),
        tuple(Series(rename(one.name), tuple(one.bytes[i] for i in chosen)) for one in series),
    )


def _bands(series: list[Series]) -> list[Series]:
    if len(series) <= BANDS:
        return series
    largest = sorted(series, key=lambda one: -max(one.bytes))[: BANDS - 1]
    rest = [one for one in series if one not in largest]
    total = tuple(map(sum, zip(*(one.bytes for one in rest), strict=True)))
    return [one for one in series if one in largest] + [Series(f"… {len(rest):,} more", total)]


def _chosen(
    time_s: tuple[float, ...], series: list[Series], points: int, peak_s: float
) -> list[int]:
    count = len(time_s)
    if count <= points or not series:
        return list(range(count)) if count <= points else [0, count - 1]
    totals = list(map(sum, zip(*(one.bytes for one in series), strict=True)))
    peak = min(range(count), key=lambda i: (-totals[i], abs(time_s[i] - peak_s)))
    chosen = {0, count - 1, peak}
    stretches = max(1, (points - 3) // 2)
    for stretch in range(stretches):
        part = range(count * stretch // stretches, count * (stretch + 1) // stretches)
        chosen.add(min(part, key=totals.__getitem__))
        chosen.add(max(part, key=totals.__getitem__))
    return sorted(chosen)
