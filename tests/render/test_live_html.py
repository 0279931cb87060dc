"""The live view's HTML: curves to scale, labelled figures, nothing that runs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from jupyter_vram.model.kernel_report import AllocatorStats
from jupyter_vram.render.live_html import (
    HEIGHT,
    POINTS,
    WIDTH,
    LiveSample,
    live_html,
    live_text,
)

GIB = 1 << 30


def stats(allocated: int, reserved: int, ordinal: int = 0) -> AllocatorStats:
    return AllocatorStats(
        device_id=f"GPU-{ordinal}",
        ordinal=ordinal,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        peak_allocated_bytes=4 * GIB,
    )


def sample(time: float, *devices: AllocatorStats, rss: int | None = GIB) -> LiveSample:
    return LiveSample(time, rss, devices)


def curves(html: str) -> list[list[tuple[float, float]]]:
    root = ET.fromstring(html)
    lines = [line.get("points") or "" for line in root.iter("polyline")]
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())]
        for line in lines
    ]


def test_a_device_has_a_curve_of_allocated_and_one_of_reserved() -> None:
    html = live_html(
        [sample(0, stats(0, 0)), sample(30, stats(GIB, 2 * GIB)), sample(60, stats(GIB, 2 * GIB))],
        window_s=60,
    )
    allocated, reserved = curves(html)
    assert [x for x, _ in allocated] == [0, WIDTH / 2, WIDTH]
    assert [y for _, y in reserved] == [HEIGHT, 6, 6]
    half = HEIGHT - (HEIGHT - 6) / 2
    assert [y for _, y in allocated] == [HEIGHT, half, half]
    assert "cuda:0: allocated 1.00 GiB · reserved 2.00 GiB · peak allocated 4.00 GiB" in html
    assert "−60 s" in html


def test_each_device_has_a_chart_and_uuids_stay_out() -> None:
    html = live_html([sample(1, stats(1, 2), stats(3, 4, ordinal=1))], window_s=60)
    assert len(curves(html)) == 4
    assert "cuda:1" in html
    assert "GPU-" not in html


def test_without_a_device_it_is_the_resident_memory_and_says_so() -> None:
    html = live_html([sample(0), sample(1, rss=2 * GIB)], window_s=60)
    assert len(curves(html)) == 1
    assert "resident memory: 2.00 GiB" in html
    assert "allocated" not in html


def test_what_is_unknown_is_not_drawn() -> None:
    html = live_html([sample(0, rss=None), sample(1, rss=GIB)], window_s=60)
    assert [len(curve) for curve in curves(html)] == [1]
    assert "resident memory: –" in live_html([sample(0, rss=None)], window_s=60)
    assert curves(live_html([], window_s=60)) == []


def test_a_device_that_came_later_begins_later() -> None:
    html = live_html([sample(0), sample(30), sample(60, stats(GIB, GIB))], window_s=60)
    assert [[x for x, _ in curve] for curve in curves(html)] == [[WIDTH], [WIDTH]]


def test_only_the_window_is_drawn() -> None:
    html = live_html([sample(t) for t in range(100)], window_s=10)
    ((*xs, _),) = ([x for x, _ in curve] for curve in curves(html))
    assert len(xs) == 10
    assert min(xs) >= 0


@pytest.mark.parametrize("count", [2 * POINTS + 1, 36_000])
def test_long_windows_are_thinned_and_keep_their_peaks(count: int) -> None:
    samples = [sample(t, rss=GIB) for t in range(count)]
    samples[count // 3] = sample(count // 3, rss=8 * GIB)
    html = live_html(samples, window_s=count)
    (curve,) = curves(html)
    assert POINTS <= len(curve) <= 2 * POINTS
    assert min(y for _, y in curve) == 6
    assert curve[-1][0] == WIDTH
    assert len(html) < 15_000


def test_it_is_small_and_runs_nothing() -> None:
    html = live_html([sample(t / 2, stats(GIB, GIB)) for t in range(121)], window_s=60, note="<b>")
    assert len(html) < 8_000
    assert "&lt;b&gt;" in html
    assert not re.search(r"<script|\bon\w+=|href|url\(", html)
    assert ET.fromstring(html).find(".//svg[@role='img']") is not None


def test_as_text() -> None:
    assert live_text(sample(0, stats(GIB, GIB))).startswith("cuda:0: allocated 1.00 GiB")
    assert live_text(sample(0)).endswith("resident memory: 1.00 GiB")
