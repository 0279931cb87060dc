"""Files that a dry run writes: they are elsewhere, and only this process sees them.

The folder that is the child's own has, under ``files``, a copy of whatever the code writes, at the
same path. Whoever reads a path gets the copy if there is one. Files that were there before are
never changed, and their removal has no effect.
"""

from __future__ import annotations

import errno
import io
import os
import pathlib
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from jupyter_vram.dry_run.refusals import refused

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MOST_COPIED_BYTES = 256 << 20
"""Larger files can't be opened for changes in the middle: they would have to be copied first."""
_READERS = (
    *("stat", "lstat", "access", "listdir", "scandir", "readlink"),
    *("getxattr", "listxattr"),
)
_CHANGERS = (
    *("mkdir", "rmdir", "remove", "unlink", "truncate", "utime", "chmod", "chown"),
    *("setxattr", "removexattr"),
)
_MOVERS = ("rename", "replace", "link", "symlink")
_DEVICES = ("null", "zero", "full")


class Overlay:
    """Redirects Python's own file functions, for good."""

    def __init__(self, folder: Path, note: Callable[[str, str], None]) -> None:
        """
        Args:
            folder: where anything may be written.
            note: is told of a path, and of what was not done with it.
        """
        self._folder = folder
        self._files = folder / "files"
        self._note = note
        self._inside = threading.local()
        self._open: Any = io.open
        self._system: dict[str, Any] = {
            name: getattr(os, name)
            for name in ("open", *_READERS, *_CHANGERS, *_MOVERS)
            if hasattr(os, name)
        }
        self._rmtree = shutil.rmtree

    def install(self) -> None:
        """Also where `open` is known by another name already: IPython gives cells its own."""
        for name, wrap in (
            ("open", self._opening),
            *((name, self._reading) for name in _READERS),
            *((name, self._changing) for name in _CHANGERS),
            *((name, self._moving) for name in _MOVERS),
        ):
            if name in self._system:
                self._set(os, name, self._once(self._system[name], wrap(name)))
        shutil.rmtree = self._once(self._rmtree, self._remove_tree)
        opened = self._once(self._open, self.open)
        for module in list(sys.modules.values()):
            names: Any = getattr(module, "__dict__", None)
            if isinstance(names, dict):
                for name in ("open", "io_open"):
                    if names.get(name) is self._open:
                        names[name] = opened
        accessor = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10
        if accessor is not None:
            accessor.open = staticmethod(opened)

    def _set(self, module: Any, name: str, function: Callable[..., Any]) -> None:
        setattr(module, name, function)
        accessor = getattr(pathlib, "_NormalAccessor", None)
        if hasattr(accessor, name):
            setattr(accessor, name, staticmethod(function))

    def _once(self, original: Callable[..., Any], stand_in: Callable[..., Any]) -> Any:
        """`stand_in`, but `original` where our own code calls it."""

        @wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "is_set", False):
                return original(*args, **kwargs)
            self._inside.is_set = True
            try:
                return stand_in(*args, **kwargs)
            finally:
                self._inside.is_set = False

        return call

    # --- where a path is ---------------------------------------------------------------------

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
        if resolved.is_relative_to(self._folder):
            return True
        return resolved.parent == Path("/dev") and (
            resolved.name in _DEVICES or resolved.name.startswith("nvidia")
        )

    def _copy_of(self, path: Any) -> Path:
        resolved = Path(os.path.abspath(os.path.realpath(os.fsdecode(path))))  # noqa: PTH100
        drive = resolved.drive.replace(":", "").strip("\\/")
        return self._files.joinpath(drive, *resolved.parts[1:])

    def readable(self, path: Any) -> Any:
        """The path, or that of its copy."""
        if isinstance(path, int) or path is None or not self._files.exists():
            return path
        copy = self._copy_of(path)
        if not copy.exists() or (copy.is_dir() and os.path.exists(path)):  # noqa: PTH110
            return path
        return os.fsencode(copy) if isinstance(path, bytes) else str(copy)

    def writable(self, path: Any, *, emptied: bool = False, extended: bool = False) -> str:
        """Its copy, made if there is a file and none yet.

        Args:
            emptied: the content does not matter.
            extended: only what is added matters.
        """
        copy = self._copy_of(path)
        if not copy.exists():
            self._make_room(path, copy)
            if os.path.isfile(path):  # noqa: PTH113
                size_bytes = os.path.getsize(path)  # noqa: PTH202
                if emptied:
                    copy.touch()
                elif extended:
                    copy.touch()
                    os.truncate(copy, size_bytes)
                elif size_bytes > MOST_COPIED_BYTES:
                    raise refused(f"change {os.fsdecode(path)}, which is too large to copy")
                else:
                    shutil.copyfile(path, copy)
        self._note(os.fsdecode(path), "written")
        return str(copy)

    def _make_room(self, path: Any, copy: Path) -> None:
        parent = Path(os.path.realpath(os.fsdecode(path))).parent
        if not parent.is_dir() and not copy.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        copy.parent.mkdir(parents=True, exist_ok=True)

    # --- stand-ins ---------------------------------------------------------------------------

    def open(
        self, file: Any, mode: str = "r", *args: Any, opener: Any = None, **kwargs: Any
    ) -> Any:
        """`open`: of copies, where it is for writing."""
        if isinstance(file, int):
            return self._open(file, mode, *args, opener=opener, **kwargs)
        changes = set(mode) & set("wax+")
        if opener is not None:
            if not changes or self.is_free(file):
                return self._open(file, mode, *args, opener=opener, **kwargs)
            self._inside.is_set = False  # it may well use os.open
            try:
                descriptor = opener(file, _flags(mode))
            finally:
                self._inside.is_set = True
            return self._open(descriptor, mode, *args, **kwargs)
        if not changes:
            return self._open(self.readable(file), mode, *args, **kwargs)
        if not self._is_stood_in_for(file):
            return self._open(file, mode, *args, **kwargs)
        if "x" in mode and (os.path.lexists(file) or self._copy_of(file).exists()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(file))
        copy = self.writable(file, emptied="w" in mode, extended="a" in mode and "+" not in mode)
        return self._open(copy, mode, *args, **kwargs)

    def _is_stood_in_for(self, path: Any) -> bool:
        """Not what is the child's own, and not devices, pipes and folders: those are refused."""
        if self.is_free(path):
            return False
        try:
            return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
        except OSError:
            return True

    def _opening(self, _: str) -> Callable[..., Any]:
        system = self._system["open"]

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
            if dir_fd is not None or isinstance(path, int):
                return system(path, flags, mode, dir_fd=dir_fd)
            if not flags & WRITES:
                return system(self.readable(path), flags, mode)
            if not self._is_stood_in_for(path):
                return system(path, flags, mode)
            if flags & os.O_EXCL and os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
            return system(self.writable(path, emptied=bool(flags & os.O_TRUNC)), flags, mode)

        return opened

    def _reading(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def read(path: Any = None, *args: Any, **kwargs: Any) -> Any:
            if path is None:  # listdir()
                path = "."
            return system(self.readable(path), *args, **kwargs)

        def listed(path: Any = None) -> Any:
            found = read(path)
            if isinstance(path, (int, bytes)) or not self._files.exists():
                return found
            copy = self._copy_of(path if path is not None else ".")
            new = system(copy) if copy.is_dir() else []
            return [*found, *(entry for entry in new if entry not in found)]

        return listed if name == "listdir" else read

    def _changing(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def changed(path: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int) or kwargs.get("dir_fd") is not None or self.is_free(path):
                return system(path, *args, **kwargs)
            copy = self._copy_of(path)
            if name == "mkdir":
                if os.path.lexists(path) or copy.exists():
                    raise FileExistsError(
                        errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path)
                    )
                self._make_room(path, copy)
            elif not copy.exists():
                if not os.path.lexists(path):
                    raise FileNotFoundError(
                        errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path)
                    )
                self._note(os.fsdecode(path), name)
                return None
            return system(copy, *args, **kwargs)

        return changed

    def _moving(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def moved(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if any(kwargs.get(key) is not None for key in ("src_dir_fd", "dst_dir_fd", "dir_fd")):
                return system(source, target, *args, **kwargs)
            own = name == "symlink" or self.is_free(source)
            found = source if own else self.readable(source)
            if not own and found == source:
                if not os.path.lexists(source):
                    raise FileNotFoundError(
                        errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(source)
                    )
                self._note(os.fsdecode(source), name)
                return None
            if not self.is_free(target):
                copy = self._copy_of(target)
                self._make_room(target, copy)
                self._note(os.fsdecode(target), "written")
                target = copy
            return system(found, target, *args, **kwargs)

        return moved

    def _remove_tree(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_free(path):
            return self._rmtree(path, *args, **kwargs)
        copy = self._copy_of(path)
        if copy.exists():
            self._rmtree(copy, *args, **kwargs)
        if os.path.lexists(path):
            self._note(os.fsdecode(path), "rmtree")
        return None


def _flags(mode: str) -> int:
    access = os.O_RDWR if "+" in mode else os.O_WRONLY
    kind = {
        "w": os.O_CREAT | os.O_TRUNC,
        "x": os.O_CREAT | os.O_EXCL,
        "a": os.O_CREAT | os.O_APPEND,
    }
    return access | next((flags for letter, flags in kind.items() if letter in mode), 0)
