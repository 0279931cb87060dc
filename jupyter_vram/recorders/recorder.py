"""Around a cell: starts what records it, stops it on every way out, and tells what happened.

start()   look at all tensors that live · start torch's profiler · trace the cell's lines
stop()    stop both · look again · join: changes, places, holders → a trace per device
"""

from __future__ import annotations

import os
import time
from collections import ChainMap
from collections.abc import Iterable, Mapping
from itertools import chain
from types import FrameType
from typing import Any, Protocol, cast

from jupyter_vram.errors import TorchMissingError
from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.model.trace import (
    CellSource,
    Recording,
)
from jupyter_vram.model.units import RecorderKind
from jupyter_vram.recorders.contexts import Contexts
from jupyter_vram.recorders.gpu_side import GpuSide
from jupyter_vram.recorders.holders import (
    NOBODY,
    Gone,
    Holders,
    Storage,
    find_holders,
    storage_of,
)
from jupyter_vram.recorders.profiler_walk import Change, Columns, Walk, phase_spans, walk
from jupyter_vram.recorders.session import Session, enter
from jupyter_vram.recorders.trace_builder import Scene, build
from jupyter_vram.sources import torch_allocator
from jupyter_vram.sources.torch_profiler import (
    MemoryEvent,
    OpEvent,
    ProfilerSession,
    quiet,
    torch_if_installed,
)

NO_TORCH = (
    "jupyter_vram records what PyTorch allocates, and PyTorch is not installed in this kernel's"
    " environment: the cell ran without a recording. Install it: pip install torch"
)
TAKEN_OVER = (
    "The cell ran torch's own profiler, of which there is only one: it took over, so lines and"
    " modules of that time are not known. On the CPU, start and end are what was alive then, and"
    " the peak is only the larger of the two."
)
DEBUGGED = (
    "A debugger, a coverage tool or the cell itself traces this kernel (sys.settrace), so lines and"
    " modules are not known, or not all."
)

FAULTS = (
    "{} looks at the cell's modules or optimizers failed (their classes raise): some categories may"
    " be unknown."
)
COARSE = (
    "The cell ran through millions of lines: what a line of less than {} µs allocated counts for"
    " the line before it."
)


class Memory(Protocol):
    """What memory is, where it is not that of this process's allocators: a dry run's."""

    kind: RecorderKind

    def storage_of(self, tensor: Any) -> Storage | None:
        """The memory that a tensor would have."""

    def events(
        self, operations: Iterable[OpEvent | MemoryEvent]
    ) -> Iterable[OpEvent | MemoryEvent]:
        """The profiler's operations, with the changes of this memory among them."""


class Recorder:
    """Records what this process allocates through torch, from `start` to `stop`. Once only.

    All threads' allocations count; lines and modules are those of the thread that calls `start`.
    """

    def __init__(
        self,
        *,
        cell: CellCode | None = None,
        namespace: Mapping[str, object] | None = None,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        memory: Memory | None = None,
    ) -> None:
        """`cell`: whose lines are told apart. `namespace`: the user's variables, which give
        tensors their names. `labels`: file names of earlier cells' code → ``In [3]``. `memory`:
        whose changes count, in place of what torch allocates."""
        self._cell = cell
        self._namespace: Mapping[str, object] = {} if namespace is None else namespace
        self._labels: Mapping[str, str] = {} if labels is None else labels
        self._name = name
        self._memory = memory
        self._storage_of = storage_of if memory is None else memory.storage_of
        self._session: Session | None = None
        self._pieces: list[ProfilerSession | None] = []

    def start(self, frame: FrameType | None = None) -> None:
        """Begin. `frame`: a frame of the user's that runs already.

        Raises:
            TorchMissingError: PyTorch is not installed.
            RecordingError: torch's profiler is on, or another thread records.
        """
        quiet()
        torch = torch_if_installed()
        if torch is None:
            raise TorchMissingError(NO_TORCH)
        self._torch: Any = torch
        self._gone = Gone()
        self._before = find_holders(self._namespace, self._gone, self._storage_of)
        self._frame_file = frame.f_code.co_filename if frame is not None else None
        self._gpu = GpuSide()
        try:
            if self._memory is None:
                self._gpu.start()
            self._start_ns = time.time_ns()
            self._session = enter(torch, self._is_cell, self._pieces, frame, self._storage_of)
        except BaseException:
            self._gone.end()
            self._gpu.close()
            raise

    def abandon(self) -> None:
        """End without a word, whatever happened."""
        session, self._session = self._session, None
        if session is not None:
            self._gone.end()
            self._gpu.close()
            session.leave(self._pieces)

    def stop(self, error: str | None = None) -> Recording:
        """End, and tell. `error`: how the recorded code ended, if not well."""
        session, self._session = self._session, None
        assert session is not None, "start() comes first, and stop() once"
        try:
            return self._stop(session, error)
        finally:
            self._gpu.close()
            # A function's variables would live for as long as somebody has this recorder.
            self._namespace, self._labels, self._before = {}, {}, NOBODY
            self._pieces = []

    def _stop(self, session: Session, error: str | None) -> Recording:
        end_ns = time.time_ns()
        self._gone.end()
        session.leave(self._pieces)
        cell = self._cell
        files = cell.filenames if cell is not None else frozenset[str]()
        histories = self._gpu.stop(
            ChainMap(dict.fromkeys(files, ""), cast("dict[str, str]", self._labels)),
            dict.fromkeys(files, cell.line_offset if cell is not None else 0),
        )
        after = find_holders(self._namespace, storage_of=self._storage_of)
        places = session.places
        events: Iterable[OpEvent | MemoryEvent] = chain.from_iterable(
            piece.events() for piece in self._pieces if piece is not None
        )
        walked = walk(
            events if self._memory is None else self._memory.events(events),
            Columns(*places.lines.columns()),
            Columns(*places.modules.columns()),
            int(self._torch.autograd._get_sequence_nr()),  # noqa: SLF001
        )
        scene = Scene(
            start_ns=self._start_ns,
            end_ns=end_ns,
            before=self._before,
            after=after,
            gone=self._gone.events,
            sightings=session.sightings.seen,
            roots=walked.roots,
            root_calls=places.root_spans,
            phases=phase_spans(walked, places.root_spans),
            context=Contexts(places, self._label, self._cell, self._before, after).context,
            exact=None not in self._pieces,
        )
        changes = _by_device(walked.changes)
        return Recording(
            traces=(
                build("cpu", changes.pop("cpu", ()), scene, recorder=self._kind),
                *(
                    self._gpu.traces(histories, changes, scene)
                    if self._memory is None
                    else (
                        build(device, changes.get(device, ()), scene, recorder=self._kind)
                        for device in _devices(changes, self._before)
                    )
                ),
            ),
            device_names=torch_allocator.device_names() if self._memory is None else {},
            source=CellSource(cell.text, cell.execution_count) if cell is not None else None,
            name=self._name,
            error=error,
            notes=self._notes(session, walked),
        )

    @property
    def _kind(self) -> RecorderKind:
        return "cpu" if self._memory is None else self._memory.kind

    def _notes(self, session: Session, walked: Walk) -> tuple[str, ...]:
        notes = []
        if not session.traces_lines:
            notes.append(DEBUGGED)
        if None in self._pieces:
            notes.append(TAKEN_OVER)
        if session.places.faults:
            notes.append(FAULTS.format(session.places.faults))
        if session.places.lines.coarse_ns:
            notes.append(COARSE.format(round(session.places.lines.coarse_ns / 1000)))
        if walked.other_thread_bytes:
            notes.append(
                f"Other threads allocated {walked.other_thread_bytes} bytes in all: their lines"
                " are not known."
            )
        return (*notes, *self._gpu.notes)

    def _is_cell(self, filename: str) -> bool:
        return self._label(filename) is not None

    def _label(self, filename: str) -> str | None:
        """How a user calls the cell of a code's file name; ``""``: it is the recorded one."""
        if self._cell is not None and filename in self._cell.filenames:
            return ""
        label = self._labels.get(filename)
        if label is None and filename == self._frame_file:
            return os.path.basename(filename)  # noqa: PTH119 - not always a path
        return label


def _devices(changes: Iterable[str], before: Holders) -> list[str]:
    """All that hold something, but for the host."""
    return sorted({*changes, *(device for device, _ in before.held)} - {"cpu"})


def _by_device(changes: list[Change]) -> dict[str, list[Change]]:
    """Each device's, by time."""
    found: dict[str, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.time_ns):
        found.setdefault(change.device, []).append(change)
    return found
