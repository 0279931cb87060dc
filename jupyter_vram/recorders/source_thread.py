"""One source, read in a thread of its own, so that a driver call that hangs delays nobody else."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from jupyter_vram.model.notice import Notice
from jupyter_vram.sources.source import DeviceSource, Reading, ReadRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a source has told last."""

    reading: Reading
    late_s: float | None
    """Seconds for which a call has not returned: `reading` is older. ``None``: it is new."""


class SourceThread:
    """Asks one `DeviceSource`, and waits no longer than it is told for the answer.

    `ask` and `collect` are for one caller at a time; `start` and `stop` are idempotent.
    """

    def __init__(self, name: str, source: DeviceSource) -> None:
        self.name = name
        """For sentences: "The NVIDIA driver"."""
        self._source = source
        self._changed = threading.Condition()
        self._request: ReadRequest | None = None
        self._asked_at = 0.0
        self._reading = Reading()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._last_failure: str | None = None

    def start(self) -> None:
        """Start the thread. One that hangs since before a `stop` is gone on with."""
        with self._changed:
            self._stopping = False
            if self._thread is None:
                self._launch(None)

    def _launch(self, previous: threading.Thread | None) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(previous,), name=f"jupyter-vram: {self.name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Have the source closed and the thread ended, once its driver lets it. Does not wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> None:
        """Wait for the end after `stop`, but leave a thread behind that hangs in its driver."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def ask(self, request: ReadRequest) -> None:
        """Have the source read, unless it still does so since an earlier `ask`, or is stopped."""
        with self._changed:
            if self._request is None and not self._stopping:
                self._request = request
                self._asked_at = time.monotonic()
                self._changed.notify_all()

    @property
    def is_late(self) -> bool:
        """An earlier `ask` is not answered yet."""
        with self._changed:
            return self._request is not None

    def collect(self, deadline: float) -> Answer:
        """The answer to `ask`, or the one before it if there is none at `deadline` (monotonic)."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._request is None, max(0.0, deadline - time.monotonic())
            )
            late_s = None if self._request is None else time.monotonic() - self._asked_at
            return Answer(self._reading, late_s)

    def _run(self, previous: threading.Thread | None) -> None:
        if previous is not None:
            previous.join()  # a source is for one thread at a time
        while (request := self._next()) is not None:
            reading = self._read(request)
            with self._changed:
                self._reading = reading
                self._request = None
                self._changed.notify_all()
        try:
            self._source.close()
        except Exception:
            log.exception("%s could not be closed.", self.name)
        with self._changed:
            self._thread = None
            if not self._stopping:  # started again while it was being closed
                self._launch(threading.current_thread())

    def _next(self) -> ReadRequest | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._request is not None)
            if self._stopping:
                # Left behind, it would count as a call that hangs since, after another start.
                self._request = None
                self._changed.notify_all()
            return self._request

    def _read(self, request: ReadRequest) -> Reading:
        try:
            reading = self._source.read(request)
        except Exception as error:
            # A source's trouble is in its notices; an exception is a defect, told once.
            failure = f"{type(error).__name__}: {error}"
            if failure != self._last_failure:
                log.exception("%s could not be read.", self.name)
            self._last_failure = failure
            message = (
                f"{self.name} could not be read ({failure}): please report this with the"
                " server's log."
            )
            return Reading(notices=(Notice("source-failed", "error", message),))
        self._last_failure = None
        return reading
