"""The truth of a workload by torch's own profiler: what was live when, to the byte.

The profiler runs from the model's construction on, so that it knows the size of every block that
the step frees. Whose a block is comes from its address after the step.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.workloads import Workload, prelude

if TYPE_CHECKING:
    from torch import Tensor

STEP = "the step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Of the workload's own blocks; all in bytes."""

    start_bytes: int
    peak_bytes: int
    end_bytes: int
    retained_bytes: int
    """Allocated by the step and alive at its end."""
    at_peak: Mapping[str, int]
    """parameter, buffer, gradient, optimizer state: of those alive at the end, what was there at
    the peak."""
    names: Mapping[str, Any]
    """After the step."""


@dataclass(frozen=True, slots=True)
class _Change:
    time_ns: int
    address: int
    change_bytes: int


def profile(workload: Workload, *, warm: bool = False, whole: bool = False) -> Truth:
    """`warm`: it is the second step that counts. `whole`: the setup belongs to the step."""
    import torch
    from torch.profiler import ProfilerActivity

    names: dict[str, Any] = {}
    exec(prelude(), names)
    gc.collect()
    collects = gc.isenabled()
    gc.disable()  # what a cycle holds goes at the same moment in every run
    try:
        with torch.profiler.profile(
            activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
        ) as profiler:
            if not whole:
                exec(workload.setup, names)
                if warm:
                    exec(workload.step, names)
            with torch.profiler.record_function(STEP):
                exec(workload.whole if whole else workload.step, names)
    finally:
        if collects:
            gc.enable()
    changes, start_ns, end_ns = _changes(profiler)
    return _truth(changes, start_ns, end_ns, names)


def _changes(profiler: Any) -> tuple[list[_Change], int, int]:
    """All changes on the CPU by time, and the beginning and end of the step."""
    from torch._C._profiler import _EventType

    changes, span = [], None
    pending = list(profiler.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending.extend(event.children)
        kind, fields = event.typed
        if kind == _EventType.Allocation and fields.device.type == "cpu":
            changes.append(_Change(event.start_time_ns, fields.ptr, fields.alloc_size))
        elif event.name == STEP:
            span = event.start_time_ns, event.end_time_ns
    assert span is not None
    changes.sort(key=lambda change: change.time_ns)
    return changes, *span


def _truth(changes: list[_Change], start_ns: int, end_ns: int, names: Mapping[str, Any]) -> Truth:
    live = start = peak = 0
    peak_ns = start_ns
    began: dict[int, _Change] = {}  # by address: those alive
    for change in changes:
        if change.time_ns > end_ns:
            break
        live += change.change_bytes
        if change.change_bytes > 0:
            began[change.address] = change
        else:
            began.pop(change.address, None)
        if change.time_ns < start_ns:
            start = peak = live
        elif live > peak:
            peak, peak_ns = live, change.time_ns
    at_peak = {
        name: sum(
            block.change_bytes
            for address in {tensor.untyped_storage().data_ptr() for tensor in tensors}
            if (block := began[address]).time_ns <= peak_ns
        )
        for name, tensors in _identities(names).items()
    }
    retained = sum(b.change_bytes for b in began.values() if b.time_ns >= start_ns)
    return Truth(
        start_bytes=start,
        peak_bytes=peak,
        end_bytes=live,
        retained_bytes=retained,
        at_peak=at_peak,
        names=names,
    )


def _identities(names: Mapping[str, Any]) -> dict[str, Iterable[Tensor]]:
    import torch

    model, optimizer = names["model"], names["optimizer"]
    parameters = list(model.parameters())
    state = [] if optimizer is None else list(optimizer.state.values())
    return {
        "parameter": parameters,
        "buffer": list(model.buffers()),
        "gradient": [p.grad for p in parameters if p.grad is not None],
        "optimizer state": [
            value for held in state for value in held.values() if isinstance(value, torch.Tensor)
        ],
    }
