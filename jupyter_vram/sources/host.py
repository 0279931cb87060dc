"""The memory of the machine itself, or of the container that this process lives in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil

from jupyter_vram.model.device import HOST_ID, Device, DeviceSample, ProcessSample
from jupyter_vram.model.notice import Notice
from jupyter_vram.sources.cgroup import CgroupMemory, read_cgroup_memory
from jupyter_vram.sources.processes import tree_resident_bytes
from jupyter_vram.sources.source import Reading, ReadRequest

_DEVICE = Device(id=HOST_ID, kind="host", index=None, name="Host memory")

_MACHINE = (
    "No NVIDIA GPU can be used here, so this is the memory of the machine, and what the notebooks"
    " hold of it."
)
_CONTAINER = (
    "No NVIDIA GPU can be used here, so this is the memory that this container or session may use"
    " (its cgroup limit), and what the notebooks hold of it."
)
_SENSOR_REASON = "This is host memory: it has no such sensor."
_RESERVED_REASON = "This is host memory: no driver sets any of it aside."


class MachineMemory(NamedTuple):
    """``MemTotal`` and ``MemAvailable``, in bytes."""

    total_bytes: int
    available_bytes: int


def machine_memory() -> MachineMemory:
    """The whole machine's memory, whatever limits this process has."""
    memory = psutil.virtual_memory()
    return MachineMemory(memory.total, min(memory.available, memory.total))


class HostSource:
    """The host as the one device, with the kernels' processes.

    A kernel's bytes are the resident ones of its process and all its descendants, summed. Pages
    that they share (libraries, memory of a fork) count once for each, so the sum is an upper
    bound; telling them apart takes milliseconds per process.
    """

    def __init__(
        self,
        cgroup_root: Path = Path("/sys/fs/cgroup"),
        membership: Path = Path("/proc/self/cgroup"),
    ) -> None:
        """`membership`: the file that says which control group this process is in."""
        self._cgroup_root = cgroup_root
        self._membership = membership
        self._processes: tuple[ProcessSample, ...] = ()

    def read(self, request: ReadRequest) -> Reading:
        """The host now. Never fails: what can't be read has a reason."""
        machine = machine_memory()
        limit = read_cgroup_memory(self._cgroup_root, self._membership)
        if limit is not None and limit.limit_bytes >= machine.total_bytes:
            limit = None
        total, free = _within(machine, limit)
        if request.processes:
            self._processes = tuple(
                ProcessSample(pid, resident)
                for pid, resident in tree_resident_bytes(request.kernel_pids).items()
            )
        sample = DeviceSample(
            device=_DEVICE,
            total_bytes=total,
            used_bytes=total - free,
            free_bytes=free,
            processes=self._processes,
            reasons={
                "driver_reserved_bytes": _RESERVED_REASON,
                **dict.fromkeys(
                    ("utilization_percent", "temperature_c", "power_w", "power_limit_w"),
                    _SENSOR_REASON,
                ),
            },
        )
        message = _MACHINE if limit is None else _CONTAINER
        return Reading(devices=(sample,), notices=(Notice("host-memory", "info", message),))

    def close(self) -> None:
        """Nothing is held open."""


def _within(machine: MachineMemory, limit: CgroupMemory | None) -> tuple[int, int]:
    """Total and free: a group can't have more than is left on the machine either."""
    if limit is None:
        return machine.total_bytes, machine.available_bytes
    return limit.limit_bytes, min(limit.free_bytes, machine.available_bytes)
