"""Storages that come and go: the memory of a dry run, event by event."""

from __future__ import annotations

import threading
import time
import weakref
from typing import NamedTuple

import torch

from jupyter_vram.dry_run.labels import Labels


class StorageEvent(NamedTuple):
    """Bytes come (`change_bytes` > 0) or go."""

    time_ns: int
    change_bytes: int
    address: int
    device: str
    thread: int


class Watch:
    """Sees storages by their Python object, which torch keeps for as long as their memory lives."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.events: list[StorageEvent] = []
        self.live_bytes: dict[str, int] = {}
        """By device, of what came since the beginning and of what was told by `add`."""
        self.peak_bytes: dict[str, int] = {}
        self._scratch = 0

    def knows(self, storage: torch.UntypedStorage) -> bool:
        """Whether it is watched."""
        return storage._cdata in self._known  # noqa: SLF001

    def add(self, storage: torch.UntypedStorage, device: torch.device) -> None:
        """A storage that is there from before: it counts as live, and comes with no event."""
        self._watch(storage, device)

    def see(self, storage: torch.UntypedStorage, device: torch.device) -> None:
        """A storage that an operation returned: it is new, unless it is watched."""
        size_bytes = self._watch(storage, device)
        if size_bytes:
            address = storage._cdata  # noqa: SLF001
            self._note(size_bytes, address, str(device))

    def pass_by(self, size_bytes: int, device: torch.device) -> None:
        """Memory that an operation takes while it runs."""
        if size_bytes > 0:
            self._scratch -= 1  # no storage has such an address
            name = str(device)
            self._count(size_bytes, name)
            self._note(size_bytes, self._scratch, name)
            self._count(-size_bytes, name)
            self._note(-size_bytes, self._scratch, name)

    def mirror(self, tensor: torch.Tensor, device: torch.device) -> None:
        """A copy on `device` that lives for as long as the real tensor's storage."""
        storage = tensor.untyped_storage()
        address = ~storage._cdata  # noqa: SLF001 - that of no storage
        if address in self._known:
            return
        size_bytes, name = tensor.numel() * tensor.itemsize, str(device)

        def gone(_: object) -> None:
            if self._known.pop(address, None) is not None:
                self._count(-size_bytes, name)
                self._note(-size_bytes, address, name)

        self._known[address] = weakref.ref(storage, gone)
        self._count(size_bytes, name)
        self._note(size_bytes, address, name)

    def end(self) -> None:
        """Watch no more."""
        self._known.clear()

    def _watch(self, storage: torch.UntypedStorage, device: torch.device) -> int:
        """Its bytes if it counts, and was not known."""
        address = storage._cdata  # noqa: SLF001
        if address in self._known:
            return 0
        size_bytes = storage.nbytes()
        labels, known = self._labels.of_storage, self._known
        labels[address] = device
        name = str(device)

        def gone(_: object) -> None:
            labels.pop(address, None)
            if known.pop(address, None) is not None and size_bytes and name != "meta":
                self._count(-size_bytes, name)
                self._note(-size_bytes, address, name)

        known[address] = weakref.ref(storage, gone)
        if device.type == "meta":
            return 0
        self._count(size_bytes, name)
        return size_bytes

    def _count(self, change_bytes: int, device: str) -> None:
        live = self.live_bytes.get(device, 0) + change_bytes
        self.live_bytes[device] = live
        if live > self.peak_bytes.get(device, 0):
            self.peak_bytes[device] = live

    def _note(self, change_bytes: int, address: int, device: str) -> None:
        self.events.append(
            StorageEvent(time.time_ns(), change_bytes, address, device, threading.get_native_id())
        )
