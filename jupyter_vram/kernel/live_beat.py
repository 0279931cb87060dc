"""The one thread of all live views: measures, draws, and ends with the last of them."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from jupyter_vram.kernel.live_picture import Picture
from jupyter_vram.kernel.reporter import read_report
from jupyter_vram.kernel.runs import request_id
from jupyter_vram.render.live_html import LiveSample

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

THREAD_NAME = "jupyter-vram-live"
UNSEEN = "Stopped, as no page shows it any more. To go on, run this cell again."
STOPPED = "Stopped. To go on, run this cell again."
_JOIN_S = 2.0

_log = logging.getLogger(__name__)


def read_sample(now: float) -> LiveSample:
    """This process at the monotonic clock's `now`."""
    report = read_report(period_s=0.0)
    return LiveSample(now, report.rss_bytes, report.devices)


class Beat:
    """Moves pictures while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pictures: list[Picture] = []
        self._thread: threading.Thread | None = None
        # Not an Event: an interrupt within its `set` could leave it locked.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._busy = Busy()
        self._pid = os.getpid()

    def add(self, picture: Picture) -> None:
        """Move one more, from now on."""
        with self._lock:
            if os.getpid() != self._pid:  # a forked child, which has no such thread
                self._pid, self._pictures, self._thread = os.getpid(), [], None
            self._pictures.append(picture)
            if self._thread is None:
                self._start()
        self._wakes.put(None)

    def remove(self, picture: Picture, note: str = STOPPED) -> None:
        """Let it stand still; nothing if it does."""
        with self._lock:
            moved = picture in self._pictures
            if moved:
                self._pictures.remove(picture)
        if moved:
            picture.end(note)
            self._wakes.put(None)

    def stop(self) -> None:
        """Let all stand still, and wait for the thread's end."""
        for picture in list(self._pictures):
            self.remove(picture)
        self._end()

    def _start(self) -> None:
        self._busy.attach()
        atexit.register(self._end)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        # Jupyter's debugger then neither lists it nor halts it with the user's threads.
        for mark in ("pydev_do_not_trace", "is_pydev_daemon_thread"):
            setattr(self._thread, mark, True)
        self._thread.start()

    def _end(self) -> None:
        atexit.unregister(self._end)
        if os.getpid() != self._pid:
            return
        with self._lock:
            thread = self._thread
            self._pictures.clear()
        self._wakes.put(None)
        if thread is not None:
            thread.join(_JOIN_S)

    def _run(self) -> None:
        samples: deque[LiveSample] = deque()
        while True:
            with self._lock:
                pictures = list(self._pictures)
                if not pictures:
                    self._thread = None
                    self._busy.detach()
                    return
            try:
                self._turn(pictures, samples)
            except Exception:  # noqa: BLE001 - a thread's own traceback would go into some cell
                _log.warning("The live view of memory has stopped.", exc_info=True)
                with self._lock:
                    self._pictures.clear()
                continue
            try:
                self._wakes.get(timeout=min(picture.interval_s for picture in pictures))
            except queue.Empty:
                continue

    def _turn(self, pictures: list[Picture], samples: deque[LiveSample]) -> None:
        now = time.monotonic()
        samples.append(read_sample(now))
        longest = max(picture.window_s for picture in pictures)
        while samples[0].time < now - longest:
            samples.popleft()
        for picture in pictures:
            if not picture.is_watched(now, busy=self._busy.value):
                self.remove(picture, UNSEEN)
            elif picture.is_due(now):
                picture.draw(tuple(samples), now)


class Busy:
    """Whether a cell runs, so that no page's answer can be heard."""

    def __init__(self) -> None:
        self._shell: InteractiveShell | None = None
        self._open = 0
        self._request: str | None = None

    @property
    def value(self) -> bool:
        """Whether one runs now."""
        return self._open > 0

    def attach(self) -> None:
        """Listen, in the midst of the cell that shows the first view."""
        from IPython.core.getipython import get_ipython

        self._shell = get_ipython()
        self._open = 0
        if self._shell is not None:
            self._open, self._request = 1, request_id(self._shell)
            self._shell.events.register("pre_run_cell", self._begin)
            self._shell.events.register("post_run_cell", self._end)

    def detach(self) -> None:
        """Listen no more."""
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.events.unregister("pre_run_cell", self._begin)
            shell.events.unregister("post_run_cell", self._end)

    def _begin(self, _: Any) -> None:
        request = None if self._shell is None else request_id(self._shell)
        # The end of the one before may never have been told, after an interrupt.
        self._open = self._open + 1 if request == self._request else 1
        self._request = request

    def _end(self, _: Any) -> None:
        self._open = max(0, self._open - 1)
