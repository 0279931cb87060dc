"""Reads a memory snapshot that `torch.cuda.memory._dump_snapshot` wrote, or the HTML page that
torch's viewer made of one. No code runs: a snapshot needs no class, so none is given.

While the unpickler reads, events that are complete are taken into columns and emptied, so that a
million of them never exist at once.
"""

from __future__ import annotations

import base64
import binascii
import io
import pickle
import re
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from jupyter_vram.errors import SnapshotError
from jupyter_vram.sources.snapshot_events import (
    CHUNK,
    EventCollector,
    EventColumns,
    Snapshot,
    collect,
    no_collection,
)

MAX_FILE_BYTES = 16 << 30
_HTML = re.compile(rb"[\s\xef\xbb\xbf]*<")
_BASE64 = re.compile(rb'"base64"\s*:\s*"([A-Za-z0-9+/=\\]*)"')
_LOOK_EVERY_BYTES = 1 << 20


def load_snapshot(path: str | PathLike[str], *, max_bytes: int = MAX_FILE_BYTES) -> Snapshot:
    """The snapshot in a file. Raises `SnapshotError` if there is none, or none that is sound."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise SnapshotError(
                f"{path.name} has {size} bytes, and at most {max_bytes} are read: record with a"
                " smaller max_entries."
            )
        with path.open("rb") as file:
            if _HTML.match(file.read(64)):
                file.seek(0)
                data = _embedded(file.read())
                return _load(io.BytesIO(data), len(data))
            file.seek(0)
            return _load(file, size)
    except OSError as error:
        raise SnapshotError(
            f"{path.name} can't be read: {error.strerror or type(error).__name__}."
        ) from error


def loads_snapshot(data: bytes) -> Snapshot:
    """The snapshot in a pickle, or a page, held in memory. Raises `SnapshotError`."""
    if _HTML.match(data):
        data = _embedded(data)
    return _load(io.BytesIO(data), len(data))


def _embedded(page: bytes) -> bytes:
    found = _BASE64.search(page)
    if found is None:
        raise SnapshotError(
            "This page holds no memory snapshot: save the viewer's page with its data, or give the"
            " pickle that was dumped."
        )
    try:
        return base64.b64decode(found[1].replace(b"\\/", b"/").replace(b"\\", b""), validate=True)
    except binascii.Error as error:
        raise SnapshotError("The snapshot in this page is cut off: save it again.") from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise SnapshotError(
            f"This pickle wants to run code ({module_name[:80]}.{global_name[:80]}): that is no"
            " memory snapshot of torch, and it was not opened."
        )

    def persistent_load(self, pid: Any) -> Any:  # noqa: ARG002 pickle's name
        raise SnapshotError("This pickle refers to data elsewhere: it is no memory snapshot.")


def _load(file: BinaryIO, size: int) -> Snapshot:
    with no_collection():
        source = _Source(file, size)
        try:
            raw = source.load()
        except SnapshotError:
            raise
        except MemoryError as error:
            raise SnapshotError("There is not enough memory to read this snapshot.") from error
        except Exception as error:  # damaged bytes raise nearly anything
            raise SnapshotError(
                f"This is no memory snapshot of torch, or a damaged one ({type(error).__name__}:"
                f" {str(error)[:100]})."
            ) from error
        return collect(raw, consume=True, max_items=size, read=source.columns)


class _Source:
    """The file as the unpickler reads it: never beyond its end, and with a look at what it has
    built so far each time it asks for more."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0
        self._look_at = 0
        self._events: list[Any] | None = None
        self._taken = 0
        self._collectors: dict[int, tuple[list[Any], int, EventCollector]] = {}
        self._unpickler = _Unpickler(self)

    def load(self) -> object:
        try:
            return self._unpickler.load()
        finally:
            # It holds all that it built, and this object, which holds it.
            del self._unpickler

    def read(self, n: int = -1, /) -> bytes:
        self._before(n)
        data = self._file.read(n)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        self._before(len(buffer))
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readline(self) -> bytes:
        line = self._file.readline(1 << 20)
        self._at += len(line)
        return line

    def peek(self, n: int, /) -> bytes:
        at = self._file.tell()
        data = self._file.read(n)
        self._file.seek(at)
        return data

    def columns(self, events: list[Any]) -> EventColumns | None:
        """What was taken of a list of events, and its rest."""
        if id(events) not in self._collectors:
            return None
        _, taken, collector = self._collectors.pop(id(events))
        collector.extend(events[taken:])
        return collector.columns()

    def _before(self, n: int) -> None:
        if n > self._size - self._at and n > 1 << 20:
            raise SnapshotError("This memory snapshot is cut off: dump it again.")
        if self._events is not None:
            self._take(self._events)
        elif self._at >= self._look_at:
            self._find()

    def _find(self) -> None:
        """The list of events that is being filled. The unpickler's memo holds it."""
        self._look_at = self._at + max(_LOOK_EVERY_BYTES, self._at // 4)
        memo: dict[int, object] = dict(self._unpickler.memo.copy())
        for value in memo.values():
            if (
                isinstance(value, list)
                and id(value) not in self._collectors
                and len(value) >= CHUNK // 2
                and isinstance(value[-1], dict)
                and "action" in value[-1]
            ):
                self._events = value
                self._taken = self._at
                self._collectors[id(value)] = (value, 0, EventCollector(consume=True))

    def _take(self, events: list[Any]) -> None:
        _, taken, collector = self._collectors[id(events)]
        if len(events) - taken >= CHUNK:
            end = len(events)
            collector.extend(events[taken:end])
            self._collectors[id(events)] = (events, end, collector)
            self._taken = self._at
        elif self._at - self._taken > 32 * CHUNK * 10 and self._at >= self._look_at:
            self._events = None  # filled: the next device's comes
