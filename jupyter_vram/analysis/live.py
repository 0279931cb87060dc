"""Live bytes of a trace: over time, at the peak, and which blocks they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, Int64, Trace

START = -1
"""The moment before the first event."""


def live_bytes(trace: Trace) -> Int64:
    """Shape ``(events + 1,)``: at the start, then after each event."""
    live = np.empty(len(trace.change_bytes) + 1, np.int64)
    live[0] = trace.start_bytes
    np.cumsum(trace.change_bytes, out=live[1:])
    live[1:] += live[0]
    return live


def peak_event(trace: Trace) -> int:
    """The event after which most bytes live, the first of equals; `START` if none adds any."""
    return int(live_bytes(trace).argmax()) - 1


def alive(trace: Trace, event: int) -> NDArray[np.bool_]:
    """Which rows of `Trace.blocks` live after an event (or at the `START`)."""
    blocks = trace.blocks
    here: NDArray[np.bool_] = (blocks.alloc_event <= event) & (
        (blocks.free_event == NONE) | (blocks.free_event > event)
    )
    return here


def seconds(trace: Trace, event: int) -> float:
    """When an event happened, since the recording began."""
    if event < 0 or not len(trace.time_ns):
        return 0.0
    return max(0.0, (int(trace.time_ns[event]) - trace.start_ns) / 1e9)
