"""What was, kept in the server's memory: 15 minutes at the polling rate, 24 hours thinned.

Of each stretch of the thinned part, the two whole rows are kept where least and most was in use,
so that no peak is lost and the parts of a row still add up. Rows are kept per device; the
kernels' parts are columns that come and go with the kernels.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from jupyter_vram.errors import HistoryError
from jupyter_vram.model.kernel_report import CellRun
from jupyter_vram.model.snapshot import DeviceView, KernelView, Snapshot
from jupyter_vram.model.wire import DEVICE_COLUMNS, SCHEMA_VERSION, cell_object
from jupyter_vram.recorders.device_history import (
    THIN_SPAN_S,
    THIN_WIDTH_S,
    DeviceHistory,
    PartKey,
    Selection,
)
from jupyter_vram.recorders.table import Row

MAX_CELLS = 500
"""Per kernel: the latest runs."""
MAX_ENDED_CELLS = 20
"""Per kernel that has ended: a day can see hundreds, and their runs would fill megabytes."""


@dataclass(slots=True)
class _KernelPast:
    name: str
    paths: tuple[str, ...]
    seen: float
    cells: dict[float, CellRun] = field(default_factory=dict)

    def close_runs(self, but: Collection[float] = ()) -> None:
        """End what ran when the kernel was last seen: a killed kernel never tells the end."""
        for started, cell in self.cells.items():
            if cell.ended_at is None and started not in but:
                ended_at = max(started, self.seen)
                self.cells[started] = dataclasses.replace(cell, ended_at=ended_at)

    def keep_latest(self, count: int) -> None:
        """Forget all runs but the latest `count`."""
        if len(self.cells) > count:
            latest = sorted(self.cells)[-count:]
            self.cells = {started: self.cells[started] for started in latest}


class History:
    """Records snapshots; answers what a device's memory was. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._devices: dict[str, DeviceHistory] = {}
        self._kernels: dict[str, _KernelPast] = {}
        self._latest = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of all figures held."""
        with self._lock:
            devices = self._devices.values()
            return sum(device.fine.nbytes + device.thin.nbytes for device in devices)

    @property
    def device_ids(self) -> tuple[str, ...]:
        """The devices that have a past."""
        with self._lock:
            return tuple(self._devices)

    def append(self, snapshot: Snapshot) -> None:
        """Record one snapshot. A device that did not answer leaves a gap: a row of unknowns."""
        with self._lock:
            self._latest = snapshot.time
            for view in snapshot.devices:
                device = self._devices.setdefault(view.device.id, DeviceHistory())
                row = _row(view, snapshot.kernels)
                device.append(snapshot.time, snapshot.interval_s, row)
            for kernel in snapshot.kernels:
                self._remember(kernel, snapshot.time)
            self._forget(snapshot.time - THIN_SPAN_S)

    def _remember(self, kernel: KernelView, time: float) -> None:
        past = self._kernels.get(kernel.kernel_id)
        if past is None:
            past = self._kernels[kernel.kernel_id] = _KernelPast(kernel.name, kernel.paths, time)
        past.close_runs(but={cell.started_at for cell in kernel.cells})
        past.name, past.paths, past.seen = kernel.name, kernel.paths, time
        for cell in kernel.cells:
            # When it ran, and no more: its memory would make a day's history large.
            times = (cell.execution_count, cell.ended_at)
            known = past.cells.get(cell.started_at)
            if known is None or (known.execution_count, known.ended_at) != times:
                past.cells[cell.started_at] = CellRun(
                    execution_count=cell.execution_count,
                    started_at=cell.started_at,
                    ended_at=cell.ended_at,
                )
        past.keep_latest(MAX_CELLS)

    def _forget(self, oldest: float) -> None:
        for device_id, device in list(self._devices.items()):
            if device.fine.times[-1] < oldest:
                del self._devices[device_id]
        for kernel_id, past in list(self._kernels.items()):
            if past.seen < oldest:
                del self._kernels[kernel_id]
            elif past.seen < self._latest:
                past.keep_latest(MAX_ENDED_CELLS)

    def history(self, device_id: str, seconds: float, max_points: int) -> dict[str, Any]:
        """The last `seconds` of a device in at most `max_points` rows, as ``GET history`` answers.

        Raises:
            HistoryError: nothing is known of such a device.
        """
        with self._lock:
            device = self._devices.get(device_id)
            if device is None:
                known = ", ".join(self._devices) or "none yet"
                raise HistoryError(
                    f"There is no history of a device {device_id!r}: known are {known}."
                )
            return self._answer(device_id, device, self._since(seconds), max_points)

    def histories(self, seconds: float, max_points: int) -> dict[str, dict[str, Any]]:
        """`history` of every device by its id: what a stream begins with."""
        with self._lock:  # all at once: a device may be forgotten in between
            return {
                device_id: self._answer(device_id, device, self._since(seconds), max_points)
                for device_id, device in self._devices.items()
            }

    def _since(self, seconds: float) -> float:
        return self._latest - min(seconds, THIN_SPAN_S)

    def _answer(
        self,
        device_id: str,
        device: DeviceHistory,
        since: float,
        max_points: int,
    ) -> dict[str, Any]:
        selection = Selection(device, since)
        resolution_s = THIN_WIDTH_S if selection.has_thin else device.interval_s
        if len(selection.times) > max_points:
            width_s = 2 * (selection.times[-1] - selection.times[0]) / max_points
            selection.thin_out(width_s, max_points)
            resolution_s = max(resolution_s, width_s)
        kernels: dict[str, dict[str, Any]] = {}
        for kernel_id, part in selection.part_keys(since):
            values = selection.column((kernel_id, part))
            if any(value is not None for value in values):
                kernel = kernels.setdefault(kernel_id, self._kernel_object(kernel_id, since))
                kernel["parts"][part] = _integers(values)
        return {
            "schema_version": SCHEMA_VERSION,
            "device": device_id,
            "resolution_s": resolution_s,
            "time": selection.times,
            "columns": {
                name: _integers(values) if name.endswith("_bytes") else values
                for name in DEVICE_COLUMNS
                for values in (selection.column(name),)
            },
            "kernels": kernels,
        }

    def _kernel_object(self, kernel_id: str, since: float) -> dict[str, Any]:
        past = self._kernels[kernel_id]
        ended = past.seen < self._latest
        if ended:
            past.close_runs()
        cells = [past.cells[started] for started in sorted(past.cells)]
        return {
            "name": past.name,
            "paths": list(past.paths),
            "ended": ended,
            "parts": {},
            "cells": [
                cell_object(cell)
                for cell in cells
                if cell.ended_at is None or cell.ended_at >= since
            ],
        }


def _row(view: DeviceView, kernels: Iterable[KernelView]) -> Row:
    sample = view.sample
    if sample.stale:
        return {}
    row: dict[str | PartKey, float | None] = {
        "used_bytes": sample.used_bytes,
        "free_bytes": sample.free_bytes,
        "driver_reserved_bytes": sample.driver_reserved_bytes,
        "other_bytes": view.other_bytes,
        "unattributed_bytes": view.unattributed_bytes,
        "utilization_percent": sample.utilization_percent,
        "temperature_c": sample.temperature_c,
        "power_w": sample.power_w,
    }
    for kernel in kernels:
        for share in kernel.devices:
            if share.device_id == view.device.id:
                for part, size in share.parts.items():
                    row[kernel.kernel_id, part] = size
    return row


def _integers(values: Iterable[float | None]) -> list[int | None]:
    return [None if value is None else int(value) for value in values]
