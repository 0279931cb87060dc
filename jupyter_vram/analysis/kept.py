"""What a cell left behind, and who holds it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from jupyter_vram.analysis.attribution import cell_line
from jupyter_vram.analysis.live import alive
from jupyter_vram.model.report_data import Kept
from jupyter_vram.model.trace import NONE, Int8, Owner, Trace
from jupyter_vram.model.units import CATEGORIES

MOST_OF_A_KIND = 3
"""More elements of one container are one row."""
_STATE = re.compile(r"^(?P<optimizer>.*?)\.state\[.*\]$")


@dataclass(slots=True)
class _Group:
    bytes: int = 0
    count: int = 0
    through_graph: bool = False
    lines: dict[int | None, int] = field(default_factory=dict)


def kept_rows(trace: Trace, category: Int8) -> tuple[Kept, ...]:
    """Blocks that the recording allocated and that live at its end, by holder; largest first."""
    blocks = trace.blocks
    rows = np.flatnonzero(alive(trace, len(trace.change_bytes)) & (blocks.alloc_event != NONE))
    names = _names([trace.owners[row] for row in np.unique(blocks.owner[rows]) if row != NONE])
    lines = [cell_line(context) for context in trace.contexts]
    groups: dict[tuple[str | None, str], _Group] = {}
    columns = (blocks.owner[rows], category[rows], blocks.size_bytes[rows], blocks.context[rows])
    for owner, kind, size, context in zip(*(column.tolist() for column in columns), strict=True):
        holder = trace.owners[owner] if owner != NONE else None
        name = names[holder] if holder is not None else None
        group = groups.setdefault((name, CATEGORIES[kind]), _Group())
        group.bytes += size
        group.count += 1
        group.through_graph |= holder is not None and holder.through_graph
        line = lines[context] if context != NONE else None
        number = line.number if line is not None else None
        group.lines[number] = group.lines.get(number, 0) + size
    found = [_kept(name, kind, group) for (name, kind), group in groups.items()]
    return tuple(sorted(found, key=lambda row: (-row.bytes, row.name or "")))


def _kept(name: str | None, category: str, group: _Group) -> Kept:
    line = max(group.lines, key=lambda number: group.lines[number])
    return Kept(name, group.bytes, group.count, category, line, _hint(name, group))


def _hint(name: str | None, group: _Group) -> str | None:
    if name is None or not group.through_graph:
        return None
    return "its autograd graph holds this memory: keep .item() or .detach() of it, not the tensor"


def _names(owners: Sequence[Owner]) -> dict[Owner, str]:
    """What each owner's row is called: many elements of one thing are called by that thing."""
    short = {owner: _collective(owner) for owner in owners}
    # The same thing can hold by itself and through its graph.
    counts = Counter({(name, owner.name): name for owner, name in short.items()}.values())
    return {
        owner: name if counts[name] > MOST_OF_A_KIND else owner.name
        for owner, name in short.items()
    }


def _collective(owner: Owner) -> str:
    """``model.a.b.weight.grad`` → ``model.….grad``; ``losses[17]`` → ``losses[…]``."""
    state = _STATE.match(owner.name)
    if state and owner.module:
        return f"{state['optimizer']}.state"
    if owner.module:
        root, last = owner.name.partition(".")[0], owner.name.rpartition(".")[2]
        return f"{root}.….grad" if last == "grad" else f"{root}.…"
    base, bracket, _ = owner.name.partition("[")
    return f"{base}[…]" if bracket else owner.name
