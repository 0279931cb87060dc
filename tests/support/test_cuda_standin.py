"""The stand-in GPU behaves as torch's allocator and the driver do, and goes without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_nvml import GIB, MIB, FakeNvml, FakeProcess

torch = pytest.importorskip("torch")
cuda_standin = pytest.importorskip("support.cuda_standin")
CONTEXT = 500 * MIB
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def gpu(fake_nvml: FakeNvml) -> Iterator[Any]:
    with cuda_standin.install(fake_nvml.path) as gpu:
        yield gpu


def listed(fake_nvml: FakeNvml) -> list[tuple[int, int]]:
    device = fake_nvml._state.devices[0]
    return [(e.pid, e.used_bytes) for e in device.processes[: device.process_count]]


def test_the_driver_charges_this_process(gpu: Any, fake_nvml: FakeNvml) -> None:
    assert listed(fake_nvml) == [(os.getpid(), CONTEXT)]
    name = gpu.allocate(None, GIB)
    assert listed(fake_nvml) == [(os.getpid(), CONTEXT + GIB)]
    gpu.free(name)
    assert fake_nvml.device(0).used_bytes == CONTEXT + GIB
    gpu.empty_cache()
    assert fake_nvml.device(0).used_bytes == CONTEXT


def test_other_processes_stay_as_they_are(fake_nvml: FakeNvml) -> None:
    fake_nvml.set_processes(0, [FakeProcess(7, GIB, "graphics")])
    fake_nvml.device(0).used_bytes = GIB
    with cuda_standin.install(fake_nvml.path) as gpu:
        gpu.allocate("a", MIB)
        assert listed(fake_nvml) == [(7, GIB), (os.getpid(), CONTEXT + 2 * MIB)]
    assert listed(fake_nvml) == [(7, GIB)]
    assert fake_nvml.device(0).used_bytes == GIB


def test_torch_tells_the_figures_under_all_their_names(gpu: Any) -> None:
    gpu.allocate("a", 3 * MIB)
    gpu.allocate("b", 100)
    gpu.free("a")
    assert torch.cuda.memory_allocated() == torch.cuda.memory_allocated(0) == 512
    assert torch.cuda.max_memory_allocated() == 3 * MIB + 512
    assert torch.cuda.memory_reserved() == torch.cuda.max_memory_reserved() == 4 * MIB
    assert torch.cuda.memory_stats()["requested_bytes.all.current"] == 100
    assert torch.cuda.get_device_properties(device=0).total_memory == 24 * GIB
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 2 * MIB


def test_out_of_memory_is_torchs_own_error(gpu: Any) -> None:
    gpu.allocate("a", 20 * GIB)
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 8192\.00 MiB"):
        gpu.allocate("b", 8 * GIB)
    assert (gpu.ooms, gpu.alloc_retries) == (1, 1)
    gpu.free("a")
    gpu.allocate("b", 8 * GIB)  # what was reserved and free is enough
    assert gpu.reserved_bytes == 20 * GIB


def test_what_is_free_goes_back_before_an_error(gpu: Any) -> None:
    gpu.allocate("a", 15 * GIB)
    gpu.free("a")
    gpu.allocate("b", 20 * GIB)
    assert gpu.ooms == 0
    assert gpu.reserved_bytes == 20 * GIB


def test_removed_it_leaves_torch_as_it_was(fake_nvml: FakeNvml) -> None:
    before = {**vars(torch.cuda)}, torch.version.cuda, torch.cuda.memory_stats()
    with cuda_standin.install(fake_nvml.path):
        assert torch.cuda.is_initialized()
    assert ({**vars(torch.cuda)}, torch.version.cuda, torch.cuda.memory_stats()) == before
    assert listed(fake_nvml) == []


def test_two_processes_share_a_gpu(gpu: Any, fake_nvml: FakeNvml) -> None:
    code = (
        "import sys; from support.cuda_standin import install\n"
        "gpu = install(sys.argv[1])\n"
        "for _ in range(200): gpu.allocate('a', 2**21); gpu.free('a'); gpu.empty_cache()\n"
    )
    command = [sys.executable, "-c", code, str(fake_nvml.path)]
    other = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(TESTS)})
    while other.poll() is None:
        gpu.allocate("a", 2 * MIB)
        gpu.free("a")
        gpu.empty_cache()
    assert other.returncode == 0
    assert fake_nvml.device(0).used_bytes == CONTEXT
    assert listed(fake_nvml) == [(os.getpid(), CONTEXT)]


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(bytes(10_000_000))
    with pytest.raises(ValueError, match="no state"):
        cuda_standin.install(tmp_path / "state")
