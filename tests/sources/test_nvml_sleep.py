"""A laptop's GPU: it is not woken up to be measured, and not kept awake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from jupyter_vram.sources.nvml import REST_S, NvmlSource
from jupyter_vram.sources.nvml_device import FIELDS
from jupyter_vram.sources.pci import PciBus
from jupyter_vram.sources.source import ReadRequest
from support.fake_nvml import GIB, FakeNvml, FakeProcess
from support.pci import FakePci

WATCHED = ReadRequest(watched=True)
UNWATCHED = ReadRequest()
FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"

NewSource = Callable[..., NvmlSource]


class Clock(Protocol):
    now: float


@pytest.fixture
def pci(tmp_path: Path) -> FakePci:
    pci = FakePci(tmp_path / "pci")
    pci.add("0000:00:02.0", vendor="0x8086")
    pci.add(FIRST)
    return pci


@pytest.fixture
def laptop(loaded_nvml: FakeNvml, pci: FakePci, new_source: NewSource) -> NvmlSource:
    return new_source(bus=PciBus(pci.sys_root, pci.proc_root))


def test_a_sleeping_gpu_is_not_touched(
    loaded_nvml: FakeNvml, pci: FakePci, laptop: NvmlSource
) -> None:
    awake = laptop.read(WATCHED)
    pci.set_status(FIRST, "suspended")
    reading = laptop.read(WATCHED)
    calls = loaded_nvml.calls()
    for _ in range(100):
        reading = laptop.read(WATCHED)
    assert loaded_nvml.calls() == calls
    (sample,) = reading.devices
    assert sample.device == awake.devices[0].device
    assert sample.stale
    assert sample.total_bytes == 24 * GIB
    assert set(sample.reasons) == set(FIELDS) - {"total_bytes"}
    assert [notice.code for notice in reading.notices] == ["gpu-asleep"]

    pci.set_status(FIRST, "active")
    assert laptop.read(WATCHED) == awake


def test_a_gpu_that_slept_from_the_start_is_known_from_the_driver_s_files(
    loaded_nvml: FakeNvml, pci: FakePci, laptop: NvmlSource
) -> None:
    uuid = loaded_nvml.device(0).uuid
    pci.set_status(FIRST, "suspended")
    pci.remember(FIRST, uuid, "NVIDIA RTX Laptop GPU")
    reading = laptop.read(WATCHED)
    assert loaded_nvml.calls() == 0
    (sample,) = reading.devices
    assert (sample.device.id, sample.device.name) == (uuid, "NVIDIA RTX Laptop GPU")
    assert sample.total_bytes is None

    pci.set_status(FIRST, "active")
    (awake,) = laptop.read(WATCHED).devices
    assert awake.device.id == uuid
    assert awake.used_bytes == 0


def test_a_gpu_of_which_nothing_is_known_is_told_of_by_the_notice(
    loaded_nvml: FakeNvml, pci: FakePci, laptop: NvmlSource
) -> None:
    pci.set_status(FIRST, "suspended")
    reading = laptop.read(WATCHED)
    assert reading.devices == ()
    assert [notice.code for notice in reading.notices] == ["gpu-asleep"]
    assert loaded_nvml.calls() == 0


def test_of_two_only_the_one_awake_is_touched(
    loaded_nvml: FakeNvml, pci: FakePci, laptop: NvmlSource, clock: Clock
) -> None:
    pci.add(SECOND)
    loaded_nvml.device_count = 2
    laptop.read(WATCHED)
    pci.set_status(SECOND, "suspended")
    loaded_nvml.lose(1)  # whoever touches it finds out
    for _ in range(40):
        reading = laptop.read(WATCHED)
        clock.now += 1
    first, second = reading.devices
    assert first.used_bytes == 0
    assert not first.stale
    assert second.stale
    assert [notice.code for notice in reading.notices] == ["gpu-asleep"]


def test_an_idle_gpu_is_let_sleep_while_nobody_watches(
    loaded_nvml: FakeNvml, laptop: NvmlSource, clock: Clock
) -> None:
    (fresh,) = laptop.read(UNWATCHED).devices
    assert not fresh.stale
    calls = loaded_nvml.calls()
    assert loaded_nvml.calls("nvmlShutdown") == 1
    (resting,) = laptop.read(UNWATCHED).devices
    assert resting.stale
    assert resting.used_bytes == fresh.used_bytes
    assert loaded_nvml.calls() == calls
    clock.now += REST_S
    (fresh,) = laptop.read(UNWATCHED).devices
    assert not fresh.stale
    assert loaded_nvml.calls() > calls


def test_a_watcher_ends_the_rest(loaded_nvml: FakeNvml, laptop: NvmlSource) -> None:
    laptop.read(UNWATCHED)
    loaded_nvml.device(0).used_bytes = GIB
    (sample,) = laptop.read(WATCHED).devices
    assert sample.used_bytes == GIB
    assert not sample.stale


def test_a_gpu_in_use_is_watched_all_along(loaded_nvml: FakeNvml, laptop: NvmlSource) -> None:
    loaded_nvml.set_processes(0, [FakeProcess(5, GIB)])
    for _ in range(3):
        assert not laptop.read(UNWATCHED).devices[0].stale
    assert loaded_nvml.calls("nvmlShutdown") == 0


def test_a_gpu_that_may_not_sleep_is_never_let_go(
    loaded_nvml: FakeNvml, tmp_path: Path, new_source: NewSource
) -> None:
    pci = FakePci(tmp_path / "desktop")
    pci.add(FIRST, control="on")
    source = new_source(bus=PciBus(pci.sys_root, pci.proc_root))
    for _ in range(3):
        assert not source.read(UNWATCHED).devices[0].stale
    assert loaded_nvml.calls("nvmlShutdown") == 0
