"""Where the files are that a dry run writes: copies in its own folder, each at its own path.

The folder that is the child's own has, under ``files``, a copy of whatever the code writes. Files
that were there before are never changed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_vram.dry_run.refusals import refused

MOST_COPIED_BYTES = 256 << 20
"""Larger files can't be opened for changes in the middle: they would have to be copied first."""
_DEVICES = ("null", "zero", "full")


class Copies:
    """Paths, and their copies."""

    def __init__(self, folder: Path, note: Callable[[str, str], None]) -> None:
        """
        Args:
            folder: where anything may be written.
            note: is told of a path, and of what was not done with it.
        """
        self.folder = folder
        self.note = note
        self._files = folder / "files"

    @property
    def exist(self) -> bool:
        """Whether anything was written yet."""
        return self._files.exists()

    def is_free(self, path: Any, folder: int | None = None) -> bool:
        """Whether it may be written as it is.

        Args:
            folder: descriptor of the one that a relative path begins at.
        """
        try:
            if isinstance(path, int):
                if os.fstat(path).st_nlink == 0:  # nobody else can open it
                    return True
                path = f"/proc/self/fd/{path}"
            elif folder is not None and folder >= 0:
                path = Path(f"/proc/self/fd/{folder}", os.fsdecode(path))
            resolved = Path(os.path.realpath(os.fsdecode(path)))
        except (TypeError, ValueError, OSError):
            return False
        if resolved.is_relative_to(self.folder):
            return True
        return resolved.parent == Path("/dev") and (
            resolved.name in _DEVICES or resolved.name.startswith("nvidia")
        )

    def copy_of(self, path: Any) -> Path:
        """Where its copy is, or would be."""
        resolved = Path(os.path.abspath(os.path.realpath(os.fsdecode(path))))  # noqa: PTH100
        drive = resolved.drive.replace(":", "").strip("\\/")
        return self._files.joinpath(drive, *resolved.parts[1:])

    def readable(self, path: Any) -> Any:
        """The path, or that of its copy."""
        if isinstance(path, int) or path is None or not self.exist:
            return path
        copy = self.copy_of(path)
        if not copy.exists() or (copy.is_dir() and os.path.exists(path)):  # noqa: PTH110
            return path
        return os.fsencode(copy) if isinstance(path, bytes) else str(copy)

    def writable(self, path: Any, *, emptied: bool = False, extended: bool = False) -> str:
        """Its copy, made if there is a file and none yet.

        Args:
            emptied: the content does not matter.
            extended: only what is added matters.
        """
        copy = self.copy_of(path)
        if not copy.exists():
            self.make_room(path, copy)
            if os.path.isfile(path):  # noqa: PTH113
                size_bytes = os.path.getsize(path)  # noqa: PTH202
                if emptied:
                    copy.touch()
                elif size_bytes <= MOST_COPIED_BYTES:
                    shutil.copyfile(path, copy)
                elif extended:
                    copy.touch()
                    os.truncate(copy, size_bytes)
                else:
                    raise refused(f"change {os.fsdecode(path)}, which is too large to copy")
        self.note(os.fsdecode(path), "written")
        return str(copy)

    def make_room(self, path: Any, copy: Path) -> None:
        """A folder for the copy. Raises `FileNotFoundError` where the path has none."""
        parent = Path(os.path.realpath(os.fsdecode(path))).parent
        if not parent.is_dir() and not copy.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        copy.parent.mkdir(parents=True, exist_ok=True)

    def is_stood_in_for(self, path: Any) -> bool:
        """Not what is the child's own, and not devices, pipes and folders: those are refused."""
        if self.is_free(path):
            return False
        try:
            return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
        except OSError:
            return True
