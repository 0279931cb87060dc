"""``torch.cuda`` as a machine with the stated GPU would answer. Installed for good."""

from __future__ import annotations

from typing import Any

import torch

from jupyter_vram.dry_run.watch import Watch
from jupyter_vram.model.gpus import Gpu


class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` returns."""

    def __init__(self, gpu: Gpu) -> None:
        self.name = gpu.name
        self.major, self.minor = gpu.compute_capability
        self.total_memory = gpu.total_bytes
        self.multi_processor_count = gpu.multiprocessors
        self.warp_size = 32
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.max_threads_per_multi_processor = 2048
        self.gcnArchName = ""


def install(gpu: Gpu, watch: Watch) -> None:
    """Patch ``torch.cuda``."""
    cuda: Any = torch.cuda
    properties = DeviceProperties(gpu)
    torch._C._set_only_lift_cpu_tensors(True)  # type: ignore[attr-defined]  # noqa: SLF001
    for name, value in {
        "_lazy_init": None,
        "init": None,
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "is_bf16_supported": gpu.compute_capability >= (8, 0),
        "get_device_name": gpu.name,
        "get_device_properties": properties,
        "get_device_capability": gpu.compute_capability,
    }.items():
        setattr(cuda, name, _returning(value))
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    for name, found in (
        ("memory_allocated", watch.live_bytes),
        ("max_memory_allocated", watch.peak_bytes),
        ("memory_reserved", watch.live_bytes),
        ("max_memory_reserved", watch.peak_bytes),
    ):
        setattr(cuda, name, _looking_up(found))


def _returning(value: Any) -> Any:
    def answer(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
        return value

    return answer


def _looking_up(found: dict[str, int]) -> Any:
    def answer(device: Any = None) -> int:
        return found.get(_name(device), 0)

    return answer


def _name(device: Any) -> str:
    if device is None:
        return "cuda:0"
    if isinstance(device, int):
        return f"cuda:{device}"
    named = torch.device(device)
    return f"cuda:{named.index or 0}"
