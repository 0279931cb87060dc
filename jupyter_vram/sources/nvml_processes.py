"""Which processes hold memory of a device."""

from __future__ import annotations

from typing import Any, NamedTuple

from jupyter_vram.model.device import ProcessSample
from jupyter_vram.sources.nvml_errors import DEVICE_DOWN, NOT_SUPPORTED, NvmlRefusal, reason
from jupyter_vram.sources.nvml_library import NvmlLibrary
from jupyter_vram.sources.nvml_notices import NO_PROCESS_BYTES_REASON

PARENT_REASON = "This GPU is split into slices (MIG): processes are listed with those."


class ProcessList(NamedTuple):
    """One reading of the list. `reason` where the list or all of its figures are missing."""

    processes: tuple[ProcessSample, ...] | None
    reason: str | None = None
    bytes_unsupported: bool = False
    """This driver model never tells what each process holds."""
    refusal: NvmlRefusal | None = None


OF_PARENT = ProcessList(None, PARENT_REASON)
_UNSUPPORTED = ProcessList(None, NO_PROCESS_BYTES_REASON, bytes_unsupported=True)


def read_processes(
    library: NvmlLibrary, handle: Any, total_bytes: int | None, *, wsl: bool
) -> ProcessList:
    """The processes that compute or draw on a device.

    Raises:
        NvmlRefusal: the device is lost or must be reset.
    """
    try:
        listed = library.processes("Compute", handle)
    except NvmlRefusal as refusal:
        if refusal.code in DEVICE_DOWN:
            raise
        if wsl and refusal.code == NOT_SUPPORTED:
            return _UNSUPPORTED._replace(refusal=refusal)
        return ProcessList(None, reason("the processes", refusal), refusal=refusal)
    try:
        listed += library.processes("Graphics", handle)
    except NvmlRefusal as refusal:
        # Cards without graphics refuse; what computes is known all the same.
        if refusal.code in DEVICE_DOWN:
            raise
    processes = _merge(listed, total_bytes)
    if not processes and wsl:  # there the list is empty whatever runs
        return _UNSUPPORTED
    if processes and all(process.used_bytes is None for process in processes):
        return ProcessList(processes, NO_PROCESS_BYTES_REASON, bytes_unsupported=True)
    return ProcessList(processes)


def _merge(
    listed: list[tuple[int, int | None]], total_bytes: int | None
) -> tuple[ProcessSample, ...]:
    """Each pid once, though it may compute and draw: NVML then tells its memory twice."""
    merged: dict[int, int | None] = {}
    for pid, used in listed:
        if pid <= 0:
            continue
        if used is not None and total_bytes is not None and used > total_bytes:
            used = None  # some drivers fill the list in another layout than the one asked for
        known = merged.get(pid)
        merged[pid] = used if known is None else max(known, used or 0)
    return tuple(ProcessSample(pid, used) for pid, used in sorted(merged.items()))
