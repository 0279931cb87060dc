"""``with jupyter_vram.record() as recording: …``: a recording in Python."""

from __future__ import annotations

import linecache
import sys
from collections import ChainMap
from collections.abc import Iterator
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

    def __init__(self, name: str | None, device: str | None) -> None:
        self._name = name
        self._device = device
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
def record(*, name: str | None = None, device: str | None = None) -> Iterator[RunningRecording]:
    """Record all that torch allocates in the block, whichever way it ends.

    Args:
        name: under which ``%%vram --compare`` finds it.
        device: the report's, as `Report.from_recording` takes it.

    Raises:
        TorchMissingError: PyTorch is not installed.
        RecordingError: torch's profiler is on, or nothing was recorded of `device`.
    """
    frame = sys._getframe(2)  # noqa: SLF001 - that of the `with`: contextlib's is in between
    running = RunningRecording(name, device)
    shell = _shell(frame)
    recorder = Recorder(
        cell=_cell(frame),
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
        # A device that is none must not hide the block's own error.
        report = Report.from_recording(recording, None if error else device)
        running._report = report  # noqa: SLF001
        reports.remember(report, name)


def _variables(frame: FrameType) -> ChainMap[str, Any]:
    """The block's variables, as they are whenever they are looked up."""
    if frame.f_locals is frame.f_globals:
        return ChainMap(frame.f_globals)
    return ChainMap(_Locals(frame), frame.f_globals)


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


def _shell(frame: FrameType) -> Any | None:
    get_ipython = frame.f_globals.get("get_ipython")
    return get_ipython() if callable(get_ipython) else None


def _cell(frame: FrameType) -> CellCode | None:
    """The cell that the block stands in; ``None`` in a script."""
    shell = _shell(frame)
    if shell is None:
        return None
    filename = frame.f_code.co_filename
    label = cell_labels(shell).get(filename)
    if label is None:
        return None
    number = label.removeprefix("In [").removesuffix("]")
    return CellCode(
        text="".join(linecache.getlines(filename)),
        execution_count=int(number) if number.isdecimal() else None,
        filenames=frozenset({filename}),
    )
