"""``%%vram``: records a cell that otherwise runs exactly as without the magic.

The magic's line becomes a comment before IPython parses the cell (`cell_head`), so nothing wraps
the cell; the recording starts and ends with IPython's own events around it.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_vram.errors import VramError
from jupyter_vram.kernel.cell_head import CellHead, comment_out, read_head, single_line
from jupyter_vram.kernel.delivery import Delivery, tell
from jupyter_vram.kernel.options import Options, parse_options
from jupyter_vram.kernel.runs import count_of_next, request_id
from jupyter_vram.model.cell_code import CellCode

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from jupyter_vram.model.trace import Recording


class CellRecorder(Protocol):
    """What records a cell: `jupyter_vram.recorders.recorder.Recorder`."""

    def start(self) -> None:
        """Begin. Raises `VramError` if nothing can be recorded."""

    def stop(self, error: str | None = None) -> Recording:
        """End. `error`: how the cell ended, if not well."""

    def abandon(self) -> None:
        """End without a word."""


MakeRecorder = Callable[["InteractiveShell", CellCode, Options], CellRecorder]


def make_recorder(shell: InteractiveShell, cell: CellCode, options: Options) -> CellRecorder:
    """The recorder of what runs in this shell."""
    # Imported here, since every kernel that starts imports this file.
    from jupyter_vram.recorders.recorder import Recorder

    return Recorder(
        cell=cell, namespace=shell.user_ns, labels=cell_labels(shell), name=options.name
    )


@dataclass(slots=True)
class ActiveRecording:
    """One that has started."""

    recorder: CellRecorder
    delivery: Delivery

    def end(self, error: str | None, *, ran: bool = True) -> None:
        """Stop, and deliver the report: not, if the code did not run (a syntax error)."""
        recording = self.recorder.stop(error)
        if ran or any(len(trace.change_bytes) for trace in recording.traces):
            self.delivery.deliver(recording)


def begin_recording(
    shell: InteractiveShell,
    cell: CellCode,
    options: Options,
    make: MakeRecorder = make_recorder,
) -> ActiveRecording | None:
    """Start to record; ``None``, and a sentence beneath the cell, if nothing can be recorded."""
    delivery = Delivery(shell, options)
    delivery.check()
    recorder = make(shell, cell, options)
    try:
        recorder.start()
    except VramError as error:
        tell(str(error))
        return None
    return ActiveRecording(recorder, delivery)


@dataclass(frozen=True, slots=True)
class _Run:
    request: str | None
    info: ExecutionInfo
    recording: ActiveRecording | None


class CellRecordings:
    """Listens to a shell, and records the cells that say ``%%vram``."""

    def __init__(self, shell: InteractiveShell, make: MakeRecorder = make_recorder) -> None:
        self._shell = shell
        self._make = make
        # Per thread (a subshell has its own), outermost first, since a cell may run another.
        self._open: dict[int, list[_Run]] = {}
        self._attached = False

    def attach(self) -> None:
        """From now on ``%%vram`` records."""
        self._attached = True
        self._shell.input_transformers_cleanup.append(comment_out)
        self._shell.input_transformers_post.append(self._prefilter)
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def detach(self) -> None:
        """Undo it. A recording that runs ends with its cell, and then nothing is left."""
        self._attached = False
        _remove(self._shell.input_transformers_cleanup, comment_out)
        _remove(self._shell.input_transformers_post, self._prefilter)
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._leave()

    def _leave(self) -> None:
        if not any(run.recording for runs in self._open.values() for run in runs):
            self._open.clear()
            self._shell.events.unregister("post_run_cell", self._end)

    def _prefilter(self, lines: list[str]) -> list[str]:
        # IPython does this (`ls` for `%ls`, `exit` for `exit()`) to cells of one line.
        line = single_line(lines)
        if line is None:
            return lines
        manager: Any = self._shell.prefilter_manager
        with self._shell.builtin_trap:
            return [*lines[:-1], manager.prefilter_lines(line) + "\n"]

    def _begin(self, info: ExecutionInfo) -> None:
        request = request_id(self._shell)
        runs = self._open.setdefault(threading.get_ident(), [])
        if runs and runs[0].request != request:
            # An interrupt in the wrong moment, and IPython never told its end.
            _abandon(runs)
        recording = None
        try:
            text = str(info.raw_cell)
            head = read_head(text)
            if head is not None:
                number = count_of_next(self._shell) if info.store_history else None
                recording = begin_recording(
                    self._shell,
                    _cell_code(self._shell, text, head, number),
                    parse_options(head.options),
                    self._make,
                )
        finally:
            runs.append(_Run(request, info, recording))

    def _end(self, result: ExecutionResult | None) -> None:
        thread = threading.get_ident()
        runs = self._open.get(thread, [])
        # An interrupted run may have no result: then it is the innermost that ended.
        ended = len(runs) - 1
        while result is not None and ended >= 0 and not _is_same(runs[ended].info, result.info):
            ended -= 1
        if ended < 0:
            return  # it began before we listened
        run = runs[ended]
        try:
            _abandon(runs, ended + 1)
        finally:
            runs.pop()
            if not runs:
                del self._open[thread]
            if not self._attached:
                self._leave()
            if run.recording is not None:
                ran = result is None or result.error_before_exec is None
                run.recording.end(_error_name(result), ran=ran)


def _abandon(runs: list[_Run], at: int = 0) -> None:
    """Stop what runs within a run that ended unseen: nobody waits for its report."""
    while len(runs) > at:
        recording = runs.pop().recording
        if recording is not None:
            recording.recorder.abandon()


def _is_same(info: ExecutionInfo, of_result: ExecutionInfo | None) -> bool:
    # For a run that was interrupted outside of the user's code, IPython makes another.
    return of_result is not None and (
        info is of_result
        or (info.raw_cell is of_result.raw_cell and info.store_history == of_result.store_history)
    )


def _error_name(result: ExecutionResult | None) -> str | None:
    if result is None:
        return "KeyboardInterrupt"
    error = result.error_before_exec or result.error_in_exec
    return None if error is None else type(error).__name__


def _remove(transformers: list[Any], transformer: object) -> None:
    if transformer in transformers:
        transformers.remove(transformer)


def _cell_code(shell: InteractiveShell, text: str, head: CellHead, number: int | None) -> CellCode:
    innermost = text if head.inner_cell is None else head.inner_cell
    return CellCode(
        text=text,
        execution_count=number,
        line_offset=head.line_offset,
        filenames=head.filenames or _filenames(shell, innermost),
    )


def _filenames(shell: InteractiveShell, raw_cell: str) -> frozenset[str]:
    """Those that the code of a cell may get; in a kernel, it is one."""
    transform: Any = shell.transform_cell
    try:
        transformed = transform(raw_cell)
    except Exception:  # noqa: BLE001 - whatever a transformer raises: then the cell does not run
        transformed = raw_cell
    # IPython raises its counter before this moment or after it.
    numbers = range(shell.execution_count - 1, shell.execution_count + 2)
    return frozenset(shell.compile.get_code_name(raw_cell, transformed, n) for n in numbers)


class _CellLabels(Mapping[str, str]):
    """The file names of cells' code → ``In [3]``, as the shell's compiler knows them."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler

    def __getitem__(self, filename: str) -> str:
        # ("Cell", "In[3]")
        name = self._compiler.format_code_name(filename)
        if name is None:
            raise KeyError(filename)
        return str(name[1]).replace("In[", "In [")

    def __iter__(self) -> Iterator[str]:
        names = list(linecache.cache)
        return (name for name in names if self._compiler.format_code_name(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def cell_labels(shell: InteractiveShell) -> Mapping[str, str]:
    """How a user names the cell that a piece of code comes from: its file name → ``In [3]``.

    Of two cells with the same text, which share the name, it is the later one.
    """
    return _CellLabels(shell.compile)
