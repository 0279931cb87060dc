"""A `DeviceSource` that tests script: what it reads, when it hangs, when it breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from jupyter_vram.model.device import HOST_ID, Device, DeviceSample, ProcessSample
from jupyter_vram.sources.source import Reading, ReadRequest

GIB = 1 << 30
T = TypeVar("T")


def gpu(
    index: int = 0,
    used: int = 20 * GIB,
    total: int = 80 * GIB,
    processes: tuple[ProcessSample, ...] = (),
) -> DeviceSample:
    """A GPU that tells all that matters here."""
    device = Device(id=f"GPU-{index:08d}", kind="cuda", index=index, name=f"GPU {index}")
    return DeviceSample(
        device=device,
        total_bytes=total,
        used_bytes=used,
        free_bytes=total - used - GIB,
        driver_reserved_bytes=GIB,
        utilization_percent=50.0,
        temperature_c=40.0,
        power_w=100.0,
        processes=processes,
    )


def host() -> DeviceSample:
    """The machine's own memory."""
    return DeviceSample(
        device=Device(id=HOST_ID, kind="host", index=None, name="Host memory"),
        total_bytes=32 * GIB,
        used_bytes=8 * GIB,
        free_bytes=24 * GIB,
        processes=(),
    )


class ScriptedSource:
    """Set `reading` or `error` at any time; `hang` makes calls wait until `let_go`."""

    def __init__(self, *devices: DeviceSample) -> None:
        self.reading = Reading(devices=devices)
        self.error: Exception | None = None
        self.requests: list[ReadRequest] = []
        self.threads: set[int] = set()
        self.closed = 0
        self._may_return = threading.Event()
        self._may_return.set()

    def read(self, request: ReadRequest) -> Reading:
        self.requests.append(request)
        self.threads.add(threading.get_ident())
        self._may_return.wait()
        if self.error is not None:
            raise self.error
        return self.reading

    def close(self) -> None:
        self.closed += 1

    def hang(self) -> None:
        self._may_return.clear()

    def let_go(self) -> None:
        self._may_return.set()


def eventually(condition: Callable[[], T | Literal[False] | None], timeout_s: float = 20.0) -> T:
    """What `condition` returns once that is true; fails if it never is."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened within {timeout_s} s")
        time.sleep(0.01)
