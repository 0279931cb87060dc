"""Tests on a real NVIDIA GPU, skipped where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if HERE in item.path.parents]
    reason = _why_not() if here else None
    if reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_not() -> str | None:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if torch.version.cuda is None:
        return "this torch is a build without CUDA"
    # Asked of the driver, not of CUDA: that would make a context in the tests' process.
    if torch.cuda._device_count_nvml() < 1:
        return "there is no NVIDIA GPU"
    return None
