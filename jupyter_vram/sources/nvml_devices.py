"""All devices of a session of NVML, in turns: found, read, lost and found again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from jupyter_vram.model.device import Device, DeviceSample
from jupyter_vram.model.notice import Notice
from jupyter_vram.sources import nvml_notices as notices
from jupyter_vram.sources.nvml_device import FIELDS, NvmlDevice
from jupyter_vram.sources.nvml_errors import NOT_TOLD, SESSION_BROKEN, NvmlRefusal, down_reason
from jupyter_vram.sources.nvml_finder import DeviceFinder, DownDevice
from jupyter_vram.sources.nvml_session import NvmlSession
from jupyter_vram.sources.pci import normal_bus_id
from jupyter_vram.sources.retry import Retry
from jupyter_vram.sources.source import Reading, ReadRequest

ENUMERATE_S = 30.0
"""How often devices are counted anew, and what changes rarely is read."""

_log = logging.getLogger(__name__)


class NvmlDevices:
    """Remembers what each device is, also while nothing can be read."""

    def __init__(self, clock: Callable[[], float], *, wsl: bool) -> None:
        self._clock = clock
        self._finder = DeviceFinder(clock, wsl=wsl)
        self._recovery = Retry(clock)
        self._entries: list[NvmlDevice | DownDevice] = []
        self._enumerated_at: float | None = None
        self._totals: dict[str, int | None] = {}
        self._logged: set[tuple[str, str, int]] = set()

    @property
    def any_known(self) -> bool:
        """Was any device ever seen?"""
        return bool(self._finder.known)

    @property
    def all_idle(self) -> bool:
        """No process was listed on any device last time."""
        return all(isinstance(entry, NvmlDevice) and entry.is_idle for entry in self._entries)

    def adopt(self, device: Device) -> None:
        """Remember a device that was learnt of without NVML."""
        self._finder.adopt(device)

    def forget_handles(self) -> None:
        """The session ended: devices must be found again before they are read."""
        self._entries = []
        self._enumerated_at = None

    def read(
        self, session: NvmlSession, request: ReadRequest, asleep: Collection[str] = ()
    ) -> Reading:
        """One sample per device. Those on the PCI addresses `asleep` are not touched.

        Raises:
            NvmlRefusal: no device answers: the session is broken.
            NvmlUnavailableError: a lost GPU called for a new session, and that could not be had.
        """
        self._find_if_due(session, request, asleep)
        samples: list[DeviceSample] = []
        refusals: list[NvmlRefusal | None] = []
        for position, entry in enumerate(self._entries):
            device = entry.device
            if asleep and normal_bus_id(device.pci_bus_id or "") in asleep:
                samples.append(self.blank(device, notices.ASLEEP_REASON))
                continue
            sample, refusal = self._turn(entry, request)
            samples.append(sample)
            refusals.append(refusal)
            if refusal is not None:
                self._entries[position] = DownDevice(device, refusal)
        broken = [refusal for refusal in refusals if refusal and refusal.code in SESSION_BROKEN]
        if broken and None not in refusals:
            raise broken[0]
        for entry in self._entries:
            if isinstance(entry, DownDevice):
                self._log_once(entry.device, "", entry.refusal, down_reason(entry.refusal))
        return Reading(devices=tuple(samples), notices=self._notices(asleep=bool(asleep)))

    def blanks(self, why: str) -> tuple[DeviceSample, ...]:
        """A sample of every known device, where none can be read."""
        return tuple(self.blank(device, why) for device in self._finder.known.values())

    def blank(self, device: Device, why: str) -> DeviceSample:
        """A device of which only what it is can be told."""
        total = self._totals.get(device.id)
        unknown = [field for field in FIELDS if field != "total_bytes" or total is None]
        return DeviceSample(
            device=device, total_bytes=total, stale=True, reasons=dict.fromkeys(unknown, why)
        )

    def _find_if_due(
        self, session: NvmlSession, request: ReadRequest, asleep: Collection[str]
    ) -> None:
        now = self._clock()
        if self._any_missing() and self._recovery.due(watched=request.watched):
            # A handle from before a loss stays lost, and a session may see only the GPUs that were
            # there when it began.
            session.reopen()
        elif self._enumerated_at is not None and (
            asleep or now - self._enumerated_at < ENUMERATE_S
        ):
            return
        self._entries = self._finder.find(session.library(watched=request.watched))
        self._enumerated_at = now
        if self._any_missing():
            self._recovery.failed(self._clock() - now)
        else:
            self._recovery.succeeded()

    def _any_missing(self) -> bool:
        if not self._entries:
            return self._enumerated_at is not None
        return any(isinstance(entry, DownDevice) for entry in self._entries)

    def _turn(
        self, entry: NvmlDevice | DownDevice, request: ReadRequest
    ) -> tuple[DeviceSample, NvmlRefusal | None]:
        """One device's sample; and the refusal, if it is down."""
        if isinstance(entry, DownDevice):
            return self._down(entry.device, entry.refusal)
        try:
            sample = entry.read(processes=request.processes)
        except NvmlRefusal as refusal:
            return self._down(entry.device, refusal)
        silence = entry.silence()
        if silence is not None:
            return self._down(entry.device, silence)
        for field, why in entry.refusals.items():
            self._log_once(entry.device, field, why, sample.reasons.get(field, why.text))
        self._totals[sample.device.id] = sample.total_bytes
        self._finder.adopt(sample.device)
        return sample, None

    def _down(self, device: Device, refusal: NvmlRefusal) -> tuple[DeviceSample, NvmlRefusal]:
        return self.blank(device, down_reason(refusal)), refusal

    def _notices(self, *, asleep: bool) -> tuple[Notice, ...]:
        found: list[Notice] = []
        if not self._entries:
            found.append(notices.NO_DEVICE)
        if asleep:
            found.append(notices.ASLEEP)
        untold = False
        for entry in self._entries:
            if isinstance(entry, DownDevice):
                found.append(notices.down(entry.device, entry.refusal))
                continue
            untold |= entry.process_bytes_unsupported
            if entry.device.unified_memory:
                found.append(notices.unified_memory(entry.device))
        if untold:
            found.append(notices.NO_PROCESS_BYTES)
        return tuple(found)

    def _log_once(self, device: Device, field: str, refusal: NvmlRefusal, reason: str) -> None:
        key = (device.id, field, refusal.code)
        if key not in self._logged:
            self._logged.add(key)
            level = logging.DEBUG if refusal.code in NOT_TOLD else logging.WARNING
            _log.log(level, "%s: %s", notices.label(device), reason)
