"""A trace → JSON in the Trace Event Format, for ui.perfetto.dev and chrome://tracing: live bytes as
counters (by category, where known), phases as slices."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, Int64, Trace
from jupyter_vram.model.units import CATEGORIES

MAX_POINTS = 50_000
_PROCESS, _PHASES = 1, 1
_UNKNOWN = CATEGORIES.index("unknown")


def dumps(trace: Trace, categories: NDArray[np.int8] | None = None) -> bytes:
    """The events as UTF-8 JSON. `categories`, per block, are rows of `CATEGORIES` or `NONE`."""
    return json.dumps(to_events(trace, categories), separators=(",", ":")).encode()


def to_events(trace: Trace, categories: NDArray[np.int8] | None = None) -> dict[str, Any]:
    """The events as a value. Times are microseconds since the recording began.

    More than `MAX_POINTS` changes are thinned: of each stretch, its highest point stays, so the
    peak always does.
    """
    events: list[dict[str, Any]] = [
        _named("process_name", f"jupyter_vram {trace.device}", 0),
        _named("thread_name", "phases", _PHASES),
    ]
    events.extend(
        {
            "name": span.phase,
            "cat": "phase",
            "ph": "X",
            "ts": _us(trace, span.start_ns),
            "dur": (span.end_ns - span.start_ns) / 1000,
            "pid": _PROCESS,
            "tid": _PHASES,
        }
        for span in trace.phases
    )
    times, names, values = _counters(trace, categories)
    label = f"live bytes ({trace.bytes_kind})"
    for time_ns, row in zip(times.tolist(), values.tolist(), strict=True):
        events.append(
            {
                "name": label,
                "ph": "C",
                "ts": _us(trace, time_ns),
                "pid": _PROCESS,
                "args": dict(zip(names, row, strict=True)),
            }
        )
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "recorder": trace.recorder,
            "device": trace.device,
            "truncated": trace.truncated,
            "notes": list(trace.notes),
        },
    }


def _named(kind: str, name: str, thread: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _us(trace: Trace, time_ns: int) -> float:
    return (time_ns - trace.start_ns) / 1000


def _counters(
    trace: Trace, categories: NDArray[np.int8] | None
) -> tuple[Int64, tuple[str, ...], Int64]:
    """Times; the counters' names; their values: a row per time. The first row is the start."""
    blocks, n = trace.blocks, len(trace.change_bytes)
    before = blocks.alloc_event == NONE
    total = np.concatenate([[trace.start_bytes], trace.change_bytes]).cumsum()
    kept = _thinned(total)
    times = np.concatenate([[trace.start_ns], trace.time_ns])[kept]
    if categories is None:
        return times, ("live",), total[kept].reshape(-1, 1)
    if len(categories) != len(blocks):
        raise ValueError("categories need one row for each block")
    kinds = np.where(categories == NONE, _UNKNOWN, categories)
    present = np.unique(kinds).tolist()
    values = np.empty((len(kept), len(present)), np.int64)
    for column, kind in enumerate(present):
        curve = np.zeros(n + 1, np.int64)
        curve[0] = blocks.size_bytes[before & (kinds == kind)].sum()
        curve[1:] = np.where(kinds[trace.block] == kind, trace.change_bytes, 0)
        values[:, column] = curve.cumsum()[kept]
    return times, tuple(CATEGORIES[kind] for kind in present), values


def _thinned(total: Int64) -> Int64:
    """Rows to keep: the first, the last, and the highest of each stretch."""
    n = len(total)
    if n <= MAX_POINTS:
        return np.arange(n)
    step = -(-n // MAX_POINTS)
    padded = np.full(-(-n // step) * step, np.iinfo(np.int64).min)
    padded[:n] = total
    highest = padded.reshape(-1, step).argmax(axis=1) + np.arange(0, len(padded), step)
    return np.unique(np.concatenate([[0], highest, [n - 1]]))
