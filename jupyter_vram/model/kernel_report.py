"""What a kernel tells about itself: the values, and their JSON form in the report file.

The kernel and the server may run different versions of this package. So the JSON has a schema
version of its own, ``[major, minor]``: a reader ignores keys that it does not know (minor),
and refuses another major.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from jupyter_vram.errors import ReportError

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 1
MAX_REPORT_BYTES = 256 * 1024
"""A larger file is no report of ours; a reader does not load it."""

TorchState = Literal["not_imported", "no_cuda_build", "cuda_not_initialized", "cuda_initialized"]
TORCH_STATES: tuple[TorchState, ...] = (
    "not_imported",
    "no_cuda_build",
    "cuda_not_initialized",
    "cuda_initialized",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorStats:
    """torch's caching allocator on one device, from ``torch.cuda.memory_stats``. All in bytes
    (block bytes: rounded to the allocator's 512 B), but for the two counters."""

    device_id: str
    """UUID as NVML spells it (``GPU-…`` or ``MIG-…``)."""
    ordinal: int
    """CUDA ordinal in that kernel."""
    allocated_bytes: int
    reserved_bytes: int
    active_bytes: int | None = None
    requested_bytes: int | None = None
    inactive_split_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    alloc_retries: int | None = None
    ooms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDevice:
    """What a run did to torch's allocated bytes (block bytes) on one device."""

    device_id: str
    start_bytes: int
    end_bytes: int
    peak_bytes: int
    peak_exact: bool
    """Else it was only sampled: the peak was `peak_bytes` or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """One run of a cell. Times: seconds since the epoch; `ended_at` is ``None`` while it runs."""

    execution_count: int | None
    started_at: float
    ended_at: float | None = None
    code_crc32: int | None = None
    """CRC-32 of its source in UTF-8: with the count, it tells a front end which cell this was."""
    rss_start_bytes: int | None = None
    rss_end_bytes: int | None = None
    """The process's resident bytes; ``None`` while it runs, and where they are unknown."""
    devices: tuple[CellDevice, ...] = ()
    """The devices whose memory it touched, once it has ended."""

    @property
    def rss_change_bytes(self) -> int | None:
        """Resident bytes at its end less those at its start; ``None`` if unknown."""
        if self.rss_start_bytes is None or self.rss_end_bytes is None:
            return None
        return self.rss_end_bytes - self.rss_start_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """One reading of a kernel by itself."""

    pid: int
    """In the kernel's own PID namespace."""
    written_at: float
    """Seconds since the epoch."""
    period_s: float
    """Seconds until the next report is due; after two of them without one, this one is stale."""
    package_version: str
    rss_bytes: int | None = None
    torch_state: TorchState = "not_imported"
    torch_version: str | None = None
    devices: tuple[AllocatorStats, ...] = ()
    cells: tuple[CellRun, ...] = ()
    """The latest runs, oldest first."""
    problem: str | None = None
    """A sentence, if the kernel could not read its allocator."""

    def to_json(self) -> bytes:
        """The report as one UTF-8 JSON object."""
        fields = {
            "schema_version": [SCHEMA_MAJOR, SCHEMA_MINOR],
            **_object(self),
            "devices": [_object(device) for device in self.devices],
            "cells": [_cell_object(cell) for cell in self.cells],
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes) -> KernelReport:
        """Read what `to_json` of this or another version wrote.

        Raises:
            ReportError: it is no report, or one of another major schema version.
        """
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ReportError(f"The kernel's report is not JSON ({error}).") from error
        if not isinstance(fields, dict):
            raise ReportError("The kernel's report is not a JSON object.")
        version = fields.get("schema_version")
        if not (isinstance(version, list) and version and version[0] == SCHEMA_MAJOR):
            raise ReportError(
                f"The kernel reports in schema version {version!r}, and this server reads"
                f" {SCHEMA_MAJOR}.x: install the same jupyter-vram on both sides."
            )
        try:
            return _report(fields)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ReportError(f"The kernel's report has a bad field ({error!r}).") from error


def _object(value: KernelReport | AllocatorStats | CellRun | CellDevice) -> dict[str, Any]:
    # A kernel does this twice a second; `dataclasses.asdict`, which copies deeply, takes longer.
    return {name: getattr(value, name) for name in value.__slots__}


def _cell_object(cell: CellRun) -> dict[str, Any]:
    return {**_object(cell), "devices": [_object(device) for device in cell.devices]}


def _report(fields: Mapping[str, Any]) -> KernelReport:
    state = fields.get("torch_state", "not_imported")
    if state not in TORCH_STATES:
        raise ValueError(f"torch_state {state!r}")
    return KernelReport(
        pid=_count(fields["pid"]),
        written_at=_number(fields["written_at"]),
        period_s=_number(fields["period_s"]),
        package_version=str(fields["package_version"]),
        rss_bytes=_optional_count(fields.get("rss_bytes")),
        torch_state=cast("TorchState", state),
        torch_version=_optional_text(fields.get("torch_version")),
        devices=tuple(_allocator_stats(device) for device in _objects(fields, "devices")),
        cells=tuple(_cell_run(cell) for cell in _objects(fields, "cells")),
        problem=_optional_text(fields.get("problem")),
    )


def _allocator_stats(fields: Mapping[str, Any]) -> AllocatorStats:
    optional = {
        field.name: _optional_count(fields.get(field.name))
        for field in dataclasses.fields(AllocatorStats)
        if field.default is None
    }
    return AllocatorStats(
        device_id=str(fields["device_id"]),
        ordinal=_count(fields["ordinal"]),
        allocated_bytes=_count(fields["allocated_bytes"]),
        reserved_bytes=_count(fields["reserved_bytes"]),
        **optional,
    )


def _cell_run(fields: Mapping[str, Any]) -> CellRun:
    ended_at = fields.get("ended_at")
    return CellRun(
        execution_count=_optional_count(fields.get("execution_count")),
        started_at=_number(fields["started_at"]),
        ended_at=None if ended_at is None else _number(ended_at),
        code_crc32=_optional_count(fields.get("code_crc32")),
        rss_start_bytes=_optional_count(fields.get("rss_start_bytes")),
        rss_end_bytes=_optional_count(fields.get("rss_end_bytes")),
        devices=tuple(_cell_device(device) for device in _objects(fields, "devices")),
    )


def _cell_device(fields: Mapping[str, Any]) -> CellDevice:
    return CellDevice(
        device_id=str(fields["device_id"]),
        start_bytes=_count(fields["start_bytes"]),
        end_bytes=_count(fields["end_bytes"]),
        peak_bytes=_count(fields["peak_bytes"]),
        peak_exact=fields.get("peak_exact") is True,
    )


def _objects(fields: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    values = fields.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError(f"{name} is no list of objects")
    return values


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a count")
    return value


def _optional_count(value: Any) -> int | None:
    return None if value is None else _count(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not 0 <= number < 1e12:
        raise ValueError(f"{value!r} is not a time")
    return number
