"""Traces made by hand: a list of blocks with when they come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jupyter_vram.model.trace import (
    NONE,
    Blocks,
    CellSource,
    Context,
    Line,
    Module,
    Owner,
    PhaseSpan,
    Recording,
    Trace,
)
from jupyter_vram.model.units import CATEGORIES, Category, Phase

START_NS = 1_764_547_200_000_000_000
STEP_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A block. It comes at a moment (``None``: it was there before) and goes (or stays)."""

    size: int
    comes: int | None = None
    goes: int | None = None
    line: int | None = None
    inner: str | None = None
    """A line of another cell that the line called: ``In [1]:7``."""
    module: str = ""
    op: str = ""
    phase: Phase = "forward"
    identity: Category | None = None
    owner: str | None = None
    owner_module: str = ""
    through_graph: bool = False
    within: bool = False
    saved: bool = False
    requested: int | None = None


def context_of(made: Made) -> Context:
    lines = () if made.line is None else (Line("", made.line),)
    if made.inner:
        cell, _, number = made.inner.rpartition(":")
        lines = (*lines, Line(cell, int(number)))
    module = Module(made.module, made.module.title()) if made.module else None
    return Context(lines=lines, module=module, op=made.op, phase=made.phase)


def trace_of(
    blocks: Sequence[Made],
    *,
    device: str = "cpu",
    phases: tuple[PhaseSpan, ...] = (),
    modules: tuple[Module, ...] = (),
) -> Trace:
    """Moments are of the order in which things happen; a block goes before another comes."""
    moments = sorted(
        [(made.comes, 1, row) for row, made in enumerate(blocks) if made.comes is not None]
        + [(made.goes, 0, row) for row, made in enumerate(blocks) if made.goes is not None]
    )
    at = {(row, comes): event for event, (_, comes, row) in enumerate(moments)}
    contexts = list(dict.fromkeys(context_of(made) for made in blocks if made.comes is not None))
    owners = [
        Owner(made.owner, through_graph=made.through_graph, module=made.owner_module)
        for made in blocks
        if made.owner is not None
    ]
    owners = list(dict.fromkeys(owners))

    def owner_row(made: Made) -> int:
        if made.owner is None:
            return NONE
        owner = Owner(made.owner, through_graph=made.through_graph, module=made.owner_module)
        return owners.index(owner)

    sizes = np.array([made.size for made in blocks], np.int64)
    return Trace(
        recorder="cpu",
        bytes_kind="tensor",
        device=device,
        start_ns=START_NS,
        end_ns=START_NS + 1000 * STEP_NS,
        time_ns=np.array([START_NS + moment * STEP_NS for moment, _, _ in moments], np.int64),
        change_bytes=np.array(
            [blocks[row].size if comes else -blocks[row].size for _, comes, row in moments],
            np.int64,
        ),
        block=np.array([row for _, _, row in moments], np.int32),
        blocks=Blocks(
            size_bytes=sizes,
            requested_bytes=np.array(
                [made.size if made.requested is None else made.requested for made in blocks],
                np.int64,
            ),
            alloc_event=np.array([at.get((row, 1), NONE) for row in range(len(blocks))], np.int64),
            free_event=np.array([at.get((row, 0), NONE) for row in range(len(blocks))], np.int64),
            context=np.array(
                [
                    NONE if made.comes is None else contexts.index(context_of(made))
                    for made in blocks
                ],
                np.int32,
            ),
            identity=np.array(
                [
                    NONE if made.identity is None else CATEGORIES.index(made.identity)
                    for made in blocks
                ],
                np.int8,
            ),
            owner=np.array([owner_row(made) for made in blocks], np.int32),
            within_op=np.array([made.within for made in blocks], np.bool_),
            saved=np.array([made.saved for made in blocks], np.bool_),
        ),
        contexts=tuple(contexts),
        owners=tuple(owners),
        modules=modules,
        phases=phases,
    )


def recording_of(*traces: Trace, text: str | None = None) -> Recording:
    source = None if text is None else CellSource(text, 3)
    return Recording(traces=traces, source=source)
