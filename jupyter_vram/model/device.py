"""A memory device and one timed reading of it.

Unknown is ``None``, never 0; why a field is unknown stands in `DeviceSample.reasons`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

DeviceKind = Literal["cuda", "host"]

HOST_ID = "host"
"""The `Device.id` of the machine's own memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What does not change about a device while its driver is up."""

    id: str
    """The UUID as NVML spells it (``GPU-…``, ``MIG-…``), or ``HOST_ID``."""
    kind: DeviceKind
    index: int | None
    """NVML's index. Not a CUDA ordinal: join by `id`. A MIG slice has its parent's index."""
    name: str
    pci_bus_id: str | None = None
    parent_id: str | None = None
    """For a MIG slice: the UUID of the GPU that it is a part of."""
    unified_memory: bool = False
    """The device shares the host's memory (Grace, GB10, Jetson): figures are the host's."""


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One process that holds memory of a device, as the driver (or the host) tells it."""

    pid: int
    used_bytes: int | None
    """Device bytes; ``None`` where the driver does not tell (WDDM, WSL 2, MIG)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One reading of one device. Times are the poller's, on the measurement that holds this."""

    device: Device
    total_bytes: int | None = None
    used_bytes: int | None = None
    """All processes and contexts; without `driver_reserved_bytes` if the driver tells those."""
    free_bytes: int | None = None
    driver_reserved_bytes: int | None = None
    utilization_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    processes: tuple[ProcessSample, ...] | None = None
    """``None``: the list itself could not be had. A pid appears once."""
    stale: bool = False
    """The figures are of an earlier reading: the device did not answer this time."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Field name → a sentence that says why the field is ``None``."""
