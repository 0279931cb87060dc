"""What one run of a cell does to memory: read at its begin and end, sampled in between.

The allocator's own peak is never reset, since it is the user's. It tells a run's peak only if it
rose during the run; else the bytes allocated meanwhile may tell that no other peak was possible.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from jupyter_vram.model.kernel_report import AllocatorStats, CellDevice
from jupyter_vram.sources.own_process import resident_bytes
from jupyter_vram.sources.torch_allocator import AllocatedReading, read_allocated


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """This process at one moment."""

    rss_bytes: int | None
    devices: dict[int, AllocatedReading | None] | None
    """As `read_allocated` gives them."""


def read_memory() -> MemoryReading:
    """Read now, in the calling thread; takes far less than a millisecond, and never raises."""
    try:
        return MemoryReading(resident_bytes(), read_allocated())
    except Exception:  # noqa: BLE001 - it would be printed in the cell; the reporter, which reads the same, logs it
        return MemoryReading(None, None)


def code_crc32(code: object) -> int | None:
    """What tells a front end's cells apart; ``None`` if it is no text."""
    if not isinstance(code, str):
        return None
    return zlib.crc32(code.encode("utf-8", "replace"))


class CellMemory:
    """The memory of one run, from its begin on."""

    __slots__ = ("_sampled", "start")

    def __init__(self, start: MemoryReading) -> None:
        self.start = start
        self._sampled: dict[int, int] = {}

    def sample(self, devices: Iterable[AllocatorStats]) -> None:
        """Take in what was allocated at a moment between begin and end."""
        for device in devices:
            known = self._sampled.get(device.ordinal, 0)
            self._sampled[device.ordinal] = max(known, device.allocated_bytes)

    def devices(self, end: MemoryReading) -> tuple[CellDevice, ...]:
        """The devices that the run touched, by CUDA ordinal."""
        if self.start.devices is None or end.devices is None:
            return ()
        touched = []
        for ordinal, after in sorted(end.devices.items()):
            if after is None:
                continue
            before = self.start.devices.get(ordinal, _nothing(after.device_id))
            if before is not None:
                device = _device(before, after, self._sampled.get(ordinal, 0))
                touched += [device] if device is not None else []
        return tuple(touched)


def _nothing(device_id: str) -> AllocatedReading:
    """Torch had reserved no memory of that device yet."""
    return AllocatedReading(device_id=device_id, current_bytes=0, peak_bytes=0, total_bytes=0)


def _device(before: AllocatedReading, after: AllocatedReading, sampled: int) -> CellDevice | None:
    """``None`` if the run did not touch it, as far as the allocator tells."""
    seen = max(before.current_bytes, after.current_bytes, sampled)
    peak, exact = _peak(before, after, seen)
    if peak == after.current_bytes == before.current_bytes and not _allocated(before, after):
        return None
    return CellDevice(
        device_id=after.device_id,
        start_bytes=before.current_bytes,
        end_bytes=after.current_bytes,
        peak_bytes=peak,
        peak_exact=exact,
    )


def _peak(before: AllocatedReading, after: AllocatedReading, seen: int) -> tuple[int, bool]:
    """The peak of a run that was seen to hold `seen` bytes; and whether there was no higher one."""
    if before.peak_bytes is not None and after.peak_bytes is not None:
        if after.peak_bytes > before.peak_bytes:
            # Seen above it: the user has reset it meanwhile.
            return max(after.peak_bytes, seen), seen <= after.peak_bytes
        if after.peak_bytes < before.peak_bytes:
            # Reset during the run, and counted from there.
            seen = max(seen, after.peak_bytes)
    allocated = _allocated(before, after)
    # With nothing freed in between, it can't have been more.
    return seen, allocated is not None and seen >= before.current_bytes + allocated


def _allocated(before: AllocatedReading, after: AllocatedReading) -> int | None:
    """Bytes allocated during the run, freed or not; ``None`` if not counted, or reset."""
    if before.total_bytes is None or after.total_bytes is None:
        return None
    allocated = after.total_bytes - before.total_bytes
    return allocated if allocated >= 0 else None
