"""The simulated allocator against the one of the tests, which was written apart from it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_vram.analysis.allocator_simulation import CachingAllocator, simulate
from support.caching_allocator import CachingAllocator as Reference
from support.traces import Made, trace_of

MIB = 1 << 20
SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 3 * MIB),
    st.integers(MIB - 600, MIB + 600),
    st.integers(8 * MIB, 40 * MIB),
    st.sampled_from([512, 513, MIB, MIB + 1, 10 * MIB, 10 * MIB - 512, 20 * MIB, 19 * MIB]),
)
STEPS = st.lists(st.tuples(st.booleans(), SIZES, st.integers(0, 50)), max_size=120)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_both_hold_the_same(steps: list[tuple[bool, int, int]]) -> None:
    ours = CachingAllocator()
    reference = Reference()
    live: list[tuple[int, int]] = []
    for wants, size, which in steps:
        if wants or not live:
            live.append((ours.allocate(size), reference.malloc(size)))
        else:
            mine, theirs = live.pop(which % len(live))
            ours.free(mine)
            reference.free(theirs)
        assert ours.reserved_bytes == reference.devices[0].reserved
        assert ours.allocated_bytes == reference.devices[0].allocated


def test_figures_of_a_trace() -> None:
    simulation = simulate(
        trace_of(
            [
                Made(size=3 * MIB),
                Made(size=1000, comes=0, goes=3),
                Made(size=25 * MIB, comes=1, goes=2),
                Made(size=24 * MIB, comes=4),
            ]
        )
    )
    # The third takes its segment of 26 MiB whole (no more than 1 MiB would be left); the last one
    # takes it too, and leaves 2 MiB.
    assert simulation.peak_reserved_bytes == (20 + 2 + 26) * MIB
    assert simulation.peak_allocated_bytes == 29 * MIB + 1024
    assert simulation.allocated_at_tensor_peak_bytes == 29 * MIB + 1024


def test_workspace_is_taken_at_the_first_matrix_product_and_kept() -> None:
    blocks = [
        Made(size=MIB, comes=0, op="aten::relu"),
        Made(size=MIB, comes=1, goes=2, op="aten::linear"),
        Made(size=4 * MIB, comes=3, op="aten::relu"),
    ]
    workspace = 8 * MIB + 128 * 1024
    without, simulation = simulate(trace_of(blocks)), simulate(trace_of(blocks), workspace)
    assert simulation.workspace_bytes == workspace
    assert simulation.peak_allocated_bytes == without.peak_allocated_bytes + workspace
    assert simulation.allocated_at_tensor_peak_bytes == without.allocated_at_tensor_peak_bytes


def test_workspace_is_not_taken_without_a_matrix_product() -> None:
    simulation = simulate(trace_of([Made(size=MIB, comes=0, op="aten::relu")]), 8 * MIB)
    assert simulation.workspace_bytes == 0
