"""Random programs for the simulated caching allocator, and the strategies that make them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.allocator_rules import MIB
from support.caching_allocator import DEFAULT_POOL, VERSIONS, CachingAllocator, OutOfMemoryError

GRAPH_POOL = (0, 1)
sizes = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 3 * MIB),
    st.integers(MIB - 600, MIB + 600),
    st.integers(MIB, 40 * MIB),
    st.sampled_from([512, MIB, 2 * MIB, 10 * MIB, 19 * MIB, 20 * MIB]),
)
actions = st.one_of(
    st.tuples(st.just("malloc"), sizes, st.integers(0, 1), st.integers(0, 1), st.booleans()),
    st.tuples(st.just("malloc"), sizes, st.just(0), st.just(0), st.just(False)),
    st.tuples(st.just("free"), st.integers(0, 10**6)),
    st.tuples(st.just("free"), st.integers(0, 10**6)),
    st.tuples(st.just("record_stream"), st.integers(0, 10**6)),
    st.tuples(st.just("synchronize")),
    st.tuples(st.just("empty_cache")),
)
programs = st.lists(actions, max_size=60)
versions = st.sampled_from(VERSIONS)


def stack(line: int) -> list[dict[str, Any]]:
    """As torch gives it: the innermost frame first."""
    torch = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py"
    return [
        {"filename": torch, "name": "_call_impl", "line": 1700},
        {"filename": "/home/user/train.py", "name": "step", "line": line},
        {"filename": "/tmp/ipykernel_7/1234.py", "name": "<module>", "line": 2},
    ]


STACKS = [stack(line) for line in range(1, 6)]


def run(allocator: CachingAllocator, program: list[tuple[Any, ...]]) -> None:
    """Do what a program says."""
    devices = len(allocator.devices)
    for step, (action, *arguments) in enumerate(program):
        live = [address for device in allocator.devices for address in device.live]
        if action == "malloc":
            size, device, stream, private = arguments
            try:
                allocator.malloc(
                    size,
                    device=device % devices,
                    stream=stream,
                    pool=GRAPH_POOL if private else DEFAULT_POOL,
                    frames=STACKS[step % len(STACKS)],
                )
            except OutOfMemoryError:
                continue
        elif action == "free" and live:
            allocator.free(live[arguments[0] % len(live)])
        elif action == "record_stream" and live:
            allocator.record_stream(live[arguments[0] % len(live)], 1)
        elif action == "synchronize":
            for each in allocator.devices:
                each.synchronize()
        elif action == "empty_cache":
            allocator.empty_cache()
