"""Every byte of every device told apart: a `Measurement` and the kernels → a `Snapshot`.

What was read does not quite fit together: memory is read each turn, processes every 2 s, and a
kernel reports on its own beat. So the claims on a device are fitted into what is used of it, the
most trusted first: what kernels report, then what the driver charges processes. The rest of the
used bytes is unattributed. The parts of a device always add up to its total.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from jupyter_vram.analysis.claims import Claims, claims_on, fit, share_of
from jupyter_vram.analysis.kernel_reasons import kernel_reason
from jupyter_vram.analysis.process_owners import ProcessOwners
from jupyter_vram.model.device import DeviceSample
from jupyter_vram.model.kernel_report import KernelReport
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import (
    DeviceView,
    KernelDevice,
    KernelView,
    Measurement,
    PartName,
    ReportReading,
    Snapshot,
)

GONE_AFTER_S = 60.0
"""A report this old, by a process that is not seen here, is a leftover of a killed kernel."""
AHEAD_S = 5.0
"""A report this far in the future was written before the clock was set back: nobody knows when."""

NO_LIST = "The processes on this device could not be listed, so they can't be told apart."
NO_FIGURES = (
    "The driver names processes on this device but not their memory (WSL 2, WDDM and MIG do not"
    " tell): all that no kernel reports stands as unattributed."
)
FOREIGN_NUMBERS = (
    "The driver's process numbers are of another container or the host, so they match no process"
    " here: all that no kernel reports stands as unattributed."
)
HAS_SLICES = "This GPU is divided into MIG slices: see them for who holds what."
INVISIBLE = (
    "Held by processes that this server can't see: they have ended, or belong to another"
    " container or user."
)
NOT_NAMED = "In use, but by no process that the driver names."
NO_TOTALS = "The device does not tell how much of it is in use."

TRUST: tuple[tuple[PartName, ...], ...] = (
    ("allocated",),
    ("reserved_free",),
    ("context", "process", "resident"),
)
"""The kernels' parts, by how far they are trusted when not all fit into what is used."""


def assemble(measurement: Measurement, sessions: Sequence[KernelSession]) -> Snapshot:
    """Tell every byte of `measurement` apart among the kernels of `sessions` and the rest."""
    reports = _believable(measurement, measurement.reports, sessions)
    listed = (
        reports
        if measurement.listed_reports is None
        else _believable(measurement, measurement.listed_reports, sessions)
    )
    owners = ProcessOwners(sessions, reports, listed, measurement.devices, measurement.ancestors)
    stale = {
        kernel_id
        for kernel_id, report in reports.items()
        if not -AHEAD_S <= measurement.time - report.written_at <= 2 * report.period_s
    }
    shares: dict[str, list[KernelDevice]] = {session.kernel_id: [] for session in sessions}
    parents = {sample.device.parent_id for sample in measurement.devices}
    views = []
    for sample in measurement.devices:
        claims = claims_on(sample, owners, reports, listed, stale)
        view, fitted = _fit_device(sample, claims, owners, sample.device.id in parents)
        views.append(view)
        for kernel_id, share in fitted.items():
            shares[kernel_id].append(share)
    known = {sample.device.id for sample in measurement.devices}
    for kernel_id, report in reports.items():
        for stats in report.devices:
            if stats.device_id not in known:
                shares[kernel_id].append(share_of(stats.device_id, stats, (), fresh=True))
    kernels = tuple(
        _kernel(measurement, session, reports, stale, shares[session.kernel_id])
        for session in sessions
    )
    return Snapshot(
        time=measurement.time,
        interval_s=measurement.interval_s,
        devices=tuple(views),
        kernels=kernels,
        notices=measurement.notices,
        stale=measurement.stale,
    )


def _believable(
    measurement: Measurement,
    readings: Mapping[str, ReportReading],
    sessions: Sequence[KernelSession],
) -> dict[str, KernelReport]:
    reports = {}
    for session in sessions:
        reading = readings.get(session.kernel_id)
        report = None if reading is None else reading.report
        if report is None or session.state == "dead":
            continue
        line = (report.pid, *measurement.ancestors.get(report.pid, ()))
        seen = session.pid is not None and session.pid in line
        if seen or -AHEAD_S <= measurement.time - report.written_at < GONE_AFTER_S:
            reports[session.kernel_id] = report
    return reports


def _kernel(
    measurement: Measurement,
    session: KernelSession,
    reports: Mapping[str, KernelReport],
    stale: set[str],
    shares: Sequence[KernelDevice],
) -> KernelView:
    report = reports.get(session.kernel_id)
    is_stale = session.kernel_id in stale
    reading = measurement.reports.get(session.kernel_id)
    return KernelView(
        kernel_id=session.kernel_id,
        pid=session.pid,
        name=session.name,
        paths=session.paths,
        state=session.state,
        stale=is_stale,
        report_time=None if report is None else report.written_at,
        reason=kernel_reason(session, reading, report, is_stale),
        torch_state=None if report is None else report.torch_state,
        rss_bytes=None if report is None else report.rss_bytes,
        cells=() if report is None else report.cells,
        devices=tuple(shares),
    )


def _fit_device(
    sample: DeviceSample, claims: Claims, owners: ProcessOwners, has_slices: bool
) -> tuple[DeviceView, dict[str, KernelDevice]]:
    used = _in_use(sample)
    kernels, left = _fit_parts(claims.shares, used)
    reasons = dict(sample.reasons)
    others = [process.used_bytes for process in claims.processes if process.owner == "other"]
    other: int | None = sum(charge or 0 for charge in others)
    if sample.device.kind == "host":
        other, unattributed = left, None if left is None else 0
    else:
        if sample.processes is None or None in others or owners.foreign_numbers:
            other = (other or None) if sample.processes is not None else None
        if other is not None and left is not None:
            other = min(other, left)
        unattributed = None if left is None else left - (other or 0)
    if other is None:
        why = HAS_SLICES if has_slices else _why_no_other(sample, owners)
        reasons.setdefault("other_bytes", why)
    if unattributed is None:
        reasons.setdefault("unattributed_bytes", NO_TOTALS)
    elif unattributed > 0:
        reasons.setdefault("unattributed_bytes", _why_rest(sample, claims, owners, has_slices))
    view = DeviceView(
        sample=dataclasses.replace(sample, reasons=reasons),
        processes=claims.processes,
        other_bytes=other,
        unattributed_bytes=unattributed,
    )
    return view, kernels


def _in_use(sample: DeviceSample) -> int | None:
    if sample.total_bytes is not None and sample.free_bytes is not None:
        rest = sample.free_bytes + (sample.driver_reserved_bytes or 0)
        return max(0, sample.total_bytes - rest)
    return sample.used_bytes


def _fit_parts(
    shares: Mapping[str, KernelDevice], used: int | None
) -> tuple[dict[str, KernelDevice], int | None]:
    """The shares with their parts fitted into `used`, and what is left of it."""
    if used is None:
        return dict(shares), None
    parts: dict[str, dict[PartName, int]] = {kernel_id: {} for kernel_id in shares}
    left = used
    for names in TRUST:
        slots = [
            (kernel_id, name)
            for kernel_id, share in shares.items()
            for name in names
            if name in share.parts
        ]
        fitted = fit([shares[kernel_id].parts[name] for kernel_id, name in slots], left)
        for (kernel_id, name), size in zip(slots, fitted, strict=True):
            parts[kernel_id][name] = size
        left -= sum(fitted)
    return {
        kernel_id: dataclasses.replace(share, parts=parts[kernel_id])
        for kernel_id, share in shares.items()
    }, left


def _why_no_other(sample: DeviceSample, owners: ProcessOwners) -> str:
    if sample.processes is None:
        return sample.reasons.get("processes", NO_LIST)
    if sample.device.kind == "host":
        return NO_TOTALS
    return FOREIGN_NUMBERS if owners.foreign_numbers else NO_FIGURES


def _why_rest(sample: DeviceSample, claims: Claims, owners: ProcessOwners, has_slices: bool) -> str:
    if has_slices:
        return HAS_SLICES
    if sample.processes is None:
        return sample.reasons.get("processes", NO_LIST)
    if owners.foreign_numbers:
        return FOREIGN_NUMBERS
    if any(process.used_bytes is None for process in claims.processes):
        return NO_FIGURES
    if any(process.owner == "unattributed" for process in claims.processes):
        return INVISIBLE
    return NOT_NAMED
