"""Finds the devices that NVML lists: GPUs, their slices (MIG), and those that went missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_vram.model.device import Device
from jupyter_vram.sources.nvml_device import NvmlDevice
from jupyter_vram.sources.nvml_errors import (
    FUNCTION_NOT_FOUND,
    GONE,
    NOT_FOUND,
    NOT_SUPPORTED,
    NvmlRefusal,
)
from jupyter_vram.sources.nvml_library import NvmlLibrary

UNNAMED = "NVIDIA GPU"
GONE_FOR_S = 600.0
"""A GPU that is listed no more is told of, and looked for, this long: then it was taken away."""


@dataclass(frozen=True, slots=True)
class DownDevice:
    """A device that does not answer, with its last known identity."""

    device: Device
    refusal: NvmlRefusal


class DeviceFinder:
    """Enumerates. What can't change while the driver runs is asked once per device."""

    def __init__(self, clock: Callable[[], float], *, wsl: bool) -> None:
        self._clock = clock
        self._wsl = wsl
        self._gone_since: dict[str, float] = {}
        self._known: dict[str, Device] = {}

    @property
    def known(self) -> Mapping[str, Device]:
        """Every device of the last enumerations, by UUID, in NVML's order."""
        return self._known

    def adopt(self, device: Device) -> None:
        """Remember a device that was learnt of in another way, or more about one."""
        self._known[device.id] = device

    def find(self, library: NvmlLibrary) -> list[NvmlDevice | DownDevice]:
        """All devices: a GPU is followed by its slices. One bad GPU never hides the others.

        Raises:
            NvmlRefusal: not even their number, or none of their names, can be had.
        """
        found: list[NvmlDevice | DownDevice] = []
        for index in range(library.ask("nvmlDeviceGetCount")):
            found += self._gpu_and_slices(library, index)
        listed = {entry.device.id for entry in found}
        found += self._gone(listed)
        self._known = {
            entry.device.id: entry.device
            for entry in found
            if isinstance(entry, NvmlDevice) or entry.device.id in self._known
        }
        return found

    def _gone(self, listed: Collection[str]) -> list[DownDevice]:
        now = self._clock()
        self._gone_since = {
            device.id: self._gone_since.get(device.id, now)
            for device in self._known.values()
            if device.id not in listed and device.parent_id is None
        }
        gone = NvmlRefusal(GONE, "no longer listed")
        return [
            DownDevice(self._known[device_id], gone)
            for device_id, since in self._gone_since.items()
            if now - since < GONE_FOR_S
        ]

    def _gpu_and_slices(self, library: NvmlLibrary, index: int) -> list[NvmlDevice | DownDevice]:
        try:
            handle = library.ask("nvmlDeviceGetHandleByIndex", index)
            uuid = library.ask_text("nvmlDeviceGetUUID", handle)
        except NvmlRefusal as refusal:
            if refusal.code == FUNCTION_NOT_FOUND:  # so it is for all of them
                raise
            return self._down(index, refusal)
        device = self._identify(library, handle, uuid, index)
        slices = self._slices(library, handle, device)
        gpu = NvmlDevice(library, handle, device, wsl=self._wsl, split=bool(slices))
        return [gpu, *slices]

    def _down(self, index: int, refusal: NvmlRefusal) -> list[NvmlDevice | DownDevice]:
        last = [device for device in self._known.values() if device.index == index]
        unknown = Device(id=f"GPU-unknown-{index}", kind="cuda", index=index, name=UNNAMED)
        return [DownDevice(device, refusal) for device in last or [unknown]]

    def _identify(
        self,
        library: NvmlLibrary,
        handle: Any,
        uuid: str,
        index: int,
        parent: Device | None = None,
    ) -> Device:
        known = self._known.get(uuid)
        if known is not None and known.index == index and known.name != UNNAMED:
            return known
        try:
            name = library.ask_text("nvmlDeviceGetName", handle)
        except NvmlRefusal:
            name = ""
        pci_bus_id = parent.pci_bus_id if parent is not None else _pci_bus_id(library, handle)
        return Device(
            id=uuid,
            kind="cuda",
            index=index,
            name=name or UNNAMED,
            pci_bus_id=pci_bus_id,
            parent_id=None if parent is None else parent.id,
        )

    def _slices(
        self, library: NvmlLibrary, handle: Any, gpu: Device
    ) -> list[NvmlDevice | DownDevice]:
        try:
            if not library.ask("nvmlDeviceGetMigMode", handle)[0]:
                return []
            most = library.ask("nvmlDeviceGetMaxMigDeviceCount", handle)
        except NvmlRefusal as refusal:
            if refusal.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                return []
            return self._slices_down(gpu, set(), refusal)
        slices: list[NvmlDevice | DownDevice] = []
        trouble: NvmlRefusal | None = None
        for number in range(most):
            found = self._slice(library, handle, gpu, number)
            if isinstance(found, NvmlDevice):
                slices.append(found)
            elif found.code != NOT_FOUND:  # else there is none with this number
                trouble = found
        if trouble is not None:
            slices += self._slices_down(gpu, {entry.device.id for entry in slices}, trouble)
        return slices

    def _slice(
        self, library: NvmlLibrary, gpu_handle: Any, gpu: Device, number: int
    ) -> NvmlDevice | NvmlRefusal:
        try:
            handle = library.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu_handle, number)
            uuid = library.ask_text("nvmlDeviceGetUUID", handle)
        except NvmlRefusal as refusal:
            return refusal
        device = self._identify(library, handle, uuid, gpu.index or 0, parent=gpu)
        return NvmlDevice(library, handle, device, wsl=self._wsl)

    def _slices_down(
        self, gpu: Device, found: set[str], refusal: NvmlRefusal
    ) -> list[NvmlDevice | DownDevice]:
        return [
            DownDevice(device, refusal)
            for device in self._known.values()
            if device.parent_id == gpu.id and device.id not in found
        ]


def _pci_bus_id(library: NvmlLibrary, handle: Any) -> str | None:
    try:
        return str(library.ask("nvmlDeviceGetPciInfo", handle).busId) or None
    except (NvmlRefusal, UnicodeDecodeError):
        return None
