"""The exported events are well formed, and tell the recording's own figures."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest

from jupyter_vram.model.trace import NONE, PhaseSpan, Trace
from jupyter_vram.model.units import CATEGORIES
from jupyter_vram.recorders.snapshot_trace import traces_from_snapshot
from jupyter_vram.render import perfetto
from jupyter_vram.sources.snapshot_events import collect
from support.allocation_programs import STACKS
from support.allocator_rules import MIB
from support.caching_allocator import CachingAllocator

_COMMON = {"name": {"type": "string"}, "pid": {"type": "integer"}}
_TIME = {"type": "number", "minimum": 0}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "required": ["name", "ph", "pid", "args"],
                        "properties": {
                            **_COMMON,
                            "ph": {"const": "M"},
                            "name": {"enum": ["process_name", "thread_name"]},
                            "args": {"required": ["name"]},
                        },
                    },
                    {
                        "required": ["name", "ph", "ts", "dur", "pid", "tid"],
                        "properties": {**_COMMON, "ph": {"const": "X"}, "ts": _TIME, "dur": _TIME},
                    },
                    {
                        "required": ["name", "ph", "ts", "pid", "args"],
                        "properties": {
                            **_COMMON,
                            "ph": {"const": "C"},
                            "ts": _TIME,
                            "args": {
                                "type": "object",
                                "minProperties": 1,
                                "additionalProperties": {"type": "integer", "minimum": 0},
                            },
                        },
                    },
                ]
            },
        },
    },
}


def recorded() -> Trace:
    allocator = CachingAllocator()
    allocator.malloc(MIB)
    allocator.record()
    for i in range(8):
        allocator.malloc(1000 * i + 1, frames=STACKS[i % 5])
        if i % 3 == 2:
            allocator.free(max(allocator.devices[0].live))
    (trace,) = traces_from_snapshot(collect(allocator.snapshot()))
    return trace


def read(data: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    told = json.loads(data)
    jsonschema.validate(told, SCHEMA)
    return told, [event for event in told["traceEvents"] if event["ph"] == "C"]


def test_live_bytes_are_a_counter() -> None:
    trace = recorded()
    told, counters = read(perfetto.dumps(trace))
    live = [trace.start_bytes, *(trace.start_bytes + np.cumsum(trace.change_bytes)).tolist()]
    assert [event["args"]["live"] for event in counters] == live
    assert counters[0]["ts"] == 0
    assert [event["ts"] for event in counters] == sorted(event["ts"] for event in counters)
    assert told["otherData"]["device"] == "cuda:0"


def test_categories_add_up() -> None:
    trace = recorded()
    categories = (np.arange(len(trace.blocks)) % 4).astype(np.int8)
    categories[0] = NONE
    _, counters = read(perfetto.dumps(trace, categories))
    _, plain = read(perfetto.dumps(trace))
    assert [sum(event["args"].values()) for event in counters] == [
        event["args"]["live"] for event in plain
    ]
    assert set(counters[0]["args"]) == {*CATEGORIES[:4], "unknown"}
    with pytest.raises(ValueError, match="one row for each block"):
        perfetto.dumps(trace, categories[1:])


def test_phases_are_slices() -> None:
    trace = recorded()
    begin = trace.start_ns
    spans = (
        PhaseSpan("forward", begin, begin + 5_000),
        PhaseSpan("backward", begin + 5_000, begin + 9_000),
    )
    told, _ = read(perfetto.dumps(dataclasses.replace(trace, phases=spans)))
    slices = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert [(s["name"], s["ts"], s["dur"]) for s in slices] == [
        ("forward", 0, 5),
        ("backward", 5, 4),
    ]


def test_thinned_it_keeps_start_peak_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded()
    _, whole = read(perfetto.dumps(trace))
    monkeypatch.setattr(perfetto, "MAX_POINTS", 4)
    _, thin = read(perfetto.dumps(trace))
    assert len(thin) < len(whole)
    values = [event["args"]["live"] for event in thin]
    assert max(values) == max(event["args"]["live"] for event in whole)
    assert (values[0], values[-1]) == (whole[0]["args"]["live"], whole[-1]["args"]["live"])
