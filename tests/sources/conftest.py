"""A clock that a test turns, and sources over the stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.pci import PciBus
from support.fake_nvml import FakeNvml


class Clock:
    """Time that passes when a test says so, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def empty_bus(tmp_path: Path) -> PciBus:
    """A machine of which nothing is told but by NVML."""
    return PciBus(tmp_path / "no-sys", tmp_path / "no-proc")


@pytest.fixture
def new_source(clock: Clock, empty_bus: PciBus) -> Iterator[Callable[..., NvmlSource]]:
    """Makes sources that are closed after the test."""
    made = []

    def make(*, bus: PciBus = empty_bus, wsl: bool = False) -> NvmlSource:
        made.append(NvmlSource(clock=clock, bus=bus, wsl=wsl))
        return made[-1]

    yield make
    for source in made:
        source.close()


@pytest.fixture
def source(loaded_nvml: FakeNvml, new_source: Callable[..., NvmlSource]) -> NvmlSource:
    """Reads `loaded_nvml`: one healthy GPU of 24 GiB."""
    return new_source()


@pytest.fixture
def eight(tmp_path: Path) -> Iterator[FakeNvml]:
    """Eight healthy GPUs, loaded."""
    with FakeNvml(tmp_path / "eight.state", devices=8) as fake, fake.load_in_process():
        yield fake
