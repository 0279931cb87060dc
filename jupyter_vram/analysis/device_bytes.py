"""From the tensors of a dry run to the bytes that a GPU must have, part by part.

reserved at the peak = tensors + rounding + library workspaces + reserved but free
device               = reserved + CUDA context
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from jupyter_vram.analysis.allocator_simulation import MIB, Simulation, simulate
from jupyter_vram.analysis.live import live_bytes
from jupyter_vram.model import overheads
from jupyter_vram.model.estimate import DevicePart, GpuFit, Largest, Verdict
from jupyter_vram.model.gpus import Gpu
from jupyter_vram.model.overheads import Overhead
from jupyter_vram.model.trace import Trace

SPREAD = 0.05
"""Of the blocks: by so much more may be reserved where operations' own scratch memory, or several
streams, break free blocks up otherwise than in the simulation."""


class DeviceBytes(NamedTuple):
    """What a device must have at the peak."""

    parts: tuple[DevicePart, ...]

    @property
    def bytes(self) -> int:
        """The parts' sum."""
        return sum(part.bytes for part in self.parts)

    @property
    def low_bytes(self) -> int:
        """Of the lower bounds."""
        return sum(part.low_bytes for part in self.parts)

    @property
    def high_bytes(self) -> int:
        """Of the upper bounds."""
        return sum(part.high_bytes for part in self.parts)


class Need:
    """What one dry run needs, on any GPU."""

    def __init__(self, trace: Trace, measured_context: Overhead | None = None) -> None:
        """`measured_context`: of this machine, in place of the table's."""
        self.trace = trace
        self._context = measured_context or overheads.context()
        self._simulations: dict[int, Simulation] = {}

    @cached_property
    def tensor_bytes(self) -> int:
        """The tensors' peak."""
        return int(live_bytes(self.trace).max())

    @cached_property
    def convolves(self) -> bool:
        """Whether convolutions run."""
        return any("conv" in context.op.lower() for context in self.trace.contexts)

    def simulation(self, gpu: Gpu) -> Simulation:
        """The allocator's figures on a GPU."""
        size_bytes = overheads.workspace(gpu.compute_capability).bytes
        if size_bytes not in self._simulations:
            self._simulations[size_bytes] = simulate(self.trace, size_bytes)
        return self._simulations[size_bytes]

    def on(self, gpu: Gpu) -> DeviceBytes:
        """What it needs on a GPU; on the CPU, what the tensors need."""
        tensors = _exact(
            "tensors",
            self.tensor_bytes,
            "The tensors' own peak, counted operation by operation in the dry run"
            + ("." if self.trace.exact else ": a lower bound, since not all was seen."),
        )
        if self.trace.device == "cpu":
            return DeviceBytes((tensors,))
        simulation = self.simulation(gpu)
        blocks = simulation.allocated_at_tensor_peak_bytes
        free = simulation.peak_reserved_bytes - blocks - simulation.workspace_bytes
        workspace = overheads.workspace(gpu.compute_capability)
        extra = overheads.cudnn() if self.convolves else None
        return DeviceBytes(
            (
                tensors,
                _exact(
                    "rounding",
                    blocks - self.tensor_bytes,
                    "Blocks are multiples of 512 bytes, and some are not split: the allocator's"
                    " rules, replayed.",
                ),
                DevicePart(
                    "library workspaces",
                    simulation.workspace_bytes,
                    simulation.workspace_bytes,
                    simulation.workspace_bytes + (extra.high_bytes if extra else 0),
                    _sentence(workspace.source if simulation.workspace_bytes else "none is used")
                    + (f" {_sentence(extra.source)}" if extra else ""),
                ),
                DevicePart(
                    "reserved but free",
                    free,
                    free // 2,
                    free + int(SPREAD * blocks) + 2 * MIB,
                    "The caching allocator's segments that no tensor fills at the peak: its rules,"
                    " replayed on the order of the dry run.",
                ),
                DevicePart(
                    "CUDA context",
                    self._context.bytes,
                    self._context.low_bytes,
                    self._context.high_bytes,
                    _sentence(self._context.source),
                ),
            )
        )


def fit(need: Need, gpu: Gpu, largest: tuple[Largest, ...] = ()) -> GpuFit:
    """Whether it fits: surely, perhaps, or not."""
    device = need.on(gpu)
    usable = usable_bytes(gpu)
    return GpuFit(gpu.name, gpu.total_bytes, usable, verdict(device, usable), largest)


def verdict(device: DeviceBytes, usable: int) -> Verdict:
    """``tight`` where the interval holds what is usable."""
    if device.high_bytes <= usable:
        return "fits"
    return "does not fit" if device.low_bytes > usable else "tight"


def usable_bytes(gpu: Gpu) -> int:
    """What the driver leaves to programs."""
    kept = gpu.reserved_bytes
    return gpu.total_bytes - (overheads.driver_bytes(gpu.total_bytes) if kept is None else kept)


def _exact(name: str, size_bytes: int, source: str) -> DevicePart:
    return DevicePart(name, size_bytes, size_bytes, size_bytes, source)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."
