"""The port through which devices are read. One implementation per foreign thing measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jupyter_vram.model.device import DeviceSample
from jupyter_vram.model.notice import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What one reading is asked for."""

    processes: bool = True
    """Read the lists of processes anew; else the last ones are repeated (they are slow to get)."""
    watched: bool = False
    """Somebody looks: a driver that failed is tried again at least every 5 s, without back-off."""
    kernel_pids: tuple[int, ...] = ()
    """The kernels' processes, for a source that can't list its processes by itself (the host)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a source has read: its devices, and what is wrong."""

    devices: tuple[DeviceSample, ...] = ()
    notices: tuple[Notice, ...] = ()
    """Why there is no device, or what is wrong with all of them."""


class DeviceSource(Protocol):
    """Reads every device of one kind. Used by one thread at a time, never the event loop's."""

    def read(self, request: ReadRequest) -> Reading:
        """Read now. Trouble with a driver is no exception: it comes back as notices and reasons.

        Loads what it needs at the first call, never at import.
        """
        ...

    def close(self) -> None:
        """Give back what `read` opened. A later `read` opens it again."""
        ...
