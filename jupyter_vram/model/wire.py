"""The JSON that leaves the server: `Snapshot` → objects of the HTTP contract (docs/http-api.md).

A stream begins with one whole ``snapshot`` and goes on with ``tick``s. A tick holds figures only,
as rows in the order of the last known ``devices`` and ``kernels``. When anything else about a
section changed (a kernel came, a reason went, a cell ended), the tick brings that section whole,
under ``changed``. `labextension/src/wire.ts` mirrors this file; both ends are tested against the
same ``tests/wire/*.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_vram.model.kernel_report import CellDevice, CellRun
from jupyter_vram.model.snapshot import DeviceView, KernelDevice, KernelView, Snapshot

SCHEMA_VERSION = 1

Json = dict[str, Any]

DEVICE_COLUMNS = (
    "used_bytes",
    "free_bytes",
    "driver_reserved_bytes",
    "other_bytes",
    "unattributed_bytes",
    "utilization_percent",
    "temperature_c",
    "power_w",
)
"""A tick's row per device; the names are fields of a device object."""

KERNEL_COLUMNS = ("report_age_s", "devices")
"""A tick's row per kernel; ``devices`` holds a row of `KERNEL_DEVICE_COLUMNS` for each."""

KERNEL_DEVICE_COLUMNS = (
    "process_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "parts",
)
"""``parts`` is a list, in the order of the keys of that device object's ``parts``."""

TICK_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "devices": DEVICE_COLUMNS,
    "kernels": KERNEL_COLUMNS,
    "kernel_devices": KERNEL_DEVICE_COLUMNS,
}

SECTIONS = ("devices", "kernels", "notices", "interval_s", "stale")
"""What a tick may bring under ``changed``."""


def device_object(view: DeviceView) -> Json:
    """A device of the contract."""
    sample = view.sample
    device = sample.device
    return {
        "id": device.id,
        "kind": device.kind,
        "index": device.index,
        "name": device.name,
        "parent_id": device.parent_id,
        "unified_memory": device.unified_memory,
        "total_bytes": sample.total_bytes,
        "used_bytes": sample.used_bytes,
        "free_bytes": sample.free_bytes,
        "driver_reserved_bytes": sample.driver_reserved_bytes,
        "other_bytes": view.other_bytes,
        "unattributed_bytes": view.unattributed_bytes,
        "utilization_percent": sample.utilization_percent,
        "temperature_c": sample.temperature_c,
        "power_w": sample.power_w,
        "power_limit_w": sample.power_limit_w,
        "stale": sample.stale,
        "processes": [
            {
                "pid": process.pid,
                "used_bytes": process.used_bytes,
                "kernel_id": process.kernel_id,
                "owner": process.owner,
            }
            for process in view.processes
        ],
        "reasons": dict(sample.reasons),
    }


def _kernel_device_object(share: KernelDevice) -> Json:
    return {
        "id": share.device_id,
        "process_bytes": share.process_bytes,
        "allocated_bytes": share.allocated_bytes,
        "reserved_bytes": share.reserved_bytes,
        "peak_allocated_bytes": share.peak_allocated_bytes,
        "peak_reserved_bytes": share.peak_reserved_bytes,
        "inactive_split_bytes": share.inactive_split_bytes,
        "parts": dict(share.parts),
    }


def cell_object(cell: CellRun) -> Json:
    """A run of a cell in a history: when it ran."""
    return {
        "execution_count": cell.execution_count,
        "started_at": cell.started_at,
        "ended_at": cell.ended_at,
    }


def _kernel_cell_object(cell: CellRun) -> Json:
    """A run of a cell among a kernel's latest ones: also what it did to memory."""
    return {
        **cell_object(cell),
        "code_crc32": cell.code_crc32,
        "rss_change_bytes": cell.rss_change_bytes,
        "devices": [_cell_device_object(device) for device in cell.devices],
    }


def _cell_device_object(device: CellDevice) -> Json:
    return {
        "id": device.device_id,
        "start_bytes": device.start_bytes,
        "end_bytes": device.end_bytes,
        "peak_bytes": device.peak_bytes,
        "peak_exact": device.peak_exact,
    }


def kernel_object(view: KernelView, now: float) -> Json:
    """A kernel of the contract; `now` (seconds since the epoch) gives its report an age."""
    return {
        "kernel_id": view.kernel_id,
        "pid": view.pid,
        "name": view.name,
        "paths": list(view.paths),
        "state": view.state,
        "stale": view.stale,
        "report_age_s": _age(view, now),
        "reason": view.reason,
        "torch_state": view.torch_state,
        "rss_bytes": view.rss_bytes,
        "cells": [_kernel_cell_object(cell) for cell in view.cells],
        "devices": [_kernel_device_object(share) for share in view.devices],
    }


def snapshot_object(snapshot: Snapshot) -> Json:
    """What ``GET snapshot`` answers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "time": snapshot.time,
        "interval_s": snapshot.interval_s,
        "stale": snapshot.stale,
        "devices": [device_object(view) for view in snapshot.devices],
        "kernels": [kernel_object(view, snapshot.time) for view in snapshot.kernels],
        "notices": [
            {"code": notice.code, "severity": notice.severity, "message": notice.message}
            for notice in snapshot.notices
        ],
    }


def snapshot_message(snapshot: Json, history: Json) -> Json:
    """A stream's first message."""
    return {
        "type": "snapshot",
        **snapshot,
        "tick_columns": {name: list(columns) for name, columns in TICK_COLUMNS.items()},
        "history": history,
    }


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick, ready to be cut to what a client has seen.

    `revisions` counts, for each of `SECTIONS`, how often it changed in more than its figures.
    """

    snapshot: Json
    rows: Json
    revisions: Mapping[str, int]

    def message(self, seen: Mapping[str, int] | None) -> Json:
        """The message for a client that last saw `seen` (``None``: it missed something)."""
        changed = {
            section: self.snapshot[section]
            for section in SECTIONS
            if seen is None or seen.get(section) != self.revisions[section]
        }
        message = {"type": "tick", "time": self.snapshot["time"], **self.rows}
        return {**message, "changed": changed} if changed else message


class TickBuilder:
    """Turns successive snapshots into ticks. Not thread safe: one thread builds."""

    def __init__(self) -> None:
        self._fixed: Json = {}
        self._revisions = dict.fromkeys(SECTIONS, 0)

    def build(self, snapshot: Snapshot) -> Tick:
        """The tick after the one built before."""
        whole = snapshot_object(snapshot)
        fixed = {
            "devices": [_fixed_device(device) for device in whole["devices"]],
            "kernels": [_fixed_kernel(kernel) for kernel in whole["kernels"]],
            **{section: whole[section] for section in ("notices", "interval_s", "stale")},
        }
        for section in SECTIONS:
            if self._fixed.get(section) != fixed[section]:
                self._revisions[section] += 1
        self._fixed = fixed
        rows = {
            "devices": [[device[name] for name in DEVICE_COLUMNS] for device in whole["devices"]],
            "kernels": [_kernel_row(kernel) for kernel in whole["kernels"]],
        }
        return Tick(whole, rows, dict(self._revisions))


def _fixed_device(device: Json) -> Json:
    # A process's bytes are refreshed with the section: ticks tell them summed, per owner.
    pids = [(p["pid"], p["owner"], p["kernel_id"]) for p in device["processes"]]
    return {**_without(device, DEVICE_COLUMNS), "processes": pids}


def _fixed_kernel(kernel: Json) -> Json:
    figures = (*KERNEL_DEVICE_COLUMNS, "peak_reserved_bytes", "inactive_split_bytes")
    shares = [
        {**_without(share, figures), "parts": list(share["parts"])} for share in kernel["devices"]
    ]
    return {**_without(kernel, ("report_age_s", "rss_bytes")), "devices": shares}


def _kernel_row(kernel: Json) -> list[Any]:
    shares = [
        [*(share[name] for name in KERNEL_DEVICE_COLUMNS[:-1]), list(share["parts"].values())]
        for share in kernel["devices"]
    ]
    return [kernel["report_age_s"], shares]


def _without(fields: Json, names: tuple[str, ...]) -> Json:
    return {name: value for name, value in fields.items() if name not in names}


def _age(view: KernelView, now: float) -> float | None:
    # A clock that was set back must not give a negative age.
    return None if view.report_time is None else round(max(0.0, now - view.report_time), 1)
