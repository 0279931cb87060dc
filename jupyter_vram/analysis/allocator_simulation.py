"""A trace of tensors through torch's CUDA caching allocator: what would be reserved.

The rules, of c10/cuda/CUDACachingAllocator.cpp (torch 2.0 to 2.13): a request is rounded to 512 B;
up to 1 MiB it comes from a segment of 2 MiB, below 10 MiB from one of 20 MiB, else from one of its
own size rounded to 2 MiB; the smallest free block that is large enough is taken, and split if the
rest is at least 512 B (small pool) or more than 1 MiB (large pool); free neighbours merge; segments
stay. With expandable segments, each pool is one segment that grows by 2 MiB (small) or 20 MiB
(large) pages, and every rest is split off.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jupyter_vram.model.trace import NONE, AllocatorFigures, Trace

MIB = 1 << 20
MIN_BLOCK_BYTES = 512
SMALL_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
MIN_LARGE_BYTES = 10 * MIB
ROUND_LARGE_BYTES = 2 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the allocator would have held. All in bytes."""

    figures: AllocatorFigures
    peak_allocated_bytes: int
    """As ``torch.cuda.max_memory_allocated`` tells: blocks, workspaces in them included."""
    peak_reserved_bytes: int
    """As ``torch.cuda.max_memory_reserved`` tells."""
    allocated_at_tensor_peak_bytes: int
    """Blocks at the moment at which the tensors are most, workspaces not included."""
    workspace_bytes: int
    """Of libraries, taken from the allocator: among the blocks from their first use on."""


class CachingAllocator:
    """One device, one stream."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.reserved_bytes = 0
        self.peak_allocated_bytes = 0
        self._next = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        """By pool (small or not): sizes and addresses of free blocks, in the order of size."""
        self._size: dict[int, int] = {}
        """Address → size, of all blocks."""
        self._before: dict[int, int] = {}
        """Address → that of the block before it in its segment."""
        self._after: dict[int, int] = {}
        self._is_free: set[int] = set()
        self._small: dict[int, bool] = {}

    def allocate(self, request_bytes: int) -> int:
        """The address of a new block."""
        size = rounded(request_bytes)
        small = size <= SMALL_BYTES
        free = self._free[small]
        at = bisect_left(free, (size, -1))
        if at < len(free):
            found, address = free.pop(at)
            self._is_free.discard(address)
        else:
            found, address = segment_bytes(size), self._next
            self._next += found + MIB  # segments are no neighbours
            self.reserved_bytes += found
            self._size[address], self._small[address] = found, small
        rest = found - size
        if rest >= MIN_BLOCK_BYTES if small else rest > SMALL_BYTES:
            self._split(address, size, rest, small)
        self.allocated_bytes += self._size[address]
        if self.allocated_bytes > self.peak_allocated_bytes:
            self.peak_allocated_bytes = self.allocated_bytes
        return address

    def free(self, address: int) -> None:
        """The block there is free again, one with its free neighbours."""
        size, small = self._size[address], self._small[address]
        self.allocated_bytes -= size
        before, after = self._before.get(address), self._after.get(address)
        if before is not None and before in self._is_free:
            self._take(before, small)
            self._join(before, address)
            address = before
        if after is not None and after in self._is_free:
            self._take(after, small)
            self._join(address, after)
        self._is_free.add(address)
        insort(self._free[small], (self._size[address], address))

    @property
    def inactive_split_bytes(self) -> int:
        """Of free blocks that are a part of their segment."""
        return sum(
            self._size[address]
            for address in self._is_free
            if address in self._before or address in self._after
        )

    def block_bytes(self, address: int) -> int:
        """The size of the block there."""
        return self._size[address]

    def _split(self, address: int, size: int, rest: int, small: bool) -> None:
        other = address + size
        self._size[address], self._size[other], self._small[other] = size, rest, small
        after = self._after.get(address)
        self._after[address], self._before[other] = other, address
        if after is not None:
            self._after[other], self._before[after] = after, other
        self._is_free.add(other)
        insort(self._free[small], (rest, other))

    def _join(self, first: int, second: int) -> None:
        self._size[first] += self._size.pop(second)
        del self._small[second], self._before[second]
        after = self._after.pop(second, None)
        if after is None:
            del self._after[first]
        else:
            self._after[first], self._before[after] = after, first

    def _take(self, address: int, small: bool) -> None:
        free = self._free[small]
        del free[bisect_left(free, (self._size[address], address))]
        self._is_free.discard(address)


def rounded(request_bytes: int) -> int:
    """The size of the block for a request."""
    return max(MIN_BLOCK_BYTES, -(-request_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES)


def segment_bytes(block_bytes: int) -> int:
    """The size of the segment that is made for a block."""
    if block_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if block_bytes < MIN_LARGE_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-block_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


_MATRIX_PRODUCTS = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum", "bilinear")


def uses_matrix_products(trace: Trace) -> Sequence[bool]:
    """Per context of a trace, whether cuBLAS works there: by the outermost operation's name."""
    return [
        any(
            name == product or name.startswith(f"{product}backward") for product in _MATRIX_PRODUCTS
        )
        for context in trace.contexts
        for name in [context.op.lower().removeprefix("aten::").removeprefix("torch::autograd::")]
    ]


def simulate(trace: Trace, workspace_bytes: int = 0) -> Simulation:
    """Replay a trace's events.

    Args:
        trace: whose blocks' `requested_bytes` are asked for.
        workspace_bytes: what the library of matrix products takes from the allocator at its first
            use, and keeps (aten/src/ATen/cuda/CublasHandlePool.cpp).
    """
    allocator = CachingAllocator()
    blocks = trace.blocks
    requested = blocks.requested_bytes.tolist()
    address: dict[int, int] = {}
    for row in np.flatnonzero(blocks.alloc_event == NONE).tolist():
        if requested[row]:
            address[row] = allocator.allocate(requested[row])
    multiplies = uses_matrix_products(trace)
    context = blocks.context.tolist()
    live = peak = trace.start_bytes
    at_peak = allocator.allocated_bytes
    held_bytes = 0
    for change, row in zip(trace.change_bytes.tolist(), trace.block.tolist(), strict=True):
        live += change
        if change > 0:
            at = context[row]
            if workspace_bytes and not held_bytes and at != NONE and multiplies[at]:
                held_bytes = allocator.block_bytes(allocator.allocate(workspace_bytes))
            address[row] = allocator.allocate(requested[row])
        elif row in address:
            allocator.free(address.pop(row))
        if live > peak:
            peak, at_peak = live, allocator.allocated_bytes - held_bytes
    return Simulation(
        figures=AllocatorFigures(
            reserved_bytes=allocator.reserved_bytes,
            peak_reserved_bytes=allocator.reserved_bytes,  # nothing is given back
            inactive_split_bytes=allocator.inactive_split_bytes,
        ),
        peak_allocated_bytes=allocator.peak_allocated_bytes,
        peak_reserved_bytes=allocator.reserved_bytes,
        allocated_at_tensor_peak_bytes=at_peak,
        workspace_bytes=held_bytes,
    )
