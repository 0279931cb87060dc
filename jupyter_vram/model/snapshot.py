"""Who holds what on every device at one moment: what the server shows.

`Measurement` is what was read; `Snapshot` is what it means, after
`jupyter_vram.analysis.ownership` has told every byte apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jupyter_vram.model.device import Device, DeviceSample
from jupyter_vram.model.kernel_report import CellRun, KernelReport, TorchState
from jupyter_vram.model.notice import Notice

Owner = Literal["kernel", "other", "unattributed"]

PartName = Literal["allocated", "reserved_free", "context", "process", "resident"]
"""How a kernel's share of a device is told apart.

``allocated``, ``reserved_free`` (reserved less allocated) and ``context`` (CUDA context, libraries
and child processes): the kernel reports its allocator. ``process``: it does not, so its device
bytes stand undivided. ``resident``: resident memory, on the host.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReading:
    """A kernel's report as found on disk, or why there is none."""

    report: KernelReport | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Everything read in one turn of the poller. No interpretation."""

    time: float
    """Seconds since the epoch."""
    interval_s: float
    devices: tuple[DeviceSample, ...]
    reports: Mapping[str, ReportReading] = field(default_factory=dict)
    """By kernel id; a kernel without a report file is absent."""
    listed_reports: Mapping[str, ReportReading] | None = None
    """`reports` as they were when the processes in `devices` were listed, which is less often than
    the rest is read. ``None``: the list is as new as `reports`."""
    ancestors: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """pid → its parents, nearest first, for every pid in `devices` and `reports`."""
    notices: tuple[Notice, ...] = ()
    stale: bool = False
    """A driver call has not returned: the figures are older than `interval_s`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedProcess:
    """A process on a device, and whose it is. `used_bytes`: device bytes, if the driver tells."""

    pid: int
    used_bytes: int | None
    owner: Owner
    kernel_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """A device, and its bytes told apart.

    The kernels' parts, `other_bytes`, `unattributed_bytes`, `driver_reserved_bytes` (if known)
    and `free_bytes` add up to `total_bytes` wherever total, used and free are known.
    """

    sample: DeviceSample
    processes: tuple[OwnedProcess, ...] = ()
    other_bytes: int | None = None
    """Processes that belong to no kernel of this server."""
    unattributed_bytes: int | None = None
    """Used, and whose it is can't be told: by no process that is named, or by one not seen here."""

    @property
    def device(self) -> Device:
        """The device of `sample`."""
        return self.sample.device


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDevice:
    """A kernel's share of one device."""

    device_id: str
    process_bytes: int | None = None
    """What the driver charges the kernel's process and its children."""
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None
    parts: Mapping[PartName, int] = field(default_factory=dict)
    """The share told apart; these sum into the device's total (see `DeviceView`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """A kernel session, what it tells of itself, and its share of each device."""

    kernel_id: str
    pid: int | None
    name: str
    paths: tuple[str, ...]
    state: str
    stale: bool = False
    """The report is older than two of its periods (a long call that holds the GIL, or gone)."""
    report_time: float | None = None
    """Seconds since the epoch; ``None`` without a report."""
    reason: str | None = None
    """A sentence, where the kernel's own figures are missing: why, and what to do."""
    torch_state: TorchState | None = None
    rss_bytes: int | None = None
    cells: tuple[CellRun, ...] = ()
    devices: tuple[KernelDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All devices and kernels at one moment, `time` in seconds since the epoch."""

    time: float
    interval_s: float
    devices: tuple[DeviceView, ...] = ()
    kernels: tuple[KernelView, ...] = ()
    notices: tuple[Notice, ...] = ()
    stale: bool = False
