"""Changes of one device → blocks with a beginning and an end: each free finds its alloc."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_vram.model.trace import NONE, Context, Owner
from jupyter_vram.model.units import Category
from jupyter_vram.recorders.profiler_walk import OUTSIDE, Change, Place

NEVER_NS = 1 << 62


@dataclass(slots=True)
class Block:
    """A block, and what becomes known of it."""

    size_bytes: int
    address: int
    alloc_event: int = NONE
    free_event: int = NONE
    alloc_ns: int = 0
    free_ns: int = NEVER_NS
    place: Place | Context | None = None
    """Where it was allocated: by the tracer's tables, or as another recorder tells it."""
    root: int = NONE
    within: bool = False
    """Gone within the operation, or the call of an outermost module, that allocated it."""
    freed_in_backward: bool = False
    identity: Category | None = None
    owner: Owner | None = None


class Ledger:
    """The blocks of a device, written by its changes in the order of time."""

    def __init__(self, device: str, root_calls: Sequence[tuple[int, int]] = ()) -> None:
        """`root_calls`: start and end of the calls of outermost modules, by time."""
        self.device = device
        self.blocks: list[Block] = []
        self.live: dict[int, int] = {}
        """Address → row of the block there."""
        self.at_address: dict[int, list[int]] = {}
        """Address → rows of all blocks that were there, by time."""
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.rows: list[int] = []
        """Of each event: time, change of bytes, row of its block."""
        self._went: set[int] = set()
        """Addresses of storages that went, of which the profiler has not told."""
        self._call_starts = [start for start, _ in root_calls]
        self._call_ends = [end for _, end in root_calls]

    def add(self, block: Block) -> int:
        """A block that is there; returns its row."""
        row = len(self.blocks)
        self.blocks.append(block)
        self.live[block.address] = row
        self.at_address.setdefault(block.address, []).append(row)
        return row

    def appear(self, block: Block) -> None:
        """A block that comes, at its `alloc_ns`."""
        block.alloc_event = self._event(block.alloc_ns, block.size_bytes, self.add(block))

    def write(self, change: Change) -> None:
        """An alloc (bytes > 0), a free (< 0), or a storage from before that goes (0)."""
        if change.change_bytes > 0:
            self._alloc(change)
        elif change.change_bytes < 0:
            self._free(change)
        else:
            self._go(change)

    def _event(self, time_ns: int, change_bytes: int, row: int) -> int:
        self.times.append(time_ns)
        self.sizes.append(change_bytes)
        self.rows.append(row)
        return len(self.times) - 1

    def _alloc(self, change: Change) -> None:
        known = self.live.pop(change.address, None)
        self._went.discard(change.address)
        if known is not None:  # its end was not seen: it was not torch's own memory
            self._end(known, change)
        self.appear(
            Block(
                change.change_bytes,
                change.address,
                alloc_ns=change.time_ns,
                place=change.place,
                root=change.root,
            )
        )

    def _free(self, change: Change) -> None:
        row = self.live.pop(change.address, None)
        if row is None:
            if change.address in self._went:
                self._went.discard(change.address)
                return
            # From before, and nobody was known to hold it.
            row = self.add(Block(-change.change_bytes, change.address))
            del self.live[change.address]
        self._end(row, change)

    def _go(self, change: Change) -> None:
        # The profiler may tell so too, a moment later.
        row = self.live.get(change.address)
        if row is not None and self.blocks[row].alloc_event == NONE:
            del self.live[change.address]
            self._went.add(change.address)
            self._end(row, change)

    def _end(self, row: int, change: Change) -> None:
        block = self.blocks[row]
        block.free_ns = change.time_ns
        block.free_event = self._event(change.time_ns, -block.size_bytes, row)
        block.freed_in_backward = change.place.phase == "backward"
        block.within = block.alloc_event != NONE and (
            (change.root != NONE and change.root == block.root)
            or self._same_call(block.alloc_ns, change.time_ns)
        )

    def _same_call(self, alloc_ns: int, free_ns: int) -> bool:
        """Whether one call of an outermost module saw the block come and go."""
        call = bisect_right(self._call_starts, alloc_ns) - 1
        return call >= 0 and free_ns <= self._call_ends[call]


def goes(time_ns: int, device: str, address: int) -> Change:
    """A storage from before goes."""
    return Change(time_ns, 0, address, device, OUTSIDE, NONE)
