"""The GPUs, as NVIDIA's management library (NVML) tells them. The only importer of pynvml."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable, Collection
from typing import Any

from jupyter_vram.errors import NvmlUnavailableError
from jupyter_vram.model.device import Device
from jupyter_vram.sources import nvml_notices as notices
from jupyter_vram.sources.nvml_devices import ENUMERATE_S, NvmlDevices
from jupyter_vram.sources.nvml_errors import UNINITIALIZED, NvmlRefusal
from jupyter_vram.sources.nvml_session import NvmlSession
from jupyter_vram.sources.pci import PciBus, PciGpu
from jupyter_vram.sources.source import Reading, ReadRequest

REST_S = 15.0
"""How long NVML is left alone so that an unused laptop GPU falls asleep (that takes about 10 s)."""


class NvmlSource:
    """Every GPU and MIG slice that NVML lists, and those that it listed and now does not.

    One thread uses it. NVML is initialised by the first `read`, and anew where nothing answers any
    more (a container's device permissions were reloaded) or a GPU was lost.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        bus: PciBus | None = None,
        wsl: bool | None = None,
    ) -> None:
        """`wsl`: inside the Windows Subsystem for Linux; found out if not given."""
        self._clock = clock
        self._bus = bus or PciBus()
        self._session = NvmlSession(_pynvml, clock)
        self._devices = NvmlDevices(clock, wsl=_in_wsl() if wsl is None else wsl)
        self._scanned_at: float | None = None
        self._rest_until: float | None = None
        self._last = Reading()

    def read(self, request: ReadRequest) -> Reading:
        """Every device now. Trouble comes back as reasons and notices, never as an exception."""
        gpus = self._gpus_on_the_bus()
        if gpus and all(gpu.asleep for gpu in gpus):
            return self._all_asleep()
        if self._rests(request):
            return self._last
        try:
            self._last = self._read_awake(request, {gpu.bus_id for gpu in gpus if gpu.asleep})
        except NvmlUnavailableError as failure:
            return self._unavailable(failure)
        if not request.watched and gpus and all(gpu.may_sleep for gpu in gpus):
            self._rest_if_idle()
        return self._last

    def close(self) -> None:
        """Shut NVML down; the next `read` initialises it again."""
        self._let_go()
        self._rest_until = None

    def _let_go(self) -> None:
        self._session.shut_down()
        self._devices.forget_handles()

    # --- awake -----------------------------------------------------------------------------------

    def _read_awake(self, request: ReadRequest, asleep: Collection[str]) -> Reading:
        was_open = self._session.is_open
        self._session.library(watched=request.watched)
        try:
            reading = self._devices.read(self._session, request, asleep)
        except NvmlRefusal as refusal:
            # Only somebody else in this process can have shut down what was just initialised.
            if not was_open and refusal.code != UNINITIALIZED:
                raise self._session.broke(refusal) from refusal
            reading = self._read_anew(request, asleep)
        self._session.works()
        return reading

    def _read_anew(self, request: ReadRequest, asleep: Collection[str]) -> Reading:
        """Nothing answers any more: initialising NVML again often heals that at once."""
        self._let_go()
        self._session.reopen()
        try:
            return self._devices.read(self._session, request, asleep)
        except NvmlRefusal as refusal:
            raise self._session.broke(refusal) from refusal

    def _unavailable(self, failure: NvmlUnavailableError) -> Reading:
        self._let_go()
        notice = notices.unavailable(failure, devices_known=self._devices.any_known)
        return Reading(devices=self._devices.blanks(str(failure)), notices=(notice,))

    # --- asleep, or let sleep --------------------------------------------------------------------

    def _gpus_on_the_bus(self) -> tuple[PciGpu, ...]:
        now = self._clock()
        if self._scanned_at is None or now - self._scanned_at >= ENUMERATE_S:
            self._bus.scan()
            self._scanned_at = now
        return self._bus.gpus()

    def _all_asleep(self) -> Reading:
        self.close()
        if not self._devices.any_known:
            for index, entry in enumerate(self._bus.driver_entries()):
                device = Device(
                    id=entry.uuid,
                    kind="cuda",
                    index=index,
                    name=entry.name,
                    pci_bus_id=entry.bus_id,
                )
                self._devices.adopt(device)
        blanks = self._devices.blanks(notices.ASLEEP_REASON)
        return Reading(devices=blanks, notices=(notices.ASLEEP,))

    def _rest_if_idle(self) -> None:
        """An open NVML keeps a GPU awake: let go of it for a while if nothing runs there."""
        if self._devices.all_idle:
            self._let_go()
            self._rest_until = self._clock() + REST_S

    def _rests(self, request: ReadRequest) -> bool:
        if self._rest_until is None:
            return False
        if request.watched or self._clock() >= self._rest_until:
            self._rest_until = None
            return False
        samples = (dataclasses.replace(sample, stale=True) for sample in self._last.devices)
        self._last = dataclasses.replace(self._last, devices=tuple(samples))
        return True


def _in_wsl() -> bool:
    return "microsoft" in platform.release().lower()


def _pynvml() -> Any:
    """The binding.

    Raises:
        NvmlUnavailableError: it is not installed, or another package took its name.
    """
    try:
        import pynvml  # type: ignore[import-untyped]
    except (ImportError, SyntaxError):
        raise NvmlUnavailableError(*notices.BINDING_MISSING) from None
    needed = ("NVMLError", "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount")
    if not all(hasattr(pynvml, name) for name in needed):
        raise NvmlUnavailableError(*notices.BINDING_FOREIGN)
    return pynvml
