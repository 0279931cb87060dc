"""The exported snapshot: torch's own tools read it, and read back it has the same peak."""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import pickle
import pickletools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from jupyter_vram.model.trace import NONE, Line, Module, Trace
from jupyter_vram.recorders.snapshot_trace import traces_from_snapshot
from jupyter_vram.render.memory_viz import dumps, to_snapshot
from jupyter_vram.sources.snapshot_events import collect
from jupyter_vram.sources.snapshot_pickle import loads_snapshot
from support import allocation_programs
from support.allocation_programs import STACKS, run
from support.allocator_rules import MIB
from support.caching_allocator import CachingAllocator


def recorded(program: list[Any] | None = None, device: int = 0) -> Trace:
    allocator = CachingAllocator(devices=2)
    kept = allocator.malloc(MIB, device=device)
    allocator.malloc(3 * MIB, device=device)
    allocator.record()
    if program is None:
        for i in range(12):
            allocator.malloc(100_000 * i + 1, device=device, frames=STACKS[i % 5])
            if i % 3 == 2:
                allocator.free(max(allocator.devices[device].live))
        allocator.free(kept)
        allocator.malloc(19 * MIB + 5, device=device, frames=STACKS[0])
    else:
        run(allocator, program)
    traces = traces_from_snapshot(collect(allocator.snapshot()))
    return next(trace for trace in traces if trace.device == f"cuda:{device}")


def curve(trace: Trace) -> list[int]:
    total = trace.start_bytes + np.cumsum(trace.change_bytes)
    return [trace.start_bytes, *total.tolist()]


def read_back(trace: Trace) -> Trace:
    (back,) = traces_from_snapshot(loads_snapshot(dumps(trace)))
    return back


@pytest.mark.parametrize("device", [0, 1])
def test_read_back_it_is_the_same_recording(device: int) -> None:
    trace = recorded(device=device)
    back = read_back(trace)
    assert curve(back) == curve(trace)
    assert back.device == trace.device == f"cuda:{device}"
    assert back.bytes_kind == "block"
    assert (back.time_ns == trace.time_ns).all()
    lines = [trace.contexts[row].lines for row in trace.blocks.context if row != NONE]
    again = [back.contexts[row].lines for row in back.blocks.context if row != NONE]
    assert again == lines
    assert (Line("cell", 2), Line("train.py", 1)) in lines


@given(program=allocation_programs.programs)
@settings(max_examples=60, deadline=None)
def test_any_recording_keeps_its_curve(program: list[Any]) -> None:
    trace = recorded(program)
    assert curve(read_back(trace)) == curve(trace)


def test_tensor_bytes_are_not_rounded() -> None:
    trace = recorded()
    tensors = dataclasses.replace(
        trace,
        recorder="cpu",
        bytes_kind="tensor",
        device="cpu",
        blocks=dataclasses.replace(trace.blocks, size_bytes=trace.blocks.requested_bytes),
        change_bytes=np.sign(trace.change_bytes) * trace.blocks.requested_bytes[trace.block],
    )
    back = read_back(tensors)
    assert curve(back) == curve(tensors)
    assert back.bytes_kind == "tensor"


def test_live_blocks_never_overlap() -> None:
    snapshot = to_snapshot(recorded())
    (events,) = snapshot["device_traces"]
    live: dict[int, int] = {}
    for event in events:
        if event["action"] == "alloc":
            begin, end = event["addr"], event["addr"] + event["size"]
            assert all(end <= a or a + size <= begin for a, size in live.items())
            live[begin] = event["size"]
        elif event["action"] == "free_requested":
            live.pop(event["addr"], None)
    (segment,) = snapshot["segments"]
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]


def test_torchs_own_tools_read_it() -> None:
    viz: Any = importlib.import_module("torch.cuda._memory_viz")
    data = dumps(recorded())
    snapshot = pickle.loads(data)

    def as_text(lines: str) -> str:
        return lines

    total = sum(b["requested_size"] for b in snapshot["segments"][0]["blocks"])
    for told in (viz.memory(snapshot, as_text), viz.segments(snapshot, as_text)):
        allocated = [line for line in told.splitlines() if ";active_allocated;" in line]
        sizes = [int(line.rpartition(" ")[2]) for line in allocated if "<gaps>" not in line]
        assert sum(sizes) == total
        assert any("train.py:1:" in line for line in allocated)
    assert "segments: 1" in viz.segsum(snapshot)
    replayed = viz.trace(snapshot)
    assert f"{len(snapshot['device_traces'][0])} entries" in replayed
    for plot in (viz.trace_plot, viz.segment_plot):
        page = plot(snapshot)
        found = re.search(r"local_files = (\[.*\])", page)
        assert found
        (file,) = json.loads(found[1])
        assert pickle.loads(base64.b64decode(file["base64"])) == snapshot


def test_the_pickle_names_no_class() -> None:
    data = dumps(recorded())
    assert data[:2] == b"\x80\x04"
    names = {opcode.name for opcode, _, _ in pickletools.genops(data)}
    assert not names & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "INST", "OBJ"}


def test_ops_modules_and_categories_are_told() -> None:
    trace = recorded()
    first = dataclasses.replace(
        trace.contexts[0], op="aten::linear", module=Module("model.h.0", "Linear")
    )
    trace = dataclasses.replace(trace, contexts=(first, *trace.contexts[1:]))
    categories = np.full(len(trace.blocks), NONE, np.int8)
    categories[0] = 4
    (events,) = to_snapshot(trace, categories)["device_traces"]
    assert events[0]["category"] == "activation"
    assert events[1]["category"] == "unknown"
    assert [frame["name"] for frame in events[0]["frames"][:2]] == ["aten::linear", "model.h.0"]
    with pytest.raises(ValueError, match="one row for each block"):
        to_snapshot(trace, categories[1:])


def test_an_empty_recording() -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.free(allocator.malloc(1))
    (trace,) = traces_from_snapshot(collect(allocator.snapshot()))
    nothing = dataclasses.replace(
        trace,
        time_ns=trace.time_ns[:0],
        change_bytes=trace.change_bytes[:0],
        block=trace.block[:0],
        blocks=dataclasses.replace(
            trace.blocks,
            **{
                field.name: getattr(trace.blocks, field.name)[:0]
                for field in dataclasses.fields(trace.blocks)
            },
        ),
    )
    snapshot = to_snapshot(nothing)
    assert snapshot["segments"] == []
    assert snapshot["device_traces"] == [[]]
