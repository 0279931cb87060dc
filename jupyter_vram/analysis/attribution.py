"""Whose the bytes are that live after an event: by category, line, module or operation.

The rows of each dimension add up to the live bytes, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.analysis.live import alive
from jupyter_vram.model.report_data import WITHIN, By, Row
from jupyter_vram.model.trace import NONE, Context, Int8, Int64, Line, Trace
from jupyter_vram.model.units import CATEGORIES

NO_LINE = "(no line)"
NO_MODULE = "(no module)"
NO_OP = "(no operation)"


def before(category: str) -> str:
    """The name of what was there before the recording."""
    return f"before: {category}"


def cell_line(context: Context) -> Line | None:
    """The innermost line of the recorded cell."""
    return next((line for line in reversed(context.lines) if not line.source), None)


def line_name(context: Context) -> str:
    """The innermost line of the cell, and what it called of the user's other cells or files."""
    if not context.lines:
        return NO_LINE
    line, innermost = cell_line(context), context.lines[-1]
    return str(innermost) if line in (None, innermost) else f"{line}{WITHIN}{innermost}"


def module_path(context: Context) -> str:
    """The innermost module."""
    return context.module.path if context.module is not None else NO_MODULE


def module_paths(trace: Trace) -> tuple[Sequence[str], Sequence[str]]:
    """By context, and by owner (that of its parameter; "" for other owners)."""
    return [module_path(c) for c in trace.contexts], [owner.module for owner in trace.owners]


def rows_at(trace: Trace, category: Int8, event: int, by: By) -> tuple[Row, ...]:
    """The parts of what lives after `event`, largest first. `category`: per block."""
    mask = alive(trace, event)
    blocks = trace.blocks
    if by == "category":
        names: list[str] = list(CATEGORIES)
        keys = category[mask].astype(np.int64)
    elif by == "module":
        names, keys = _module_keys(trace, mask)
    else:
        of = line_name if by == "line" else _op_name
        none = NO_LINE if by == "line" else NO_OP
        names = [of(context) for context in trace.contexts]
        names += [none, *map(before, CATEGORIES)]
        first_before = len(trace.contexts) + 1
        keys = np.where(
            blocks.alloc_event[mask] == NONE,
            first_before + category[mask].astype(np.int64),
            np.where(blocks.context[mask] == NONE, first_before - 1, blocks.context[mask]),
        )
    return group(names, keys, blocks.size_bytes[mask])


def _op_name(context: Context) -> str:
    return context.op or NO_OP


def _module_keys(trace: Trace, mask: NDArray[np.bool_]) -> tuple[list[str], Int64]:
    """A parameter, and what belongs to it, counts for its module, whatever allocated it."""
    by_context, by_owner = module_paths(trace)
    names = [*by_context, *by_owner, NO_MODULE]
    nobody = len(names) - 1
    blocks = trace.blocks
    owner, context = blocks.owner[mask], blocks.context[mask]
    belongs = np.array([bool(path) for path in by_owner] + [False], np.bool_)[owner]
    keys = np.where(
        belongs,
        len(by_context) + owner.astype(np.int64),
        np.where(context == NONE, nobody, context),
    )
    return names, keys


def group(names: Sequence[str], keys: Int64, sizes: Int64) -> tuple[Row, ...]:
    """Sum sizes by key, then by the key's name; largest first."""
    counts = np.bincount(keys, minlength=len(names))
    used = np.flatnonzero(counts)
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, keys, sizes)
    merged: dict[str, tuple[int, int]] = {}
    for key in used.tolist():
        size, count = merged.get(names[key], (0, 0))
        merged[names[key]] = (size + int(sums[key]), count + int(counts[key]))
    rows = [Row(name, size, count) for name, (size, count) in merged.items() if count]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.name)))
