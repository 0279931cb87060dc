"""``with jupyter_vram.record() as recording: …``: a recording in Python."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from jupyter_vram import reports
from jupyter_vram.errors import RecordingError
from jupyter_vram.kernel.cell_recording import cell_labels
from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.recorders.recorder import Recorder
from jupyter_vram.report import Report


class RunningRecording:
    """What `record` gives: its `report`, once the ``with`` block has ended."""

    def __init__(self) -> None:
        self._report: Report | None = None

    @property
    def report(self) -> Report:
        """The report.

        Raises:
            RecordingError: the block has not ended.
        """
        if self._report is None:
            raise RecordingError("The report is there when the `with` block has ended.")
        return self._report


@contextmanager
def record(
    *, name: str | None = None, device: str | int | None = None
) -> Iterator[RunningRecording]:
    """Record all that torch allocates in the block, whichever way it ends.

    Args:
        name: under which ``%%vram --compare`` finds it.
        device: the report's, as `Report.from_recording` takes it.

    Raises:
        TorchMissingError: PyTorch is not installed.
        RecordingError: torch's profiler is on; or, when the block has ended, nothing was recorded
            of `device`: then `report` is that of the device that was used.
    """
    frame = _users_frame()
    running = RunningRecording()
    shell = _shell()
    recorder = Recorder(
        cell=_cell(shell, frame),
        namespace=_variables(frame),
        labels=cell_labels(shell) if shell is not None else None,
        name=name,
    )
    recorder.start(frame)
    error: str | None = None
    try:
        yield running
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        recording = recorder.stop(error)
        _let_go(frame)
        running._report = Report.from_recording(recording)  # noqa: SLF001
        reports.remember(running.report, name)
        # A device that is none must not hide the block's own error.
        if device is not None and error is None:
            running._report = Report.from_recording(recording, str(device))  # noqa: SLF001
            reports.remember(running.report, name)


def _users_frame() -> FrameType:
    """That of the ``with``: contextlib's own lie between, and more of them for an `ExitStack`."""
    frame = sys._getframe(2)  # noqa: SLF001
    while frame.f_globals.get("__name__") == "contextlib" and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _variables(frame: FrameType) -> Mapping[str, Any]:
    """The block's variables, as they are whenever they are looked up."""
    if not _is_function(frame):
        return frame.f_globals
    return ChainMap(_Locals(frame), frame.f_globals)


def _is_function(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


def _let_go(frame: FrameType) -> None:
    """Before Python 3.13, a look at a function's variables keeps a copy of them in its frame."""
    if sys.version_info < (3, 13) and _is_function(frame):
        frame.f_locals.clear()


class _Locals(dict[str, Any]):
    """A function's variables: read anew at each look, since they change."""

    def __init__(self, frame: FrameType) -> None:
        super().__init__()
        self._frame = frame

    def __getitem__(self, name: str) -> Any:
        return self._frame.f_locals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._frame.f_locals))

    def __len__(self) -> int:
        return len(self._frame.f_locals)

    def __contains__(self, name: object) -> bool:
        return name in self._frame.f_locals

    def keys(self) -> Any:
        return self._frame.f_locals.keys()


def _shell() -> Any | None:
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _cell(shell: Any | None, frame: FrameType) -> CellCode | None:
    """The cell that the block stands in; ``None`` in a script or a module."""
    filename = frame.f_code.co_filename
    label = None if shell is None else cell_labels(shell).get(filename)
    if label is None:
        return None
    number = label.removeprefix("In [").removesuffix("]")
    return CellCode(
        text="".join(linecache.getlines(filename)),
        execution_count=int(number) if number.isdecimal() else None,
        filenames=frozenset({filename}),
    )
