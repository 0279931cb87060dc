"""How NVML is asked: one calling convention over pynvml's functions, whatever their version.

The module object comes from `jupyter_vram.sources.nvml`, which alone imports it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jupyter_vram.sources.nvml_errors import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_SUPPORTED,
    NvmlRefusal,
)

_MEMORY_V2 = 0x02000028
_CHIP = 0  # of nvmlTemperatureSensors_t
_NO_V2 = frozenset({FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, INVALID_ARGUMENT, NOT_SUPPORTED})


class Memory(NamedTuple):
    """A device's memory in bytes; `reserved_bytes` is ``None`` where the driver is too old."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None


class NvmlLibrary:
    """An initialised NVML. Every method raises `NvmlRefusal` where NVML answers an error."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml
        self._error: type[Exception] = pynvml.NVMLError
        # Not an NVMLError; and older releases of the binding don't have it.
        self._mismatch: tuple[type[Exception], ...] = tuple(
            filter(None, [getattr(pynvml, "NVMLLibraryMismatchError", None)])
        )
        self._absent: set[str] = set()

    def ask(self, function: str, *arguments: Any, symbol: str | None = None) -> Any:
        """Call a function. One that is absent is not looked for again.

        `symbol` tells apart functions of the library that pynvml has behind one name.
        """
        symbol = symbol or function
        call = None if symbol in self._absent else getattr(self._pynvml, function, None)
        if call is None:
            self._absent.add(symbol)
            raise NvmlRefusal(FUNCTION_NOT_FOUND, "Function Not Found")
        try:
            return call(*arguments)
        except self._error as error:
            code = int(getattr(error, "value", 0))
            if code == FUNCTION_NOT_FOUND:
                self._absent.add(symbol)
            raise NvmlRefusal(code, str(error)) from error
        except self._mismatch as error:
            self._absent.add(symbol)
            raise NvmlRefusal(FUNCTION_NOT_FOUND, str(error)) from error

    def ask_text(self, function: str, *arguments: Any) -> str:
        """`ask` for a name. Bytes that are no UTF-8 (seen in WSL) are replaced, not refused."""
        try:
            answer = self.ask(function, *arguments)
        except UnicodeDecodeError as error:
            answer = error.object
        if isinstance(answer, bytes):
            answer = answer.decode(errors="replace")
        return str(answer).strip()

    def memory(self, handle: Any) -> Memory:
        """Memory as version 2 tells it, whose `used` leaves out what the driver reserves.

        Version 1, the only one of older drivers, counts that as used.
        """
        name = "nvmlDeviceGetMemoryInfo"
        try:
            info = self.ask(name, handle, _MEMORY_V2, symbol=f"{name}_v2")
        except NvmlRefusal as refusal:
            if refusal.code not in _NO_V2:
                raise
        except TypeError:  # a binding from before version 2
            self._absent.add(f"{name}_v2")
        else:
            return Memory(info.total, info.used, info.free, info.reserved)
        info = self.ask(name, handle)
        return Memory(info.total, info.used, info.free, None)

    def temperature(self, handle: Any) -> int:
        """Of the chip, in degrees Celsius, by the function that this library has."""
        try:
            return int(self.ask("nvmlDeviceGetTemperature", handle, _CHIP))
        except NvmlRefusal as refusal:
            if refusal.code != FUNCTION_NOT_FOUND:
                raise
            return int(self.ask("nvmlDeviceGetTemperatureV", handle, _CHIP))

    def utilization(self, handle: Any) -> int:
        """Percent of the time, lately, in which a kernel ran."""
        return int(self.ask("nvmlDeviceGetUtilizationRates", handle).gpu)

    def power(self, handle: Any) -> float:
        """Drawn now, in watts."""
        return float(self.ask("nvmlDeviceGetPowerUsage", handle)) / 1000

    def processes(self, kind: str, handle: Any) -> list[tuple[int, int | None]]:
        """The pids of `kind` ("Compute" or "Graphics") on a device, and their device bytes."""
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        try:
            listed = self._list(f"{name}_v3", handle)
        except NvmlRefusal as refusal:
            if refusal.code != FUNCTION_NOT_FOUND:
                raise
            listed = self._list(f"{name}_v2", handle)
        return [(int(process.pid), process.usedGpuMemory) for process in listed]

    def _list(self, function: str, handle: Any, attempts: int = 3) -> list[Any]:
        try:
            return list(self.ask(function, handle))
        except NvmlRefusal as refusal:
            # pynvml asks for the number first, and is refused if many processes came since.
            if refusal.code != INSUFFICIENT_SIZE or attempts == 1:
                raise
        return self._list(function, handle, attempts - 1)
