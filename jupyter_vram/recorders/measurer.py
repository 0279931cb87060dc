"""Reads everything once: the devices, the kernels' reports, the process tree."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping

from jupyter_vram.model.device import DeviceSample
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import Measurement, ReportReading
from jupyter_vram.recorders.settings import PollerSettings, ShowHost
from jupyter_vram.recorders.source_thread import Answer, SourceThread
from jupyter_vram.sources.source import DeviceSource, ReadRequest

SLACK_S = 0.1
"""A list of processes that is due so soon is read now: else it would wait for another turn."""


class Measurer:
    """Asks all sources at once, and waits for none longer than it is patient.

    `measure` is for one thread at a time. `start`, `stop` and `join` are idempotent.
    """

    def __init__(
        self,
        sources: Mapping[str, DeviceSource],
        *,
        sessions: Callable[[], tuple[KernelSession, ...]],
        read_report: Callable[[str], ReportReading | None],
        ancestors: Callable[[Iterable[int]], Mapping[int, tuple[int, ...]]],
        settings: PollerSettings,
    ) -> None:
        """As for `jupyter_vram.recorders.poller.Poller`."""
        self._sources = [SourceThread(name, source) for name, source in sources.items()]
        self._sessions = sessions
        self._read_report = read_report
        self._find_ancestors = ancestors
        self._settings = settings
        self._processes_read = -math.inf
        self._ancestors: Mapping[int, tuple[int, ...]] = {}
        self._family: frozenset[int] = frozenset()
        self._list_awaited = False
        self._listed_reports: Mapping[str, ReportReading] | None = None

    def start(self) -> None:
        """Make the sources ready to be asked."""
        for source in self._sources:
            source.start()

    def stop(self) -> None:
        """Have the sources closed, as soon as their drivers let them. Does not wait."""
        for source in self._sources:
            source.stop()

    def join(self, timeout_s: float) -> None:
        """Wait until the sources are closed, but not for a driver that hangs."""
        deadline = time.monotonic() + timeout_s
        for source in self._sources:
            source.join(max(0.0, deadline - time.monotonic()))

    def measure(self, interval_s: float, *, watched: bool) -> Measurement:
        """Read all. `interval_s` is the rate at present; `watched`: somebody looks."""
        began = time.monotonic()
        is_first = self._processes_read == -math.inf
        due = self._processes_read + self._settings.process_interval_s
        with_processes = began >= due - min(SLACK_S, interval_s / 2)
        if with_processes:
            self._processes_read = began
        sessions = self._sessions()
        request = ReadRequest(
            processes=with_processes,
            watched=watched,
            kernel_pids=tuple(s.pid for s in sessions if s.pid is not None),
        )
        patience_s = self._settings.patience_s
        if is_first:
            patience_s = max(patience_s, self._settings.first_patience_s)
        answers = self._ask(request, began + patience_s)
        devices = _shown(
            [sample for answer in answers for sample in _samples(answer)], self._settings.show_host
        )
        reports = self._reports(sessions)
        is_late = any(answer.late_s is not None for answer in answers)
        self._list_awaited |= with_processes
        if self._list_awaited and not is_late:
            self._list_awaited = False
            self._listed_reports = reports
        return Measurement(
            time=time.time(),
            interval_s=interval_s,
            devices=devices,
            reports=reports,
            listed_reports=self._listed_reports,
            ancestors=self._family_tree(devices, reports, with_processes),
            # What the host has to say is about being shown in place of a GPU.
            notices=self._notices(answers, {s.device.kind for s in devices} == {"host"}),
            stale=is_late,
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
                    f"{source.name} has not answered for {_how_long(answer.late_s)}: the figures"
                    " shown are its last ones, and go on as soon as it answers."
                )
                notices.append(Notice("driver-hung", "warning", message))
            if host_shown or not _is_host(answer):
                notices.extend(answer.reading.notices)
        return tuple(notices)


def _how_long(seconds: float) -> str:
    # Coarse: a screen reader reads the sentence out each time that it changes.
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes else "some seconds"


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
