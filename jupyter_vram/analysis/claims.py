"""What is said to be held of one device, and by whom, before it is fitted together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jupyter_vram.analysis.process_owners import ProcessOwners
from jupyter_vram.model.device import DeviceSample
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport
from jupyter_vram.model.snapshot import KernelDevice, OwnedProcess, PartName


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed of one device, before it is fitted into what is used."""

    processes: tuple[OwnedProcess, ...]
    shares: dict[str, KernelDevice]


def claims_on(
    sample: DeviceSample,
    owners: ProcessOwners,
    reports: Mapping[str, KernelReport],
    listed: Mapping[str, KernelReport],
    stale: set[str],
) -> Claims:
    """All claims on the device of `sample`. `stale`: the kernels whose report is.

    `listed`: the reports as they were when the processes of `sample` were listed.
    """
    processes = tuple(owners.own(process, sample) for process in sample.processes or ())
    charges: dict[str, list[int | None]] = {}
    for process in processes:
        if process.kernel_id is not None:
            charges.setdefault(process.kernel_id, []).append(process.used_bytes)
    stats = {
        kernel_id: own
        for kernel_id, report in reports.items()
        if (own := _stats_on(report, sample.device.id)) is not None
    }
    host = sample.device.kind == "host"
    shares = {
        kernel_id: share_of(
            sample.device.id,
            stats.get(kernel_id),
            charges.get(kernel_id, ()),
            fresh=kernel_id not in stale,
            listed_reserved=_listed_reserved(
                reports.get(kernel_id), listed.get(kernel_id), sample.device.id
            ),
            undivided="resident" if host else "process",
        )
        for kernel_id in (*stats, *(kernel_id for kernel_id in charges if kernel_id not in stats))
    }
    return Claims(processes, shares)


def share_of(
    device_id: str,
    stats: AllocatorStats | None,
    charges: Sequence[int | None],
    *,
    fresh: bool,
    listed_reserved: int | None = None,
    undivided: PartName = "process",
) -> KernelDevice:
    """A kernel's share: what it reports (`stats`), and what the driver charges its processes.

    `listed_reserved`: bytes it had reserved when `charges` were read. ``None``: as in `stats`.
    """
    known = [charge for charge in charges if charge is not None]
    # One process without a figure makes the sum a figure of something else.
    charge = sum(known) if known and len(known) == len(charges) else None
    if stats is None:
        parts: dict[PartName, int] = {} if charge is None else {undivided: charge}
        return KernelDevice(device_id=device_id, process_bytes=charge, parts=parts)
    if listed_reserved is None:
        listed_reserved = stats.reserved_bytes
    reported = [stats.allocated_bytes, max(0, stats.reserved_bytes - stats.allocated_bytes)]
    # A charge that is older than the report, however old that is, does not contradict it.
    if charge is not None and not fresh and listed_reserved == stats.reserved_bytes:
        reported = fit(reported, charge)
    parts = {"allocated": reported[0], "reserved_free": reported[1]}
    if charge is not None:
        parts["context"] = _context(charge, listed_reserved, stats.reserved_bytes)
    return KernelDevice(
        device_id=device_id,
        process_bytes=charge,
        allocated_bytes=stats.allocated_bytes,
        reserved_bytes=stats.reserved_bytes,
        peak_allocated_bytes=stats.peak_allocated_bytes,
        peak_reserved_bytes=stats.peak_reserved_bytes,
        inactive_split_bytes=stats.inactive_split_bytes,
        parts=parts,
    )


def _context(charge: int, listed_reserved: int, reserved: int) -> int:
    """What `charge` holds beyond the allocator's blocks, which may have changed since it was read.

    The report of that time may itself be older than the charge by its period.
    """
    then, now = charge - listed_reserved, charge - reserved
    if then < 0:
        return max(0, now)  # the charge lacks what was freed since that report
    # What was reserved since is in the charge already if it has room for it: else the context
    # would be the largest part of it.
    if 0 <= now < reserved - listed_reserved:
        return now
    return then


def _stats_on(report: KernelReport, device_id: str) -> AllocatorStats | None:
    return next((own for own in report.devices if own.device_id == device_id), None)


def _listed_reserved(
    report: KernelReport | None, listed: KernelReport | None, device_id: str
) -> int | None:
    if report is None or listed is None or listed.pid != report.pid or listed.problem is not None:
        return None
    stats = _stats_on(listed, device_id)
    return 0 if stats is None else stats.reserved_bytes


def fit(claims: Sequence[int], limit: int) -> list[int]:
    """`claims`, each cut in proportion where they exceed `limit` together."""
    total = sum(claims)
    if total <= limit:
        return list(claims)
    cut = [claim * limit // total for claim in claims]
    # Rounding down left over less than one byte for each claim that was cut.
    rounded = [position for position, claim in enumerate(claims) if cut[position] < claim]
    for position in rounded[: limit - sum(cut)]:
        cut[position] += 1
    return cut
