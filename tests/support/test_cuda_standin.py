"""The stand-in GPU moves the figures of torch and of the driver as a real one does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cuda_standin import CONTEXT_BYTES, StandInGpu, install
from support.fake_nvml import GIB, MIB, FakeNvml

torch = pytest.importorskip("torch")


@pytest.fixture
def gpu(fake_nvml: FakeNvml) -> Iterator[StandInGpu]:
    with install(fake_nvml.path) as gpu:
        yield gpu


def test_torch_tells_the_figures_under_all_their_names(gpu: StandInGpu) -> None:
    gpu.allocate("a", 3 * MIB)
    gpu.allocate("b", 100)
    gpu.free("a")
    assert torch.cuda.memory_allocated() == torch.cuda.memory_allocated(0) == 512
    assert torch.cuda.max_memory_allocated() == 3 * MIB + 512
    assert torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved() == 4 * MIB
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] == 100
    assert torch.cuda.get_device_properties(device=0).total_memory == 24 * GIB


def test_the_driver_charges_the_process(gpu: StandInGpu, fake_nvml: FakeNvml) -> None:
    device = fake_nvml.device(0)
    assert device.used_bytes == CONTEXT_BYTES
    gpu.allocate("a", 4 * GIB)
    assert device.used_bytes == 4 * GIB + CONTEXT_BYTES
    gpu.free("a")
    assert device.used_bytes == 4 * GIB + CONTEXT_BYTES
    torch.cuda.empty_cache()
    assert device.used_bytes == CONTEXT_BYTES
    gpu.remove()
    assert device.used_bytes == 0


def test_a_full_device_is_out_of_memory(gpu: StandInGpu) -> None:
    gpu.allocate("a", 20 * GIB)
    gpu.free("a")
    # What is reserved and free is given back first.
    gpu.allocate("b", 21 * GIB)
    assert gpu.reserved_bytes == 21 * GIB
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 10240\.00 MiB"):
        gpu.allocate("c", 10 * GIB)
    assert torch.cuda.memory_stats()["num_ooms"] == 1
    assert torch.cuda.memory_allocated() == 21 * GIB


def test_it_leaves_torch_as_it_was(fake_nvml: FakeNvml) -> None:
    before = torch.cuda.is_initialized(), torch.version.cuda, torch.cuda.memory_stats
    with install(fake_nvml.path):
        assert torch.cuda.is_initialized()
    assert (torch.cuda.is_initialized(), torch.version.cuda, torch.cuda.memory_stats) == before
