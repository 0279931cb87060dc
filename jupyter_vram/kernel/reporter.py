"""The thread that writes this kernel's report, whatever the main thread does."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from jupyter_vram._version import __version__
from jupyter_vram.errors import ReportError
from jupyter_vram.model.kernel_report import AllocatorStats, CellRun, KernelReport
from jupyter_vram.sources import torch_allocator
from jupyter_vram.sources.own_process import resident_bytes
from jupyter_vram.sources.report_file import remove_orphans, remove_report, write_report

THREAD_NAME = "jupyter-vram-reporter"
BUSY_PERIOD_S = 0.5
IDLE_PERIOD_S = 2.0
LEAST_GAP_S = 0.1
"""However quickly cells follow each other, no two reports are closer than this."""
_JOIN_S = 2.0
_NO_CELLS: tuple[CellRun, ...] = ()


def read_report(period_s: float, cells: tuple[CellRun, ...] = _NO_CELLS) -> KernelReport:
    """This kernel at this moment. Imports no torch, and creates no CUDA context."""
    torch = torch_allocator.read()
    return KernelReport(
        pid=os.getpid(),
        written_at=time.time(),
        period_s=period_s,
        package_version=__version__,
        rss_bytes=resident_bytes(),
        torch_state=torch.torch_state,
        torch_version=torch.torch_version,
        devices=torch.devices,
        cells=cells,
        problem=torch.problem,
    )


class Reporter:
    """Writes the report at `path` until stopped; then, and when the process exits, removes it.

    A forked child inherits the object without its thread: there, it does nothing.
    """

    def __init__(
        self,
        path: Path,
        log: logging.Logger,
        *,
        cells: Callable[[], tuple[CellRun, ...]] = tuple,
        is_busy: Callable[[], bool] = bool,
        on_read: Callable[[tuple[AllocatorStats, ...]], None] = lambda _: None,
    ) -> None:
        """`log` gets what went wrong, once for each thing: never the output of a cell.

        `on_read` is told, in the reporter's thread, what each report reads of the allocator.
        """
        self.path = path
        self._log = log
        self._cells = cells
        self._is_busy = is_busy
        self._on_read = on_read
        self._pid = os.getpid()
        # Not an Event: an interrupt within its `set` could leave it locked, and the shell with it.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._stop = threading.Event()
        # Held while writing, so that nothing is written after the removal.
        self._writing = threading.Lock()
        self._logged: set[tuple[str, type[Exception]]] = set()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        # Jupyter's debugger then neither lists it nor halts it with the user's threads.
        for mark in ("pydev_do_not_trace", "is_pydev_daemon_thread"):
            setattr(self._thread, mark, True)

    def start(self) -> None:
        """Write the first report at once, and go on. Once only."""
        atexit.register(self.stop)
        self._thread.start()

    def wake(self) -> None:
        """Let the next report come now: something has changed. Cheap, never waits."""
        # A lock that the thread held while the process was forked is never released in the child.
        if os.getpid() == self._pid:
            self._wakes.put(None)

    def stop(self) -> None:
        """Stop, and remove the report. More than once is fine."""
        atexit.unregister(self.stop)
        if os.getpid() != self._pid:
            return
        self._stop.set()
        self._wakes.put(None)
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        # Where the thread hangs in writing (a network's file system), the file is let be.
        if self._writing.acquire(timeout=_JOIN_S):
            try:
                remove_report(self.path)
            except (OSError, ReportError) as error:
                self._log_once("The report of GPU memory was not removed: %s", error)
            finally:
                self._writing.release()

    def _run(self) -> None:
        with contextlib.suppress(OSError, ReportError):
            remove_orphans(self.path.parent)
        while not self._stop.is_set():
            while not self._wakes.empty():
                self._wakes.get()
            period_s = BUSY_PERIOD_S if self._is_busy() else IDLE_PERIOD_S
            self._report(period_s)
            if self._stop.wait(LEAST_GAP_S):
                return
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=period_s - LEAST_GAP_S)

    def _report(self, period_s: float) -> None:
        report = self._read(period_s)
        with self._writing:
            if self._stop.is_set():
                return
            try:
                write_report(self.path, report)
            except (OSError, ReportError) as error:
                self._log_once("The report of GPU memory was not written: %s", error)

    def _read(self, period_s: float) -> KernelReport:
        try:
            report = read_report(period_s, self._cells())
            self._on_read(report.devices)
            return report
        except Exception as error:  # noqa: BLE001 - the panel shows it; the reports must go on
            self._log_once("GPU memory could not be read: %r", error, exc_info=True)
            return KernelReport(
                pid=self._pid,
                written_at=time.time(),
                period_s=period_s,
                package_version=__version__,
                problem=f"This kernel could not read its memory ({type(error).__name__}): its log"
                " says more.",
            )

    def _log_once(self, message: str, error: Exception, *, exc_info: bool = False) -> None:
        kind = (message, type(error))
        if kind not in self._logged:
            self._logged.add(kind)
            self._log.warning(message, error, exc_info=exc_info)
