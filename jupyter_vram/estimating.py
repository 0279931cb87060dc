"""`estimate`: what a function needs on a GPU, before it runs, without one.

program ──► dry run in a child ──► Recording ──► allocator simulation ──► device bytes ──► fits
                ▲ once more for each value that is varied, or searched for
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_vram import reports
from jupyter_vram.analysis.cell_report import report_data
from jupyter_vram.analysis.device_bytes import fit
from jupyter_vram.analysis.variation import parse_vary
from jupyter_vram.dry_run.machine import machine_gpu, measured_context
from jupyter_vram.dry_run.process import TIMEOUT_S, Limits
from jupyter_vram.dry_run.program import CallProgram, Program, file_labels
from jupyter_vram.model.estimate import Estimate, GpuFit
from jupyter_vram.model.gpus import Gpu, common_gpus, gpu_named
from jupyter_vram.report import Report
from jupyter_vram.variants import Progress, Variants, silent

STAND_IN = Gpu("a GPU", 80 << 30, None, (8, 0), 108)
"""What ``torch.cuda`` tells of where no GPU is named: of the Ampere generation, which has all types
of numbers, with more memory than most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How a dry run is asked for."""

    gpu: str | None = None
    """``RTX 4090``, ``24GB``; ``None``: this machine's, or none in particular."""
    device: str | None = None
    """``cpu``: what it needs on the CPU. Else the report's device, as of a recording."""
    vary: tuple[str, ...] = ()
    """``batch=1..64``."""
    isolated: bool = False
    timeout_s: float | None = None
    name: str | None = None


def estimate(
    function: Callable[..., object],
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    gpu: str | None = None,
    device: str | None = None,
    vary: Mapping[str, str] | None = None,
    isolated: bool = False,
    timeout_s: float | None = None,
    name: str | None = None,
) -> Report:
    """What a call of `function` would need, from a dry run: nothing is computed or allocated.

    The call runs in a process of its own, on tensors that have shapes and no memory: variables,
    models, optimizers and random numbers of this process stay as they are.

    Args:
        function: called as ``function(*args, **kwargs)``; what it returns is dropped.
        args: its arguments.
        kwargs: its keyword arguments.
        gpu: the GPU that it is to fit: ``"RTX 4090"``, ``"A100 80GB"``, ``"24GB"``. The machine's
            own, if there is one and none is named.
        device: ``"cpu"`` for what it would need on the CPU.
        vary: values of parameters, or of global variables that the function names:
            ``{"batch": "1..64"}``; one or two of them.
        isolated: in a new process, which gets copies of what the function needs, rather than a
            fork of this one. Always so where there is no fork.
        timeout_s: seconds after which a dry run is given up; 120 by default.
        name: keep the report under this name, to compare with.

    Returns:
        A report whose `peak_bytes` is the tensors' peak, and whose `peak_device_bytes` is what the
        device must have, between `low` and `high`.

    Raises:
        DryRunError: the function failed in the dry run (`failure`), or its process did.
        UnknownGpuError: no GPU of that name is known.
    """
    program = CallProgram(function, args, kwargs or {}, labels=file_labels(function))
    request = Request(
        gpu=gpu,
        device=device,
        vary=tuple(f"{variable}={values}" for variable, values in (vary or {}).items()),
        isolated=isolated,
        timeout_s=timeout_s,
        name=name,
    )
    report = estimate_program(program, request)
    reports.remember(report, name)
    return report


def estimate_program(
    program: Program, request: Request, on_progress: Progress | None = None
) -> Report:
    """The report of a dry run, or of several: see `estimate`.

    Args:
        on_progress: called with the number of dry runs that have ended, and that there will be.
    """
    tell = on_progress or silent
    axes = parse_vary(*request.vary)
    gpu = gpu_named(request.gpu) if request.gpu is not None else machine_gpu()
    on_cpu = request.device == "cpu"
    variants = Variants(
        program,
        None if on_cpu else gpu or STAND_IN,
        device=request.device,
        limits=Limits(timeout_s=request.timeout_s or TIMEOUT_S),
        isolated=request.isolated,
        name=request.name,
        context=measured_context() if request.gpu is None and not on_cpu else None,
    )
    run = variants.run({})
    grid = variants.grid(axes, tell) if axes else None
    shown = gpu or STAND_IN
    device = run.need.on(shown)
    fits: tuple[GpuFit, ...] = ()
    if run.need.trace.device != "cpu":
        others = [other for other in common_gpus() if gpu is None or other.name != gpu.name]
        # With a grid, that is what was asked for.
        largest = {} if axes else variants.largest(gpu, others, tell)
        gpus = [*([] if gpu is None else [gpu]), *others]
        fits = tuple(fit(run.need, one, largest.get(one.name, ())) for one in gpus)
    estimated = Estimate(
        gpu=gpu.name if gpu is not None else None,
        total_bytes=gpu.total_bytes if gpu is not None else None,
        peak_device_bytes=device.bytes,
        low_bytes=device.low_bytes,
        high_bytes=device.high_bytes,
        parts=device.parts,
        fits=fits,
        assumptions=run.assumptions,
        grid=grid,
        emulated_s=run.emulated_s,
    )
    return Report(
        dataclasses.replace(report_data(run.recording(shown)), estimate=estimated), run.need.trace
    )
