"""Which cell ran when, and what it did to memory, from IPython's events."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from jupyter_vram.kernel.cell_memory import CellMemory, MemoryReading, code_crc32, read_memory
from jupyter_vram.kernel.runs import count_of_next, request_id
from jupyter_vram.model.kernel_report import AllocatorStats, CellRun

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

KEPT = 32


class _Open(NamedTuple):
    request: str | None
    info: ExecutionInfo
    run: CellRun | None
    """``None`` if it is no cell of its own."""
    memory: CellMemory | None


class CellLog:
    """The latest runs of cells. The shell's threads write, the reporter's reads."""

    def __init__(self, shell: InteractiveShell, on_change: Callable[[], None]) -> None:
        """`on_change` is called in the shell's thread when a run begins or ends."""
        self._shell = shell
        self._on_change = on_change
        self._lock = threading.Lock()
        # Replaced whole, never changed: a reader needs no lock.
        self._runs: tuple[CellRun, ...] = ()
        # Per thread (a subshell has its own), outermost first, since a cell may run another.
        self._open: dict[int, list[_Open]] = {}

    @property
    def runs(self) -> tuple[CellRun, ...]:
        """At most `KEPT` of them, oldest first."""
        return self._runs

    @property
    def busy(self) -> bool:
        """Whether a cell runs."""
        return bool(self._open)

    def sample(self, devices: Iterable[AllocatorStats]) -> None:
        """Take in what is allocated while cells run; called in the reporter's thread."""
        with self._lock:
            for nested in self._open.values():
                for cell in nested:
                    if cell.memory is not None:
                        cell.memory.sample(devices)

    def attach(self) -> None:
        """Listen to the shell."""
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def detach(self) -> None:
        """Listen no more. A run that has begun stays open in `runs`."""
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)
        with self._lock:
            self._open.clear()

    def _begin(self, info: ExecutionInfo) -> None:
        # Requests of front ends (silent, not stored) are no cells, and a cell within a cell is a
        # part of the outer one.
        counts = info.store_history and not info.silent
        request = request_id(self._shell)
        with self._lock:
            nested = self._open.setdefault(threading.get_ident(), [])
            if nested and nested[0].request != request:
                # An interrupt in the wrong moment, and IPython never told its end.
                self._end_runs(nested, None)
            run = memory = None
            if counts and not nested:
                memory = CellMemory(read_memory())
                run = CellRun(
                    execution_count=count_of_next(self._shell),
                    started_at=time.time(),
                    code_crc32=code_crc32(info.raw_cell),
                    rss_start_bytes=memory.start.rss_bytes,
                )
            nested.append(_Open(request, info, run, memory))
            if run is not None:
                self._runs = (*self._runs[1 - KEPT :], run)
        self._on_change()

    def _end(self, result: ExecutionResult | None) -> None:
        # An interrupted run may have no result: then it is the innermost that ended.
        thread = threading.get_ident()
        with self._lock:
            nested = self._open.get(thread, [])
            ended = len(nested) - 1
            while result is not None and ended >= 0 and nested[ended].info is not result.info:
                ended -= 1
            if ended >= 0:  # else it began before we listened
                self._end_runs(nested, result, ended, read_memory() if ended == 0 else None)
            if not nested:
                self._open.pop(thread, None)
        self._on_change()

    def _end_runs(
        self,
        nested: list[_Open],
        result: ExecutionResult | None,
        at: int = 0,
        end: MemoryReading | None = None,
    ) -> None:
        while len(nested) > at:
            cell = nested.pop()
            if cell.run is not None:
                self._end_run(cell.run, cell.memory, result, end)

    def _end_run(
        self,
        run: CellRun,
        memory: CellMemory | None,
        result: ExecutionResult | None,
        end: MemoryReading | None,
    ) -> None:
        count = run.execution_count if result is None else result.execution_count
        ended = dataclasses.replace(run, execution_count=count, ended_at=time.time())
        if memory is not None and end is not None:
            ended = dataclasses.replace(
                ended, rss_end_bytes=end.rss_bytes, devices=memory.devices(end)
            )
        self._runs = tuple(ended if known is run else known for known in self._runs)
