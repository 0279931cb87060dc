"""Linux's own guard against writing (Landlock, since 5.13): for code that opens files by itself.

https://docs.kernel.org/userspace-api/landlock.html; numbers as in include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Collection
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_MOVE_BETWEEN_FOLDERS, _MOVE_VERSION = 1 << 13, 2
_TRUNCATE, _TRUNCATE_VERSION = 1 << 14, 3
_BIND_AND_CONNECT_TCP, _NETWORK_VERSION = 0b11, 4


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def allow_writing_only_in(*paths: Path, network: bool = False) -> bool:
    """From now on and for good, in this process; ``False`` where the system can't.

    Args:
        paths: folders, or files that exist.
        network: leave TCP alone (it can be forbidden since Linux 6.7).
    """
    system = ctypes.CDLL(None, use_errno=True)
    version = system.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)
    if version < 1:
        return False
    to_files = _WRITE_FILE | (_TRUNCATE if version >= _TRUNCATE_VERSION else 0)
    changes = to_files | _REMOVE_AND_MAKE
    if version >= _MOVE_VERSION:  # before, nobody may
        changes |= _MOVE_BETWEEN_FOLDERS
    forbid_network = version >= _NETWORK_VERSION and not network
    ruleset = _Ruleset(changes, _BIND_AND_CONNECT_TCP if forbid_network else 0)
    size = ctypes.sizeof(ruleset) if version >= _NETWORK_VERSION else ctypes.sizeof(ctypes.c_uint64)
    descriptor = system.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    if descriptor < 0:
        return False
    try:
        _allow(system, descriptor, paths, changes, to_files)
        if system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(system.syscall(_RESTRICT_SELF, descriptor, 0) == 0)
    finally:
        os.close(descriptor)


def _allow(
    system: ctypes.CDLL, descriptor: int, paths: Collection[Path], changes: int, to_files: int
) -> None:
    for path in paths:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(parent).st_mode)
            rule = _Beneath(changes if is_folder else to_files, parent)
            system.syscall(_ADD_RULE, descriptor, _PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(parent)
