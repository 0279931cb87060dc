"""A dry run from the outside: a child process, and what it brings back."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from jupyter_vram.dry_run import parcel
from jupyter_vram.dry_run.forked import printed, run_forked
from jupyter_vram.dry_run.isolated import run_isolated
from jupyter_vram.dry_run.outcome import Outcome
from jupyter_vram.dry_run.process import Limits, can_fork
from jupyter_vram.dry_run.program import Program
from jupyter_vram.dry_run.rehearsal import Setting, rehearse
from jupyter_vram.dry_run.sandbox import enter_sandbox, notes

_NO_AUTOGRAD = "fork-based multiprocessing"
"""In autograd's refusal to run where its threads existed before the fork: torch's engine.cpp."""


def dry_run(
    program: Program, setting: Setting, limits: Limits, *, isolated: bool = False
) -> Outcome:
    """Run `program` in a child: a fork of this process, or a new one that gets what it needs.

    Raises:
        DryRunError: the child could not be made, crashed, or passed a limit.
    """
    if isolated or not can_fork():
        return _isolated(program, setting, limits)
    warm_up()
    outcome = _outcome(run_forked(lambda: pickle.dumps(_rehearse(program, setting)), limits))
    if outcome.failure is not None and _NO_AUTOGRAD in outcome.failure.message:
        return _isolated(program, setting, limits)
    return outcome


def warm_up() -> None:
    """What every dry run imports, and takes two seconds: once, in the parent. So does the first
    optimizer that is made."""
    for name in ("torch._dynamo", "torch._meta_registrations", "torch.utils.checkpoint"):
        import_module(name)


def rehearse_parcel(payload: bytes, output: Path) -> bytes:
    """What a new process does with a parcel, and answers. `output`: a file, with what it prints."""
    (program, setting), arrived = parcel.unpack(payload)

    def printed() -> str:
        sys.stdout.flush()
        return output.read_text(encoding="utf-8", errors="replace")[-4000:]

    enter_sandbox(output.parent)
    outcome = rehearse(program, setting, printed, arrived.storages.values())
    return pickle.dumps(_with_notes(outcome))


def _isolated(program: Program, setting: Setting, limits: Limits) -> Outcome:
    return _outcome(run_isolated(parcel.pack(program, setting), limits))


def _rehearse(program: Program, setting: Setting) -> Outcome:
    enter_sandbox()
    return _with_notes(rehearse(program, setting, printed))


def _with_notes(outcome: Outcome) -> Outcome:
    return replace(outcome, assumptions=(*outcome.assumptions, *notes()))


def _outcome(data: bytes) -> Outcome:
    outcome = pickle.loads(data)
    assert isinstance(outcome, Outcome)
    return outcome
