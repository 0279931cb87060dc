"""The truth of a workload by torch's own profiler: what was live when, to the byte.

The profiler runs from before the model's construction on, so that it knows the size of every block
that a step frees. Whose a block is comes from its address after the step.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from support.workloads import Workload, prelude

if TYPE_CHECKING:
    from torch import Tensor

SETUP, FIRST, SECOND = "setup", "first step", "second step"
SPANS = {"whole": (SETUP, FIRST), "first": (FIRST, FIRST), "second": (SECOND, SECOND)}
"""What is recorded → where it begins, where it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Of the workload's own blocks; all in bytes."""

    start_bytes: int
    peak_bytes: int
    end_bytes: int
    retained_bytes: int
    """Allocated during it and alive at its end."""
    at_peak: Mapping[str, int]
    """parameter, buffer, gradient, optimizer state: what lives at the end and did at the peak."""
    by_hand: Mapping[str, int]
    """The workload's own count after the step: the same four and ``retained`` (by the step)."""


@dataclass(frozen=True, slots=True)
class _Change:
    time_ns: int
    address: int
    change_bytes: int


@dataclass(frozen=True, slots=True)
class _Left:
    """After a step."""

    addresses: Mapping[str, Sequence[int]]
    by_hand: Mapping[str, int]


@cache
def profile(workload: Workload) -> Mapping[str, Truth]:
    """By what is recorded: ``whole`` (setup and first step), ``first`` (step), ``second``."""
    import torch
    from torch.profiler import ProfilerActivity, record_function

    names: dict[str, Any] = {}
    exec(prelude(), names)
    left = {}
    gc.collect()
    collects = gc.isenabled()
    gc.disable()  # what a cycle holds goes at the same moment in every run
    try:
        with torch.profiler.profile(
            activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profiler:
            with record_function(SETUP):
                exec(workload.setup, names)
            for step in (FIRST, SECOND):
                gc.collect()
                with record_function(step):
                    exec(workload.step, names)
                left[step] = _left(workload, names, first=step == FIRST)
    finally:
        if collects:
            gc.enable()
    changes, spans = _events(profiler)
    return {
        what: _truth(changes, spans[begin][0], spans[end][1], left[end])
        for what, (begin, end) in SPANS.items()
    }


def _left(workload: Workload, names: Mapping[str, Any], *, first: bool) -> _Left:
    import torch

    model, optimizer = names["model"], names["optimizer"]
    parameters = list(model.parameters())
    state = [] if optimizer is None else list(optimizer.state.values())
    tensors: dict[str, list[Tensor]] = {
        "parameter": parameters,
        "buffer": list(model.buffers()),
        "gradient": [p.grad for p in parameters if p.grad is not None],
        "optimizer state": [
            value for held in state for value in held.values() if isinstance(value, torch.Tensor)
        ],
    }
    return _Left(
        addresses={
            name: sorted({tensor.untyped_storage().data_ptr() for tensor in found})
            for name, found in tensors.items()
        },
        by_hand={
            "parameter": workload.parameter_bytes(names),
            "buffer": workload.buffer_bytes(names),
            "gradient": workload.gradient_bytes(names),
            "optimizer state": workload.optimizer_state_bytes(names),
            "retained": workload.retained_bytes(names, first=first),
        },
    )


def _events(profiler: Any) -> tuple[list[_Change], dict[str, tuple[int, int]]]:
    """All changes on the CPU by time; when each named stretch began and ended."""
    from torch._C._profiler import _EventType

    changes, spans = [], {}
    pending = list(profiler.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        kind, fields = event.typed
        if kind == _EventType.Allocation and fields.device.type == "cpu":
            changes.append(_Change(event.start_time_ns, fields.ptr, fields.alloc_size))
        elif event.name in (SETUP, FIRST, SECOND):
            spans[event.name] = event.start_time_ns, event.end_time_ns
    changes.sort(key=lambda change: change.time_ns)
    return changes, spans


def _truth(changes: list[_Change], start_ns: int, end_ns: int, left: _Left) -> Truth:
    live = start = peak = 0
    peak_ns = start_ns
    began: dict[int, _Change] = {}  # by address: those alive
    for change in changes:
        if change.time_ns > end_ns:
            break
        # The size of the block's own beginning: torch's may be that of an earlier block there.
        size = change.change_bytes
        if size > 0:
            began[change.address] = change
        else:
            block = began.pop(change.address, None)
            size = 0 if block is None else -block.change_bytes
        live += size
        if change.time_ns < start_ns:
            start = peak = live
        elif live > peak:
            peak, peak_ns = live, change.time_ns
    return Truth(
        start_bytes=start,
        peak_bytes=peak,
        end_bytes=live,
        retained_bytes=sum(b.change_bytes for b in began.values() if b.time_ns >= start_ns),
        at_peak={
            name: sum(
                began[address].change_bytes
                for address in addresses
                if began[address].time_ns <= peak_ns
            )
            for name, addresses in left.addresses.items()
        },
        by_hand=left.by_hand,
    )
