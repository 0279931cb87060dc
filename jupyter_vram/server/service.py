"""From the poller to the clients: measurement → ownership → history → tick → hub."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from jupyter_vram.analysis.ownership import assemble
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import Measurement, ReportReading, Snapshot
from jupyter_vram.model.wire import Json, Tick, TickBuilder, snapshot_message, snapshot_object
from jupyter_vram.recorders.history import History
from jupyter_vram.recorders.poller import Poller, measuring_failed
from jupyter_vram.recorders.settings import PollerSettings
from jupyter_vram.server.hub import Hub, encode
from jupyter_vram.server.sessions import KernelSessions
from jupyter_vram.sources.source import DeviceSource

log = logging.getLogger(__name__)

SESSIONS_S = 2.0
"""The list of kernels is looked up at most this often, and while somebody watches, at least."""
ANSWER_WITHIN_S = 0.9
"""No request waits longer for a driver: it gets what there is, marked stale."""
STARTING = {
    "code": "starting",
    "severity": "info",
    "message": "The first measurement is under way: ask again in a moment.",
}


class VramService:
    """Owns the poller, the history and the streams of one server.

    `start`, `stop` and all that is async belong to the event loop.
    """

    def __init__(
        self,
        *,
        sessions: KernelSessions,
        sources: Mapping[str, DeviceSource],
        read_report: Callable[[str], ReportReading | None],
        ancestors: Callable[[Iterable[int]], Mapping[int, tuple[int, ...]]],
        settings: PollerSettings,
        interval_s: float,
    ) -> None:
        """`interval_s`: the rate of a client that asks for none, and how fresh a snapshot is."""
        self.sessions = sessions
        self.interval_s = settings.clamp(interval_s)
        self.hub = Hub()
        self.history = History()
        self.poller = Poller(
            sources,
            sessions=self._sessions_of_turn,
            read_report=read_report,
            ancestors=ancestors,
            settings=settings,
        )
        self.snapshot: Snapshot | None = None
        """The latest; replaced as a whole by the poller's thread."""
        self._turn_sessions: tuple[KernelSession, ...] = ()
        self._builder = TickBuilder()
        self._tick: Tick | None = None
        self._first_tick = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Start measuring. Does nothing if it is started."""
        if self._upkeep is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self.poller.subscribe(self._on_measurement)
        self._upkeep = asyncio.ensure_future(self._keep_sessions())

    async def stop(self) -> None:
        """Stop measuring. Does not wait for a driver that hangs."""
        if self._upkeep is None or self._unsubscribe is None:
            return
        self._upkeep.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._upkeep
        self._unsubscribe()
        self._upkeep = self._unsubscribe = None
        await asyncio.get_running_loop().run_in_executor(None, self.poller.stop)

    async def _keep_sessions(self) -> None:
        # The poller starts after the first look, so that its first turn knows the kernels.
        await self.sessions.refresh()
        self.poller.start()
        while True:
            await asyncio.sleep(max(SESSIONS_S, min(self.poller.interval_s, 30.0)))
            if self.sessions.age_s >= SESSIONS_S:
                await self.sessions.refresh()

    def _sessions_of_turn(self) -> tuple[KernelSession, ...]:
        self._turn_sessions = self.sessions.current()
        return self._turn_sessions

    def _on_measurement(self, measurement: Measurement) -> None:
        try:
            snapshot = assemble(measurement, self._turn_sessions)
            self.history.append(snapshot)
        except Exception as error:
            self._show(self._failed(error, measurement))
            raise  # to the poller, which logs it once
        self._show(snapshot)

    def _failed(self, error: Exception, measurement: Measurement) -> Snapshot:
        before = self.snapshot or Snapshot(time=measurement.time, interval_s=measurement.interval_s)
        return dataclasses.replace(
            before,
            time=measurement.time,
            interval_s=measurement.interval_s,
            notices=(measuring_failed(error),),
            stale=True,
        )

    def _show(self, snapshot: Snapshot) -> None:
        tick = self._builder.build(snapshot)
        self.snapshot = snapshot
        self._tick = tick
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._publish, tick)

    def _publish(self, tick: Tick) -> None:
        self._first_tick.set()
        self.hub.publish(tick)

    async def first_tick(self) -> Tick:
        """The latest tick, once there is one."""
        await self._first_tick.wait()
        assert self._tick is not None
        return self._tick

    async def snapshot_now(self) -> Json:
        """What ``GET snapshot`` answers: measured anew if older than the rate, within a second."""
        tick = self._tick
        if tick is not None and self._is_fresh(tick):
            return tick.snapshot
        began = time.monotonic()
        if self.sessions.age_s >= SESSIONS_S:
            await asyncio.wait((self.sessions.refresh(),), timeout=ANSWER_WITHIN_S / 3)
        measured = asyncio.wrap_future(self.poller.request())
        left = ANSWER_WITHIN_S - (time.monotonic() - began)
        await asyncio.wait((measured,), timeout=left)
        in_time = measured.done() and not measured.cancelled()
        if not measured.done():
            measured.cancel()
        tick = self._tick
        if tick is None:
            empty = snapshot_object(Snapshot(time=time.time(), interval_s=self.interval_s))
            return {**empty, "stale": True, "notices": [STARTING]}
        # If making sense of it failed (the log says why), the figures are still the ones before.
        anew = in_time and tick.snapshot["time"] >= measured.result().time
        return tick.snapshot if anew else {**tick.snapshot, "stale": True}

    def _is_fresh(self, tick: Tick) -> bool:
        limit = min(self.interval_s, tick.snapshot["interval_s"])
        age_s = time.time() - tick.snapshot["time"]
        return not tick.snapshot["stale"] and 0 <= age_s <= limit

    async def history_of(self, device_id: str, seconds: float, max_points: int) -> str:
        """What ``GET history`` answers, encoded off the event loop.

        Raises:
            HistoryError: nothing is known of such a device.
        """
        return await _aside(lambda: encode(self.history.history(device_id, seconds, max_points)))

    async def first_message(self, tick: Tick, seconds: float, max_points: int) -> str:
        """A stream's first message, encoded off the event loop."""
        return await _aside(
            lambda: encode(
                snapshot_message(tick.snapshot, self.history.histories(seconds, max_points))
            )
        )


async def _aside(work: Callable[[], str]) -> str:
    return await asyncio.get_running_loop().run_in_executor(None, work)
