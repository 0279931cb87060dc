"""torch's allocator as the kernel reads it: the real torch, with and without the stand-in GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_vram.sources import torch_allocator
from jupyter_vram.sources.torch_allocator import FORKED, NO_UUID, ROCM, read
from support.fake_nvml import GIB, MIB, FakeNvml

torch = pytest.importorskip("torch")
cuda_standin = pytest.importorskip("support.cuda_standin")


@pytest.fixture(autouse=True)
def forget_devices() -> Iterator[None]:
    torch_allocator._device_ids.clear()
    yield
    torch_allocator._device_ids.clear()


@pytest.fixture
def gpu(fake_nvml: FakeNvml) -> Iterator[Any]:
    with cuda_standin.install(fake_nvml.path) as gpu:
        yield gpu


@pytest.fixture
def cuda_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")


def test_torch_is_not_imported_for_it() -> None:
    code = (
        "from jupyter_vram.sources.torch_allocator import read; import sys;"
        "print(read().torch_state, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.split() == ["not_imported", "False"]


def test_a_build_without_cuda() -> None:
    if torch.version.cuda:
        pytest.skip("this torch is a CUDA build")
    reading = read()
    assert reading.torch_state == "no_cuda_build"
    assert reading.torch_version == torch.__version__
    assert type(reading.torch_version) is str
    assert reading.problem is None


def test_a_build_for_rocm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    reading = read()
    assert (reading.torch_state, reading.problem) == ("no_cuda_build", ROCM)


def test_half_imported_torch_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            assert name.startswith("__"), f"touched {name}"
            raise AttributeError(name)

    half = Half("torch")
    half.__spec__ = types.SimpleNamespace(_initializing=True)  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torch", half)
    assert read().torch_state == "not_imported"


def test_torch_without_its_cuda_module_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.cuda")
    assert read().torch_state == "not_imported"


@pytest.mark.parametrize("impostor", [None, object(), types.SimpleNamespace(cuda=1)])
def test_something_else_under_the_name_of_torch(
    impostor: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", impostor)
    assert read().torch_state == "not_imported"


@pytest.mark.usefixtures("cuda_build")
def test_nothing_that_initialises_cuda_is_called_before_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("this would create a context")

    for name in (
        *("_lazy_init", "init", "current_device", "device_count", "get_device_properties"),
        *("memory_stats", "memory_stats_as_nested_dict", "mem_get_info", "is_available"),
    ):
        monkeypatch.setattr(torch.cuda, name, forbidden)
    reading = read()
    assert (reading.torch_state, reading.problem) == ("cuda_not_initialized", None)


@pytest.mark.usefixtures("cuda_build")
def test_a_fork_of_a_process_that_used_cuda_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    reading = read()
    assert (reading.torch_state, reading.problem) == ("cuda_not_initialized", FORKED)


def test_figures_of_the_allocator(gpu: Any, fake_nvml: FakeNvml) -> None:
    gpu.allocate("a", 4 * GIB)
    gpu.allocate("b", 1000)
    gpu.free("a")
    reading = read()
    assert (reading.torch_state, reading.problem) == ("cuda_initialized", None)
    (device,) = reading.devices
    assert device.device_id == fake_nvml.device(0).uuid
    assert device.ordinal == 0
    assert (device.allocated_bytes, device.requested_bytes) == (1024, 1000)
    assert device.reserved_bytes == 4 * GIB + 2 * MIB
    assert device.peak_allocated_bytes == 4 * GIB + 1024
    assert device.peak_reserved_bytes == 4 * GIB + 2 * MIB
    assert (device.alloc_retries, device.ooms) == (0, 0)


def test_before_anything_is_reserved_there_is_the_current_device(gpu: Any) -> None:
    (device,) = read().devices
    assert (device.allocated_bytes, device.reserved_bytes) == (0, 0)


def test_a_device_that_torch_does_not_use_is_left_out(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    unused = {"reserved_bytes": {"all": {"current": 0, "peak": 0}}}
    stats = torch.cuda.memory_stats_as_nested_dict
    monkeypatch.setattr(
        torch.cuda, "memory_stats_as_nested_dict", lambda i: unused if i == 1 else stats(i)
    )
    gpu.allocate("a", MIB)
    assert [device.ordinal for device in read().devices] == [0, 2]


def test_a_lost_device_does_not_hide_the_others(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    stats = torch.cuda.memory_stats_as_nested_dict

    def one_lost(ordinal: int) -> Any:
        if ordinal == 0:
            raise RuntimeError("CUDA error: GPU is lost\nCompile with TORCH_USE_CUDA_DSA")
        return stats(ordinal)

    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", one_lost)
    gpu.allocate("a", MIB)
    reading = read()
    assert [device.ordinal for device in reading.devices] == [1]
    assert reading.problem is not None
    assert "GPU is lost)" in reading.problem


def test_a_pluggable_allocator_without_figures(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stats(_: int) -> None:
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", no_stats)
    reading = read()
    assert reading.devices == ()
    assert "getDeviceStats" in (reading.problem or "")


def test_what_cudas_own_allocator_does_not_know_is_none(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    gpu.allocate("a", MIB)
    (device,) = read().devices
    assert device.allocated_bytes == MIB
    assert device.active_bytes is None
    assert device.inactive_split_bytes is None
    assert device.ooms is None


def test_a_figure_that_a_release_lacks_is_none(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = torch.cuda.memory_stats_as_nested_dict(0)
    del stats["requested_bytes"]
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda _: stats)
    (device,) = read().devices
    assert device.requested_bytes is None
    assert device.allocated_bytes == 0


def test_a_torch_that_tells_no_uuid(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older = types.SimpleNamespace(name="NVIDIA Test 24GB")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: older)
    reading = read()
    assert (reading.devices, reading.problem) == ((), NO_UUID)


def test_the_users_device_is_not_taken_for_the_threads_current_one(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    stats = torch.cuda.memory_stats_as_nested_dict
    unused = {"reserved_bytes": {"all": {"current": 0, "peak": 0}}}
    monkeypatch.setattr(
        torch.cuda, "memory_stats_as_nested_dict", lambda i: stats(i) if i == 1 else unused
    )
    gpu.allocate("a", MIB)  # on cuda:1, while this thread's current device is cuda:0
    assert [device.ordinal for device in read().devices] == [1]


@pytest.mark.parametrize(
    ("uuid", "name", "device_id"),
    [
        ("1AB2-cd", "NVIDIA H200", "GPU-1ab2-cd"),
        ("1ab2-cd", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG-1ab2-cd"),
        ("GPU-1ab2-cd", "NVIDIA H200", "GPU-1ab2-cd"),
        ("MIG-1ab2-cd", "NVIDIA H200", "MIG-1ab2-cd"),
        ("1ab2-cd", "NVIDIA Test MIGHTY", "GPU-1ab2-cd"),
    ],
)
def test_a_uuid_is_spelled_as_nvml_does(
    uuid: str, name: str, device_id: str, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = types.SimpleNamespace(name=name, uuid=uuid)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert [device.device_id for device in read().devices] == [device_id]


def test_a_uuid_is_asked_for_once(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read()
    monkeypatch.setattr(torch.cuda, "get_device_properties", None)
    assert read().devices == first.devices


def test_it_may_be_read_from_any_thread(gpu: Any) -> None:
    gpu.allocate("a", MIB)
    readings = []
    thread = threading.Thread(target=lambda: readings.append(read()))
    thread.start()
    thread.join()
    assert readings == [read()]


def test_the_real_calls_are_still_where_they_are_looked_for() -> None:
    for name in (
        *("is_initialized", "device_count", "current_device", "get_allocator_backend"),
        *("memory_stats_as_nested_dict", "get_device_properties", "_is_in_bad_fork"),
    ):
        assert callable(getattr(torch.cuda, name))
