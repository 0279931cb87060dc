"""Records CUDA memory by the caching allocator's own history: exact, for all threads and devices.

Never resets peaks, which are one counter for all. A history that is on already is left alone: then
the recording is what lies between start and stop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType

from jupyter_vram.errors import RecordingError
from jupyter_vram.model.trace import Trace
from jupyter_vram.recorders.snapshot_trace import TraceOptions, traces_from_snapshot
from jupyter_vram.sources import torch_history
from jupyter_vram.sources.snapshot_events import Snapshot

ENDED_BY_CELL = (
    "The recorded code ended torch's memory history itself, so what happened before that is not"
    " known: the figures are those of the end."
)

_ours = threading.Lock()
"""Held while a recording of this package keeps the history."""


class CudaHistory:
    """One recording, from `start` to `stop`; as a context manager, it ends on every way out.

    One within another one shares the outer one's history.
    """

    def __init__(self, *, max_entries: int = torch_history.MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._owns = False
        self._running = False
        self._start_ns = 0
        self._before: Snapshot | None = None

    def start(self) -> None:
        """Begin.

        Raises:
            RecordingError: CUDA is not in use, torch keeps no history here, or this one runs
                already.
        """
        if self._running:
            raise RecordingError("This recording runs already: stop it first.")
        why_not = torch_history.available()
        if why_not is not None:
            raise RecordingError(why_not)
        self._running = True
        try:
            on = torch_history.is_on()
            # Before the history: then it has no events to copy.
            self._before = torch_history.blocks()
            self._start_ns = time.time_ns()
            self._owns = not on and _ours.acquire(blocking=False)
            if self._owns:
                torch_history.begin(self._max_entries)
        except BaseException:
            self.close()
            raise

    def stop(
        self,
        *,
        labels: Mapping[str, str] | None = None,
        line_offsets: Mapping[str, int] | None = None,
    ) -> tuple[Trace, ...]:
        """End, and give a trace of each device that holds memory.

        `labels` and `line_offsets` say how the user sees the lines of a file (`TraceOptions`).

        Raises:
            RecordingError: it does not run, or torch could not tell; it has ended all the same.
        """
        if not self._running:
            raise RecordingError("This recording does not run: start it first.")
        try:
            end_ns = time.time_ns()
            ended = not torch_history.is_on()
            snapshot = torch_history.snapshot()
        finally:
            owned = self._owns
            self.close()
        options = TraceOptions(
            recorder="cuda",
            start_ns=self._start_ns,
            end_ns=end_ns,
            max_entries=self._max_entries if owned else None,
            labels=labels or {},
            line_offsets=line_offsets or {},
            before=self._before,
            notes=(ENDED_BY_CELL,) if ended else (),
        )
        return traces_from_snapshot(snapshot, options)

    def close(self) -> None:
        """End without a result; does nothing if it has ended."""
        self._running = False
        if not self._owns:
            return
        try:
            torch_history.end()
        except KeyboardInterrupt:
            torch_history.end()
            raise
        finally:
            self._owns = False
            _ours.release()

    def __enter__(self) -> CudaHistory:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
