"""Snapshots of a simulated allocator whose answers are known, and real ones, become true traces."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vram.model.trace import NONE, Context, Line, Trace
from jupyter_vram.recorders.snapshot_trace import TraceOptions, traces_from_snapshot
from jupyter_vram.sources.snapshot_events import collect
from jupyter_vram.sources.snapshot_pickle import load_snapshot, loads_snapshot
from support import allocation_programs
from support.allocation_programs import STACKS, run
from support.allocator_rules import MIB, rounded
from support.caching_allocator import CachingAllocator, OutOfMemoryError, Version

REAL = Path(__file__).resolve().parents[1] / "data" / "snapshots"


def traces(allocator: CachingAllocator, **options: Any) -> dict[str, Trace]:
    snapshot = collect(allocator.snapshot())
    return {t.device: t for t in traces_from_snapshot(snapshot, TraceOptions(**options))}


def live(trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Live bytes at the start and after each event."""
    return np.concatenate([[trace.start_bytes], trace.start_bytes + np.cumsum(trace.change_bytes)])


def peak(trace: Trace) -> int:
    return int(live(trace).max())


def at_peak(trace: Trace) -> list[int]:
    """Sizes of the blocks alive at the (first) peak."""
    event = int(live(trace).argmax()) - 1
    blocks = trace.blocks
    alive = (blocks.alloc_event <= event) & (
        (blocks.free_event == NONE) | (blocks.free_event > event)
    )
    return sorted(blocks.size_bytes[alive].tolist())


def retained(trace: Trace) -> int:
    blocks = trace.blocks
    kept = (blocks.alloc_event != NONE) & (blocks.free_event == NONE)
    return int(blocks.size_bytes[kept].sum())


def check_form(trace: Trace) -> None:
    blocks, n = trace.blocks, len(trace.change_bytes)
    assert len(trace.time_ns) == len(trace.block) == n
    assert (np.diff(trace.time_ns) >= 0).all()
    assert (blocks.size_bytes >= blocks.requested_bytes).all()
    allocated = np.flatnonzero(blocks.alloc_event != NONE)
    freed = np.flatnonzero(blocks.free_event != NONE)
    assert (trace.block[blocks.alloc_event[allocated]] == allocated).all()
    assert (trace.block[blocks.free_event[freed]] == freed).all()
    assert (trace.change_bytes[blocks.alloc_event[allocated]] == blocks.size_bytes[allocated]).all()
    assert (trace.change_bytes[blocks.free_event[freed]] == -blocks.size_bytes[freed]).all()
    assert len(allocated) + len(freed) == n
    assert ((blocks.context != NONE) == (blocks.alloc_event != NONE)).all()


def test_a_block_counts_as_the_allocator_sets_it_aside() -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.malloc(1000)
    # 19.5 MiB of a segment of 20 MiB: 512 KiB are left, too little for a block of its own.
    whole = allocator.malloc(19 * MIB + MIB // 2)
    # Freed before the end, so the segments no longer tell its size.
    allocator.free(whole)
    allocator.malloc(2 * MIB)
    (trace,) = traces(allocator).values()
    assert trace.blocks.size_bytes.tolist() == [1024, 20 * MIB, 2 * MIB]
    assert trace.blocks.requested_bytes.tolist() == [1000, 19 * MIB + MIB // 2, 2 * MIB]
    assert peak(trace) == 1024 + 20 * MIB == allocator.answers().peak
    check_form(trace)


@given(
    before=allocation_programs.programs,
    program=allocation_programs.programs,
    version=allocation_programs.versions,
    devices=st.integers(1, 2),
    expandable=st.booleans(),
    capacity=st.sampled_from([64 * MIB, 256 * MIB, 1 << 40]),
)
@settings(max_examples=150, deadline=None)
def test_peak_composition_and_retained_are_the_allocators_own(
    before: list[Any],
    program: list[Any],
    version: Version,
    devices: int,
    expandable: bool,
    capacity: int,
) -> None:
    expandable = expandable and version != "2.0"
    allocator = CachingAllocator(
        devices=devices, capacity=capacity, version=version, expandable=expandable
    )
    run(allocator, before)
    first = collect(allocator.snapshot())
    allocator.record()
    run(allocator, program)
    found = traces(allocator, before=first, max_entries=1 << 60)
    for device in allocator.devices:
        answers = allocator.answers(device.ordinal)
        trace = found.get(f"cuda:{device.ordinal}")
        if trace is None:
            assert not device.recorded_events
            assert not device.segments
            continue
        check_form(trace)
        assert trace.start_bytes == answers.start
        assert peak(trace) == answers.peak
        assert at_peak(trace) == sorted(answers.at_peak.values())
        assert retained(trace) == answers.retained
        assert int(live(trace)[-1]) == device.allocated
        assert not trace.truncated
        figures = trace.allocator
        assert figures is not None
        assert figures.reserved_bytes == device.reserved
        if device.trace:
            assert figures.peak_reserved_bytes == answers.peak_reserved
            assert figures.ooms == sum(e["action"] == "oom" for e in device.trace)


@given(
    program=st.lists(allocation_programs.actions, min_size=10, max_size=80),
    max_entries=st.integers(1, 40),
    version=allocation_programs.versions,
)
@settings(max_examples=150, deadline=None)
def test_a_ring_that_lost_events_keeps_true_totals(
    program: list[Any], max_entries: int, version: Version
) -> None:
    allocator = CachingAllocator(version=version)
    allocator.record(max_entries)
    run(allocator, program)
    (device,) = allocator.devices
    found = traces(allocator, max_entries=max_entries)
    if not found:
        assert not device.recorded_events
        return
    (trace,) = found.values()
    check_form(trace)
    kept = len(device.trace)
    assert trace.truncated == (kept == max_entries)
    assert int(live(trace)[-1]) == device.allocated
    lost = device.recorded_events - kept
    blocks = trace.blocks
    # What was lost to the ring and freed later has no certain end: up to 1 MiB each.
    vague = (blocks.alloc_event == NONE) & (blocks.free_event != NONE) & (blocks.size_bytes > MIB)
    slack = int(vague.sum()) * MIB
    curve = [device.curve[lost - 1] if lost else 0, *device.curve[lost:]]
    assert max(curve) - slack <= peak(trace) <= max(curve)
    if not slack:
        assert trace.start_bytes == curve[0]


def test_allocated_falls_when_the_free_is_requested() -> None:
    allocator = CachingAllocator()
    allocator.record()
    waits = allocator.malloc(4 * MIB)
    allocator.record_stream(waits, 1)
    allocator.free(waits)
    # The first one's address is still taken: this block can't reach beyond it.
    other = allocator.malloc(4 * MIB)
    assert other != waits
    allocator.devices[0].synchronize()
    assert allocator.malloc(4 * MIB) == waits
    (trace,) = traces(allocator).values()
    assert trace.change_bytes.tolist() == [4 * MIB, -4 * MIB, 4 * MIB, 4 * MIB]
    assert peak(trace) == 8 * MIB == allocator.answers().peak


def test_an_oom_is_counted_and_what_follows_is_read() -> None:
    allocator = CachingAllocator(capacity=40 * MIB)
    allocator.record()
    cached = allocator.malloc(18 * MIB)
    allocator.free(cached)
    # Given back to the device and tried again: no error yet.
    allocator.malloc(30 * MIB)
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(20 * MIB)
    allocator.malloc(100)
    (trace,) = traces(allocator).values()
    assert trace.allocator is not None
    assert trace.allocator.ooms == 1
    assert trace.allocator.peak_reserved_bytes == allocator.answers().peak_reserved
    assert peak(trace) == 30 * MIB + 512


def test_private_pools_stand_apart() -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.malloc(30 * MIB, pool=(0, 3))
    allocator.malloc(100)
    (trace,) = traces(allocator).values()
    assert trace.allocator is not None
    assert trace.allocator.private_pool_bytes == 30 * MIB
    assert trace.allocator.reserved_bytes == 32 * MIB
    assert any("private pools" in note for note in trace.notes)


def test_a_free_block_that_was_split_is_fragmentation() -> None:
    allocator = CachingAllocator()
    allocator.malloc(4 * MIB)
    (trace,) = traces(allocator).values()
    assert trace.allocator is not None
    assert trace.allocator.inactive_split_bytes == 16 * MIB
    assert trace.start_bytes == 4 * MIB
    expandable = CachingAllocator(expandable=True)
    expandable.malloc(4 * MIB)
    (trace,) = traces(expandable).values()
    assert trace.allocator is not None
    assert trace.allocator.inactive_split_bytes == 0


def test_lines_are_the_users_outermost_first() -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.malloc(100, frames=STACKS[3])
    allocator.malloc(100)
    (trace,) = traces(allocator).values()
    assert trace.contexts[trace.blocks.context[0]].lines == (Line("cell", 2), Line("train.py", 4))
    assert trace.contexts[trace.blocks.context[0]].phase == "forward"
    assert trace.contexts[trace.blocks.context[1]] == Context()
    (trace,) = traces(allocator, labels={"/tmp/ipykernel_7/1234.py": ""}).values()
    assert trace.contexts[trace.blocks.context[0]].lines[0] == Line("", 2)


def frames(*names: tuple[str, str, int]) -> list[dict[str, Any]]:
    return [{"filename": file, "name": name, "line": line} for file, name, line in names]


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (
            frames(
                ("??", "torch::unwind::unwind()", 0),
                ("??", "at::_ops::empty_memory_format::call(c10::SymInt)", 0),
                ("", "at::_ops::addmm::call(at::Tensor const&)", 0),
                ("x.cpp", "torch::autograd::THPVariable_linear", 0),
                ("/srv/work/net.py", "forward", 9),
            ),
            Context(lines=(Line("net.py", 9),), op="aten::addmm"),
        ),
        (
            frames(
                ("??", "at::_ops::mm::call(at::Tensor const&)", 0),
                ("??", "torch::autograd::generated::AddmmBackward0::apply(std::vector)", 0),
                ("??", "torch::autograd::Engine::thread_main()", 0),
            ),
            Context(op="AddmmBackward0", phase="backward"),
        ),
        (
            frames(
                ("/v/site-packages/torch/optim/adamw.py", "_init_group", 120),
                ("/v/site-packages/torch/optim/optimizer.py", "wrapper", 500),
                ("<ipython-input-3-abc>", "<module>", 5),
            ),
            Context(
                lines=(Line("cell", 5),), op="torch.optim.adamw._init_group", phase="optimizer"
            ),
        ),
        (
            frames(
                ("C:\\env\\Lib\\site-packages\\torch\\nn\\functional.py", "gelu", 1),
                ("C:\\work\\net.py", "run", 3),
            ),
            Context(lines=(Line("net.py", 3),), op="torch.nn.functional.gelu"),
        ),
        (
            frames(
                ("/v/site-packages/torch/utils/checkpoint.py", "unpack_hook", 1100),
                ("/v/site-packages/torch/_tensor.py", "backward", 600),
                ("/home/u/train.py", "step", 3),
            ),
            Context(
                lines=(Line("train.py", 3),),
                op="torch.utils.checkpoint.unpack_hook",
                phase="recompute",
            ),
        ),
    ],
)
def test_a_stack_tells_its_context(stack: list[dict[str, Any]], expected: Context) -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.malloc(100, frames=stack)
    (trace,) = traces(allocator).values()
    assert trace.contexts[trace.blocks.context[0]] == expected


def test_events_before_the_bracket_count_as_having_been() -> None:
    allocator = CachingAllocator()
    allocator.record()
    early = allocator.malloc(4 * MIB)
    allocator.malloc(700)
    begins = allocator.time_us * 1000 + 1000
    before = collect(allocator.snapshot())
    allocator.free(early)
    allocator.malloc(100)
    (trace,) = traces(allocator, start_ns=begins, before=before).values()
    assert trace.start_bytes == 4 * MIB + 1024
    assert trace.change_bytes.tolist() == [-4 * MIB, 512]
    assert trace.start_ns == begins


def test_an_old_torch_without_times_is_read_and_says_so() -> None:
    allocator = CachingAllocator(version="2.1")
    allocator.record()
    allocator.free(allocator.malloc(100))
    (trace,) = traces(allocator).values()
    assert (np.diff(trace.time_ns) > 0).all()
    assert any("noted no times" in note for note in trace.notes)


def test_a_full_ring_of_a_round_size_is_suspected() -> None:
    allocator = CachingAllocator()
    early = allocator.malloc(100)
    allocator.record(1000)
    for _ in range(500):
        allocator.free(allocator.malloc(100))
    allocator.free(early)
    (trace,) = traces(allocator).values()
    assert trace.truncated
    assert any("1000 events, a round number" in note for note in trace.notes)


def test_frees_that_were_not_recorded_leave_the_end_true() -> None:
    allocator = CachingAllocator()
    allocator.record()
    for size in (100, 5000, 5000, 3 * MIB):
        allocator.free(allocator.malloc(size))
    allocator.malloc(3 * MIB)
    snapshot = allocator.snapshot()
    snapshot["device_traces"] = [
        [e for e in trace if not e["action"].startswith("free")]
        for trace in snapshot["device_traces"]
    ]
    (trace,) = traces_from_snapshot(collect(snapshot))
    check_form(trace)
    assert int(live(trace)[-1]) == 3 * MIB
    assert any("don't fit" in note for note in trace.notes)


def test_a_real_recording_replays_to_its_segments() -> None:
    snapshot = load_snapshot(REAL / "full_cycle_small.pickle")
    (trace,) = traces_from_snapshot(snapshot)
    check_form(trace)
    active = snapshot.blocks.state == 1
    assert int(live(trace)[-1]) == int(snapshot.blocks.size_bytes[active].sum())
    assert trace.start_bytes == 0
    # Sizes that the rules give, beside those that the segments tell of blocks alive at the end.
    kept = trace.blocks.free_event == NONE
    by_rule = [rounded(int(size)) for size in trace.blocks.requested_bytes[kept]]
    for size, ruled in zip(trace.blocks.size_bytes[kept].tolist(), by_rule, strict=True):
        assert ruled <= size <= ruled + MIB
    assert any(c.op == "aten::einsum" for c in trace.contexts)


@pytest.mark.parametrize("path", sorted(REAL.glob("*.pickle")), ids=lambda path: path.stem)
def test_real_snapshots_end_as_their_segments_say(path: Path) -> None:
    snapshot = load_snapshot(path)
    found = traces_from_snapshot(snapshot)
    assert found
    for trace in found:
        check_form(trace)
        device = int(trace.device.partition(":")[2])
        rows = (snapshot.segments.device[snapshot.blocks.segment] == device) & (
            snapshot.blocks.state == 1
        )
        assert int(live(trace)[-1]) == int(snapshot.blocks.size_bytes[rows].sum())


def test_cost_grows_with_the_events_and_no_faster() -> None:
    def seconds(events: int) -> float:
        allocator = CachingAllocator()
        allocator.record()
        held: list[int] = []
        for i in range(events // 3):
            held.append(allocator.malloc(4096 + 512 * (i % 7), frames=STACKS[i % 5]))
            if len(held) > 20:
                allocator.free(held.pop(i % 20))
        data = pickle.dumps(allocator.snapshot(), protocol=4)
        best = 1e9
        for _ in range(3):
            begun = time.process_time()
            traces_from_snapshot(loads_snapshot(data))
            best = min(best, time.process_time() - begun)
        return best

    small, large = seconds(6_000), seconds(60_000)
    assert large < 30 * max(small, 0.002)
