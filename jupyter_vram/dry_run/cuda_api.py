"""``torch.cuda`` as a machine with the stated GPU would answer. Installed for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jupyter_vram.dry_run.labels import CPU
from jupyter_vram.dry_run.watch import Watch
from jupyter_vram.errors import DryRunError
from jupyter_vram.model.gpus import Gpu

NO_GRAPHS = (
    "The code captures a CUDA graph: a dry run knows no streams, and no graphs. Leave the capture"
    " out of it."
)


_ANSWERS: dict[str, Any] = {"query": True, "elapsed_time": 0.0, "is_capturing": False}
"""What streams and events say; to all else they say nothing."""


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


class _NoGraph:
    """A class, since annotations name it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise DryRunError(NO_GRAPHS)


class _Nothing:
    """A stream, or an event, of which nothing happens."""

    device = torch.device("cuda", 0)
    cuda_stream = 0
    stream_id = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to undo."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _returning(_ANSWERS.get(name))


def install(gpu: Gpu, watch: Watch) -> None:
    """Patch ``torch.cuda``."""
    cuda: Any = torch.cuda
    properties = DeviceProperties(gpu)
    seed = torch.zeros(16, dtype=torch.uint8)
    torch._C._set_only_lift_cpu_tensors(True)  # noqa: SLF001
    for name, value in {
        "_lazy_init": None,
        "init": None,
        "is_available": True,
        "is_initialized": True,
        "_is_in_bad_fork": False,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "ipc_collect": None,
        "is_bf16_supported": gpu.compute_capability >= (8, 0),
        "is_tf32_supported": gpu.compute_capability >= (8, 0),
        "get_device_name": gpu.name,
        "get_device_properties": properties,
        "get_device_capability": gpu.compute_capability,
        "get_arch_list": [f"sm_{properties.major}{properties.minor}"],
        "manual_seed": None,
        "manual_seed_all": None,
        "seed": None,
        "seed_all": None,
        "initial_seed": 0,
        "get_rng_state": seed,
        "get_rng_state_all": [seed],
        "set_rng_state": None,
        "set_rng_state_all": None,
        "set_per_process_memory_fraction": None,
        "utilization": 0,
        "is_current_stream_capturing": False,
        "current_stream": _Nothing(),
        "default_stream": _Nothing(),
        "set_stream": None,
    }.items():
        setattr(cuda, name, _returning(value))
    for name in ("Stream", "Event", "ExternalStream", "stream", "StreamContext", "device"):
        setattr(cuda, name, _Nothing)
    for name in ("CUDAGraph", "graph", "make_graphed_callables"):
        setattr(cuda, name, _NoGraph)
    cuda.amp.common.amp_definitely_not_available = _returning(False)
    _tell_memory(cuda, gpu, watch)
    _stand_in_generator()
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        accelerator.is_available = _returning(True)
        accelerator.device_count = _returning(1)
        accelerator.current_accelerator = _returning(torch.device("cuda"))
        accelerator.current_device_index = _returning(0)
        accelerator.current_stream = _returning(_Nothing())
        accelerator.synchronize = _returning(None)


def _tell_memory(cuda: Any, gpu: Gpu, watch: Watch) -> None:
    """Figures of memory are those of the dry run's tensors."""

    def live(device: Any = None) -> int:
        return watch.live_bytes.get(_name(device), 0)

    def peak(device: Any = None) -> int:
        return watch.peak_bytes.get(_name(device), 0)

    def reset(device: Any = None) -> None:
        watch.peak_bytes[_name(device)] = live(device)

    def info(device: Any = None) -> tuple[int, int]:
        return max(0, gpu.total_bytes - live(device)), gpu.total_bytes

    def stats(device: Any = None) -> dict[str, int]:
        found = {"num_alloc_retries": 0, "num_ooms": 0}
        for pool in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
            found[f"{pool}.all.current"] = live(device)
            found[f"{pool}.all.peak"] = peak(device)
        return found

    for module in (cuda, cuda.memory):
        for name, answer in (
            ("memory_allocated", live),
            ("memory_reserved", live),
            ("memory_cached", live),
            ("max_memory_allocated", peak),
            ("max_memory_reserved", peak),
            ("reset_peak_memory_stats", reset),
            ("reset_max_memory_allocated", reset),
            ("mem_get_info", info),
            ("memory_stats", stats),
            ("memory_summary", lambda *_, **__: "A dry run has no allocator."),
            ("memory_snapshot", lambda *_, **__: []),
        ):
            setattr(module, name, answer)


def _stand_in_generator() -> None:
    """A generator of the GPU's is one of the CPU's: no number of it is looked at."""
    native: Any = torch.Generator

    class Generator(native):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            del device
            return native.__new__(cls, CPU)

    torch.Generator = Generator  # type: ignore[misc]


def _returning(value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG001
        return value

    return answer


def _name(device: Any) -> str:
    if device is None:
        return "cuda:0"
    if isinstance(device, int):
        return f"cuda:{device}"
    named = torch.device(device)
    return f"cuda:{named.index or 0}"
