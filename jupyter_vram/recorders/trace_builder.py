"""Changes and holders → a `Trace` per device: each free finds its alloc, each block its owner."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from jupyter_vram.model.trace import (
    NONE,
    AllocatorFigures,
    Blocks,
    Context,
    Module,
    Owner,
    PhaseSpan,
    Trace,
)
from jupyter_vram.model.units import CATEGORIES, BytesKind, Category, RecorderKind
from jupyter_vram.recorders.holders import Held, Holders
from jupyter_vram.recorders.profiler_walk import OUTSIDE, Change, Place, Root
from jupyter_vram.recorders.sightings import Sighting

UNSEEN = (
    "{:,} bytes are there at the end and were not seen to come: another thread allocated them. So"
    " the peak may have been higher."
)


@dataclasses.dataclass(slots=True)
class _Block:
    size_bytes: int
    address: int
    alloc_event: int = NONE
    free_event: int = NONE
    alloc_ns: int = 0
    free_ns: int = 1 << 62
    place: Place | None = None
    root: int = NONE
    within: bool = False
    freed_in_backward: bool = False
    identity: Category | None = None
    owner: Owner | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What all devices of a recording share."""

    recorder: RecorderKind
    start_ns: int
    end_ns: int
    before: Holders
    after: Holders
    gone: Sequence[tuple[int, str, int]]
    """When storages of `before` went: time, device, address."""
    sightings: Sequence[Sighting]
    roots: Sequence[Root]
    root_calls: Sequence[tuple[int, int]]
    """Start and end of the calls of outermost modules, by time."""
    phases: tuple[PhaseSpan, ...]
    context: Callable[[Place], Context]
    exact: bool = True


def build(
    device: str,
    changes: Iterable[Change],
    scene: Scene,
    *,
    bytes_kind: BytesKind,
    allocator: AllocatorFigures | None = None,
) -> Trace:
    """The trace of one device. `changes`: its own, by time."""
    return _Builder(device, scene).build(changes, bytes_kind, allocator)


class _Builder:
    def __init__(self, device: str, scene: Scene) -> None:
        self.device = device
        self.scene = scene
        self.blocks: list[_Block] = []
        self.live: dict[int, int] = {}
        """Address → row of the block there."""
        self.at_address: dict[int, list[int]] = {}
        """Address → rows of all blocks that were there, by time."""
        self.went: set[int] = set()
        """Addresses of storages that went, of which the profiler has not told."""
        self.times: list[int] = []
        self.sizes: list[int] = []
        self.rows: list[int] = []
        self.call_starts = [start for start, _ in scene.root_calls]

    def build(
        self, changes: Iterable[Change], bytes_kind: BytesKind, allocator: AllocatorFigures | None
    ) -> Trace:
        for (device, address), held in self.scene.before.held.items():
            if device == self.device:
                self._add(
                    _Block(
                        held.storage.size_bytes,
                        address,
                        identity=held.identity,
                        owner=held.owner,
                    )
                )
        gone = iter(
            [(at, address) for at, where, address in self.scene.gone if where == self.device]
        )
        next_gone = next(gone, None)
        for change in changes:
            while next_gone is not None and next_gone[0] <= change.time_ns:
                self._go(*next_gone)
                next_gone = next(gone, None)
            if change.change_bytes > 0:
                self._alloc(change)
            elif change.change_bytes < 0:
                self._free(change)
        while next_gone is not None:
            self._go(*next_gone)
            next_gone = next(gone, None)
        self._identify()
        unseen_bytes = self._settle()
        return self._trace(bytes_kind, allocator, unseen_bytes)

    # --- the events ----------------------------------------------------------------------------

    def _add(self, block: _Block) -> int:
        row = len(self.blocks)
        self.blocks.append(block)
        self.live[block.address] = row
        self.at_address.setdefault(block.address, []).append(row)
        return row

    def _event(self, time_ns: int, change_bytes: int, row: int) -> int:
        self.times.append(time_ns)
        self.sizes.append(change_bytes)
        self.rows.append(row)
        return len(self.times) - 1

    def _alloc(self, change: Change) -> None:
        known = self.live.pop(change.address, None)
        self.went.discard(change.address)
        if known is not None:  # its end was not seen: it was not torch's own memory
            self._end(known, change)
        block = _Block(
            change.change_bytes,
            change.address,
            alloc_ns=change.time_ns,
            place=change.place,
            root=change.root,
        )
        block.alloc_event = self._event(change.time_ns, change.change_bytes, self._add(block))

    def _free(self, change: Change) -> None:
        row = self.live.pop(change.address, None)
        if row is None:
            if change.address in self.went:
                self.went.discard(change.address)
                return
            # From before, and nobody was known to hold it.
            row = self._add(_Block(-change.change_bytes, change.address))
            del self.live[change.address]
        self._end(row, change)

    def _go(self, time_ns: int, address: int) -> None:
        """A storage from before went. The profiler may tell so too, a moment later."""
        row = self.live.get(address)
        if row is not None and self.blocks[row].alloc_event == NONE:
            del self.live[address]
            self.went.add(address)
            self._end(row, Change(time_ns, 0, address, self.device, OUTSIDE, NONE))

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
        call = bisect_right(self.call_starts, alloc_ns) - 1
        return call >= 0 and free_ns <= self.scene.root_calls[call][1]

    def _settle(self) -> int:
        """Add what lives at the end and was not seen to come (another thread's, or of a time in
        which another profiler had taken over); returns its bytes."""
        after, now = self.scene.after.held, self.scene.end_ns
        unseen = 0
        for (device, address), held in after.items():
            if device == self.device and address not in self.live and not held.storage.foreign:
                block = _Block(
                    held.storage.size_bytes,
                    address,
                    alloc_ns=now,
                    identity=held.identity,
                    owner=held.owner,
                )
                block.alloc_event = self._event(now, block.size_bytes, self._add(block))
                unseen += block.size_bytes
        return unseen

    # --- who is it -------------------------------------------------------------------------------

    def _identify(self) -> None:
        for sighting in self.scene.sightings:
            if sighting.device == self.device:
                self._see(sighting)
        for address, row in self.live.items():
            block = self.blocks[row]
            held = self.scene.after.held.get((self.device, address))
            if held is not None:
                self._hold(block, held)
            if block.owner is None:
                block.owner = self._graph_owner(block)

    def _see(self, sighting: Sighting) -> None:
        for row in reversed(self.at_address.get(sighting.address, ())):
            block = self.blocks[row]
            if block.alloc_ns <= sighting.time_ns:
                if block.free_ns >= sighting.time_ns and block.identity is None:
                    block.identity = sighting.identity
                    block.owner = block.owner or sighting.owner(self.scene.before, self.scene.after)
                return

    @staticmethod
    def _hold(block: _Block, held: Held) -> None:
        if block.identity in (None, "input") and held.identity is not None:
            block.identity = held.identity
        if held.owner is not None:
            block.owner = held.owner

    def _graph_owner(self, block: _Block) -> Owner | None:
        if block.root == NONE:
            return None
        root = self.scene.roots[block.root]
        owners = self.scene.after.graph_owners
        for number in range(root.first_sequence, root.end_sequence):
            if number in owners:
                return owners[number]
        return None

    def _is_saved(self, block: _Block) -> bool:
        if block.alloc_event == NONE or block.within:
            return False
        root = self.scene.roots[block.root] if block.root != NONE else None
        recorded = (
            root is not None
            and root.phase in ("forward", "other")
            and root.end_sequence > root.first_sequence >= 0
        )
        recomputed = block.place is not None and block.place.phase == "recompute"
        forward = block.place is not None and block.place.phase in ("forward", "other", "recompute")
        return recorded or recomputed or (forward and block.freed_in_backward)

    # --- the columns -----------------------------------------------------------------------------

    def _trace(
        self, bytes_kind: BytesKind, allocator: AllocatorFigures | None, unseen_bytes: int
    ) -> Trace:
        blocks = self.blocks
        contexts: dict[Context, int] = {}
        places: dict[Place, int] = {}
        owners: dict[Owner, int] = {}

        def context_row(place: Place | None) -> int:
            if place is None:
                return NONE
            row = places.get(place)
            if row is None:
                context = self.scene.context(place)
                row = places[place] = contexts.setdefault(context, len(contexts))
            return row

        def owner_row(owner: Owner | None) -> int:
            return NONE if owner is None else owners.setdefault(owner, len(owners))

        sizes = np.array([block.size_bytes for block in blocks], np.int64)
        table = Blocks(
            size_bytes=sizes,
            requested_bytes=sizes,
            alloc_event=np.array([block.alloc_event for block in blocks], np.int64),
            free_event=np.array([block.free_event for block in blocks], np.int64),
            context=np.array([context_row(block.place) for block in blocks], np.int32),
            identity=np.array(
                [
                    NONE if block.identity is None else CATEGORIES.index(block.identity)
                    for block in blocks
                ],
                np.int8,
            ),
            owner=np.array([owner_row(block.owner) for block in blocks], np.int32),
            within_op=np.array([block.within for block in blocks], np.bool_),
            saved=np.array([self._is_saved(block) for block in blocks], np.bool_),
        )
        scene = self.scene
        return Trace(
            recorder=scene.recorder,
            bytes_kind=bytes_kind,
            device=self.device,
            start_ns=scene.start_ns,
            end_ns=scene.end_ns,
            time_ns=np.maximum.accumulate(np.array(self.times, np.int64)),
            change_bytes=np.array(self.sizes, np.int64),
            block=np.array(self.rows, np.int32),
            blocks=table,
            contexts=tuple(contexts),
            owners=tuple(owners),
            modules=_modules(contexts, scene),
            phases=scene.phases,
            allocator=allocator,
            exact=scene.exact and not unseen_bytes,
            notes=(UNSEEN.format(unseen_bytes),) if unseen_bytes and scene.exact else (),
        )


def _modules(contexts: Iterable[Context], scene: Scene) -> tuple[Module, ...]:
    """Every module that a context or a holder names, once."""
    named = [Module(*name) for seen in (scene.before, scene.after) for name in _names(seen)]
    used = [context.module for context in contexts if context.module is not None]
    return tuple(dict.fromkeys([*used, *named]))


def _names(holders: Holders) -> Iterable[tuple[str, str]]:
    return holders.module_names.values()
