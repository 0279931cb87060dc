"""What ``os.scandir`` gives of a folder that is two: what is there, and what a dry run wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any


class Entry:
    """An `os.DirEntry` of a copy, under the path that the code knows."""

    def __init__(self, entry: Any, folder: Any) -> None:
        self._entry = entry
        self.name = entry.name
        self.path = os.path.join(folder, entry.name)  # noqa: PTH118

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def __fspath__(self) -> str:
        return str(self.path)


class Entries:
    """What `os.scandir` gives."""

    def __init__(self, entries: Iterable[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is open."""
