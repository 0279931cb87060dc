"""The dry run's storages as a recorder's memory: its events among the profiler's operations."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from jupyter_vram.dry_run.labels import Labels
from jupyter_vram.dry_run.watch import StorageEvent, Watch
from jupyter_vram.model.trace import NONE
from jupyter_vram.model.units import RecorderKind
from jupyter_vram.recorders.holders import Storage
from jupyter_vram.sources.torch_profiler import MARKER, MemoryEvent, OpEvent


class DryRunMemory:
    """`jupyter_vram.recorders.recorder.Memory` of meta tensors. Made in the recorded thread."""

    kind: RecorderKind = "dry_run"

    def __init__(self, labels: Labels, watch: Watch) -> None:
        self._labels = labels
        self._watch = watch
        self._thread = threading.get_native_id()

    def storage_of(self, tensor: Any) -> Storage | None:
        """By the address of the storage itself: meta tensors have no memory with an address."""
        try:
            storage = tensor.untyped_storage()
            device: torch.device = self._labels.device(tensor)
            size_bytes, address = storage.nbytes(), storage._cdata  # noqa: SLF001
            foreign = device.type == "cpu" and not tensor.is_meta and not storage.resizable()
        except Exception:  # noqa: BLE001 - a tensor's subclass may raise anything
            return None
        if not size_bytes or device.type == "meta":
            return None
        return Storage(str(device), address, size_bytes, foreign)

    def events(
        self, operations: Iterable[OpEvent | MemoryEvent]
    ) -> Iterator[OpEvent | MemoryEvent]:
        """Each change after the operations that had begun before it, and within those that had not
        ended. What the profiler saw of this process's memory is left out."""
        pending = iter(self._watch.events)
        change = next(pending, None)
        recorded = NONE
        open_operations: list[OpEvent] = []

        def until(time_ns: int) -> Iterator[MemoryEvent]:
            nonlocal change
            while change is not None and change.time_ns < time_ns:
                while open_operations and open_operations[-1].end_ns <= change.time_ns:
                    open_operations.pop()
                depth = open_operations[-1].depth + 1 if open_operations else 0
                yield self._event(change, depth, recorded)
                change = next(pending, None)

        for event in operations:
            if isinstance(event, MemoryEvent):
                continue
            if event.name == MARKER and event.is_user:
                recorded = event.thread
            if event.thread == recorded:
                yield from until(event.start_ns)
                while open_operations and open_operations[-1].depth >= event.depth:
                    open_operations.pop()
                open_operations.append(event)
            yield event
        yield from until(1 << 62)

    def _event(self, change: StorageEvent, depth: int, recorded: int) -> MemoryEvent:
        return MemoryEvent(
            depth,
            change.time_ns,
            change.change_bytes,
            change.address,
            change.device,
            recorded if change.thread == self._thread else NONE,
        )
