"""A GPU for a kernel's torch on a machine without one. For tests only.

torch is the real CPU build: what it tells about CUDA's allocator is replaced by a small model of
it (512 B blocks, 2 MiB segments). The same bytes appear in the stand-in for NVML, as the driver
would charge this process for them.

    from support.cuda_standin import install
    gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])
    gpu.allocate("weights", 4 * 2**30)
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import mmap
import os
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from support.fake_nvml import layout

CONTEXT_BYTES = 500 << 20
"""What a process is charged before torch has reserved anything: CUDA's context and libraries."""
BLOCK_BYTES = 512
SEGMENT_BYTES = 2 << 20


class StandInGpu:
    """The one GPU, ``cuda:0``, that this process's torch sees."""

    def __init__(self, state_file: str | Path, index: int = 0) -> None:
        """`index`: which GPU of NVML's it is."""
        self._path = Path(state_file)
        with self._path.open("r+b") as file:
            self._state = layout.State.from_buffer(mmap.mmap(file.fileno(), 0))
        if self._state.magic != layout.MAGIC:
            raise ValueError(f"{state_file} is no state of the stand-in for NVML")
        self._device = self._state.devices[index]
        self._undo: list[tuple[Any, str, Any]] = []
        self._pid = os.getpid()
        self._charged_bytes = 0
        self._names = 0
        self.blocks: dict[str, int] = {}
        self.reserved_bytes = 0
        self.requested_bytes: dict[str, int] = {}
        self.peak_allocated_bytes = 0
        self.total_allocated_bytes = 0
        self.peak_reserved_bytes = 0
        self.ooms = 0
        self.alloc_retries = 0

    @property
    def allocated_bytes(self) -> int:
        return sum(self.blocks.values())

    def install(self) -> None:
        """Let torch tell of this GPU, and the driver of this process."""
        values = {
            "is_initialized": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "get_allocator_backend": lambda: "native",
            "memory_stats_as_nested_dict": self._stats,
            "reset_peak_memory_stats": self._reset_peak,
            "get_device_properties": self._properties,
            "empty_cache": self.empty_cache,
        }
        self._replace(torch.version, "cuda", "12.8")
        for name, value in values.items():
            self._replace(torch.cuda, name, value)
        # memory_allocated and its like look for it beside them.
        self._replace(torch.cuda.memory, "memory_stats_as_nested_dict", self._stats)
        self._charge()
        atexit.register(self.remove)

    def remove(self) -> None:
        """Give all back, as the end of a process does."""
        atexit.unregister(self.remove)
        if os.getpid() != self._pid:
            return
        self.blocks.clear()
        self._charge(gone=True)
        while self._undo:
            owner, name, value = self._undo.pop()
            setattr(owner, name, value)

    def __enter__(self) -> StandInGpu:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    # --- the allocator -------------------------------------------------------------------------

    def allocate(self, name: str | None, size_bytes: int) -> str:
        """Hold a block, and return its name (made up if `name` is ``None``).

        Raises:
            torch.OutOfMemoryError: the device has no room for it.
        """
        block = _round_up(size_bytes, BLOCK_BYTES)
        missing = self.allocated_bytes + block - self.reserved_bytes
        if missing > 0:
            self._reserve(_round_up(missing, SEGMENT_BYTES), size_bytes)
        if name is None:
            self._names += 1
            name = f"block {self._names}"
        if name in self.blocks:
            raise ValueError(f"there is a {name!r}")
        self.blocks[name] = block
        self.requested_bytes[name] = size_bytes
        self.total_allocated_bytes += block
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return name

    def free(self, name: str) -> None:
        """Let a block go: it stays reserved."""
        del self.blocks[name], self.requested_bytes[name]

    def empty_cache(self) -> None:
        """Give back to the driver what is reserved and free."""
        self.reserved_bytes = _round_up(self.allocated_bytes, SEGMENT_BYTES)
        self._charge()

    def set_utilization(self, percent: int) -> None:
        self._device.utilization_percent = percent

    def _reserve(self, size_bytes: int, asked_bytes: int) -> None:
        if size_bytes > self._free_bytes:
            self.alloc_retries += 1
            self.empty_cache()
            size_bytes = _round_up(
                self.allocated_bytes + asked_bytes - self.reserved_bytes, SEGMENT_BYTES
            )
        if size_bytes > self._free_bytes:
            self.ooms += 1
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {asked_bytes / 2**20:.2f} MiB. GPU 0 has a"
                f" total capacity of {self._device.total_bytes / 2**30:.2f} GiB of which"
                f" {self._free_bytes / 2**20:.2f} MiB is free."
            )
        self.reserved_bytes += size_bytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        self._charge()

    # --- what torch tells ----------------------------------------------------------------------

    def _stats(self, device: Any = None) -> dict[str, Any]:  # noqa: ARG002 - torch's signature
        allocated = _figure(self.allocated_bytes, self.peak_allocated_bytes)
        requested = sum(self.requested_bytes.values())
        total = self.total_allocated_bytes
        allocated["all"].update(allocated=total, freed=total - self.allocated_bytes)
        return {
            "allocated_bytes": allocated,
            "active_bytes": allocated,
            "requested_bytes": _figure(requested, requested),
            "reserved_bytes": _figure(self.reserved_bytes, self.peak_reserved_bytes),
            "inactive_split_bytes": _figure(0, 0),
            "num_alloc_retries": self.alloc_retries,
            "num_ooms": self.ooms,
        }

    def _reset_peak(self, device: Any = None) -> None:  # noqa: ARG002 - torch's signature
        self.peak_allocated_bytes = self.allocated_bytes
        self.peak_reserved_bytes = self.reserved_bytes

    def _properties(self, device: Any = None) -> Any:  # noqa: ARG002 - torch's signature
        prefix, _, bare = self._device.uuid.decode().partition("-")
        assert prefix == "GPU"
        return types.SimpleNamespace(
            name=self._device.name.decode(),
            uuid=uuid.UUID(bare),
            total_memory=self._device.total_bytes,
        )

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    # --- what the driver tells -----------------------------------------------------------------

    @property
    def _free_bytes(self) -> int:
        device = self._device
        return int(device.total_bytes - device.reserved_bytes - device.used_bytes)

    def _charge(self, *, gone: bool = False) -> None:
        """Bring the driver's process list and used bytes up to date with this process."""
        charge = 0 if gone else self.reserved_bytes + CONTEXT_BYTES
        device = self._device
        with self._alone():
            device.used_bytes = device.used_bytes + charge - self._charged_bytes
            listed = [
                (entry.pid, entry.kinds, entry.used_bytes, entry.slice)
                for entry in device.processes[: device.process_count]
                if entry.pid != self._pid
            ]
            if not gone:
                listed.append((self._pid, 1, charge, -1))
            for entry, values in zip(device.processes, listed, strict=False):
                entry.pid, entry.kinds, entry.used_bytes, entry.slice = values
            device.process_count = len(listed)
        self._charged_bytes = charge

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Several kernels may move the same GPU's memory."""
        with self._path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def install(state_file: str | Path, index: int = 0) -> StandInGpu:
    """Give this process's torch the GPU `index` of the stand-in whose state is in that file."""
    gpu = StandInGpu(state_file, index)
    gpu.install()
    return gpu


def _figure(current: int, peak: int) -> dict[str, dict[str, int]]:
    return {"all": {"current": current, "peak": peak}}


def _round_up(size_bytes: int, unit: int) -> int:
    return -(-size_bytes // unit) * unit
