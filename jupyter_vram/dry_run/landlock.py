"""Linux's own guard against writing (Landlock, since 5.13): for code that opens files by itself.

https://docs.kernel.org/userspace-api/landlock.html; numbers as in include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_CHANGES = _WRITE_FILE | _REMOVE_AND_MAKE


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def allow_writing_only_in(*folders: Path) -> bool:
    """From now on and for good, in this process; ``False`` where the system can't."""
    system = ctypes.CDLL(None, use_errno=True)
    ruleset = _Ruleset(_CHANGES)
    descriptor = system.syscall(
        _CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), 0
    )
    if descriptor < 0:
        return False
    try:
        for folder in folders:
            parent = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = _Beneath(_CHANGES, parent)
                system.syscall(_ADD_RULE, descriptor, _PATH_BENEATH, ctypes.byref(rule), 0)
            finally:
                os.close(parent)
        if system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(system.syscall(_RESTRICT_SELF, descriptor, 0) == 0)
    finally:
        os.close(descriptor)
