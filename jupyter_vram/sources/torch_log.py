"""torch's C++ log while a recording runs: quiet about what is no news to us.

At every thousandth free of a block that it has not seen come, and at the first, the CPU allocator
logs a warning to stderr, and a kernel shows that beneath the user's cell. The level can be set by
an environment variable before torch is imported only; so it is set where torch keeps it.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

ERROR = 2
"""c10's level; below it are warnings (1) and information (0)."""
_SYMBOL = "FLAGS_caffe2_log_level"
_LIBRARIES = ("libc10.so", "libc10.dylib", "c10.dll")

_before: int | None = None
"""The level that was, while ours is set."""


def hush() -> None:
    """Let nothing below an error be logged, until `restore`. Where torch hides the level, nothing
    happens."""
    global _before
    level = _level()
    if level is not None and _before is None and 0 <= level.value < ERROR:
        _before, level.value = level.value, ERROR


def restore() -> None:
    """As it was before `hush`, unless somebody has set another level meanwhile."""
    global _before
    level, before = _level(), _before
    _before = None
    if level is not None and before is not None and level.value == ERROR:
        level.value = before


def _level() -> ctypes.c_int | None:
    torch = sys.modules.get("torch")
    origin = getattr(torch, "__file__", None)
    if origin is None:
        return None
    folder = Path(origin).parent / "lib"
    for name in _LIBRARIES:
        if (folder / name).exists():
            with suppress(OSError, ValueError):
                # It is loaded already: this only finds it.
                return ctypes.c_int.in_dll(ctypes.CDLL(str(folder / name)), _SYMBOL)
    return None
