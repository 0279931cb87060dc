"""Which cell ran when, from IPython's events."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from jupyter_vram.model.kernel_report import CellRun

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

KEPT = 32


class _Open(NamedTuple):
    request: str | None
    info: ExecutionInfo
    run: CellRun | None
    """``None`` if it is no cell of its own."""


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
        request = _request(self._shell)
        with self._lock:
            nested = self._open.setdefault(threading.get_ident(), [])
            if nested and nested[0].request != request:
                # An interrupt in the wrong moment, and IPython never told its end.
                self._end_runs(nested, None)
            run = None
            if counts and not nested:
                run = CellRun(execution_count=_count_of_next(self._shell), started_at=time.time())
            nested.append(_Open(request, info, run))
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
                self._end_runs(nested, result, ended)
            if not nested:
                self._open.pop(thread, None)
        self._on_change()

    def _end_runs(self, nested: list[_Open], result: ExecutionResult | None, at: int = 0) -> None:
        while len(nested) > at:
            run = nested.pop().run
            if run is not None:
                self._end_run(run, result)

    def _end_run(self, run: CellRun, result: ExecutionResult | None) -> None:
        count = run.execution_count if result is None else result.execution_count
        ended = dataclasses.replace(run, execution_count=count, ended_at=time.time())
        self._runs = tuple(ended if known is run else known for known in self._runs)


def _request(shell: InteractiveShell) -> str | None:
    """The id of the front end's request that is being answered; ``None`` outside of a kernel."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    msg_id = parent.get("header", {}).get("msg_id")
    return msg_id if isinstance(msg_id, str) else None


def _count_of_next(shell: InteractiveShell) -> int | None:
    """The number of the run that begins, whose input is not stored yet.

    IPython raises its counter at the end of a run or, since 9, before this event.
    """
    history = shell.history_manager
    stored = 0 if history is None else len(history.input_hist_raw)
    return stored if stored in (shell.execution_count, shell.execution_count - 1) else None
