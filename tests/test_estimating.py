"""`jupyter_vram.estimate`: a function's report from a dry run."""

from __future__ import annotations

import pytest
import torch

import jupyter_vram
from jupyter_vram import DryRunError, Report, UnknownGpuError, estimate, last_report

WIDTH = 1000


def step(batch_size: int = 8, width: int = 500) -> None:
    layer = torch.nn.Linear(width, width, device="cuda")
    layer(torch.zeros(batch_size, width, device="cuda")).sum().backward()


def test_report_of_a_function() -> None:
    report = estimate(step, gpu="RTX 4090", name="step")
    assert isinstance(report, Report)
    assert report is last_report()
    assert report.name == "step"
    assert report.peak_device_bytes is not None
    assert report.low is not None
    assert report.high is not None
    assert report.peak_bytes < report.low <= report.peak_device_bytes <= report.high
    assert report.estimate is not None
    first, *others = report.estimate.fits
    assert (first.gpu, first.verdict) == ("RTX 4090", "fits")
    assert {largest.variable for largest in first.largest} == {"batch_size"}
    assert len(others) >= 10
    assert report.to_dict()["allocator"]["reserved_bytes"] > 0
    assert "Dry run" in str(report)
    assert jupyter_vram.Report.load is not None


def test_arguments_and_their_values() -> None:
    def peak(**how: object) -> int:
        return estimate(step, device="cuda", **how).peak_bytes  # type: ignore[arg-type]

    assert peak(args=(16,)) - peak() == 8 * 500 * 4
    assert peak(kwargs={"width": 1000}) > 3 * peak()


def test_grid() -> None:
    report = estimate(step, gpu="8GB", vary={"batch_size": "1..4", "width": "100,200"})
    assert report.estimate is not None
    grid = report.estimate.grid
    assert grid is not None
    assert [axis.values for axis in grid.axes] == [(1, 2, 4), (100, 200)]
    assert len(grid.device_bytes) == len(grid.peak_bytes) == 6
    assert None not in grid.device_bytes


def test_a_function_that_knows_no_gpu_is_counted_on_one() -> None:
    def train() -> None:
        torch.nn.Linear(WIDTH, WIDTH)

    report = estimate(train)
    assert report.device == "cuda:0"
    assert report.peak_bytes == 4 * (WIDTH * WIDTH + WIDTH)
    assert report.estimate is not None
    assert "on the CPU" in report.estimate.assumptions[0].text
    assert estimate(train, device="cpu").device == "cpu"


def test_failures_are_told_with_what_ran_until_then() -> None:
    def fails() -> None:
        torch.zeros(1000, device="cuda")
        raise ValueError("no more")

    with pytest.raises(DryRunError, match=r"failed in line \d+: ValueError: no more") as error:
        estimate(fails)
    assert error.value.failure.kind == "ValueError"
    assert error.value.report.peak_bytes == 4000
    with pytest.raises(UnknownGpuError):
        estimate(step, gpu="banana")
