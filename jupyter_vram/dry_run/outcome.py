"""What a dry run's process brings back."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_vram.model.estimate import Assumption
from jupyter_vram.model.trace import Recording


@dataclass(frozen=True, slots=True)
class Failure:
    """How the user's code failed in the dry run."""

    kind: str
    """Class of the exception: ``RuntimeError``."""
    message: str
    line: int | None
    """Of the cell, as the user sees it; of the function's file, for a function."""
    traceback: str
    output: str = ""
    """The end of what the code printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A recording, of what ran until a failure if there was one."""

    recording: Recording | None
    failure: Failure | None = None
    assumptions: tuple[Assumption, ...] = ()
    emulated_s: float = 0.0
