"""A sysfs and a procfs in which GPUs sleep and wake."""

from __future__ import annotations

from pathlib import Path


class FakePci:
    """Writes what the kernel tells of PCI devices, below `root`."""

    def __init__(self, root: Path) -> None:
        self.sys_root = root / "sys"
        self.proc_root = root / "proc"
        self._devices = self.sys_root / "bus/pci/devices"
        self._devices.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        bus_id: str,
        *,
        vendor: str = "0x10de",
        device_class: str = "0x030000",
        control: str = "auto",
        status: str = "active",
    ) -> None:
        """Put a device on the bus (``0000:01:00.0``): by default a laptop's NVIDIA GPU."""
        folder = self._devices / bus_id
        (folder / "power").mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{device_class}\n")
        (folder / "power/control").write_text(f"{control}\n")
        self.set_status(bus_id, status)

    def set_status(self, bus_id: str, status: str) -> None:
        (self._devices / bus_id / "power/runtime_status").write_text(f"{status}\n")

    def remember(self, bus_id: str, uuid: str, name: str) -> None:
        """What the loaded driver has in its own folder of procfs."""
        folder = self.proc_root / "driver/nvidia/gpus" / bus_id
        folder.mkdir(parents=True)
        lines = [f"Model: \t\t {name}", "IRQ:   \t\t 130", f"GPU UUID: \t {uuid}", ""]
        (folder / "information").write_text("\n".join(lines))
