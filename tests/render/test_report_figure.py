"""The timeline as a Plotly figure."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from jupyter_vram.render.report_figure import PlotlyMissingError, timeline_figure
from reports.examples import empty, gpu

GIB = 1 << 30


def test_bands_are_stacked_and_add_up_to_the_peak() -> None:
    report = gpu()
    figure = timeline_figure(report)
    assert [trace.name for trace in figure.data] == [one.name for one in report.curve.series]
    assert {trace.stackgroup for trace in figure.data} == {"bytes"}
    totals = [sum(values) * GIB for values in zip(*(t.y for t in figure.data), strict=True)]
    assert max(totals) == pytest.approx(report.peak_bytes)
    assert figure.layout.yaxis.title.text == "GiB"


def test_peak_and_phases_are_marked() -> None:
    report = gpu()
    figure = timeline_figure(report)
    assert [(s.type, s.x0, s.x1) for s in figure.layout.shapes] == [
        *(("rect", span.start_s, span.end_s) for span in report.spans),
        ("line", report.peak_s, report.peak_s),
    ]
    texts = [note.text for note in figure.layout.annotations]
    assert texts == ["forward", "backward", "optimizer", "<b>peak 7.64 GiB</b>"]


def test_a_sampled_peak_is_a_lower_bound() -> None:
    figure = timeline_figure(dataclasses.replace(gpu(), exact=False))
    assert figure.layout.annotations[-1].text == "<b>peak ≥ 7.64 GiB</b>"


def test_names_are_no_markup() -> None:
    kept = (dataclasses.replace(gpu().kept[0], name="<b>x"),)
    figure = timeline_figure(dataclasses.replace(gpu(), kept=kept))
    assert "&lt;b&gt;x" in figure.layout.title.text


def test_nothing_recorded_is_an_empty_figure() -> None:
    figure = timeline_figure(empty())
    assert len(figure.data) == 0
    assert len(figure.layout.shapes) == 0


def test_without_plotly_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(PlotlyMissingError, match="%pip install plotly"):
        timeline_figure(gpu())
