"""Reads one device that NVML lists: a GPU, or a slice of one (MIG)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from jupyter_vram.model.device import Device, DeviceSample
from jupyter_vram.sources.host import machine_memory
from jupyter_vram.sources.nvml_errors import (
    DEVICE_DOWN,
    NOT_SUPPORTED,
    NOT_TOLD,
    NvmlRefusal,
    reason,
)
from jupyter_vram.sources.nvml_library import Memory, NvmlLibrary
from jupyter_vram.sources.nvml_processes import OF_PARENT, ProcessList, read_processes

MEMORY_FIELDS = ("total_bytes", "used_bytes", "free_bytes", "driver_reserved_bytes")
SENSORS: dict[str, tuple[str, Callable[[NvmlLibrary, Any], float], float]] = {
    # field: what it is called, how it is asked for, the most that can be true
    "utilization_percent": ("the utilization", NvmlLibrary.utilization, 100),
    "temperature_c": ("the temperature", NvmlLibrary.temperature, 1_000),
    "power_w": ("the power drawn", NvmlLibrary.power, 100_000),
}
FIELDS = (*MEMORY_FIELDS, *SENSORS, "power_limit_w", "processes")
"""Every field of a sample that may be unknown."""

_NEAR_ALL = 0.9
_INTEGRATED = re.compile(r"\b(GB10|N1X|Jetson|Tegra|Xavier|Orin|Thor)\b", re.I)

SLICE_SENSOR_REASON = "This is measured for the whole GPU only, not for a slice of it (MIG)."
UNIFIED_RESERVED_REASON = "The GPU shares the machine's memory; nothing is set aside for it."


class NvmlDevice:
    """A device with its handle. One `read` is one turn.

    `answers` and `refusals` tell how the last one went: how many calls succeeded, and the first
    refusal by field.
    """

    def __init__(
        self, library: NvmlLibrary, handle: Any, device: Device, *, wsl: bool, split: bool = False
    ) -> None:
        """`split`: a GPU in MIG mode that has slices."""
        self.device = device
        self.answers = 0
        self.refusals: dict[str, NvmlRefusal] = {}
        self._library = library
        self._handle = handle
        self._wsl = wsl
        self._split = split
        self._coherent = False
        """The GPU and the processor translate addresses alike (Grace)."""
        self._power_limit: tuple[float | None, str | None] = (None, None)
        self._processes: ProcessList | None = None
        self._read_fixed()

    def read(self, *, processes: bool) -> DeviceSample:
        """Read every figure, each apart: one that is refused leaves the others as they are.

        Raises:
            NvmlRefusal: the device is lost or must be reset.
        """
        self.answers = 0
        self.refusals = {}
        figures: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        self._read_memory(figures, reasons)
        self._read_sensors(figures, reasons)
        if processes or self._processes is None:
            self._processes = self._read_processes(figures.get("total_bytes"))
        figures["processes"] = self._processes.processes
        if self._processes.reason is not None:
            reasons["processes"] = self._processes.reason
        return DeviceSample(device=self.device, reasons=reasons, **figures)

    def silence(self) -> NvmlRefusal | None:
        """Why the last `read` got no answer at all, if it got none."""
        if self.answers:
            return None
        refusals = self.refusals.values()
        return next((refusal for refusal in refusals if refusal.code not in NOT_TOLD), None)

    @property
    def is_idle(self) -> bool:
        """No process was listed last time."""
        return self._processes is not None and self._processes.processes == ()

    @property
    def process_bytes_unsupported(self) -> bool:
        """The driver lists processes here without what each holds, always."""
        return self._processes is not None and self._processes.bytes_unsupported

    # --- what changes rarely ------------------------------------------------------------------

    def _read_fixed(self) -> None:
        """What is read once per enumeration."""
        if self.device.parent_id is not None:
            self._power_limit = (None, SLICE_SENSOR_REASON)
            return
        try:
            milliwatts = self._library.ask("nvmlDeviceGetEnforcedPowerLimit", self._handle)
            self._power_limit = (milliwatts / 1000, None)
        except NvmlRefusal as refusal:
            self._power_limit = (None, reason("the power limit", refusal))
        try:
            mode = self._library.ask("nvmlDeviceGetAddressingMode", self._handle)
            self._coherent = mode == 2
        except NvmlRefusal:  # older drivers, and most machines: then the name decides
            self._coherent = False

    # --- each turn ----------------------------------------------------------------------------

    def _read_memory(self, figures: dict[str, Any], reasons: dict[str, str]) -> None:
        memory: Memory | None = None
        try:
            memory = self._library.memory(self._handle)
            self.answers += 1
        except NvmlRefusal as refusal:
            self._note("total_bytes", refusal)
            reasons.update(dict.fromkeys(MEMORY_FIELDS, reason("the memory", refusal)))
            if refusal.code != NOT_SUPPORTED:
                return
        if self._shares_host_memory(memory):
            self._read_unified(figures, reasons)
        elif memory is not None and memory.total_bytes == 0:
            why = "The driver says that this device has no memory at all, which can't be."
            reasons.update(dict.fromkeys(MEMORY_FIELDS, why))
        elif memory is not None:
            figures["total_bytes"] = memory.total_bytes
            figures["used_bytes"] = min(memory.used_bytes, memory.total_bytes)
            figures["free_bytes"] = min(memory.free_bytes, memory.total_bytes)
            figures["driver_reserved_bytes"] = memory.reserved_bytes
            if memory.reserved_bytes is None:
                reasons["driver_reserved_bytes"] = (
                    "This NVIDIA driver is too old to tell what it reserves for itself; it is part"
                    " of the memory in use."
                )

    def _shares_host_memory(self, memory: Memory | None) -> bool:
        """Is the GPU's memory the machine's? A discrete card that can't tell is not meant."""
        integrated = bool(_INTEGRATED.search(self.device.name))
        if memory is None or memory.total_bytes == 0:
            return integrated or self._coherent
        return integrated and memory.total_bytes >= _NEAR_ALL * machine_memory().total_bytes

    def _read_unified(self, figures: dict[str, Any], reasons: dict[str, str]) -> None:
        host = machine_memory()
        figures["total_bytes"] = host.total_bytes
        figures["used_bytes"] = host.total_bytes - host.available_bytes
        figures["free_bytes"] = host.available_bytes
        for field in MEMORY_FIELDS:
            reasons.pop(field, None)
        reasons["driver_reserved_bytes"] = UNIFIED_RESERVED_REASON
        if not self.device.unified_memory:
            self.device = dataclasses.replace(self.device, unified_memory=True)

    def _read_sensors(self, figures: dict[str, Any], reasons: dict[str, str]) -> None:
        figures["power_limit_w"], why = self._power_limit
        if why is not None:
            reasons["power_limit_w"] = why
        if self.device.parent_id is not None:
            reasons.update(dict.fromkeys(SENSORS, SLICE_SENSOR_REASON))
            return
        for field, (what, ask, most) in SENSORS.items():
            try:
                value = ask(self._library, self._handle)
                self.answers += 1
            except NvmlRefusal as refusal:
                self._note(field, refusal)
                reasons[field] = reason(what, refusal)
                continue
            if value > most:  # all bits set: how some drivers say that they don't know
                reasons[field] = f"The driver does not measure {what} on this device."
            else:
                figures[field] = value

    def _read_processes(self, total_bytes: int | None) -> ProcessList:
        if self._split:
            return OF_PARENT
        listed = read_processes(self._library, self._handle, total_bytes, wsl=self._wsl)
        if listed.refusal is None:
            self.answers += 1
        else:
            self._note("processes", listed.refusal)
        return listed

    def _note(self, field: str, refusal: NvmlRefusal) -> None:
        if refusal.code in DEVICE_DOWN:
            raise refusal
        self.refusals.setdefault(field, refusal)
