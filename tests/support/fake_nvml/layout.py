"""The state file as ctypes sees it: the mirror of ``state.h``."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

MAGIC = 0x46414B45
VERSION = 1
MAX_GPUS = 16
MAX_SLICES = 16
MAX_FUNCTIONS = 64
MAX_PROCESSES = 128

FUNCTIONS: tuple[str, ...] = tuple(
    re.findall(r"^FUNCTION\((\w+)\)$", (Path(__file__).parent / "functions.h").read_text(), re.M)
)


class ProcessState(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32),
        ("used_bytes", ctypes.c_uint64),
        ("slice", ctypes.c_int32),
        ("unused", ctypes.c_uint32),
    ]


class DeviceState(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("pci_bus_id", ctypes.c_char * 32),
        ("total_bytes", ctypes.c_uint64),
        ("reserved_bytes", ctypes.c_uint64),
        ("used_bytes", ctypes.c_uint64),
        ("utilization_percent", ctypes.c_uint32),
        ("memory_utilization_percent", ctypes.c_uint32),
        ("temperature_c", ctypes.c_uint32),
        ("power_mw", ctypes.c_uint32),
        ("power_limit_mw", ctypes.c_uint32),
        ("pcie_kb_per_s", ctypes.c_uint32),
        ("pcie_generation", ctypes.c_uint32),
        ("pcie_width", ctypes.c_uint32),
        ("mig_enabled", ctypes.c_uint32),
        ("parent", ctypes.c_int32),
        ("gpu_instance_id", ctypes.c_uint32),
        ("compute_instance_id", ctypes.c_uint32),
        ("addressing_mode", ctypes.c_uint32),
        ("fault", ctypes.c_int32),
        ("faults", ctypes.c_int32 * MAX_FUNCTIONS),
        ("delays_us", ctypes.c_uint32 * MAX_FUNCTIONS),
        ("process_count", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("processes", ProcessState * MAX_PROCESSES),
    ]


class State(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("gpu_count", ctypes.c_uint32),
        ("session", ctypes.c_uint32),
        ("cuda_driver_version", ctypes.c_uint32),
        ("driver_version", ctypes.c_char * 80),
        ("nvml_version", ctypes.c_char * 80),
        ("calls", ctypes.c_uint64 * MAX_FUNCTIONS),
        ("faults", ctypes.c_int32 * MAX_FUNCTIONS),
        ("delays_us", ctypes.c_uint32 * MAX_FUNCTIONS),
        ("devices", DeviceState * (MAX_GPUS + MAX_SLICES)),
    ]
