"""Dry runs against the real ones on a GPU: torch's own counters, and the driver's."""

from __future__ import annotations

import pytest

from benchmarks.gpu_estimate import figures


@pytest.mark.parametrize(
    "workload", ["gpt2_eager", "llama_sdpa", "bert_autocast", "resnet", "unet", "accumulation"]
)
def test_peaks_are_those_of_the_gpu(workload: str) -> None:
    found = figures(workload)
    # Workspaces of libraries are allocated, and no tensors.
    allocated = found["allocated"] - found["base"]
    assert found["tensors"] >= 0.95 * allocated, found
    assert found["tensors"] <= 1.08 * found["allocated"], found
    assert found["simulated"] >= 0.92 * (found["reserved"] - found["base"]), found
