"""Fixtures around the stand-in for NVML; ``pytest_plugins = ["support.fixtures"]`` brings them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fake_nvml import FakeNvml


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Iterator[FakeNvml]:
    """One healthy GPU of 24 GiB. Nothing loads it yet: see `FakeNvml.env`, `load_in_process`."""
    with FakeNvml(tmp_path / "fake-nvml.state") as fake:
        yield fake


@pytest.fixture
def loaded_nvml(fake_nvml: FakeNvml) -> Iterator[FakeNvml]:
    """`fake_nvml`, and pynvml of this process uses it."""
    with fake_nvml.load_in_process():
        yield fake_nvml
