from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_vram.sources.pci import DriverEntry, PciBus, PciGpu, normal_bus_id
from support.pci import FakePci

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


@pytest.fixture
def pci(tmp_path: Path) -> FakePci:
    return FakePci(tmp_path)


def bus_of(pci: FakePci) -> PciBus:
    bus = PciBus(pci.sys_root, pci.proc_root)
    bus.scan()
    return bus


def test_only_nvidia_s_display_devices_count(pci: FakePci) -> None:
    pci.add("0000:00:02.0", vendor="0x8086")
    pci.add("0000:01:00.0")
    pci.add("0000:01:00.1", device_class="0x040300")  # the sound of the same card
    pci.add("0001:02:00.0", device_class="0x030200", control="on")
    assert bus_of(pci).gpus() == (
        PciGpu("0000:01:00.0", asleep=False, may_sleep=True),
        PciGpu("0001:02:00.0", asleep=False, may_sleep=False),
    )


@pytest.mark.parametrize(
    ("status", "asleep"),
    [
        ("active", False),
        ("suspended", True),
        ("suspending", True),
        ("resuming", False),
        ("unsupported", False),
        ("error", False),
    ],
)
def test_the_state_is_read_each_time(pci: FakePci, status: str, asleep: bool) -> None:
    pci.add("0000:01:00.0")
    bus = bus_of(pci)
    pci.set_status("0000:01:00.0", status)
    assert bus.gpus()[0].asleep is asleep


def test_a_device_that_is_pulled_out_is_not_asleep(pci: FakePci) -> None:
    pci.add("0000:01:00.0", status="suspended")
    bus = bus_of(pci)
    (pci.sys_root / "bus/pci/devices/0000:01:00.0/power/runtime_status").unlink()
    assert not bus.gpus()[0].asleep


def test_no_bus_no_gpus(tmp_path: Path) -> None:
    bus = PciBus(tmp_path / "sys", tmp_path / "proc")
    bus.scan()
    assert bus.gpus() == ()
    assert list(bus.driver_entries()) == []


def test_the_driver_s_own_entries(pci: FakePci) -> None:
    pci.remember("0000:01:00.0", UUID, "NVIDIA RTX Laptop GPU")
    pci.remember("0000:02:00.0", "GPU-????????-????-????-????-????????????", "Unseen")
    assert list(bus_of(pci).driver_entries()) == [
        DriverEntry("0000:01:00.0", UUID, "NVIDIA RTX Laptop GPU")
    ]


@pytest.mark.parametrize(
    ("nvml", "sysfs"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00000001:0A:00.0", "0001:0a:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("0000:01:00.0", "0000:01:00.0"),
    ],
)
def test_bus_ids_are_spelt_alike(nvml: str, sysfs: str) -> None:
    assert normal_bus_id(nvml) == sysfs


def test_the_real_machine_can_be_read() -> None:
    bus = PciBus()
    bus.scan()
    assert all(gpu.bus_id.count(":") == 2 for gpu in bus.gpus())
