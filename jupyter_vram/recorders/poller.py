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
from dataclasses import dataclass
from typing import Literal

from jupyter_vram.model.device import DeviceSample
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import Measurement, ReportReading
from jupyter_vram.recorders.source_thread import Answer, SourceThread
from jupyter_vram.sources.source import DeviceSource, ReadRequest

log = logging.getLogger(__name__)

ShowHost = Literal["auto", "always", "never"]
Subscriber = Callable[[Measurement], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSettings:
    """Rates, all in seconds, and what to show."""

    min_interval_s: float = 0.1
    max_interval_s: float = 3600.0
    background_interval_s: float = 10.0
    """While nobody watches: only so that the history has no gap."""
    process_interval_s: float = 2.0
    """Lists of processes are slow to get: they are not read more often than this."""
    patience_s: float = 0.8
    """So long a turn waits for a driver; then it goes on with what was last known."""
    show_host: ShowHost = "auto"
    """``auto``: the host's memory is a device only where there is no other."""

    def clamp(self, interval_s: float) -> float:
        """`interval_s` within what this server allows; what is no number is the slowest."""
        if math.isnan(interval_s):
            return self.max_interval_s
        return min(self.max_interval_s, max(self.min_interval_s, interval_s))


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
        self._sources = [SourceThread(name, source) for name, source in sources.items()]
        self._sessions = sessions
        self._read_report = read_report
        self._find_ancestors = ancestors
        self._changed = threading.Condition()
        self._subscribers: tuple[Subscriber, ...] = ()
        self._watches: set[Watch] = set()
        self._waiting: list[Future[Measurement]] = []
        self._thread: threading.Thread | None = None
        self._anchor = -math.inf
        self._began = -math.inf
        self._processes_read = -math.inf
        self._ancestors: Mapping[int, tuple[int, ...]] = {}
        self._family: frozenset[int] = frozenset()
        self._latest: Measurement | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        """Start measuring. Does nothing if it is started."""
        with self._changed:
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=self._run, name="jupyter-vram poller", daemon=True
            )
            self._thread.start()
        for source in self._sources:
            source.start()

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
        for source in self._sources:
            source.stop()
        for source in self._sources:
            source.join(max(0.0, deadline - time.monotonic()))

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
            try:
                measurement = self._measure()
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
        message = (
            f"Measuring failed ({type(error).__name__}: {error}), so the figures shown are old:"
            " please report this with the server's log."
        )
        return dataclasses.replace(
            self._latest or Measurement(time=time.time(), interval_s=0.0, devices=()),
            time=time.time(),
            interval_s=self.interval_s,
            notices=(Notice("measuring-failed", "error", message),),
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

    def _measure(self) -> Measurement:
        began = self._began
        with self._changed:
            interval = self._interval()
            watched = bool(self._watches or self._waiting)
        # Some slack, or a list due now by the beat would wait for another turn.
        slack = min(0.1, interval / 2)
        with_processes = began - self._processes_read >= self.settings.process_interval_s - slack
        if with_processes:
            self._processes_read = began
        sessions = self._sessions()
        request = ReadRequest(
            processes=with_processes,
            watched=watched,
            kernel_pids=tuple(s.pid for s in sessions if s.pid is not None),
        )
        answers = self._ask(request, began + self.settings.patience_s)
        devices = _shown(
            [sample for answer in answers for sample in _samples(answer)], self.settings.show_host
        )
        reports = self._reports(sessions)
        return Measurement(
            time=time.time(),
            interval_s=interval,
            devices=devices,
            reports=reports,
            ancestors=self._family_tree(devices, reports, with_processes),
            # What the host has to say is about being shown in place of a GPU.
            notices=self._notices(answers, {s.device.kind for s in devices} == {"host"}),
            stale=any(answer.late_s is not None for answer in answers),
        )

    def _ask(self, request: ReadRequest, deadline: float) -> list[Answer]:
        was_late = [source.is_late for source in self._sources]
        for source in self._sources:
            source.ask(request)
        # A driver that hung in the turn before is not waited for again.
        return [
            source.collect(0.0 if late else deadline)
            for source, late in zip(self._sources, was_late, strict=True)
        ]

    def _reports(self, sessions: Iterable[KernelSession]) -> dict[str, ReportReading]:
        reports = {}
        for session in sessions:
            reading = self._read_report(session.report_path) if session.report_path else None
            if reading is not None:
                reports[session.kernel_id] = reading
        return reports

    def _family_tree(
        self,
        devices: Iterable[DeviceSample],
        reports: Mapping[str, ReportReading],
        anew: bool,
    ) -> Mapping[int, tuple[int, ...]]:
        pids = {process.pid for sample in devices for process in sample.processes or ()}
        pids |= {reading.report.pid for reading in reports.values() if reading.report}
        if anew or pids != self._family:
            self._family = frozenset(pids)
            self._ancestors = dict(self._find_ancestors(sorted(pids)))
        return self._ancestors

    def _notices(self, answers: Iterable[Answer], host_shown: bool) -> tuple[Notice, ...]:
        notices = []
        for source, answer in zip(self._sources, answers, strict=True):
            if answer.late_s is not None:
                message = (
                    f"{source.name} has not answered for {answer.late_s:.0f} s: the figures"
                    " shown are its last ones, and go on as soon as it answers."
                )
                notices.append(Notice("driver-hung", "warning", message))
            if host_shown or not _is_host(answer):
                notices.extend(answer.reading.notices)
        return tuple(notices)


def _is_host(answer: Answer) -> bool:
    devices = answer.reading.devices
    return bool(devices) and all(sample.device.kind == "host" for sample in devices)


def _samples(answer: Answer) -> tuple[DeviceSample, ...]:
    if answer.late_s is None:
        return answer.reading.devices
    return tuple(dataclasses.replace(sample, stale=True) for sample in answer.reading.devices)


def _shown(samples: Iterable[DeviceSample], show_host: ShowHost) -> tuple[DeviceSample, ...]:
    samples = tuple(samples)
    gpus = tuple(sample for sample in samples if sample.device.kind != "host")
    if show_host == "never" or (show_host == "auto" and gpus):
        return gpus
    return gpus + tuple(sample for sample in samples if sample.device.kind == "host")
