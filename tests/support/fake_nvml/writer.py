"""Writes the state that the stand-in answers from."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from support.fake_nvml import layout
from support.fake_nvml.build import library

MIB = 1 << 20
GIB = 1 << 30

# nvmlReturn_t
UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999

ALL_FUNCTIONS = layout.FUNCTIONS

_STATE_VARIABLE = "FAKE_NVML_STATE"
_NOT_AVAILABLE = 2**64 - 1
_KINDS = {"compute": 1, "graphics": 2, "both": 3}
_PCIE_DELAY_US = 20_000
"""The real function watches the bus for this long, on each call."""


@dataclass(frozen=True)
class FakeProcess:
    """A process on a device. `slice` is the number of the MIG slice that it runs in."""

    pid: int
    used_bytes: int | None = None
    """``None``: the driver does not tell."""
    kind: Literal["compute", "graphics", "both"] = "compute"
    slice: int | None = None


class FakeDevice:
    """A GPU or a MIG slice; assigning to an attribute changes what the next call answers."""

    def __init__(self, state: layout.DeviceState) -> None:
        object.__setattr__(self, "_state", state)

    name: str | bytes
    uuid: str
    pci_bus_id: str
    total_bytes: int
    reserved_bytes: int
    used_bytes: int
    """Without `reserved_bytes`."""
    utilization_percent: int
    memory_utilization_percent: int
    temperature_c: int
    power_mw: int
    power_limit_mw: int
    pcie_kb_per_s: int
    pcie_generation: int
    pcie_width: int
    mig_enabled: int
    addressing_mode: int
    """0: none, 1: heterogeneous memory, 2: address translation (Grace)."""
    fault: int
    """What every call on this device answers; 0: no fault."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._state, name)
        return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value

    def __setattr__(self, name: str, value: str | bytes | int) -> None:
        if name not in {field[0] for field in layout.DeviceState._fields_}:
            raise AttributeError(f"a device has no {name!r}")
        setattr(self._state, name, value.encode() if isinstance(value, str) else value)


class FakeNvml:
    """The library's state, in a file. All bytes are bytes, all pids are of this machine."""

    def __init__(
        self,
        path: str | Path,
        devices: int = 1,
        *,
        total_bytes: int = 24 * GIB,
        name: str = "NVIDIA Test 24GB",
        without: Iterable[str] = (),
    ) -> None:
        """Write the state of `devices` (0 to 16) healthy GPUs, idle, to the file `path`.

        `without`: functions that this version of the library lacks.
        """
        unknown = set(without) - set(ALL_FUNCTIONS)
        if unknown:
            raise ValueError(f"the stand-in has no {sorted(unknown)}")
        self.path = Path(path)
        self.without = tuple(without)
        size = ctypes.sizeof(layout.State)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A new file, never the old one cut short: someone may still have that one mapped.
        self.path.unlink(missing_ok=True)
        self.path.write_bytes(bytes(size))
        with self.path.open("r+b") as file:
            self._state = layout.State.from_buffer(mmap.mmap(file.fileno(), size))
        self._state.version = layout.VERSION
        self._state.size = size
        self._state.cuda_driver_version = 13000
        self._state.driver_version = b"580.65.06"
        self._state.nvml_version = b"13.580.65.06"
        for slot, device in enumerate(self._state.devices):
            device.parent = -1
            if slot < layout.MAX_GPUS:
                _fill(device, slot, name, total_bytes)
        self.restore()
        self.device_count = devices
        self._state.magic = layout.MAGIC

    def __enter__(self) -> FakeNvml:
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    # --- devices and processes ---------------------------------------------------------------

    @property
    def device_count(self) -> int:
        return int(self._state.gpu_count)

    @device_count.setter
    def device_count(self, count: int) -> None:
        if not 0 <= count <= layout.MAX_GPUS:
            raise ValueError(f"0 to {layout.MAX_GPUS} GPUs, not {count}")
        self._state.gpu_count = count

    def device(self, index: int) -> FakeDevice:
        """The GPU at NVML's `index`; those past `device_count` are there to be added."""
        return FakeDevice(self._state.devices[range(layout.MAX_GPUS)[index]])

    @property
    def devices(self) -> tuple[FakeDevice, ...]:
        return tuple(self.device(index) for index in range(self.device_count))

    def add_slice(self, index: int, total_bytes: int, name: str = "") -> FakeDevice:
        """Turn MIG on for a GPU, if it is not, and give it one more slice."""
        parent = self._state.devices[index]
        slots = range(layout.MAX_GPUS, layout.MAX_GPUS + layout.MAX_SLICES)
        slot = next(slot for slot in slots if self._state.devices[slot].parent < 0)
        device = self._state.devices[slot]
        number = len(self._slots_of(index))
        size_gb = round(total_bytes / GIB)
        device.name = (name or f"{parent.name.decode()} MIG 1g.{size_gb}gb").encode()
        device.uuid = b"MIG-%08x-0000-4000-8000-%012x" % (slot, index)
        device.total_bytes = total_bytes
        device.reserved_bytes = 0
        device.used_bytes = 0
        device.gpu_instance_id = 7 + number
        device.compute_instance_id = 0
        device.parent = index
        parent.mig_enabled = 1
        return FakeDevice(device)

    def remove_slices(self, index: int) -> None:
        """Turn MIG off for a GPU."""
        for slot in self._slots_of(index):
            self._state.devices[slot].parent = -1
        self._state.devices[index].mig_enabled = 0

    def slice(self, index: int, number: int) -> FakeDevice:
        """A GPU's slice, numbered from 0 as they were added."""
        return FakeDevice(self._state.devices[self._slots_of(index)[number]])

    def set_processes(self, index: int, processes: Iterable[FakeProcess]) -> None:
        """Let exactly these processes run on a GPU. Its `used_bytes` stay as they are."""
        device = self._state.devices[index]
        listed = list(processes)
        if len(listed) > layout.MAX_PROCESSES:
            raise ValueError(f"at most {layout.MAX_PROCESSES} processes")
        device.process_count = 0
        for entry, process in zip(device.processes, listed, strict=False):
            used = process.used_bytes
            entry.pid = process.pid
            entry.kinds = _KINDS[process.kind]
            entry.used_bytes = _NOT_AVAILABLE if used is None else used
            number = process.slice
            entry.slice = -1 if number is None else self._slots_of(index)[number]
        device.process_count = len(listed)

    def _slots_of(self, index: int) -> list[int]:
        slots = range(layout.MAX_GPUS, layout.MAX_GPUS + layout.MAX_SLICES)
        return [slot for slot in slots if self._state.devices[slot].parent == index]

    # --- faults --------------------------------------------------------------------------------

    def fail(self, function: str, code: int, device: int | None = None) -> None:
        """Let `function` answer the error `code`, on one GPU or on all; 0 ends it."""
        self._faults(device)[_slot(function)] = code

    def fail_init(self, code: int) -> None:
        """Let initialising fail, and with a driver gone, everything initialised before."""
        for function in ("nvmlInitWithFlags", "nvmlInit_v2"):
            self.fail(function, code)
        if code:
            self.break_session()

    def fail_slice(self, index: int, number: int, function: str, code: int) -> None:
        """`fail`, for a MIG slice."""
        self._state.devices[self._slots_of(index)[number]].faults[_slot(function)] = code

    def lose(self, index: int, code: int = GPU_IS_LOST) -> None:
        """Let every call on a GPU fail, until `restore`.

        A process that saw it lost must also initialise the library anew to see it again.
        """
        self._state.devices[index].fault = code

    def break_session(self) -> None:
        """Let every call answer "unknown" until the library is shut down and initialised again.

        So it is in a container whose device permissions were reloaded.
        """
        self._state.session += 1

    def hang(self, seconds: float, function: str | None = None, device: int | None = None) -> None:
        """Let `function` (or all) take so long, on one GPU or on all. `restore` ends it at once."""
        functions = ALL_FUNCTIONS if function is None else (function,)
        delays = self._delays(device)
        for name in functions:
            delays[_slot(name)] = round(seconds * 1e6)

    def restore(self) -> None:
        """End every fault and every delay; memory and processes stay as they are."""
        for owner in (self._state, *self._state.devices):
            ctypes.memset(owner.faults, 0, ctypes.sizeof(owner.faults))
            ctypes.memset(owner.delays_us, 0, ctypes.sizeof(owner.delays_us))
        for device in self._state.devices:
            device.fault = 0
        self._state.delays_us[_slot("nvmlDeviceGetPcieThroughput")] = _PCIE_DELAY_US

    def _faults(self, device: int | None) -> Any:
        return (self._state if device is None else self._state.devices[device]).faults

    def _delays(self, device: int | None) -> Any:
        return (self._state if device is None else self._state.devices[device]).delays_us

    # --- counting --------------------------------------------------------------------------------

    def calls(self, function: str | None = None) -> int:
        """How often `function` (or any) was called, by all processes together."""
        if function is None:
            return sum(self._state.calls)
        return int(self._state.calls[_slot(function)])

    # --- loading ---------------------------------------------------------------------------------

    @property
    def library(self) -> Path:
        """The shared library, built now if it is not yet."""
        return library(self.without)

    def env(self) -> dict[str, str]:
        """Variables for a new process, in which pynvml then finds the stand-in by its name."""
        folders = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders)),
            _STATE_VARIABLE: str(self.path.resolve()),
        }

    @contextlib.contextmanager
    def load_in_process(self) -> Iterator[FakeNvml]:
        """Let pynvml in this process use the stand-in; on leaving, it has loaded nothing.

        Calls that hang are let go on leaving.
        """
        import pynvml  # type: ignore[import-untyped]

        before = os.environ.get(_STATE_VARIABLE)
        os.environ[_STATE_VARIABLE] = str(self.path.resolve())
        _set_library(pynvml, ctypes.CDLL(str(self.library)))
        try:
            yield self
        finally:
            self.restore()
            with contextlib.suppress(pynvml.NVMLError):
                while True:
                    pynvml.nvmlShutdown()
            _set_library(pynvml, None)
            os.environ.pop(_STATE_VARIABLE)
            if before is not None:
                os.environ[_STATE_VARIABLE] = before


def _set_library(pynvml: Any, loaded: ctypes.CDLL | None) -> None:
    pynvml.nvmlLib = loaded
    pynvml._nvmlGetFunctionPointer_cache.clear()


def _slot(function: str) -> int:
    try:
        return ALL_FUNCTIONS.index(function)
    except ValueError:
        raise ValueError(f"the stand-in has no {function!r}") from None


def _fill(device: layout.DeviceState, index: int, name: str, total_bytes: int) -> None:
    device.name = name.encode()
    device.uuid = b"GPU-%08x-0000-4000-8000-%012x" % (index, index)
    device.pci_bus_id = b"00000000:%02X:00.0" % (index + 1)
    device.total_bytes = total_bytes
    device.reserved_bytes = 512 * MIB
    device.used_bytes = 0
    device.utilization_percent = 0
    device.memory_utilization_percent = 0
    device.temperature_c = 40 + index
    device.power_mw = 60_000
    device.power_limit_mw = 450_000
    device.pcie_kb_per_s = 1_000
    device.pcie_generation = 4
    device.pcie_width = 16
