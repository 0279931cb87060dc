"""What a forked child shares with its parent: open files, sockets, pipes.

A descriptor of a fork has one position with its parent's, and a socket has one stream.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import suppress


def cut_descriptors(keep: Collection[int]) -> None:
    """From now on they are this process's own: to read a file moves nothing of the parent's, to
    write to one has no effect. Devices and files in memory (``memfd``) stay as they are.

    Args:
        keep: descriptors that are left alone.
    """
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = int(name)
        if descriptor in keep:
            continue
        with suppress(OSError):
            _cut(descriptor)


def _cut(descriptor: int) -> None:
    kind = os.fstat(descriptor).st_mode
    target = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    if stat.S_ISREG(kind) and not target.startswith("/memfd:"):
        _reopen(descriptor)
    elif stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind):
        _replace(descriptor, os.open(os.devnull, os.O_RDWR))


def _reopen(descriptor: int) -> None:
    """The same file at the same place, for reading; written, it swallows everything."""
    import fcntl  # not on Windows

    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    if access == os.O_WRONLY:
        _replace(descriptor, os.open(os.devnull, os.O_WRONLY))
        return
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    os.lseek(own, position, os.SEEK_SET)
    _replace(descriptor, own)


def _replace(descriptor: int, by: int) -> None:
    os.dup2(by, descriptor, inheritable=os.get_inheritable(descriptor))
    os.close(by)
