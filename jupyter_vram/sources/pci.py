"""What the kernel knows of the NVIDIA GPUs without touching them: do they sleep?

A laptop's discrete GPU is powered down when nothing uses it. Asking NVML anything would wake it,
and an open NVML keeps it awake. These files tell its state without that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"
_ASLEEP = frozenset({"suspended", "suspending"})
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class PciGpu:
    """An NVIDIA display device on the bus."""

    bus_id: str
    """As in sysfs: ``0000:01:00.0``."""
    asleep: bool
    may_sleep: bool
    """Runtime power management is on for it."""


@dataclass(frozen=True, slots=True)
class DriverEntry:
    """What the loaded driver remembers of a GPU that it has seen awake."""

    bus_id: str
    uuid: str
    name: str


def normal_bus_id(bus_id: str) -> str:
    """NVML's ``00000000:01:00.0`` as sysfs spells it: ``0000:01:00.0``."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}"


class PciBus:
    """Tells the power state of every NVIDIA GPU that the last `scan` found."""

    def __init__(self, sys_root: Path = Path("/sys"), proc_root: Path = Path("/proc")) -> None:
        self._devices = sys_root / "bus/pci/devices"
        self._driver = proc_root / "driver/nvidia/gpus"
        self._found: tuple[tuple[Path, bool], ...] = ()

    def scan(self) -> None:
        """Look up which NVIDIA GPUs are on the bus, and which of them may sleep."""
        try:
            folders = sorted(self._devices.iterdir())
        except OSError:  # no PCI bus, or none to be seen from here
            folders = []
        self._found = tuple(
            (folder, _line(folder / "power/control") == "auto")
            for folder in folders
            if _is_nvidia_gpu(folder)
        )

    def gpus(self) -> tuple[PciGpu, ...]:
        """The GPUs of the last `scan`; their power state is read now, if they may sleep."""
        return tuple(
            PciGpu(
                folder.name,
                asleep=may_sleep and _line(folder / "power/runtime_status") in _ASLEEP,
                may_sleep=may_sleep,
            )
            for folder, may_sleep in self._found
        )

    def driver_entries(self) -> Iterator[DriverEntry]:
        """The GPUs whose UUID the driver tells without waking them."""
        try:
            folders = sorted(self._driver.iterdir())
        except OSError:  # the driver is not loaded
            return
        for folder in folders:
            fields = _fields(folder / "information")
            uuid = fields.get("GPU UUID", "").lower().replace("gpu-", "GPU-", 1)
            if _UUID.fullmatch(uuid):  # question marks, where it has not seen the GPU awake
                yield DriverEntry(normal_bus_id(folder.name), uuid, fields.get("Model", ""))


def _is_nvidia_gpu(folder: Path) -> bool:
    vendor = _line(folder / "vendor")
    return vendor == _NVIDIA_VENDOR and _line(folder / "class").startswith(_DISPLAY_CLASS)


def _fields(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _line(path: Path) -> str:
    """A one-line file; empty where it is not there (any more)."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
