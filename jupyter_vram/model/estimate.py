"""What a dry run adds to a report: from tensor bytes to the device, and on what it fits.

    tensors (exact) + reserved but free (simulated) + workspaces + context = the device's bytes

All bytes are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["fits", "tight", "does not fit"]


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A part of what the device must hold at the peak."""

    name: str
    """``tensors``, ``rounding``, ``reserved but free``, ``library workspaces``,
    ``CUDA context``."""
    bytes: int
    low_bytes: int
    high_bytes: int
    source: str
    """Where the figure comes from, as a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest value of a variable with which the cell fits a GPU, all others unchanged."""

    variable: str
    """``batch_size``."""
    value: int | None
    """``None``: not even the smallest value that was tried fits."""
    at_least: bool = False
    """It fits, and larger ones were not tried."""
    approximate: bool = False
    """By a straight line between the values that were tried, of which one fits and one does not."""


@dataclass(frozen=True, slots=True)
class GpuFit:
    """Whether the cell fits one GPU."""

    gpu: str
    """``RTX 4090``."""
    total_bytes: int
    usable_bytes: int
    """What the driver leaves to programs."""
    verdict: Verdict
    largest: tuple[Largest, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """A variable that was varied."""

    variable: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Peaks over one or two variables (``--vary``): one cell per pair of values."""

    axes: tuple[Axis, ...]
    """One or two. With one, the grid has one column."""
    device_bytes: tuple[int | None, ...]
    """Row by row: the first axis is the rows. ``None``: that dry run failed or was not made."""
    peak_bytes: tuple[int | None, ...]
    """Of the tensors alone."""
    failures: tuple[str, ...] = ()
    """Why cells are missing, as sentences."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """What could not be emulated, and what that means for the figures."""

    text: str
    """``line 7: nonzero() depends on data; as many as there are elements were assumed.``"""
    effect: str
    """``The peak may be lower.``"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What is known of the device from a dry run on it."""

    gpu: str | None
    """The one asked for, or the machine's; ``None``: none was named."""
    total_bytes: int | None
    peak_device_bytes: int
    """What NVML would charge the process at most: the parts' sum."""
    low_bytes: int
    high_bytes: int
    parts: tuple[DevicePart, ...]
    fits: tuple[GpuFit, ...] = ()
    """The GPU asked for first, then the table's, by memory."""
    assumptions: tuple[Assumption, ...] = ()
    grid: Grid | None = None
    emulated_s: float = 0.0
    """How long the dry run itself took; times in its curve are the emulation's, not a GPU's."""
