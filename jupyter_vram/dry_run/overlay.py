"""Python's file functions over a dry run's copies: what it writes, only its own process sees.

Whoever reads a path gets the copy if there is one. The removal of files that were there before has
no effect.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import pathlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from jupyter_vram.dry_run.copies import Copies
from jupyter_vram.dry_run.entries import Entries, Entry

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_READERS = (
    *("stat", "lstat", "access", "listdir", "scandir", "readlink"),
    *("getxattr", "listxattr"),
)
_CHANGERS = (
    *("mkdir", "rmdir", "remove", "unlink", "truncate", "utime", "chmod", "chown"),
    *("setxattr", "removexattr"),
)
_MOVERS = ("rename", "replace", "link", "symlink")


class Overlay:
    """Redirects Python's own file functions, for good."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
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
                self._set(name, self._once(self._system[name], wrap(name)))
        shutil.rmtree = self._once(self._rmtree, self._remove_tree)
        # Its files are removed by functions that it has bound: they had better be in our folder.
        temporary: Any = tempfile
        temporary._sanitize_params = self._temporary(temporary._sanitize_params)  # noqa: SLF001
        opened = self._once(self._open, self.open)
        for module in list(sys.modules.values()):
            names: Any = getattr(module, "__dict__", None)
            if isinstance(names, dict):
                for name in ("open", "io_open"):
                    if names.get(name) is self._open:
                        names[name] = opened
        for holder in _holders():
            if "open" in vars(holder):
                holder.open = staticmethod(opened)

    def _set(self, name: str, function: Callable[..., Any]) -> None:
        setattr(os, name, function)
        for holder in _holders():
            if name in vars(holder):
                setattr(holder, name, staticmethod(function))

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

    def open(
        self, file: Any, mode: str = "r", *args: Any, opener: Any = None, **kwargs: Any
    ) -> Any:
        """`open`: of copies, where it is for writing."""
        if isinstance(file, int):
            return self._open(file, mode, *args, opener=opener, **kwargs)
        changes = set(mode) & set("wax+")
        if opener is not None:
            if not changes or self._copies.is_free(file):
                return self._open(file, mode, *args, opener=opener, **kwargs)
            self._inside.is_set = False  # it may well use os.open
            try:
                descriptor = opener(file, _flags(mode))
            finally:
                self._inside.is_set = True
            return self._open(descriptor, mode, *args, **kwargs)
        if not changes:
            return self._open(self._copies.readable(file), mode, *args, **kwargs)
        if not self._copies.is_stood_in_for(file):
            return self._open(file, mode, *args, **kwargs)
        if "x" in mode and (os.path.lexists(file) or self._copies.copy_of(file).exists()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(file))
        copy = self._copies.writable(
            file, emptied="w" in mode, extended="a" in mode and "+" not in mode
        )
        return self._open(copy, mode, *args, **kwargs)

    def _opening(self, _: str) -> Callable[..., Any]:
        system = self._system["open"]

        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
            if dir_fd is not None or isinstance(path, int):
                return system(path, flags, mode, dir_fd=dir_fd)
            if not flags & WRITES:
                return system(self._copies.readable(path), flags, mode)
            if not self._copies.is_stood_in_for(path):
                return system(path, flags, mode)
            if flags & os.O_EXCL and os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path))
            return system(
                self._copies.writable(path, emptied=bool(flags & os.O_TRUNC)), flags, mode
            )

        return opened

    def _reading(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def read(path: Any = None, *args: Any, **kwargs: Any) -> Any:
            if path is None:  # listdir()
                path = "."
            return system(self._copies.readable(path), *args, **kwargs)

        def listed(path: Any = None) -> Any:
            if isinstance(path, (int, bytes)) or not self._copies.exist:
                return read(path)
            copy = self._copies.copy_of(path if path is not None else ".")
            if not copy.is_dir():
                return read(path)
            there = list(system(path)) if os.path.isdir(path or ".") else []  # noqa: PTH112
            if name == "listdir":
                new = system(copy)
                return [*new, *(entry for entry in there if entry not in new)]
            entries: dict[str, Any] = {entry.name: entry for entry in there}
            entries.update((entry.name, Entry(entry, path or ".")) for entry in system(copy))
            return Entries(entries.values())

        return listed if name in ("listdir", "scandir") else read

    def _changing(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def changed(path: Any, *args: Any, **kwargs: Any) -> Any:
            if (
                isinstance(path, int)
                or kwargs.get("dir_fd") is not None
                or self._copies.is_free(path)
            ):
                return system(path, *args, **kwargs)
            copy = self._copies.copy_of(path)
            if name == "mkdir":
                if os.path.lexists(path) or copy.exists():
                    raise FileExistsError(
                        errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(path)
                    )
                self._copies.make_room(path, copy)
            elif not copy.exists():
                if not os.path.lexists(path):
                    raise FileNotFoundError(
                        errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path)
                    )
                self._copies.note(os.fsdecode(path), name)
                return None
            return system(copy, *args, **kwargs)

        return changed

    def _moving(self, name: str) -> Callable[..., Any]:
        system = self._system[name]

        def moved(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if any(kwargs.get(key) is not None for key in ("src_dir_fd", "dst_dir_fd", "dir_fd")):
                return system(source, target, *args, **kwargs)
            own = name == "symlink" or self._copies.is_free(source)
            found = source if own else self._copies.readable(source)
            if not own and found == source:
                if not os.path.lexists(source):
                    raise FileNotFoundError(
                        errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(source)
                    )
                self._copies.note(os.fsdecode(source), name)
                return None
            if not self._copies.is_free(target):
                copy = self._copies.copy_of(target)
                self._copies.make_room(target, copy)
                self._copies.note(os.fsdecode(target), "written")
                target = copy
            return system(found, target, *args, **kwargs)

        return moved

    def _temporary(self, choose: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(prefix: Any, suffix: Any, folder: Any) -> Any:
            if folder is not None and not self._copies.is_free(folder):
                folder = (
                    os.fsencode(self._copies.folder)
                    if isinstance(folder, bytes)
                    else self._copies.folder
                )
            return choose(prefix, suffix, os.fspath(folder) if folder is not None else None)

        return chosen

    def _remove_tree(self, path: Any, *args: Any, **kwargs: Any) -> Any:
        if self._copies.is_free(path):
            return self._rmtree(path, *args, **kwargs)
        copy = self._copies.copy_of(path)
        if copy.exists():
            self._rmtree(copy, *args, **kwargs)
        if os.path.lexists(path):
            self._copies.note(os.fsdecode(path), "rmtree")
        return None


def _holders() -> list[Any]:
    """Classes of the standard library that have bound functions of `os` (Python 3.10, 3.13)."""
    known = ((pathlib, "_NormalAccessor"), (glob, "_Globber"), (glob, "_StringGlobber"))
    return [getattr(module, name) for module, name in known if hasattr(module, name)]


def _flags(mode: str) -> int:
    access = os.O_RDWR if "+" in mode else os.O_WRONLY
    kind = {
        "w": os.O_CREAT | os.O_TRUNC,
        "x": os.O_CREAT | os.O_EXCL,
        "a": os.O_CREAT | os.O_APPEND,
    }
    return access | next((flags for letter, flags in kind.items() if letter in mode), 0)
