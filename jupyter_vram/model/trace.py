"""A recording as columns: every block of one device, when it came and went, and in what context.

All recorders (torch's profiler on the CPU, the CUDA allocator's history, a snapshot file, fake
tensors) end in this one type, and all analysis begins with it.

    blocks      one row per block; a block that existed before the recording has no alloc event,
                one that outlives it no free event
    events      one row per change, in the order in which it happened: +size or -size of a block
    contexts    where in the user's code a change happened; rows point into this table

The live bytes after event ``i`` are ``start_bytes + cumsum(change_bytes)[i]``: there is no other
source of a total, so parts always add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.units import BytesKind, Phase, RecorderKind

NONE = -1
"""In an index column: there is none."""

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code."""

    source: str
    """``""`` for the recorded cell; else a short name without a path: ``In [3]``, ``train.py``."""
    number: int
    """From 1. For the recorded cell: as the user sees it, the ``%%vram`` line counted."""

    def __str__(self) -> str:
        return f"{self.source}:{self.number}" if self.source else f"line {self.number}"


@dataclass(frozen=True, slots=True)
class Module:
    """A module that runs: its path in the model, and its class."""

    path: str
    """``model.transformer.h.0.mlp``; begins with the variable's name, or the root's class."""
    class_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where in the user's code a block came to be (or went)."""

    lines: tuple[Line, ...] = ()
    """Lines of cells (or, in a snapshot file, of the user's files) on the stack, outermost first.
    For a backward allocation: those of the forward operation whose gradient it computes."""
    module: Module | None = None
    """The innermost one. For a backward allocation: that of the forward operation."""
    op: str = ""
    """The outermost torch operation: ``aten::linear``, ``AddmmBackward0``."""
    phase: Phase = "other"


NOWHERE = Context()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """One row per block. All columns have the same length."""

    size_bytes: Int64
    """What it counts for: block bytes where an allocator is recorded, else tensor bytes."""
    requested_bytes: Int64
    """What was asked for; equal to `size_bytes` where no allocator is recorded."""
    alloc_event: Int64
    """Row of `Trace.change_bytes`, or `NONE`: it existed before the recording."""
    free_event: Int64
    """Row of `Trace.change_bytes`, or `NONE`: it outlives the recording."""
    context: Int32
    """Row of `Trace.contexts`: where it was allocated; `NONE` if before the recording."""
    identity: Int8
    """Row of `jupyter_vram.model.units.CATEGORIES`, where it is known by identity (parameter,
    buffer, gradient, optimizer state, input); else `NONE`."""
    owner: Int32
    """Row of `Trace.owners`; `NONE` if nobody is known to hold it."""
    within_op: NDArray[np.bool_]
    """Freed before the outermost torch operation that allocated it had ended."""
    saved: NDArray[np.bool_]
    """Allocated by an operation that autograd recorded, or freed by one of backward's."""
    address: Int64 | None = None
    """Where it lay, for recorders that tell."""

    def __len__(self) -> int:
        return len(self.size_bytes)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a block, as a user would say it."""

    name: str
    """``model.lm_head.weight``, ``optimizer.state[model.lm_head.weight]["exp_avg"]``,
    ``batch["input_ids"]``, ``losses[0]``."""
    through_graph: bool = False
    """It is not the tensor itself: its autograd graph keeps the block."""
    module: str = ""
    """Path of the module that a parameter, buffer, gradient or optimizer state belongs to."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A stretch of one phase. Nanoseconds since the epoch."""

    phase: Phase
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorFigures:
    """The caching allocator over the recording (CUDA and its simulation only). All in bytes, but
    for the counters. Fragmentation is ``inactive_split_bytes / reserved_bytes``, at the end."""

    reserved_bytes: int
    """At the end."""
    peak_reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None
    private_pool_bytes: int | None = None
    """Reserved in private pools (CUDA graphs): they hold their high-water mark."""
    alloc_retries: int | None = None
    ooms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that was recorded of one device."""

    recorder: RecorderKind
    bytes_kind: BytesKind
    device: str
    """``cpu``, ``cuda:0``."""
    start_ns: int
    """Nanoseconds since the epoch, like all times here."""
    end_ns: int
    time_ns: Int64
    """Per event; never falls."""
    change_bytes: Int64
    """Per event."""
    block: Int32
    """Per event: row of `blocks`."""
    blocks: Blocks
    contexts: tuple[Context, ...] = ()
    owners: tuple[Owner, ...] = ()
    modules: tuple[Module, ...] = ()
    """All that are named here, with their classes."""
    phases: tuple[PhaseSpan, ...] = ()
    allocator: AllocatorFigures | None = None
    exact: bool = True
    """False where something in between was not seen, so that the peak is a lower bound."""
    truncated: bool = False
    """The ring of events was too small: the oldest are missing, and what they allocated counts as
    existing before."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: blind spots, what was assumed."""

    @property
    def start_bytes(self) -> int:
        """Live when the recording began."""
        blocks = self.blocks
        return int(blocks.size_bytes[blocks.alloc_event == NONE].sum())


@dataclass(frozen=True, slots=True)
class CellSource:
    """The text of the recorded cell, as the user sees it."""

    text: str
    execution_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What one recorder brings back: a trace per device that was used."""

    traces: tuple[Trace, ...]
    source: CellSource | None = None
    name: str | None = None
    device_names: dict[str, str] = field(default_factory=dict)
    """``cuda:0`` → ``NVIDIA H200``, where known."""
    error: str | None = None
    """How the cell ended, if not well: ``KeyboardInterrupt``, ``OutOfMemoryError``."""
    notes: tuple[str, ...] = ()
