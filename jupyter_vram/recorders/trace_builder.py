"""Changes and holders → a `Trace` per device: whose each block is, and the columns."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
from jupyter_vram.model.units import CATEGORIES, BytesKind, RecorderKind
from jupyter_vram.recorders.holders import Holders
from jupyter_vram.recorders.ledger import Block, Ledger, goes
from jupyter_vram.recorders.profiler_walk import Change, Place, Root
from jupyter_vram.recorders.sightings import Sighting

UNSEEN = (
    "{:,} bytes are there at the end and were not seen to come: another thread allocated them, or"
    " not torch's allocator. So the peak may have been higher."
)
FOREIGN = (
    "{:,} bytes came that torch did not allocate (NumPy's memory, mapped files): they count at the"
    " end only."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What all devices of a recording share."""

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
    recorder: RecorderKind = "cpu",
    bytes_kind: BytesKind = "tensor",
    allocator: AllocatorFigures | None = None,
) -> Trace:
    """The trace of one device, of which only the changes are known. `changes`: its own, by time."""
    ledger = Ledger(device, scene.root_calls)
    for (where, address), held in scene.before.held.items():
        if where == device:
            ledger.add(Block(held.storage.size_bytes, address))
    gone = (goes(*going) for going in scene.gone if going[1] == device)
    for change in heapq.merge(gone, changes, key=lambda change: change.time_ns):
        ledger.write(change)
    identify(ledger, scene)
    unseen_bytes, foreign_bytes = _settle(ledger, scene)
    notes = []
    if unseen_bytes and scene.exact:
        notes.append(UNSEEN.format(unseen_bytes))
    if foreign_bytes:
        notes.append(FOREIGN.format(foreign_bytes))
    return columns(
        ledger,
        scene,
        recorder=recorder,
        bytes_kind=bytes_kind,
        allocator=allocator,
        exact=scene.exact and not unseen_bytes,
        notes=tuple(notes),
    )


def identify(ledger: Ledger, scene: Scene) -> None:
    """Say of each block what it is and who holds it, as far as somebody has seen."""
    for block in ledger.blocks:
        held = scene.before.held.get((ledger.device, block.address))
        if held is not None and block.alloc_event == NONE:
            block.identity, block.owner = held.identity, held.owner
    for sighting in scene.sightings:
        if sighting.device == ledger.device:
            _see(ledger, sighting, scene)
    for address, row in ledger.live.items():
        block = ledger.blocks[row]
        held = scene.after.held.get((ledger.device, address))
        if held is not None:
            if block.identity in (None, "input") and held.identity is not None:
                block.identity = held.identity
            block.owner = held.owner or block.owner
        if block.owner is None:
            block.owner = _graph_owner(block, scene)


def _see(ledger: Ledger, sighting: Sighting, scene: Scene) -> None:
    for row in reversed(ledger.at_address.get(sighting.address, ())):
        block = ledger.blocks[row]
        if block.alloc_ns <= sighting.time_ns:
            if block.free_ns >= sighting.time_ns and block.identity is None:
                block.identity = sighting.identity
                block.owner = block.owner or sighting.owner(scene.before, scene.after)
            return


def _graph_owner(block: Block, scene: Scene) -> Owner | None:
    if block.root == NONE:
        return None
    root, owners = scene.roots[block.root], scene.after.graph_owners
    numbers = range(root.first_sequence, root.end_sequence)
    return next((owners[number] for number in numbers if number in owners), None)


def _settle(ledger: Ledger, scene: Scene) -> tuple[int, int]:
    """Add what lives at the end and was not seen to come (another thread's, or of a time in which
    another profiler had taken over); returns its bytes: torch's, and others'."""
    unseen = foreign = 0
    for (device, address), held in scene.after.held.items():
        if device == ledger.device and address not in ledger.live:
            size = held.storage.size_bytes
            block = Block(size, address, alloc_ns=scene.end_ns)
            block.identity, block.owner = held.identity, held.owner
            ledger.appear(block)
            if held.storage.foreign:
                foreign += size
            else:
                unseen += size
    return unseen, foreign


def columns(
    ledger: Ledger,
    scene: Scene,
    *,
    recorder: RecorderKind,
    bytes_kind: BytesKind,
    allocator: AllocatorFigures | None = None,
    exact: bool = True,
    notes: tuple[str, ...] = (),
) -> Trace:
    """The ledger as a trace."""
    blocks = ledger.blocks
    contexts: dict[Context, int] = {}
    places: dict[Place | Context, int] = {}
    owners: dict[Owner, int] = {}

    def context_row(place: Place | Context | None) -> int:
        if place is None:
            return NONE
        row = places.get(place)
        if row is None:
            context = place if isinstance(place, Context) else scene.context(place)
            row = places[place] = contexts.setdefault(context, len(contexts))
        return row

    def owner_row(owner: Owner | None) -> int:
        return NONE if owner is None else owners.setdefault(owner, len(owners))

    def identity_row(block: Block) -> int:
        return NONE if block.identity is None else CATEGORIES.index(block.identity)

    sizes = np.array([block.size_bytes for block in blocks], np.int64)
    table = Blocks(
        size_bytes=sizes,
        requested_bytes=sizes,
        alloc_event=np.array([block.alloc_event for block in blocks], np.int64),
        free_event=np.array([block.free_event for block in blocks], np.int64),
        context=np.array([context_row(block.place) for block in blocks], np.int32),
        identity=np.array([identity_row(block) for block in blocks], np.int8),
        owner=np.array([owner_row(block.owner) for block in blocks], np.int32),
        within_op=np.array([block.within for block in blocks], np.bool_),
        saved=np.array([_is_saved(block, scene) for block in blocks], np.bool_),
    )
    return Trace(
        recorder=recorder,
        bytes_kind=bytes_kind,
        device=ledger.device,
        start_ns=scene.start_ns,
        end_ns=scene.end_ns,
        time_ns=np.maximum.accumulate(np.array(ledger.times, np.int64)),
        change_bytes=np.array(ledger.sizes, np.int64),
        block=np.array(ledger.rows, np.int32),
        blocks=table,
        contexts=tuple(contexts),
        owners=tuple(owners),
        modules=_modules(contexts, scene),
        phases=scene.phases,
        allocator=allocator,
        exact=exact,
        notes=notes,
    )


def _is_saved(block: Block, scene: Scene) -> bool:
    if block.alloc_event == NONE or block.within or block.place is None:
        return False
    phase = block.place.phase
    root = scene.roots[block.root] if block.root != NONE else None
    recorded = (
        root is not None
        and root.phase in ("forward", "other")
        and root.end_sequence > root.first_sequence >= 0
    )
    forward = phase in ("forward", "other")
    return recorded or phase == "recompute" or (forward and block.freed_in_backward)


def _modules(contexts: Iterable[Context], scene: Scene) -> tuple[Module, ...]:
    """Every module that a context or a holder names, once."""
    used = [context.module for context in contexts if context.module is not None]
    named = [
        Module(*name) for seen in (scene.before, scene.after) for name in seen.module_names.values()
    ]
    return tuple(dict.fromkeys([*used, *named]))
