"""The dry run itself, in the child process: a program → an `Outcome`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

from torch import UntypedStorage

from jupyter_vram.dry_run import emulation
from jupyter_vram.dry_run.host_values import cell_line
from jupyter_vram.dry_run.memory import DryRunMemory
from jupyter_vram.dry_run.outcome import Failure, Outcome
from jupyter_vram.dry_run.program import Program
from jupyter_vram.model.gpus import Gpu
from jupyter_vram.recorders.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Setting:
    """On what the program is to run."""

    gpu: Gpu | None
    """``None``: a machine without one."""
    on_gpu: bool = False
    """Count what the code has on the CPU as if it were on the GPU."""
    name: str | None = None


def rehearse(
    program: Program,
    setting: Setting,
    printed: Callable[[], str] = lambda: "",
    arrived: Iterable[tuple[UntypedStorage, str]] = (),
) -> Outcome:
    """Run `program` on meta tensors. Only in a process that ends afterwards.

    Args:
        printed: the end of what was printed in this process.
        arrived: storages of meta tensors that came from another process, and where they lie there.
    """
    started = time.perf_counter()
    cell = program.cell
    files = cell.filenames if cell is not None else frozenset[str]()
    offset = cell.line_offset if cell is not None else 0

    def is_users(filename: str) -> bool:
        return filename in files or (not files and filename in program.labels)

    def where() -> str:
        return cell_line(is_users, offset)

    emulated = emulation.install(setting.gpu, on_gpu=setting.on_gpu, where=where, arrived=arrived)
    recorder = Recorder(
        cell=cell,
        namespace=program.namespace,
        labels=program.labels,
        name=setting.name,
        memory=DryRunMemory(emulated.labels, emulated.watch),
    )
    failure = None
    recorder.start()
    try:
        with emulated.mode:
            program.run()
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is told
        failure = _failure(error, is_users, offset, printed())
        error.__traceback__ = None  # its frames hold what the cell held
    recording = recorder.stop(failure.kind if failure is not None else None)
    return Outcome(
        recording=recording,
        failure=failure,
        assumptions=tuple(emulated.values.assumptions),
        emulated_s=time.perf_counter() - started,
    )


def _failure(
    error: BaseException, is_users: Callable[[str], bool], offset: int, output: str
) -> Failure:
    line = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if is_users(step.tb_frame.f_code.co_filename):
            line = step.tb_lineno + offset
        step = step.tb_next
    return Failure(
        kind=type(error).__name__,
        message=str(error),
        line=line,
        traceback="".join(traceback.format_exception(error)),
        output=output,
    )
