"""How torch's CUDA caching allocator rounds blocks and segments."""

from __future__ import annotations

MIB = 1 << 20
MIN_BLOCK = 512
SMALL = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
ROUND_LARGE = 2 * MIB


def rounded(size: int) -> int:
    return max(MIN_BLOCK, -(-size // MIN_BLOCK) * MIN_BLOCK)


def segment_size(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < 10 * MIB:
        return LARGE_SEGMENT
    return -(-size // ROUND_LARGE) * ROUND_LARGE
