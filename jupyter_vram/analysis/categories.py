"""What kind of thing each block is.

By identity where that is known (parameter, buffer, gradient, optimizer state, input); else by what
it did: saved for backward (activation), gone within the operation, backward or optimizer step that
made it (temporary), made by the user and outside of autograd (input). A result without gradients
that outlives the recording is an activation if a module made it, else an input. What remains is
unknown.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, Context, Int8, Trace
from jupyter_vram.model.units import CATEGORIES, Category

# fmt: off
_FACTORIES = frozenset((
    "aten::arange", "aten::as_tensor", "aten::cat", "aten::clone", "aten::copy_", "aten::empty",
    "aten::empty_like", "aten::empty_strided", "aten::eye", "aten::fill_", "aten::full",
    "aten::full_like", "aten::lift_fresh", "aten::linspace", "aten::logspace",
    "aten::multinomial", "aten::normal", "aten::normal_", "aten::ones", "aten::ones_like",
    "aten::pin_memory", "aten::rand", "aten::rand_like", "aten::randint", "aten::randint_like",
    "aten::randn", "aten::randn_like", "aten::randperm", "aten::scalar_tensor", "aten::stack",
    "aten::tensor", "aten::to", "aten::_to_copy", "aten::tril_indices", "aten::triu_indices",
    "aten::uniform_", "aten::zeros", "aten::zeros_like",
))
# fmt: on


def code(category: Category) -> int:
    """The category's row in `CATEGORIES`."""
    return CATEGORIES.index(category)


def categorize(trace: Trace) -> Int8:
    """Per block, its row in `CATEGORIES`."""
    blocks = trace.blocks
    during = blocks.alloc_event != NONE
    unset = blocks.identity == NONE
    result = np.where(unset, code("unknown"), blocks.identity).astype(np.int8)

    def settle(which: NDArray[np.bool_], category: Category) -> None:
        nonlocal unset
        result[which & unset] = code(category)
        unset = unset & ~which

    settle(during & blocks.within_op, "temporary")
    settle(during & blocks.saved, "activation")
    known, passing, made, forward = _by_context(trace)
    settle(during & passing, "temporary")
    settle(during & made, "input")
    if trace.recorder == "snapshot":
        return result  # it tells nothing of autograd, so what is left may be anything
    stays = during & (blocks.free_event == NONE)
    settle(stays & forward, "activation")
    settle(stays & known & (blocks.owner != NONE), "input")
    settle(during & known, "temporary")
    graph, held = _by_owner(trace)
    settle(~during & graph, "activation")
    settle(~during & held, "input")
    return result


def _by_context(trace: Trace) -> tuple[NDArray[np.bool_], ...]:
    """Per block: its context is known; it is of backward or an optimizer; it makes new data; it is
    of a module's forward."""

    def rows(holds: Callable[[Context], bool]) -> NDArray[np.bool_]:
        # NONE is the last row.
        by_context = np.array([*map(holds, trace.contexts), False], np.bool_)
        found: NDArray[np.bool_] = by_context[trace.blocks.context]
        return found

    known = rows(lambda c: bool(c.op or c.lines or c.module))
    return (
        known,
        rows(lambda c: c.phase in ("backward", "recompute", "optimizer")),
        known & rows(_makes),
        rows(lambda c: c.phase == "forward"),
    )


def _makes(context: Context) -> bool:
    outside = context.phase == "other" and context.module is None
    return outside and (not context.op or context.op in _FACTORIES)


def _by_owner(trace: Trace) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Per block: a graph holds it; a variable holds it."""
    graph = np.array([owner.through_graph for owner in trace.owners] + [False], np.bool_)
    rows = trace.blocks.owner
    return graph[rows], (rows != NONE) & ~graph[rows]
