"""The allocator's history keeps its figures, and gains what the profiler knows of each event."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.model.trace import NONE, Context, Line, Owner, Trace
from jupyter_vram.model.units import CATEGORIES
from jupyter_vram.recorders.history_join import CLOSE_NS, join
from jupyter_vram.recorders.holders import Held, Holders, Storage
from jupyter_vram.recorders.profiler_walk import Change, Place, Root
from jupyter_vram.recorders.snapshot_trace import traces_from_snapshot
from jupyter_vram.recorders.trace_builder import Scene
from jupyter_vram.sources.snapshot_events import collect
from support import allocation_programs
from support.allocation_programs import run
from support.allocator_rules import MIB
from support.caching_allocator import CachingAllocator


def holders(*held: Held) -> Holders:
    return Holders({(one.storage.device, one.storage.address): one for one in held}, {}, {}, {})


def scene(before: Holders | None = None, after: Holders | None = None) -> Scene:
    return Scene(
        start_ns=0,
        end_ns=1 << 62,
        before=before or holders(),
        after=after or holders(),
        gone=(),
        sightings=(),
        roots=(Root(0, 1 << 62, "forward", 0, 1),),
        root_calls=(),
        phases=(),
        context=lambda place: Context(lines=(Line("", place.line),), op=place.op),
    )


def history_of(allocator: CachingAllocator) -> Trace | None:
    traces = traces_from_snapshot(collect(allocator.snapshot()))
    return traces[0] if traces else None


def told(history: Trace, rows: set[int], late_ns: int) -> list[Change]:
    """What the profiler says of some events, a little later."""
    address = history.blocks.address
    assert address is not None
    return [
        Change(
            # Each event is late by another time: two clocks tell them.
            int(history.time_ns[event]) + late_ns * (event % 7 - 3) // 3,
            int(history.change_bytes[event]),
            int(address[history.block[event]]),
            history.device,
            Place(1000 + event, NONE, "aten::mul", "forward"),
            0,
        )
        for event in range(len(history.change_bytes))
        if event in rows
    ]


@given(
    before=allocation_programs.programs,
    program=allocation_programs.programs,
    seen=st.sets(st.integers(0, 60)),
    late_ns=st.integers(-300, 300),
)
def test_figures_are_the_historys_and_contexts_the_profilers(
    before: list[Any], program: list[Any], seen: set[int], late_ns: int
) -> None:
    allocator = CachingAllocator()
    run(allocator, before)
    allocator.record()
    run(allocator, program)
    history = history_of(allocator)
    if history is None:
        return
    joined = join(history, told(history, seen, late_ns), scene(), retries=2)
    assert joined.start_bytes == history.start_bytes
    assert joined.change_bytes.tolist() == history.change_bytes.tolist()
    assert joined.time_ns.tolist() == history.time_ns.tolist()
    assert joined.allocator is not None
    assert joined.allocator.alloc_retries == 2
    for row in range(len(joined.blocks)):
        event = int(joined.blocks.alloc_event[row])
        if event == NONE:
            assert joined.blocks.context[row] == NONE
            continue
        own = history.block[event]
        assert joined.blocks.requested_bytes[row] == history.blocks.requested_bytes[own]
        assert joined.blocks.free_event[row] == history.blocks.free_event[own]
        context = joined.contexts[joined.blocks.context[row]]
        if event in seen:
            assert context.lines == (Line("", 1000 + event),)
        else:
            assert context == history.contexts[history.blocks.context[own]]


def test_what_the_profiler_saw_at_another_time_is_another_allocation() -> None:
    allocator = CachingAllocator()
    allocator.record()
    allocator.malloc(MIB)
    history = history_of(allocator)
    assert history is not None
    far = told(history, {0}, -2 * CLOSE_NS)
    joined = join(history, far, scene())
    assert joined.contexts[joined.blocks.context[0]].lines == ()


def test_an_address_used_again_at_once_is_another_allocation() -> None:
    allocator = CachingAllocator()
    allocator.record()
    for _ in range(5):
        allocator.free(allocator.malloc(MIB))
    history = history_of(allocator)
    assert history is not None
    allocs = [event for event, change in enumerate(history.change_bytes) if change > 0]
    seen = {allocs[1], allocs[4]}
    joined = join(history, told(history, seen, 300), scene())
    lines = [joined.contexts[row].lines for row in joined.blocks.context]
    assert [line[0].number - 1000 if line else None for line in lines] == [
        event if event in seen else None for event in allocs
    ]


def test_holders_name_blocks_by_their_address() -> None:
    allocator = CachingAllocator()
    weight = allocator.malloc(3 * MIB)
    allocator.record()
    grad = allocator.malloc(3 * MIB)
    history = history_of(allocator)
    assert history is not None

    def held(address: int, identity: Any, name: str) -> Held:
        return Held(Storage("cuda:0", address, 3 * MIB, False), identity, Owner(name, module="m"))

    before = holders(held(weight, "parameter", "m.weight"))
    after = holders(held(weight, "parameter", "m.weight"), held(grad, "gradient", "m.weight.grad"))
    joined = join(history, (), scene(before, after))
    names = [joined.owners[row].name for row in joined.blocks.owner]
    kinds = [CATEGORIES[row] for row in joined.blocks.identity]
    assert sorted(zip(names, kinds, strict=True)) == [
        ("m.weight", "parameter"),
        ("m.weight.grad", "gradient"),
    ]
    assert int(np.sum(joined.blocks.size_bytes)) == allocator.devices[0].allocated
