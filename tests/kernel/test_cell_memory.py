"""A run's memory: the rule of its peak, and cells that touch the stand-in GPU."""

from __future__ import annotations

import builtins
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_vram.kernel import cell_memory
from jupyter_vram.kernel.cell_memory import CellMemory, MemoryReading, code_crc32, read_memory
from jupyter_vram.model.kernel_report import AllocatorStats, CellDevice, CellRun
from jupyter_vram.sources import torch_allocator
from jupyter_vram.sources.torch_allocator import AllocatedReading
from support.fake_nvml import MIB, FakeNvml
from support.kernels import Kernel, Kernels

GPU = "GPU-1"


def reading(
    current: int, peak: int | None = None, total: int | None = None, ordinal: int = 0
) -> MemoryReading:
    device = AllocatedReading(
        device_id=GPU, current_bytes=current, peak_bytes=peak, total_bytes=total
    )
    return MemoryReading(None, {ordinal: device})


def run(
    start: MemoryReading, end: MemoryReading, *sampled: int
) -> tuple[int, int, int, bool] | None:
    """Start, end, peak and whether it is exact; ``None`` if the device was not touched."""
    memory = CellMemory(start)
    for allocated in sampled:
        memory.sample(
            [
                AllocatorStats(
                    device_id=GPU, ordinal=0, allocated_bytes=allocated, reserved_bytes=allocated
                )
            ]
        )
    devices = memory.devices(end)
    if not devices:
        return None
    (device,) = devices
    assert device.device_id == GPU
    return device.start_bytes, device.end_bytes, device.peak_bytes, device.peak_exact


def test_a_peak_that_the_allocators_counter_rose_to_is_exact() -> None:
    assert run(reading(100, 200, 500), reading(150, 900, 1500)) == (100, 150, 900, True)


def test_a_peak_below_an_earlier_one_is_the_most_that_was_sampled() -> None:
    assert run(reading(100, 900, 500), reading(150, 900, 1500), 400, 300) == (100, 150, 400, False)


def test_where_nothing_was_freed_the_end_is_the_peak() -> None:
    assert run(reading(100, 900, 500), reading(150, 900, 550)) == (100, 150, 150, True)


def test_where_nothing_was_allocated_the_start_is_the_peak() -> None:
    assert run(reading(100, 900, 500), reading(20, 900, 500)) == (100, 20, 100, True)


def test_a_run_that_touched_nothing_has_no_device() -> None:
    assert run(reading(100, 900, 500), reading(100, 900, 500)) is None
    assert run(reading(100, 900), reading(100, 900)) is None


def test_what_was_allocated_and_freed_again_is_a_touch() -> None:
    assert run(reading(100, 900, 500), reading(100, 900, 700)) == (100, 100, 100, False)
    assert run(reading(100, 900), reading(100, 900), 300) == (100, 100, 300, False)


@pytest.mark.parametrize(
    ("after", "sampled", "peak", "exact"),
    [
        (reading(150, 400, 1500), 200, 400, False),  # what it was before the reset is unknown
        (reading(150, 400, 1500), 600, 600, False),
        (reading(150, 950, 1500), 990, 990, False),  # the sample is from before the reset
        (reading(150, 900, 10), 200, 200, False),  # the total was reset
    ],
)
def test_counters_that_the_user_resets_meanwhile(
    after: MemoryReading, sampled: int, peak: int, exact: bool
) -> None:
    assert run(reading(100, 900, 500), after, sampled) == (100, 150, peak, exact)


def test_a_release_without_these_counters() -> None:
    assert run(reading(100), reading(150), 120) == (100, 150, 150, False)


def test_cuda_initialised_within_the_run_began_with_nothing() -> None:
    assert run(MemoryReading(None, {}), reading(50, 80, 90)) == (0, 50, 80, True)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (MemoryReading(None, None), reading(50, 80, 90)),
        (reading(50, 80, 90), MemoryReading(None, None)),
        (MemoryReading(None, {0: None}), reading(50, 80, 90)),
        (reading(50, 80, 90), MemoryReading(None, {0: None})),
    ],
)
def test_what_could_not_be_read_is_not_made_up(start: MemoryReading, end: MemoryReading) -> None:
    assert CellMemory(start).devices(end) == ()


def test_each_device_is_told_apart() -> None:
    first, second = (reading(10, 10, 10, ordinal).devices or {} for ordinal in (0, 1))
    later = reading(20, 20, 20, 1).devices or {}
    memory = CellMemory(MemoryReading(None, {**first, **second}))
    assert [d.end_bytes for d in memory.devices(MemoryReading(None, {**first, **later}))] == [20]


def test_code_is_told_by_its_utf8() -> None:
    assert code_crc32("größe = 1") == zlib.crc32("größe = 1".encode())
    assert code_crc32("\ud800") is not None
    assert code_crc32(None) is None


def test_reading_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(cell_memory, "read_allocated", broken)
    assert read_memory() == MemoryReading(None, None)


def test_reading_costs_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(name: str, *_: object, **__: object) -> None:
        raise AssertionError(f"imports {name}")

    read_memory()
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", forbidden)
        assert read_memory().rss_bytes


def test_without_torch_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert read_memory().devices == {}


# --- the stand-in GPU ----------------------------------------------------------------------------


@pytest.fixture
def gpu(fake_nvml: FakeNvml) -> Iterator[Any]:
    pytest.importorskip("torch")
    standin = pytest.importorskip("support.cuda_standin")
    torch_allocator._device_ids.clear()
    with standin.install(fake_nvml.path) as gpu:
        yield gpu
    torch_allocator._device_ids.clear()


def test_a_device_that_torch_holds_nothing_of_is_no_touch(gpu: Any) -> None:
    assert read_memory().devices == {}
    gpu.allocate("x", MIB)
    device = (read_memory().devices or {})[0]
    assert device is not None
    assert (device.current_bytes, device.peak_bytes, device.total_bytes) == (MIB, MIB, MIB)


def test_a_lost_gpu_is_unknown(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    gpu.allocate("x", MIB)
    torch = sys.modules["torch"]
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lost)
    assert read_memory().devices == {0: None}
    monkeypatch.setattr(torch.cuda, "device_count", lost)
    assert read_memory().devices is None


# --- in real kernels -----------------------------------------------------------------------------

INSTALL = """\
import os
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])"""


@pytest.fixture
def gpu_kernel(kernels: Kernels, fake_nvml: FakeNvml) -> Kernel:
    pytest.importorskip("torch")
    kernel = kernels.start(FAKE_NVML_STATE_FOR_KERNELS=str(fake_nvml.path), **fake_nvml.env())
    kernel.run(INSTALL)
    return kernel


def ran(kernel: Kernel, code: str) -> CellRun:
    """The run of a cell, as the kernel reports it."""
    kernel.run(code)
    crc32 = zlib.crc32(code.encode())

    def last() -> CellRun | None:
        report = kernel.report()
        run = report.cells[-1] if report is not None and report.cells else None
        return run if run is not None and run.code_crc32 == crc32 and run.ended_at else None

    kernel.until(lambda _: last() is not None)
    run = last()
    assert run is not None
    return run


def test_a_cells_device_memory_is_reported(gpu_kernel: Kernel, fake_nvml: FakeNvml) -> None:
    run = ran(
        gpu_kernel,
        "gpu.allocate('kept', 100 * 2**20); gpu.allocate('more', 2**30); gpu.free('more')",
    )
    (device,) = run.devices
    assert device == CellDevice(
        device_id=fake_nvml.device(0).uuid,
        start_bytes=0,
        end_bytes=100 * MIB,
        peak_bytes=1124 * MIB,
        peak_exact=True,
    )
    assert ran(gpu_kernel, "1 + 1").devices == ()


def test_below_an_earlier_peak_the_reports_in_between_are_the_samples(gpu_kernel: Kernel) -> None:
    gpu_kernel.run("gpu.allocate('high', 2**30); gpu.free('high')")
    code = (
        "import time\n"
        "gpu.allocate('low', 300 * 2**20)\n"
        "time.sleep(1.2)\n"  # two reports while a cell runs
        "gpu.free('low')\n"
        "time.sleep(0.1)"
    )
    (device,) = ran(gpu_kernel, code).devices
    assert (device.peak_bytes, device.peak_exact) == (300 * MIB, True)
    code = "for _ in range(3):\n    gpu.allocate('a', 2**20); gpu.free('a')"
    (device,) = ran(gpu_kernel, code).devices
    assert (device.start_bytes, device.end_bytes) == (0, 0)
    assert not device.peak_exact


def test_a_run_that_failed_is_reported_too(gpu_kernel: Kernel) -> None:
    request = gpu_kernel.send("gpu.allocate('left', 2**20); 1 / 0")
    assert gpu_kernel.wait(request)["status"] == "error"
    report = gpu_kernel.until(lambda report: report.cells[-1].devices)
    assert report.cells[-1].devices[0].end_bytes == MIB


def test_a_cells_resident_memory_is_reported(kernel: Kernel, tmp_path: Path) -> None:
    run = ran(kernel, "held = bytearray(b'x') * (200 << 20)")
    assert run.devices == ()
    assert 190 * MIB < (run.rss_change_bytes or 0) < 260 * MIB
