"""Whose process is it: a kernel of this server, somebody else's, or can't be told.

The driver names processes by numbers, and a number means something only inside a PID namespace.
In a container the driver may give the host's numbers, and a kernel in a container of its own
reports another number than the server knows. So a number alone never makes an owner:

- a process belongs to a kernel if the kernel's process is it, or one of its parents, in the
  process tree that this machine shows;
- the number in a kernel's report counts where the tree confirms it, or where the driver charges
  that number, on a device that the report names, at least what the kernel has reserved there;
- once the numbers are seen to be of another namespace, only the latter counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_vram.model.device import DeviceSample, ProcessSample
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import OwnedProcess

SKEW = 0.9
"""No report is of the moment of the list of processes, which may lack some of what is reserved."""


class ProcessOwners:
    """Tells the owner of any process of one measurement."""

    def __init__(
        self,
        sessions: Sequence[KernelSession],
        reports: Mapping[str, KernelReport],
        listed: Mapping[str, KernelReport],
        devices: Sequence[DeviceSample],
        ancestors: Mapping[int, tuple[int, ...]],
    ) -> None:
        """`listed`: the reports as they were when the processes of `devices` were listed."""
        self._ancestors = ancestors
        self._roots = _roots(sessions)
        self._charged = _charged(sessions, (listed, reports), devices)
        gpus = [sample for sample in devices if sample.device.kind == "cuda"]
        # A kernel that has reserved its first memory since can't be in the list.
        self.foreign_numbers = any(self._is_foreign(sample, listed) for sample in gpus)
        """The driver's process numbers are of another PID namespace than this server's."""

    def own(self, process: ProcessSample, sample: DeviceSample) -> OwnedProcess:
        """`process` of the device of `sample`, with its owner."""
        kernel_id = self._charged.get(process.pid)
        if kernel_id is None and not (self.foreign_numbers and sample.device.kind == "cuda"):
            kernel_id = self._by_tree(process.pid)
        if kernel_id is not None:
            return OwnedProcess(
                pid=process.pid,
                used_bytes=process.used_bytes,
                owner="kernel",
                kernel_id=kernel_id,
            )
        foreign = self.foreign_numbers and sample.device.kind == "cuda"
        unknown = foreign or not self._visible(process.pid) or self._ambiguous(process.pid)
        return OwnedProcess(
            pid=process.pid,
            used_bytes=process.used_bytes,
            owner="unattributed" if unknown else "other",
        )

    def _visible(self, pid: int) -> bool:
        # Every process that is here has a parent; the first of a namespace is no kernel.
        return bool(self._ancestors.get(pid))

    def _line(self, pid: int) -> tuple[int, ...]:
        return (pid, *self._ancestors[pid]) if self._visible(pid) else ()

    def _by_tree(self, pid: int) -> str | None:
        # Nearest first: a kernel that another kernel started keeps its own memory.
        for number in self._line(pid):
            if number in self._roots:
                return self._roots[number]
        return None

    def _ambiguous(self, pid: int) -> bool:
        return any(number in self._roots for number in self._line(pid))

    def _is_foreign(self, sample: DeviceSample, reports: Mapping[str, KernelReport]) -> bool:
        processes = sample.processes or ()
        if all(self._visible(process.pid) for process in processes):
            return False
        owners = {self._by_tree(process.pid) for process in processes}
        owners |= {self._charged.get(process.pid) for process in processes}
        return any(
            kernel_id not in owners and _stats(report, sample) is not None
            for kernel_id, report in reports.items()
        )


def _roots(sessions: Sequence[KernelSession]) -> dict[int, str | None]:
    roots: dict[int, str | None] = {}
    for session in sessions:
        if session.pid is not None:
            # One process that is said to be two kernels (a shared launcher) is neither's.
            shared = session.pid in roots
            roots[session.pid] = None if shared else session.kernel_id
    return roots


def _charged(
    sessions: Sequence[KernelSession],
    readings: Sequence[Mapping[str, KernelReport]],
    devices: Sequence[DeviceSample],
) -> dict[int, str]:
    """Reported process number → kernel, where the driver's charge confirms one of `readings`."""
    charged: dict[int, str] = {}
    disputed: set[int] = set()
    for session in sessions:
        reports = [r for reading in readings if (r := reading.get(session.kernel_id)) is not None]
        for pid in {report.pid for report in reports if _is_charged(report, devices)}:
            if pid in charged:
                disputed.add(pid)
            charged[pid] = session.kernel_id
    return {pid: kernel_id for pid, kernel_id in charged.items() if pid not in disputed}


def _is_charged(report: KernelReport, devices: Sequence[DeviceSample]) -> bool:
    for sample in devices:
        stats = _stats(report, sample)
        if stats is None:
            continue
        for process in sample.processes or ():
            if process.pid == report.pid and process.used_bytes is not None:
                return process.used_bytes >= SKEW * stats.reserved_bytes > 0
    return False


def _stats(report: KernelReport, sample: DeviceSample) -> AllocatorStats | None:
    for stats in report.devices:
        if stats.device_id == sample.device.id and stats.reserved_bytes > 0:
            return stats
    return None
