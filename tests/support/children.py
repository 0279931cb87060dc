"""Runs a test's code in a child, where the dry run may change torch for good."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from jupyter_vram.dry_run.emulation import Emulation, install
from jupyter_vram.dry_run.forked import run_forked
from jupyter_vram.dry_run.outcome import Outcome
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.program import CallProgram, file_labels
from jupyter_vram.dry_run.rehearsal import Setting, rehearse
from jupyter_vram.dry_run.running import warm_up
from jupyter_vram.model.gpus import Gpu

T = TypeVar("T")
GPU = Gpu("Test GPU", 24 << 30, 0, (8, 9), 128)
LIMITS = Limits(timeout_s=60)


def in_child(job: Callable[[], T]) -> T:
    """What `job` returns in a forked child; it must be picklable."""
    warm_up()
    gc.collect()  # models of other tests
    result: T = pickle.loads(run_forked(lambda: pickle.dumps(job()), LIMITS))
    return result


def emulated(job: Callable[[Emulation], T], *, gpu: Gpu | None = GPU, on_gpu: bool = False) -> T:
    """What `job` returns in a child in which everything is installed and the mode is on."""

    def run() -> T:
        emulation = install(gpu, on_gpu=on_gpu, where=lambda: "")
        with emulation.mode:
            return job(emulation)

    return in_child(run)


def rehearsed(
    function: Callable[..., object], *args: Any, gpu: Gpu | None = GPU, on_gpu: bool = False
) -> Outcome:
    """A dry run of a function."""
    program = CallProgram(function, args, labels=file_labels(function))
    return in_child(lambda: rehearse(program, Setting(gpu, on_gpu)))
