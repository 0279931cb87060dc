"""torch's CUDA caching allocator, simulated: it places blocks by torch's rules, writes snapshots in
torch's format, and knows the answers a recording should give.

Rules: requests are rounded to 512 B; up to 1 MiB they come from 2 MiB segments, below 10 MiB from
20 MiB ones, larger from segments rounded to 2 MiB; best fit; a rest is split off if it is ≥ 512 B
(small pool, expandable segments) or > 1 MiB (large pool); a block used on another stream waits
before it is free; without memory, cached segments are given back and the allocation is tried again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from support.allocator_rules import (
    LARGE_SEGMENT,
    MIN_BLOCK,
    SMALL,
    SMALL_SEGMENT,
    rounded,
    segment_size,
)

DEFAULT_POOL = (0, 0)
STRIDE = 1 << 40
"""Of a device's addresses."""

Version = Literal["2.0", "2.1", "2.3", "2.6", "2.11"]
VERSIONS: tuple[Version, ...] = ("2.0", "2.1", "2.3", "2.6", "2.11")
State = Literal["inactive", "active_allocated", "active_awaiting_free"]
Frames = list[dict[str, Any]]
PoolId = tuple[int, int]


class OutOfMemoryError(Exception):
    pass


@dataclass(eq=False)
class Block:
    address: int
    size: int
    segment: Segment
    requested: int = 0
    state: State = "inactive"
    frames: Frames = field(default_factory=list)
    streams: set[int] = field(default_factory=set)
    recorded: bool = False


@dataclass(eq=False)
class Segment:
    address: int
    size: int
    stream: int
    small: bool
    pool: PoolId
    expandable: bool = False
    blocks: list[Block] = field(default_factory=list)

    @property
    def key(self) -> tuple[bool, int, PoolId]:
        return self.small, self.stream, self.pool


@dataclass
class Answers:
    """What a recording of one device should tell. Block bytes."""

    start: int = 0
    peak: int = 0
    peak_requested: int = 0
    at_peak: dict[int, int] = field(default_factory=dict)
    """Address → block bytes, of the blocks live at the (first) peak."""
    retained: int = 0
    peak_reserved: int = 0
    lost_events: bool = False


class Device:
    """One device's allocator."""

    def __init__(self, allocator: CachingAllocator, ordinal: int, capacity: int) -> None:
        self.allocator = allocator
        self.ordinal = ordinal
        self.capacity = capacity
        self.segments: list[Segment] = []
        self.next_address = (ordinal + 1) * STRIDE
        self.live: dict[int, Block] = {}
        self.waiting: list[Block] = []
        self.trace: deque[dict[str, Any]] = deque()
        self.recorded_events = 0
        self.curve: list[int] = []
        """Allocated after each recorded event, those lost to the ring as well."""
        self.ooms = self.retries = 0
        self.peak_ever = 0
        self.answers = Answers()

    @property
    def allocated(self) -> int:
        return sum(block.size for block in self.live.values())

    @property
    def reserved(self) -> int:
        return sum(segment.size for segment in self.segments)

    def malloc(self, size: int, stream: int, pool: PoolId, frames: Frames) -> int:
        need = rounded(size)
        small = need <= SMALL
        block = self._best_fit(need, (small, stream, pool))
        if block is None:
            block = self._grow(need, small, stream, pool, frames)
        if block is None:
            self.retries += 1
            self.release_cached(frames)
            block = self._best_fit(need, (small, stream, pool)) or self._grow(
                need, small, stream, pool, frames
            )
        if block is None:
            self.ooms += 1
            self._event("oom", None, size, stream, frames, pool, device_free=0)
            raise OutOfMemoryError(size)
        self._split(block, need)
        block.requested, block.state, block.frames = size, "active_allocated", frames
        block.streams, block.recorded = set(), self.allocator.recording
        self.live[block.address] = block
        self._event("alloc", block.address, size, stream, frames, pool)
        self._note_peak()
        return block.address

    def free(self, address: int, frames: Frames | None = None) -> None:
        block = self.live.pop(address)
        segment = block.segment
        told = block.frames if frames is None else frames
        self._event("free_requested", address, block.requested, segment.stream, told, segment.pool)
        if block.streams:
            block.state = "active_awaiting_free"
            self.waiting.append(block)
        else:
            self._release(block, told)

    def synchronize(self) -> None:
        waiting, self.waiting = self.waiting, []
        for block in waiting:
            self._release(block, block.frames)

    def release_cached(self, frames: Frames | None = None) -> None:
        self.synchronize()
        for segment in list(self.segments):
            if len(segment.blocks) > 1 or segment.blocks[0].state != "inactive":
                continue
            self.segments.remove(segment)
            kind = "segment_unmap" if segment.expandable else "segment_free"
            self._event(
                kind, segment.address, segment.size, segment.stream, frames or [], segment.pool
            )

    def _best_fit(self, need: int, key: tuple[bool, int, PoolId]) -> Block | None:
        fitting = [
            block
            for segment in self.segments
            if segment.key == key
            for block in segment.blocks
            if block.state == "inactive" and block.size >= need
        ]
        return min(fitting, key=lambda block: (block.size, block.address), default=None)

    def _grow(
        self, need: int, small: bool, stream: int, pool: PoolId, frames: Frames
    ) -> Block | None:
        if self.allocator.expandable:
            return self._map(need, small, stream, pool, frames)
        size = segment_size(need)
        if self.reserved + size > self.capacity:
            return None
        segment = Segment(self.next_address, size, stream, small, pool)
        # Sometimes segments lie side by side, as they do on a device.
        self.next_address += size + (0 if len(self.segments) % 3 else 16 * SMALL_SEGMENT)
        segment.blocks.append(Block(segment.address, size, segment))
        self.segments.append(segment)
        self._event("segment_alloc", segment.address, size, stream, frames, pool)
        return segment.blocks[0]

    def _map(
        self, need: int, small: bool, stream: int, pool: PoolId, frames: Frames
    ) -> Block | None:
        """The pool's one segment grows by whole pages; its free end grows with it."""
        page = SMALL_SEGMENT if small else LARGE_SEGMENT
        mine = [s for s in self.segments if s.key == (small, stream, pool)]
        segment = mine[-1] if mine else None
        tail = segment.blocks[-1] if segment else None
        spare = tail.size if tail is not None and tail.state == "inactive" else 0
        size = -(-(need - spare) // page) * page
        if self.reserved + size > self.capacity:
            return None
        if segment is None:
            address = self.next_address
            self.next_address += 1 << 34
            segment = Segment(address, 0, stream, small, pool, expandable=True)
            self.segments.append(segment)
        self._event("segment_map", segment.address + segment.size, size, stream, frames, pool)
        if tail is not None and spare:
            tail.size += size
        else:
            tail = Block(segment.address + segment.size, size, segment)
            segment.blocks.append(tail)
        segment.size += size
        return tail

    def _split(self, block: Block, need: int) -> None:
        rest, segment = block.size - need, block.segment
        if rest >= MIN_BLOCK if segment.small or segment.expandable else rest > SMALL:
            remainder = Block(block.address + need, rest, segment)
            segment.blocks.insert(segment.blocks.index(block) + 1, remainder)
            block.size = need

    def _release(self, block: Block, frames: Frames) -> None:
        segment = block.segment
        self._event(
            "free_completed", block.address, block.requested, segment.stream, frames, segment.pool
        )
        block.state, block.frames = "inactive", []
        at = segment.blocks.index(block)
        for i in (at, at - 1):
            if 0 <= i < len(segment.blocks) - 1:
                left, right = segment.blocks[i], segment.blocks[i + 1]
                if left.state == right.state == "inactive":
                    left.size += right.size
                    segment.blocks.remove(right)

    def begin(self) -> None:
        self.trace.clear()
        self.recorded_events = 0
        self.curve.clear()
        for block in self.live.values():
            block.recorded = False
        self.answers = Answers(start=self.allocated, peak_reserved=self.reserved)
        self._note_peak(first=True)

    def _note_peak(self, *, first: bool = False) -> None:
        self.peak_ever = max(self.peak_ever, self.allocated)
        answers = self.answers
        answers.peak_reserved = max(answers.peak_reserved, self.reserved)
        if first or self.allocated > answers.peak:
            answers.peak = self.allocated
            answers.peak_requested = sum(block.requested for block in self.live.values())
            answers.at_peak = {a: block.size for a, block in self.live.items()}

    def _event(
        self,
        action: str,
        address: int | None,
        size: int,
        stream: int,
        frames: Frames,
        pool: PoolId,
        **more: int,
    ) -> None:
        allocator = self.allocator
        allocator.time_us += 1
        self.answers.peak_reserved = max(self.answers.peak_reserved, self.reserved)
        if not allocator.recording:
            return
        event: dict[str, Any] = {"action": action, **more}
        if address is not None:
            event["addr"] = address
        event |= {"size": size, "stream": stream}
        if allocator.version != "2.0":
            if allocator.version != "2.1":
                event["time_us"] = allocator.time_us
            if allocator.version == "2.11":
                event |= {"compile_context": "N/A", "user_metadata": "", "pool_id": pool}
            if frames or allocator.version != "2.6":
                event["frames"] = frames
        self.recorded_events += 1
        self.curve.append(self.allocated)
        self.trace.append(event)
        if len(self.trace) > allocator.max_entries:
            self.trace.popleft()


class CachingAllocator:
    """All devices of a process, and their memory history."""

    def __init__(
        self,
        *,
        devices: int = 1,
        capacity: int = 1 << 40,
        version: Version = "2.6",
        expandable: bool = False,
        time_us: int = 1_700_000_000_000_000,
    ) -> None:
        self.version: Version = version
        self.expandable = expandable
        self.time_us = time_us
        self.recording = False
        self.max_entries = 1 << 60
        self.devices = [Device(self, ordinal, capacity) for ordinal in range(devices)]

    def malloc(
        self,
        size: int,
        *,
        device: int = 0,
        stream: int = 0,
        pool: PoolId = DEFAULT_POOL,
        frames: Frames | None = None,
    ) -> int:
        return self.devices[device].malloc(size, stream, pool, frames or [])

    def free(self, address: int) -> None:
        self.device_of(address).free(address)

    def record_stream(self, address: int, stream: int) -> None:
        block = self.device_of(address).live[address]
        if stream != block.segment.stream:
            block.streams.add(stream)

    def device_of(self, address: int) -> Device:
        return self.devices[address // STRIDE - 1]

    def empty_cache(self) -> None:
        for device in self.devices:
            device.release_cached()

    def record(self, max_entries: int | None = None) -> None:
        """Begin to keep a history."""
        self.recording = True
        self.max_entries = 1 << 60 if max_entries is None else max_entries
        for device in self.devices:
            device.begin()

    def stop(self) -> None:
        self.recording = False
        for device in self.devices:
            device.trace.clear()

    def answers(self, device: int = 0) -> Answers:
        own = self.devices[device]
        own.answers.retained = sum(b.size for b in own.live.values() if b.recorded)
        own.answers.lost_events = own.recorded_events > len(own.trace)
        return own.answers

    def snapshot(self) -> dict[str, Any]:
        """In the format of `torch.cuda.memory._snapshot`, with the keys of this version."""
        snapshot: dict[str, Any] = {
            "segments": [
                self._segment(segment, device.ordinal)
                for device in self.devices
                for segment in sorted(device.segments, key=lambda s: s.address)
            ],
            "device_traces": [[dict(e) for e in device.trace] for device in self.devices],
        }
        if self.version not in {"2.0", "2.1"}:
            snapshot["allocator_settings"] = {
                "PYTORCH_CUDA_ALLOC_CONF": "",
                "max_split_size": -1,
                "expandable_segments": self.expandable,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)},
            }
        if self.version in {"2.6", "2.11"}:
            snapshot["external_annotations"] = []
        return snapshot

    def _segment(self, segment: Segment, device: int) -> dict[str, Any]:
        blocks = segment.blocks
        told: dict[str, Any] = {
            "device": device,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": sum(b.size for b in blocks if b.state == "active_allocated"),
            "active_size": sum(b.size for b in blocks if b.state != "inactive"),
            "requested_size": sum(b.requested for b in blocks if b.state != "inactive"),
            "stream": segment.stream,
            "segment_type": "small" if segment.small else "large",
            "blocks": [self._block(block) for block in blocks],
        }
        if self.version != "2.0":
            told |= {
                "segment_pool_id": segment.pool,
                "is_expandable": segment.expandable,
                "frames": [],
            }
        return told

    def _block(self, block: Block) -> dict[str, Any]:
        told: dict[str, Any] = {
            "size": block.size,
            "requested_size": block.requested,
            "state": block.state,
        }
        if self.version != "2.0":
            return {"address": block.address, **told, "frames": block.frames}
        if block.state != "inactive":
            told["history"] = [
                {"addr": block.address, "real_size": block.requested, "frames": block.frames}
            ]
        return told
