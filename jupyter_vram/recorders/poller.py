"""Measures on a beat, in one thread, whatever the number of those who look.

The beat is the fastest that anybody who watches wishes for, and a slow one while nobody does.
Turns are counted from a fixed start, so the beat does not drift; a turn that is missed is
dropped.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future

from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import Measurement, ReportReading
from jupyter_vram.recorders.measurer import Measurer
from jupyter_vram.recorders.settings import PollerSettings
from jupyter_vram.sources.source import DeviceSource

log = logging.getLogger(__name__)

Subscriber = Callable[[Measurement], None]


def measuring_failed(error: Exception) -> Notice:
    """What is told beside old figures, where `error` kept new ones from being had."""
    message = (
        f"Measuring failed ({type(error).__name__}: {error}), so the figures shown are old:"
        " please report this with the server's log."
    )
    return Notice("measuring-failed", "error", message)


class Watch:
    """Somebody looks, and wishes for a rate. Until `close`."""

    def __init__(self, poller: Poller, interval_s: float) -> None:
        self._poller = poller
        self._interval_s = interval_s

    @property
    def interval_s(self) -> float:
        """The rate wished for, within the poller's limits."""
        return self._interval_s

    @interval_s.setter
    def interval_s(self, interval_s: float) -> None:
        self._interval_s = self._poller.settings.clamp(interval_s)
        self._poller.wake()

    def close(self) -> None:
        """Look no longer. Closing twice does nothing."""
        self._poller.forget(self)


class Poller:
    """Reads all sources, the kernels' reports and the process tree, and tells its subscribers.

    Subscribers are called in the poller's thread, one after another. All methods may be called
    from any thread.
    """

    def __init__(
        self,
        sources: Mapping[str, DeviceSource],
        *,
        sessions: Callable[[], tuple[KernelSession, ...]],
        read_report: Callable[[str], ReportReading | None],
        ancestors: Callable[[Iterable[int]], Mapping[int, tuple[int, ...]]],
        settings: PollerSettings | None = None,
    ) -> None:
        """`sources` by a name for sentences ("The NVIDIA driver"); `read_report` by its path."""
        self.settings = settings or PollerSettings()
        self._measurer = Measurer(
            sources,
            sessions=sessions,
            read_report=read_report,
            ancestors=ancestors,
            settings=self.settings,
        )
        self._changed = threading.Condition()
        self._subscribers: tuple[Subscriber, ...] = ()
        self._watches: set[Watch] = set()
        self._waiting: list[Future[Measurement]] = []
        self._thread: threading.Thread | None = None
        self._anchor = -math.inf
        self._began = -math.inf
        self._latest: Measurement | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        """Start measuring. Does nothing if it is started."""
        with self._changed:
            if self._thread is not None:
                return
            # First, for a source that is stopped does not take a request.
            self._measurer.start()
            self._thread = threading.Thread(
                target=self._run, name="jupyter-vram poller", daemon=True
            )
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Stop measuring, and close the sources; waits at most about `timeout_s` for a driver."""
        with self._changed:
            thread, self._thread = self._thread, None
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for future in waiting:
            future.cancel()
        deadline = time.monotonic() + timeout_s
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)
        self._measurer.stop()
        self._measurer.join(max(0.0, deadline - time.monotonic()))

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Have each measurement told to `subscriber`, until the function returned is called."""
        with self._changed:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._changed:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def watch(self, interval_s: float) -> Watch:
        """Wish for a measurement every `interval_s` seconds, within the limits."""
        watch = Watch(self, self.settings.clamp(interval_s))
        with self._changed:
            self._watches.add(watch)
            self._changed.notify_all()
        return watch

    def forget(self, watch: Watch) -> None:
        """What `Watch.close` does."""
        with self._changed:
            self._watches.discard(watch)
            self._changed.notify_all()

    def wake(self) -> None:
        """Reckon anew when the next turn is due."""
        with self._changed:
            self._changed.notify_all()

    def request(self) -> Future[Measurement]:
        """Measure now. Those who ask while a turn is under way all get what it brings."""
        future: Future[Measurement] = Future()
        with self._changed:
            if self._thread is None:
                future.cancel()
                return future
            self._waiting.append(future)
            self._changed.notify_all()
        return future

    @property
    def interval_s(self) -> float:
        """The rate at present."""
        with self._changed:
            return self._interval()

    def _interval(self) -> float:
        wishes = [watch.interval_s for watch in self._watches]
        return min(wishes) if wishes else self.settings.background_interval_s

    def _run(self) -> None:
        while self._wait_for_turn():
            with self._changed:
                interval_s, watched = self._interval(), bool(self._watches or self._waiting)
            try:
                measurement = self._measurer.measure(interval_s, watched=watched)
            except Exception as error:
                if self._is_news(error, "turn"):
                    log.exception("A turn of the poller failed; it goes on. Logged once.")
                measurement = self._failed(error)
            self._latest = measurement
            for subscriber in self._subscribers:
                self._tell(subscriber, measurement)
            self._answer(measurement)

    def _tell(self, subscriber: Subscriber, measurement: Measurement) -> None:
        try:
            subscriber(measurement)
        except Exception as error:
            if self._is_news(error, repr(subscriber)):
                log.exception("A subscriber of the poller failed; it goes on. Logged once.")

    def _is_news(self, error: Exception, where: str) -> bool:
        told = f"{where}: {type(error).__name__}"
        is_news = told not in self._told
        self._told.add(told)
        return is_news

    def _failed(self, error: Exception) -> Measurement:
        return dataclasses.replace(
            self._latest or Measurement(time=time.time(), interval_s=0.0, devices=()),
            time=time.time(),
            interval_s=self.interval_s,
            notices=(measuring_failed(error),),
            stale=True,
        )

    def _wait_for_turn(self) -> bool:
        """Sleep until a turn is due or asked for; ``False`` if there shall be none."""
        with self._changed:
            while self._thread is threading.current_thread():
                now = time.monotonic()
                interval = self._interval()
                due = self._anchor + interval
                if self._waiting:
                    due = min(due, self._began + self.settings.min_interval_s)
                if now < due:
                    self._changed.wait(due - now)
                    continue
                late = now - self._anchor
                on_beat = late < math.inf and not self._waiting
                self._anchor = self._anchor + late // interval * interval if on_beat else now
                self._began = now
                return True
            return False

    def _answer(self, measurement: Measurement) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_result(measurement)
