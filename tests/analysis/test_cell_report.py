"""A recording becomes a report: the device, the source, the figures, the comparison."""

from __future__ import annotations

import dataclasses

import pytest

from jupyter_vram.analysis.cell_report import choose_device, report_data
from jupyter_vram.analysis.compare import MOST_ROWS, compared
from jupyter_vram.errors import RecordingError
from jupyter_vram.model.report_data import Change, Row
from jupyter_vram.model.trace import AllocatorFigures
from support.traces import Made, recording_of, trace_of

BLOCKS = [
    Made(size=100, identity="parameter", owner="m.weight", owner_module="m", requested=90),
    Made(size=50, comes=1, goes=4, line=1, module="m", op="aten::mul", saved=True),
    Made(size=30, comes=2, line=2, phase="other", op="aten::randn", owner="x"),
]
TEXT = "y = m(x)\nx = torch.randn(3)\n"


def test_figures() -> None:
    data = report_data(recording_of(trace_of(BLOCKS), text=TEXT))
    assert (data.start_bytes, data.peak_bytes, data.end_bytes) == (100, 180, 130)
    assert data.retained_bytes == 30
    assert data.peak_s == 0.002
    assert data.peak_requested_bytes == 170
    assert [(line.text, line.peak_bytes, line.kept_bytes) for line in data.source] == [
        ("y = m(x)", 50, 0),
        ("x = torch.randn(3)", 30, 30),
    ]
    assert data.execution_count == 3


def test_a_gpu_that_was_used_comes_first() -> None:
    cpu = trace_of([Made(size=10**9)])
    small, large = (trace_of([Made(size=n, comes=1)], device=f"cuda:{n}") for n in (1, 2))
    recording = recording_of(cpu, small, large)
    assert choose_device(recording).device == "cuda:2"
    assert choose_device(recording, "1").device == "cuda:1"
    assert choose_device(recording, "cpu").device == "cpu"
    data = report_data(recording)
    assert [other.device for other in data.other_devices] == ["cpu", "cuda:1"]
    with pytest.raises(RecordingError, match="cuda:1, cuda:2"):
        choose_device(recording, "cuda:7")


def test_fragmentation_is_inactive_split_by_reserved() -> None:
    figures = AllocatorFigures(reserved_bytes=200, inactive_split_bytes=50)
    trace = dataclasses.replace(trace_of(BLOCKS), allocator=figures)
    allocator = report_data(recording_of(trace)).allocator
    assert allocator is not None
    assert allocator.fragmentation == 0.25
    nothing = dataclasses.replace(trace, allocator=AllocatorFigures(reserved_bytes=0))
    allocator = report_data(recording_of(nothing)).allocator
    assert allocator is not None
    assert allocator.fragmentation is None


def test_comparison_by_the_text_of_a_line() -> None:
    before = report_data(recording_of(trace_of(BLOCKS), text=TEXT))
    moved = [dataclasses.replace(made, line=made.line and made.line + 1) for made in BLOCKS]
    smaller = [*moved[:1], dataclasses.replace(moved[1], size=20), moved[2]]
    after = report_data(recording_of(trace_of(smaller), text="# new\n" + TEXT))
    comparison = compared(after, before).comparison
    assert comparison is not None
    assert comparison.name == "In [3]"
    assert comparison.lines == (Change("y = m(x)", 50, 20), Change("x = torch.randn(3)", 30, 30))
    assert comparison.categories[0] == Change("activation", 50, 20)


def test_a_long_comparison_is_summed_up() -> None:
    data = report_data(recording_of(trace_of(BLOCKS), text=TEXT))
    many = tuple(Row(f"m.{number}", number, 1) for number in range(500))
    comparison = compared(dataclasses.replace(data, by_module=many), data).comparison
    assert comparison is not None
    assert len(comparison.modules) == MOST_ROWS
    assert sum(row.bytes for row in comparison.modules) == sum(range(500))
